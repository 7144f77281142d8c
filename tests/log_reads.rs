//! The log: every offset, while it is written and across its cap, on disks that fail and on disks that stand still.
#![cfg(test)]

use std::{io, time::Duration};

use procession_actors::{
    error::ReadLogError,
    log::FEED_BYTES,
    report::{LogPage, LogQuery, PollQuery},
    session::{LOG_OPEN_BOUND, LOG_STALL_BOUND},
};
use procession_core::{Field, StreamId, session::LOG_CLOSE_BOUND};
use procession_testkit::{FaultyStorage, Harness, HarnessSession, Operation, fixture};
use proptest::prelude::*;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn pattern(from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes)
        .map(|offset| u8::try_from(offset % 251).unwrap())
        .collect()
}

async fn page(session: &HarnessSession, offset: u64, max_bytes: u64) -> LogPage {
    session
        .client
        .read_log(session.id, fixture::log_page(offset, max_bytes))
        .await
        .unwrap()
}

fn text(page: &LogPage) -> Vec<u8> {
    page.runs.iter().flat_map(|run| run.bytes.to_vec()).collect()
}

/// All that is kept, with the bytes that are missing.
async fn whole(session: &HarnessSession) -> (Vec<u8>, u64) {
    let (mut offset, mut bytes, mut missing) = (0, Vec::new(), 0);
    loop {
        let page = page(session, offset, 100_000).await;
        missing += page.gap.map_or(0, |gap| gap.to - gap.from);
        bytes.extend(text(&page));
        if page.at_end {
            return (bytes, missing);
        }
        assert!(page.next_offset > offset, "no progress at {offset}");
        offset = page.next_offset;
    }
}

async fn on(storage: &FaultyStorage) -> Harness {
    Harness::builder().storage(storage.clone()).start().await
}

#[tokio::test(start_paused = true)]
async fn what_was_written_a_moment_ago_is_read_at_every_offset_while_more_comes() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let mut written = 0;
    for round in 0..60 {
        let bytes = 1 + round * 37 % 400;
        session
            .process
            .emit(StreamId::ALL[round % 2], pattern(written, bytes));
        harness.settle().await;
        written += bytes;
        for offset in [0, written / 3, written / 2, written - 1] {
            let read = text(&page(&session, offset as u64, 1_000).await);
            let expected = pattern(offset, (written - offset).min(1_000));
            assert_eq!(read, expected, "round {round}, offset {offset}");
        }
    }
    session.process.exit(0);
    session.outcome().await;
    assert_eq!(whole(&session).await, (pattern(0, written), 0));
}

#[tokio::test(start_paused = true)]
async fn one_stream_alone_and_the_end_can_be_read() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    for _ in 0..10 {
        session.process.emit(StreamId::Stdout, "out");
        session.process.emit(StreamId::Stderr, "error");
        harness.settle().await;
    }
    for (stream, word) in [(StreamId::Stdout, "out"), (StreamId::Stderr, "error")] {
        let query = LogQuery {
            offset: 0,
            max_bytes: 1_000,
            stream: Some(stream),
        };
        let page = session.client.read_log(session.id, query).await.unwrap();
        assert_eq!(text(&page), word.repeat(10).as_bytes());
        assert!(page.runs.iter().all(|run| run.stream == stream));
    }
    let end = page(&session, 80, 10).await;
    assert!(end.at_end && !end.beyond_end && end.runs.is_empty());
    let beyond = page(&session, 81, 10).await;
    assert!(beyond.beyond_end && beyond.runs.is_empty());
    assert_eq!(page(&session, u64::MAX, u64::MAX).await.total_bytes, 80);
}

