//! Many sessions, at once and one after the other.

use procession_core::{Status, containment::Mechanism};

use crate::support::{
    argv, bash, children_of, descriptors_of, exited, in_own_host, port_on, ports, run, spawn, sweep, until,
};

fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: u64 = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .expect("a size")
        .trim()
        .parse()
        .expect("a number");
    kib
}

fn own_threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("our threads").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_start_and_end_at_once() {
    for (rung, port) in ports() {
        let sessions = (0..100).map(|number: i32| {
            let port = port.clone();
            tokio::spawn(async move { (number, run(&port, bash(&format!("exit {number}"))).await) })
        });
        for session in sessions.collect::<Vec<_>>() {
            let (number, done) = session.await.unwrap();
            assert_eq!(done.status, Status::Exited { code: number }, "{}", rung.as_str());
        }
    }
}

/// In a process of its own, whose threads and descriptors nobody else changes.
fn nothing_is_left_behind(test: &str, rung: Mechanism, count: usize) {
    in_own_host(test, "", || async {
        let Some(port) = port_on(rung) else { return };
        let guard = port.guard_pid();
        let one = || async {
            let session = spawn(&port, argv(&["true"])).await;
            exited(&session).await;
            sweep(&session).await;
            session.leader.reap();
        };
        let seen = || {
            (
                descriptors_of(guard),
                descriptors_of(std::process::id()),
                own_threads(),
            )
        };
        for _ in 0..100 {
            one().await;
        }
        until("the guard has no child", || children_of(guard).is_empty()).await;
        let (before, memory) = (seen(), memory_of(guard));
        for _ in 0..count {
            one().await;
        }
        until("the guard has no child", || children_of(guard).is_empty()).await;
        until("all is let go of", || {
            let (now, then) = (seen(), before);
            now.0 <= then.0 && now.1 <= then.1 && now.2 <= then.2
        })
        .await;
        let grown = memory_of(guard);
        assert!(
            grown <= memory + 256,
            "{memory} KiB became {grown} on {}",
            rung.as_str()
        );
    });
}

#[test]
fn two_thousand_sessions_in_control_groups_leave_nothing_behind() {
    let name = "scale::two_thousand_sessions_in_control_groups_leave_nothing_behind";
    nothing_is_left_behind(name, Mechanism::Cgroup, 2000);
}

#[test]
fn two_thousand_sessions_under_the_lock_leave_nothing_behind() {
    let name = "scale::two_thousand_sessions_under_the_lock_leave_nothing_behind";
    nothing_is_left_behind(name, Mechanism::PgidLock, 2000);
}

#[test]
fn sessions_with_an_init_leave_nothing_behind() {
    let name = "scale::sessions_with_an_init_leave_nothing_behind";
    nothing_is_left_behind(name, Mechanism::Subreaper, 200);
}
