//! Trees: signals, sweeps, surveys, guards.

use std::{io, sync::Arc};

use procession_core::{Signal, Status, StreamId, outcome::StepEffect, session::Sight, spec::TerminalSize};
use procession_process::{KillGuard, ProcessPort, Spawned, Tree};

use crate::support::{
    Adjust, argv, bash, bounded, exited, is_alive, members, output, port, read_line, read_to_end, spawn,
    state, until,
};

/// Starts a shell that prints the pids of its jobs in one line, and reads that line.
async fn with_jobs(port: &procession_process::UnixPort, command: &str) -> (Spawned, Vec<u32>) {
    let session = spawn(port, bash(command)).await;
    let line = read_line(output(&session, StreamId::Stdout)).await;
    let pids = line
        .split_whitespace()
        .map(|pid| pid.parse().expect("a pid"))
        .collect();
    (session, pids)
}

/// Two jobs, each in a group of its own, and one in the leader's.
const JOBS: &str = "sleep 60 & a=$!; set -m; sleep 60 & b=$!; sleep 60 & c=$!; set +m; echo $a $b $c";

/// Sweeps and tells whom it met, in order; they are gone then. A loaded machine may take longer than a sweep.
async fn sweep(session: &dyn Tree) -> Vec<u32> {
    let report = bounded("a sweep", session.sweep()).await;
    until("the killed are gone", || {
        !report.alive.iter().any(|pid| is_alive(*pid))
    })
    .await;
    sorted([report.swept, report.alive].concat())
}

