//! How a session ends: one cause, one status, the same record for everybody.
#![cfg(test)]

use std::time::Duration;

use procession_actors::{
    SessionActor, SessionMessage, actor,
    error::StartError,
    report::{Condition, KeptProcesses, Ladder, ListFilter, OwnerEnd, WaitResult},
};
use procession_core::{
    Cause, Field, Outcome, Phase, Signal, StartFailureKind, Status, StreamId,
    outcome::{Fact, LadderAction, ObservedBy, StepEffect, UnknownFact, UnknownStatus, Usage},
};
use procession_testkit::{
    Descendant, Gate, Harness, HarnessSession, Intercepted, Script, ScriptedProcess, Steps, Verdict, fixture,
};

const SECOND: Duration = Duration::from_secs(1);

fn exited(code: i32) -> Status {
    Status::Exited { code }
}

fn signaled(signal: Signal) -> Status {
    Status::Signaled {
        signal,
        core_dumped: false,
    }
}

fn actions(outcome: &Outcome) -> Vec<LadderAction> {
    outcome.ladder.iter().map(|step| step.action).collect()
}

/// The record, as everybody who may ask is told it.
async fn record(harness: &Harness, session: &HarnessSession) -> Outcome {
    let outcome = session.outcome().await;
    let told = [
        session.until_ended().await.outcome,
        session.inspect().await.outcome,
        session.stop(Ladder::Force).await.outcome,
        session
            .client
            .list(ListFilter::All)
            .await
            .unwrap()
            .into_iter()
            .find(|listed| listed.session == session.id)
            .unwrap()
            .outcome,
        session
            .client
            .wait(session.id, Condition::Ended, SECOND)
            .await
            .unwrap()
            .outcome,
    ];
    for told in told {
        assert_eq!(told.as_ref(), Some(&outcome));
    }
    harness.advance(60 * SECOND).await;
    assert_eq!(session.outcome().await, outcome, "the record changed later on");
    outcome
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_by_itself_is_told_as_it_ended() {
    async fn check(end: impl Fn(&ScriptedProcess), cause: Cause, status: Status, observed_by: ObservedBy) {
        let harness = Harness::start().await;
        let session = harness.start_session(fixture::spec()).await;
        end(&session.process);
        let outcome = record(&harness, &session).await;
        assert_eq!(
            (outcome.cause, &outcome.status, outcome.observed_by),
            (cause, &status, Some(observed_by))
        );
        assert!(session.process.signals().is_empty(), "nobody was signalled");
    }
    check(
        |process| process.exit(0),
        Cause::Exit,
        exited(0),
        ObservedBy::Script,
    )
    .await;
    check(
        |process| process.exit(255),
        Cause::Exit,
        exited(255),
        ObservedBy::Script,
    )
    .await;
    let segv = Signal::from_number(11).unwrap();
    check(
        |process| process.die(segv),
        Cause::Exit,
        signaled(segv),
        ObservedBy::Script,
    )
    .await;
    check(
        |process| process.die(Signal::KILL),
        Cause::Exit,
        signaled(Signal::KILL),
        ObservedBy::Script,
    )
    .await;
    let taken = Status::Unknown {
        reason: UnknownStatus::TakenElsewhere,
    };
    let end = |process: &ScriptedProcess| process.end_unknown(UnknownStatus::TakenElsewhere);
    check(end, Cause::Lost, taken, ObservedBy::Nobody).await;
}

#[tokio::test(start_paused = true)]
async fn an_exit_that_cannot_be_observed_is_lost_and_nothing_of_it_is_made_up() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.fork(Descendant::new(7).holding_output());
    session.process.fail_observation(10);
    let outcome = record(&harness, &session).await;
    assert_eq!(outcome.cause, Cause::Lost);
    assert_eq!(
        outcome.status,
        Status::Unknown {
            reason: UnknownStatus::ObservationFailed { errno: 10 }
        }
    );
    assert_eq!(outcome.observed_by, Some(ObservedBy::Nobody));
    assert_eq!(session.process.descendants(), [], "what was left was swept");
}

/// What makes a session end that does not end by itself.
#[derive(Debug, Clone, Copy)]
enum Ground {
    Stop,
    WallTime,
    IdleTime,
    OwnerEnded,
    OwnerStopped,
    Shutdown,
}

impl Ground {
    const ALL: [Self; 6] = [
        Self::Stop,
        Self::WallTime,
        Self::IdleTime,
        Self::OwnerEnded,
        Self::OwnerStopped,
        Self::Shutdown,
    ];

