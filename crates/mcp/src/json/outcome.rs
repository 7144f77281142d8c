//! The record of a session's end.

use procession_core::{
    Moment, Outcome, Status,
    outcome::{Fact, LadderStep, Usage},
    time::whole_millis,
};
use serde_json::{Value, json};

use super::rfc3339;

/// The record of a session's end.
///
/// | name | is |
/// | --- | --- |
/// | `cause` | why it ended: `exit`, `stop`, `wall_timeout`, … |
/// | `status` | how its leader ended, see [`status_value`] |
/// | `observed_by` | by what the exit was seen, `nobody` where it was not |
/// | `output_complete`, `incomplete_reason` | whether all output was read, and why not |
/// | `swept_pids`, `residual_pids` | leftovers that were killed, and processes that are left |
/// | `exited_at_ms`, `closed_at_ms`, `quiescent_at_ms` | leader gone, output over, tree empty; `quiescent_reason` where the last is `null` |
/// | `ended_at_ms`, `ended_at`, `ended_at_unix_ms` | when the record was made |
/// | `ladder` | what was done to end it: `action`, `at_ms`, `effect` |
/// | `output_bytes`, `largest_idle_gap_ms` | what it wrote, and the longest time in which it did not |
/// | `usage` | what it used, `null` where the system does not tell; `cpu_covers` and `peak_memory_covers` are `leader` (and those that were waited for) or `tree` |
#[must_use]
pub fn outcome_value(outcome: &Outcome) -> Value {
    let since_spawn = |at: Moment| at_ms(outcome.spawned_at, at);
    let mut value = json!({
        "cause": outcome.cause.as_str(),
        "status": status_value(&outcome.status),
        "observed_by": outcome.observed_by.map_or("nobody", procession_core::outcome::ObservedBy::as_str),
        "output_complete": outcome.incomplete_output.is_none(),
        "incomplete_reason": outcome.incomplete_output.map(procession_core::outcome::IncompleteOutput::as_str),
        "swept_pids": outcome.swept_pids,
        "residual_pids": outcome.residual_pids,
        "exited_at_ms": outcome.exited_at.map(since_spawn),
        "closed_at_ms": outcome.closed_at.map(since_spawn),
        "quiescent_at_ms": outcome.quiescent.at().map(since_spawn),
        "ended_at_ms": since_spawn(outcome.ended_at),
        "ended_at": rfc3339(outcome.ended_wall),
        "ended_at_unix_ms": outcome.ended_wall.unix_millis(),
        "ladder": outcome.ladder.iter().map(|step| step_value(outcome.spawned_at, step)).collect::<Vec<_>>(),
        "output_bytes": outcome.output_bytes,
        "largest_idle_gap_ms": whole_millis(outcome.largest_idle_gap),
        "usage": outcome.usage.as_ref().map(usage_value),
    });
    if let Fact::Unknown(reason) = outcome.quiescent {
        value["quiescent_reason"] = reason.as_str().into();
    }
    value
}

/// How a leader ended: `kind` is `exited` with `code`, `signaled` with `signal`, `signal_name` (`null` for real-time
/// signals) and `core_dumped`, or `unknown` with `reason`.
#[must_use]
pub fn status_value(status: &Status) -> Value {
    match status {
        Status::Exited { code } => json!({ "kind": "exited", "code": code }),
        Status::Signaled { signal, core_dumped } => json!({
            "kind": "signaled", "signal": signal.number(), "signal_name": signal.name(), "core_dumped": core_dumped,
        }),
        Status::Unknown { reason } => json!({ "kind": "unknown", "reason": reason.to_string() }),
    }
}

/// Milliseconds since the spawn; `null` for a process that never was.
fn at_ms(spawned_at: Option<Moment>, at: Moment) -> Option<u64> {
    spawned_at.map(|spawned| whole_millis(at.saturating_since(spawned)))
}

fn step_value(spawned_at: Option<Moment>, step: &LadderStep) -> Value {
    json!({
        "action": step.action.as_str(),
        "at_ms": at_ms(spawned_at, step.at),
        "effect": step.effect.as_str(),
    })
}

