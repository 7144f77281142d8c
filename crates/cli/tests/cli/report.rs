use crate::support::{Place, mode, text};

#[test]
fn a_report_holds_outcome_decisions_receipt_and_log() {
    let place = Place::new();
    let (output, report) = place.reported(&["--timeout", "9s", "-c", "echo out; exit 3"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(3), "out\n")
    );
    assert_eq!(output.stderr, b"");
    assert_eq!(report["outcome"]["cause"], "exit");
    assert_eq!(report["outcome"]["status"]["kind"], "exited");
    assert_eq!(report["outcome"]["status"]["code"], 3);
    assert!(
        report["session_id"]
            .as_str()
            .is_some_and(|id| id.starts_with("ps_"))
    );
    assert!(report["receipt"].is_object());
    assert_eq!(report["log"]["total_bytes"], 4);
    let wall = report["decisions"]
        .as_array()
        .and_then(|fields| fields.iter().find(|field| field["field"] == "wall_time_ms"));
    let wall = wall.expect("all fields are there");
    assert_eq!(
        (&wall["requested"], &wall["effective"]),
        (&9000.into(), &9000.into())
    );
    assert_eq!(mode(&place.path("report.json")), 0o600);
}

#[test]
fn a_report_on_standard_error_comes_behind_the_output() {
    let output = Place::new().run(&["run", "--report", "-", "-c", "echo err >&2; kill -9 $$"]);
    let told = text(&output.stderr);
    let report = told.strip_prefix("err\n").expect("the output comes first");
    let report: serde_json::Value = serde_json::from_str(report).expect("nothing but JSON behind it");
    assert_eq!(report["outcome"]["status"]["kind"], "signaled");
    assert_eq!(report["outcome"]["status"]["signal"], 9);
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn a_start_that_fails_is_reported_with_its_reason() {
    let place = Place::new();
    let (output, report) = place.reported(&["--", "nosuchcmd_xyz"]);
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(report["error"]["code"], "failed_to_start");
    assert_eq!(report["error"]["kind"], "not_found");
    assert!(report["outcome"].is_null());
    let (_, report) = place.reported(&["--cwd", "/nonexistent", "--", "true"]);
    assert_eq!(
        (&report["error"]["field"], &report["error"]["kind"]),
        (&"cwd".into(), &"not_found".into())
    );
}

#[test]
fn a_refusal_is_reported_and_explained_with_its_field() {
    let place = Place::new();
    place.configure("[ceilings]\nwall_time_ms = 1000\n[on_excess]\nwall_time_ms = \"refuse\"\n");
    let (output, report) = place.reported(&["--explain", "--timeout", "2s", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        (&report["error"]["code"], &report["error"]["field"]),
        (&"refused".into(), &"wall_time_ms".into())
    );
    let decisions = report["decisions"].as_array().expect("a refusal is a decision");
    assert!(
        decisions
            .iter()
            .any(|field| field["field"] == "wall_time_ms" && field["status"] == "refused")
    );
    assert!(
        text(&output.stderr)
            .lines()
            .any(|line| line.starts_with("wall_time_ms") && line.contains("refused"))
    );
}

#[test]
fn a_limit_that_is_clamped_is_on_record() {
    let place = Place::new();
    place.configure("[ceilings]\nwall_time_ms = 7000\n");
    let (output, report) = place.reported(&["--timeout", "99999999999999999d", "--", "true"]);
    assert_eq!(output.status.code(), Some(0));
    let wall = report["decisions"]
        .as_array()
        .and_then(|fields| fields.iter().find(|field| field["field"] == "wall_time_ms"));
    let wall = wall.expect("all fields are there");
    assert_eq!(
        (&wall["effective"], &wall["status"]),
        (&7000.into(), &"clamped".into())
    );
}