    const fn cause(self) -> Cause {
        match self {
            Self::Stop | Self::OwnerStopped => Cause::Stop,
            Self::WallTime => Cause::WallTimeout,
            Self::IdleTime => Cause::IdleTimeout,
            Self::OwnerEnded => Cause::OwnerEnded,
            Self::Shutdown => Cause::HostShutdown,
        }
    }

    async fn strike(self, harness: &Harness, session: &HarnessSession) {
        match self {
            Self::Stop => {
                let session = session.clone();
                tokio::spawn(async move { session.stop(Ladder::Ask).await });
            }
            Self::WallTime => harness.advance(10 * SECOND).await,
            Self::IdleTime => harness.advance(5 * SECOND).await,
            Self::OwnerEnded => drop(session.client.end_all(OwnerEnd::OwnerEnded).await.unwrap()),
            Self::OwnerStopped => drop(session.client.end_all(OwnerEnd::Stop).await.unwrap()),
            Self::Shutdown => {
                let registry = harness.system().registry().clone();
                tokio::spawn(async move {
                    ractor::call!(registry, |reply| procession_actors::RegistryMessage::Shutdown {
                        grace: None,
                        bound: 60 * SECOND,
                        kept: KeptProcesses::End,
                        reply
                    })
                });
            }
        }
        harness.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_ground_the_cause_is_its_own_and_the_status_is_the_leaders() {
    use LadderAction::{Continue, Kill, Terminate};
    // What the process does at TERM, its status then, the rungs that were climbed.
    let reactions: [(&str, Option<Steps>, Status, &[LadderAction]); 4] = [
        ("dies", None, signaled(Signal::TERM), &[Terminate, Continue]),
        (
            "exits",
            Some(Steps::new().exit(3)),
            exited(3),
            &[Terminate, Continue],
        ),
        (
            "takes a second",
            Some(Steps::new().wait(SECOND).exit(0)),
            exited(0),
            &[Terminate, Continue],
        ),
        (
            "ignores it",
            Some(Steps::new()),
            signaled(Signal::KILL),
            &[Terminate, Continue, Kill],
        ),
    ];
    for ground in Ground::ALL {
        for (name, reaction, status, ladder) in &reactions {
            let harness = Harness::start().await;
            let mut script = Script::new();
            if let Some(steps) = reaction {
                script = script.on_signal(Signal::TERM, steps.clone());
            }
            harness.port().script(script);
            let mut spec = fixture::spec();
            match ground {
                Ground::WallTime => spec = spec.wall_time(10 * SECOND),
                Ground::IdleTime => spec = spec.limit(Field::IdleTime, 5_000_u64),
                _ => {}
            }
            let session = harness.start_session(spec).await;
            ground.strike(&harness, &session).await;
            let outcome = record(&harness, &session).await;
            assert_eq!(
                (outcome.cause, &outcome.status),
                (ground.cause(), status),
                "{ground:?}, {name}"
            );
            assert_eq!(actions(&outcome), *ladder, "{ground:?}, {name}");
            assert!(session.process.is_reaped());
        }
    }
}

/// Something that can end a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Exit,
    Stop,
    Deadline,
}

impl Event {
    const fn cause(self) -> Cause {
        match self {
            Self::Exit => Cause::Exit,
            Self::Stop => Cause::Stop,
            Self::Deadline => Cause::WallTimeout,
        }
    }
}

const ORDERS: [[Event; 3]; 6] = {
    use Event::{Deadline, Exit, Stop};
    [
        [Exit, Stop, Deadline],
        [Exit, Deadline, Stop],
        [Stop, Exit, Deadline],
        [Stop, Deadline, Exit],
        [Deadline, Exit, Stop],
        [Deadline, Stop, Exit],
    ]
};

#[tokio::test(start_paused = true)]
async fn of_exit_stop_and_deadline_the_first_is_the_cause_in_every_order() {
    for order in ORDERS {
        let harness = Harness::start().await;
        // TERM alone does not end it, so that the later events find it alive.
        harness.port().script(Script::new().ignoring(Signal::TERM));
        let session = harness
            .start_session(fixture::spec().wall_time(10 * SECOND))
            .await;
        session
            .process
            .fork(Descendant::new(7).holding_output().stubborn());
        for event in order {
            match event {
                Event::Exit => session.process.exit(4),
                Event::Stop => {
                    let session = session.clone();
                    tokio::spawn(async move { session.stop(Ladder::AskFor(60 * SECOND)).await });
                }
                Event::Deadline => harness.jump(10 * SECOND).await,
            }
            harness.settle().await;
        }
        let outcome = record(&harness, &session).await;
        assert_eq!(outcome.cause, order[0].cause(), "{order:?}");
        assert_eq!(outcome.status, exited(4), "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_exited_before_anything_was_done_has_exited_whatever_waits_in_the_mailbox() {
    for order in ORDERS {
        let gate = Gate::opened();
        let held = gate.clone();
        let harness = Harness::builder()
            .session_slot(actor(move |arguments| {
                let gate = held.clone();
                let session = Intercepted::new(SessionActor::default(), move |_: &SessionMessage| {
                    Verdict::Hold(gate.clone())
                });
                (session, arguments)
            }))
            .start()
            .await;
        let session = harness
            .start_session(fixture::spec().wall_time(10 * SECOND))
            .await;
        harness.settle().await;
        gate.close();
        let mut stop = None;
        for event in order {
            match event {
                Event::Exit => session.process.exit(4),
                Event::Stop => {
                    let session = session.clone();
                    stop = Some(tokio::spawn(async move { session.stop(Ladder::Ask).await }));
                }
                Event::Deadline => harness.jump(10 * SECOND).await,
            }
            harness.settle().await;
        }
        gate.open();
        let outcome = record(&harness, &session).await;
        assert_eq!(
            (outcome.cause, &outcome.status),
            (Cause::Exit, &exited(4)),
            "{order:?}"
        );
        assert_eq!(outcome.ladder, [], "{order:?}");
        assert_eq!(stop.unwrap().await.unwrap().outcome, Some(outcome), "{order:?}");
        assert_eq!(
            session.process.signals(),
            [],
            "{order:?}: nothing was signalled after the exit"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn exited_closed_and_quiescent_are_three_facts_with_their_times() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session
        .process
        .fork(Descendant::new(7).holding_output().stubborn());
    harness.advance(SECOND).await;
    session.process.exit(0);
    harness.advance(Duration::from_millis(300)).await;
    let facts = |report: procession_actors::report::WaitReport| report.result;
    let wait = |until| session.client.wait(session.id, until, Duration::ZERO);
    assert_eq!(facts(wait(Condition::Exited).await.unwrap()), WaitResult::Fired);
    assert_eq!(
        facts(wait(Condition::Closed).await.unwrap()),
        WaitResult::TimedOut
    );
    assert_eq!(
        facts(wait(Condition::Quiescent).await.unwrap()),
        WaitResult::TimedOut
    );
    let outcome = record(&harness, &session).await;
    let since_spawn = |at: procession_core::Moment| at.saturating_since(outcome.spawned_at.unwrap());
    assert_eq!(outcome.exited_at.map(since_spawn), Some(SECOND));
    assert_eq!(
        outcome.closed_at.map(since_spawn),
        Some(2 * SECOND),
        "the sweep freed the output"
    );
    assert_eq!(outcome.quiescent.at().map(since_spawn), Some(2 * SECOND));
    assert_eq!(outcome.swept_pids, [7]);
}

#[tokio::test(start_paused = true)]
async fn what_the_means_cannot_see_is_not_called_empty() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session
        .process
        .set_sight(procession_core::session::Sight::Partial);
    session.process.exit(0);
    let outcome = session.outcome().await;
    assert_eq!(outcome.quiescent, Fact::Unknown(UnknownFact::PartialSight));
    let wait = session
        .client
        .wait(session.id, Condition::Quiescent, SECOND)
        .await
        .unwrap();
    assert_eq!(wait.result, WaitResult::Impossible);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_is_never_answered_does_not_keep_the_end_back() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.never_answer_sweeps();
    session.process.exit(0);
    let outcome = session.outcome().await;
    assert_eq!(
        (outcome.cause, outcome.quiescent),
        (Cause::Exit, Fact::Unknown(UnknownFact::NoAnswer))
    );
    let waited = outcome.ended_at.saturating_since(outcome.exited_at.unwrap());
    assert_eq!(waited, procession_core::session::SWEEP_BOUND);
}

#[tokio::test(start_paused = true)]
async fn usage_and_output_are_on_record() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let usage = Usage {
        peak_memory_bytes: Some(4 << 20),
        user_time: SECOND,
        ..Usage::default()
    };
    session.process.set_usage(usage);
    session.process.emit(StreamId::Stdout, "out");
    session.process.emit(StreamId::Stderr, "error");
    session.process.exit(0);
    let outcome = session.outcome().await;
    assert_eq!(
        (outcome.output_bytes, outcome.usage, outcome.incomplete_output),
        (8, Some(usage), None)
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_written_right_before_the_exit_is_there() {
    for stream in StreamId::ALL {
        let harness = Harness::start().await;
        let session = harness.start_session(fixture::spec()).await;
        session.process.block_output(stream);
        session.process.emit(stream, vec![b'x'; 70_000]);
        session.process.exit(0);
        let outcome = session.outcome().await;
        assert_eq!(
            (outcome.output_bytes, outcome.incomplete_output),
            (70_000, None),
            "{stream}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_is_an_error_and_leaves_nothing() {
    for kind in [
        StartFailureKind::NotFound,
        StartFailureKind::PermissionDenied,
        StartFailureKind::Exhausted,
    ] {
        let harness = Harness::start().await;
        let failure = fixture::start_failure(kind);
        harness.port().script(Script::fails(failure.clone()));
        let client = harness.client("alice");
        assert_eq!(
            client.start(fixture::spec()).await,
            Err(StartError::Failed(failure))
        );
        assert_eq!(client.list(ListFilter::All).await.unwrap(), []);
        assert!(harness.port().processes().is_empty());
        harness.settle().await;
        for (_, actor) in harness.session_actors() {
            assert_eq!(actor.get_status(), ractor::ActorStatus::Stopped);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_ends_while_a_session_starts_ends_that_session_too() {
    let harness = Harness::start().await;
    let gate = Gate::closed();
    harness.port().script(Script::new().held_by(&gate));
    let client = harness.client("alice");
    let start = tokio::spawn({
        let client = client.clone();
        async move { client.start(fixture::spec()).await }
    });
    gate.arrived(1).await;
    harness.settle().await;
    assert_eq!(client.end_all(OwnerEnd::OwnerEnded).await.unwrap().len(), 1);
    gate.open();
    let started = start.await.unwrap().unwrap();
    let session = harness.session(client, started);
    let outcome = session.outcome().await;
    assert_eq!(
        (outcome.cause, &outcome.status),
        (Cause::OwnerEnded, &signaled(Signal::TERM))
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_a_session_that_is_listed_or_none() {
    // How many turns the caller waits before it goes away: every place on the way from the call to the answer.
    let mut seen = Vec::new();
    for turns in 0..60 {
        let harness = Harness::start().await;
        let client = harness.client("alice");
        let start = tokio::spawn({
            let client = client.clone();
            async move { client.start(fixture::spec()).await }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        start.abort();
        harness.advance(SECOND).await;
        let listed = client.list(ListFilter::Live).await.unwrap().len();
        assert_eq!(listed, harness.port().running().len(), "after {turns} turns");
        seen.push(listed);
    }
    assert!(seen.contains(&0) && seen.contains(&1), "both happened: {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn the_phases_are_told_as_they_are() {
    let harness = Harness::start().await;
    harness
        .port()
        .script(Script::new().on_signal(Signal::TERM, Steps::new().wait(SECOND).exit(0)));
    let session = harness.start_session(fixture::spec()).await;
    let phase = || async {
        let listed = session.client.list(ListFilter::All).await.unwrap();
        let inspected = session.inspect().await.phase;
        assert_eq!(listed[0].phase, inspected);
        inspected
    };
    assert_eq!(phase().await, Phase::Running);
    let stop = tokio::spawn({
        let session = session.clone();
        async move { session.stop(Ladder::Ask).await }
    });
    harness.settle().await;
    assert_eq!(phase().await, Phase::Terminating);
    assert_eq!(stop.await.unwrap().phase, Phase::Ended);
    assert_eq!(phase().await, Phase::Ended);
}

#[tokio::test(start_paused = true)]
async fn every_rung_says_what_came_of_it() {
    let harness = Harness::start().await;
    harness.port().script(
        Script::new()
            .ignoring(Signal::TERM)
            .with_descendant(Descendant::new(7).moved_away()),
    );
    let session = harness.start_session(fixture::spec()).await;
    let outcome = session.stop(Ladder::AskFor(SECOND)).await.outcome.unwrap();
    let steps: Vec<_> = outcome
        .ladder
        .iter()
        .map(|step| (step.action, step.effect))
        .collect();
    let delivered = |action| (action, StepEffect::Delivered);
    let expected = [
        LadderAction::Terminate,
        LadderAction::Continue,
        LadderAction::Kill,
        LadderAction::Sweep,
    ];
    assert_eq!(steps, expected.map(delivered));
    assert_eq!(
        outcome.swept_pids,
        [7],
        "who had left the group was found by the sweep"
    );
    assert!(outcome.ladder.is_sorted_by_key(|step| step.at));
}
