//! Starts that fail: by which kind, and that nothing is left of them. Whatever the port.

use std::{
    fs,
    future::poll_fn,
    os::unix::fs::{PermissionsExt, symlink},
    task::Poll,
    time::{Duration, Instant},
};

use procession_core::{StartFailureKind, Status};
use procession_process::{ProcessPort, SpawnRequest};

use crate::support::{
    Adjust, argv, bash, bounded, failure, file, finish, held, in_own_host, port, run, until,
};

async fn check(
    port: &impl ProcessPort,
    request: SpawnRequest,
    kind: StartFailureKind,
    place: &str,
    subject: &str,
) {
    let failed = failure(port, request).await;
    let told = (failed.kind, failed.place.as_str(), failed.subject.as_str());
    assert_eq!(told, (kind, place, subject), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_be_executed_has_its_kind() {
    use StartFailureKind::{NotExecutable, NotFound, Other, PermissionDenied};

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    file(&root.join("plain"), "echo no\n", 0o644);
    file(&root.join("orphan"), "#!/no/such/interpreter\n", 0o755);
    file(&root.join("text"), "echo no first line\n", 0o755);
    file(&root.join("empty"), "", 0o755);
    let port = &port();
    for (program, kind) in [
        ("nosuchcmd_xyz", NotFound),
        ("./nosuch", NotFound),
        ("./plain/below", NotFound),
        ("", NotFound),
        ("./orphan", NotFound),
        ("./plain", PermissionDenied),
        ("/tmp", PermissionDenied),
        ("./text", NotExecutable),
        ("./empty", NotExecutable),
    ] {
        check(port, argv(&[program]).root(root), kind, "argv", program).await;
    }
    check(
        port,
        argv(&["plain"]).root(root).variable("PATH", "."),
        PermissionDenied,
        "argv",
        "plain",
    )
    .await;
    check(port, argv(&[]), NotFound, "argv", "").await;
    check(port, argv(&["true", "a\0b"]), Other, "argv", "true").await;
    check(port, argv(&["true"]).variable("A", "b\0c"), Other, "env", "A").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strings_that_the_system_does_not_take_are_too_long() {
    let port = &port();
    let too_long = "x".repeat(usize::try_from(port.exec_limits().string_bytes).unwrap() + 1);
    let mut many = vec!["/bin/true"];
    let some = "y".repeat(30_000);
    many.resize(
        usize::try_from(port.exec_limits().total_bytes).unwrap() / some.len() + 2,
        &some,
    );
    for request in [
        argv(&["/bin/true", &too_long]),
        argv(&["/bin/true"]).variable("A", &too_long),
        argv(&many),
    ] {
        check(port, request, StartFailureKind::TooLong, "argv", "/bin/true").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_entered_has_its_kind() {
    use StartFailureKind::{NotADirectory, NotFound, OutsideRoot};

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    file(&root.join("plain"), "", 0o644);
    symlink("/", root.join("out")).unwrap();
    let port = &port();
    for (cwd, kind) in [
        ("gone", NotFound),
        ("plain", NotADirectory),
        ("/usr", OutsideRoot),
        ("out/usr", OutsideRoot),
    ] {
        let subject = root.join(cwd);
        check(
            port,
            argv(&["true"]).root(root).cwd(cwd),
            kind,
            "cwd",
            subject.to_str().unwrap(),
        )
        .await;
    }
    let gone = root.join("gone");
    check(
        port,
        argv(&["true"]).root(&gone),
        NotFound,
        "cwd",
        gone.to_str().unwrap(),
    )
    .await;
}

#[test]
fn a_closed_directory_is_told_to_those_whom_it_is_closed_to() {
    // Root may enter anything: the scenario runs as somebody else, from a copy of the program that they can read.
    let step_down = r#"
        if [ "$(id -u)" = 0 ]; then
            folder=$(mktemp -d); chmod 755 "$folder"; cp "$1" "$folder/program"; shift; cd /
            cp "$PROCESSION_TEST_GUARD" "$folder/guard"
            export PROCESSION_TEST_GUARD="$folder/guard"
            setpriv --reuid=65534 --regid=65534 --clear-groups "$folder/program" "$@"
            code=$?; rm -r "$folder"; exit $code
        fi"#;
    let name = "start_failure::a_closed_directory_is_told_to_those_whom_it_is_closed_to";
    in_own_host(name, step_down, || async {
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().join("closed");
        fs::create_dir_all(closed.join("below")).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let port = port();
        for cwd in [closed.clone(), closed.join("below")] {
            let failed = failure(&port, argv(&["true"]).cwd(&cwd)).await;
            let told = (failed.kind, failed.place.as_str());
            assert_eq!(
                told,
                (StartFailureKind::PermissionDenied, "cwd"),
                "{}",
                cwd.display()
            );
        }
        let failed = failure(&port, argv(&["tool"]).variable("PATH", closed.to_str().unwrap())).await;
        assert_eq!(
            (failed.kind, failed.place.as_str()),
            (StartFailureKind::PermissionDenied, "argv")
        );
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn short_descriptors_are_told_as_such_and_starts_go_on_afterwards() {
    let name = "start_failure::short_descriptors_are_told_as_such_and_starts_go_on_afterwards";
    in_own_host(name, "ulimit -n 64", || async {
        let port = port();
        let before = held(&port);
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
            "{failed}"
        );
        assert!(sessions.len() > 4, "{}", sessions.len());
        sessions.clear();
        until("all is closed and reaped", || held(&port) == before).await;
        assert_eq!(
            run(&port, argv(&["true"])).await.status,
            Status::Exited { code: 0 }
        );
    });
}

#[test]
fn failed_starts_leave_nothing() {
    in_own_host("start_failure::failed_starts_leave_nothing", "", || async {
        let folder = tempfile::tempdir().unwrap();
        file(&folder.path().join("text"), "no first line\n", 0o755);
        let port = port();
        let before = held(&port);
        for number in 0..1000 {
            let request = match number % 4 {
                0 => argv(&["nosuchcmd_xyz"]),
                1 => argv(&["./text"]).cwd(folder.path()).stdin(),
                2 => argv(&["true"]).cwd("/no/such"),
                _ => argv(&["/bin/true", &"x".repeat(200_000)]).merged(),
            };
            failure(&port, request).await;
        }
        until("all is closed and reaped", || held(&port) == before).await;
        for _ in 0..8 {
            assert_eq!(
                run(&port, argv(&["true"])).await.status,
                Status::Exited { code: 0 }
            );
        }
    });
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
async fn a_script_that_was_just_written_always_starts() {
    let folder = tempfile::tempdir().unwrap();
    let port = port();
    let rounds = (0..4).map(|writer: u32| {
        let (port, folder) = (port.clone(), folder.path().to_owned());
        tokio::spawn(async move {
            for round in 0..50 {
                let script = format!("./script-{writer}-{round}");
                file(&folder.join(&script), "#!/bin/sh\nexit 0\n", 0o755);
                let done = run(&port, argv(&[&script]).cwd(&folder)).await;
                assert_eq!(done.status, Status::Exited { code: 0 });
            }
        })
    });
    for round in rounds.collect::<Vec<_>>() {
        round.await.unwrap();
    }
}

#[test]
fn a_start_that_nobody_waits_for_does_not_happen_or_dies() {
    let name = "start_failure::a_start_that_nobody_waits_for_does_not_happen_or_dies";
    in_own_host(name, "", || async {
        let port = port();
        let before = held(&port);
        for round in 0_u64..50 {
            let mut start = port.spawn(bash("sleep 60 & sleep 60"));
            // Asked for, and dropped at some point between that and the answer.
            poll_fn(|context| Poll::Ready(start.as_mut().poll(context).is_pending())).await;
            tokio::time::sleep(Duration::from_micros(round * 40)).await;
            drop(start);
        }
        until("all is closed and reaped", || held(&port) == before).await;
        assert_eq!(
            run(&port, argv(&["true"])).await.status,
            Status::Exited { code: 0 }
        );
    });
}
