//! What is said about a session's end, and how it is known.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    signal::Signal,
    time::{Moment, WallTime},
};

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It was admitted and has no process yet.
    Starting,
    /// Its leader runs, or has exited while its output is still read.
    Running,
    /// It is being ended.
    Terminating,
    /// Its record is final.
    Ended,
}

impl Phase {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Terminating => "terminating",
            Self::Ended => "ended",
        }
    }
}

/// Why a session ended; decided once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The leader ended by itself, or by somebody else's hand.
    Exit,
    /// It was stopped on request.
    Stop,
    /// The wall time was over.
    WallTimeout,
    /// There was no output for the idle time.
    IdleTimeout,
    /// It wrote more than it may.
    OutputLimit,
    /// Its owner is gone.
    OwnerEnded,
    /// The host shut down.
    HostShutdown,
    /// It never ran.
    FailedToStart,
    /// How it ended could not be observed.
    Lost,
}

impl Cause {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Stop => "stop",
            Self::WallTimeout => "wall_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::OutputLimit => "output_limit",
            Self::OwnerEnded => "owner_ended",
            Self::HostShutdown => "host_shutdown",
            Self::FailedToStart => "failed_to_start",
            Self::Lost => "lost",
        }
    }

    /// Whether time running out was the cause.
    #[must_use]
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::WallTimeout | Self::IdleTimeout)
    }
}

/// How the leader ended: code and signal are never one number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It exited.
    Exited {
        /// With this code.
        code: i32,
    },
    /// A signal ended it.
    Signaled {
        /// Which.
        signal: Signal,
        /// Whether it left a core file.
        core_dumped: bool,
    },
    /// It is not known how it ended.
    Unknown {
        /// Why not.
        reason: UnknownStatus,
    },
}

/// Why a status is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum UnknownStatus {
    /// There was no process.
    NeverRan,
    /// The end was told before the leader was gone.
    NotSeen,
    /// Somebody else in this program, or the system, took the status first.
    TakenElsewhere,
    /// The observation failed with this error number of the system.
    ObservationFailed {
        /// The error number.
        errno: i32,
    },
    /// The actor that watched the session died; its processes were killed.
    SupervisorDied,
}

impl fmt::Display for UnknownStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverRan => f.write_str("never_ran"),
            Self::NotSeen => f.write_str("not_seen"),
            Self::TakenElsewhere => f.write_str("taken_elsewhere"),
            Self::ObservationFailed { errno } => write!(f, "observation_failed (os error {errno})"),
            Self::SupervisorDied => f.write_str("supervisor_died"),
        }
    }
}

/// By what an exit was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ObservedBy {
    /// A pidfd of the leader, which names no other process.
    Pidfd,
    /// The process that guards the host's sessions.
    Guard,
    /// A script that plays a process.
    Script,
    /// Nobody: the status is unknown.
    Nobody,
}

impl ObservedBy {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pidfd => "pidfd",
            Self::Guard => "guard",
            Self::Script => "script",
            Self::Nobody => "nobody",
        }
    }
}

/// The leader's exit, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitObservation {
    /// How it ended.
    pub status: Status,
    /// By what it was seen.
    pub observed_by: ObservedBy,
    /// When it was seen.
    pub at: Moment,
}

impl ExitObservation {
    /// An end that nobody saw.
    #[must_use]
    pub const fn unobserved(at: Moment, never_ran: bool) -> Self {
        let reason = if never_ran {
            UnknownStatus::NeverRan
        } else {
            UnknownStatus::NotSeen
        };
        Self {
            status: Status::Unknown { reason },
            observed_by: ObservedBy::Nobody,
            at,
        }
    }

    /// Whether the status is unknown.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self.status, Status::Unknown { .. })
    }
}

/// A fact with its time, or why it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// It became true then.
    At(Moment),
    /// It is not known to be true.
    Unknown(UnknownFact),
}

impl Fact {
    /// The time, where it is known.
    #[must_use]
    pub const fn at(self) -> Option<Moment> {
        match self {
            Self::At(at) => Some(at),
            Self::Unknown(_) => None,
        }
    }
}

/// Why it is not known that a tree is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnknownFact {
    /// It has not been looked at yet.
    NotYet,
    /// The means in force does not see processes that moved away.
    PartialSight,
    /// Some could not be ended.
    Residual,
    /// Some were kept, as was asked.
    Kept,
    /// The look at the tree was not answered in time.
    NoAnswer,
}

impl UnknownFact {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotYet => "not_yet",
            Self::PartialSight => "partial_sight",
            Self::Residual => "residual",
            Self::Kept => "kept",
            Self::NoAnswer => "no_answer",
        }
    }
}

