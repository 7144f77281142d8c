//! What holds for one session, after the policy decided.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What happens to processes that are left after the leader's exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftovers {
    /// They are killed.
    #[default]
    Sweep,
    /// They live on, listed with the session, until it is stopped.
    Keep,
}

impl Leftovers {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Keep => "keep",
        }
    }
}

/// What the log keeps when it reaches its cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogMode {
    /// The head for ever, and a rolling tail.
    #[default]
    Rolling,
    /// The head alone.
    KeepHead,
    /// There is no log.
    Off,
}

/// The limits that hold, as the session needs them; the record of how they came about is the policy's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveLimits {
    /// From the spawn to the wall time-out.
    pub wall_time: Option<Duration>,
    /// From the last output to the idle time-out.
    pub idle_time: Option<Duration>,
    /// From TERM to KILL.
    pub grace: Duration,
    /// For how long output is read on after the leader's exit while somebody holds it open.
    pub drain_grace: Duration,
    /// For how long a foreground start waits for the end.
    pub yield_time: Duration,
    /// Text that one answer returns, in bytes.
    pub output_budget_bytes: u64,
    /// Memory for each stream's capture, in bytes.
    pub capture_bytes: u64,
    /// Disk that the log takes, in bytes.
    pub log_bytes: u64,
    /// What the log keeps at its cap.
    pub log_mode: LogMode,
    /// The largest single write, in bytes.
    pub write_bytes: u64,
    /// What happens to leftovers.
    pub leftovers: Leftovers,
    /// For how long an ended session can be read.
    pub retention: Duration,
}

impl Default for EffectiveLimits {
    /// The defaults of the table in [`crate::field`].
    fn default() -> Self {
        Self {
            wall_time: Some(Duration::from_secs(600)),
            idle_time: None,
            grace: Duration::from_secs(2),
            drain_grace: Duration::from_secs(1),
            yield_time: Duration::from_secs(10),
            output_budget_bytes: 32 << 10,
            capture_bytes: 1 << 20,
            log_bytes: 32 << 20,
            log_mode: LogMode::Rolling,
            write_bytes: 64 << 20,
            leftovers: Leftovers::Sweep,
            retention: Duration::from_secs(300),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, time::whole_millis};

    #[test]
    fn the_defaults_are_those_of_the_table() {
        let limits = EffectiveLimits::default();
        let table = |field: Field| field.spec().default.value().and_then(|value| value.as_number());
        assert_eq!(table(Field::WallTime), limits.wall_time.map(whole_millis));
        assert_eq!(table(Field::IdleTime), limits.idle_time.map(whole_millis));
        assert_eq!(table(Field::Grace), Some(whole_millis(limits.grace)));
        assert_eq!(table(Field::DrainGrace), Some(whole_millis(limits.drain_grace)));
        assert_eq!(table(Field::YieldTime), Some(whole_millis(limits.yield_time)));
        assert_eq!(table(Field::OutputBudget), Some(limits.output_budget_bytes));
        assert_eq!(table(Field::Capture), Some(limits.capture_bytes));
        assert_eq!(table(Field::LogBytes), Some(limits.log_bytes));
        assert_eq!(table(Field::WriteBytes), Some(limits.write_bytes));
        assert_eq!(table(Field::Retention), Some(whole_millis(limits.retention)));
    }
}
