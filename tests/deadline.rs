//! Time-outs: they run by themselves, on time, and kill nobody who is alive.
#![cfg(test)]

use std::time::Duration;

use procession_actors::report::{Condition, Ladder, PollQuery};
use procession_core::{Cause, Field, Signal, Status, StreamId, Value, session::STATUS_BOUND};
use procession_policy::{SetBy, Status as Decided};
use procession_testkit::{Descendant, Harness, HarnessSession, Script, fixture};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn first_signal_at(session: &HarnessSession) -> Option<Duration> {
    session.process.signals().first().map(|sent| sent.at)
}

#[tokio::test(start_paused = true)]
async fn the_wall_time_is_counted_from_the_spawn_whatever_happens() {
    for millis in [1_u64, 999, 10_000, 3_600_000] {
        let harness = Harness::start().await;
        let session = harness
            .start_session(fixture::spec().limit(Field::WallTime, millis))
            .await;
        let wall = Duration::from_millis(millis);
        for _ in 0..3 {
            session.process.emit(StreamId::Stdout, "busy");
            harness.advance(wall / 4).await;
        }
        let outcome = session.outcome().await;
        assert_eq!(
            (outcome.cause, first_signal_at(&session)),
            (Cause::WallTimeout, Some(wall))
        );
        assert_eq!(
            session.inspect().await.receipt.unwrap().struck.unwrap().field,
            Field::WallTime
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_wall_time_is_ten_minutes_when_nothing_is_said() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.outcome().await;
    assert_eq!(first_signal_at(&session), Some(600 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn output_alone_puts_the_idle_time_off() {
    let harness = Harness::start().await;
    let session = harness
        .start_session(fixture::piped_spec().limit(Field::IdleTime, 5_000_u64))
        .await;
    for stream in [StreamId::Stdout, StreamId::Stderr, StreamId::Stdout] {
        harness.advance(4 * SECOND).await;
        session.process.emit(stream, "x");
    }
    // From here on everything but output.
    for _ in 0..4 {
        harness.advance(SECOND).await;
        session.poll(PollQuery::now()).await;
        session
            .client
            .write(session.id, fixture::write("x", SECOND))
            .await
            .unwrap();
        session.client.signal(session.id, Signal::CONT).await.unwrap();
        session.inspect().await;
        session
            .client
            .wait(session.id, Condition::Ended, Duration::from_millis(1))
            .await
            .unwrap();
    }
    let outcome = session.outcome().await;
    assert_eq!(outcome.cause, Cause::IdleTimeout);
    let terminated = session
        .process
        .signals()
        .into_iter()
        .find(|sent| sent.signal == Signal::TERM);
    assert_eq!(terminated.map(|sent| sent.at), Some(17 * SECOND));
    assert_eq!(outcome.largest_idle_gap, 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_goes_on_writing_never_idles() {
    let harness = Harness::start().await;
    let session = harness
        .start_session(fixture::spec().limit(Field::IdleTime, 1_000_u64))
        .await;
    for _ in 0..100 {
        harness.advance(Duration::from_millis(999)).await;
        session.process.emit(StreamId::Stdout, ".");
        harness.settle().await;
    }
    assert!(session.process.is_running());
    assert_eq!(session.process.signals(), []);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_slept_reads_what_waits_before_anybody_idles() {
    for is_told in [true, false] {
        let harness = Harness::start().await;
        let session = harness
            .start_session(fixture::spec().limit(Field::IdleTime, 5_000_u64))
            .await;
        harness.settle().await;
        if !is_told {
            session.process.block_output(StreamId::Stdout);
        }
        session.process.emit(StreamId::Stdout, "alive");
        harness.jump(60 * SECOND).await;
        assert_eq!(session.process.signals(), [], "told: {is_told}");
        assert_eq!(
            session.poll(PollQuery::now()).await.stdout,
            "alive",
            "told: {is_told}"
        );
        // And from here on the time counts anew.
        harness.advance(4 * SECOND).await;
        assert!(session.process.is_running());
        assert_eq!(session.outcome().await.cause, Cause::IdleTimeout);
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_slept_past_an_exit_tells_the_exit() {
    for field in [Field::WallTime, Field::IdleTime] {
        let harness = Harness::start().await;
        let session = harness
            .start_session(fixture::spec().limit(field, 5_000_u64))
            .await;
        harness.settle().await;
        session.process.exit(3);
        harness.jump(60 * SECOND).await;
        let outcome = session.outcome().await;
        assert_eq!(
            (outcome.cause, outcome.status),
            (Cause::Exit, Status::Exited { code: 3 }),
            "{field}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn output_that_waits_does_not_put_the_wall_time_off() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec().wall_time(5 * SECOND)).await;
    session.process.block_output(StreamId::Stdout);
    session.process.emit(StreamId::Stdout, "last words");
    let report = session.until_ended().await;
    assert_eq!(
        (report.stdout.as_str(), report.outcome.unwrap().cause),
        ("last words", Cause::WallTimeout)
    );
}

#[tokio::test(start_paused = true)]
async fn where_both_are_over_at_once_it_was_the_wall_time() {
    let harness = Harness::start().await;
    let spec = fixture::spec()
        .wall_time(5 * SECOND)
        .limit(Field::IdleTime, 5_000_u64);
    let session = harness.start_session(spec).await;
    assert_eq!(session.outcome().await.cause, Cause::WallTimeout);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_has_nothing_to_do_once_the_leader_has_exited() {
    let harness = Harness::start().await;
    let spec = fixture::spec()
        .wall_time(5 * SECOND)
        .limit(Field::DrainGrace, 10_000_u64);
    let session = harness.start_session(spec).await;
    session.process.fork(Descendant::new(7).holding_output());
    harness.advance(4 * SECOND).await;
    session.process.exit(0);
    let outcome = session.outcome().await;
    assert_eq!(
        (outcome.cause, outcome.status),
        (Cause::Exit, Status::Exited { code: 0 })
    );
    assert_eq!(
        outcome.ended_at.saturating_since(outcome.exited_at.unwrap()),
        10 * SECOND
    );
}

#[tokio::test(start_paused = true)]
async fn huge_times_are_no_errors() {
    let harness = Harness::start().await;
    let spec = fixture::piped_spec()
        .limit(Field::WallTime, u64::MAX)
        .limit(Field::IdleTime, u64::MAX)
        .limit(Field::Grace, u64::MAX)
        .limit(Field::DrainGrace, u64::MAX);
    harness.port().script(Script::new().ignoring(Signal::TERM));
    let session = harness.start_session(spec).await;
    for (field, ceiling) in [
        (Field::WallTime, 86_400_000_u64),
        (Field::IdleTime, 86_400_000),
        (Field::Grace, 60_000),
        (Field::DrainGrace, 10_000),
    ] {
        let decided = session.started.decision.get(field).unwrap();
        assert_eq!(decided.requested, Some(Value::Number(u64::MAX)), "{field}");
        assert_eq!(decided.effective, Some(Value::Number(ceiling)), "{field}");
        assert_eq!(
            (decided.status, decided.set_by),
            (Decided::Clamped, SetBy::Host),
            "{field}"
        );
    }
    session.process.limit_input(0);
    let endless = |session: &HarnessSession| {
        let session = session.clone();
        [
            tokio::spawn({
                let session = session.clone();
                async move {
                    session
                        .poll(PollQuery::wait(Duration::MAX))
                        .await
                        .outcome
                        .is_some()
                }
            }),
            tokio::spawn({
                let session = session.clone();
                async move {
                    let wait = session
                        .client
                        .wait(session.id, Condition::Ended, Duration::MAX)
                        .await;
                    wait.unwrap().outcome.is_some()
                }
            }),
            tokio::spawn(async move {
                session
                    .client
                    .write(session.id, fixture::write("x", Duration::MAX))
                    .await
                    .is_err()
            }),
        ]
    };
    let waiting = endless(&session);
    harness.settle().await;
    let stop = tokio::spawn({
        let session = session.clone();
        async move { session.stop(Ladder::AskFor(Duration::MAX)).await }
    });
    harness.advance(86_400 * 400 * SECOND).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()) && !stop.is_finished());
    session.stop(Ladder::Force).await;
    for waiting in waiting {
        assert!(waiting.await.unwrap());
    }
    assert_eq!(stop.await.unwrap().outcome.unwrap().cause, Cause::Stop);
}

#[tokio::test(start_paused = true)]
async fn a_poll_for_ever_returns_with_the_first_output_after_years() {
    let harness = Harness::start().await;
    let spec = fixture::spec().limit(Field::WallTime, u64::MAX);
    let session = harness.start_session(spec).await;
    let began = Instant::now();
    let poll = tokio::spawn({
        let session = session.clone();
        async move { session.poll(PollQuery::wait(Duration::MAX)).await }
    });
    harness.advance(86_000 * SECOND).await;
    session.process.emit(StreamId::Stdout, "at last");
    assert_eq!(poll.await.unwrap().stdout, "at last");
    assert_eq!(began.elapsed(), 86_000 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_waits_for_the_status_of_a_leader_that_is_gone() {
    let harness = Harness::start().await;
    let spec = fixture::spec().wall_time(5 * SECOND);
    let session = harness.start_session(spec.clone()).await;
    session.process.exit_untold();
    harness.advance(5 * SECOND + STATUS_BOUND / 2).await;
    assert_eq!(first_signal_at(&session), None);
    session.process.exit(3);
    let outcome = session.outcome().await;
    assert_eq!(
        (outcome.cause, outcome.status),
        (Cause::Exit, Status::Exited { code: 3 })
    );

    let session = harness.start_session(spec).await;
    session.process.exit_untold();
    assert_eq!(
        session.outcome().await.cause,
        Cause::WallTimeout,
        "nobody ever told it"
    );
    assert_eq!(first_signal_at(&session), Some(5 * SECOND + STATUS_BOUND));
}
