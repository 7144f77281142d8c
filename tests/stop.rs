//! Stopping: a ladder as data, bounded, idempotent, and the same record for everybody.
#![cfg(test)]

use std::time::Duration;

use procession_actors::report::{Ladder, PollQuery, StopReport};
use procession_core::{
    Cause, Field, Leftovers, Phase, SessionSpec, Signal, Status, StreamId,
    outcome::{Fact, LadderAction, UnknownFact},
    session::{KILL_BOUND, LAST_LOOK_BOUND, MAX_SURVEY_INTERVAL},
};
use procession_testkit::{Descendant, Harness, HarnessSession, Script, Steps, Target, fixture};
use tokio::{task::JoinHandle, time::Instant};

const SECOND: Duration = Duration::from_secs(1);

fn spawn_stop(session: &HarnessSession, ladder: Ladder) -> JoinHandle<StopReport> {
    let session = session.clone();
    tokio::spawn(async move { session.stop(ladder).await })
}

async fn stubborn(harness: &Harness, spec: SessionSpec) -> HarnessSession {
    harness.port().script(Script::new().ignoring(Signal::TERM));
    harness.start_session(spec).await
}

/// The signals that came, with their times.
fn signals(session: &HarnessSession) -> Vec<(Signal, Target, Duration)> {
    session
        .process
        .signals()
        .into_iter()
        .map(|sent| (sent.signal, sent.target, sent.at))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_ladder_is_term_and_cont_then_the_grace_then_kill() {
    let zero = Duration::ZERO;
    let rungs = |grace| {
        vec![
            (Signal::TERM, Target::Tree, zero),
            (Signal::CONT, Target::Tree, zero),
            (Signal::KILL, Target::Kill, grace),
        ]
    };
    let cases = [
        (fixture::spec(), Ladder::Ask, rungs(2 * SECOND)),
        (
            fixture::spec().limit(Field::Grace, 7_000_u64),
            Ladder::Ask,
            rungs(7 * SECOND),
        ),
        (
            fixture::spec().limit(Field::Grace, 7_000_u64),
            Ladder::AskFor(SECOND),
            rungs(SECOND),
        ),
        (
            fixture::spec(),
            Ladder::AskFor(zero),
            vec![(Signal::KILL, Target::Kill, zero)],
        ),
        (
            fixture::spec().limit(Field::Grace, 0_u64),
            Ladder::Ask,
            vec![(Signal::KILL, Target::Kill, zero)],
        ),
        (
            fixture::spec(),
            Ladder::Force,
            vec![(Signal::KILL, Target::Kill, zero)],
        ),
    ];
    for (spec, ladder, expected) in cases {
        let harness = Harness::start().await;
        let session = stubborn(&harness, spec).await;
        let report = session.stop(ladder).await;
        assert_eq!(signals(&session), expected, "{ladder:?}");
        let outcome = report.outcome.unwrap();
        assert_eq!(
            (outcome.cause, report.phase),
            (Cause::Stop, Phase::Ended),
            "{ladder:?}"
        );
        let spawned_at = outcome.spawned_at.unwrap();
        let on_record: Vec<_> = outcome
            .ladder
            .iter()
            .map(|step| step.at.saturating_since(spawned_at))
            .collect();
        assert_eq!(
            on_record,
            expected.iter().map(|(_, _, at)| *at).collect::<Vec<_>>(),
            "{ladder:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_that_is_in_more_of_a_hurry_hurries_the_first_and_a_milder_one_does_not() {
    let cases = [
        (Ladder::AskFor(10 * SECOND), Ladder::Force, SECOND),
        (
            Ladder::AskFor(10 * SECOND),
            Ladder::AskFor(2 * SECOND),
            3 * SECOND,
        ),
        (
            Ladder::AskFor(10 * SECOND),
            Ladder::AskFor(60 * SECOND),
            10 * SECOND,
        ),
        (Ladder::AskFor(10 * SECOND), Ladder::Ask, 10 * SECOND),
    ];
    for (first, second, expected) in cases {
        let harness = Harness::start().await;
        let session = stubborn(&harness, fixture::spec()).await;
        let began = Instant::now();
        let first = spawn_stop(&session, first);
        harness.advance(SECOND).await;
        let second_report = session.stop(second).await;
        assert_eq!(began.elapsed(), expected, "{second:?}");
        assert_eq!(first.await.unwrap(), second_report, "{second:?}");
        let terms = session
            .process
            .signals()
            .iter()
            .filter(|sent| sent.signal == Signal::TERM)
            .count();
        assert_eq!(terms, 1, "{second:?}: TERM is sent once");
    }
}

#[tokio::test(start_paused = true)]
async fn stops_at_once_get_the_same_record() {
    let harness = Harness::start().await;
    let session = stubborn(&harness, fixture::spec()).await;
    let stops: Vec<_> = (0..400)
        .map(|number| {
            spawn_stop(
                &session,
                if number % 3 == 0 {
                    Ladder::Force
                } else {
                    Ladder::Ask
                },
            )
        })
        .collect();
    let outcome = session.outcome().await;
    let mut told = 0;
    for stop in stops {
        let report = stop.await.unwrap();
        // Those that found no room to wait were answered before the end.
        if let Some(told_outcome) = report.outcome {
            assert_eq!(told_outcome, outcome);
            told += 1;
        }
    }
    assert!(told >= procession_actors::session::MAX_WAITERS, "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_an_ended_session_answers_with_its_outcome_and_does_nothing() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.exit(3);
    let outcome = session.outcome().await;
    let began = Instant::now();
    for ladder in [Ladder::Ask, Ladder::Force, Ladder::AskFor(SECOND)] {
        let expected = StopReport {
            phase: Phase::Ended,
            outcome: Some(outcome.clone()),
            residual_pids: Vec::new(),
        };
        assert_eq!(session.stop(ladder).await, expected);
    }
    assert_eq!(
        (began.elapsed(), session.process.signals().len()),
        (Duration::ZERO, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_polite_leader_spares_no_descendant_and_a_polite_tree_waits_for_no_grace() {
    let harness = Harness::start().await;
    harness
        .port()
        .script(Script::new().with_descendant(Descendant::new(7).stubborn()));
    let session = harness.start_session(fixture::spec()).await;
    let began = Instant::now();
    let outcome = session.stop(Ladder::Ask).await.outcome.unwrap();
    assert_eq!(
        (began.elapsed(), session.process.descendants().len()),
        (2 * SECOND, 0)
    );
    assert_eq!(
        outcome.status,
        Status::Signaled {
            signal: Signal::TERM,
            core_dumped: false
        }
    );
    let actions: Vec<_> = outcome.ladder.iter().map(|step| step.action).collect();
    assert_eq!(
        actions[..3],
        [
            LadderAction::Terminate,
            LadderAction::Continue,
            LadderAction::Kill
        ]
    );

    harness
        .port()
        .script(Script::new().with_descendant(Descendant::new(7)));
    let session = harness.start_session(fixture::spec()).await;
    let began = Instant::now();
    session.stop(Ladder::Ask).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_descendant_that_takes_its_time_is_waited_for_within_the_grace() {
    let harness = Harness::start().await;
    harness
        .port()
        .script(Script::new().with_descendant(Descendant::new(7).stubborn()));
    let session = harness.start_session(fixture::spec()).await;
    let began = Instant::now();
    let stop = spawn_stop(&session, Ladder::AskFor(10 * SECOND));
    harness.advance(3 * SECOND).await;
    session.process.end_descendant(7);
    let outcome = stop.await.unwrap().outcome.unwrap();
    assert!(
        began.elapsed() <= 3 * SECOND + MAX_SURVEY_INTERVAL,
        "{:?}",
        began.elapsed()
    );
    assert!(
        outcome
            .ladder
            .iter()
            .all(|step| step.action != LadderAction::Kill),
        "nobody had to be killed"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_writes_on_its_way_down_is_captured() {
    let harness = Harness::start().await;
    let bye = Steps::new()
        .emit(StreamId::Stdout, "bye")
        .wait(SECOND)
        .emit(StreamId::Stderr, "gone")
        .exit(0);
    harness.port().script(Script::new().on_signal(Signal::TERM, bye));
    let session = harness.start_session(fixture::spec()).await;
    session.stop(Ladder::Ask).await;
    let report = session.poll(PollQuery::now()).await;
    assert_eq!((report.stdout.as_str(), report.stderr.as_str()), ("bye", "gone"));
    assert_eq!(report.outcome.unwrap().incomplete_output, None);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_killed_is_told_after_a_bound_and_ends_when_it_ends() {
    let harness = Harness::start().await;
    harness.port().script(
        Script::new()
            .unkillable()
            .with_descendant(Descendant::new(7).unkillable()),
    );
    let session = harness.start_session(fixture::spec()).await;
    let began = Instant::now();
    let report = session.stop(Ladder::AskFor(SECOND)).await;
    assert_eq!(began.elapsed(), SECOND + KILL_BOUND);
    assert_eq!(
        (report.phase, report.outcome.as_ref()),
        (Phase::Terminating, None)
    );
    assert_eq!(report.residual_pids, [7]);
    // It answers on, and nothing is made up.
    assert_eq!(session.poll(PollQuery::now()).await.phase, Phase::Terminating);
    harness.advance(60 * SECOND).await;
    assert_eq!(session.poll(PollQuery::now()).await.residual_pids, [7]);
    session.process.end_descendant(7);
    session.process.die(Signal::KILL);
    let outcome = session.outcome().await;
    assert_eq!(outcome.cause, Cause::Stop);
    assert_eq!(
        outcome.status,
        Status::Signaled {
            signal: Signal::KILL,
            core_dumped: false
        }
    );
    assert!(matches!(outcome.quiescent, Fact::At(_)));
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_cannot_be_looked_at_keeps_no_stop_back() {
    let harness = Harness::start().await;
    harness.port().script(Script::new().unkillable());
    let session = harness.start_session(fixture::spec()).await;
    session.process.never_answer_surveys();
    let began = Instant::now();
    let report = session.stop(Ladder::Force).await;
    assert_eq!(began.elapsed(), KILL_BOUND + LAST_LOOK_BOUND);
    assert_eq!(report.phase, Phase::Terminating);
}

#[tokio::test(start_paused = true)]
async fn a_stop_whose_caller_vanished_is_carried_out() {
    let harness = Harness::start().await;
    let session = stubborn(&harness, fixture::spec()).await;
    let stop = spawn_stop(&session, Ladder::Ask);
    harness.settle().await;
    stop.abort();
    harness.settle().await;
    assert_eq!(session.outcome().await.cause, Cause::Stop);
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_what_was_kept_climbs_the_same_ladder_and_leaves_the_record() {
    for (ladder, expected) in [(Ladder::Ask, 2 * SECOND), (Ladder::Force, Duration::ZERO)] {
        let harness = Harness::start().await;
        let keep = SessionSpec {
            leftovers: Some(Leftovers::Keep),
            ..fixture::spec()
        };
        let session = harness.start_session(keep).await;
        session
            .process
            .fork(Descendant::new(7).holding_output().stubborn());
        session.process.exit(0);
        let outcome = session.outcome().await;
        let began = Instant::now();
        let report = session.stop(ladder).await;
        assert_eq!(
            (began.elapsed(), report.phase),
            (expected, Phase::Ended),
            "{ladder:?}"
        );
        assert_eq!(report.outcome, Some(outcome), "{ladder:?}");
        assert_eq!(
            (session.process.descendants().len(), report.residual_pids.len()),
            (0, 0),
            "{ladder:?}"
        );
        assert_eq!(session.inspect().await.residual_pids, [], "{ladder:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_what_was_kept_and_cannot_be_killed_is_answered_with_its_pids() {
    let harness = Harness::start().await;
    let keep = SessionSpec {
        leftovers: Some(Leftovers::Keep),
        ..fixture::spec()
    };
    let session = harness.start_session(keep).await;
    session.process.fork(Descendant::new(7).unkillable());
    session.process.exit(0);
    session.outcome().await;
    let began = Instant::now();
    let report = session.stop(Ladder::Force).await;
    assert!(began.elapsed() <= 5 * SECOND, "{:?}", began.elapsed());
    assert_eq!(report.residual_pids, [7]);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_finds_what_no_signal_reached_is_on_record() {
    let harness = Harness::start().await;
    harness
        .port()
        .script(Script::new().with_descendant(Descendant::new(7).moved_away().unkillable()));
    let session = harness.start_session(fixture::spec()).await;
    let report = session.stop(Ladder::Force).await;
    assert_eq!(report.residual_pids, [7]);
    let outcome = report.outcome.unwrap();
    assert_eq!(outcome.quiescent, Fact::Unknown(UnknownFact::Residual));
    assert_eq!(outcome.residual_pids, [7]);
}

#[tokio::test(start_paused = true)]
async fn signals_are_sent_as_they_are_asked_for_and_refused_after_the_end() {
    let harness = Harness::start().await;
    let session = stubborn(&harness, fixture::spec()).await;
    for signal in [Signal::CONT, Signal::TERM, Signal::from_number(28).unwrap()] {
        assert_eq!(session.client.signal(session.id, signal).await, Ok(()));
    }
    let sent: Vec<_> = session
        .process
        .signals()
        .iter()
        .map(|sent| (sent.signal, sent.target))
        .collect();
    let foreground = |signal| (signal, Target::Foreground);
    assert_eq!(
        sent,
        [Signal::CONT, Signal::TERM, Signal::from_number(28).unwrap()].map(foreground)
    );
    assert_eq!(session.client.signal(session.id, Signal::KILL).await, Ok(()));
    let outcome = session.outcome().await;
    assert_eq!(outcome.cause, Cause::Exit, "a signal is no stop");
    let refused = procession_actors::error::SignalError::SessionEnded {
        outcome: Box::new(outcome),
    };
    assert_eq!(session.client.signal(session.id, Signal::HUP).await, Err(refused));
    assert_eq!(
        session.process.signals().len(),
        4,
        "a number that may be somebody else's is not signalled"
    );
}
