//! Where hosts run: without control groups, in containers, as somebody who is given orphans.

use procession_core::{Field, Status, containment::Mechanism};
use procession_process::{GuardPort, Preference, ProcessPort};

use crate::support::{
    all_gone, bash, children_of, exited, has, in_own_host, is_own_host, options, output, port_on, ports,
    read_line, run, spawn, state, sweep, tell, until,
};

/// Whether this can be shown here: what is taken away is taken away by root, in a mount namespace of the test's own.
fn can_take_away() -> bool {
    let can = is_own_host() || (rustix::process::geteuid().is_root() && has("unshare"));
    if !can {
        tell("skipped: only root makes the mount namespace for this");
    }
    can
}

/// Which rungs are to be had, and that the strongest of them is taken and the others are told with their reasons.
async fn rungs_are(expected: &[Mechanism]) {
    let found: Vec<Mechanism> = ports().into_iter().map(|(rung, _)| rung).collect();
    assert_eq!(found, expected);
    let port = GuardPort::start(options().prefer(Preference::Auto)).expect("a guard");
    assert_eq!(port.containment().mechanism, expected[0]);
    let capabilities = port.capabilities();
    let note = capabilities
        .get(Field::Containment)
        .and_then(|containment| containment.note.clone())
        .expect("a note");
    for rung in crate::support::RUNGS {
        let is_told = note.contains(&format!("no `{}`: ", rung.as_str()));
        assert_eq!(is_told, !expected.contains(&rung), "{note}");
    }
    for rung in expected {
        if *rung == Mechanism::ProcessGroup {
            continue;
        }
        let port = GuardPort::start(options().prefer(Preference::Only(*rung))).expect("a guard");
        let session = spawn(
            &port,
            bash("sleep 300 & setsid sleep 300 & (setsid sleep 300 &); echo up; exit 3"),
        )
        .await;
        assert_eq!(
            read_line(output(&session, procession_core::StreamId::Stdout)).await,
            "up"
        );
        assert_eq!(exited(&session).await.0, Status::Exited { code: 3 });
        assert_eq!(sweep(&session).await.alive, vec![], "{}", rung.as_str());
        all_gone(&session).await;
    }
}

#[test]
fn where_no_control_groups_are_mounted_the_next_rung_holds() {
    if !can_take_away() {
        return;
    }
    let prepare =
        "exec unshare -m bash --noprofile --norc -c 'umount -a -t cgroup2; exec \"$@\"' bash \"$@\"";
    let name = "places::where_no_control_groups_are_mounted_the_next_rung_holds";
    in_own_host(name, prepare, || {
        rungs_are(&[
            Mechanism::PidNamespace,
            Mechanism::PgidLock,
            Mechanism::Subreaper,
            Mechanism::ProcessGroup,
        ])
    });
}

#[test]
fn where_control_groups_can_only_be_read_the_next_rung_holds() {
    if !can_take_away() {
        return;
    }
    let prepare = "exec unshare -m bash --noprofile --norc -c '
        findmnt -rno TARGET -t cgroup2 | while read -r at; do
            mount --bind \"$at\" \"$at\"; mount -o remount,ro,bind \"$at\"
        done
        exec \"$@\"' bash \"$@\"";
    let name = "places::where_control_groups_can_only_be_read_the_next_rung_holds";
    in_own_host(name, prepare, || {
        rungs_are(&[
            Mechanism::PidNamespace,
            Mechanism::PgidLock,
            Mechanism::Subreaper,
            Mechanism::ProcessGroup,
        ])
    });
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn where_no_namespace_is_to_be_had_the_lock_holds() {
    let name = "places::where_no_namespace_is_to_be_had_the_lock_holds";
    in_own_host(name, "", || async {
        // What this thread may not do its guard may not do either: a process inherits the filter of the thread that
        // starts it.
        refuse_namespaces();
        // Without the newer call a child cannot be placed into a control group.
        rungs_are(&[Mechanism::PgidLock, Mechanism::Subreaper, Mechanism::ProcessGroup]).await;
    });
}

/// As the profiles of containers do: the newer call is not known, the older one makes no namespaces.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[expect(unsafe_code, reason = "a filter for system calls has no safe form")]
fn refuse_namespaces() {
    let statement = |code: u32, k| libc::sock_filter {
        code: u16::try_from(code).expect("a code"),
        jt: 0,
        jf: 0,
        k,
    };
    let equal = |number: libc::c_long, then, otherwise| libc::sock_filter {
        code: u16::try_from(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K).expect("a code"),
        jt: then,
        jf: otherwise,
        k: u32::try_from(number).expect("a number"),
    };
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let answer = |with| statement(libc::BPF_RET | libc::BPF_K, with);
    let errno = |number: i32| libc::SECCOMP_RET_ERRNO | number.unsigned_abs();
    let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWUSER | libc::CLONE_NEWPID;
    let program = [
        load(0),
        equal(libc::SYS_clone3, 0, 1),
        answer(errno(libc::ENOSYS)),
        equal(libc::SYS_unshare, 3, 0),
        equal(libc::SYS_clone, 0, 3),
        // The flags: the first argument's lower half.
        load(16),
        libc::sock_filter {
            code: u16::try_from(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K).expect("a code"),
            jt: 0,
            jf: 1,
            k: namespaces.unsigned_abs(),
        },
        answer(errno(libc::EPERM)),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).expect("a few"),
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the program outlives the call, which copies it.
    let is_set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    assert!(is_set, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_host_that_is_given_orphans_loses_no_status_to_us_and_gets_no_orphan_of_ours() {
    let name = "places::a_host_that_is_given_orphans_loses_no_status_to_us_and_gets_no_orphan_of_ours";
    in_own_host(name, "", || async {
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own)).expect("a subreaper");
        // Children of the program's own: one that it waits for in the end, and one that it is given.
        let mut child = std::process::Command::new("bash")
            .args(["-c", "(sleep 0.05; exit 5) & echo $!; exit 7"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a child");
        let mut said = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut().expect("its output"), &mut said)
            .expect("what it says");
        let given: u32 = said.trim().parse().expect("a pid");
        until("both have ended", || {
            state(child.id()) == Some('Z') && state(given) == Some('Z')
        })
        .await;
        for rung in crate::support::RUNGS {
            // One guard at a time: they are children of the host's too.
            let Some(port) = port_on(rung) else { continue };
            for _ in 0..10 {
                let session = spawn(&port, bash("(sleep 0.02 >/dev/null 2>&1 &); exit 0")).await;
                exited(&session).await;
                session.guard.disarm();
            }
            assert_eq!(
                run(&port, bash("exit 9")).await.status,
                Status::Exited { code: 9 }
            );
            until(&format!("nobody is left on {}", rung.as_str()), || {
                children_of(port.guard_pid()).is_empty()
            })
            .await;
            let guard = port.guard_pid();
            drop(port);
            until("the guard is reaped", || state(guard).is_none()).await;
            let mut left = children_of(std::process::id());
            left.sort_unstable();
            let mut expected = vec![child.id(), given];
            expected.sort_unstable();
            assert_eq!(left, expected, "{}", rung.as_str());
        }
        assert_eq!(child.wait().expect("its status").code(), Some(7));
        let given = rustix::process::Pid::from_raw(given.cast_signed());
        let status = rustix::process::waitpid(given, rustix::process::WaitOptions::empty());
        let (_, status) = status.expect("a child").expect("its status");
        assert_eq!(status.exit_status(), Some(5));
    });
}
