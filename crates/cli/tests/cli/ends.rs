use std::{fs, os::unix::fs::PermissionsExt};

use rustix::process::Signal;

use crate::support::{Place, text};

fn check(arguments: &[&str], code: i32) {
    let output = Place::new().run(&[&["run"], arguments].concat());
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
}

#[test]
fn the_exit_code_is_the_childs_and_a_signal_is_folded_as_shells_do() {
    check(&["--", "true"], 0);
    check(&["--", "false"], 1);
    check(&["-c", "exit 255"], 255);
    check(&["-c", "kill -9 $$"], 137);
    check(&["-c", "kill -TERM $$"], 143);
    check(&["-c", "nosuchcmd_xyz"], 127);
    check(&["-c", ""], 0);
}

#[test]
fn a_program_that_cannot_run_is_126_or_127() {
    let place = Place::new();
    fs::write(place.path("nox"), "#!/bin/sh\n").expect("a file");
    fs::set_permissions(place.path("nox"), fs::Permissions::from_mode(0o644)).expect("ours");
    for (program, code) in [("nosuchcmd_xyz", 127), ("./nox", 126), ("/tmp", 126)] {
        let output = place.run(&["run", "--", program]);
        assert_eq!(output.status.code(), Some(code), "{program}");
        assert!(text(&output.stderr).contains(program), "{}", text(&output.stderr));
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn our_own_failures_are_125() {
    check(&["--cwd", "/nonexistent", "--", "true"], 125);
    check(&["--timeout", "10", "--", "true"], 125);
    check(&["--timeout", "0s", "--", "true"], 125);
    check(&["--env", "=x", "--", "true"], 125);
    check(&["--env-key", "NO_SUCH", "--", "true"], 125);
    check(&["--report", "/nonexistent/report", "--", "true"], 125);
    check(&["--no-such-option", "--", "true"], 125);
    check(&[], 125);
}

#[test]
fn a_time_out_is_124_and_keeps_what_was_printed() {
    let output = Place::new().run(&["run", "--timeout", "300ms", "-c", "echo progress; sleep 30"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(124), "progress\n")
    );
    let output = Place::new().run(&["run", "--idle-timeout", "300ms", "-c", "echo progress; sleep 30"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(124), "progress\n")
    );
}

#[test]
fn a_signal_starts_the_ladder_and_the_code_is_that_of_the_childs_status() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let command = "trap 'echo asked; exit 7' TERM; echo up; while :; do sleep 0.01; done";
        let place = Place::new();
        let mut running = place.start(&["run", "-c", command]);
        assert_eq!(running.line(), "up\n");
        running.signal(signal);
        assert_eq!(running.line(), "asked\n");
        assert_eq!(running.code(), Some(7), "{signal:?}");
    }
}

#[test]
fn a_second_signal_forces_the_end() {
    let command = "trap 'echo asked' TERM; echo up; while :; do sleep 0.01; done";
    let place = Place::new();
    let mut running = place.start(&["run", "--grace", "60s", "-c", command]);
    assert_eq!(running.line(), "up\n");
    running.signal(Signal::INT);
    assert_eq!(running.line(), "asked\n");
    running.signal(Signal::INT);
    assert_eq!(running.code(), Some(137));
}

#[test]
fn nobody_who_reads_does_not_hold_a_stop_up() {
    let place = Place::new();
    let mut running = place.start(&["run", "--", "yes"]);
    assert_eq!(running.line(), "y\n");
    // The output stays open and full.
    running.signal(Signal::TERM);
    assert_eq!(running.code(), Some(143));
}

#[test]
fn leftovers_are_swept_unless_they_are_to_be_kept() {
    let place = Place::new();
    let command = "sleep 60 >/dev/null 2>&1 & echo $!";
    let is_alive = |pid: &str| {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie is dead, whoever has not reaped it.
        !state.is_empty() && !state.contains(") Z ")
    };
    let swept = text(&place.run(&["run", "-c", command]).stdout);
    assert!(!is_alive(swept.trim()));
    let kept = text(&place.run(&["run", "--keep", "-c", command]).stdout);
    // What ended it would do so a moment after the program's own end: another run of the program later it lives.
    let listed = text(&place.run(&["sessions"]).stdout);
    assert!(!listed.contains("lost"), "{listed}");
    assert!(is_alive(kept.trim()), "{listed}");
    let pid = rustix::process::Pid::from_raw(kept.trim().parse().expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, Signal::KILL).expect("it is ours");
}

#[test]
fn a_pipeline_ends_by_sigpipe_as_in_a_shell() {
    let output = Place::new().run(&[
        "run",
        "--shell",
        "bash",
        "-c",
        "yes | head -1; echo \"${PIPESTATUS[*]}\"",
    ]);
    assert_eq!(text(&output.stdout), "y\n141 0\n");
    assert_eq!(output.stderr, b"");
}
