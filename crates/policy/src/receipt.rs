//! What was observed of a session's limits, and which of them struck.

use std::time::Duration;

use procession_core::{
    Cause, Containment, Field, Moment, Outcome, Status, Value,
    outcome::{LadderAction, LadderStep, UsageScope},
    time::whole_millis,
};
use serde::{Deserialize, Serialize};

use crate::decision::Decision;

/// `SIGXCPU` on every Linux: the processor time is over.
const CPU_TIME_OVER: i32 = 24;
/// `SIGXFSZ` on every Linux: the file is as large as it may be.
const FILE_SIZE_OVER: i32 = 25;

/// What was observed besides the outcome; what was not observed is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    /// Disk that the log takes, in bytes, all of its files together.
    pub log_bytes: Option<u64>,
    /// The largest write of input, in bytes.
    pub largest_write_bytes: Option<u64>,
    /// By what means the tree was held in the end.
    pub containment: Option<Containment>,
    /// The most memory of the whole tree, in bytes, as a control group counted it.
    pub tree_peak_memory_bytes: Option<u64>,
    /// The most processes of the whole tree, as a control group counted them.
    pub tree_peak_processes: Option<u64>,
    /// A limit whose own counters tell that it struck.
    pub struck: Option<Struck>,
}

/// What was observed of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The field.
    pub field: Field,
    /// The value, in the field's unit.
    pub value: Value,
}

/// A limit that struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Struck {
    /// The limit.
    pub field: Field,
    /// When, in milliseconds since the spawn.
    pub at_ms: u64,
}

/// What was observed of a session's limits by its end.
///
/// It stands beside the [`Decision`], which it does not repeat: [`crate::EndRecord`] and [`crate::ReceiptView`] hold
/// both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Receipt {
    /// What was observed, in the order of the table; what was not observed is not in it.
    pub observed: Vec<Observed>,
    /// The limit that struck; none when none did, or when it cannot be told.
    pub struck: Option<Struck>,
    /// Output that was read, in bytes, all streams together.
    pub output_bytes: u64,
    /// The most memory, in bytes, of the whole tree where `tree_memory_bytes` was observed, else of one process; none
    /// where the system did not tell.
    pub peak_memory_bytes: Option<u64>,
}

impl Receipt {
    /// Sums up what was observed.
    ///
    /// | field | what is observed |
    /// | --- | --- |
    /// | `wall_time_ms` | from the spawn to the leader's exit, or to the end of the record where that was not seen |
    /// | `idle_time_ms` | the longest time without output |
    /// | `grace_ms` | from asking to terminate to the first kill, or to the exit |
    /// | `drain_grace_ms` | from the leader's exit to the end of its output |
    /// | `log_bytes` | disk that the log takes |
    /// | `write_bytes` | the largest write |
    /// | `containment` | the means in the end |
    /// | `cpu_time_ms` | processor time of whom the outcome's usage covers |
    /// | `tree_memory_bytes`, `tree_processes` | the most that a control group counted |
    ///
    /// A limit struck when a timer of ours was the cause, when the observation says so, or when `SIGXCPU` or `SIGXFSZ`
    /// ended a leader for which that limit held; it is never guessed from a kill.
    #[must_use]
    pub fn new(decision: &Decision, outcome: &Outcome, observation: &Observation) -> Self {
        let observed = Field::ALL
            .iter()
            .filter_map(|field| {
                observe(*field, outcome, observation).map(|value| Observed { field: *field, value })
            })
            .collect();
        Self {
            observed,
            struck: observation.struck.or_else(|| struck(decision, outcome)),
            output_bytes: outcome.output_bytes,
            peak_memory_bytes: outcome.usage.and_then(|usage| usage.peak_memory_bytes),
        }
    }

    /// What was observed of a field; none when nothing was.
    #[must_use]
    pub fn observed_of(&self, field: Field) -> Option<&Value> {
        self.observed
            .iter()
            .find(|observed| observed.field == field)
            .map(|observed| &observed.value)
    }
}

