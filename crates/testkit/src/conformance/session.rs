//! What is promised by a session.

use std::{sync::Arc, time::Duration};

use procession_actors::{
    SessionArguments, SessionMessage, SpawnActor,
    error::{CloseStdinError, SignalError, WriteError},
    report::{Condition, Ladder, ListFilter, PollQuery, WaitResult, WriteEnd},
};
use procession_core::{
    Cause, Field, Phase, Signal, Status, StreamId, outcome::LadderAction, spec::TerminalSize,
    text::ReadPosition,
};
use tokio::time::Instant;

use crate::{Descendant, Harness, HarnessSession, Script, Steps, Target, fixture};

const SECOND: Duration = Duration::from_secs(1);

/// What starts session actors, to be used several times.
pub type Service = Arc<dyn SpawnActor<SessionArguments, SessionMessage>>;

/// All claims, one after the other.
///
/// # Panics
/// At the first promise that is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn all(service: &Service) {
    every_question_is_answered_while_it_runs(service).await;
    every_question_is_answered_at_once_after_the_end(service).await;
    output_is_read_at_cursors_and_never_stolen(service).await;
    a_long_poll_is_answered_by_output_by_the_end_and_by_its_time(service).await;
    an_end_is_told_once_and_stays(service).await;
    a_stop_is_a_ladder(service).await;
    a_stop_ends_polls_waits_and_writes(service).await;
    time_outs_run_by_themselves(service).await;
    held_output_is_drained_and_then_swept(service).await;
    writes_have_three_ends(service).await;
    a_failed_start_is_reported_and_a_died_actor_kills_its_tree(service).await;
}

async fn harness(service: &Service) -> Harness {
    let service = Arc::clone(service);
    Harness::builder()
        .session_slot(move |arguments, supervisor| service.spawn(arguments, supervisor))
        .start()
        .await
}

async fn ask_everything(session: &HarnessSession) {
    let (client, id) = (&session.client, session.id);
    let none = Duration::ZERO;
    let answers = [
        (
            "poll",
            client
                .poll(id, PollQuery::now())
                .await
                .err()
                .map(|error| error.to_string()),
        ),
        (
            "read",
            client
                .read_output(id, fixture::read_all())
                .await
                .err()
                .map(|error| error.to_string()),
        ),
        (
            "inspect",
            client.inspect(id).await.err().map(|error| error.to_string()),
        ),
        (
            "wait",
            client
                .wait(id, Condition::Ended, none)
                .await
                .err()
                .map(|error| error.to_string()),
        ),
    ];
    for (question, error) in answers {
        assert_eq!(error, None, "{question}");
    }
}

/// Every question gets an answer while the session runs, without time passing.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn every_question_is_answered_while_it_runs(service: &Service) {
    let harness = harness(service).await;
    let session = harness.start_session(fixture::spec()).await;
    let (client, id) = (&session.client, session.id);
    let before = Instant::now();
    ask_everything(&session).await;
    assert_eq!(
        client.write(id, fixture::write("x", SECOND)).await,
        Err(WriteError::NoStdin)
    );
    assert_eq!(client.close_stdin(id).await, Err(CloseStdinError::NoStdin));
    assert_eq!(client.signal(id, Signal::HUP).await, Ok(()));
    assert!(
        client
            .resize(id, TerminalSize { rows: 1, cols: 1 })
            .await
            .is_err()
    );
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(session.process.signals()[0].signal, Signal::HUP);
}

/// Every question gets an answer after the end, without time passing; what can no longer be done says how it ended.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn every_question_is_answered_at_once_after_the_end(service: &Service) {
    let harness = harness(service).await;
    let session = harness.start_session(fixture::piped_spec()).await;
    session.process.exit(5);
    let outcome = session.outcome().await;
    let (client, id) = (&session.client, session.id);
    let before = Instant::now();
    ask_everything(&session).await;
    let write = client.write(id, fixture::write("x", SECOND)).await;
    assert!(matches!(write, Err(WriteError::SessionEnded { outcome: told, .. }) if *told == outcome));
    let signal = client.signal(id, Signal::HUP).await;
    assert!(matches!(signal, Err(SignalError::SessionEnded { outcome: told }) if *told == outcome));
    assert_eq!(client.close_stdin(id).await, Ok(()));
    assert_eq!(
        session.poll(fixture::long_poll()).await.outcome.as_ref(),
        Some(&outcome)
    );
    assert_eq!(session.stop(Ladder::Ask).await.outcome.as_ref(), Some(&outcome));
    assert_eq!(before.elapsed(), Duration::ZERO);
}

/// Readers with cursors get everything, whoever else reads.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn output_is_read_at_cursors_and_never_stolen(service: &Service) {
    let harness = harness(service).await;
    let session = harness.start_session(fixture::spec()).await;
    let mut cursor = ReadPosition::START;
    for round in 0..5 {
        session.process.emit(StreamId::Stdout, format!("{round}"));
        let own = session.poll(PollQuery::wait(SECOND)).await;
        assert_eq!(own.stdout, format!("{round}"), "at the session's own cursor");
        let other = session.poll(PollQuery::now().from(cursor)).await;
        assert_eq!(other.stdout, format!("{round}"), "at a cursor of one's own");
        cursor = other.cursor;
    }
    assert_eq!(
        session
            .poll(PollQuery::now().from(ReadPosition::START))
            .await
            .stdout,
        "01234"
    );
}

