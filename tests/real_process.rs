//! The whole system on real processes: what a scripted one can only claim.
//!
//! The tests count descriptors and children of this process, so they run one at a time.
#![cfg(test)]

mod support;

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use procession_actors::{
    Client, SessionActor, SessionArguments, System, SystemBuilder, actor,
    error::{StartError, WriteError},
    report::{Condition, Ladder, ListFilter, PollQuery, ReadQuery, Started, WaitResult, WriteEnd},
};
use procession_core::{
    Cause, Field, Outcome, SessionSpec, Shell, Signal, StartFailureKind, Status, StreamId,
    admission::HostBudgets,
    containment::Mechanism,
    outcome::ObservedBy,
    spec::{Pace, StdinMode, StreamMode},
};
use procession_testkit::fixture;
use ractor::ActorCell;
use support::{Lifeline, builder, within};
use tempfile::TempDir;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test alone, on a runtime of its own, which is gone when it ends.
fn run<F: Future<Output = ()>>(test: F) {
    let _alone = alone();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

fn shell(command: impl AsRef<str>) -> SessionSpec {
    SessionSpec::shell(Shell::Bash, command.as_ref())
}

async fn system(adjust: impl FnOnce(SystemBuilder) -> SystemBuilder) -> (System, Client) {
    let system = adjust(builder()).start().await.unwrap();
    let client = system.client(fixture::owner("alice"));
    (system, client)
}

async fn start(client: &Client, spec: SessionSpec) -> Started {
    within("a start", client.start(spec)).await.unwrap()
}

async fn outcome(client: &Client, started: &Started) -> Outcome {
    let wait = client.wait(started.session, Condition::Ended, Duration::from_secs(60));
    within("an end", wait).await.unwrap().outcome.unwrap()
}

/// Descriptors that this process has open.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Children of this process, zombies included.
fn children() -> Vec<String> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path().join("children");
        // A thread that ends meanwhile has none.
        let listed = fs::read_to_string(path).unwrap_or_default();
        children.extend(listed.split_whitespace().map(str::to_owned));
    }
    children
}

#[test]
fn codes_and_signals_are_told_apart() {
    run(async {
        let (_system, client) = system(|builder| builder).await;
        let check = async |command: &str, expected: Status| {
            let started = start(&client, shell(command)).await;
            let outcome = outcome(&client, &started).await;
            assert_eq!(
                (outcome.cause, outcome.status),
                (Cause::Exit, expected),
                "{command}"
            );
            assert_eq!(outcome.observed_by, Some(ObservedBy::Pidfd), "{command}");
            assert!(outcome.incomplete_output.is_none(), "{command}");
        };
        let exited = |code| Status::Exited { code };
        let signaled = |signal| Status::Signaled {
            signal,
            core_dumped: false,
        };
        check("true", exited(0)).await;
        check("exit 7", exited(7)).await;
        check("exit 255", exited(255)).await;
        check("exit 137", exited(137)).await;
        check("kill -KILL $$", signaled(Signal::KILL)).await;
        check("kill -TERM $$", signaled(Signal::TERM)).await;
        check("kill -HUP $$", signaled(Signal::HUP)).await;
        check("no-such-command-anywhere 2>/dev/null", exited(127)).await;
    });
}

#[test]
fn the_last_bytes_of_a_fast_command_are_never_lost() {
    run(async {
        let (_system, client) = system(|builder| builder).await;
        for round in 0..100 {
            let started = start(
                &client,
                shell(format!("printf %s out{round}; printf %s error{round} >&2")),
            )
            .await;
            outcome(&client, &started).await;
            let report = client.poll(started.session, PollQuery::now()).await.unwrap();
            let expected = (format!("out{round}"), format!("error{round}"));
            assert_eq!((report.stdout, report.stderr), expected);
        }
    });
}