#[tokio::test(start_paused = true)]
async fn across_the_cap_the_head_and_the_tail_stay_and_the_gap_is_exact() {
    for mode in ["rolling", "keep_head"] {
        let harness = Harness::start().await;
        let spec = fixture::spec()
            .limit(Field::LogBytes, 256_u64 << 10)
            .limit(Field::LogMode, mode);
        let session = harness.start_session(spec).await;
        let total = 2 << 20;
        for from in (0..total).step_by(32 << 10) {
            session.process.emit(StreamId::Stdout, pattern(from, 32 << 10));
            harness.settle().await;
            // Somebody reads all the while, at the end and at the beginning.
            let read = page(&session, from as u64, 100).await;
            assert!(
                text(&read).is_empty() || text(&read) == pattern(from, 100),
                "{mode} at {from}"
            );
            assert_eq!(text(&page(&session, 0, 100).await), pattern(0, 100));
        }
        session.process.exit(0);
        let log = session.until_ended().await.log;
        assert_eq!(
            (log.total_bytes, log.kept_bytes + log.dropped_bytes),
            (total as u64, total as u64),
            "{mode}"
        );
        assert!(log.kept_bytes <= 256 << 10 && log.incomplete.is_some(), "{mode}");
        let (kept, missing) = whole(&session).await;
        assert_eq!(
            (kept.len() as u64, missing),
            (log.kept_bytes, log.dropped_bytes),
            "{mode}"
        );
        let gap = page(&session, log.incomplete.unwrap().from_offset, 10).await;
        assert!(gap.gap.is_some(), "{mode}");
        let tail = page(&session, total as u64 - 100, 100).await;
        assert_eq!(
            text(&tail) == pattern(total - 100, 100),
            mode == "rolling",
            "{mode}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_stands_still_stops_the_reading_for_a_bound_and_then_the_log() {
    let storage = FaultyStorage::in_memory();
    let harness = on(&storage).await;
    let session = harness.start_session(fixture::spec()).await;
    let hold = storage.hold(Operation::Write);
    let piece = 256 << 10;
    let total: usize = 6 << 20;
    for from in (0..total).step_by(piece) {
        session.process.emit(StreamId::Stdout, pattern(from, piece));
        harness.settle().await;
    }
    hold.reached().await;
    let read = session.process.read_bytes(StreamId::Stdout);
    assert!(
        read < (FEED_BYTES + FEED_BYTES + piece) as u64,
        "{read} bytes wait in memory for a disk"
    );
    // Everything else goes on meanwhile.
    let began = Instant::now();
    assert!(session.poll(PollQuery::now()).await.omitted_bytes() > 0);
    session.inspect().await;
    let other = harness
        .start_session_as("bob", fixture::spec().limit(Field::LogMode, "off"))
        .await;
    other.process.emit(StreamId::Stdout, "x");
    assert_eq!(other.poll(fixture::long_poll()).await.stdout, "x");
    assert_eq!(began.elapsed(), Duration::ZERO);
    // The bound is over: the session goes on without its log.
    harness.jump(LOG_STALL_BOUND).await;
    harness.jump(Duration::from_millis(1)).await;
    assert_eq!(session.process.read_bytes(StreamId::Stdout), total as u64);
    session.process.exit(0);
    harness.settle().await;
    harness.jump(LOG_CLOSE_BOUND).await;
    harness.jump(Duration::from_millis(1)).await;
    let report = session.until_ended().await;
    assert_eq!(report.outcome.unwrap().output_bytes, total as u64);
    assert!(!report.log.is_complete());
    drop(hold);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_goes_on_in_time_loses_nothing() {
    let storage = FaultyStorage::in_memory();
    let harness = on(&storage).await;
    let session = harness.start_session(fixture::spec()).await;
    let hold = storage.hold(Operation::Write);
    let total = 3 << 20;
    session.process.emit(StreamId::Stdout, pattern(0, total));
    hold.reached().await;
    harness.jump(LOG_STALL_BOUND / 2).await;
    drop(hold);
    harness.advance(SECOND).await;
    session.process.exit(0);
    assert!(session.until_ended().await.log.is_complete());
    assert_eq!(whole(&session).await, (pattern(0, total), 0));
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_stands_still_at_the_beginning_costs_a_start_a_bound() {
    let storage = FaultyStorage::in_memory();
    let harness = on(&storage).await;
    let hold = storage.hold(Operation::Create);
    let start = tokio::spawn({
        let client = harness.client("alice");
        async move { client.start(fixture::spec()).await }
    });
    hold.reached().await;
    assert!(!start.is_finished());
    harness.jump(LOG_OPEN_BOUND).await;
    harness.jump(Duration::from_millis(1)).await;
    let session = harness.session(harness.client("alice"), start.await.unwrap().unwrap());
    session.process.emit(StreamId::Stdout, "unlogged");
    session.process.exit(0);
    let report = session.until_ended().await;
    assert_eq!(
        (report.stdout.as_str(), report.log.is_complete()),
        ("unlogged", false)
    );
    drop(hold);
    // The log that came too late is gone again, and the next session logs.
    harness.advance(SECOND).await;
    let log = session
        .client
        .read_log(session.id, fixture::log_page(0, 10))
        .await;
    assert_eq!(log, Err(ReadLogError::NoLog));
    let next = harness.start_session(fixture::spec()).await;
    next.process.exit(0);
    assert!(next.until_ended().await.log.is_complete());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_made_is_said_so_and_the_session_runs() {
    for kind in [
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::StorageFull,
        io::ErrorKind::NotFound,
    ] {
        let storage = FaultyStorage::in_memory();
        let harness = on(&storage).await;
        storage.fail(Operation::Create, kind);
        let session = harness.start_session(fixture::spec()).await;
        session.process.emit(StreamId::Stdout, "unlogged");
        session.process.exit(0);
        let report = session.until_ended().await;
        assert_eq!(report.stdout, "unlogged");
        let incomplete = report.log.incomplete.unwrap();
        assert_eq!(
            (incomplete.from_offset, report.log.dropped_bytes),
            (0, 8),
            "{kind:?}"
        );
        assert!(!incomplete.reason.is_empty());
        storage.heal();
        let next = harness.start_session(fixture::spec()).await;
        next.process.exit(0);
        assert!(next.until_ended().await.log.is_complete(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_full_ends_the_log_not_the_session_and_what_fits_can_be_read() {
    let storage = FaultyStorage::in_memory();
    let harness = on(&storage).await;
    storage.full_from(300_000);
    let session = harness.start_session(fixture::spec()).await;
    for from in (0..2_000_000).step_by(50_000) {
        session.process.emit(StreamId::Stdout, pattern(from, 50_000));
        harness.advance(Duration::from_millis(10)).await;
    }
    assert_eq!(session.process.read_bytes(StreamId::Stdout), 2_000_000);
    session.process.exit(0);
    let report = session.until_ended().await;
    let log = report.log;
    assert_eq!(
        (log.total_bytes, log.kept_bytes + log.dropped_bytes),
        (2_000_000, 2_000_000)
    );
    assert!(log.kept_bytes > 100_000 && log.kept_bytes < 300_000, "{log:?}");
    assert_eq!(log.incomplete.as_ref().unwrap().from_offset, log.kept_bytes);
    let kept = usize::try_from(log.kept_bytes).unwrap();
    assert_eq!(whole(&session).await, (pattern(0, kept), log.dropped_bytes));
    assert_eq!(report.outcome.unwrap().output_bytes, 2_000_000);
}

#[tokio::test(start_paused = true)]
async fn short_writes_lose_nothing() {
    let storage = FaultyStorage::in_memory();
    let harness = on(&storage).await;
    storage.short_writes(7);
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, pattern(0, 20_000));
    session.process.exit(0);
    assert!(session.until_ended().await.log.is_complete());
    assert_eq!(whole(&session).await, (pattern(0, 20_000), 0));
}

#[tokio::test(start_paused = true)]
async fn each_write_in_turn_fails_and_what_is_called_kept_is_there() {
    for number in 0..12 {
        let storage = FaultyStorage::in_memory();
        let harness = on(&storage).await;
        storage.fail_write(number, io::ErrorKind::Other);
        let session = harness.start_session(fixture::spec()).await;
        for from in (0..400_000).step_by(20_000) {
            session.process.emit(StreamId::Stdout, pattern(from, 20_000));
            harness.advance(Duration::from_millis(10)).await;
        }
        session.process.exit(0);
        let log = session.until_ended().await.log;
        assert_eq!(
            (log.total_bytes, log.kept_bytes + log.dropped_bytes),
            (400_000, 400_000),
            "write {number}"
        );
        if log.kept_bytes > 0 {
            let kept = usize::try_from(log.kept_bytes).unwrap();
            assert_eq!(
                whole(&session).await,
                (pattern(0, kept), log.dropped_bytes),
                "write {number}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_cannot_be_read_is_told_and_nothing_else_is_harmed() {
    let storage = FaultyStorage::in_memory();
    let harness = on(&storage).await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "unreadable");
    harness.advance(SECOND).await;
    storage.fail(Operation::Read, io::ErrorKind::Other);
    let log = session
        .client
        .read_log(session.id, fixture::log_page(0, 10))
        .await;
    assert!(matches!(log, Err(ReadLogError::Failed { .. })), "{log:?}");
    storage.heal();
    assert_eq!(text(&page(&session, 0, 100).await), b"unreadable");
    session.process.exit(0);
    assert!(session.until_ended().await.log.is_complete());
}

#[tokio::test(start_paused = true)]
async fn all_logs_together_have_a_bound() {
    let harness = Harness::builder()
        .storage(FaultyStorage::in_memory())
        .log_bounds(Some(1 << 20), None)
        .start()
        .await;
    let sessions = [
        harness.start_session(fixture::spec()).await,
        harness.start_session(fixture::spec()).await,
    ];
    for session in &sessions {
        session.process.emit(StreamId::Stdout, pattern(0, 900_000));
        harness.advance(SECOND).await;
        session.process.exit(0);
    }
    let [first, second] = [
        sessions[0].until_ended().await.log,
        sessions[1].until_ended().await.log,
    ];
    assert!(first.is_complete(), "{first:?}");
    assert!(!second.is_complete() && second.incomplete.unwrap().reason.contains("1048576"));
}

/// What happens to a log in the model.
#[derive(Debug, Clone)]
enum Move {
    Emit { stream: usize, bytes: usize },
    Read { at_permille: usize, max_bytes: usize },
    Pass,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => (0..2_usize, 1..3_000_usize).prop_map(|(stream, bytes)| Move::Emit { stream, bytes }),
        3 => (0..1_100_usize, 1..4_000_usize).prop_map(|(at_permille, max_bytes)| Move::Read { at_permille, max_bytes }),
        1 => Just(Move::Pass),
    ];
    proptest::collection::vec(one, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, fork: false, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_reads_like_one_long_string(moves in moves()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let harness = Harness::start().await;
            let session = harness.start_session(fixture::spec()).await;
            let mut model: Vec<u8> = Vec::new();
            for one in moves {
                match one {
                    Move::Emit { stream, bytes } => {
                        let bytes = pattern(model.len(), bytes);
                        session.process.emit(StreamId::ALL[stream], bytes.clone());
                        harness.settle().await;
                        model.extend(bytes);
                    }
                    Move::Read { at_permille, max_bytes } => {
                        let offset = model.len() * at_permille / 1_000;
                        let page = page(&session, offset as u64, max_bytes as u64).await;
                        let read = text(&page);
                        let rest = model.get(offset..).unwrap_or_default();
                        assert!(rest.starts_with(&read) && read.len() <= max_bytes);
                        assert_eq!(read.is_empty(), rest.is_empty());
                        // What waits is written first where the page needs it.
                        let written_bytes = usize::try_from(page.total_bytes).unwrap();
                        assert!(written_bytes <= model.len() && written_bytes >= offset.min(model.len()) + read.len());
                        assert!(read.len() == max_bytes || written_bytes == model.len());
                        assert_eq!(page.beyond_end, offset > model.len());
                    }
                    Move::Pass => harness.advance(SECOND).await,
                }
            }
            session.process.exit(0);
            let log = session.until_ended().await.log;
            assert!(log.is_complete());
            assert_eq!(whole(&session).await, (model, 0));
        });
    }
}
