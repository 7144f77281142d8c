//! Trees that do what they can to get away.

use procession_core::{
    Signal, Status, StreamId, containment::Mechanism, outcome::StepEffect, session::Sight,
};
use procession_process::{SpawnRequest, Spawned};

use crate::support::{
    Adjust, all_gone, argv, bash, exited, has, is_alive, is_sleeper, output, ports, read_line, read_pids,
    send, sorted, spawn, state, sure_ports, sweep, until,
};

/// A plain child, one in a session of its own, a daemon, a chain of parents that end, and one without an environment.
const TREE: &str = "sleep 300 & setsid sleep 300 & (setsid sh -c 'sleep 300 & exit' &); \
                    (sh -c 'sh -c \"sh -c \\\"sh -c \\\\\\\"sleep 300 &\\\\\\\" &\\\" &\" &' &); \
                    env -i /usr/bin/setsid /bin/sleep 300 & set -m; sleep 300 & set +m; echo up";

/// Forks, makes a session and ends the parent, over and over, for as long as nobody stops it.
const HOP: &str = "use POSIX; $|=1; print \"up\\n\"; my $end=time+15; \
                   while(time<$end){ my $pid=fork; exit 0 if $pid; POSIX::setsid() }";

/// Eight that go on making grandchildren in sessions of their own.
const BOMB: &str = "use POSIX; $|=1; $SIG{CHLD}='IGNORE'; my $end=time+15; \
                    print \"up\\n\"; for(1..7){ last unless fork } \
                    while(time<$end){ unless(fork){ POSIX::setsid(); unless(fork){ select undef,undef,undef,0.05 } exit 0 } \
                    select undef,undef,undef,0.001 }";

fn perl(script: &str) -> SpawnRequest {
    argv(&["perl", "-e", script])
}

async fn up(session: &Spawned) {
    assert_eq!(read_line(output(session, StreamId::Stdout)).await, "up");
}

