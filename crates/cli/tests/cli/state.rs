use std::{fs, path::PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Place, mode, text, until};

fn sessions(place: &Place) -> Vec<Value> {
    let output = place.run(&["sessions", "--json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    listed["sessions"].as_array().expect("a list").clone()
}

fn log_of(report: &Value) -> PathBuf {
    report["log"]["path"].as_str().expect("a path").into()
}

#[test]
fn everything_below_the_state_directory_is_private() {
    fn check(path: &std::path::Path) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), expected, "{}", path.display());
        if path.is_dir() {
            fs::read_dir(path)
                .expect("ours")
                .for_each(|entry| check(&entry.expect("ours").path()));
        }
    }
    let place = Place::new();
    let (_, report) = place.reported(&["--", "echo", "kept"]);
    assert!(log_of(&report).starts_with(place.state()));
    check(&place.state());
}

#[test]
fn a_failed_start_leaves_nothing() {
    let place = Place::new();
    place.run(&["run", "--", "nosuchcmd_xyz"]);
    assert_eq!(
        fs::read_dir(place.state().join("hosts")).expect("made").count(),
        0
    );
}

#[test]
fn without_a_state_directory_sessions_run_and_say_why_they_have_no_log() {
    let place = Place::new();
    fs::write(place.path("state"), "in the way").expect("a file");
    let (output, report) = place.reported(&["--", "echo", "hi"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(0), "hi\n")
    );
    assert_eq!(output.stderr, b"");
    assert_eq!(report["log"]["complete"], false);
    assert!(report["log"]["reason"].is_string(), "{report}");
}

#[test]
fn a_session_is_listed_while_it_runs_and_after() {
    let place = Place::new();
    let mut running = place.start(&["run", "-c", "echo up; cat"]);
    assert_eq!(running.line(), "up\n");
    // The record of the start is written beside the session.
    let listed = until(|| sessions(&place).into_iter().next());
    assert_eq!(
        (&listed["state"], &listed["host"]),
        (&"running".into(), &"alive".into())
    );
    running.close_input();
    assert_eq!(running.code(), Some(0));
    let ended = &sessions(&place)[0];
    assert_eq!(
        (&ended["state"], &ended["session_id"]),
        (&"ended".into(), &listed["session_id"])
    );
    assert_eq!(ended["outcome"]["status"]["code"], 0);
    let table = text(&place.run(&["sessions"]).stdout);
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("SESSION ") && lines[0].ends_with(" LOG"),
        "{table}"
    );
    assert!(
        lines[1].starts_with("ps_") && lines[1].contains("exit, exited 0"),
        "{table}"
    );
}

#[test]
fn a_session_whose_host_was_killed_is_called_lost() {
    let place = Place::new();
    let mut running = place.start(&["run", "-c", "echo up; cat"]);
    assert_eq!(running.line(), "up\n");
    until(|| sessions(&place).into_iter().next());
    running.signal(Signal::KILL);
    assert_eq!(running.code(), None);
    // Its input is closed, so the command ends by itself.
    running.close_input();
    let lost = &sessions(&place)[0];
    assert_eq!(
        (
            &lost["state"],
            &lost["outcome"]["cause"],
            &lost["outcome"]["status"]["kind"],
            &lost["outcome"]["output_complete"]
        ),
        (&"lost".into(), &"lost".into(), &"unknown".into(), &false.into())
    );
    let table = text(&place.run(&["sessions"]).stdout);
    assert!(table.contains("lost, unknown: host_died"), "{table}");
}

#[test]
fn a_log_is_found_by_the_id_of_its_session() {
    let place = Place::new();
    let (_, report) = place.reported(&["--", "echo", "found"]);
    let session = report["session_id"].as_str().expect("an id");
    assert_eq!(text(&place.run(&["log", session]).stdout), "found\n");
    let unknown = place.run(&["log", "ps_0000000000000000"]);
    assert_eq!(unknown.status.code(), Some(125));
    assert!(text(&unknown.stderr).contains("ps_0000000000000000"));
}