fn sorted(mut pids: Vec<u32>) -> Vec<u32> {
    pids.sort_unstable();
    pids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survey_sees_the_whole_session_and_harms_nobody() {
    let port = port();
    let (session, jobs) = with_jobs(&port, &format!("{JOBS}; exit 0")).await;
    exited(&session).await;
    let report = bounded("a survey", session.tree.survey()).await;
    assert_eq!(
        (sorted(report.alive), report.swept, report.sight),
        (sorted(jobs.clone()), vec![], Sight::Partial)
    );
    assert!(jobs.iter().all(|pid| is_alive(*pid)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_kills_what_is_left_and_says_who_it_was() {
    let port = port();
    let (session, jobs) = with_jobs(&port, &format!("{JOBS}; exit 4")).await;
    assert_eq!(exited(&session).await.0, Status::Exited { code: 4 });
    let report = bounded("a sweep", session.tree.sweep()).await;
    assert_eq!(
        (sorted(report.swept), report.alive),
        (sorted(jobs.clone()), vec![])
    );
    assert!(!jobs.iter().any(|pid| is_alive(*pid)));
    for (_, output) in &session.outputs {
        read_to_end(output.as_ref()).await;
    }
    // Another one meets nobody; the leader is still there to be reaped.
    let again = bounded("a sweep", session.tree.sweep()).await;
    assert_eq!((again.swept, again.alive), (vec![], vec![]));
    assert_eq!(state(session.pid), Some('Z'));
    assert!(session.leader.reap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_meets_those_who_are_still_forking() {
    let port = port();
    let burst = "(i=0; while [ $i -lt 300 ]; do sleep 60 & i=$((i+1)); done; wait) &";
    // One burst in the leader's group and two in groups of their own.
    let command = &format!("{burst} set -m; {burst} {burst} exit 0");
    let session = spawn(&port, bash(command)).await;
    exited(&session).await;
    let mut swept = 0;
    // One sweep is bounded; what counts is that sweeps come to an end.
    loop {
        let report = bounded("a sweep", session.tree.sweep()).await;
        swept += report.swept.len();
        if report.alive.is_empty() {
            break;
        }
    }
    assert!(swept >= 2, "{swept}");
    let report = bounded("a survey", session.tree.survey()).await;
    assert_eq!(report.alive, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_started_a_session_of_its_own_is_not_seen() {
    let port = port();
    let (session, jobs) = with_jobs(&port, "setsid sh -c 'echo $$; exec sleep 60' & wait").await;
    session.tree.kill();
    exited(&session).await;
    let report = bounded("a sweep", session.tree.sweep()).await;
    assert_eq!(
        (report.swept.contains(&jobs[0]), report.sight),
        (false, Sight::Partial)
    );
    assert!(is_alive(jobs[0]));
    kill(jobs[0]);
    until("the escaped one is gone", || !is_alive(jobs[0])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_all_reaches_jobs_in_groups_of_their_own() {
    let port = port();
    let (session, jobs) = with_jobs(&port, &format!("{JOBS}; wait")).await;
    assert_eq!(session.tree.signal_all(Signal::TERM), StepEffect::Delivered);
    until("all are gone", || !jobs.iter().any(|pid| is_alive(*pid))).await;
    let term = Status::Signaled {
        signal: Signal::TERM,
        core_dumped: false,
    };
    assert_eq!(exited(&session).await.0, term);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_the_foreground_reaches_the_leaders_group_alone() {
    let port = port();
    let (session, jobs) = with_jobs(&port, &format!("{JOBS}; trap : INT; wait; wait; wait")).await;
    assert_eq!(
        session.tree.signal_foreground(Signal::TERM),
        StepEffect::Delivered
    );
    exited(&session).await;
    until("the one of the leader's group is gone", || !is_alive(jobs[0])).await;
    assert!(is_alive(jobs[1]) && is_alive(jobs[2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_processes_die_too() {
    let port = port();
    let (session, jobs) = with_jobs(&port, &format!("{JOBS}; kill -STOP $a $b $c; kill -STOP $$")).await;
    until("the leader has stopped", || state(session.pid) == Some('T')).await;
    assert_eq!(session.tree.kill(), StepEffect::Delivered);
    exited(&session).await;
    sweep(session.tree.as_ref()).await;
    assert!(!jobs.iter().any(|pid| is_alive(*pid)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_guard_kills_the_whole_session() {
    let port = port();
    let (session, jobs) = with_jobs(&port, &format!("trap '' TERM HUP; {JOBS}; wait")).await;
    let pid = session.pid;
    // In a thread without a runtime, as a destructor may run anywhere.
    std::thread::spawn(move || drop(session)).join().unwrap();
    until("all are gone and the leader is reaped", || {
        state(pid).is_none() && !jobs.iter().any(|pid| is_alive(*pid))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_guard_leaves_none_of_those_who_are_still_forking() {
    let port = port();
    for _ in 0..5 {
        // In a group of their own, so that no single call reaches all of them.
        let session = spawn(
            &port,
            bash("set -m; (echo; i=0; while [ $i -lt 1000 ]; do sleep 60 & i=$((i+1)); done) & wait"),
        )
        .await;
        read_line(output(&session, StreamId::Stdout)).await;
        let pid = session.pid;
        until("some are there", || members(pid).len() > 10).await;
        drop(session);
        until("the leader is reaped", || state(pid).is_none()).await;
        assert_eq!(members(pid), [0; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_a_leader_that_had_exited_die_with_its_guard() {
    let port = port();
    let (session, jobs) = with_jobs(&port, &format!("{JOBS}; exit 0")).await;
    exited(&session).await;
    let pid = session.pid;
    let Spawned {
        leader, tree, guard, ..
    } = session;
    // The leader's own end goes first: it must not be reaped before the guard has killed.
    drop((leader, tree));
    assert_eq!(state(pid), Some('Z'));
    drop(guard);
    until("all are gone and the leader is reaped", || {
        state(pid).is_none() && !jobs.iter().any(|pid| is_alive(*pid))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disarmed_guard_spares_the_tree() {
    let port = port();
    let (session, jobs) = with_jobs(&port, &format!("{JOBS}; exit 0")).await;
    exited(&session).await;
    let (pid, tree) = (session.pid, Arc::clone(&session.tree));
    session.guard.disarm();
    drop(session);
    assert!(jobs.iter().all(|pid| is_alive(*pid)));
    // What was kept can be ended as long as somebody has the tree, since that keeps the leader from being reaped.
    assert_eq!(state(pid), Some('Z'));
    assert_eq!(sweep(tree.as_ref()).await, sorted(jobs));
    drop(tree);
    until("the leader is reaped", || state(pid).is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_session_lives_on() {
    let port = port();
    let (other, jobs) = with_jobs(&port, &format!("{JOBS}; wait")).await;
    let (session, _) = with_jobs(&port, &format!("{JOBS}; wait")).await;
    session.tree.kill();
    exited(&session).await;
    sweep(session.tree.as_ref()).await;
    session.leader.reap();
    drop(session);
    assert!(is_alive(other.pid) && jobs.iter().all(|pid| is_alive(*pid)));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_signalled_by_a_pid_that_was_given_back() {
    let port = port();
    let (session, jobs) = with_jobs(&port, &format!("{JOBS}; exit 0")).await;
    exited(&session).await;
    assert!(session.leader.reap().is_some());
    for effect in [
        session.tree.kill(),
        session.tree.signal_all(Signal::TERM),
        session.tree.signal_foreground(Signal::INT),
    ] {
        assert_eq!(effect, StepEffect::MetNobody);
    }
    let report = bounded("a sweep", session.tree.sweep()).await;
    assert_eq!(
        (report.swept, report.alive, report.sight),
        (vec![], vec![], Sight::Partial)
    );
    assert!(jobs.iter().all(|pid| is_alive(*pid)));
    jobs.into_iter().for_each(kill);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reaping_during_a_sweep_waits_for_its_end() {
    let port = port();
    for _ in 0..50 {
        let (session, jobs) =
            with_jobs(&port, "set -m; sleep 60 & a=$!; sleep 60 & echo $a $!; exit 0").await;
        exited(&session).await;
        let sweep = tokio::spawn(session.tree.sweep());
        tokio::task::yield_now().await;
        assert!(session.leader.reap().is_some());
        let report = bounded("a sweep", sweep).await.unwrap();
        // It was under way, and then it did all its work, or it came too late and did nothing.
        assert!(
            report.swept.is_empty() || sorted(report.swept.clone()) == sorted(jobs.clone()),
            "{report:?}"
        );
        until("the leader is reaped", || state(session.pid).is_none()).await;
        if report.swept.is_empty() {
            jobs.into_iter().for_each(kill);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_alone_meets_nobody_after_its_end() {
    let port = port();
    // That there is nobody can be told only while no process is started anywhere on the machine.
    let mut effect = StepEffect::Delivered;
    for _ in 0..2000 {
        let session = spawn(&port, argv(&["true"])).await;
        exited(&session).await;
        effect = session.tree.kill();
        session.leader.reap();
        if effect == StepEffect::MetNobody {
            break;
        }
    }
    assert_eq!(effect, StepEffect::MetNobody);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sweeps_at_once_each_tell_their_own() {
    let port = port();
    let mut sessions = Vec::new();
    for _ in 0..20 {
        let (session, jobs) = with_jobs(&port, &format!("{JOBS}; exit 0")).await;
        exited(&session).await;
        sessions.push((session, jobs));
    }
    let sweeps = sessions.into_iter().map(|(session, jobs)| {
        tokio::spawn(async move {
            let swept = sweep(session.tree.as_ref()).await;
            // The guard has to outlive the sweep.
            drop(session);
            (swept, sorted(jobs))
        })
    });
    for swept in sweeps.collect::<Vec<_>>() {
        let (swept, jobs) = bounded("a sweep", swept).await.unwrap();
        assert_eq!(swept, jobs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_has_no_size() {
    let port = port();
    let session = spawn(&port, argv(&["cat"]).stdin()).await;
    let refused = session.tree.resize(TerminalSize { rows: 24, cols: 80 });
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Unsupported);
    assert_eq!(session.containment, port.containment());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_can_be_made_over_any_tree() {
    let port = port();
    let session = spawn(&port, argv(&["sleep", "60"])).await;
    session.guard.disarm();
    let tree: Arc<dyn Tree> = Arc::clone(&session.tree);
    drop(KillGuard::new(tree));
    let killed = Status::Signaled {
        signal: Signal::KILL,
        core_dumped: false,
    };
    assert_eq!(exited(&session).await.0, killed);
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("a process that is there");
}
