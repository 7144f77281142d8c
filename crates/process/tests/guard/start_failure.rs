//! Starts that fail: by which kind, and that nothing is left of them.

use std::{
    fs,
    future::poll_fn,
    os::unix::fs::PermissionsExt,
    path::Path,
    task::Poll,
    time::{Duration, Instant},
};

use procession_core::{StartFailureKind, Status, containment::Mechanism};
use procession_process::ProcessPort;

use crate::support::{
    Adjust, argv, bash, bounded, children_of, descriptors_of, failure, finish, in_own_host, port, ports, run,
    until,
};

fn file(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_has_its_kind_and_place() {
    use StartFailureKind::{
        NotADirectory, NotExecutable, NotFound, Other, OutsideRoot, PermissionDenied, TooLong,
    };

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    file(&root.join("plain"), "echo no\n", 0o644);
    file(&root.join("orphan"), "#!/no/such/interpreter\n", 0o755);
    file(&root.join("text"), "echo no first line\n", 0o755);
    for (rung, port) in ports() {
        let in_root = |program: &str| argv(&[program]).root(root);
        for (request, kind, place) in [
            (in_root("nosuchcmd_xyz"), NotFound, "argv"),
            (in_root("./nosuch"), NotFound, "argv"),
            (in_root("./orphan"), NotFound, "argv"),
            (in_root("./plain"), PermissionDenied, "argv"),
            (in_root("/tmp"), PermissionDenied, "argv"),
            (in_root("./text"), NotExecutable, "argv"),
            (argv(&["/bin/true", &"x".repeat(200_000)]), TooLong, "argv"),
            (argv(&["true", "a\0b"]), Other, "argv"),
            (argv(&["true"]).variable("A", "b\0c"), Other, "env"),
            (argv(&["true"]).cwd("/no/such"), NotFound, "cwd"),
            (argv(&["true"]).cwd("/etc/hostname"), NotADirectory, "cwd"),
            (argv(&["true"]).root(root).cwd("/usr"), OutsideRoot, "cwd"),
        ] {
            let failed = failure(&port, request).await;
            assert_eq!(
                (failed.kind, failed.place.as_str()),
                (kind, place),
                "{failed} on {}",
                rung.as_str()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_arguments_arrive_whole() {
    for (rung, port) in ports() {
        let some = "y".repeat(100_000);
        let mut many = vec!["/usr/bin/printf", "%s"];
        many.resize(2 + 15, &some);
        let done = run(&port, argv(&many)).await;
        assert_eq!(done.stdout.len(), 1_500_000, "{}", rung.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_failed_starts_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    file(&folder.path().join("text"), "no first line\n", 0o755);
    for (rung, port) in ports() {
        let own = std::process::id();
        run(&port, argv(&["true"])).await;
        until("the guard has no child", || {
            children_of(port.guard_pid()).is_empty()
        })
        .await;
        let before = descriptors_of(port.guard_pid());
        let has_init = matches!(rung, Mechanism::PidNamespace | Mechanism::Subreaper);
        for number in 0..if has_init { 100 } else { 1000 } {
            let request = match number % 4 {
                0 => argv(&["nosuchcmd_xyz"]),
                1 => argv(&["./text"]).cwd(folder.path()).stdin(),
                2 => argv(&["/no/such/program"]),
                _ => argv(&["/bin/true", &"x".repeat(200_000)]).merged(),
            };
            failure(&port, request).await;
        }
        until("the guard has no child", || {
            children_of(port.guard_pid()).is_empty()
        })
        .await;
        until("the guard has let go of all", || {
            descriptors_of(port.guard_pid()) <= before
        })
        .await;
        assert!(!children_of(own).is_empty(), "the guard is one");
        let done = run(&port, argv(&["true"])).await;
        assert_eq!(done.status, Status::Exited { code: 0 }, "{}", rung.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_written_to_for_a_moment_starts_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("tool");
    fs::copy("/bin/true", &tool).unwrap();
    let held = fs::OpenOptions::new().append(true).open(&tool).unwrap();
    let port = port();
    let start = tokio::spawn(port.spawn(argv(&["./tool"]).cwd(folder.path())));
    // The scenario's own time: what has been asked for meanwhile is not held up.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(
        run(&port, argv(&["true"])).await.status,
        Status::Exited { code: 0 }
    );
    assert!(!start.is_finished());
    drop(held);
    let session = bounded("a start", start)
        .await
        .unwrap()
        .expect("a program that nobody writes to");
    assert_eq!(finish(session).await.status, Status::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_stays_written_to_is_busy_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("tool");
    fs::copy("/bin/true", &tool).unwrap();
    let held = fs::OpenOptions::new().append(true).open(&tool).unwrap();
    let port = port();
    let started = Instant::now();
    let failed = failure(&port, argv(&["./tool"]).cwd(folder.path())).await;
    assert_eq!(
        (failed.kind, failed.place.as_str()),
        (StartFailureKind::Busy, "argv")
    );
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_nobody_waits_for_does_not_happen_or_dies() {
    for (_, port) in ports() {
        for round in 0_u64..50 {
            let mut start = port.spawn(bash("sleep 300 & sleep 300"));
            // Asked for, and dropped at some point between that and the answer.
            poll_fn(|context| Poll::Ready(start.as_mut().poll(context).is_pending())).await;
            tokio::time::sleep(Duration::from_micros(round * 40)).await;
            drop(start);
        }
        until("nobody is left", || children_of(port.guard_pid()).is_empty()).await;
        assert_eq!(
            run(&port, argv(&["true"])).await.status,
            Status::Exited { code: 0 }
        );
    }
}

#[test]
fn short_descriptors_are_told_as_such_and_starts_go_on_afterwards() {
    let name = "start_failure::short_descriptors_are_told_as_such_and_starts_go_on_afterwards";
    in_own_host(name, "ulimit -n 64", || async {
        for (rung, port) in ports() {
            let mut sessions = Vec::new();
            let failed = loop {
                match bounded("a start", port.spawn(argv(&["cat"]).stdin())).await {
                    Ok(session) => sessions.push(session),
                    Err(failed) => break failed,
                }
            };
            assert_eq!(
                (failed.kind, failed.place.as_str()),
                (StartFailureKind::Exhausted, "host"),
                "{failed} on {}",
                rung.as_str()
            );
            assert!(sessions.len() > 4, "{}", sessions.len());
            sessions.clear();
            until("the guard has no child", || {
                children_of(port.guard_pid()).is_empty()
            })
            .await;
            assert_eq!(
                run(&port, argv(&["true"])).await.status,
                Status::Exited { code: 0 }
            );
        }
    });
}
