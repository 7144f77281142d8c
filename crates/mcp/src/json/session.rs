//! Sessions: what a poll, a list and an inspection tell.

use procession_actors::report::{Inspection, PollReport, SessionSummary};
use procession_core::{Containment, Phase, Value as FieldValue, time::whole_millis};
use procession_policy::{ContainmentView, Decision, DecisionsView, NotableView, Receipt, ReceiptView};
use serde::Serialize;
use serde_json::{Value, json};

use super::{log_value, outcome_value, screen::screen_value};

/// The word for a phase; a session that is only being started counts as running.
#[must_use]
pub const fn phase_str(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => Phase::Running.as_str(),
        phase => phase.as_str(),
    }
}

/// What a poll tells: `session_id`, `phase`, `pid`, `outcome`, `residual_pids`, `stdout`, `stderr`, `cursor`,
/// `omitted_bytes`, `omitted` (by stream), `log`; `screen` where it was asked for.
#[must_use]
pub fn poll_value(report: &PollReport) -> Value {
    let omitted: Vec<_> = report
        .omitted
        .iter()
        .map(|omission| {
            json!({ "stream": omission.stream.as_str(), "from": omission.from, "bytes": omission.bytes() })
        })
        .collect();
    let mut value = json!({
        "session_id": report.session.to_string(),
        "phase": phase_str(report.phase),
        "pid": report.pid,
        "outcome": report.outcome.as_ref().map(outcome_value),
        "residual_pids": report.residual_pids,
        "stdout": report.stdout,
        "stderr": report.stderr,
        "cursor": report.cursor.to_string(),
        "omitted_bytes": report.omitted_bytes(),
        "omitted": omitted,
        "log": log_value(&report.log),
    });
    if let Some(screen) = &report.screen {
        value["screen"] = screen_value(screen);
    }
    value
}

/// A session in a list: `session_id`, `label`, `phase`, `outcome`, `age_ms`, `idle_ms`, `unread_bytes`.
#[must_use]
pub fn summary_value(summary: &SessionSummary) -> Value {
    json!({
        "session_id": summary.session.to_string(),
        "label": summary.label,
        "phase": phase_str(summary.phase),
        "outcome": summary.outcome.as_ref().map(outcome_value),
        "age_ms": whole_millis(summary.age),
        "idle_ms": whole_millis(summary.idle),
        "unread_bytes": summary.unread_bytes,
    })
}

/// All that is known of a session: what [`report_value`] tells, and `label`, `phase`, `pid`, `containment`,
/// `environment_names`, `residual_pids`, `output_bytes` by stream, `redactions`.
#[must_use]
pub fn inspection_value(inspection: &Inspection) -> Value {
    let mut value = report_value(inspection);
    let more = [
        ("label", json!(inspection.label)),
        ("phase", phase_str(inspection.phase).into()),
        ("pid", json!(inspection.pid)),
        ("containment", containment_value(&inspection.containment)),
        ("environment_names", json!(&*inspection.environment_names)),
        ("residual_pids", json!(inspection.residual_pids)),
        (
            "output_bytes",
            json!({ "stdout": inspection.output_bytes.stdout, "stderr": inspection.output_bytes.stderr }),
        ),
        ("redactions", inspection.redactions.into()),
    ];
    for (key, part) in more {
        value[key] = part;
    }
    value
}

/// The report on a session's end: `session_id`, `outcome`, `decisions` (all), `receipt`, `log`; `outcome` and
/// `receipt` are `null` while it runs.
#[must_use]
pub fn report_value(inspection: &Inspection) -> Value {
    json!({
        "session_id": inspection.session.to_string(),
        "outcome": inspection.outcome.as_ref().map(outcome_value),
        "decisions": decisions_value(&inspection.decision),
        "receipt": inspection.receipt.as_ref().map(|receipt| receipt_value(&inspection.decision, receipt)),
        "log": log_value(&inspection.log),
    })
}

/// The decisions on all fields, in the order of the table.
#[must_use]
pub fn decisions_value(decision: &Decision) -> Value {
    view(&DecisionsView(decision))
}

