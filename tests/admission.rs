//! Who gets in: budgets are exact, nothing has happened where a start is refused, places come back.
#![cfg(test)]

use std::{collections::BTreeSet, ffi::OsString, os::unix::ffi::OsStringExt, sync::Arc, time::Duration};

use procession_actors::{
    Client, PolicyMessage, Slot,
    error::{CallError, StartError},
    report::{Ladder, ListFilter, Started},
};
use procession_core::{
    EnvironmentError, EnvironmentRules, Field, Owner, SessionSpec, Shell, SpecError, StartFailureKind,
    admission::{HostBudgets, LimitName, LimitReached, RetryWhen, Scope},
    environment::Literal,
};
use procession_policy::HostPolicy;
use procession_testkit::{Gate, Harness, Probe, Script, Steps, fixture};
use proptest::prelude::*;
use tokio::task::JoinHandle;

fn spawn_start(client: &Client, spec: SessionSpec) -> JoinHandle<Result<Started, StartError>> {
    let client = client.clone();
    tokio::spawn(async move { client.start(spec).await })
}

fn budgets(max_sessions: u64, max_sessions_per_owner: u64) -> HostBudgets {
    HostBudgets {
        max_sessions,
        max_sessions_per_owner,
        ..HostBudgets::default()
    }
}