/// Waits until the tree has its six sleepers: those who make the last ones go on behind its word.
async fn grown(session: &Spawned) {
    crate::support::bounded("a grown tree", async {
        while session
            .tree
            .survey()
            .await
            .alive
            .iter()
            .filter(|pid| is_sleeper(**pid))
            .count()
            < 6
        {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
}

fn killed() -> Status {
    Status::Signaled {
        signal: Signal::KILL,
        core_dumped: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_that_is_sure_spares_nobody() {
    if !has("perl") {
        return;
    }
    for (rung, port) in sure_ports() {
        for (name, request) in [
            ("tree", bash(&format!("{TREE}; wait"))),
            ("hop", perl(HOP)),
            ("bomb", perl(BOMB)),
        ] {
            for _ in 0..3 {
                let session = spawn(&port, request.clone()).await;
                up(&session).await;
                session.tree.kill();
                // Everybody who ever lived in the session holds its output.
                all_gone(&session).await;
                exited(&session).await;
                let report = sweep(&session).await;
                assert_eq!(
                    (report.alive, report.sight),
                    (vec![], Sight::Exact),
                    "{name} on {}",
                    rung.as_str()
                );
                session.leader.reap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_ends_who_is_left_behind_a_leader_and_names_them() {
    for (rung, port) in ports() {
        let command = "sleep 300 & a=$!; set -m; sleep 300 & b=$!; set +m; echo $a $b; exit 4";
        let session = spawn(&port, bash(command)).await;
        let jobs = read_pids(&session).await;
        assert_eq!(exited(&session).await.0, Status::Exited { code: 4 });
        let seen = crate::support::bounded("a survey", session.tree.survey()).await;
        assert_eq!((seen.alive.len(), seen.swept), (2, vec![]), "{}", rung.as_str());
        let report = sweep(&session).await;
        assert_eq!(
            (report.swept.len(), report.alive),
            (2, vec![]),
            "{}",
            rung.as_str()
        );
        if rung != Mechanism::PidNamespace {
            // There a session has numbers of its own.
            assert_eq!(sorted(report.swept), sorted(jobs), "{}", rung.as_str());
        }
        all_gone(&session).await;
        assert!(session.leader.reap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_meets_those_who_moved_away() {
    for (rung, port) in ports() {
        if rung == Mechanism::ProcessGroup {
            continue;
        }
        let session = spawn(&port, bash(&format!("{TREE}; exit 0"))).await;
        up(&session).await;
        exited(&session).await;
        grown(&session).await;
        let report = sweep(&session).await;
        assert_eq!(
            (report.alive, report.sight),
            (vec![], Sight::Exact),
            "{}",
            rung.as_str()
        );
        // And those that were about to end anyway.
        assert!(report.swept.len() >= 6, "{:?} on {}", report.swept, rung.as_str());
        all_gone(&session).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_seen_is_not_called_empty() {
    let Some(port) = crate::support::port_on(Mechanism::ProcessGroup) else {
        return;
    };
    let session = spawn(&port, bash("setsid sh -c 'echo $$; exec sleep 300' & wait")).await;
    let escaped = read_pids(&session).await;
    session.tree.kill();
    exited(&session).await;
    let report = sweep(&session).await;
    assert_eq!(
        (report.swept.contains(&escaped[0]), report.sight),
        (false, Sight::Partial)
    );
    assert!(is_alive(escaped[0]));
    send(escaped[0], rustix::process::Signal::KILL);
    all_gone(&session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_still_forking_is_met() {
    for (rung, port) in ports() {
        let burst = "(i=0; while [ $i -lt 200 ]; do sleep 300 & i=$((i+1)); done; wait) &";
        let session = spawn(&port, bash(&format!("{burst} {burst} echo up; exit 0"))).await;
        up(&session).await;
        exited(&session).await;
        let mut swept = 0;
        // One sweep is bounded; what counts is that sweeps come to an end.
        loop {
            let report = sweep(&session).await;
            swept += report.swept.len();
            if report.alive.is_empty() {
                break;
            }
        }
        assert!(swept >= 2, "{swept} on {}", rung.as_str());
        all_gone(&session).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_processes_die_too() {
    for (rung, port) in ports() {
        let command = "sleep 300 & a=$!; setsid sleep 300 & kill -STOP $a $!; echo up; kill -STOP $$";
        let session = spawn(&port, bash(command)).await;
        up(&session).await;
        until("the leader has stopped", || state(session.pid) == Some('T')).await;
        assert_eq!(session.tree.kill(), StepEffect::Delivered);
        assert_eq!(exited(&session).await.0, killed());
        sweep(&session).await;
        if rung == Mechanism::ProcessGroup {
            continue;
        }
        all_gone(&session).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_all_reaches_jobs_in_groups_of_their_own() {
    for (rung, port) in ports() {
        // The leader ends while the others are looked for, which gives them another parent.
        for _ in 0..20 {
            let command = "sleep 300 & set -m; sleep 300 & set +m; echo up; wait";
            let session = spawn(&port, bash(command)).await;
            up(&session).await;
            assert_eq!(session.tree.signal_all(Signal::TERM), StepEffect::Delivered);
            let term = Status::Signaled {
                signal: Signal::TERM,
                core_dumped: false,
            };
            assert_eq!(exited(&session).await.0, term, "{}", rung.as_str());
            all_gone(&session).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_guard_kills_the_whole_session() {
    for (_, port) in ports() {
        let session = spawn(
            &port,
            bash("trap '' TERM HUP; sleep 300 & set -m; sleep 300 & echo up; wait"),
        )
        .await;
        up(&session).await;
        let (pid, outputs) = (session.pid, session.outputs.clone());
        // In a thread without a runtime, as a destructor may run anywhere.
        std::thread::spawn(move || drop(session)).join().unwrap();
        for (_, output) in outputs {
            crate::support::read_to_end(output.as_ref()).await;
        }
        until("the leader is reaped", || state(pid).is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_die_with_their_guard_and_are_spared_by_one_that_was_disarmed() {
    for (rung, port) in ports() {
        for is_disarmed in [false, true] {
            let session = spawn(&port, bash("sleep 300 & set -m; sleep 300 & echo up; exit 0")).await;
            up(&session).await;
            exited(&session).await;
            let (pid, outputs, tree) = (session.pid, session.outputs.clone(), session.tree.clone());
            if is_disarmed {
                session.guard.disarm();
            }
            drop(session);
            if is_disarmed {
                let report = crate::support::bounded("a survey", tree.survey()).await;
                assert_eq!(report.alive.len(), 2, "{}", rung.as_str());
                // What was kept can be ended as long as somebody has the tree, by a kill as well as by a sweep.
                let report = crate::support::bounded("a sweep", tree.sweep()).await;
                assert_eq!(
                    (report.swept.len(), report.alive),
                    (2, vec![]),
                    "{}",
                    rung.as_str()
                );
            }
            drop(tree);
            for (_, output) in outputs {
                crate::support::read_to_end(output.as_ref()).await;
            }
            until("the leader is reaped", || state(pid).is_none()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_session_lives_on() {
    for (_, port) in ports() {
        let other = spawn(&port, argv(&["cat"]).stdin()).await;
        let session = spawn(&port, bash("sleep 300 & echo up; wait")).await;
        up(&session).await;
        session.tree.kill();
        exited(&session).await;
        sweep(&session).await;
        session.leader.reap();
        drop(session);
        other.input.as_ref().unwrap().try_write(b"still here\n").unwrap();
        assert_eq!(read_line(output(&other, StreamId::Stdout)).await, "still here");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_reaped_can_be_swept_behind_all_the_same() {
    for (rung, port) in ports() {
        let session = spawn(&port, bash("sleep 300 & echo $!; exit 0")).await;
        let jobs = read_pids(&session).await;
        exited(&session).await;
        assert!(session.leader.reap().is_some());
        assert_eq!(
            session.tree.signal_foreground(Signal::TERM),
            StepEffect::MetNobody
        );
        let report = sweep(&session).await;
        if rung == Mechanism::ProcessGroup {
            // Its number could be somebody else's by now.
            assert_eq!(
                (report.swept, report.alive, report.sight),
                (vec![], vec![], Sight::Partial)
            );
            send(jobs[0], rustix::process::Signal::KILL);
        } else {
            assert_eq!(
                (report.swept.len(), report.alive),
                (1, vec![]),
                "{}",
                rung.as_str()
            );
        }
        all_gone(&session).await;
    }
}
