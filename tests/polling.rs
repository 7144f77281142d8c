//! Reading: long polls, many readers, callers that vanish, characters that are not complete.
#![cfg(test)]

use std::time::Duration;

use procession_actors::{
    error::{CallError, PollError},
    report::{Condition, Ladder, PollQuery, ReadQuery, WaitResult},
    session::MAX_WAITERS,
};
use procession_core::{Field, Phase, Signal, StreamId, text::ReadPosition};
use procession_testkit::{Harness, HarnessSession, Script, Steps, fixture};
use tokio::{task::JoinHandle, time::Instant};

const SECOND: Duration = Duration::from_secs(1);

fn spawn_poll(
    session: &HarnessSession,
    query: PollQuery,
) -> JoinHandle<procession_actors::report::PollReport> {
    let session = session.clone();
    tokio::spawn(async move { session.poll(query).await })
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_is_answered_in_the_moment_of_the_first_output() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let began = Instant::now();
    let poll = spawn_poll(&session, fixture::long_poll());
    harness.advance(7 * SECOND).await;
    assert!(!poll.is_finished());
    session.process.emit(StreamId::Stderr, "now");
    let report = poll.await.unwrap();
    assert_eq!((report.stderr.as_str(), report.phase), ("now", Phase::Running));
    assert_eq!(began.elapsed(), 7 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_without_output_is_answered_when_its_time_is_up_and_not_before() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    for wait in [Duration::ZERO, Duration::from_millis(1), SECOND, 90 * SECOND] {
        let began = Instant::now();
        let report = session.poll(PollQuery::wait(wait)).await;
        assert_eq!((report.stdout.as_str(), report.outcome), ("", None));
        assert_eq!(began.elapsed(), wait);
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_is_answered_by_the_end_and_has_all_output_and_the_outcome() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let poll = spawn_poll(&session, fixture::long_poll());
    harness.settle().await;
    session.process.exit(0);
    let report = poll.await.unwrap();
    assert_eq!(report.phase, Phase::Ended);
    assert!(report.outcome.is_some());
}

#[tokio::test(start_paused = true)]
async fn readers_with_cursors_of_their_own_never_steal_from_one_another() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let mut cursors = [ReadPosition::START; 3];
    let mut texts: [String; 3] = Default::default();
    let mut own = String::new();
    for round in 0..12_usize {
        session.process.emit(StreamId::Stdout, format!("{round}\n"));
        harness.settle().await;
        // The first reads every round, the second every other, the third every third.
        for reader in 0..3 {
            if round % (reader + 1) == 0 {
                let report = session.poll(PollQuery::now().from(cursors[reader])).await;
                texts[reader].push_str(&report.stdout);
                cursors[reader] = report.cursor;
            }
        }
        own.push_str(&session.poll(PollQuery::now()).await.stdout);
    }
    let all = "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n";
    for reader in 0..3 {
        texts[reader].push_str(&session.poll(PollQuery::now().from(cursors[reader])).await.stdout);
        assert_eq!(texts[reader], all, "reader {reader}");
    }
    assert_eq!(own, all);
}

#[tokio::test(start_paused = true)]
async fn parked_readers_with_cursors_are_all_answered_by_the_same_output() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let polls: Vec<_> = (0..10)
        .map(|_| spawn_poll(&session, fixture::long_poll().from(ReadPosition::START)))
        .collect();
    harness.settle().await;
    session.process.emit(StreamId::Stdout, "for all");
    for poll in polls {
        assert_eq!(poll.await.unwrap().stdout, "for all");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_readers_at_the_sessions_own_cursor_one_gets_the_output_and_the_other_waits_on() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let first = spawn_poll(&session, fixture::long_poll());
    harness.settle().await;
    let second = spawn_poll(&session, fixture::long_poll());
    harness.settle().await;
    session.process.emit(StreamId::Stdout, "one");
    assert_eq!(first.await.unwrap().stdout, "one");
    harness.settle().await;
    assert!(!second.is_finished(), "an early empty answer");
    session.process.emit(StreamId::Stdout, "two");
    assert_eq!(second.await.unwrap().stdout, "two");
}

#[tokio::test(start_paused = true)]
async fn half_a_character_answers_nobody_and_is_not_lost() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let character = "€".as_bytes();
    for stream in StreamId::ALL {
        for cut in 1..character.len() {
            let poll = spawn_poll(&session, fixture::long_poll());
            harness.settle().await;
            session.process.emit(stream, character[..cut].to_vec());
            harness.settle().await;
            assert!(!poll.is_finished(), "{stream}, cut at {cut}");
            session.process.emit(stream, character[cut..].to_vec());
            let report = poll.await.unwrap();
            assert_eq!(report.stdout + &report.stderr, "€", "{stream}, cut at {cut}");
        }
    }
    session.process.emit(StreamId::Stdout, character[..2].to_vec());
    session.process.exit(0);
    assert_eq!(session.until_ended().await.stdout, "\u{fffd}");
}

