//! How ends are seen.

use std::time::Duration;

use procession_core::{
    Signal, Status, StreamId,
    containment::Mechanism,
    outcome::{ObservedBy, UsageScope},
};

use crate::support::{argv, bash, exited, output, port_on, ports, run, spawn, state, sweep, until};

fn signaled(number: i32) -> Status {
    Status::Signaled {
        signal: Signal::from_number(number).expect("a signal"),
        core_dumped: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_and_signal_are_never_mixed_up() {
    for (rung, port) in ports() {
        for (command, expected) in [
            ("kill -9 $$", signaled(9)),
            ("kill -15 $$", signaled(15)),
            ("ulimit -c 0; kill -SEGV $$", signaled(11)),
            ("kill -40 $$", signaled(40)),
            ("exit 137", Status::Exited { code: 137 }),
            ("bash -c 'kill -9 $$'; exit $?", Status::Exited { code: 137 }),
            ("exit 256", Status::Exited { code: 0 }),
        ] {
            let done = run(&port, bash(command)).await;
            assert_eq!(
                (done.status, done.observed_by),
                (expected, ObservedBy::Guard),
                "{command} on {}",
                rung.as_str()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_command_leaves_nobody_and_that_is_a_fact() {
    for (rung, port) in ports() {
        let session = spawn(&port, argv(&["true"])).await;
        exited(&session).await;
        let report = sweep(&session).await;
        assert_eq!(
            (report.swept, report.alive),
            (vec![], vec![]),
            "{}",
            rung.as_str()
        );
        assert!(session.leader.reap().is_some());
        assert_eq!(session.leader.reap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_told_at_the_reaping() {
    for (rung, port) in ports() {
        let done = run(&port, bash("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")).await;
        let usage = done.usage.expect("a usage");
        assert!(
            usage.user_time + usage.system_time > Duration::from_millis(10),
            "{usage:?} on {}",
            rung.as_str()
        );
        assert!(usage.minor_faults > 0, "{usage:?} on {}", rung.as_str());
        let covered = if rung == Mechanism::Cgroup {
            UsageScope::Tree
        } else {
            UsageScope::Leader
        };
        assert_eq!(usage.cpu_covers, covered, "{}", rung.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_told_where_it_is_not_the_guards_own() {
    for (rung, port) in ports() {
        let large = run(&port, bash("printf -v x '%0134217728d' 0")).await;
        let usage = large.usage.expect("a usage");
        let bytes = usage.peak_memory_bytes.expect("a size");
        assert!(
            (128 << 20..1 << 30).contains(&bytes),
            "{usage:?} on {}",
            rung.as_str()
        );
        // What a small one has cannot be told from what it began in, unless a control group counts it.
        let small = run(&port, argv(&["true"])).await.usage.expect("a usage");
        let is_counted = small.peak_memory_covers == UsageScope::Tree;
        assert_eq!(
            small.peak_memory_bytes.is_some(),
            is_counted,
            "{small:?} on {}",
            rung.as_str()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_group_counts_those_whom_nobody_waited_for() {
    let Some(port) = port_on(Mechanism::Cgroup) else {
        return;
    };
    let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let session = spawn(&port, bash(&format!("({burn}; sleep 300) & sleep 0.01; exit 0"))).await;
    exited(&session).await;
    let burner = crate::support::bounded("a survey", session.tree.survey())
        .await
        .alive;
    assert!(!burner.is_empty());
    until("it has burned and sleeps", || {
        burner.iter().any(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name == "sleep\n")
        })
    })
    .await;
    sweep(&session).await;
    let usage = session.leader.reap().expect("a usage");
    assert!(
        usage.user_time + usage.system_time > Duration::from_millis(50),
        "{usage:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_a_leader_wrote_is_in_the_pipe_when_its_end_is_told() {
    for (rung, port) in ports() {
        for _ in 0..20 {
            // A descendant holds the output, so that its end tells nothing.
            let session = spawn(
                &port,
                bash("sleep 300 & printf '%04096d' 0; echo last; kill -9 $$"),
            )
            .await;
            assert_eq!(exited(&session).await.0, signaled(9));
            let stdout = output(&session, StreamId::Stdout);
            assert_eq!(stdout.waiting_bytes(), Some(4101), "{}", rung.as_str());
            sweep(&session).await;
            session.leader.reap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_seen_by_many_who_wait_and_told_again_behind_the_reaping() {
    for (_, port) in ports() {
        let session = spawn(&port, argv(&["sleep", "300"])).await;
        assert_eq!((session.leader.peek(), session.leader.reap()), (None, None));
        let waits = (0..4).map(|_| {
            let leader = std::sync::Arc::clone(&session.leader);
            tokio::spawn(async move { leader.exited().await.map(|()| leader.peek()) })
        });
        let waits: Vec<_> = waits.collect();
        session.tree.kill();
        for wait in waits {
            let seen = crate::support::bounded("an exit", wait).await.unwrap().unwrap();
            assert_eq!(seen, Some((signaled(9), ObservedBy::Guard)));
        }
        assert_eq!(state(session.pid), Some('Z'));
        assert!(session.leader.reap().is_some());
        until("it is reaped", || state(session.pid).is_none()).await;
        assert_eq!(exited(&session).await, (signaled(9), ObservedBy::Guard));
    }
}
