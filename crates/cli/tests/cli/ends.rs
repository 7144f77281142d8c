use std::{fs, os::unix::fs::PermissionsExt};

use rustix::process::Signal;

use crate::support::{Place, text, until};

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

/// The living process with these arguments.
fn find(arguments: &str) -> Option<u32> {
    let line = arguments.replace(' ', "\0") + "\0";
    let entries = fs::read_dir("/proc").expect("processes");
    entries.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // A zombie has none.
        (fs::read(entry.path().join("cmdline")).ok()? == line.as_bytes()).then_some(pid)
    })
}

/// The guard that a process descends from, while it is there.
fn guard_of(pid: u32) -> Option<u32> {
    let mut pid = pid;
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        if stat.contains("(procession-guar)") {
            return Some(pid);
        }
        pid = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        if pid <= 1 {
            return None;
        }
    }
}

#[test]
fn leftovers_are_swept_unless_they_are_to_be_kept_whatever_holds_them() {
    let place = Place::new();
    for (number, containment) in [
        "auto",
        "cgroup",
        "pid_namespace",
        "pgid_lock",
        "subreaper",
        "process_group",
    ]
    .iter()
    .enumerate()
    {
        place.configure(&format!("[containment]\nprefer = \"{containment}\"\n"));
        if place.run(&["run", "--", "true"]).status.code() != Some(0) {
            // Not to be had on this machine.
            continue;
        }
        let sleeper = format!("sleep 60.{}{number}", std::process::id());
        let command = format!("{sleeper} >/dev/null 2>&1 & exit 0");
        assert_eq!(place.run(&["run", "-c", &command]).status.code(), Some(0));
        assert_eq!(find(&sleeper), None, "{containment}");
        let (output, report) = place.reported(&["--keep", "-c", &command]);
        assert_eq!(output.status.code(), Some(0), "{containment}");
        assert_eq!(report["outcome"]["quiescent_reason"], "kept", "{report}");
        // Whoever would end it is gone a moment after the program.
        let pid = find(&sleeper).expect("a process that was kept");
        until(|| guard_of(pid).is_none().then_some(()));
        assert_eq!(find(&sleeper), Some(pid), "{containment}");
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a pid");
        rustix::process::kill_process(pid, Signal::KILL).expect("it is ours");
    }
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