fn observe(field: Field, outcome: &Outcome, observation: &Observation) -> Option<Value> {
    let exited = outcome.exited_at;
    let millis = |duration: Duration| Value::Number(whole_millis(duration));
    let between = |from: Option<Moment>, to: Option<Moment>| Some(millis(to?.saturating_since(from?)));
    match field {
        Field::WallTime => between(outcome.spawned_at, exited.or(Some(outcome.ended_at))),
        Field::IdleTime => outcome.spawned_at.map(|_| millis(outcome.largest_idle_gap)),
        Field::Grace => {
            let asked = step(outcome, LadderAction::Terminate)?.at;
            let killed = step(outcome, LadderAction::Kill).map(|step| step.at);
            let over = killed.into_iter().chain(exited).min().unwrap_or(outcome.ended_at);
            between(Some(asked), Some(over))
        }
        Field::DrainGrace => between(exited, outcome.closed_at),
        Field::LogBytes => observation.log_bytes.map(Value::Number),
        Field::WriteBytes => observation.largest_write_bytes.map(Value::Number),
        Field::Containment => observation
            .containment
            .map(|containment| Value::from(containment.mechanism.as_str())),
        Field::CpuTime => outcome
            .usage
            .map(|usage| millis(usage.user_time.saturating_add(usage.system_time))),
        Field::TreeMemory => observation
            .tree_peak_memory_bytes
            .or_else(|| tree_memory(outcome))
            .map(Value::Number),
        Field::TreeProcesses => observation.tree_peak_processes.map(Value::Number),
        _ => None,
    }
}

fn tree_memory(outcome: &Outcome) -> Option<u64> {
    let usage = outcome
        .usage
        .filter(|usage| usage.peak_memory_covers == UsageScope::Tree);
    usage.and_then(|usage| usage.peak_memory_bytes)
}

fn struck(decision: &Decision, outcome: &Outcome) -> Option<Struck> {
    let since_spawn =
        |at: Moment| whole_millis(at.saturating_since(outcome.spawned_at.unwrap_or(Moment::ZERO)));
    let by_timer = match outcome.cause {
        Cause::WallTimeout => Some(Field::WallTime),
        Cause::IdleTimeout => Some(Field::IdleTime),
        _ => None,
    };
    if let Some(field) = by_timer {
        // The first rung was climbed when the timer fired.
        let at = outcome.ladder.first().map_or(outcome.ended_at, |step| step.at);
        return Some(Struck {
            field,
            at_ms: since_spawn(at),
        });
    }
    let field = match &outcome.status {
        Status::Signaled { signal, .. } if signal.number() == CPU_TIME_OVER => Field::CpuTime,
        Status::Signaled { signal, .. } if signal.number() == FILE_SIZE_OVER => Field::FileSize,
        _ => return None,
    };
    // Without a limit in force the signal was somebody's.
    decision.effective(field)?;
    Some(Struck {
        field,
        at_ms: since_spawn(outcome.exited_at.unwrap_or(outcome.ended_at)),
    })
}

fn step(outcome: &Outcome, action: LadderAction) -> Option<&LadderStep> {
    outcome.ladder.iter().find(|step| step.action == action)
}

#[cfg(test)]
mod tests {
    use procession_core::{
        Signal, WallTime,
        outcome::{StepEffect, UnknownStatus, Usage},
    };

    use super::*;
    use crate::{
        HostPolicy, decide,
        samples::{capabilities, outcome, request},
    };

    fn decision() -> Decision {
        decide(
            &request([(Field::CpuTime, Value::Number(1_000))]),
            &HostPolicy::default(),
            &capabilities(),
        )
    }

    fn observed(receipt: &Receipt) -> Vec<(&'static str, String)> {
        receipt
            .observed
            .iter()
            .map(|observed| (observed.field.name(), observed.value.to_string()))
            .collect()
    }

