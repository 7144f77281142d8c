//! After the leader's exit: what is there is read, who holds the output open is waited for, then dealt with.
#![cfg(test)]

use std::time::Duration;

use procession_actors::report::{Condition, Ladder, PollQuery, WaitResult};
use procession_core::{
    Cause, Field, Leftovers, Phase, SessionSpec, StreamId,
    outcome::{Fact, IncompleteOutput, LadderAction, Outcome, UnknownFact},
    session::FREED_OUTPUT_BOUND,
    spec::StreamMode,
};
use procession_testkit::{Descendant, Harness, HarnessSession, fixture};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const HALF: Duration = Duration::from_millis(500);

/// A session whose leader has exited while a descendant holds its output.
async fn held(harness: &Harness, spec: SessionSpec) -> HarnessSession {
    let session = harness.start_session(spec).await;
    session.process.fork(Descendant::new(7).holding_output());
    session.process.exit(0);
    harness.settle().await;
    session
}

fn drained(outcome: &Outcome) -> Duration {
    outcome.ended_at.saturating_since(outcome.exited_at.unwrap())
}

#[tokio::test(start_paused = true)]
async fn who_holds_nothing_open_waits_for_nothing() {
    let harness = Harness::start().await;
    for streams in [StreamMode::Separate, StreamMode::Merged] {
        let session = harness
            .start_session(SessionSpec {
                streams,
                ..fixture::spec()
            })
            .await;
        let began = Instant::now();
        session.process.exit(0);
        let outcome = session.outcome().await;
        assert_eq!(
            (began.elapsed(), drained(&outcome)),
            (Duration::ZERO, Duration::ZERO)
        );
        assert_eq!(
            (outcome.closed_at, outcome.incomplete_output),
            (outcome.exited_at, None)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn output_held_open_is_waited_for_as_long_as_the_grace_says_and_its_holder_is_swept() {
    for millis in [0_u64, 1, 1_000, 10_000] {
        let harness = Harness::start().await;
        let session = held(&harness, fixture::spec().limit(Field::DrainGrace, millis)).await;
        let outcome = session.outcome().await;
        assert_eq!(drained(&outcome), Duration::from_millis(millis));
        assert_eq!(
            (outcome.cause, outcome.swept_pids.as_slice()),
            (Cause::Exit, &[7][..])
        );
        assert_eq!(outcome.incomplete_output, Some(IncompleteOutput::HeldOpen));
        assert_eq!(
            outcome.ladder.iter().map(|step| step.action).collect::<Vec<_>>(),
            [LadderAction::Sweep]
        );
        assert!(matches!(outcome.quiescent, Fact::At(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_lets_go_ends_the_wait_in_that_moment() {
    let harness = Harness::start().await;
    let session = held(&harness, fixture::spec()).await;
    harness.advance(HALF).await;
    session.process.emit(StreamId::Stdout, "done");
    session.process.end_descendant(7);
    let outcome = session.outcome().await;
    assert_eq!((drained(&outcome), outcome.incomplete_output), (HALF, None));
    assert_eq!(
        (outcome.swept_pids.as_slice(), outcome.output_bytes),
        (&[][..], 4)
    );
}

#[tokio::test(start_paused = true)]
async fn late_output_is_part_of_the_session_and_puts_the_end_off_up_to_twice_the_grace() {
    let harness = Harness::start().await;
    let session = held(&harness, fixture::spec()).await;
    harness.advance(HALF).await;
    session.process.emit(StreamId::Stdout, "once");
    let outcome = session.outcome().await;
    assert_eq!((drained(&outcome), outcome.output_bytes), (HALF + SECOND, 4));

    let session = held(&harness, fixture::spec()).await;
    for _ in 0..20 {
        harness.advance(Duration::from_millis(300)).await;
        session.process.emit(StreamId::Stderr, ".");
        harness.settle().await;
    }
    let outcome = session.outcome().await;
    assert_eq!(
        (drained(&outcome), outcome.output_bytes),
        (2 * SECOND, 6),
        "what came after the end is not its"
    );
}

#[tokio::test(start_paused = true)]
async fn the_phase_is_running_while_output_is_still_read() {
    let harness = Harness::start().await;
    let session = held(&harness, fixture::spec()).await;
    let report = session.poll(PollQuery::now()).await;
    assert_eq!((report.phase, report.outcome), (Phase::Running, None));
    let exited = session
        .client
        .wait(session.id, Condition::Exited, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(exited.result, WaitResult::Fired);
}

#[tokio::test(start_paused = true)]
async fn one_stream_that_is_held_is_enough_to_wait_and_the_other_is_at_its_end() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.fork(Descendant::new(7).holding_output());
    session.process.close(StreamId::Stderr);
    session.process.exit(0);
    harness.settle().await;
    let began = Instant::now();
    let closed = session
        .client
        .wait(session.id, Condition::Closed, HALF)
        .await
        .unwrap();
    assert_eq!(closed.result, WaitResult::TimedOut);
    session.process.close(StreamId::Stdout);
    let outcome = session.outcome().await;
    assert_eq!((began.elapsed(), outcome.incomplete_output), (HALF, None));
}

#[tokio::test(start_paused = true)]
async fn output_that_ends_before_the_process_does_not_end_the_session() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    for stream in StreamId::ALL {
        session.process.close(stream);
    }
    let closed = session
        .client
        .wait(session.id, Condition::Closed, 60 * SECOND)
        .await
        .unwrap();
    assert_eq!((closed.result, closed.phase), (WaitResult::Fired, Phase::Running));
    harness.advance(60 * SECOND).await;
    assert!(session.process.is_running());
    session.process.exit(0);
    let outcome = session.outcome().await;
    assert!(outcome.closed_at < outcome.exited_at);
}

#[tokio::test(start_paused = true)]
async fn who_survives_the_sweep_is_named_and_its_output_let_go() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session
        .process
        .fork(Descendant::new(8).holding_output().unkillable());
    session.process.fork(Descendant::new(9));
    session.process.exit(0);
    let outcome = session.outcome().await;
    assert_eq!(drained(&outcome), SECOND + FREED_OUTPUT_BOUND);
    assert_eq!(
        (outcome.swept_pids.as_slice(), outcome.residual_pids.as_slice()),
        (&[9][..], &[8][..])
    );
    assert_eq!(outcome.quiescent, Fact::Unknown(UnknownFact::Residual));
    assert_eq!(
        (outcome.closed_at, outcome.incomplete_output),
        (None, Some(IncompleteOutput::HeldOpen))
    );
    assert_eq!(session.poll(PollQuery::now()).await.residual_pids, [8]);
}

#[tokio::test(start_paused = true)]
async fn what_was_to_be_kept_lives_on_and_is_named() {
    let harness = Harness::start().await;
    let keep = SessionSpec {
        leftovers: Some(Leftovers::Keep),
        ..fixture::spec()
    };
    let session = held(&harness, keep).await;
    let outcome = session.outcome().await;
    assert_eq!(
        (drained(&outcome), outcome.residual_pids.as_slice()),
        (SECOND, &[7][..])
    );
    assert_eq!(
        (outcome.quiescent, outcome.ladder.len()),
        (Fact::Unknown(UnknownFact::Kept), 0)
    );
    harness.advance(60 * SECOND).await;
    assert_eq!(
        (session.process.descendants(), session.process.signals().len()),
        (vec![7], 0)
    );
    assert!(!session.process.is_reaped(), "its group is still ours to name");
    // A stop ends what was kept; the record stays.
    let stopped = session.stop(Ladder::Ask).await;
    assert_eq!(stopped.outcome.as_ref(), Some(&outcome));
    assert_eq!(session.process.descendants(), []);
    assert!(session.process.is_reaped());
    assert_eq!(session.outcome().await, outcome);
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_and_ends_by_itself_is_let_go() {
    let harness = Harness::start().await;
    let keep = SessionSpec {
        leftovers: Some(Leftovers::Keep),
        ..fixture::spec()
    };
    let session = held(&harness, keep).await;
    session.outcome().await;
    let waiting = tokio::spawn({
        let session = session.clone();
        async move {
            session
                .client
                .wait(session.id, Condition::Quiescent, 3_600 * SECOND)
                .await
                .unwrap()
                .result
        }
    });
    harness.advance(10 * SECOND).await;
    assert!(!waiting.is_finished());
    session.process.end_descendant(7);
    assert_eq!(waiting.await.unwrap(), WaitResult::Fired);
    harness.settle().await;
    assert!(session.process.is_reaped());
}

#[tokio::test(start_paused = true)]
async fn nothing_to_keep_is_an_ordinary_end() {
    let harness = Harness::start().await;
    let keep = SessionSpec {
        leftovers: Some(Leftovers::Keep),
        ..fixture::spec()
    };
    let session = harness.start_session(keep).await;
    session.process.exit(0);
    let outcome = session.outcome().await;
    assert_eq!(
        (drained(&outcome), outcome.residual_pids.len()),
        (Duration::ZERO, 0)
    );
    assert!(session.process.is_reaped());
}

#[tokio::test(start_paused = true)]
async fn a_survey_that_is_never_answered_keeps_nothing_unseen() {
    let harness = Harness::start().await;
    let keep = SessionSpec {
        leftovers: Some(Leftovers::Keep),
        ..fixture::spec()
    };
    let session = harness.start_session(keep).await;
    session.process.never_answer_surveys();
    session.process.fork(Descendant::new(7));
    session.process.exit(0);
    let outcome = session.outcome().await;
    assert_eq!(outcome.swept_pids, [7], "who cannot be named is not kept");
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_the_drain() {
    let harness = Harness::start().await;
    let session = held(&harness, fixture::spec().limit(Field::DrainGrace, 10_000_u64)).await;
    let began = Instant::now();
    let report = session.stop(Ladder::Ask).await;
    assert_eq!((began.elapsed(), report.phase), (Duration::ZERO, Phase::Ended));
    assert_eq!(
        report.outcome.unwrap().cause,
        Cause::Exit,
        "it had exited by itself"
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_is_told_as_an_incomplete_output() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "before");
    session.process.fail_output(StreamId::Stdout, 5);
    harness.settle().await;
    session.process.exit(0);
    let report = session.until_ended().await;
    assert_eq!(report.stdout, "before");
    assert_eq!(
        report.outcome.unwrap().incomplete_output,
        Some(IncompleteOutput::ReadFailed)
    );
}