#[test]
fn merged_streams_keep_the_order_of_the_writes() {
    run(async {
        let (_system, client) = system(|builder| builder).await;
        let spec = SessionSpec {
            streams: StreamMode::Merged,
            ..shell("for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done")
        };
        let started = start(&client, spec).await;
        outcome(&client, &started).await;
        let report = client.poll(started.session, PollQuery::now()).await.unwrap();
        assert_eq!(report.stdout, "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n");
    });
}

#[test]
fn eight_mebibytes_go_through_cat_and_come_back_as_they_were() {
    run(async {
        let (_system, client) = system(|builder| builder).await;
        let spec = SessionSpec {
            stdin: StdinMode::Piped,
            pace: Pace::Reader,
            ..SessionSpec::argv(["cat"])
        };
        let started = start(&client, spec).await;
        let input: Vec<u8> = (0..8_usize << 20)
            .map(|at| u8::try_from(at * 7 % 251).unwrap())
            .collect();
        let write = tokio::spawn({
            let (client, input) = (client.clone(), input.clone());
            async move {
                client
                    .write(started.session, fixture::write(input, Duration::from_secs(60)))
                    .await
            }
        });
        let mut read = Vec::new();
        while read.len() < input.len() {
            let query = ReadQuery {
                cursor: None,
                wait: Duration::from_secs(60),
                max_bytes: 256 << 10,
            };
            let output = within("output", client.read_output(started.session, query))
                .await
                .unwrap();
            assert!(output.outcome.is_none(), "cat ended early");
            for piece in output.pieces {
                assert_eq!((piece.stream, piece.omitted_bytes), (StreamId::Stdout, 0));
                read.extend_from_slice(&piece.bytes);
            }
        }
        assert!(read == input, "what came back is not what was written");
        let written = within("the write", write).await.unwrap().unwrap();
        assert_eq!(
            (written.accepted_bytes, written.end),
            (8 << 20, WriteEnd::Complete)
        );
        client.close_stdin(started.session).await.unwrap();
        assert_eq!(
            outcome(&client, &started).await.status,
            Status::Exited { code: 0 }
        );
    });
}

#[test]
fn a_reader_that_went_away_is_a_broken_pipe_and_no_signal_to_us() {
    run(async {
        let (_system, client) = system(|builder| builder).await;
        let spec = SessionSpec {
            stdin: StdinMode::Piped,
            ..shell("exec 0<&-; echo closed; sleep 1000")
        };
        let started = start(&client, spec).await;
        let report = within("a word", client.poll(started.session, fixture::long_poll()))
            .await
            .unwrap();
        assert_eq!(report.stdout, "closed\n");
        let written = client
            .write(started.session, fixture::write("x", Duration::from_secs(5)))
            .await;
        assert_eq!(written, Err(WriteError::ReaderClosed { accepted_bytes: 0 }));
        within(
            "a stop",
            client.stop(started.session, fixture::stop(Ladder::Force)),
        )
        .await
        .unwrap();
    });
}

#[test]
fn a_stop_ends_the_whole_group_also_who_ignores_term() {
    run(async {
        let folder = TempDir::new().unwrap();
        let (_system, client) = system(|builder| builder).await;
        for (number, ladder) in [Ladder::AskFor(Duration::from_millis(200)), Ladder::Force]
            .into_iter()
            .enumerate()
        {
            let mut lifeline = Lifeline::new(folder.path(), &format!("lifeline{number}"));
            let command = lifeline.hold() + "trap '' TERM; (sleep 1000 & sleep 1000 & wait) & sleep 1000";
            let started = start(&client, shell(command)).await;
            lifeline.held().await;
            let stop = client.stop(started.session, fixture::stop(ladder));
            let report = within("a stop", stop).await.unwrap();
            let outcome = report.outcome.unwrap();
            assert_eq!((outcome.cause, report.residual_pids), (Cause::Stop, Vec::new()));
            assert_eq!(
                outcome.status,
                Status::Signaled {
                    signal: Signal::KILL,
                    core_dumped: false
                }
            );
            lifeline.cut().await;
        }
        assert_eq!(children(), Vec::<String>::new());
    });
}

