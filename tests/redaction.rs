//! Secrets of the host: replaced wherever output goes, and held back no longer than they have to be.

use std::time::Duration;

use procession_actors::{
    SystemError,
    report::{Condition, LogPattern, LogSearch, PollQuery},
};
use procession_core::{
    Cause, Field, RequestedLimits, SessionSpec, StreamId, Value,
    redact::{MAX_SECRET_BYTES, MAX_SECRETS_BYTES_TOTAL, Secret, SecretError},
};
use procession_testkit::{Harness, HarnessSession, ScriptedPort, fixture};

const SECRET: &str = "sk-registered-77";

async fn harness() -> Harness {
    let secret = Secret::new(SECRET).expect("long enough");
    Harness::builder().secrets(vec![secret]).start().await
}

async fn log(session: &HarnessSession) -> String {
    let page = session
        .client
        .read_log(session.id, fixture::log_page(0, 1 << 20))
        .await
        .expect("there is a log");
    let bytes: Vec<u8> = page.runs.iter().flat_map(|run| run.bytes.to_vec()).collect();
    String::from_utf8(bytes).expect("text")
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_in_no_poll_no_read_and_no_log_wherever_it_was_cut() {
    for cut in 0..=SECRET.len() {
        let harness = harness().await;
        let session = harness.start_session(fixture::spec()).await;
        let (first, second) = SECRET.split_at(cut);
        session.process.emit(StreamId::Stdout, format!("tok={first}"));
        harness.settle().await;
        let early = session.poll(PollQuery::now()).await.stdout;
        assert_eq!(early, if cut == SECRET.len() { "tok=***" } else { "tok=" });
        // The process pauses in the middle.
        harness.advance(Duration::from_millis(200)).await;
        session
            .process
            .emit(StreamId::Stdout, format!("{second}\nDELIVERY done\n"));
        session.process.exit(0);
        let late = session.until_ended().await;
        assert_eq!(early + &late.stdout, "tok=***\nDELIVERY done\n", "cut at {cut}");
        assert_eq!(log(&session).await, "tok=***\nDELIVERY done\n");
        assert_eq!(
            late.log.total_bytes, 22,
            "offsets are those of the redacted output"
        );
        let inspection = session.inspect().await;
        assert_eq!((inspection.redactions, inspection.output_bytes.stdout), (1, 22));
        assert!(!format!("{inspection:?}").contains(SECRET));
    }
}

#[tokio::test(start_paused = true)]
async fn each_stream_is_looked_at_by_itself() {
    let harness = harness().await;
    let session = harness.start_session(fixture::spec()).await;
    let (first, second) = SECRET.split_at(5);
    session.process.emit(StreamId::Stdout, first);
    session.process.emit(StreamId::Stderr, SECRET);
    session.process.emit(StreamId::Stdout, second);
    session.process.exit(0);
    let report = session.until_ended().await;
    assert_eq!((report.stdout.as_str(), report.stderr.as_str()), ("***", "***"));
    assert_eq!(session.inspect().await.redactions, 2);
}

#[tokio::test(start_paused = true)]
async fn what_was_held_back_comes_out_at_the_end_of_its_stream() {
    let harness = harness().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "half: sk-reg");
    harness.settle().await;
    assert_eq!(session.poll(PollQuery::now()).await.stdout, "half: ");
    // A poll that waits is not answered with nothing, but with what the end of the stream set free.
    let (client, id) = (session.client.clone(), session.id);
    let waiting = tokio::spawn(async move { client.poll(id, fixture::long_poll()).await });
    harness.settle().await;
    session.process.close(StreamId::Stdout);
    let report = waiting.await.unwrap().unwrap();
    assert_eq!((report.stdout.as_str(), report.outcome), ("sk-reg", None));
    assert_eq!(log(&session).await, "half: sk-reg");
    assert_eq!(session.inspect().await.redactions, 0);
}

#[tokio::test(start_paused = true)]
async fn output_that_is_held_back_counts_against_the_idle_time() {
    let harness = harness().await;
    let mut limits = RequestedLimits::default();
    limits.insert(Field::IdleTime, Value::Number(1_000));
    let spec = SessionSpec {
        limits,
        ..fixture::spec()
    };
    let session = harness.start_session(spec).await;
    let mut letters = SECRET.chars();
    for letter in letters.by_ref().take(5) {
        harness.advance(Duration::from_millis(700)).await;
        session.process.emit(StreamId::Stdout, letter.to_string());
        harness.settle().await;
    }
    assert!(
        session.process.is_running(),
        "it wrote all the time, though nobody saw it"
    );
    let ended = session
        .client
        .wait(session.id, Condition::Ended, Duration::from_secs(60));
    let outcome = ended.await.unwrap().outcome.unwrap();
    assert_eq!(outcome.cause, Cause::IdleTimeout);
    assert_eq!(session.poll(PollQuery::now()).await.stdout, &SECRET[..5]);
}

#[tokio::test(start_paused = true)]
async fn a_search_of_the_log_does_not_find_a_secret() {
    let harness = harness().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, format!("a {SECRET} b\n"));
    harness.settle().await;
    let find = |pattern: &str| LogSearch {
        pattern: LogPattern::Literal(pattern.to_owned()),
        from_offset: 0,
        max_matches: 10,
        context_bytes: 10,
    };
    let client = &session.client;
    let found = client.search_log(session.id, find("registered")).await.unwrap();
    assert_eq!(found.matches, []);
    let found = client.search_log(session.id, find("***")).await.unwrap();
    assert_eq!(
        (found.matches.len(), &found.matches[0].text[..]),
        (1, &b"a *** b\n"[..])
    );
}

#[tokio::test(start_paused = true)]
async fn a_system_with_too_many_secrets_does_not_start() {
    let secret = Secret::new("x".repeat(MAX_SECRET_BYTES)).unwrap();
    let count = MAX_SECRETS_BYTES_TOTAL / MAX_SECRET_BYTES + 1;
    let port = std::sync::Arc::new(ScriptedPort::new());
    let builder = procession_actors::System::builder(port).secrets(vec![secret; count]);
    let error = builder.start().await.expect_err("refused");
    assert!(
        matches!(error, SystemError::Secrets(SecretError::TooManyBytes { .. })),
        "{error:?}"
    );
}
