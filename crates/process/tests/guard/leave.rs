//! What is kept and left lives on when its guard ends; nobody else does.

use std::time::Duration;

use procession_core::{Status, containment::Mechanism};
use procession_process::{GuardPort, Spawned};

use crate::support::{
    RUNGS, bash, bounded, exited, is_alive, is_sleeper, port_on, read_pids, read_to_end, run, send, spawn,
    state, until,
};

const SLEEPERS: &str = "sleep 300 & a=$!; setsid sleep 300 & echo $a $!";

/// One in the leader's group and one that has moved away, and who they are.
async fn sleepers(port: &GuardPort, behind: &str) -> (Spawned, Vec<u32>) {
    let session = spawn(port, bash(&format!("{SLEEPERS}; {behind}"))).await;
    let mut members = read_pids(&session).await;
    let has_own_numbers = session.containment.mechanism == Mechanism::PidNamespace;
    bounded("sleepers", async {
        while members.len() != 2 || !members.iter().all(|pid| is_sleeper(*pid)) {
            if has_own_numbers {
                members = session.tree.survey().await.alive;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    (session, members)
}

/// Ends the port as a host does in the orderly way.
async fn end(port: GuardPort) {
    let guard = port.guard_pid();
    drop(port);
    until("the guard is gone", || state(guard).is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_outlives_the_guard_and_others_do_not() {
    for rung in RUNGS {
        let Some(port) = port_on(rung) else { continue };
        let (session, members) = sleepers(&port, "exit 4").await;
        assert_eq!(exited(&session).await.0, Status::Exited { code: 4 });
        let (other, others) = sleepers(&port, "wait").await;
        bounded("a leave", session.tree.leave())
            .await
            .expect("it can be left");
        assert!(session.leader.reap().is_some());
        session.guard.disarm();
        let (outputs, leader) = (session.outputs.clone(), other.pid);
        let has_moved = |pid: &u32| rung == Mechanism::ProcessGroup && *pid == others[1];
        drop(session);
        other.guard.disarm();
        drop(other);
        end(port).await;
        for pid in &members {
            assert!(is_alive(*pid), "{members:?} on {}", rung.as_str());
        }
        assert!(!is_alive(leader), "{}", rung.as_str());
        until(&format!("the others are gone on {}", rung.as_str()), || {
            !others.iter().any(|pid| is_alive(*pid) && !has_moved(pid))
        })
        .await;
        if rung == Mechanism::ProcessGroup {
            // Of who has moved away there nobody can tell whose they are, so that all are spared.
            send(others[1], rustix::process::Signal::KILL);
        }
        // The next guard finds them where they are, and lets them be.
        let next = port_on(rung).expect("another guard");
        assert_eq!(
            run(&next, bash("exit 5")).await.status,
            Status::Exited { code: 5 }
        );
        end(next).await;
        for pid in &members {
            assert!(is_alive(*pid), "{members:?} on {}", rung.as_str());
            send(*pid, rustix::process::Signal::KILL);
        }
        for (_, output) in outputs {
            read_to_end(output.as_ref()).await;
        }
    }
}
