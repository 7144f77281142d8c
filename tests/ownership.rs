//! Whose a session is: on every operation, a foreign and an unknown id get the same answer, and nothing happens.
#![cfg(test)]

use std::{fmt::Debug, time::Duration};

use procession_actors::{
    Client,
    report::{Condition, Ladder, ListFilter, LogPattern, LogSearch, OwnerEnd, PollQuery, ReadQuery},
};
use procession_core::{
    Owner, SessionId, Signal, StreamId, render::Render, spec::TerminalSize, text::ReadPosition,
};
use procession_testkit::{Gate, Harness, Script, fixture};

/// Every operation on one session, by number.
const OPERATIONS: usize = 17;

async fn ask(operation: usize, client: &Client, session: SessionId) -> String {
    fn shown(answer: impl Debug) -> String {
        format!("{answer:?}")
    }
    let cursor = ReadPosition { stdout: 1, stderr: 0 };
    let (hour, none) = (Duration::from_secs(3_600), Duration::ZERO);
    match operation {
        0 => shown(client.poll(session, PollQuery::now()).await),
        1 => shown(client.poll(session, PollQuery::wait(hour)).await),
        2 => shown(
            client
                .poll(session, PollQuery::now().from(cursor).budget(1))
                .await,
        ),
        3 => shown(client.read_output(session, fixture::read_all()).await),
        4 => shown(
            client
                .read_output(
                    session,
                    ReadQuery {
                        cursor: Some(cursor),
                        wait: hour,
                        max_bytes: 1,
                    },
                )
                .await,
        ),
        5 => shown(client.write(session, fixture::write("foreign", hour)).await),
        6 => shown(client.close_stdin(session).await),
        7 => shown(client.signal(session, Signal::KILL).await),
        8 => shown(client.resize(session, TerminalSize { rows: 1, cols: 1 }).await),
        9 => shown(client.wait(session, Condition::Ended, hour).await),
        10 => shown(client.wait(session, Condition::Exited, none).await),
        11 => shown(client.inspect(session).await),
        12 => shown(client.read_log(session, fixture::log_page(0, 100)).await),
        13 => shown(client.stop(session, fixture::stop(Ladder::Ask)).await),
        14 => shown(client.stop(session, fixture::stop(Ladder::Force)).await),
        15 => {
            let pattern = LogPattern::Literal("secret".to_owned());
            let search = LogSearch {
                pattern,
                from_offset: 0,
                max_matches: 1,
                context_bytes: 10,
            };
            shown(client.search_log(session, search).await)
        }
        16 => shown(client.poll(session, PollQuery::now().render(Render::Plain)).await),
        _ => unreachable!("there are {OPERATIONS} operations"),
    }
}

/// Where a session is when somebody else asks for it.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Starting,
    Running,
    RunningWithTerminal,
    Ended,
    ActorDied,
    Gone,
}

const STAGES: [Stage; 6] = [
    Stage::Starting,
    Stage::Running,
    Stage::RunningWithTerminal,
    Stage::Ended,
    Stage::ActorDied,
    Stage::Gone,
];

/// Brings a session of alice's to this stage.
async fn at_stage(stage: Stage) -> (Harness, SessionId) {
    let harness = Harness::start().await;
    if let Stage::Starting = stage {
        harness.port().script(Script::new().held_by(&Gate::closed()));
        let client = harness.client("alice");
        tokio::spawn(async move { client.start(fixture::piped_spec()).await });
        harness.settle().await;
        let (session, _) = harness.session_actors()[0];
        return (harness, session);
    }
    let mut spec = fixture::piped_spec();
    if let Stage::RunningWithTerminal = stage {
        spec = fixture::spec();
        spec.terminal = Some(procession_core::spec::Terminal::default());
    }
    let session = harness.start_session(spec).await;
    session.process.emit(StreamId::Stdout, "secret");
    harness.settle().await;
    match stage {
        Stage::Starting | Stage::Running | Stage::RunningWithTerminal => {}
        Stage::Ended => {
            session.process.exit(0);
            session.outcome().await;
        }
        Stage::ActorDied => {
            harness.session_actor(session.id).kill();
            harness.settle().await;
        }
        Stage::Gone => {
            session.process.exit(0);
            session.outcome().await;
            harness.advance(Duration::from_secs(301)).await;
        }
    }
    (harness, session.id)
}

