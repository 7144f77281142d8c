//! Every actor killed at every phase: no process is left, no caller is stuck, places are free, the truth is told.
#![cfg(test)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use procession_actors::{
    LogActor, LogMessage, PolicyActor, PolicyMessage, SessionActor, SessionMessage, Slot, actor,
    error::{CallError, ReadLogError, StartError},
    registry::RESTART_PAUSE,
    report::{Condition, Ladder, ListFilter, PollQuery, WaitResult},
};
use procession_core::{
    Cause, Leftovers, Phase, SessionSpec, Signal, Status, StreamId,
    admission::HostBudgets,
    outcome::{IncompleteOutput, UnknownStatus},
};
use procession_testkit::{
    Descendant, Gate, Harness, HarnessSession, Intercepted, Script, ScriptedProcess, Verdict, fixture,
};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// How an actor dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    Kill,
    Panic,
    Fail,
    Stop,
}

impl Death {
    const ALL: [Self; 4] = [Self::Kill, Self::Panic, Self::Fail, Self::Stop];
}

/// A harness whose sessions die at their next resize.
async fn mortal() -> Harness {
    mortal_with(HostBudgets {
        max_sessions: 1,
        ..HostBudgets::default()
    })
    .await
}

async fn mortal_with(budgets: HostBudgets) -> Harness {
    Harness::builder()
        .budgets(budgets)
        .session_slot(actor(|arguments| {
            let session = Intercepted::new(
                SessionActor::default(),
                |message: &SessionMessage| match message {
                    SessionMessage::Resize { size, .. } if size.rows == 1 => Verdict::Panic,
                    SessionMessage::Resize { .. } => Verdict::Fail,
                    _ => Verdict::Handle,
                },
            );
            (session, arguments)
        }))
        .start()
        .await
}

/// Has a session's actor die.
async fn die(death: Death, harness: &Harness, session: &HarnessSession) {
    let actor = harness.session_actor(session.id);
    let resize = |rows| {
        session
            .client
            .resize(session.id, procession_core::spec::TerminalSize { rows, cols: 1 })
    };
    match death {
        Death::Kill => actor.kill(),
        Death::Stop => actor.stop(None),
        Death::Panic => assert_eq!(resize(1).await, Err(CallError::SessionLost.into())),
        Death::Fail => assert_eq!(resize(2).await, Err(CallError::SessionLost.into())),
    }
    harness.settle().await;
}

/// Where a session is when its actor dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    Writing,
    Draining,
    Terminating,
    Sweeping,
}

const STAGES: [Stage; 5] = [
    Stage::Running,
    Stage::Writing,
    Stage::Draining,
    Stage::Terminating,
    Stage::Sweeping,
];

async fn bring_to(stage: Stage, harness: &Harness) -> HarnessSession {
    harness.port().script(
        Script::new()
            .ignoring(Signal::TERM)
            .with_descendant(Descendant::new(7).holding_output()),
    );
    let session = harness.start_session(fixture::piped_spec()).await;
    session.process.emit(StreamId::Stdout, "output");
    session.process.limit_input(1);
    harness.settle().await;
    match stage {
        Stage::Running => {}
        Stage::Writing => drop(tokio::spawn({
            let session = session.clone();
            async move {
                session
                    .client
                    .write(session.id, fixture::write("xyz", 3_600 * SECOND))
                    .await
            }
        })),
        Stage::Draining => session.process.exit(0),
        Stage::Terminating => drop(tokio::spawn({
            let session = session.clone();
            async move {
                session
                    .client
                    .stop(session.id, fixture::stop(Ladder::AskFor(60 * SECOND)))
                    .await
            }
        })),
        Stage::Sweeping => {
            session.process.never_answer_sweeps();
            session.process.exit(0);
            harness.advance(SECOND).await;
        }
    }
    harness.settle().await;
    session
}

