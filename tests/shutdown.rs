//! The orderly end of a system, and the other one.
#![cfg(test)]

use std::time::Duration;

use procession_actors::{
    error::{CallError, StartError},
    report::{KeptProcesses, Ladder, LeftSession, ListFilter, OwnerEnd, PollQuery, ShutdownReport},
};
use procession_core::{Cause, Leftovers, SessionSpec, Signal, StartFailureKind, session::KILL_BOUND};
use procession_testkit::{
    Descendant, FaultyStorage, Gate, Harness, Operation, Script, ScriptedProcess, Steps, fixture,
};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_shutdown_of_nothing_is_over_at_once() {
    let harness = Harness::start().await;
    let began = Instant::now();
    assert_eq!(
        harness.into_system().shutdown(None, 60 * SECOND).await,
        ShutdownReport::default()
    );
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn all_ladders_run_side_by_side() {
    let harness = Harness::start().await;
    for _ in 0..16 {
        harness.port().script(Script::new().ignoring(Signal::TERM));
        harness.start_session(fixture::spec()).await;
    }
    let processes = harness.port().processes();
    let began = Instant::now();
    let report = harness.into_system().shutdown(None, 60 * SECOND).await;
    assert_eq!(
        report,
        ShutdownReport {
            ended: 16,
            left: Vec::new()
        }
    );
    assert_eq!(began.elapsed(), 2 * SECOND);
    assert!(
        processes
            .iter()
            .all(|process| !process.is_running() && process.is_reaped())
    );
}

#[tokio::test(start_paused = true)]
async fn the_grace_of_a_shutdown_takes_the_place_of_the_sessions_own() {
    for (grace, expected) in [
        (Some(5 * SECOND), 5 * SECOND),
        (Some(Duration::ZERO), Duration::ZERO),
        (None, 2 * SECOND),
    ] {
        let harness = Harness::start().await;
        harness.port().script(Script::new().ignoring(Signal::TERM));
        harness.start_session(fixture::spec()).await;
        let began = Instant::now();
        harness.into_system().shutdown(grace, 60 * SECOND).await;
        assert_eq!(began.elapsed(), expected, "{grace:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_is_bounded_and_names_what_it_left() {
    let harness = Harness::start().await;
    harness.port().script(Script::new().unkillable());
    let stuck = harness.start_session(fixture::spec()).await;
    harness.start_session(fixture::spec()).await;
    let began = Instant::now();
    let report = harness.into_system().shutdown(None, 10 * SECOND).await;
    let left = vec![LeftSession {
        session: stuck.id,
        pid: Some(stuck.process.pid()),
    }];
    assert_eq!(report, ShutdownReport { ended: 1, left });
    assert_eq!(began.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn what_ends_in_a_shutdown_says_so_and_who_waits_is_answered() {
    let harness = Harness::start().await;
    harness
        .port()
        .script(Script::new().on_signal(Signal::TERM, Steps::new().wait(SECOND).exit(0)));
    let session = harness.start_session(fixture::spec()).await;
    let poll = tokio::spawn({
        let session = session.clone();
        async move { session.poll(fixture::long_poll()).await }
    });
    harness.settle().await;
    harness.into_system().shutdown(None, 60 * SECOND).await;
    assert_eq!(poll.await.unwrap().outcome.unwrap().cause, Cause::HostShutdown);
}

#[tokio::test(start_paused = true)]
async fn during_a_shutdown_nothing_starts_and_what_was_starting_ends() {
    let harness = Harness::start().await;
    harness
        .port()
        .script(Script::new().on_signal(Signal::TERM, Steps::new().wait(SECOND).exit(0)));
    harness.start_session(fixture::spec()).await;
    let gate = Gate::closed();
    harness.port().script(Script::new().held_by(&gate));
    let client = harness.client("alice");
    let starting = tokio::spawn({
        let client = client.clone();
        async move { client.start(fixture::spec()).await }
    });
    gate.arrived(1).await;
    let port = harness.port().clone();
    let shutdown = tokio::spawn(harness.into_system().shutdown(None, 60 * SECOND));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.start(fixture::spec()).await, Err(StartError::ShuttingDown));
    gate.open();
    starting.await.unwrap().unwrap();
    let report = shutdown.await.unwrap();
    assert_eq!((report.ended, report.left.len()), (2, 0));
    assert!(port.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_every_call_says_that_the_system_has_stopped() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    harness.into_system().shutdown(None, 60 * SECOND).await;
    let client = &session.client;
    assert_eq!(
        client.start(fixture::spec()).await,
        Err(StartError::Call(CallError::Stopped))
    );
    assert_eq!(
        client.poll(session.id, PollQuery::now()).await,
        Err(CallError::Stopped.into())
    );
    assert_eq!(
        client.stop(session.id, fixture::stop(Ladder::Ask)).await,
        Err(CallError::Stopped.into())
    );
    assert_eq!(client.list(ListFilter::All).await, Err(CallError::Stopped));
    assert_eq!(
        client.end_all(OwnerEnd::Stop).await,
        Err(CallError::Stopped.into())
    );
}

#[tokio::test(start_paused = true)]
async fn two_shutdowns_at_once_get_the_same_report() {
    let harness = Harness::start().await;
    harness.port().script(Script::new().ignoring(Signal::TERM));
    harness.start_session(fixture::spec()).await;
    let ask = || {
        let registry = harness.system().registry().clone();
        tokio::spawn(async move {
            let question = |reply| procession_actors::RegistryMessage::Shutdown {
                grace: None,
                bound: 60 * SECOND,
                kept: KeptProcesses::End,
                reply,
            };
            ractor::call!(registry, question).unwrap()
        })
    };
    let (first, second) = (ask(), ask());
    let expected = ShutdownReport {
        ended: 1,
        left: Vec::new(),
    };
    assert_eq!(
        (first.await.unwrap(), second.await.unwrap()),
        (expected.clone(), expected)
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_is_left_to_itself_or_ended_as_the_shutdown_says() {
    for leaving in [true, false] {
        let harness = Harness::start().await;
        let keep = SessionSpec {
            leftovers: Some(Leftovers::Keep),
            ..fixture::spec()
        };
        let session = harness.start_session(keep).await;
        session.process.fork(Descendant::new(7));
        session.process.exit(0);
        session.outcome().await;
        let system = harness.into_system();
        let report = if leaving {
            system.shutdown_leaving_kept(None, 60 * SECOND).await
        } else {
            system.shutdown(None, 60 * SECOND).await
        };
        assert_eq!(report.left, Vec::new());
        let process = &session.process;
        assert_eq!(
            (process.was_left(), process.descendants().is_empty()),
            (leaving, !leaving)
        );
        assert!(process.is_reaped());
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_failed_start_is_gone_when_a_shutdown_is_answered() {
    let storage = FaultyStorage::in_memory();
    let harness = Harness::builder().storage(storage.clone()).start().await;
    let failure = fixture::start_failure(StartFailureKind::NotFound);
    harness.port().script(Script::fails(failure));
    let hold = storage.hold(Operation::Remove);
    let refused = harness.client("alice").start(fixture::spec()).await;
    assert!(matches!(refused, Err(StartError::Failed(_))), "{refused:?}");
    // The answer waits for no disk; what it left is on its way out.
    hold.reached().await;
    let shutdown = tokio::spawn(harness.into_system().shutdown(None, 60 * SECOND));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!shutdown.is_finished(), "a log is still there");
    drop(hold);
    assert_eq!(shutdown.await.unwrap(), ShutdownReport::default());
}

#[tokio::test(start_paused = true)]
async fn a_system_that_is_dropped_ends_everything_by_force_and_strands_no_caller() {
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
    let (port, began) = (harness.port().clone(), Instant::now());
    drop(harness);
    for poll in polls {
        assert!(poll.await.unwrap().is_err());
    }
    for process in port.processes() {
        process.killed().await;
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(
        port.processes()
            .iter()
            .all(|process: &ScriptedProcess| !process.is_running())
    );
}

#[tokio::test(start_paused = true)]
async fn a_system_dropped_during_a_start_leaves_no_process() {
    for turns in 0..60 {
        let harness = Harness::start().await;
        let client = harness.client("alice");
        let start = tokio::spawn(async move { client.start(fixture::spec()).await });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let port = harness.port().clone();
        drop(harness);
        let _ = start.await;
        tokio::time::sleep(KILL_BOUND).await;
        assert!(port.running().is_empty(), "after {turns} turns");
    }
}
