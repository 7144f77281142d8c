//! A flood fills neither memory nor disk.
#![cfg(test)]

mod support;

use std::{fs, time::Duration};

use procession_actors::report::{Condition, PollQuery};
use procession_core::{Field, SessionSpec, Shell};
use procession_testkit::fixture;
use support::{Lifeline, builder, within};
use tempfile::TempDir;

const FLOOD_BYTES: u64 = 1 << 30;
/// What a session's stream keeps in memory, and what all around it may take.
const MAX_GROWTH_BYTES: u64 = (1 << 20) + (4 << 20);

fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Forgets the peak of the resident memory, so that the next one is that of what follows.
fn forget_peak() -> u64 {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    status_bytes("VmRSS:")
}

/// One test: the peak is that of the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gibibyte_takes_no_more_memory_than_the_capture_with_a_log_and_without() {
    let folder = TempDir::new().unwrap();
    let system = builder().log_dir(folder.path()).start().await.unwrap();
    let client = system.client(fixture::owner("alice"));
    let run = async |bytes: u64, log_mode: &str| {
        // Waits for a word, so that what a start takes is there before memory is looked at.
        let mut spec = SessionSpec::shell(Shell::Sh, format!("read line; exec head -c {bytes} /dev/zero"))
            .limit(Field::LogMode, log_mode)
            .limit(Field::LogBytes, 16_u64 << 20);
        spec.stdin = procession_core::spec::StdinMode::Piped;
        let started = client.start(spec).await.unwrap();
        let before = forget_peak();
        client
            .write(started.session, fixture::write("go\n", Duration::from_secs(10)))
            .await
            .unwrap();
        let ended = client.wait(started.session, Condition::Ended, Duration::from_secs(60));
        let outcome = within("the flood", ended).await.unwrap().outcome.unwrap();
        assert_eq!(
            (outcome.output_bytes, outcome.incomplete_output),
            (bytes, None),
            "{log_mode}"
        );
        let growth = status_bytes("VmHWM:").saturating_sub(before);
        let report = client.poll(started.session, PollQuery::now()).await.unwrap();
        assert_eq!(
            report.omitted_bytes() + report.stdout.matches('\0').count() as u64,
            bytes,
            "{log_mode}"
        );
        growth
    };
    for log_mode in ["off", "rolling"] {
        run(8 << 20, log_mode).await;
        let growth = run(FLOOD_BYTES, log_mode).await;
        assert!(growth <= MAX_GROWTH_BYTES, "{log_mode}: {growth} bytes more");
    }
    system.shutdown(None, Duration::from_secs(10)).await;
    let on_disk: u64 = fs::read_dir(folder.path())
        .unwrap()
        .flat_map(|log| fs::read_dir(log.unwrap().path()).unwrap())
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(on_disk <= 4 * (16 << 20), "{on_disk} bytes of logs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooding_session_answers_and_stops_at_once() {
    let folder = TempDir::new().unwrap();
    let system = builder().start().await.unwrap();
    let client = system.client(fixture::owner("alice"));
    let mut lifeline = Lifeline::new(folder.path(), "lifeline");
    let spec =
        SessionSpec::shell(Shell::Sh, lifeline.hold() + "exec cat /dev/zero").limit(Field::LogMode, "off");
    let started = client.start(spec).await.unwrap();
    lifeline.held().await;
    for _ in 0..100 {
        let report = within("a poll", client.poll(started.session, fixture::long_poll()))
            .await
            .unwrap();
        assert!(report.outcome.is_none());
    }
    let stop = client.stop(
        started.session,
        fixture::stop(procession_actors::report::Ladder::Ask),
    );
    assert!(within("a stop", stop).await.unwrap().outcome.is_some());
    lifeline.cut().await;
}
