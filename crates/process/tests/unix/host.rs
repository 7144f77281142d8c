//! Hosts in odd states: what their launchers left them with, and what they do to themselves.
#![expect(
    unsafe_code,
    reason = "the scenarios are about dispositions and descriptors that no safe call touches"
)]

use std::io;

use procession_core::{
    Field, Status, StreamId, Value,
    outcome::{ObservedBy, UnknownStatus},
};
use procession_policy::Level;
use procession_process::{ProcessPort, restore_sigchld};

use crate::support::{Adjust, argv, bash, exited, in_own_host, output, port, read_line, run, spawn};

const SIGNAL_LINES: &str = "grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2";

fn ignore(signal: i32) {
    // SAFETY: to ignore a signal installs no handler.
    assert_ne!(unsafe { libc::signal(signal, libc::SIG_IGN) }, libc::SIG_ERR);
}

#[test]
fn blocked_and_ignored_signals_are_not_handed_down() {
    let ignoring = "trap '' INT QUIT HUP USR2";
    in_own_host(
        "host::blocked_and_ignored_signals_are_not_handed_down",
        ignoring,
        || async {
            let mut blocked = nix::sys::signal::SigSet::empty();
            blocked.add(nix::sys::signal::Signal::SIGTERM);
            blocked.add(nix::sys::signal::Signal::SIGUSR1);
            blocked.thread_block().unwrap();
            ignore(libc::SIGCHLD);
            restore_sigchld().unwrap();
            // The port's threads inherit the mask of the one that makes it.
            let port = port();
            // A program of its own, since a shell would change its signals.
            let done = run(&port, argv(&["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])).await;
            let masks: Vec<u64> = done
                .stdout
                .lines()
                .map(|line| u64::from_str_radix(line.split_once('\t').unwrap().1, 16).unwrap())
                .collect();
            assert_eq!(masks[0], 0, "blocked");
            assert_eq!(masks[1] & 0x7fff_ffff, 0, "ignored: {:x}", masks[1]);

            let session = spawn(&port, argv(&["sleep", "60"])).await;
            session.tree.signal_all(procession_core::Signal::TERM);
            let term = Status::Signaled {
                signal: procession_core::Signal::TERM,
                core_dumped: false,
            };
            assert_eq!(exited(&session).await.0, term);
        },
    );
}

#[test]
fn an_ignored_sigchld_makes_ends_unknown_until_it_is_restored() {
    in_own_host(
        "host::an_ignored_sigchld_makes_ends_unknown_until_it_is_restored",
        "",
        || async {
            ignore(libc::SIGCHLD);
            let port = port();
            let note = |port: &procession_process::UnixPort| {
                let capabilities = port.capabilities();
                capabilities
                    .get(Field::Containment)
                    .and_then(|found| found.note.clone())
                    .unwrap()
            };
            assert!(note(&port).contains("SIGCHLD"), "{}", note(&port));
            let unknown = Status::Unknown {
                reason: UnknownStatus::TakenElsewhere,
            };
            for _ in 0..20 {
                let done = run(&port, bash("exit 7")).await;
                assert_eq!(
                    (done.status, done.observed_by, done.usage),
                    (unknown.clone(), ObservedBy::Nobody, None)
                );
            }
            // What has a leader that is gone has no number to be signalled by.
            let session = spawn(&port, argv(&["true"])).await;
            exited(&session).await;
            assert_eq!(
                session.tree.kill(),
                procession_core::outcome::StepEffect::MetNobody
            );

            restore_sigchld().unwrap();
            assert!(!note(&port).contains("SIGCHLD"), "{}", note(&port));
            let done = run(&port, bash("exit 7")).await;
            assert_eq!(
                (done.status, done.observed_by),
                (Status::Exited { code: 7 }, ObservedBy::Pidfd)
            );
            // The child itself has it at its default.
            let done = run(&port, bash(SIGNAL_LINES)).await;
            assert!(
                done.stdout
                    .lines()
                    .all(|mask| u64::from_str_radix(mask, 16).unwrap() & (1 << 16) == 0),
                "{}",
                done.stdout
            );
        },
    );
}

#[test]
fn a_status_that_somebody_else_took_is_unknown() {
    in_own_host(
        "host::a_status_that_somebody_else_took_is_unknown",
        "",
        || async {
            let port = port();
            let session = spawn(&port, bash("read -r line; exit 7").stdin()).await;
            session.input.as_ref().unwrap().try_write(b"go\n").unwrap();
            // SAFETY: a null status is not written to.
            let taken = unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
            assert_eq!(taken, i32::try_from(session.pid).unwrap());
            let unknown = Status::Unknown {
                reason: UnknownStatus::TakenElsewhere,
            };
            assert_eq!(exited(&session).await, (unknown, ObservedBy::Nobody));
            assert_eq!(session.leader.reap(), None);
        },
    );
}

#[test]
fn a_host_with_sigpipe_at_default_survives_a_reader_that_went_away() {
    let name = "host::a_host_with_sigpipe_at_default_survives_a_reader_that_went_away";
    in_own_host(name, "", || async {
        // SAFETY: the default disposition installs no handler.
        assert_ne!(
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) },
            libc::SIG_ERR
        );
        let port = port();
        let session = spawn(&port, bash("exec <&-; echo closed; sleep 60").stdin()).await;
        read_line(output(&session, StreamId::Stdout)).await;
        for _ in 0..3 {
            let refused = session.input.as_ref().unwrap().try_write(b"x");
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
        // Nothing is changed and nothing is left behind: neither the disposition, nor the mask, nor a signal.
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap() & (1 << (libc::SIGPIPE - 1))
        };
        assert_eq!(
            ["SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:"].map(mask),
            [0; 5],
            "{status}"
        );
    });
}

#[test]
fn a_sigpipe_that_was_pending_before_a_write_is_left() {
    in_own_host(
        "host::a_sigpipe_that_was_pending_before_a_write_is_left",
        "",
        || async {
            let port = port();
            let session = spawn(&port, bash("exec <&-; echo closed; sleep 60").stdin()).await;
            read_line(output(&session, StreamId::Stdout)).await;
            let input = session.input.clone().unwrap();
            let pending = tokio::task::spawn_blocking(move || {
                let mut sigpipe = nix::sys::signal::SigSet::empty();
                sigpipe.add(nix::sys::signal::Signal::SIGPIPE);
                sigpipe.thread_block().unwrap();
                // SAFETY: the default disposition installs no handler; the signal goes to this thread, which blocks it.
                unsafe {
                    libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                    libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE);
                }
                assert_eq!(
                    input.try_write(b"x").unwrap_err().kind(),
                    io::ErrorKind::BrokenPipe
                );
                let at_once = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                // SAFETY: both pointers are to values that outlive the call, and a null `siginfo` is not written to.
                unsafe { libc::sigtimedwait(sigpipe.as_ref(), std::ptr::null_mut(), &raw const at_once) }
            });
            assert_eq!(pending.await.unwrap(), libc::SIGPIPE);
        },
    );
}