/// Everybody who is not alice, however close.
fn strangers(harness: &Harness) -> Vec<Client> {
    let Owner {
        principal,
        agent,
        scope,
    } = fixture::owner("alice");
    let owners = [
        fixture::owner("bob"),
        Owner::new(&principal, &agent, "another scope"),
        Owner::new(&principal, "another agent", &scope),
        Owner::new("another principal", &agent, &scope),
        Owner::new(&principal, &agent, ""),
        Owner::new(&principal, &agent, &scope[..scope.len() - 1]),
        Owner::new(&principal, &agent, format!("{scope} ")),
        Owner::new(principal.to_uppercase(), &agent, &scope),
        // The same letters, cut elsewhere.
        Owner::new(format!("{principal}{agent}"), "", &scope),
    ];
    owners
        .into_iter()
        .map(|owner| harness.system().client(owner))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_foreign_session_is_answered_like_an_unknown_one_on_every_operation_at_every_stage() {
    for stage in STAGES {
        let (harness, session) = at_stage(stage).await;
        let unknown = fixture::session_id(1);
        let before = tokio::time::Instant::now();
        for stranger in strangers(&harness) {
            for operation in 0..OPERATIONS {
                let foreign = ask(operation, &stranger, session).await;
                assert_eq!(
                    foreign,
                    ask(operation, &stranger, unknown).await,
                    "{stage:?}, operation {operation}"
                );
                assert_eq!(foreign, "Err(Call(NotFound))", "{stage:?}, operation {operation}");
            }
            assert_eq!(stranger.list(ListFilter::All).await.unwrap(), [], "{stage:?}");
            assert_eq!(stranger.end_all(OwnerEnd::Stop).await.unwrap(), [], "{stage:?}");
        }
        assert_eq!(
            before.elapsed(),
            Duration::ZERO,
            "{stage:?}: a stranger had to wait"
        );
        for process in harness.port().processes() {
            let killed_by_guard = matches!(stage, Stage::ActorDied);
            assert_eq!(process.signals().is_empty(), !killed_by_guard, "{stage:?}");
            assert_eq!(
                (process.input(), process.resizes()),
                (Vec::new(), Vec::new()),
                "{stage:?}"
            );
            if let Stage::Running | Stage::RunningWithTerminal = stage {
                assert!(process.is_running() && !process.is_input_closed(), "{stage:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_stranger_asked_moves_no_cursor_and_is_no_seen_end() {
    let (harness, session) = at_stage(Stage::Running).await;
    for stranger in strangers(&harness) {
        for operation in 0..OPERATIONS {
            ask(operation, &stranger, session).await;
        }
    }
    let alice = harness.client("alice");
    assert_eq!(
        alice.poll(session, PollQuery::now()).await.unwrap().stdout,
        "secret"
    );
    harness.port().processes()[0].exit(0);
    harness.advance(Duration::from_secs(299)).await;
    for stranger in strangers(&harness) {
        ask(9, &stranger, session).await;
    }
    // An end that nobody saw is kept for longer than the retention.
    harness.advance(Duration::from_secs(500)).await;
    assert!(alice.inspect(session).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn to_its_owner_a_gone_session_is_gone_on_every_operation() {
    let (harness, session) = at_stage(Stage::Gone).await;
    for operation in 0..OPERATIONS {
        assert_eq!(
            ask(operation, &harness.client("alice"), session).await,
            "Err(Call(Gone))",
            "operation {operation}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn to_its_owner_an_ended_session_answers_every_operation_at_once() {
    for stage in [Stage::Ended, Stage::ActorDied] {
        let (harness, session) = at_stage(stage).await;
        let before = tokio::time::Instant::now();
        for operation in 0..OPERATIONS {
            let answer = ask(operation, &harness.client("alice"), session).await;
            let is_refused = answer.starts_with("Err(Call(");
            assert!(!is_refused, "{stage:?}, operation {operation}: {answer}");
            let has_no_effect = matches!(operation, 5 | 7 | 8);
            let knows_the_end = answer.contains("SessionEnded");
            assert_eq!(
                has_no_effect, knows_the_end,
                "{stage:?}, operation {operation}: {answer}"
            );
        }
        assert!(
            before.elapsed() < Duration::from_millis(100),
            "{stage:?}: {:?}",
            before.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_session_is_answered_the_same_to_everybody() {
    let harness = Harness::start().await;
    for number in 0..3 {
        for operation in 0..OPERATIONS {
            let answer = ask(operation, &harness.client("alice"), fixture::session_id(number)).await;
            assert_eq!(answer, "Err(Call(NotFound))", "operation {operation}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ending_an_owner_ends_its_sessions_and_nobody_elses() {
    let harness = Harness::start().await;
    let mut alices = Vec::new();
    for _ in 0..3 {
        alices.push(harness.start_session_as("alice", fixture::spec()).await);
    }
    let bobs = harness.start_session_as("bob", fixture::spec()).await;
    let Owner { principal, agent, .. } = fixture::owner("alice");
    let sibling = harness
        .system()
        .client(Owner::new(principal, agent, "another scope"));
    let siblings = sibling.start(fixture::spec()).await.unwrap();
    let ended = harness
        .client("alice")
        .end_all(OwnerEnd::OwnerEnded)
        .await
        .unwrap();
    assert_eq!(ended, alices.iter().map(|session| session.id).collect::<Vec<_>>());
    for session in alices {
        assert_eq!(session.outcome().await.cause, procession_core::Cause::OwnerEnded);
    }
    harness.advance(Duration::from_secs(10)).await;
    let running: Vec<_> = harness
        .port()
        .running()
        .iter()
        .map(procession_testkit::ScriptedProcess::pid)
        .collect();
    assert_eq!(running, [bobs.process.pid(), siblings.pid]);
}

#[tokio::test(start_paused = true)]
async fn a_list_shows_the_callers_own_sessions_in_the_order_of_their_starts() {
    let harness = Harness::start().await;
    let mut expected = Vec::new();
    for number in 0..8 {
        let session = harness
            .start_session_as(if number % 2 == 0 { "alice" } else { "bob" }, fixture::spec())
            .await;
        if number % 2 == 0 {
            expected.push(session.id);
        }
        harness.advance(Duration::from_millis(10)).await;
    }
    let listed = harness.client("alice").list(ListFilter::All).await.unwrap();
    assert_eq!(
        listed.iter().map(|listed| listed.session).collect::<Vec<_>>(),
        expected
    );
    assert!(listed.is_sorted_by(|older, younger| older.age >= younger.age));
}
