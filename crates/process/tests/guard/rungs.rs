//! The same scenarios on other rungs and as somebody else.

use procession_core::containment::Mechanism;

use crate::support::{GUARD, RUNG, guard_program, has, is_own_host, port_on, tell};

/// Runs tests of this program once more with these arguments.
fn again(command: &mut std::process::Command, what: &str) {
    let done = command
        .env("RUST_TEST_THREADS", "2")
        .output()
        .expect("this program");
    let shown = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(done.status.success(), "{what}: {}\n{shown}", done.status);
    assert!(!shown.contains("running 0 tests"), "{what}\n{shown}");
}

/// What a child gets, pipes, terminals and starts that fail.
fn common_scenarios_on(rung: Mechanism) {
    if port_on(rung).is_none() {
        return;
    }
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["child::", "pipes::", "terminal::", "start_failure::"])
        .env(RUNG, rung.as_str());
    if rung == Mechanism::PidNamespace {
        // There a session has numbers of its own, which these compare with the host's.
        command.args(["--skip", "a_child_leads_a_session_without_a_terminal"]);
    }
    again(&mut command, rung.as_str());
}

#[test]
fn the_common_scenarios_hold_in_a_pid_namespace() {
    common_scenarios_on(Mechanism::PidNamespace);
}

#[test]
fn the_common_scenarios_hold_under_the_lock() {
    common_scenarios_on(Mechanism::PgidLock);
}

#[test]
fn the_common_scenarios_hold_under_a_subreaper() {
    common_scenarios_on(Mechanism::Subreaper);
}

#[test]
fn the_common_scenarios_hold_in_a_process_group() {
    common_scenarios_on(Mechanism::ProcessGroup);
}

#[test]
fn all_holds_for_who_has_no_privileges() {
    if is_own_host() || std::env::var_os(GUARD).is_some() {
        return;
    }
    if !rustix::process::geteuid().is_root() || !has("setpriv") {
        tell("skipped: only root can step down, by `setpriv`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &std::path::Path, name: &str| {
        let to = folder.path().join(name);
        // Not by this process: whom another test starts meanwhile would have it open for writing until its program
        // runs, and what is open for writing cannot be executed.
        let copied = std::process::Command::new("cp").arg(from).arg(&to).status();
        assert!(copied.unwrap().success());
        to
    };
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let tests = copy(&std::env::current_exe().unwrap(), "tests");
    let guard = copy(&guard_program(), "procession-guard");
    let mut command = std::process::Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(tests)
        .args([
            "child::",
            "ends::",
            "guard::",
            "leave::",
            "trees::",
            "a_session_that_hangs_up",
            "a_thousand_failed",
        ])
        .env(GUARD, guard)
        .env(RUNG, Mechanism::PgidLock.as_str())
        .current_dir("/");
    again(&mut command, "as somebody else");
}
