//! What becomes of sessions when the host dies, and what they inherit of it while it lives.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::Stdio,
    time::Duration,
};

use procession_core::{Field, Status, StreamId, Value, containment::Mechanism};
use procession_policy::Level;
use procession_process::{ProcessLimits, ProcessPort};

use crate::support::{
    Adjust, RUNG, RUNGS, argv, bash, children_of, exited, has, in_own_host, is_alive, is_own_host, output,
    own_host, port, port_on, ports, read_line, read_to_end, run, runtime, send, spawn, state, until,
};

/// Prints what it says on a line of its own, for the test that started this host.
#[expect(
    clippy::print_stdout,
    reason = "that is how a host in a process of its own speaks"
)]
fn say(what: &str) {
    println!("\nhost says: {what}");
}

/// A host in a process of its own that is to be killed.
struct Doomed(std::process::Child, BufReader<std::process::ChildStdout>);

impl Doomed {
    fn start(test: &str, rung: Mechanism) -> Self {
        let mut child = own_host(test, "")
            .env(RUNG, rung.as_str())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a host");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self(child, output)
    }

    /// What it says next; empty where it ends first.
    fn says(&mut self) -> String {
        let mut line = String::new();
        while self.1.read_line(&mut line).expect("a line") > 0 {
            if let Some((_, said)) = line.split_once("host says: ") {
                return said.trim().to_owned();
            }
            line.clear();
        }
        String::new()
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn kill(mut self) {
        self.0.kill().expect("a host that can be killed");
        self.0.wait().expect("its end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_hangs_up_on_its_host_dies_with_it() {
    // Told apart by a name that only they have.
    for (rung, port) in ports() {
        drop(port);
        let mut host = Doomed::start("host::a_host_that_is_to_be_killed_runs_sessions", rung);
        let said = host.says();
        let pids: Vec<u32> = said.split(' ').map(|pid| pid.parse().expect("a pid")).collect();
        assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
        host.kill();
        until(&format!("all of {pids:?} are gone on {}", rung.as_str()), || {
            !pids.iter().any(|pid| is_alive(*pid))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_killed_around_a_start_leaves_nobody() {
    for (rung, port) in ports() {
        drop(port);
        for round in 0..12_u64 {
            let folder = tempfile::tempdir().unwrap();
            let mark = folder.path().join("alive");
            let mut host = Doomed::start("host::a_host_that_is_to_be_killed_starts_one", rung);
            assert_eq!(host.says(), "ready");
            // Who is started from here on holds this file open.
            std::fs::write(&mark, "").unwrap();
            tokio::time::sleep(Duration::from_micros(round * 150)).await;
            host.kill();
            until(&format!("nobody is left on {}", rung.as_str()), || {
                own_sleepers().is_empty()
            })
            .await;
        }
    }
}

/// The sleepers that hosts of this test have started, by how long they sleep.
fn own_sleepers() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("processes");
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            (line == SLEEPER.replace(' ', "\0").as_bytes() && is_alive(pid)).then_some(pid)
        })
        .collect()
}

/// Nobody else on this machine sleeps for so long.
const SLEEPER: &str = "sleep 98765.4321\0";

#[test]
fn a_host_that_is_to_be_killed_runs_sessions() {
    if !is_own_host() {
        // What it does when it is one is looked at by the tests above; here that it says something at all.
        let mut host = Doomed::start(
            "host::a_host_that_is_to_be_killed_runs_sessions",
            Mechanism::ProcessGroup,
        );
        assert!(host.says().contains(' '));
        host.kill();
        return;
    }
    runtime().block_on(async {
        let port = port();
        let mut pids = vec![port.guard_pid()];
        let mut sessions = Vec::new();
        for command in [
            "sleep 300 & echo up; wait",
            "setsid sleep 300 & echo up; wait",
            "(setsid sleep 300 &) ; trap '' TERM HUP INT; echo up; sleep 300",
        ] {
            let session = spawn(&port, bash(command)).await;
            read_line(output(&session, StreamId::Stdout)).await;
            pids.push(session.pid);
            sessions.push(session);
        }
        let mut below = children_of(port.guard_pid());
        while let Some(pid) = below.pop() {
            pids.push(pid);
            below.extend(children_of(pid));
        }
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        say(&pids.join(" "));
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_host_that_is_to_be_killed_starts_one() {
    if !is_own_host() {
        let mut host = Doomed::start(
            "host::a_host_that_is_to_be_killed_starts_one",
            Mechanism::ProcessGroup,
        );
        assert_eq!(host.says(), "ready");
        host.kill();
        return;
    }
    runtime().block_on(async {
        let port = port();
        say("ready");
        let mut sessions = Vec::new();
        loop {
            let started = port
                .spawn(bash(&format!("{0} & {0}", SLEEPER.trim_end_matches('\0'))))
                .await;
            sessions.extend(started);
            if sessions.len() > 20 {
                std::future::pending::<()>().await;
            }
        }
    });
}

/// A host with all that it has started, which runs.
struct Family {
    host: Doomed,
    guard: u32,
    leaders: Vec<u32>,
    /// The leaders among them.
    sessions: BTreeSet<u32>,
}

fn doomed_on(rung: Mechanism) -> Family {
    let mut host = Doomed::start("host::a_host_that_is_to_be_killed_runs_sessions", rung);
    let said = host.says();
    let pids: Vec<u32> = said.split(' ').map(|pid| pid.parse().expect("a pid")).collect();
    let (guard, sessions) = pids.split_first().expect("a guard");
    Family {
        host,
        guard: *guard,
        leaders: sessions[..3].to_vec(),
        sessions: sessions.iter().copied().collect(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_is_stopped_goes_on_when_its_host_dies() {
    for rung in RUNGS {
        if port_on(rung).is_none() {
            continue;
        }
        let Family {
            host,
            guard,
            sessions,
            ..
        } = doomed_on(rung);
        send(guard, rustix::process::Signal::STOP);
        until("the guard has stopped", || state(guard) == Some('T')).await;
        host.kill();
        until(&format!("all are gone on {}", rung.as_str()), || {
            !is_alive(guard) && !sessions.iter().any(|pid| is_alive(*pid))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lives_when_host_and_guard_die_together_is_what_the_rung_says() {
    for rung in RUNGS {
        if port_on(rung).is_none() {
            continue;
        }
        let Family {
            host,
            guard,
            leaders,
            sessions,
        } = doomed_on(rung);
        // Stopped, so that it does not see the other's end before its own.
        send(host.pid(), rustix::process::Signal::STOP);
        until("the host has stopped", || state(host.pid()) == Some('T')).await;
        send(guard, rustix::process::Signal::KILL);
        until("the guard is gone", || !is_alive(guard)).await;
        host.kill();
        until(&format!("leaders are gone on {}", rung.as_str()), || {
            !leaders.iter().any(|pid| is_alive(*pid))
        })
        .await;
        let are_gone = || !sessions.iter().any(|pid| is_alive(*pid));
        match rung {
            Mechanism::PidNamespace | Mechanism::Subreaper => {
                until(&format!("all are gone on {}", rung.as_str()), are_gone).await;
            }
            Mechanism::Cgroup => {
                assert!(!are_gone(), "{sessions:?}");
                let next = port_on(rung).expect("the next guard");
                until("all are gone", are_gone).await;
                drop(next);
            }
            _ => {
                assert!(!are_gone(), "{sessions:?} on {}", rung.as_str());
                for pid in sessions.iter().filter(|pid| is_alive(**pid)) {
                    send(*pid, rustix::process::Signal::KILL);
                }
            }
        }
    }
}

#[test]
fn adopted_orphans_are_reaped_while_leaders_wait_to_be() {
    for (rung, port) in ports() {
        runtime().block_on(async {
            // A leader that has ended and is not reaped for as long as this goes on.
            let waiting = spawn(&port, argv(&["true"])).await;
            exited(&waiting).await;
            for _ in 0..20 {
                let session = spawn(&port, bash("(sleep 0.05 &); exit 0")).await;
                exited(&session).await;
                session.guard.disarm();
            }
            until(&format!("no zombie is left on {}", rung.as_str()), || {
                children_of(port.guard_pid())
                    .into_iter()
                    .all(|pid| pid == waiting.pid || state(pid) != Some('Z'))
            })
            .await;
            until("their leaders are reaped", || {
                children_of(port.guard_pid()).len() <= 1
            })
            .await;
            drop(waiting);
        });
    }
}

#[test]
fn sessions_run_under_a_host_that_is_the_first_process() {
    if !has("unshare") {
        return;
    }
    let name = "host::sessions_run_under_a_host_that_is_the_first_process";
    if !rustix::process::geteuid().is_root() {
        crate::support::tell("skipped: only root makes the namespace for this");
        return;
    }
    // The program itself becomes the first process.
    let prepare = "[ $$ = 1 ] || exec unshare -pf --mount-proc --kill-child bash --noprofile --norc -c 'exec \"$@\"' bash \"$@\"";
    in_own_host(name, prepare, || async {
        assert_eq!(std::process::id(), 1);
        for (rung, port) in ports() {
            for _ in 0..10 {
                let session = spawn(&port, bash("(sleep 0.05 >/dev/null 2>&1 &); echo up; exit 0")).await;
                let text = read_to_end(output(&session, StreamId::Stdout)).await;
                assert_eq!(text, b"up\n");
                assert_eq!(exited(&session).await.0, Status::Exited { code: 0 });
                session.guard.disarm();
            }
            until(&format!("nobody is left on {}", rung.as_str()), || {
                children_of(port.guard_pid()).is_empty()
            })
            .await;
            let zombies = children_of(1).into_iter().filter(|pid| state(*pid) == Some('Z'));
            assert_eq!(zombies.count(), 0, "{}", rung.as_str());
        }
    });
}

#[test]
fn sessions_inherit_what_the_host_had_when_its_guard_started() {
    let prepare = "ulimit -S -n 333; ulimit -H -n 4444; ulimit -c 0; umask 0027; echo 7 >/proc/self/oom_score_adj; renice -n 3 $$ >/dev/null";
    let name = "host::sessions_inherit_what_the_host_had_when_its_guard_started";
    in_own_host(name, prepare, || async {
        for (rung, port) in ports() {
            let capabilities = port.capabilities();
            for (field, expected) in [
                (Field::OpenFiles, Value::Number(333)),
                (Field::Core, Value::Number(0)),
                (Field::Umask, Value::from("0027")),
                (Field::OomScoreAdj, Value::Integer(7)),
                (Field::Nice, Value::Integer(3)),
            ] {
                let found = capabilities.get(field).unwrap();
                assert_eq!(found.inherited, Some(expected), "{field}");
            }
            let command = "ulimit -n; ulimit -H -n; umask; cat /proc/self/oom_score_adj; nice";
            assert_eq!(
                run(&port, bash(command)).await.stdout,
                "333\n4444\n0027\n7\n3\n",
                "{}",
                rung.as_str()
            );
        }
    });
}

#[test]
fn limits_that_are_asked_for_hold_from_the_first_instruction() {
    let prepare = "ulimit -S -n 333; ulimit -H -n 4444; umask 0027; echo 7 >/proc/self/oom_score_adj; renice -n 3 $$ >/dev/null";
    let name = "host::limits_that_are_asked_for_hold_from_the_first_instruction";
    in_own_host(name, prepare, || async {
        let command = "ulimit -Sn; ulimit -Hn; ulimit -St; ulimit -Ht; ulimit -v; ulimit -f; ulimit -c; umask; nice; \
                       cat /proc/self/oom_score_adj; sh -c 'cat /proc/self/oom_score_adj'";
        for (rung, port) in ports() {
            let capabilities = port.capabilities();
            for (field, level, most) in [
                (Field::OpenFiles, Level::PerProcess, Some(Value::Number(4444))),
                (Field::CpuTime, Level::PerProcess, None),
                (Field::AddressSpace, Level::Advisory, None),
                (Field::Nice, Level::PerProcess, Some(Value::Integer(3))),
                (Field::OomScoreAdj, Level::PerProcess, Some(Value::Integer(7))),
                (Field::Umask, Level::Advisory, None),
            ] {
                let found = capabilities.get(field).unwrap();
                assert_eq!((found.level, found.most.clone()), (level, most), "{field}");
            }
            let mut request = bash(command);
            request.limits = ProcessLimits {
                cpu_time: Some(Duration::from_millis(1_500)),
                address_space_bytes: Some(1 << 30),
                open_files: Some(64),
                file_size_bytes: Some(4 << 10),
                processes: None,
                core_bytes: Some(0),
                nice: Some(5),
                oom_score_adj: Some(500),
                umask: Some(0o77),
            };
            let found = run(&port, request).await.stdout;
            assert_eq!(
                found,
                "64\n64\n2\n3\n1048576\n4\n0\n0077\n5\n500\n500\n",
                "{}",
                rung.as_str()
            );
            // And who asks for nothing has what the host has: nothing stays with the guard.
            let command = "ulimit -Sn; ulimit -Hn; umask; nice; cat /proc/self/oom_score_adj";
            assert_eq!(
                run(&port, bash(command)).await.stdout,
                "333\n4444\n0027\n3\n7\n",
                "{}",
                rung.as_str()
            );
        }
    });
}

#[test]
fn blocked_and_ignored_signals_are_not_handed_down() {
    let ignoring = "trap '' INT QUIT HUP USR2 CHLD PIPE";
    let name = "host::blocked_and_ignored_signals_are_not_handed_down";
    in_own_host(name, ignoring, || async {
        let mut blocked = nix::sys::signal::SigSet::empty();
        blocked.add(nix::sys::signal::Signal::SIGTERM);
        blocked.add(nix::sys::signal::Signal::SIGUSR1);
        blocked.thread_block().unwrap();
        for (rung, port) in ports() {
            let request = argv(&["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]);
            let done = run(&port, request).await;
            let masks: Vec<u64> = done
                .stdout
                .lines()
                .map(|line| u64::from_str_radix(line.split_once('\t').unwrap().1, 16).unwrap())
                .collect();
            assert_eq!((masks[0], masks[1] & 0x7fff_ffff), (0, 0), "{}", rung.as_str());
            // With SIGCHLD ignored in the host, its sessions' statuses are told all the same.
            assert_eq!(
                run(&port, bash("exit 7")).await.status,
                Status::Exited { code: 7 }
            );
        }
    });
}

#[test]
fn a_host_without_standard_streams_mixes_nothing_up() {
    let name = "host::a_host_without_standard_streams_mixes_nothing_up";
    in_own_host(name, "exec 9</etc/hostname", || async {
        #[expect(
            unsafe_code,
            reason = "the scenario is about descriptors that no safe call touches"
        )]
        for fd in 0..3 {
            // SAFETY: these belong to nobody who relies on them in this process; what is opened next gets their
            // numbers.
            assert_eq!(unsafe { libc::close(fd) }, 0);
        }
        for (_, port) in ports() {
            let session = spawn(
                &port,
                bash("read -r line; echo out $line; echo err >&2; ls /proc/self/fd").stdin(),
            )
            .await;
            session.input.as_ref().unwrap().try_write(b"in\n").unwrap();
            let done = crate::support::finish(session).await;
            assert_eq!(
                (done.stdout.as_str(), done.stderr.as_str()),
                ("out in\n0\n1\n2\n3\n", "err\n")
            );
        }
    });
}
