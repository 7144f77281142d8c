//! The guard itself: what it is, what it is not, what becomes of sessions when it is killed.

use std::time::{Duration, Instant};

use procession_core::{
    Field, Status, StreamId, Value,
    containment::Mechanism,
    outcome::{ObservedBy, UnknownStatus},
};
use procession_policy::Level;
use procession_process::{GuardError, GuardOptions, GuardPort, GuardProgram, Preference, ProcessPort};
use rustix::process::Signal;

use crate::support::{
    Adjust, all_gone, argv, bash, bounded, exited, is_alive, options, output, port, ports, read_line,
    read_pids, run, send, spawn, sure_ports, until,
};

fn read(pid: u32, name: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{name}")).expect("a file of the guard's")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_has_nothing_of_its_hosts() {
    for (rung, port) in ports() {
        let guard = port.guard_pid();
        assert_eq!(read(guard, "environ"), "", "{}", rung.as_str());
        assert_eq!(
            std::fs::read_link(format!("/proc/{guard}/cwd")).unwrap(),
            std::path::Path::new("/")
        );
        assert_eq!(read(guard, "comm"), "procession-guar\n");
        assert!(read(guard, "cmdline").starts_with("procession-guard\0"));
        assert_eq!(
            read(guard, "status")
                .lines()
                .find(|line| line.starts_with("Threads:")),
            Some("Threads:\t1")
        );
        let mut kinds: Vec<String> = std::fs::read_dir(format!("/proc/{guard}/fd"))
            .unwrap()
            .map(|entry| {
                std::fs::read_link(entry.unwrap().path())
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        kinds.sort();
        assert_eq!(
            kinds.iter().filter(|kind| *kind == "/dev/null").count(),
            3,
            "{kinds:?}"
        );
        assert!(!kinds.iter().any(|kind| kind.starts_with("pipe:")), "{kinds:?}");
        let session: Vec<String> = read(guard, "stat")
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .map(str::to_owned)
            .collect();
        // Group, session, terminal.
        assert_eq!(
            (session[2].as_str(), session[3].as_str(), session[4].as_str()),
            (guard.to_string().as_str(), guard.to_string().as_str(), "0")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_is_not_ended_by_what_asks_programs_to_end() {
    let port = port();
    for signal in [
        Signal::HUP,
        Signal::INT,
        Signal::TERM,
        Signal::QUIT,
        Signal::PIPE,
        Signal::USR1,
    ] {
        send(port.guard_pid(), signal);
    }
    assert_eq!(
        run(&port, argv(&["true"])).await.status,
        Status::Exited { code: 0 }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_is_seen_also_while_the_guard_cannot_tell_it() {
    let port = port();
    let session = spawn(&port, argv(&["cat"]).stdin()).await;
    assert!(!session.leader.has_exited());
    send(port.guard_pid(), Signal::STOP);
    let signaled = session.tree.signal_foreground(procession_core::Signal::KILL);
    assert_eq!(signaled, procession_core::outcome::StepEffect::Delivered);
    until("its end is seen", || session.leader.has_exited()).await;
    assert_eq!(session.leader.peek(), None);
    send(port.guard_pid(), Signal::CONT);
    exited(&session).await;
    assert!(session.leader.peek().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_port_ends_its_guard_and_leaves_no_zombie() {
    for (_, port) in ports() {
        let guard = port.guard_pid();
        drop(port);
        until("the guard is gone and reaped", || {
            crate::support::state(guard).is_none()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_its_guard() {
    for (_, port) in ports() {
        let session = spawn(&port, argv(&["cat"]).stdin()).await;
        drop(port);
        session
            .input
            .as_ref()
            .unwrap()
            .try_write(b"still here\n")
            .unwrap();
        assert_eq!(read_line(output(&session, StreamId::Stdout)).await, "still here");
        session.tree.kill();
        exited(&session).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_guard_that_was_killed_die_and_are_unknown_and_another_takes_over() {
    for (rung, port) in ports() {
        let before = port.guard_pid();
        let session = spawn(&port, bash("sleep 300 & echo up; wait")).await;
        read_line(output(&session, StreamId::Stdout)).await;
        let away = spawn(&port, bash("setsid sh -c 'echo $$; exec sleep 300' & wait")).await;
        let escaped = read_pids(&away).await;
        send(before, Signal::KILL);
        let unknown = Status::Unknown {
            reason: UnknownStatus::SupervisorDied,
        };
        assert_eq!(
            exited(&session).await,
            (unknown.clone(), ObservedBy::Nobody),
            "{}",
            rung.as_str()
        );
        assert_eq!(exited(&away).await.0, unknown);
        assert_eq!(session.leader.reap(), None);
        all_gone(&session).await;
        if rung == Mechanism::ProcessGroup {
            // It moved away, and there is nobody left who could know.
            send(escaped[0], Signal::KILL);
        }
        all_gone(&away).await;
        // Whatever is asked of it is answered.
        session.tree.kill();
        bounded("a sweep", session.tree.sweep()).await;
        bounded("a survey", session.tree.survey()).await;
        let done = run(&port, bash("exit 7")).await;
        assert_eq!(done.status, Status::Exited { code: 7 }, "{}", rung.as_str());
        assert_ne!(port.guard_pid(), before);
        drop((session, away));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_is_stopped_holds_up_no_kill_and_no_drop() {
    for (rung, port) in sure_ports() {
        if rung == Mechanism::PidNamespace {
            // What is behind the leader's group there is ended by the guard.
            continue;
        }
        let session = spawn(&port, bash("setsid sleep 300 & echo up; wait")).await;
        read_line(output(&session, StreamId::Stdout)).await;
        send(port.guard_pid(), Signal::STOP);
        let outputs = session.outputs.clone();
        let started = Instant::now();
        drop(session);
        assert!(started.elapsed() < Duration::from_secs(1));
        for (_, output) in outputs {
            crate::support::read_to_end(output.as_ref()).await;
        }
        send(port.guard_pid(), Signal::CONT);
        assert_eq!(
            run(&port, argv(&["true"])).await.status,
            Status::Exited { code: 0 }
        );
    }
}

#[test]
fn a_program_that_does_not_hook_it_is_never_started_again() {
    let refused = GuardPort::start(GuardOptions::default());
    assert!(matches!(refused, Err(GuardError::NotHooked)), "{refused:?}");
}

#[test]
fn a_program_that_is_no_guard_is_killed_fast() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("embedder");
    let text = format!(
        "#!/bin/sh\necho $$ >{}/pid\nexec sleep 300\n",
        folder.path().display()
    );
    // Not by this process: whom another test starts meanwhile would have it open for writing until its program runs,
    // and what is open for writing cannot be executed.
    let written = std::process::Command::new("sh")
        .args(["-c", "printf %s \"$2\" >\"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(&script)
        .arg(text)
        .status();
    assert!(written.unwrap().success());
    let started = Instant::now();
    let refused = GuardPort::start(GuardOptions::default().program(GuardProgram::Path(script.clone())));
    assert!(matches!(refused, Err(GuardError::NoGuard { .. })), "{refused:?}");
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    let pid: u32 = std::fs::read_to_string(folder.path().join("pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(!is_alive(pid));
    for program in ["/no/such/guard", "/bin/true"] {
        assert!(
            GuardPort::start(GuardOptions::default().program(GuardProgram::Path(program.into()))).is_err()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_guard_there_is_a_port_that_says_so() {
    let port = GuardPort::start_or_fall_back(GuardOptions::default()).unwrap();
    let capabilities = port.capabilities();
    for field in [Field::Containment, Field::DiesWithHost] {
        let note = capabilities.get(field).unwrap().note.clone().unwrap();
        assert!(note.starts_with("no guard: "), "{note}");
    }
    assert_eq!(port.containment().mechanism, Mechanism::ProcessGroup);
    let session = bounded("a start", port.spawn(bash("exit 3"))).await.unwrap();
    assert_eq!(exited(&session).await.0, Status::Exited { code: 3 });
    let with = GuardPort::start_or_fall_back(options()).unwrap();
    assert_eq!(
        with.capabilities().get(Field::DiesWithHost).unwrap().inherited,
        Some(Value::Flag(true))
    );
}

#[test]
fn capabilities_tell_the_rung_and_what_dies_with_the_host() {
    for (rung, port) in ports() {
        let capabilities = port.capabilities();
        let containment = capabilities.get(Field::Containment).unwrap();
        assert_eq!(containment.inherited, Some(Value::from(rung.as_str())));
        assert_eq!(
            containment.supported.as_deref(),
            Some(&["auto".to_owned(), rung.as_str().to_owned()][..])
        );
        let dies = capabilities.get(Field::DiesWithHost).unwrap();
        let is_sure = port.containment().kill == procession_core::containment::KillPromise::Sure;
        assert_eq!(dies.level == Level::Native, is_sure, "{}", rung.as_str());
        assert_eq!(port.containment().mechanism, rung);
    }
}

#[test]
fn the_strongest_that_works_is_taken() {
    let strongest = ports().first().map(|(rung, _)| *rung);
    let port = GuardPort::start(options().prefer(Preference::Auto)).unwrap();
    assert_eq!(Some(port.containment().mechanism), strongest);
}