fn usage_value(usage: &Usage) -> Value {
    json!({
        "user_ms": whole_millis(usage.user_time),
        "system_ms": whole_millis(usage.system_time),
        "peak_memory_bytes": usage.peak_memory_bytes,
        "minor_faults": usage.minor_faults,
        "major_faults": usage.major_faults,
        "cpu_covers": usage.cpu_covers.as_str(),
        "peak_memory_covers": usage.peak_memory_bytes.map(|_| usage.peak_memory_covers.as_str()),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use procession_core::{
        Cause, Signal, WallTime,
        outcome::{LadderAction, ObservedBy, StepEffect, UnknownFact, UnknownStatus},
    };

    use super::*;

    /// A session that was stopped, spawned 5 s after the start of its system.
    pub(crate) fn stopped() -> Outcome {
        let at = |millis: u64| Moment::from_millis(5_000 + millis);
        Outcome {
            cause: Cause::Stop,
            status: Status::Signaled {
                signal: Signal::TERM,
                core_dumped: false,
            },
            observed_by: Some(ObservedBy::Pidfd),
            spawned_at: Some(at(0)),
            exited_at: Some(at(103)),
            closed_at: Some(at(104)),
            quiescent: Fact::At(at(105)),
            ended_at: at(106),
            ended_wall: WallTime::from_unix_millis(1_704_067_199_000),
            ladder: vec![LadderStep {
                action: LadderAction::Terminate,
                at: at(100),
                effect: StepEffect::Delivered,
            }],
            swept_pids: vec![12],
            residual_pids: Vec::new(),
            incomplete_output: None,
            output_bytes: 4,
            largest_idle_gap: Duration::from_millis(99),
            usage: Some(Usage {
                user_time: Duration::from_micros(1500),
                ..Usage::default()
            }),
        }
    }

    #[test]
    fn times_count_from_the_spawn() {
        assert_eq!(
            outcome_value(&stopped()),
            json!({
                "cause": "stop",
                "status": { "kind": "signaled", "signal": 15, "signal_name": "SIGTERM", "core_dumped": false },
                "observed_by": "pidfd",
                "output_complete": true, "incomplete_reason": null,
                "swept_pids": [12], "residual_pids": [],
                "exited_at_ms": 103, "closed_at_ms": 104, "quiescent_at_ms": 105, "ended_at_ms": 106,
                "ended_at": "2023-12-31T23:59:59.000Z", "ended_at_unix_ms": 1_704_067_199_000_u64,
                "ladder": [{ "action": "terminate", "at_ms": 100, "effect": "delivered" }],
                "output_bytes": 4, "largest_idle_gap_ms": 99,
                "usage": {
                    "user_ms": 1, "system_ms": 0, "peak_memory_bytes": null, "minor_faults": 0, "major_faults": 0,
                    "cpu_covers": "leader", "peak_memory_covers": null,
                },
            })
        );
    }

    #[test]
    fn what_is_not_known_is_null_with_its_reason() {
        let mut outcome = Outcome::lost(Moment::from_millis(7), WallTime::default(), None);
        outcome.quiescent = Fact::Unknown(UnknownFact::PartialSight);
        let value = outcome_value(&outcome);
        assert_eq!(value["quiescent_at_ms"], Value::Null);
        assert_eq!(value["quiescent_reason"], "partial_sight");
        assert_eq!(value["ended_at_ms"], Value::Null);
        assert_eq!(value["incomplete_reason"], "supervisor_died");
        assert_eq!(
            value["status"],
            json!({ "kind": "unknown", "reason": "supervisor_died" })
        );
        assert_eq!(value["observed_by"], "nobody");
    }

    #[test]
    fn code_and_signal_are_never_one_number() {
        let check = |status: Status, expected: Value| assert_eq!(status_value(&status), expected);
        check(
            Status::Exited { code: 137 },
            json!({ "kind": "exited", "code": 137 }),
        );
        check(
            Status::Signaled {
                signal: Signal::from_number(40).expect("in range"),
                core_dumped: true,
            },
            json!({ "kind": "signaled", "signal": 40, "signal_name": null, "core_dumped": true }),
        );
        check(
            Status::Unknown {
                reason: UnknownStatus::ObservationFailed { errno: 10 },
            },
            json!({ "kind": "unknown", "reason": "observation_failed (os error 10)" }),
        );
    }
}