/// A long poll is answered by the first output, by the end, or when its time is up, and not before.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_long_poll_is_answered_by_output_by_the_end_and_by_its_time(service: &Service) {
    let harness = harness(service).await;
    let session = harness.start_session(fixture::spec()).await;
    let before = Instant::now();
    assert_eq!(session.poll(PollQuery::wait(3 * SECOND)).await.stdout, "");
    assert_eq!(before.elapsed(), 3 * SECOND);
    let poll = |session: &HarnessSession| {
        let session = session.clone();
        tokio::spawn(async move { session.poll(fixture::long_poll()).await })
    };
    let parked = poll(&session);
    harness.advance(SECOND).await;
    session.process.emit(StreamId::Stdout, "x");
    assert!(parked.await.is_ok_and(|report| report.stdout == "x"));
    let parked = poll(&session);
    harness.advance(SECOND).await;
    session.process.exit(0);
    assert!(parked.await.is_ok_and(|report| report.outcome.is_some()));
}

/// The end is told once, the same to everybody, and does not change any more; the process is reaped, its place free.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn an_end_is_told_once_and_stays(service: &Service) {
    let harness = harness(service).await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "last words");
    session.process.exit(9);
    let report = session.until_ended().await;
    let outcome = session.outcome().await;
    assert_eq!(
        (outcome.cause, &outcome.status),
        (Cause::Exit, &Status::Exited { code: 9 })
    );
    assert_eq!(
        (report.stdout.as_str(), report.outcome.as_ref()),
        ("last words", Some(&outcome))
    );
    session.stop(Ladder::Force).await;
    harness.advance(60 * SECOND).await;
    assert_eq!(session.outcome().await, outcome);
    assert!(session.process.is_reaped() && session.process.signals().is_empty());
    let listed = session.client.list(ListFilter::Live).await;
    assert!(
        listed.is_ok_and(|listed| listed.is_empty()),
        "an ended session is listed as live"
    );
}

/// A stop is TERM, the grace, KILL; a forced one is KILL at once; the leader's polite exit spares no descendant.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_stop_is_a_ladder(service: &Service) {
    let harness = harness(service).await;
    let cases = [
        (Script::new(), Ladder::Ask, Duration::ZERO, Signal::TERM),
        (
            Script::new().ignoring(Signal::TERM),
            Ladder::Ask,
            2 * SECOND,
            Signal::KILL,
        ),
        (
            Script::new().ignoring(Signal::TERM),
            Ladder::AskFor(5 * SECOND),
            5 * SECOND,
            Signal::KILL,
        ),
        (
            Script::new().ignoring(Signal::TERM),
            Ladder::Force,
            Duration::ZERO,
            Signal::KILL,
        ),
    ];
    for (script, ladder, kill_after, signal) in cases {
        harness.port().script(script);
        let session = harness.start_session(fixture::spec()).await;
        let report = session.stop(ladder).await;
        assert_eq!(report.phase, Phase::Ended, "{ladder:?}");
        let outcome = session.outcome().await;
        assert_eq!(
            (outcome.cause, &outcome.status),
            (
                Cause::Stop,
                &Status::Signaled {
                    signal,
                    core_dumped: false
                }
            )
        );
        let killed = session
            .process
            .signals()
            .into_iter()
            .find(|sent| sent.target == Target::Kill);
        let is_killed = signal == Signal::KILL;
        assert_eq!(
            killed.map(|sent| sent.at),
            is_killed.then_some(kill_after),
            "{ladder:?}"
        );
    }
    harness
        .port()
        .script(Script::new().with_descendant(Descendant::new(7).stubborn()));
    let session = harness.start_session(fixture::spec()).await;
    session.stop(Ladder::Ask).await;
    assert!(
        session.process.descendants().is_empty(),
        "the leader's polite exit spared a descendant"
    );
    let outcome = session.outcome().await;
    assert!(
        outcome
            .ladder
            .iter()
            .any(|step| step.action == LadderAction::Kill),
        "{:?}",
        outcome.ladder
    );
}

