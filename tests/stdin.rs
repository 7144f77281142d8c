//! Writing: whole, in order, told to the byte, and nobody waits but the caller.
#![cfg(test)]

use std::time::Duration;

use procession_actors::{
    error::{CloseStdinError, WriteError},
    report::{Ladder, ListFilter, PollQuery, WriteEnd, WriteRequest, Written},
};
use procession_core::{Cause, Field};
use procession_testkit::{Harness, HarnessSession, fixture};
use tokio::{task::JoinHandle, time::Instant};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn spawn_write(session: &HarnessSession, request: WriteRequest) -> JoinHandle<Result<Written, WriteError>> {
    let session = session.clone();
    tokio::spawn(async move { session.client.write(session.id, request).await })
}

async fn write(session: &HarnessSession, request: WriteRequest) -> Result<Written, WriteError> {
    session.client.write(session.id, request).await
}

const fn complete(accepted_bytes: u64) -> Written {
    Written {
        accepted_bytes,
        end: WriteEnd::Complete,
    }
}

const fn timed_out(accepted_bytes: u64) -> Written {
    Written {
        accepted_bytes,
        end: WriteEnd::TimedOut,
    }
}

async fn piped() -> (Harness, HarnessSession) {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::piped_spec()).await;
    (harness, session)
}

