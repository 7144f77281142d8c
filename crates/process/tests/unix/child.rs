//! What a child gets.

use std::os::fd::AsRawFd;

use procession_core::{Status, StreamId};
use procession_process::ProcessPort;

use crate::support::{Adjust, argv, bash, output, port, read_line, read_to_end, run, spawn};

#[tokio::test(flavor = "multi_thread")]
async fn a_child_has_three_descriptors_whatever_the_host_leaks() {
    let leaked = std::fs::File::open("/etc/hostname").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let port = port();
    // The fourth is the one that `ls` reads the folder by.
    for request in [
        argv(&["ls", "/proc/self/fd"]),
        argv(&["ls", "/proc/self/fd"]).merged().stdin(),
    ] {
        let done = run(&port, request).await;
        assert_eq!(
            done.stdout,
            "0\n1\n2\n3\n",
            "{} was open in the host",
            leaked.as_raw_fd()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_sees_no_sibling() {
    let port = port();
    let sibling = spawn(&port, argv(&["sleep", "60"]).stdin()).await;
    assert_eq!(
        run(&port, argv(&["ls", "/proc/self/fd"])).await.stdout,
        "0\n1\n2\n3\n"
    );
    drop(sibling);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_leads_a_session_without_a_terminal() {
    let port = port();
    let command = "read -r _ _ _ _ group session terminal _ </proc/$$/stat; echo $$ $group $session $terminal; \
                   (exec 3</dev/tty) 2>/dev/null; echo rc=$?";
    let done = run(&port, bash(command)).await;
    assert_eq!(done.stdout, format!("{0} {0} {0} 0\nrc=1\n", done.pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_ends_by_its_signal() {
    let port = port();
    let done = run(&port, bash("yes | head -1; echo \"${PIPESTATUS[*]}\"")).await;
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("y\n141 0\n", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn input_is_empty_unless_it_was_asked_for() {
    let port = port();
    let done = run(&port, bash("readlink /proc/self/fd/0; cat; echo read=$?")).await;
    assert_eq!(done.stdout, "/dev/null\nread=0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn merged_streams_are_one_in_the_order_of_the_writes() {
    let port = port();
    let command = "for i in 1 2 3; do echo out$i; echo err$i >&2; done";
    let session = spawn(&port, bash(command).merged()).await;
    let streams: Vec<_> = session.outputs.iter().map(|(stream, _)| *stream).collect();
    assert_eq!(streams, [StreamId::Stdout]);
    let text = read_to_end(output(&session, StreamId::Stdout)).await;
    assert_eq!(
        String::from_utf8_lossy(&text),
        "out1\nerr1\nout2\nerr2\nout3\nerr3\n"
    );

    let done = run(&port, bash(command)).await;
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        ("out1\nout2\nout3\n", "err1\nerr2\nerr3\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_gets_the_environment_that_was_given_and_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let port = port();
    let mut request = argv(&["/usr/bin/env"])
        .root(&folder)
        .variable("A", "b=c d")
        .variable("E", "");
    request.environment.variables.remove(std::ffi::OsStr::new("PATH"));
    let done = run(&port, request).await;
    assert_eq!(done.stdout, format!("A=b=c d\nE=\nPWD={}\n", folder.display()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_starts_where_it_was_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("sub")).unwrap();
    std::os::unix::fs::symlink("sub", root.join("link")).unwrap();
    let port = port();
    let here = std::env::current_dir().unwrap();
    for (request, expected) in [
        (argv(&["pwd", "-P"]), here.canonicalize().unwrap()),
        (argv(&["pwd", "-P"]).cwd("/"), "/".into()),
        (argv(&["pwd", "-P"]).root(&root), root.clone()),
        (bash("pwd").root(&root), root.clone()),
        (bash("pwd").root(&root).cwd("link"), root.join("sub")),
        (
            argv(&["pwd", "-P"]).root(&root).cwd(root.join("sub")),
            root.join("sub"),
        ),
    ] {
        let shown = format!("{:?} in {:?}", request.cwd, request.root);
        assert_eq!(
            run(&port, request).await.stdout,
            format!("{}\n", expected.display()),
            "{shown}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_root_harms_no_session_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let port = port();
    let session = bash("rmdir \"$PWD\" && echo gone").root(folder.path());
    assert_eq!(run(&port, session).await.stdout, "gone\n");
    assert_eq!(run(&port, argv(&["pwd"]).root("/").cwd("/")).await.stdout, "/\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_looked_up_in_the_childs_search_path() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::copy("/bin/echo", folder.path().join("bin/procession-echo")).unwrap();
    let port = port();
    for path in [
        "bin",
        "/no/such::bin",
        folder.path().join("bin").to_str().unwrap(),
    ] {
        let request = argv(&["procession-echo", "found"])
            .variable("PATH", path)
            .cwd(folder.path());
        assert_eq!(run(&port, request).await.stdout, "found\n", "{path}");
    }
    let request = argv(&["bin/procession-echo", "found"]).cwd(folder.path());
    assert_eq!(run(&port, request).await.stdout, "found\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_outlives_the_thread_that_asked_for_it() {
    let port = port();
    let request = argv(&["cat"]).stdin();
    let runtime = tokio::runtime::Handle::current();
    let asked = std::thread::spawn({
        let port = port.clone();
        move || runtime.block_on(spawn(&port, request))
    });
    let session = asked.join().expect("a thread that ended");
    session
        .input
        .as_ref()
        .expect("an input")
        .try_write(b"still here\n")
        .unwrap();
    assert_eq!(read_line(output(&session, StreamId::Stdout)).await, "still here");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_children_start_at_once() {
    let port = port();
    let sessions = (0..100).map(|number: u32| {
        let port = port.clone();
        tokio::spawn(async move { (number, run(&port, argv(&["echo", &number.to_string()])).await) })
    });
    for session in sessions.collect::<Vec<_>>() {
        let (number, done) = session.await.unwrap();
        assert_eq!(
            (done.stdout, done.status),
            (format!("{number}\n"), Status::Exited { code: 0 })
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_on_arguments_are_those_of_the_system() {
    let port = port();
    let limit = usize::try_from(port.exec_limits().string_bytes).unwrap();
    let done = run(&port, argv(&["true", &"x".repeat(limit)])).await;
    assert_eq!(done.status, Status::Exited { code: 0 });
}