#[test]
fn a_polite_group_ends_without_a_kill() {
    run(async {
        let (_system, client) = system(|builder| builder).await;
        let started = start(
            &client,
            shell("trap 'echo bye; exit 3' TERM; echo ready; sleep 1000 & wait"),
        )
        .await;
        within("a word", client.poll(started.session, fixture::long_poll()))
            .await
            .unwrap();
        let stop = client.stop(
            started.session,
            fixture::stop(Ladder::AskFor(Duration::from_secs(30))),
        );
        let outcome = within("a stop", stop).await.unwrap().outcome.unwrap();
        assert_eq!(
            (outcome.cause, outcome.status),
            (Cause::Stop, Status::Exited { code: 3 })
        );
        assert_eq!(
            client
                .poll(started.session, PollQuery::now())
                .await
                .unwrap()
                .stdout,
            "bye\n"
        );
    });
}

#[test]
fn time_outs_run_by_themselves() {
    run(async {
        let (_system, client) = system(|builder| builder).await;
        for (field, cause) in [
            (Field::WallTime, Cause::WallTimeout),
            (Field::IdleTime, Cause::IdleTimeout),
        ] {
            let started = start(&client, shell("sleep 1000").limit(field, 200_u64)).await;
            let outcome = outcome(&client, &started).await;
            assert_eq!(outcome.cause, cause);
            let ran = outcome
                .exited_at
                .unwrap()
                .saturating_since(outcome.spawned_at.unwrap());
            assert!(ran >= Duration::from_millis(200), "{ran:?}");
        }
    });
}

#[test]
fn output_that_a_child_holds_open_ends_with_the_drain_and_its_holder_is_swept() {
    run(async {
        let folder = TempDir::new().unwrap();
        let (_system, client) = system(|builder| builder).await;
        let lifeline = Lifeline::new(folder.path(), "lifeline");
        let spec = shell(lifeline.hold() + "sleep 1000 & exit 5").limit(Field::DrainGrace, 100_u64);
        let started = start(&client, spec).await;
        let outcome = outcome(&client, &started).await;
        assert_eq!(
            (outcome.cause, outcome.status),
            (Cause::Exit, Status::Exited { code: 5 })
        );
        assert_eq!((outcome.swept_pids.len(), outcome.residual_pids.len()), (1, 0));
        lifeline.cut().await;
    });
}

#[test]
fn a_thousand_failed_starts_leave_no_descriptor_no_child_no_place_and_no_file() {
    run(async {
        let folder = TempDir::new().unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "no program").unwrap();
        let logs = folder.path().join("logs");
        fs::create_dir(&logs).unwrap();
        let budgets = HostBudgets {
            max_sessions: 1,
            max_sessions_per_owner: 1,
            ..HostBudgets::default()
        };
        let (system, client) = system(|builder| builder.log_dir(&logs).budgets(budgets)).await;
        let missing = |cwd: &Path| SessionSpec {
            cwd: Some(cwd.into()),
            ..SessionSpec::argv(["true"])
        };
        let specs = [
            (
                SessionSpec::argv(["/no/such/program"]),
                StartFailureKind::NotFound,
            ),
            (
                SessionSpec::argv([plain.as_os_str()]),
                StartFailureKind::PermissionDenied,
            ),
            (missing(Path::new("/no/such/folder")), StartFailureKind::NotFound),
            (missing(&plain), StartFailureKind::NotADirectory),
        ];
        // The first session of all makes what is made once.
        let warm = start(&client, SessionSpec::argv(["true"])).await;
        outcome(&client, &warm).await;
        let before = descriptors();
        for round in 0..1_000 {
            let (spec, kind) = &specs[round % specs.len()];
            let refused = within("a refusal", client.start(spec.clone())).await;
            assert!(
                matches!(&refused, Err(StartError::Failed(failure)) if failure.kind == *kind),
                "{refused:?}"
            );
        }
        assert_eq!(client.list(ListFilter::Live).await, Ok(Vec::new()));
        assert_eq!(children(), Vec::<String>::new());
        let started = start(&client, SessionSpec::argv(["true"])).await;
        outcome(&client, &started).await;
        system.shutdown(None, Duration::from_secs(10)).await;
        assert!(
            descriptors() <= before,
            "{} descriptors, {before} before",
            descriptors()
        );
        let left: Vec<_> = fs::read_dir(&logs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(left.len() <= 2, "logs of failed starts are left: {left:?}");
    });
}

