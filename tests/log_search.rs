//! Searching a session's log through the façade.

use procession_actors::{
    error::{CallError, SearchLogError},
    log::SEARCH_BYTES,
    report::{LogMatches, LogPattern, LogSearch},
};
use procession_core::{Field, RequestedLimits, SessionSpec, StreamId, Value};
use procession_testkit::{Harness, HarnessSession, fixture};

fn literal(text: &str) -> LogSearch {
    LogSearch {
        pattern: LogPattern::Literal(text.to_owned()),
        from_offset: 0,
        max_matches: 100,
        context_bytes: 4,
    }
}

fn regex(pattern: &str) -> LogSearch {
    LogSearch {
        pattern: LogPattern::Regex(pattern.to_owned()),
        ..literal("")
    }
}

async fn search(session: &HarnessSession, search: LogSearch) -> LogMatches {
    let answer = session.client.search_log(session.id, search).await;
    answer.expect("there is a log")
}

#[tokio::test(start_paused = true)]
async fn what_was_written_a_moment_ago_is_found_with_its_place() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "first error here\n");
    harness.settle().await;
    session.process.emit(StreamId::Stderr, "error: second\n");
    harness.settle().await;
    let found = search(&session, literal("error")).await;
    let places: Vec<_> = found
        .matches
        .iter()
        .map(|found| (found.offset, found.stream, &found.text[found.range.clone()]))
        .collect();
    assert_eq!(
        places,
        [
            (6, StreamId::Stdout, &b"error"[..]),
            (17, StreamId::Stderr, b"error")
        ]
    );
    assert_eq!(found.matches[0].text, "rst error her");
    assert!(found.at_end);
    // What comes later is found from there on.
    session.process.emit(StreamId::Stdout, "third error\n");
    session.process.exit(1);
    session.outcome().await;
    let from_offset = found.next_offset;
    let found = search(
        &session,
        LogSearch {
            from_offset,
            ..regex("^third (\\w+)$")
        },
    )
    .await;
    assert_eq!((found.matches.len(), found.matches[0].offset), (1, 31));
}

#[tokio::test(start_paused = true)]
async fn a_search_goes_on_where_it_stopped() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "x".repeat(10));
    session.process.exit(0);
    session.outcome().await;
    let (mut offsets, mut from_offset) = (Vec::new(), 0);
    loop {
        let found = search(
            &session,
            LogSearch {
                from_offset,
                max_matches: 3,
                ..literal("x")
            },
        )
        .await;
        assert!(found.matches.len() <= 3);
        offsets.extend(found.matches.iter().map(|found| found.offset));
        from_offset = found.next_offset;
        if found.at_end {
            break;
        }
    }
    assert_eq!(offsets, (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn one_search_looks_through_so_much_and_no_more() {
    let harness = Harness::start().await;
    let mut limits = RequestedLimits::default();
    limits.insert(Field::LogBytes, Value::Number(64 << 20));
    let spec = SessionSpec {
        limits,
        ..fixture::spec()
    };
    let session = harness.start_session(spec).await;
    let mebibyte = "-".repeat(1 << 20);
    let bytes = SEARCH_BYTES + (2 << 20);
    for _ in 0..bytes >> 20 {
        session.process.emit(StreamId::Stdout, mebibyte.clone());
        harness.settle().await;
    }
    session.process.emit(StreamId::Stdout, "needle");
    session.process.exit(0);
    session.outcome().await;
    let found = search(&session, literal("needle")).await;
    assert_eq!(found.matches, []);
    assert!(!found.at_end && found.next_offset <= SEARCH_BYTES, "{found:?}");
    let from_offset = found.next_offset;
    let found = search(
        &session,
        LogSearch {
            from_offset,
            ..literal("needle")
        },
    )
    .await;
    assert_eq!((found.matches.len(), found.matches[0].offset), (1, bytes));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_searched_is_refused_for_its_reason() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let client = &session.client;
    for pattern in [regex("("), literal(""), literal(&"x".repeat(5_000))] {
        let refused = client.search_log(session.id, pattern).await;
        assert!(
            matches!(&refused, Err(SearchLogError::BadPattern { reason }) if !reason.is_empty() && !reason.contains('\n')),
            "{refused:?}"
        );
    }
    let foreign = harness.client("somebody else");
    let refused = foreign.search_log(session.id, literal("x")).await;
    let unknown = foreign.search_log(fixture::session_id(7), literal("x")).await;
    assert_eq!(refused, Err(SearchLogError::Call(CallError::NotFound)));
    assert_eq!(refused, unknown);

    let mut limits = RequestedLimits::default();
    limits.insert(Field::LogMode, Value::from("off"));
    let spec = SessionSpec {
        limits,
        ..fixture::spec()
    };
    let session = harness.start_session(spec).await;
    let refused = session.client.search_log(session.id, literal("x")).await;
    assert_eq!(refused, Err(SearchLogError::NoLog));
}