#[tokio::test(start_paused = true)]
async fn a_session_actor_that_dies_takes_its_tree_with_it_and_strands_nobody() {
    for stage in STAGES {
        for death in Death::ALL {
            let harness = mortal().await;
            let session = bring_to(stage, &harness).await;
            let parked = [
                tokio::spawn({
                    let session = session.clone();
                    async move {
                        session
                            .client
                            .poll(session.id, fixture::long_poll())
                            .await
                            .err()
                            .map(|_| ())
                    }
                }),
                tokio::spawn({
                    let session = session.clone();
                    async move {
                        let wait = session
                            .client
                            .wait(session.id, Condition::Ended, 3_600 * SECOND)
                            .await;
                        wait.err().map(|_| ())
                    }
                }),
                tokio::spawn({
                    let session = session.clone();
                    async move {
                        let write = session
                            .client
                            .write(session.id, fixture::write("x", 3_600 * SECOND))
                            .await;
                        write.err().map(|_| ())
                    }
                }),
            ];
            // The first poll takes what is there; the others wait.
            let _ = session.client.poll(session.id, PollQuery::now()).await;
            harness.settle().await;
            let began = Instant::now();
            die(death, &harness, &session).await;
            let case = format!("{stage:?}, {death:?}");
            for parked in parked {
                let _ = parked.await.unwrap();
            }
            assert_eq!(began.elapsed(), Duration::ZERO, "{case}: a caller waited");
            assert!(session.process.was_killed(), "{case}");
            assert!(
                !session.process.is_running() && session.process.descendants().is_empty(),
                "{case}"
            );
            let listed = session.client.list(ListFilter::All).await.unwrap();
            let outcome = listed[0].outcome.clone().unwrap();
            assert_eq!(
                (listed[0].phase, outcome.cause),
                (Phase::Ended, Cause::Lost),
                "{case}"
            );
            assert_eq!(
                outcome.status,
                Status::Unknown {
                    reason: UnknownStatus::SupervisorDied
                },
                "{case}"
            );
            assert_eq!(
                outcome.incomplete_output,
                Some(IncompleteOutput::SupervisorDied),
                "{case}"
            );
            // Its place is free: the budget is one session.
            harness.start_session(fixture::spec()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_answers_everything_with_what_is_known() {
    let harness = mortal_with(HostBudgets::default()).await;
    let session = bring_to(Stage::Running, &harness).await;
    die(Death::Panic, &harness, &session).await;
    let outcome = session.outcome().await;
    assert_eq!(
        session.poll(fixture::long_poll()).await.outcome,
        Some(outcome.clone())
    );
    assert_eq!(session.stop(Ladder::Ask).await.outcome, Some(outcome.clone()));
    assert_eq!(session.inspect().await.outcome, Some(outcome));
    let exited = session
        .client
        .wait(session.id, Condition::Exited, SECOND)
        .await
        .unwrap();
    assert_eq!(
        exited.result,
        WaitResult::Impossible,
        "an exit that nobody saw is not told"
    );
    let page = session
        .client
        .read_log(session.id, fixture::log_page(0, 100))
        .await
        .unwrap();
    assert_eq!(&page.runs[0].bytes[..], b"output", "what was logged can be read");
    // And it is pruned like any other.
    harness.advance(301 * SECOND).await;
    assert_eq!(
        session.client.inspect(session.id).await,
        Err(CallError::Gone.into())
    );
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_dies_after_the_end_changes_no_record() {
    for keep in [false, true] {
        let harness = mortal_with(HostBudgets::default()).await;
        let leftovers = keep.then_some(Leftovers::Keep);
        let session = harness
            .start_session(SessionSpec {
                leftovers,
                ..fixture::spec()
            })
            .await;
        if keep {
            session.process.fork(Descendant::new(7));
        }
        session.process.exit(3);
        let outcome = session.outcome().await;
        die(Death::Kill, &harness, &session).await;
        assert_eq!(session.outcome().await, outcome);
        assert_eq!(
            session.process.was_killed(),
            keep,
            "what was kept is not left alone"
        );
        assert_eq!(session.process.descendants(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_killed_at_any_moment_of_a_start_leaves_no_process_and_an_answer() {
    for turns in 0..60 {
        let harness = mortal().await;
        let client = harness.client("alice");
        let start = tokio::spawn({
            let client = client.clone();
            async move { client.start(fixture::spec()).await }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        for (_, actor) in harness.session_actors() {
            actor.kill();
        }
        let answer = start.await.unwrap();
        harness.settle().await;
        let running = harness.port().running().len();
        match &answer {
            Ok(_) => {
                let listed = client.list(ListFilter::Live).await.unwrap().len();
                assert_eq!(running, listed, "after {turns} turns");
            }
            Err(error) => {
                assert_eq!(
                    (error, running),
                    (&StartError::Call(CallError::SessionLost), 0),
                    "after {turns} turns"
                );
                harness.start_session(fixture::spec()).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_killed_while_its_process_is_being_made_leaves_none() {
    let harness = mortal().await;
    let gate = Gate::closed();
    harness.port().script(Script::new().held_by(&gate));
    let start = tokio::spawn({
        let client = harness.client("alice");
        async move { client.start(fixture::spec()).await }
    });
    gate.arrived(1).await;
    harness.settle().await;
    harness.session_actors()[0].1.kill();
    assert_eq!(
        start.await.unwrap(),
        Err(StartError::Call(CallError::SessionLost))
    );
    gate.open();
    harness.settle().await;
    assert!(harness.port().running().is_empty());
    harness.start_session(fixture::spec()).await;
}

#[tokio::test(start_paused = true)]
async fn one_dead_session_harms_no_other() {
    let harness = mortal_with(HostBudgets::default()).await;
    let victim = harness.start_session(fixture::spec()).await;
    let other = harness.start_session(fixture::spec()).await;
    die(Death::Panic, &harness, &victim).await;
    other.process.emit(StreamId::Stdout, "alive");
    assert_eq!(other.poll(fixture::long_poll()).await.stdout, "alive");
    assert!(other.process.is_running());
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_dies_takes_every_process_with_it_and_every_call_is_answered() {
    for is_killed in [true, false] {
        let harness = Harness::start().await;
        let mut polls = Vec::new();
        for _ in 0..8 {
            harness.port().script(Script::new().ignoring(Signal::TERM));
            let session = harness.start_session(fixture::spec()).await;
            polls.push(tokio::spawn({
                let session = session.clone();
                async move { session.client.poll(session.id, fixture::long_poll()).await }
            }));
        }
        harness.settle().await;
        let began = Instant::now();
        let registry = harness.registry_actor();
        if is_killed {
            registry.kill();
        } else {
            registry.stop(None);
        }
        for poll in polls {
            assert!(poll.await.unwrap().is_err());
        }
        harness.settle().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(harness.port().processes().iter().all(ScriptedProcess::was_killed));
        assert!(harness.port().running().is_empty());
        let client = harness.client("alice");
        assert_eq!(
            client.start(fixture::spec()).await,
            Err(StartError::Call(CallError::Stopped))
        );
        assert_eq!(client.list(ListFilter::All).await, Err(CallError::Stopped));
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_panics_is_one_refused_start_and_then_it_is_fine() {
    for verdict in [|| Verdict::Panic, || Verdict::Fail] {
        let decided = Arc::new(AtomicUsize::new(0));
        let slot = Slot::supervised(actor(move |arguments| {
            let decided = Arc::clone(&decided);
            let policy = Intercepted::new(PolicyActor, move |message: &PolicyMessage| match message {
                PolicyMessage::Decide { .. } if decided.fetch_add(1, Ordering::Relaxed) == 1 => verdict(),
                _ => Verdict::Handle,
            });
            (policy, arguments)
        }));
        let harness = Harness::builder().policy_slot(slot).start().await;
        let before = harness.start_session(fixture::spec()).await;
        let refused = harness.client("alice").start(fixture::spec()).await;
        assert_eq!(
            refused,
            Err(StartError::PolicyUnavailable {
                waited: Duration::ZERO
            })
        );
        harness.settle().await;
        let after = harness.start_session(fixture::spec()).await;
        for session in [before, after] {
            session.process.exit(0);
            assert_eq!(session.outcome().await.cause, Cause::Exit);
        }
        assert_eq!(harness.port().asked(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_killed_again_and_again_is_there_again_after_a_pause() {
    let harness = Harness::start().await;
    for _ in 0..10 {
        // The first death is followed by a start at once, one right after it by a pause.
        harness.policy_actor().kill();
        harness.settle().await;
        harness
            .start_session(fixture::spec())
            .await
            .stop(Ladder::Force)
            .await;
        harness.policy_actor().kill();
        harness.settle().await;
        let refused = harness.client("alice").start(fixture::spec()).await;
        assert_eq!(
            refused,
            Err(StartError::PolicyUnavailable {
                waited: Duration::ZERO
            })
        );
        harness.advance(RESTART_PAUSE).await;
        harness
            .start_session(fixture::spec())
            .await
            .stop(Ladder::Force)
            .await;
        harness.advance(RESTART_PAUSE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_dies_while_it_decides_is_told_at_once() {
    let gate = Gate::closed();
    let held = gate.clone();
    let slot = Slot::supervised(actor(move |arguments| {
        let held = held.clone();
        (
            Intercepted::new(PolicyActor, move |_: &PolicyMessage| Verdict::Hold(held.clone())),
            arguments,
        )
    }));
    let harness = Harness::builder().policy_slot(slot).start().await;
    let starts: Vec<_> = (0..3)
        .map(|_| {
            let client = harness.client("alice");
            tokio::spawn(async move { client.start(fixture::spec()).await })
        })
        .collect();
    gate.arrived(1).await;
    harness.settle().await;
    harness.policy_actor().kill();
    for start in starts {
        assert!(matches!(
            start.await.unwrap(),
            Err(StartError::PolicyUnavailable { .. })
        ));
    }
    gate.open();
    harness.settle().await;
    harness.start_session(fixture::spec()).await;
}

#[tokio::test(start_paused = true)]
async fn a_log_actor_that_dies_costs_logs_and_no_session_and_new_ones_log_again() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "logged");
    harness.advance(SECOND).await;
    harness.log_actor().kill();
    harness.settle().await;
    // More than fits the feed: nobody waits for a log that is dead.
    for _ in 0..40 {
        session.process.emit(StreamId::Stdout, vec![b'x'; 100_000]);
        harness.settle().await;
    }
    assert_eq!(session.process.read_bytes(StreamId::Stdout), 4_000_006);
    session.process.exit(0);
    let began = Instant::now();
    let report = session.until_ended().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(report.outcome.as_ref().unwrap().cause, Cause::Exit);
    let incomplete = report.log.incomplete.unwrap();
    assert_eq!(incomplete.from_offset, 6, "{incomplete:?}");
    // What was logged before is found by the next actor, and new sessions log as ever.
    let page = session
        .client
        .read_log(session.id, fixture::log_page(0, 100))
        .await
        .unwrap();
    assert_eq!(&page.runs[0].bytes[..], b"logged");
    let next = harness.start_session(fixture::spec()).await;
    next.process.emit(StreamId::Stdout, "again");
    next.process.exit(0);
    assert!(next.until_ended().await.log.is_complete());
    assert_eq!(
        &next
            .client
            .read_log(next.id, fixture::log_page(0, 100))
            .await
            .unwrap()
            .runs[0]
            .bytes[..],
        b"again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_log_actor_that_dies_at_a_close_or_an_opening_keeps_nobody_back() {
    for dies_at_close in [true, false] {
        let slot = Slot::supervised(actor(move |arguments| {
            let log = Intercepted::new(LogActor, move |message: &LogMessage| match message {
                LogMessage::Close { .. } if dies_at_close => Verdict::Panic,
                LogMessage::Open { .. } if !dies_at_close => Verdict::Panic,
                _ => Verdict::Handle,
            });
            (log, arguments)
        }));
        let harness = Harness::builder().log_slot(slot).start().await;
        for _ in 0..3 {
            let began = Instant::now();
            let session = harness.start_session(fixture::spec()).await;
            session.process.emit(StreamId::Stdout, "x");
            session.process.exit(0);
            let report = session.until_ended().await;
            assert_eq!(report.stdout, "x");
            assert!(!report.log.is_complete());
            assert_eq!(began.elapsed(), Duration::ZERO);
            harness.settle().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_read_that_is_under_way_when_the_actor_dies_is_answered() {
    let gate = Gate::closed();
    let held = gate.clone();
    let slot = Slot::supervised(actor(move |arguments| {
        let held = held.clone();
        let log = Intercepted::new(LogActor, move |message: &LogMessage| match message {
            LogMessage::Read { .. } => Verdict::Hold(held.clone()),
            _ => Verdict::Handle,
        });
        (log, arguments)
    }));
    let harness = Harness::builder().log_slot(slot).start().await;
    let session = harness.start_session(fixture::spec()).await;
    let read = tokio::spawn({
        let session = session.clone();
        async move {
            session
                .client
                .read_log(session.id, fixture::log_page(0, 10))
                .await
        }
    });
    gate.arrived(1).await;
    harness.log_actor().kill();
    assert_eq!(read.await.unwrap(), Err(ReadLogError::Unavailable));
    assert!(session.process.is_running());
}

#[tokio::test(start_paused = true)]
async fn a_hundred_rounds_of_kills_leave_no_process_no_place_and_no_caller() {
    let budgets = HostBudgets {
        max_sessions: 4,
        max_sessions_per_owner: 4,
        ..HostBudgets::default()
    };
    let harness = mortal_with(budgets).await;
    for round in 0..100_usize {
        let session = bring_to(STAGES[round % STAGES.len()], &harness).await;
        let poll = tokio::spawn({
            let session = session.clone();
            async move { session.client.poll(session.id, fixture::long_poll()).await }
        });
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        die(Death::ALL[round % Death::ALL.len()], &harness, &session).await;
        let _ = poll.await.unwrap();
        assert!(harness.port().running().is_empty(), "round {round}");
        assert_eq!(
            session.client.list(ListFilter::Live).await,
            Ok(Vec::new()),
            "round {round}"
        );
    }
}