#[test]
fn a_host_without_standard_streams_mixes_nothing_up() {
    in_own_host(
        "host::a_host_without_standard_streams_mixes_nothing_up",
        "",
        || async {
            let port = port();
            for fd in 0..3 {
                // SAFETY: these belong to nobody who relies on them in this process; what is opened next gets their numbers.
                assert_eq!(unsafe { libc::close(fd) }, 0);
            }
            let session = spawn(
                &port,
                bash("read -r line; echo out $line; echo err >&2; ls /proc/self/fd").stdin(),
            )
            .await;
            // What the host prints goes nowhere, and into no session.
            for fd in 0..3 {
                // SAFETY: the pointer is to as many bytes as are told.
                assert_eq!(
                    unsafe { libc::write(fd, b"stray\n".as_ptr().cast(), 6) },
                    -1,
                    "{fd} is open"
                );
            }
            session.input.as_ref().unwrap().try_write(b"in\n").unwrap();
            let done = crate::support::finish(session).await;
            assert_eq!(
                (done.stdout.as_str(), done.stderr.as_str()),
                ("out in\n0\n1\n2\n3\n", "err\n")
            );
            assert_eq!(done.status, Status::Exited { code: 0 });
        },
    );
}

#[test]
fn a_host_whose_standard_streams_are_pipes_hands_none_of_them_down() {
    let name = "host::a_host_whose_standard_streams_are_pipes_hands_none_of_them_down";
    in_own_host(name, "exec 9</etc/hostname", || async {
        let port = port();
        let done = run(&port, argv(&["ls", "/proc/self/fd"])).await;
        assert_eq!(done.stdout, "0\n1\n2\n3\n");
        let own = std::fs::read_link("/proc/self/fd/1").unwrap();
        let done = run(&port, bash("readlink /proc/self/fd/1 /proc/self/fd/2")).await;
        assert!(!done.stdout.contains(&*own.to_string_lossy()), "{}", done.stdout);
    });
}

#[test]
fn a_deleted_directory_of_the_hosts_own_harms_nobody_who_starts_elsewhere() {
    let name = "host::a_deleted_directory_of_the_hosts_own_harms_nobody_who_starts_elsewhere";
    in_own_host(name, "cd \"$(mktemp -d)\" && rmdir \"$PWD\"", || async {
        let port = port();
        assert_eq!(run(&port, argv(&["pwd"]).cwd("/")).await.stdout, "/\n");
        assert_eq!(
            run(&port, argv(&["pwd"]).root("/").cwd("tmp")).await.stdout,
            "/tmp\n"
        );
        let failed = crate::support::failure(&port, argv(&["pwd"])).await;
        assert_eq!(
            (failed.kind, failed.place.as_str()),
            (procession_core::StartFailureKind::NotFound, "cwd")
        );
    });
}

#[test]
fn capabilities_tell_what_a_session_inherits() {
    let prepare = "ulimit -S -n 333; ulimit -c 0; umask 0027; echo 7 >/proc/self/oom_score_adj; renice -n 3 $$ >/dev/null";
    in_own_host(
        "host::capabilities_tell_what_a_session_inherits",
        prepare,
        || async {
            let port = port();
            let capabilities = port.capabilities();
            for (field, expected) in [
                (Field::OpenFiles, Value::Number(333)),
                (Field::Core, Value::Number(0)),
                (Field::Umask, Value::from("0027")),
                (Field::OomScoreAdj, Value::Integer(7)),
                (Field::Nice, Value::Integer(3)),
                (Field::DiesWithHost, Value::Flag(false)),
            ] {
                let found = capabilities.get(field).unwrap();
                assert_eq!(
                    (found.level, found.inherited.clone()),
                    (Level::Unsupported, Some(expected)),
                    "{field}"
                );
            }
            let containment = capabilities.get(Field::Containment).unwrap();
            assert_eq!(containment.inherited, Some(Value::from("process_group")));
            assert_eq!(
                containment.supported.as_deref(),
                Some(&["auto".to_owned(), "process_group".to_owned()][..])
            );
            // And so it is in the child.
            let command = "ulimit -n; umask; cat /proc/self/oom_score_adj; nice";
            assert_eq!(run(&port, bash(command)).await.stdout, "333\n0027\n7\n3\n");
            assert!(
                capabilities
                    .get(Field::CpuTime)
                    .is_some_and(|found| found.inherited.is_none())
            );
        },
    );
}