#[tokio::test(start_paused = true)]
async fn budgets_are_exact_under_any_number_of_starts_at_once() {
    let harness = Harness::builder().budgets(budgets(10, 4)).start().await;
    let starts: Vec<_> = (0..120)
        .map(|number| spawn_start(&harness.client(["a", "b", "c", "d"][number % 4]), fixture::spec()))
        .collect();
    let mut started = 0;
    for start in starts {
        match start.await.unwrap() {
            Ok(_) => started += 1,
            Err(StartError::LimitReached(limit)) => assert_eq!(limit.retry_when, RetryWhen::SessionEnds),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(
        (started, harness.port().asked(), harness.port().running().len()),
        (10, 10, 10)
    );
    for name in ["a", "b", "c", "d"] {
        assert!(
            harness.client(name).list(ListFilter::Live).await.unwrap().len() <= 4,
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_budget_is_told_with_its_numbers_for_the_innermost_scope() {
    let check = |budgets: HostBudgets, spec: SessionSpec, expected: LimitReached| async move {
        let harness = Harness::builder().budgets(budgets).start().await;
        harness.start_session(spec.clone()).await;
        harness.start_session(spec.clone()).await;
        let refused = harness.client("alice").start(spec).await;
        assert_eq!(refused, Err(StartError::LimitReached(expected)));
        assert_eq!(harness.port().asked(), 2, "nothing happened");
    };
    let sessions = |scope| LimitReached {
        limit: LimitName::MaxSessions,
        scope,
        configured: 2,
        in_use: 2,
        requested: 1,
        retry_when: RetryWhen::SessionEnds,
    };
    check(budgets(2, 16), fixture::spec(), sessions(Scope::Owner)).await;
    check(budgets(64, 2), fixture::spec(), sessions(Scope::Owner)).await;
    let per_principal = HostBudgets {
        max_sessions_per_principal: Some(2),
        ..budgets(64, 16)
    };
    check(per_principal, fixture::spec(), sessions(Scope::Owner)).await;
    let bytes = |limit, scope, in_use, requested| LimitReached {
        limit,
        scope,
        configured: 5 << 20,
        in_use,
        requested,
        retry_when: RetryWhen::SessionEnds,
    };
    let spec = fixture::spec()
        .limit(Field::LogBytes, 2_u64 << 20)
        .limit(Field::Capture, 1_u64 << 20);
    let logs = HostBudgets {
        max_log_bytes_total: Some(5 << 20),
        ..HostBudgets::default()
    };
    check(
        logs,
        spec.clone(),
        bytes(LimitName::MaxLogBytes, Scope::Host, 4 << 20, 2 << 20),
    )
    .await;
    let captures = HostBudgets {
        max_capture_bytes_per_owner: Some(5 << 20),
        ..HostBudgets::default()
    };
    check(
        captures,
        spec,
        bytes(LimitName::MaxCaptureBytes, Scope::Owner, 4 << 20, 2 << 20),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn owners_of_one_principal_share_its_budget_and_others_do_not() {
    let budgets = HostBudgets {
        max_sessions_per_principal: Some(3),
        ..budgets(64, 2)
    };
    let harness = Harness::builder().budgets(budgets).start().await;
    let client = |agent: &str| harness.system().client(Owner::new("principal", agent, agent));
    for agent in ["a", "a", "b"] {
        client(agent).start(fixture::spec()).await.unwrap();
    }
    let refused = client("b").start(fixture::spec()).await;
    assert!(matches!(refused, Err(StartError::LimitReached(limit)) if limit.scope == Scope::Principal));
    harness.start_session_as("another", fixture::spec()).await;
}

#[tokio::test(start_paused = true)]
async fn what_can_never_fit_says_so() {
    let budgets = HostBudgets {
        max_log_bytes_total: Some(1 << 20),
        ..HostBudgets::default()
    };
    let harness = Harness::builder().budgets(budgets).start().await;
    let refused = harness.client("alice").start(fixture::spec()).await;
    let Err(StartError::LimitReached(limit)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((limit.retry_when, limit.in_use), (RetryWhen::RequestIsSmaller, 0));
    let without = fixture::spec().limit(Field::LogMode, "off");
    assert!(
        harness.client("alice").start(without).await.is_ok(),
        "who has no log needs no room for one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_live_session_is_never_ended_to_admit_another_an_ended_one_makes_way_oldest_first() {
    let harness = Harness::builder().budgets(budgets(3, 3)).start().await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(harness.start_session(fixture::spec()).await);
    }
    // Ends in another order than that of the starts; all ends are seen.
    for index in [1, 0] {
        sessions[index].process.exit(0);
        sessions[index].outcome().await;
        harness.advance(Duration::from_secs(1)).await;
    }
    let first = harness.start_session(fixture::spec()).await;
    assert_eq!(first.started.evicted, [sessions[1].id]);
    let second = harness.start_session(fixture::spec()).await;
    assert_eq!(second.started.evicted, [sessions[0].id]);
    assert!(harness.client("alice").start(fixture::spec()).await.is_err());
    assert!(sessions[2].process.is_running());
    assert_eq!(
        sessions[1].client.inspect(sessions[1].id).await,
        Err(CallError::Gone.into())
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_evicted_of_others_is_told_to_nobody_else() {
    let harness = Harness::builder().budgets(budgets(1, 1)).start().await;
    let bobs = harness.start_session_as("bob", fixture::spec()).await;
    bobs.process.exit(0);
    bobs.outcome().await;
    let alices = harness.start_session(fixture::spec()).await;
    assert_eq!(alices.started.evicted, []);
    assert_eq!(bobs.client.inspect(bobs.id).await, Err(CallError::Gone.into()));
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_frees_its_place_in_the_moment_of_its_end() {
    let harness = Harness::builder().budgets(budgets(1, 1)).start().await;
    for _ in 0..50 {
        let session = harness.start_session(fixture::spec()).await;
        assert!(harness.client("alice").start(fixture::spec()).await.is_err());
        session.stop(Ladder::Ask).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_failed_starts_take_no_place() {
    let harness = Harness::builder().budgets(budgets(2, 2)).start().await;
    let client = harness.client("alice");
    for _ in 0..1_000 {
        harness
            .port()
            .script(Script::fails(fixture::start_failure(StartFailureKind::Exhausted)));
        assert!(matches!(
            client.start(fixture::spec()).await,
            Err(StartError::Failed(_))
        ));
    }
    assert_eq!(client.list(ListFilter::All).await, Ok(Vec::new()));
    harness.start_session(fixture::spec()).await;
    harness.start_session(fixture::spec()).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_only_starts_holds_its_place_and_is_not_listed() {
    let harness = Harness::builder().budgets(budgets(1, 1)).start().await;
    let gate = Gate::closed();
    harness.port().script(Script::new().held_by(&gate));
    let client = harness.client("alice");
    let starting = spawn_start(&client, fixture::spec());
    gate.arrived(1).await;
    harness.settle().await;
    assert!(matches!(
        client.start(fixture::spec()).await,
        Err(StartError::LimitReached(_))
    ));
    assert_eq!(client.list(ListFilter::All).await, Ok(Vec::new()));
    gate.open();
    starting.await.unwrap().unwrap();
    assert_eq!(client.list(ListFilter::All).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_request_is_the_same_session() {
    let harness = Harness::start().await;
    let spec = || SessionSpec {
        request_id: Some(fixture::request_id("start 1")),
        ..fixture::spec()
    };
    let client = harness.client("alice");
    // All at once, and then once more.
    let starts: Vec<_> = (0..10).map(|_| spawn_start(&client, spec())).collect();
    let mut ids = BTreeSet::new();
    for start in starts {
        ids.insert(start.await.unwrap().unwrap().session);
    }
    ids.insert(client.start(spec()).await.unwrap().session);
    assert_eq!((ids.len(), harness.port().asked()), (1, 1));
    // The same name from another owner is another request.
    let bobs = harness.client("bob").start(spec()).await.unwrap();
    assert!(!ids.contains(&bobs.session));
    // Also after the end it is the same session.
    harness.port().processes()[0].exit(0);
    harness.advance(Duration::from_secs(1)).await;
    assert!(ids.contains(&client.start(spec()).await.unwrap().session));
    assert_eq!(harness.port().asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_failed_can_be_made_again() {
    let harness = Harness::start().await;
    let spec = || SessionSpec {
        request_id: Some(fixture::request_id("start 1")),
        ..fixture::spec()
    };
    harness
        .port()
        .script(Script::fails(fixture::start_failure(StartFailureKind::Busy)));
    let client = harness.client("alice");
    let starts: Vec<_> = (0..3).map(|_| spawn_start(&client, spec())).collect();
    for start in starts {
        assert!(
            matches!(start.await.unwrap(), Err(StartError::Failed(_))),
            "all that wait get the one answer"
        );
    }
    assert!(client.start(spec()).await.is_ok());
    assert_eq!(harness.port().asked(), 2);
}

/// Checks that a spec is refused like this, that nobody was asked about it, and that nothing was made for it.
async fn check_refusals(refusals: impl IntoIterator<Item = (SessionSpec, StartError)>) {
    let mut policy = Probe::<PolicyMessage>::start().await;
    let rules = EnvironmentRules {
        literal: Literal::Refused,
        ..EnvironmentRules::default()
    };
    let harness = Harness::builder()
        .policy_slot(Slot::External(policy.derived()))
        .environment(rules)
        .start()
        .await;
    for (spec, expected) in refusals {
        assert_eq!(harness.client("alice").start(spec).await, Err(expected));
    }
    assert_eq!((harness.port().asked(), harness.session_actors().len()), (0, 0));
    policy.expect_none(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_program_that_cannot_be_run_is_refused_before_anything_happens() {
    let nul = |place: &str| {
        SpecError::Nul {
            place: place.to_owned(),
        }
        .into()
    };
    let long = |place: &str| {
        SpecError::TooLong {
            place: place.to_owned(),
            bytes: 131_072,
            limit_bytes: 131_071,
        }
        .into()
    };
    let argv = |argv: &[&str]| SessionSpec::argv(argv.iter().copied());
    let shell = |command: &str| SessionSpec::shell(Shell::Sh, command);
    let endless = "x".repeat(131_072);
    check_refusals([
        (argv(&[]), SpecError::EmptyArgv.into()),
        (argv(&[""]), SpecError::EmptyProgram.into()),
        (argv(&["a\0b"]), nul("argv[0]")),
        (argv(&["a", "b\0"]), nul("argv[1]")),
        (shell("a\0b"), nul("command")),
        (
            SessionSpec {
                cwd: Some("/a\0b".into()),
                ..fixture::spec()
            },
            nul("cwd"),
        ),
        (argv(&[&endless]), long("argv[0]")),
        (shell(&endless), long("command")),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_environment_that_cannot_be_made_is_refused_before_anything_happens() {
    let keys = |keys: Vec<String>| SessionSpec {
        env_keys: keys,
        ..fixture::spec()
    };
    let variable = |name: &str, value: &str| {
        let mut spec = fixture::spec();
        spec.env.insert(name.into(), value.into());
        spec
    };
    let too_many = SpecError::TooMany {
        place: "env_keys".to_owned(),
        count: 257,
        limit: 256,
    };
    let bad_name = |name: &str| {
        SpecError::BadVariableName {
            name: name.to_owned(),
        }
        .into()
    };
    check_refusals([
        (
            keys((0..257).map(|key| format!("KEY_{key}")).collect()),
            too_many.into(),
        ),
        (
            keys(vec!["TOKEN".to_owned()]),
            EnvironmentError::UnknownKey {
                key: "TOKEN".to_owned(),
            }
            .into(),
        ),
        (variable("", "x"), bad_name("")),
        (variable("A=B", "x"), bad_name("A=B")),
        (
            variable("A", "a\0"),
            SpecError::Nul {
                place: "env.A".to_owned(),
            }
            .into(),
        ),
        (variable("A", "a"), EnvironmentError::LiteralRefused.into()),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_does_not_fit_its_field_is_refused_with_its_field() {
    let harness = Harness::start().await;
    for (field, value) in [
        (Field::WallTime, 0_u64),
        (Field::OpenFiles, 1),
        (Field::Capture, 1),
    ] {
        let refused = harness
            .client("alice")
            .start(fixture::spec().limit(field, value))
            .await;
        let is_unfit =
            matches!(&refused, Err(StartError::Invalid(SpecError::Unfit(unfit))) if unfit.field == field);
        assert!(is_unfit, "{refused:?}");
    }
    assert_eq!(harness.port().asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_not_utf8_is_carried_out_as_it_is() {
    let harness = Harness::start().await;
    let argument = OsString::from_vec(vec![b'a', 0xff, 0xfe]);
    let session = harness
        .start_session(SessionSpec::argv([OsString::from("played"), argument.clone()]))
        .await;
    assert_eq!(session.process.request().argv[1], argument);
}

#[tokio::test(start_paused = true)]
async fn a_policys_refusal_leaves_nothing_but_its_record() {
    let harness = Harness::builder().policy(HostPolicy::default()).start().await;
    let client = harness.client("alice");
    let refused = client.start(fixture::spec().limit(Field::Network, false)).await;
    assert!(matches!(refused, Err(StartError::Refused(refused)) if refused.field == Field::Network));
    assert_eq!(
        (
            harness.port().asked(),
            client.list(ListFilter::All).await.unwrap().len()
        ),
        (0, 0)
    );
    assert!(harness.session_actors().is_empty());
}

/// What a run of the model does.
#[derive(Debug, Clone, Copy)]
enum Move {
    Start { owner: usize },
    FailStart { owner: usize },
    End { nth: usize },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (0..3_usize).prop_map(|owner| Move::Start { owner }),
        1 => (0..3_usize).prop_map(|owner| Move::FailStart { owner }),
        3 => (0..8_usize).prop_map(|nth| Move::End { nth }),
    ];
    proptest::collection::vec(one, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, fork: false, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_start_gets_in_exactly_where_the_model_has_room(moves in moves()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let harness = Harness::builder().budgets(budgets(5, 3)).start().await;
            let mut live: Vec<(usize, Arc<procession_testkit::HarnessSession>)> = Vec::new();
            for one in moves {
                match one {
                    Move::Start { owner } | Move::FailStart { owner } => {
                        let fails = matches!(one, Move::FailStart { .. });
                        let has_room = live.len() < 5 && live.iter().filter(|(of, _)| *of == owner).count() < 3;
                        if has_room {
                            harness.port().script(if fails {
                                Script::fails(fixture::start_failure(StartFailureKind::NotFound))
                            } else {
                                Script::new().steps(Steps::new())
                            });
                        }
                        let client = harness.client(["a", "b", "c"][owner]);
                        match client.start(fixture::spec()).await {
                            Ok(started) => {
                                assert!(has_room && !fails);
                                live.push((owner, Arc::new(harness.session(client, started))));
                            }
                            Err(StartError::LimitReached(_)) => assert!(!has_room),
                            Err(StartError::Failed(_)) => assert!(has_room && fails),
                            Err(other) => panic!("{other}"),
                        }
                    }
                    Move::End { nth } => {
                        if !live.is_empty() {
                            let (_, session) = live.remove(nth % live.len());
                            session.process.exit(0);
                            session.outcome().await;
                        }
                    }
                }
                assert_eq!(harness.port().running().len(), live.len());
            }
        });
    }
}