    #[test]
    fn what_was_observed_stands_with_its_field() {
        let observation = Observation {
            log_bytes: Some(5_000),
            containment: Some(Containment::PROCESS_GROUP),
            ..Observation::default()
        };
        let receipt = Receipt::new(&decision(), &outcome(), &observation);
        let expected = [
            ("wall_time_ms", "5250"),
            ("idle_time_ms", "1500"),
            ("grace_ms", "250"),
            ("drain_grace_ms", "50"),
            ("log_bytes", "5000"),
            ("containment", "process_group"),
            ("cpu_time_ms", "150"),
        ];
        assert_eq!(
            observed(&receipt),
            expected.map(|(field, value)| (field, value.to_owned()))
        );
        assert_eq!(
            receipt.struck,
            Some(Struck {
                field: Field::WallTime,
                at_ms: 5_000
            })
        );
        assert_eq!(receipt.output_bytes, 4_096);
        assert_eq!(receipt.peak_memory_bytes, Some(2 << 20));
        assert_eq!(receipt.observed_of(Field::Grace), Some(&Value::Number(250)));
        assert_eq!(receipt.observed_of(Field::Nice), None);
    }

    #[test]
    fn the_memory_of_a_tree_is_that_fields_and_the_memory_of_a_leader_is_not() {
        for (covers, expected) in [
            (UsageScope::Leader, None),
            (UsageScope::Tree, Some(Value::Number(2 << 20))),
        ] {
            let mut outcome = outcome();
            outcome.usage = outcome.usage.map(|usage| Usage {
                peak_memory_covers: covers,
                ..usage
            });
            let receipt = Receipt::new(&decision(), &outcome, &Observation::default());
            assert_eq!(receipt.observed_of(Field::TreeMemory), expected.as_ref());
            assert_eq!(receipt.peak_memory_bytes, Some(2 << 20));
        }
    }

    #[test]
    fn of_a_session_that_never_ran_nothing_is_observed() {
        let lost = Outcome::lost(Moment::from_millis(9), WallTime::from_unix_millis(9), None);
        let receipt = Receipt::new(&decision(), &lost, &Observation::default());
        assert_eq!(receipt, Receipt::default());
    }

    #[test]
    fn the_grace_is_used_up_to_the_kill() {
        let kill = LadderStep {
            action: LadderAction::Kill,
            at: Moment::from_millis(6_100),
            effect: StepEffect::Delivered,
        };
        let mut outcome = outcome();
        outcome.ladder.push(kill);
        let receipt = Receipt::new(&decision(), &outcome, &Observation::default());
        assert_eq!(receipt.observed_of(Field::Grace), Some(&Value::Number(100)));
    }

    #[test]
    fn what_struck_is_told_and_never_guessed() {
        let signaled = |number: i32| Status::Signaled {
            signal: Signal::from_number(number).unwrap(),
            core_dumped: false,
        };
        let check = |cause: Cause, status: Status, expected: Option<(Field, u64)>| {
            let outcome = Outcome {
                cause,
                status: status.clone(),
                ..outcome()
            };
            let receipt = Receipt::new(&decision(), &outcome, &Observation::default());
            let found = receipt.struck.map(|struck| (struck.field, struck.at_ms));
            assert_eq!(found, expected, "{cause:?} {status:?}");
        };
        check(
            Cause::WallTimeout,
            Status::Exited { code: 0 },
            Some((Field::WallTime, 5_000)),
        );
        check(Cause::IdleTimeout, signaled(9), Some((Field::IdleTime, 5_000)));
        check(Cause::Exit, Status::Exited { code: 137 }, None);
        check(Cause::Exit, signaled(9), None);
        check(Cause::Exit, signaled(24), Some((Field::CpuTime, 5_250)));
        // No limit on the size of files holds.
        check(Cause::Exit, signaled(25), None);
        check(
            Cause::Lost,
            Status::Unknown {
                reason: UnknownStatus::NotSeen,
            },
            None,
        );
    }

    #[test]
    fn what_a_counter_tells_goes_before_what_a_signal_says() {
        let told = Struck {
            field: Field::TreeMemory,
            at_ms: 7,
        };
        let observation = Observation {
            struck: Some(told),
            tree_peak_memory_bytes: Some(1 << 20),
            ..Observation::default()
        };
        let receipt = Receipt::new(&decision(), &outcome(), &observation);
        assert_eq!(receipt.struck, Some(told));
        assert_eq!(
            receipt.observed_of(Field::TreeMemory),
            Some(&Value::Number(1 << 20))
        );
    }
}