#[test]
fn ended_sessions_that_can_be_read_hold_no_descriptor() {
    run(async {
        let folder = TempDir::new().unwrap();
        let (_system, client) = system(|builder| builder.log_dir(folder.path())).await;
        let mut ended = Vec::new();
        let mut before = 0;
        for number in 0..16 {
            let started = start(&client, shell("echo kept")).await;
            assert_eq!(outcome(&client, &started).await.cause, Cause::Exit);
            ended.push(started.session);
            if number == 3 {
                before = descriptors();
            }
        }
        // The log of the last one may be closed only now.
        assert!(
            descriptors() <= before + 4,
            "{} descriptors, {before} before",
            descriptors()
        );
        for session in ended {
            let kept = client.inspect(session).await.unwrap();
            assert_eq!(kept.containment.mechanism, Mechanism::ProcessGroup);
            assert_eq!(kept.log.kept_bytes, 5);
        }
    });
}

#[test]
fn sessions_one_after_the_other_leave_nothing() {
    run(async {
        let (_system, client) = system(|builder| builder).await;
        let one = async || {
            let started = start(&client, shell("echo x; read line").limit(Field::Retention, 0_u64)).await;
            outcome(&client, &started).await;
        };
        one().await;
        let (before, threads) = (descriptors(), fs::read_dir("/proc/self/task").unwrap().count());
        for _ in 0..300 {
            one().await;
        }
        // The pipes of the last one may still be open for a moment; those of three hundred are not.
        assert!(
            descriptors() <= before + 8,
            "{} descriptors, {before} before",
            descriptors()
        );
        let threads_now = fs::read_dir("/proc/self/task").unwrap().count();
        assert!(
            threads_now <= threads + 8,
            "{threads_now} threads, {threads} before"
        );
        assert_eq!(children(), Vec::<String>::new());
    });
}

/// A builder whose session actors are written down.
fn recorded(builder: SystemBuilder, actors: &Arc<Mutex<Vec<ActorCell>>>) -> SystemBuilder {
    use procession_actors::SpawnActor;
    let (service, actors) = (
        Arc::new(actor(|arguments: SessionArguments| {
            (SessionActor::default(), arguments)
        })),
        Arc::clone(actors),
    );
    builder.session_slot(move |arguments: SessionArguments, supervisor: ActorCell| {
        let (spawn, actors) = (service.spawn(arguments, supervisor), Arc::clone(&actors));
        async move {
            let actor: ractor::DerivedActorRef<procession_actors::SessionMessage> = spawn.await?;
            actors.lock().unwrap().push(actor.get_cell());
            Ok(actor)
        }
    })
}

#[test]
fn a_session_actor_that_is_killed_takes_its_tree_with_it() {
    run(async {
        let folder = TempDir::new().unwrap();
        let actors = Arc::new(Mutex::new(Vec::new()));
        let (_system, client) = system(|builder| recorded(builder, &actors)).await;
        let mut lifeline = Lifeline::new(folder.path(), "lifeline");
        let command = lifeline.hold() + "trap '' TERM; sleep 1000 & sleep 1000";
        let started = start(&client, shell(command)).await;
        lifeline.held().await;
        actors.lock().unwrap()[0].kill();
        lifeline.cut().await;
        assert_eq!(outcome(&client, &started).await.cause, Cause::Lost);
        assert!(start(&client, shell("true")).await.pid > 0);
    });
}

