//! Starts on every rung: what arrives, and what is left in the guard of those that fail.

use procession_core::{Status, containment::Mechanism};

use crate::support::{Adjust, argv, children_of, descriptors_of, failure, file, ports, run, until};

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
