//! How ends are seen.

use std::time::Duration;

use procession_core::{
    Signal, Status,
    outcome::{ObservedBy, UsageScope},
};

use crate::support::{
    Adjust, argv, bash, exited, in_own_host, is_alive, own_children, port, read_to_end, run, spawn, state,
    until,
};

fn signaled(number: i32) -> Status {
    Status::Signaled {
        signal: Signal::from_number(number).expect("a signal"),
        core_dumped: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_and_signal_are_never_mixed_up() {
    let port = port();
    for (command, expected) in [
        ("kill -9 $$", signaled(9)),
        ("kill -15 $$", signaled(15)),
        ("ulimit -c 0; kill -SEGV $$", signaled(11)),
        ("kill -40 $$", signaled(40)),
        ("exit 137", Status::Exited { code: 137 }),
        ("exit 143", Status::Exited { code: 143 }),
        ("bash -c 'kill -9 $$'; exit $?", Status::Exited { code: 137 }),
        ("exit 255", Status::Exited { code: 255 }),
        ("exit 256", Status::Exited { code: 0 }),
        ("exit 0", Status::Exited { code: 0 }),
    ] {
        let done = run(&port, bash(command)).await;
        assert_eq!(
            (done.status, done.observed_by),
            (expected, ObservedBy::Pidfd),
            "{command}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_leaves_the_status_where_it_is() {
    let port = port();
    let session = spawn(&port, bash("exit 7")).await;
    for _ in 0..3 {
        assert_eq!(
            exited(&session).await,
            (Status::Exited { code: 7 }, ObservedBy::Pidfd)
        );
        assert_eq!(state(session.pid), Some('Z'));
    }
    assert!(session.leader.reap().is_some());
    assert_eq!(state(session.pid), None);
    // Who asks later gets the same answer.
    assert_eq!(
        exited(&session).await,
        (Status::Exited { code: 7 }, ObservedBy::Pidfd)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_is_reaped_once_and_not_before_its_end() {
    let port = port();
    let session = spawn(&port, argv(&["cat"]).stdin()).await;
    assert_eq!((session.leader.peek(), session.leader.reap()), (None, None));
    assert!(is_alive(session.pid));
    drop(session.input);
    session.leader.exited().await.unwrap();
    assert!(session.leader.reap().is_some());
    assert_eq!(session.leader.reap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_told_at_the_reaping() {
    let port = port();
    let done = run(&port, bash("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")).await;
    let usage = done.usage.expect("a usage");
    assert!(
        usage.user_time + usage.system_time > Duration::from_millis(10),
        "{usage:?}"
    );
    assert!(usage.minor_faults > 0, "{usage:?}");
    assert_eq!(usage.cpu_covers, UsageScope::Leader);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_told_where_it_is_not_the_hosts_own() {
    let port = port();
    let small = run(&port, argv(&["true"])).await.usage.expect("a usage");
    assert_eq!(small.peak_memory_bytes, None, "it began in the host's memory");
    let large = run(&port, bash("printf -v x '%0134217728d' 0")).await;
    let usage = large.usage.expect("a usage");
    assert!(
        usage
            .peak_memory_bytes
            .is_some_and(|bytes| (128 << 20..1 << 30).contains(&bytes)),
        "{usage:?}"
    );
    assert_eq!(usage.peak_memory_covers, UsageScope::Leader);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_output_is_not_the_end_of_the_process() {
    let port = port();
    let session = spawn(&port, bash("exec >&- 2>&-; read -r line; exit 3").stdin()).await;
    for (_, output) in &session.outputs {
        assert_eq!(read_to_end(output.as_ref()).await, b"");
    }
    assert_eq!(session.leader.peek(), None);
    session.input.as_ref().unwrap().try_write(b"go\n").unwrap();
    assert_eq!(exited(&session).await.0, Status::Exited { code: 3 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_seen_by_many_who_wait() {
    let port = port();
    let session = spawn(&port, argv(&["sleep", "60"])).await;
    let waits = (0..4).map(|_| {
        let leader = std::sync::Arc::clone(&session.leader);
        tokio::spawn(async move { leader.exited().await.map(|()| leader.peek()) })
    });
    let waits: Vec<_> = waits.collect();
    session.tree.kill();
    for wait in waits {
        let seen = crate::support::bounded("an exit", wait).await.unwrap().unwrap();
        assert_eq!(seen, Some((signaled(9), ObservedBy::Pidfd)));
    }
}

#[test]
fn dropped_sessions_leave_no_zombie() {
    in_own_host("exit::dropped_sessions_leave_no_zombie", "", || async {
        let port = port();
        // Some have ended, some are killed by their guard, none was reaped.
        for round in 0..50 {
            let session = spawn(
                &port,
                if round % 2 == 0 {
                    argv(&["true"])
                } else {
                    argv(&["sleep", "60"])
                },
            )
            .await;
            if round % 4 == 0 {
                exited(&session).await;
            }
        }
        until("nobody is left", || own_children().is_empty()).await;
        // Nor does it take the port: who has a session and no port any more is served too.
        let session = spawn(&port, argv(&["sleep", "60"])).await;
        drop(port);
        drop(session);
        until("nobody is left", || own_children().is_empty()).await;
        until("both threads have ended", || {
            !own_threads().iter().any(|name| name.starts_with("procession"))
        })
        .await;
    });
}

#[test]
fn nobody_elses_child_is_reaped() {
    in_own_host("exit::nobody_elses_child_is_reaped", "", || async {
        let port = port();
        let mut foreign = std::process::Command::new("sh")
            .args(["-c", "exit 9"])
            .spawn()
            .unwrap();
        for _ in 0..20 {
            drop(spawn(&port, argv(&["sleep", "60"])).await);
            run(&port, argv(&["true"])).await;
        }
        until("all of ours are reaped", || own_children() == [foreign.id()]).await;
        assert_eq!(foreign.wait().unwrap().code(), Some(9));
    });
}

fn own_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("our threads");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .collect()
}