#[tokio::test(start_paused = true)]
async fn half_a_character_in_one_stream_holds_the_other_back_from_nobody() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let poll = spawn_poll(&session, fixture::long_poll());
    harness.settle().await;
    session.process.emit(StreamId::Stdout, vec![0xe2, 0x82]);
    session.process.emit(StreamId::Stderr, "x");
    let report = poll.await.unwrap();
    assert_eq!((report.stdout.as_str(), report.stderr.as_str()), ("", "x"));
    session.process.emit(StreamId::Stdout, vec![0xac]);
    assert_eq!(session.poll(fixture::long_poll()).await.stdout, "€");
}

#[tokio::test(start_paused = true)]
async fn raw_reads_give_exactly_what_was_written() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let written: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    for piece in written.chunks(777) {
        session.process.emit(StreamId::Stdout, piece.to_vec());
    }
    harness.settle().await;
    let mut read = Vec::new();
    let mut cursor = Some(ReadPosition::START);
    while read.len() < written.len() {
        let query = ReadQuery {
            cursor,
            wait: SECOND,
            max_bytes: 333,
        };
        let output = session.client.read_output(session.id, query).await.unwrap();
        assert!(output.pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>() <= 333);
        output
            .pieces
            .iter()
            .for_each(|piece| read.extend_from_slice(&piece.bytes));
        cursor = Some(output.cursor);
    }
    assert_eq!(read, written);
    let own = session
        .client
        .read_output(session.id, fixture::read_all())
        .await
        .unwrap();
    assert_eq!(
        own.pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>(),
        written.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_parked_raw_read_is_answered_by_output_by_the_end_and_by_its_time() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let read = |wait| {
        let session = session.clone();
        let query = ReadQuery {
            cursor: None,
            wait,
            max_bytes: 10,
        };
        tokio::spawn(async move { session.client.read_output(session.id, query).await.unwrap() })
    };
    let began = Instant::now();
    assert!(read(SECOND).await.unwrap().pieces.is_empty());
    assert_eq!(began.elapsed(), SECOND);
    let parked = read(60 * SECOND);
    harness.settle().await;
    // Half a character is bytes like any other.
    session.process.emit(StreamId::Stdout, vec![0xe2]);
    assert_eq!(&parked.await.unwrap().pieces[0].bytes[..], [0xe2]);
    let parked = read(60 * SECOND);
    harness.settle().await;
    session.process.exit(0);
    assert!(parked.await.unwrap().outcome.is_some());
}

#[tokio::test(start_paused = true)]
async fn callers_that_vanish_leave_nothing_behind() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    for _ in 0..10 {
        let polls: Vec<_> = (0..MAX_WAITERS)
            .map(|_| spawn_poll(&session, fixture::long_poll()))
            .collect();
        harness.settle().await;
        polls.iter().for_each(JoinHandle::abort);
        harness.settle().await;
    }
    // All places are free again, and the output is there for who asks.
    let polls: Vec<_> = (0..MAX_WAITERS - 1)
        .map(|_| spawn_poll(&session, fixture::long_poll().from(ReadPosition::START)))
        .collect();
    harness.settle().await;
    let last = spawn_poll(&session, fixture::long_poll());
    harness.settle().await;
    session.process.emit(StreamId::Stdout, "kept");
    assert_eq!(last.await.unwrap().stdout, "kept");
    for poll in polls {
        assert_eq!(poll.await.unwrap().stdout, "kept");
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_vanished_does_not_take_the_output_of_the_next() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let vanished = spawn_poll(&session, fixture::long_poll());
    harness.settle().await;
    vanished.abort();
    harness.settle().await;
    session.process.emit(StreamId::Stdout, "mine");
    harness.settle().await;
    assert_eq!(session.poll(PollQuery::now()).await.stdout, "mine");
}