/// A stop is not stuck behind a poll, and ends whatever waits.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_stop_ends_polls_waits_and_writes(service: &Service) {
    let harness = harness(service).await;
    let session = harness.start_session(fixture::piped_spec()).await;
    session.process.limit_input(1);
    let poll = tokio::spawn({
        let session = session.clone();
        async move { session.poll(fixture::long_poll()).await.outcome }
    });
    let wait = tokio::spawn({
        let session = session.clone();
        async move {
            session
                .client
                .wait(session.id, Condition::Ended, 3_600 * SECOND)
                .await
        }
    });
    let write = tokio::spawn({
        let session = session.clone();
        async move {
            session
                .client
                .write(session.id, fixture::write("12345", 3_600 * SECOND))
                .await
        }
    });
    harness.settle().await;
    let before = Instant::now();
    let stopped = session.stop(Ladder::Ask).await.outcome;
    assert!(poll.await.is_ok_and(|told| told == stopped));
    assert!(
        wait.await
            .is_ok_and(|told| told.is_ok_and(|told| told.result == WaitResult::Fired))
    );
    let write = write.await;
    let accepted_bytes = match &write {
        // Whether the end or the broken pipe is seen first is nobody's promise.
        Ok(Err(
            WriteError::SessionEnded { accepted_bytes, .. } | WriteError::ReaderClosed { accepted_bytes },
        )) => Some(*accepted_bytes),
        _ => None,
    };
    assert_eq!(accepted_bytes, Some(1), "what was accepted is told: {write:?}");
    assert!(before.elapsed() < SECOND);
}

/// Wall and idle time-outs fire on time without anybody asking; output alone puts off the idle one.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn time_outs_run_by_themselves(service: &Service) {
    let harness = harness(service).await;
    let wall = harness
        .start_session(fixture::spec().wall_time(10 * SECOND))
        .await;
    let idle = harness
        .start_session(fixture::spec().limit(Field::IdleTime, 4_000_u64))
        .await;
    harness.advance(3 * SECOND).await;
    idle.process.emit(StreamId::Stdout, "alive");
    harness.advance(7 * SECOND).await;
    let signalled = |session: &HarnessSession| session.process.signals()[0].at;
    assert_eq!(
        (wall.outcome().await.cause, signalled(&wall)),
        (Cause::WallTimeout, 10 * SECOND)
    );
    assert_eq!(
        (idle.outcome().await.cause, signalled(&idle)),
        (Cause::IdleTimeout, 7 * SECOND)
    );
}

/// Output that is held open after the exit is read for the drain grace, then its holder is swept.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn held_output_is_drained_and_then_swept(service: &Service) {
    let harness = harness(service).await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.fork(Descendant::new(7).holding_output());
    session.process.exit(0);
    harness.advance(SECOND / 2).await;
    session.process.emit(StreamId::Stdout, "late");
    let report = session.until_ended().await;
    assert_eq!(report.stdout, "late");
    let outcome = session.outcome().await;
    let drained = outcome
        .ended_at
        .saturating_since(outcome.exited_at.unwrap_or_default());
    assert!(
        drained >= SECOND && drained < 3 * SECOND,
        "drained for {drained:?}"
    );
    assert_eq!(outcome.swept_pids, [7]);
    let quick = harness.start_session(fixture::spec()).await;
    quick.process.exit(0);
    let outcome = quick.outcome().await;
    assert_eq!(
        outcome.closed_at, outcome.exited_at,
        "who holds nothing is not waited for"
    );
}

/// A write ends complete, with what was accepted in its time, or with one of three errors.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn writes_have_three_ends(service: &Service) {
    let harness = harness(service).await;
    let session = harness.start_session(fixture::piped_spec()).await;
    let (client, id) = (&session.client, session.id);
    let written = client.write(id, fixture::write("all", SECOND)).await;
    assert!(written.is_ok_and(|written| (written.accepted_bytes, written.end) == (3, WriteEnd::Complete)));
    assert_eq!(session.process.take_input(), b"all");
    session.process.limit_input(2);
    let written = client.write(id, fixture::write("half", SECOND)).await;
    assert!(written.is_ok_and(|written| (written.accepted_bytes, written.end) == (2, WriteEnd::TimedOut)));
    session.process.close_input();
    let written = client.write(id, fixture::write("x", SECOND)).await;
    assert_eq!(written, Err(WriteError::ReaderClosed { accepted_bytes: 0 }));
    let other = harness.start_session(fixture::piped_spec()).await;
    assert_eq!(client.close_stdin(other.id).await, Ok(()));
    let written = client.write(other.id, fixture::write("x", SECOND)).await;
    assert_eq!(written, Err(WriteError::StdinClosed { accepted_bytes: 0 }));
    assert!(other.process.is_input_closed());
    other.process.exit(0);
    other.outcome().await;
    let written = client.write(other.id, fixture::write("x", SECOND)).await;
    assert!(matches!(written, Err(WriteError::SessionEnded { .. })));
}

/// A start that fails is reported as it failed; a tree does not outlive the actor that held it.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_failed_start_is_reported_and_a_died_actor_kills_its_tree(service: &Service) {
    let harness = harness(service).await;
    let failure = fixture::start_failure(procession_core::StartFailureKind::NotFound);
    harness.port().script(Script::fails(failure.clone()));
    let started = harness.client("alice").start(fixture::spec()).await;
    assert_eq!(started, Err(failure.into()));
    harness
        .port()
        .script(Script::new().steps(Steps::new().emit(StreamId::Stdout, "x")));
    let session = harness.start_session(fixture::spec()).await;
    harness.session_actor(session.id).kill();
    session.process.killed().await;
    assert_eq!(session.outcome().await.cause, Cause::Lost);
}