/// One thing that was done to end a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LadderStep {
    /// What was done.
    pub action: LadderAction,
    /// When.
    pub at: Moment,
    /// What came of it.
    pub effect: StepEffect,
}

impl LadderStep {
    /// Whether the step belongs into a record: a sweep that met nobody does not.
    #[must_use]
    pub fn is_worth_telling(&self) -> bool {
        self.action != LadderAction::Sweep || self.effect != StepEffect::MetNobody
    }
}

/// A rung of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LadderAction {
    /// TERM to the tree.
    Terminate,
    /// CONT to the tree, so that stopped processes can follow.
    Continue,
    /// KILL to the tree.
    Kill,
    /// KILL to what was left after the leader's exit.
    Sweep,
}

impl LadderAction {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::Continue => "continue",
            Self::Kill => "kill",
            Self::Sweep => "sweep",
        }
    }
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepEffect {
    /// It is not known yet.
    Pending,
    /// It reached at least one process.
    Delivered,
    /// There was nobody to reach.
    MetNobody,
    /// The system did not permit it.
    NotPermitted,
    /// It failed otherwise.
    Failed,
}

impl StepEffect {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::MetNobody => "met_nobody",
            Self::NotPermitted => "not_permitted",
            Self::Failed => "failed",
        }
    }
}

/// Why output is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IncompleteOutput {
    /// Somebody held a stream open when reading ended.
    HeldOpen,
    /// Reading failed.
    ReadFailed,
    /// The actor that read died.
    SupervisorDied,
}

impl IncompleteOutput {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HeldOpen => "held_open",
            Self::ReadFailed => "read_failed",
            Self::SupervisorDied => "supervisor_died",
        }
    }
}

/// Whom a figure of a [`Usage`] covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    /// The leader, and those of its descendants that were waited for; who was left to itself is not in it.
    #[default]
    Leader,
    /// All that were ever in the session, as a control group counted them.
    Tree,
}

impl UsageScope {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Tree => "tree",
        }
    }
}

/// What a session used, as far as the system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in the program.
    pub user_time: Duration,
    /// Processor time in the system.
    pub system_time: Duration,
    /// The most memory, in bytes.
    ///
    /// Of a tree: all that its control group was charged with at one moment, files that it had in memory included. Of
    /// a leader: the largest resident memory of one process. None where the system does not tell it, or tells a number
    /// that may be that of the process which has started the leader: a leader that stayed smaller than that cannot be
    /// told from it.
    pub peak_memory_bytes: Option<u64>,
    /// Page faults that needed no reading.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// Whom both processor times cover; page faults are always the leader's.
    pub cpu_covers: UsageScope,
    /// Whom the memory covers.
    pub peak_memory_covers: UsageScope,
}

/// The record of a session's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why it ended.
    pub cause: Cause,
    /// How its leader ended.
    pub status: Status,
    /// By what the exit was seen; none when it was not.
    pub observed_by: Option<ObservedBy>,
    /// When the process was spawned.
    pub spawned_at: Option<Moment>,
    /// When the leader's exit was seen.
    pub exited_at: Option<Moment>,
    /// When no more output could come.
    pub closed_at: Option<Moment>,
    /// When no descendant was left.
    pub quiescent: Fact,
    /// When the record was made, on the monotonic clock.
    pub ended_at: Moment,
    /// The same on the wall clock.
    pub ended_wall: WallTime,
    /// What was done to end it, in order.
    pub ladder: Vec<LadderStep>,
    /// Leftovers that were killed.
    pub swept_pids: Vec<u32>,
    /// Processes that are left.
    pub residual_pids: Vec<u32>,
    /// Why output is not complete; none when it is.
    pub incomplete_output: Option<IncompleteOutput>,
    /// Output that was read, in bytes, all streams together.
    pub output_bytes: u64,
    /// The longest time without output.
    pub largest_idle_gap: Duration,
    /// What was used.
    pub usage: Option<Usage>,
}

impl Outcome {
    /// The record of a session whose actor died at `now`.
    #[must_use]
    pub fn lost(now: Moment, wall: WallTime, spawned_at: Option<Moment>) -> Self {
        Self {
            cause: Cause::Lost,
            status: Status::Unknown {
                reason: UnknownStatus::SupervisorDied,
            },
            observed_by: None,
            spawned_at,
            exited_at: None,
            closed_at: None,
            quiescent: Fact::Unknown(UnknownFact::NoAnswer),
            ended_at: now,
            ended_wall: wall,
            ladder: Vec::new(),
            swept_pids: Vec::new(),
            residual_pids: Vec::new(),
            incomplete_output: Some(IncompleteOutput::SupervisorDied),
            output_bytes: 0,
            largest_idle_gap: Duration::ZERO,
            usage: None,
        }
    }
}