#[tokio::test(start_paused = true)]
async fn one_waiter_too_many_is_told_so_at_once_and_the_others_wait_on() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::piped_spec()).await;
    session.process.limit_input(0);
    let mut polls = Vec::new();
    for _ in 0..MAX_WAITERS {
        polls.push(spawn_poll(
            &session,
            fixture::long_poll().from(ReadPosition::START),
        ));
    }
    harness.settle().await;
    let began = Instant::now();
    let refusal = CallError::TooManyWaiters {
        waiting: MAX_WAITERS,
        limit: MAX_WAITERS,
    };
    let poll = session.client.poll(session.id, fixture::long_poll()).await;
    assert_eq!(poll, Err(PollError::Call(refusal.clone())));
    let wait = session.client.wait(session.id, Condition::Ended, SECOND).await;
    assert_eq!(
        wait,
        Err(procession_actors::error::WaitError::Call(refusal.clone()))
    );
    let write = session
        .client
        .write(session.id, fixture::write("x", SECOND))
        .await;
    assert_eq!(write, Err(procession_actors::error::WriteError::Call(refusal)));
    // What need not wait is answered, and a stop is never refused.
    assert_eq!(session.poll(PollQuery::now()).await.stdout, "");
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(polls.iter().all(|poll| !poll.is_finished()));
    session.stop(Ladder::Force).await;
    for poll in polls {
        assert!(poll.await.unwrap().outcome.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn the_budget_is_held_and_what_is_left_out_is_counted_to_the_byte() {
    let harness = Harness::start().await;
    let session = harness
        .start_session(fixture::spec().limit(Field::OutputBudget, 1_000_u64))
        .await;
    let mut cursor = ReadPosition::START;
    for (stdout, stderr) in [(10, 10), (500, 500), (2_000, 10), (10, 2_000), (50_000, 70_000)] {
        session.process.emit(StreamId::Stdout, vec![b'o'; stdout]);
        session.process.emit(StreamId::Stderr, vec![b'e'; stderr]);
        harness.settle().await;
        for budget in [None, Some(0), Some(128), Some(4_000)] {
            let mut query = PollQuery::now().from(cursor);
            query.max_output_bytes = budget;
            let report = session.poll(query).await;
            let most = usize::try_from(budget.unwrap_or(1_000).max(128)).unwrap();
            assert!(report.stdout.len() + report.stderr.len() <= most);
            let shown = report.stdout.matches('o').count() - report.stdout.matches("omitted").count()
                + report.stderr.matches('e').count();
            assert!(shown <= stdout + stderr);
            let read = (report.cursor.stdout - cursor.stdout) + (report.cursor.stderr - cursor.stderr);
            assert_eq!(read, (stdout + stderr) as u64, "the cursor is behind all of it");
            assert!(report.omitted_bytes() <= read);
            assert_eq!(
                report.omitted_bytes() == 0,
                stdout + stderr <= most,
                "{stdout}+{stderr} in {most}"
            );
        }
        cursor = session.poll(PollQuery::now().from(cursor)).await.cursor;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_not_stuck_behind_polls_and_ends_them() {
    let harness = Harness::start().await;
    harness.port().script(Script::new().on_signal(
        Signal::TERM,
        Steps::new().emit(StreamId::Stdout, "bye").wait(SECOND).exit(0),
    ));
    let session = harness.start_session(fixture::spec()).await;
    let poll = spawn_poll(&session, fixture::long_poll());
    harness.settle().await;
    let began = Instant::now();
    let stop = tokio::spawn({
        let session = session.clone();
        async move { session.stop(Ladder::Ask).await }
    });
    assert_eq!(poll.await.unwrap().stdout, "bye");
    let wait = session
        .client
        .wait(session.id, Condition::Closed, 60 * SECOND)
        .await
        .unwrap();
    assert_eq!(wait.result, WaitResult::Fired);
    assert_eq!(stop.await.unwrap().phase, Phase::Ended);
    assert_eq!(began.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_condition_with_its_time_or_when_it_can_no_longer_come_true() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let began = Instant::now();
    for until in [
        Condition::Exited,
        Condition::Closed,
        Condition::Quiescent,
        Condition::Ended,
    ] {
        let report = session.client.wait(session.id, until, SECOND).await.unwrap();
        assert_eq!((report.result, report.outcome), (WaitResult::TimedOut, None));
    }
    assert_eq!(began.elapsed(), 4 * SECOND);
    assert!(
        session.process.is_running(),
        "a wait's time-out does not touch the process"
    );
    session
        .process
        .set_sight(procession_core::session::Sight::Partial);
    let waits = [
        (Condition::Exited, WaitResult::Fired),
        (Condition::Closed, WaitResult::Fired),
        (Condition::Quiescent, WaitResult::Impossible),
        (Condition::Ended, WaitResult::Fired),
    ];
    let parked = waits.map(|(until, result)| {
        let session = session.clone();
        let wait = tokio::spawn(async move { session.client.wait(session.id, until, 3_600 * SECOND).await });
        (wait, result)
    });
    harness.settle().await;
    session.process.exit(0);
    for (wait, result) in parked {
        assert_eq!(wait.await.unwrap().unwrap().result, result);
    }
}