#[test]
fn a_system_that_is_dropped_takes_every_tree_with_it() {
    run(async {
        let folder = TempDir::new().unwrap();
        let (system, client) = system(|builder| builder).await;
        let mut lifelines = Vec::new();
        for number in 0..8 {
            let mut lifeline = Lifeline::new(folder.path(), &format!("lifeline{number}"));
            let command = lifeline.hold() + "trap '' TERM; sleep 1000 & sleep 1000";
            start(&client, shell(command)).await;
            lifeline.held().await;
            lifelines.push(lifeline);
        }
        drop(system);
        for lifeline in lifelines {
            lifeline.cut().await;
        }
    });
}

#[test]
fn a_runtime_that_is_dropped_takes_every_tree_with_it() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut lifeline = Lifeline::new(folder.path(), "lifeline");
    let command = lifeline.hold() + "trap '' TERM; sleep 1000 & sleep 1000";
    let system = runtime.block_on(async {
        let (system, client) = system(|builder| builder).await;
        start(&client, shell(command)).await;
        lifeline.held().await;
        system
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    other.block_on(lifeline.cut());
    drop(system);
}

#[test]
fn an_orderly_shutdown_leaves_no_process() {
    run(async {
        let folder = TempDir::new().unwrap();
        let (system, client) = system(|builder| builder).await;
        let mut lifelines = Vec::new();
        for number in 0..4 {
            let mut lifeline = Lifeline::new(folder.path(), &format!("lifeline{number}"));
            start(
                &client,
                shell(lifeline.hold() + "trap '' TERM; sleep 1000 & wait; sleep 1000"),
            )
            .await;
            lifeline.held().await;
            lifelines.push(lifeline);
        }
        let report = within(
            "a shutdown",
            system.shutdown(Some(Duration::from_millis(100)), Duration::from_secs(20)),
        )
        .await;
        assert_eq!((report.ended, report.left.len()), (4, 0));
        for lifeline in lifelines {
            lifeline.cut().await;
        }
        assert_eq!(children(), Vec::<String>::new());
    });
}

#[test]
fn sessions_side_by_side_do_not_mix() {
    run(async {
        let (_system, client) = system(|builder| builder).await;
        let sessions: Vec<_> = (0..16)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move {
                    let command = format!("for i in $(seq 200); do echo {number}; done");
                    let started = start(&client, shell(command)).await;
                    outcome(&client, &started).await;
                    let text = client
                        .poll(started.session, PollQuery::now())
                        .await
                        .unwrap()
                        .stdout;
                    assert_eq!(text, format!("{number}\n").repeat(200));
                })
            })
            .collect();
        for session in sessions {
            within("a session", session).await.unwrap();
        }
    });
}

#[test]
fn the_log_in_a_folder_is_the_output() {
    run(async {
        let folder = TempDir::new().unwrap();
        let (system, client) = system(|builder| builder.log_dir(folder.path())).await;
        let started = start(&client, shell("seq 100000")).await;
        let waited = client
            .wait(started.session, Condition::Ended, Duration::from_secs(60))
            .await
            .unwrap();
        assert_eq!(waited.result, WaitResult::Fired);
        let (mut offset, mut read) = (0, Vec::new());
        loop {
            let page = client
                .read_log(started.session, fixture::log_page(offset, 1 << 20))
                .await
                .unwrap();
            page.runs
                .iter()
                .for_each(|run| read.extend_from_slice(&run.bytes));
            if page.at_end {
                break;
            }
            offset = page.next_offset;
        }
        let expected = (1..=100_000)
            .map(|number| number.to_string() + "\n")
            .collect::<Vec<_>>()
            .concat();
        assert!(
            read == expected.as_bytes(),
            "{} bytes of {}",
            read.len(),
            expected.len()
        );
        system.shutdown(None, Duration::from_secs(10)).await;
        assert!(
            folder.path().join(started.session.to_string()).exists(),
            "a log outlives its system"
        );
    });
}