#[test]
fn completions_and_manual_need_no_configuration() {
    let place = Place::new();
    place.configure("this is no configuration");
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&place.run(&["completions", shell]).stdout);
        assert!(
            script.contains("procession") && script.contains("idle-timeout"),
            "{shell}"
        );
    }
    let page = text(&place.run(&["man", "run"]).stdout);
    assert!(
        page.contains("procession\\-run") || page.contains("procession-run"),
        "{page}"
    );
    assert_eq!(place.run(&["man", "nothing"]).status.code(), Some(125));
}

#[test]
fn a_damaged_log_is_listed_as_such() {
    let place = Place::new();
    let (_, report) = place.reported(&["--", "true"]);
    fs::write(log_of(&report).join("header"), "nonsense").expect("ours");
    assert_eq!(sessions(&place)[0]["state"], "damaged");
}

#[test]
fn logs_of_dead_hosts_are_swept_at_the_next_start() {
    let place = Place::new();
    let (_, report) = place.reported(&["--", "echo", "lasting"]);
    let lasting = log_of(&report);
    place.configure("[host]\nretention_ms = 0\n");
    assert_eq!(text(&place.run(&["run", "--", "echo", "old"]).stdout), "old\n");
    let mut running = place.start(&["run", "-c", "echo up; cat"]);
    assert_eq!(running.line(), "up\n");
    let ended = || {
        sessions(&place)
            .iter()
            .filter(|session| session["state"] == "ended")
            .count()
    };
    until(|| (ended() == 1).then_some(()));
    assert!(
        lasting.exists(),
        "each log stays as long as its own session was to be readable"
    );
}

#[test]
fn a_log_can_be_read_searched_and_verified_from_its_files() {
    let place = Place::new();
    let (_, report) = place.reported(&["-c", "echo first; echo second error; printf last"]);
    let log = log_of(&report);
    let log = log.to_str().expect("text");
    assert_eq!(
        text(&place.run(&["log", log]).stdout),
        "first\nsecond error\nlast"
    );
    assert_eq!(
        text(&place.run(&["log", log, "--offset", "6", "--limit", "6"]).stdout),
        "second"
    );
    assert_eq!(place.run(&["log", log, "--stream", "stderr"]).stdout, b"");
    assert_eq!(
        text(&place.run(&["log", log, "--follow"]).stdout),
        "first\nsecond error\nlast"
    );
    let found = place.run(&["log", log, "--search", "err.r"]);
    assert_eq!(
        (text(&found.stdout).as_str(), found.status.code()),
        ("13:stdout:second error\n", Some(0))
    );
    assert_eq!(
        place.run(&["log", log, "--search", "nothing"]).status.code(),
        Some(1)
    );
    let page: Value = serde_json::from_slice(&place.run(&["log", log, "--json"]).stdout).expect("one page");
    assert_eq!(page["total_bytes"], 23);
    let verified = place.run(&["log", log, "--verify"]);
    assert_eq!(
        (text(&verified.stdout).lines().next(), verified.status.code()),
        (Some("clean"), Some(0))
    );
    assert_eq!(place.run(&["log", "/nonexistent"]).status.code(), Some(125));
}

#[test]
fn a_log_is_followed_to_the_end_of_its_session() {
    let place = Place::new();
    let mut running = place.start(&["run", "-c", "echo up; cat"]);
    assert_eq!(running.line(), "up\n");
    let log = until(|| sessions(&place).into_iter().next())["log"]["path"]
        .as_str()
        .expect("a path")
        .to_owned();
    let mut follower = place.start(&["log", &log, "--follow"]);
    assert_eq!(follower.line(), "up\n");
    running.write("more\n");
    assert_eq!(follower.line(), "more\n");
    running.close_input();
    assert_eq!(running.code(), Some(0));
    assert_eq!(follower.line(), "");
    assert_eq!(follower.code(), Some(0));
}