#[tokio::test(start_paused = true)]
async fn who_asked_for_no_input_has_none() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    assert_eq!(
        write(&session, fixture::write("x", SECOND)).await,
        Err(WriteError::NoStdin)
    );
    assert_eq!(
        session.client.close_stdin(session.id).await,
        Err(CloseStdinError::NoStdin)
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_as_they_are() {
    let (_harness, session) = piped().await;
    let input: Vec<u8> = (0..=255).collect();
    assert_eq!(
        write(&session, fixture::write(input.clone(), SECOND)).await,
        Ok(complete(256))
    );
    assert_eq!(write(&session, fixture::write("", SECOND)).await, Ok(complete(0)));
    assert_eq!(session.process.input(), input);
    assert!(!session.process.is_input_closed());
}

#[tokio::test(start_paused = true)]
async fn writes_at_once_arrive_whole_and_in_their_order_whatever_fits() {
    for capacity in [1, 7, 64, usize::MAX] {
        let (harness, session) = piped().await;
        session.process.limit_input(capacity);
        let mut writes = Vec::new();
        let mut expected = Vec::new();
        for letter in b'a'..b'k' {
            writes.push(spawn_write(&session, fixture::write(vec![letter; 100], HOUR)));
            expected.extend(vec![letter; 100]);
            harness.settle().await;
        }
        while session.process.input().len() < expected.len() {
            let _ = session.process.take_input();
            harness.settle().await;
        }
        for write in writes {
            assert_eq!(write.await.unwrap(), Ok(complete(100)), "capacity {capacity}");
        }
        assert_eq!(session.process.input(), expected, "capacity {capacity}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_time_is_up_tells_what_was_accepted_and_writes_no_more() {
    for wait in [Duration::ZERO, SECOND, 90 * SECOND] {
        let (harness, session) = piped().await;
        session.process.limit_input(3);
        let began = Instant::now();
        assert_eq!(
            write(&session, fixture::write("12345", wait)).await,
            Ok(timed_out(3))
        );
        assert_eq!(began.elapsed(), wait);
        let _ = session.process.take_input();
        harness.advance(SECOND).await;
        assert_eq!(session.process.input(), b"123", "the rest was written after all");
        assert_eq!(
            write(&session, fixture::write("678", wait)).await,
            Ok(complete(3))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_write_goes_on_when_the_one_before_gave_up() {
    let (harness, session) = piped().await;
    session.process.limit_input(2);
    let first = spawn_write(&session, fixture::write("aaaa", SECOND));
    harness.settle().await;
    let second = spawn_write(&session, fixture::write("bb", HOUR));
    assert_eq!(first.await.unwrap(), Ok(timed_out(2)));
    let _ = session.process.take_input();
    assert_eq!(second.await.unwrap(), Ok(complete(2)));
    assert_eq!(session.process.input(), b"aabb");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_vanished_writes_no_more_and_the_next_goes_on() {
    let (harness, session) = piped().await;
    session.process.limit_input(2);
    let first = spawn_write(&session, fixture::write("aaaa", HOUR));
    harness.settle().await;
    let second = spawn_write(&session, fixture::write("bb", HOUR));
    harness.settle().await;
    first.abort();
    harness.settle().await;
    let _ = session.process.take_input();
    assert_eq!(second.await.unwrap(), Ok(complete(2)));
    assert_eq!(session.process.input(), b"aabb");
}

#[tokio::test(start_paused = true)]
async fn three_ends_are_three_errors_with_what_was_accepted() {
    let (harness, session) = piped().await;
    session.process.limit_input(2);
    let parked = spawn_write(&session, fixture::write("abcd", HOUR));
    harness.settle().await;
    session.process.close_input();
    assert_eq!(
        parked.await.unwrap(),
        Err(WriteError::ReaderClosed { accepted_bytes: 2 })
    );
    assert_eq!(
        write(&session, fixture::write("x", HOUR)).await,
        Err(WriteError::ReaderClosed { accepted_bytes: 0 })
    );
    assert_eq!(
        session.client.close_stdin(session.id).await,
        Ok(()),
        "closed is closed"
    );

    let session = harness.start_session(fixture::piped_spec()).await;
    assert_eq!(session.client.close_stdin(session.id).await, Ok(()));
    assert_eq!(
        write(&session, fixture::write("x", HOUR)).await,
        Err(WriteError::StdinClosed { accepted_bytes: 0 })
    );

    session.process.exit(0);
    let outcome = session.outcome().await;
    let ended = WriteError::SessionEnded {
        outcome: Box::new(outcome),
        accepted_bytes: 0,
    };
    assert_eq!(write(&session, fixture::write("x", HOUR)).await, Err(ended));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_at_the_end_is_told_the_outcome_and_what_was_accepted() {
    let (harness, session) = piped().await;
    // A descendant holds the input open, so that the end comes before the broken pipe.
    session
        .process
        .fork(procession_testkit::Descendant::new(7).unkillable());
    session.process.limit_input(2);
    let parked = spawn_write(&session, fixture::write("abcd", HOUR));
    harness.settle().await;
    session.process.exit(0);
    let outcome = session.outcome().await;
    let ended = WriteError::SessionEnded {
        outcome: Box::new(outcome),
        accepted_bytes: 2,
    };
    assert_eq!(parked.await.unwrap(), Err(ended));
    assert!(session.process.is_input_closed(), "our end is let go");
}

#[tokio::test(start_paused = true)]
async fn a_write_beyond_its_limit_is_refused_whole() {
    let harness = Harness::start().await;
    let session = harness
        .start_session(fixture::piped_spec().limit(Field::WriteBytes, 10_u64))
        .await;
    assert_eq!(
        write(&session, fixture::write(vec![0; 10], SECOND)).await,
        Ok(complete(10))
    );
    let refused = WriteError::TooLong {
        bytes: 11,
        limit_bytes: 10,
    };
    assert_eq!(
        write(&session, fixture::write(vec![0; 11], SECOND)).await,
        Err(refused)
    );
    assert_eq!(session.process.input().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_close_waits_for_what_was_written_before_it_and_twice_is_fine() {
    let (harness, session) = piped().await;
    session.process.limit_input(2);
    let parked = spawn_write(&session, fixture::write("abcd", HOUR));
    harness.settle().await;
    let closes: Vec<_> = (0..3)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.client.close_stdin(session.id).await })
        })
        .collect();
    harness.settle().await;
    assert!(!session.process.is_input_closed() && closes.iter().all(|close| !close.is_finished()));
    let late = write(&session, fixture::write("x", HOUR)).await;
    assert_eq!(late, Err(WriteError::StdinClosed { accepted_bytes: 0 }));
    let _ = session.process.take_input();
    assert_eq!(parked.await.unwrap(), Ok(complete(4)));
    for close in closes {
        assert_eq!(close.await.unwrap(), Ok(()));
    }
    session.process.input_closed().await;
    assert_eq!(session.process.input(), b"abcd");
    assert_eq!(session.client.close_stdin(session.id).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_close_behind_a_write_that_times_out_closes_then() {
    let (harness, session) = piped().await;
    session.process.limit_input(0);
    let parked = spawn_write(&session, fixture::write("abcd", SECOND));
    harness.settle().await;
    assert_eq!(session.client.close_stdin(session.id).await, Ok(()));
    assert_eq!(parked.await.unwrap(), Ok(timed_out(0)));
    assert!(session.process.is_input_closed());
}

#[tokio::test(start_paused = true)]
async fn the_same_write_is_written_once() {
    let (harness, session) = piped().await;
    session.process.limit_input(2);
    let request = || WriteRequest {
        request_id: Some(fixture::request_id("write 1")),
        ..fixture::write("abcd", HOUR)
    };
    let both = [spawn_write(&session, request()), spawn_write(&session, request())];
    harness.settle().await;
    let _ = session.process.take_input();
    for write in both {
        assert_eq!(write.await.unwrap(), Ok(complete(4)));
    }
    assert_eq!(write(&session, request()).await, Ok(complete(4)));
    assert_eq!(session.process.input(), b"abcd");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_callers_all_vanished_can_be_asked_how_far_it_got() {
    let (harness, session) = piped().await;
    session.process.limit_input(2);
    let request = || WriteRequest {
        request_id: Some(fixture::request_id("write 1")),
        ..fixture::write("abcd", HOUR)
    };
    let vanished = spawn_write(&session, request());
    harness.settle().await;
    vanished.abort();
    harness.settle().await;
    // Any question makes the session look who is still there.
    session.inspect().await;
    let _ = session.process.take_input();
    harness.settle().await;
    assert_eq!(write(&session, request()).await, Ok(timed_out(2)));
    assert_eq!(session.process.input(), b"ab");
}

#[tokio::test(start_paused = true)]
async fn a_blocked_writer_blocks_nobody_else() {
    let (harness, session) = piped().await;
    session.process.limit_input(0);
    let parked = spawn_write(&session, fixture::write("x", HOUR));
    harness.settle().await;
    let other = harness.start_session(fixture::piped_spec()).await;
    let began = Instant::now();
    session.process.emit(procession_core::StreamId::Stdout, "out");
    assert_eq!(session.poll(fixture::long_poll()).await.stdout, "out");
    assert_eq!(session.poll(PollQuery::now()).await.stdout, "");
    assert_eq!(write(&other, fixture::write("y", HOUR)).await, Ok(complete(1)));
    assert_eq!(session.client.list(ListFilter::All).await.unwrap().len(), 2);
    let outcome = session.stop(Ladder::Ask).await.outcome.unwrap();
    assert_eq!((outcome.cause, began.elapsed()), (Cause::Stop, Duration::ZERO));
    assert!(parked.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_large_write_lets_others_get_their_turn() {
    let (harness, session) = piped().await;
    let input = vec![b'x'; 8 << 20];
    let large = spawn_write(&session, fixture::write(input, HOUR));
    let answered = session.poll(PollQuery::now()).await;
    assert_eq!(answered.stdout, "");
    assert_eq!(large.await.unwrap(), Ok(complete(8 << 20)));
    harness.settle().await;
    assert_eq!(session.process.input().len(), 8 << 20);
}
