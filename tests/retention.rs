//! How long an ended session is kept, and that all of it goes with it.
#![cfg(test)]

use std::{io, path::Path, sync::Arc, time::Duration};

use procession_actors::{
    error::{CallError, ReadLogError},
    report::{Ladder, ListFilter, PollQuery},
};
use procession_core::{Field, Leftovers, SessionSpec, StreamId};
use procession_log_store::{MemoryStorage, Storage};
use procession_testkit::{Descendant, FaultyStorage, Harness, Operation, fixture};
use ractor::ActorStatus;

const SECOND: Duration = Duration::from_secs(1);

fn logs(storage: &MemoryStorage) -> usize {
    match storage.list(Path::new("/logs"), 1_000) {
        Ok(listed) => listed.len(),
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            0
        }
    }
}

async fn on_memory() -> (Harness, MemoryStorage) {
    let storage = MemoryStorage::new();
    let harness = Harness::builder()
        .storage(FaultyStorage::new(Arc::new(storage.clone())))
        .start()
        .await;
    (harness, storage)
}

#[tokio::test(start_paused = true)]
async fn a_seen_end_is_kept_for_the_retention_and_then_everything_of_it_goes_by_itself() {
    let (harness, storage) = on_memory().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "kept for a while");
    session.process.exit(0);
    let outcome = session.outcome().await;
    let actor = harness.session_actor(session.id);
    harness.advance(299 * SECOND).await;
    assert_eq!(session.poll(PollQuery::now()).await.outcome, Some(outcome));
    assert_eq!((logs(&storage), actor.get_status()), (1, ActorStatus::Running));
    // Nobody asks for anything any more.
    harness.advance(2 * SECOND).await;
    assert_eq!((logs(&storage), actor.get_status()), (0, ActorStatus::Stopped));
    assert_eq!(session.client.list(ListFilter::All).await, Ok(Vec::new()));
    assert_eq!(
        session.client.poll(session.id, PollQuery::now()).await,
        Err(CallError::Gone.into())
    );
    let log = session
        .client
        .read_log(session.id, fixture::log_page(0, 10))
        .await;
    assert_eq!(log, Err(ReadLogError::Call(CallError::Gone)));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_nobody_saw_is_kept_for_three_retentions() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.exit(0);
    harness.advance(899 * SECOND).await;
    assert_eq!(
        session.client.list(ListFilter::All).await.unwrap().len(),
        1,
        "a list is no look at the end"
    );
    harness.advance(2 * SECOND).await;
    assert_eq!(session.client.list(ListFilter::All).await, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn who_sees_the_end_late_has_a_quarter_of_the_retention_to_read_the_rest() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.exit(0);
    harness.advance(400 * SECOND).await;
    session.outcome().await;
    harness.advance(74 * SECOND).await;
    assert!(session.client.inspect(session.id).await.is_ok());
    harness.advance(2 * SECOND).await;
    assert_eq!(
        session.client.inspect(session.id).await,
        Err(CallError::Gone.into())
    );
}

#[tokio::test(start_paused = true)]
async fn every_answer_that_tells_the_outcome_is_a_look_at_the_end() {
    for look in 0..6 {
        let harness = Harness::start().await;
        let session = harness.start_session(fixture::spec()).await;
        session.process.exit(0);
        harness.advance(SECOND).await;
        let (client, id) = (&session.client, session.id);
        match look {
            0 => drop(client.poll(id, PollQuery::now()).await.unwrap()),
            1 => drop(client.read_output(id, fixture::read_all()).await.unwrap()),
            2 => drop(client.inspect(id).await.unwrap()),
            3 => drop(client.stop(id, fixture::stop(Ladder::Ask)).await.unwrap()),
            4 => drop(session.outcome().await),
            _ => {
                // Somebody who waited when it came.
                let other = harness.start_session(fixture::spec()).await;
                let poll = tokio::spawn({
                    let other = other.clone();
                    async move { other.poll(fixture::long_poll()).await }
                });
                harness.settle().await;
                other.process.exit(0);
                poll.await.unwrap();
                harness.advance(301 * SECOND).await;
                assert_eq!(client.inspect(other.id).await, Err(CallError::Gone.into()));
                continue;
            }
        }
        harness.advance(301 * SECOND).await;
        assert_eq!(
            client.inspect(id).await,
            Err(CallError::Gone.into()),
            "look {look}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_retention_can_be_asked_for() {
    for (millis, kept) in [(0_u64, 0), (10_000, 10), (u64::MAX, 24 * 3_600)] {
        let harness = Harness::start().await;
        let session = harness
            .start_session(fixture::spec().limit(Field::Retention, millis))
            .await;
        session.process.exit(0);
        session.outcome().await;
        if kept > 0 {
            harness.advance((kept - 1) * SECOND).await;
            assert!(session.client.inspect(session.id).await.is_ok(), "{millis} ms");
        }
        harness.advance(2 * SECOND).await;
        assert_eq!(
            session.client.inspect(session.id).await,
            Err(CallError::Gone.into()),
            "{millis} ms"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_session_is_never_pruned() {
    let harness = Harness::start().await;
    let spec = fixture::spec()
        .limit(Field::WallTime, 86_400_000_u64)
        .limit(Field::Retention, 0_u64);
    let session = harness.start_session(spec).await;
    harness.advance(86_000 * SECOND).await;
    assert!(session.process.is_running());
    assert!(session.client.inspect(session.id).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_a_session_kept_goes_with_its_retention() {
    let harness = Harness::start().await;
    let spec = SessionSpec {
        leftovers: Some(Leftovers::Keep),
        ..fixture::spec()
    };
    let session = harness.start_session(spec).await;
    session.process.fork(Descendant::new(7).holding_output());
    session.process.exit(0);
    let outcome = session.outcome().await;
    assert_eq!(outcome.residual_pids, [7]);
    harness.advance(299 * SECOND).await;
    assert_eq!(session.process.descendants(), [7]);
    harness.advance(2 * SECOND).await;
    assert!(session.process.was_killed());
    assert_eq!(session.process.descendants(), []);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_under_way_is_answered_when_its_log_is_pruned() {
    let storage = FaultyStorage::in_memory();
    let harness = Harness::builder().storage(storage.clone()).start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "read to the end");
    session.process.exit(0);
    session.outcome().await;
    harness.advance(299 * SECOND).await;
    let hold = storage.hold(Operation::Read);
    let read = tokio::spawn({
        let session = session.clone();
        async move {
            session
                .client
                .read_log(session.id, fixture::log_page(0, 100))
                .await
        }
    });
    hold.reached().await;
    harness.jump(2 * SECOND).await;
    drop(hold);
    let answer = read.await.unwrap();
    let is_whole = answer
        .as_ref()
        .is_ok_and(|page| &page.runs[0].bytes[..] == b"read to the end");
    let is_gone = matches!(
        &answer,
        Err(ReadLogError::Call(CallError::Gone) | ReadLogError::NoLog)
    );
    assert!(is_whole || is_gone, "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_could_not_be_removed_keeps_nobody_from_anything() {
    let storage = FaultyStorage::in_memory();
    let harness = Harness::builder().storage(storage.clone()).start().await;
    storage.fail(Operation::Remove, io::ErrorKind::PermissionDenied);
    let session = harness.start_session(fixture::spec()).await;
    session.process.exit(0);
    session.outcome().await;
    harness.advance(301 * SECOND).await;
    assert_eq!(
        session.client.inspect(session.id).await,
        Err(CallError::Gone.into())
    );
    let next = harness.start_session(fixture::spec()).await;
    next.process.exit(0);
    assert!(next.until_ended().await.log.is_complete());
}
