//! What can go wrong, one enum per operation.

use std::{fmt, time::Duration};

use procession_core::{
    EnvironmentError, Field, Outcome, SpecError, StartFailure, Value, admission::LimitReached,
};
use serde::{Deserialize, Serialize};

/// Why a call about a session was not carried out, whatever it asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CallError {
    /// There is no such session for this owner: never, or somebody else's, which is the same answer.
    #[error("there is no session of this id")]
    NotFound,
    /// The session was this owner's and is pruned.
    #[error("the session is gone: its retention is over")]
    Gone,
    /// The session's actor ended before it answered; its processes were killed.
    #[error("the session was lost before it answered")]
    SessionLost,
    /// The part of the system that answers is not there.
    #[error("the session system has stopped")]
    Stopped,
    /// More calls wait on this session than it keeps.
    #[error("too many calls wait on this session: {waiting}, the limit is {limit}")]
    TooManyWaiters {
        /// How many wait.
        waiting: usize,
        /// How many may.
        limit: usize,
    },
}

/// Why a policy refused a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The field that was refused.
    pub field: Field,
    /// What was requested of it.
    pub requested: Option<Value>,
    /// Why, in one line.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refused {}

/// Why a session was not started; nothing of it is left, but for the policy's record of a refusal.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The spec cannot be carried out.
    #[error(transparent)]
    Invalid(#[from] SpecError),
    /// The environment cannot be made.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The policy refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The policy did not answer.
    #[error("the policy did not answer within {} ms", waited.as_millis())]
    PolicyUnavailable {
        /// For how long it was waited for.
        waited: Duration,
    },
    /// A budget is used up.
    #[error(transparent)]
    LimitReached(#[from] LimitReached),
    /// The process could not be started.
    #[error(transparent)]
    Failed(#[from] StartFailure),
    /// The system takes no more sessions.
    #[error("the session system is shutting down")]
    ShuttingDown,
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why output was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PollError {
    /// A screen was asked for, and the session does not run on a terminal.
    #[error("the session has no terminal, so it has no screen")]
    NoTerminal,
    /// A screen was asked for, and the terminal is too large to follow.
    #[error("the terminal has more than {max_cells} cells, so its screen is not followed")]
    ScreenTooLarge {
        /// The most cells that are followed, rows times columns, inclusive.
        max_cells: u32,
    },
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why input was not written, or not all of it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The session has ended.
    #[error("the session has ended ({})", outcome.cause.as_str())]
    SessionEnded {
        /// How.
        outcome: Box<Outcome>,
        /// How much of this write was accepted, in bytes.
        accepted_bytes: u64,
    },
    /// Standard input was closed by a call.
    #[error("standard input was closed by an earlier call")]
    StdinClosed {
        /// How much of this write was accepted, in bytes.
        accepted_bytes: u64,
    },
    /// The process closed its end, or nobody is left who could read.
    #[error("nobody reads standard input any more")]
    ReaderClosed {
        /// How much of this write was accepted, in bytes.
        accepted_bytes: u64,
    },
    /// The session was started without standard input.
    #[error("the session has no standard input: start it with `stdin` to write to it")]
    NoStdin,
    /// One write is larger than it may be.
    #[error("`input` is too long: {bytes} bytes, the limit is {limit_bytes}")]
    TooLong {
        /// How long it is.
        bytes: u64,
        /// What the limit is, inclusive.
        limit_bytes: u64,
    },
    /// The terminal would cut a line: it keeps one until its end, and no more of it than this. Nothing was written.
    #[error("`input` has a line of {bytes} bytes, the terminal takes {limit_bytes}: break it, or use a pipe")]
    LineTooLong {
        /// How long the longest line is, with what was written of it before, its end not counted.
        bytes: u64,
        /// What the limit is, inclusive.
        limit_bytes: u64,
    },
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why standard input was not closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseStdinError {
    /// The session was started without standard input.
    #[error("the session has no standard input: start it with `stdin` to write to it")]
    NoStdin,
    /// The terminal passes on every byte as it comes, so that no byte means the end of file; nothing was typed.
    #[error("the terminal is in raw mode and has no end of file: write what its program takes for one")]
    TerminalRaw,
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a signal was not sent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// The session has ended.
    #[error("the session has ended ({})", outcome.cause.as_str())]
    SessionEnded {
        /// How.
        outcome: Box<Outcome>,
    },
    /// The session has no process yet.
    #[error("the session has no process yet")]
    NotStarted,
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a terminal was not resized.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// The session does not run on a terminal.
    #[error("the session has no terminal: start it with `tty`")]
    NoTerminal,
    /// The session has ended.
    #[error("the session has ended ({})", outcome.cause.as_str())]
    SessionEnded {
        /// How.
        outcome: Box<Outcome>,
    },
    /// The system refused.
    #[error("the terminal cannot be resized (os error {errno})")]
    Failed {
        /// The system's error number.
        errno: i32,
    },
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a session was not stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a wait was not carried out; a wait whose time is up is none of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a session was not inspected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a log was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadLogError {
    /// The session has no log, by choice or because none could be made.
    #[error("the session has no log")]
    NoLog,
    /// The log cannot be read.
    #[error("the log cannot be read: {reason}")]
    Failed {
        /// What the storage said.
        reason: String,
    },
    /// The part of the system that reads logs did not answer.
    #[error("the log did not answer")]
    Unavailable,
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a log was not searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchLogError {
    /// The pattern cannot be looked for.
    #[error("invalid `pattern`: {reason}")]
    BadPattern {
        /// Why, in one line.
        reason: String,
    },
    /// The session has no log, by choice or because none could be made.
    #[error("the session has no log")]
    NoLog,
    /// The log cannot be read.
    #[error("the log cannot be read: {reason}")]
    Failed {
        /// What the storage said.
        reason: String,
    },
    /// The part of the system that reads logs did not answer.
    #[error("the log did not answer")]
    Unavailable,
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a session's sessions were not listed or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The call was not carried out.
    #[error(transparent)]
    Call(#[from] CallError),
}