/// The decisions that are not plain defaults.
#[must_use]
pub fn notable_value(decision: &Decision) -> Value {
    view(&NotableView(decision))
}

/// What was observed of the limits of a session that has ended.
#[must_use]
pub fn receipt_value(decision: &Decision, receipt: &Receipt) -> Value {
    view(&ReceiptView { decision, receipt })
}

/// By what means a tree is held, and what that promises.
#[must_use]
pub fn containment_value(containment: &Containment) -> Value {
    view(&ContainmentView(containment))
}

/// A policy field's value as plain JSON.
#[must_use]
pub fn field_value(value: &FieldValue) -> Value {
    match value {
        FieldValue::Number(number) => json!(number),
        FieldValue::Integer(number) => json!(number),
        FieldValue::Flag(flag) => json!(flag),
        FieldValue::Text(text) => json!(text),
        FieldValue::List(list) => json!(list),
    }
}

/// The views of the policy are made of texts, numbers and lists, which always have a JSON form.
fn view(view: &impl Serialize) -> Value {
    serde_json::to_value(view).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use procession_actors::report::{LogIncomplete, LogSummary};
    use procession_core::{SessionId, StreamId, preview::Omission, text::ReadPosition};

    use super::{super::outcome::tests::stopped, *};

    #[test]
    fn a_poll_tells_everything_under_the_names_of_the_interface() {
        let report = PollReport {
            session: SessionId::from_random([0; 10]),
            phase: Phase::Starting,
            pid: Some(7),
            outcome: None,
            residual_pids: vec![9],
            stdout: "a".to_owned(),
            stderr: String::new(),
            cursor: ReadPosition {
                stdout: 36,
                stderr: 0,
            },
            omitted: vec![Omission {
                stream: StreamId::Stdout,
                from: 1,
                to: 36,
            }],
            screen: None,
            log: LogSummary {
                total_bytes: 36,
                kept_bytes: 30,
                dropped_bytes: 6,
                incomplete: Some(LogIncomplete {
                    from_offset: 30,
                    reason: "no space".to_owned(),
                }),
                path: Some("/state/x".into()),
            },
        };
        assert_eq!(
            poll_value(&report),
            json!({
                "session_id": "ps_0000000000000000", "phase": "running", "pid": 7, "outcome": null,
                "residual_pids": [9], "stdout": "a", "stderr": "", "cursor": "c1.10.0",
                "omitted_bytes": 35, "omitted": [{ "stream": "stdout", "from": 1, "bytes": 35 }],
                "log": {
                    "total_bytes": 36, "kept_bytes": 30, "dropped_bytes": 6, "complete": false,
                    "reason": "no space", "whole_until": 30, "path": "/state/x",
                },
            })
        );
    }

    #[test]
    fn a_session_in_a_list_is_told_in_short() {
        let summary = SessionSummary {
            session: SessionId::from_random([255; 10]),
            label: None,
            phase: Phase::Ended,
            outcome: Some(stopped()),
            age: Duration::from_secs(2),
            idle: Duration::from_micros(1999),
            unread_bytes: 3,
        };
        let value = summary_value(&summary);
        assert_eq!(value["session_id"], "ps_zzzzzzzzzzzzzzzz");
        assert_eq!(value["phase"], "ended");
        assert_eq!(value["outcome"]["cause"], "stop");
        assert_eq!(
            (&value["age_ms"], &value["idle_ms"], &value["unread_bytes"]),
            (&json!(2000), &json!(1), &json!(3))
        );
    }

    #[test]
    fn a_field_keeps_its_type() {
        for (value, expected) in [
            (FieldValue::Number(u64::MAX), json!(u64::MAX)),
            (FieldValue::Integer(-5), json!(-5)),
            (FieldValue::Flag(true), json!(true)),
            (FieldValue::from("24x80"), json!("24x80")),
            (FieldValue::List(vec!["A".to_owned()]), json!(["A"])),
        ] {
            assert_eq!(field_value(&value), expected);
        }
    }
}
