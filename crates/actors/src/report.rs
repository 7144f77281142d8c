//! What is asked and what is answered, as plain values that could cross a wire.

use std::{ops::Range, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use procession_core::{
    Cause, Containment, Outcome, Phase, RequestId, SessionId, StreamId,
    preview::{Omission, OutputBudget},
    render::{Render, Screen},
    session::LadderKind,
    text::ReadPosition,
};
use procession_policy::{Decision, Receipt};
use serde::{Deserialize, Serialize};

/// A session that was started.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// Its id.
    pub session: SessionId,
    /// The leader's pid.
    pub pid: u32,
    /// What was asked for and what holds.
    pub decision: Arc<Decision>,
    /// By what means its tree is held.
    pub containment: Containment,
    /// Ended sessions that had to go to make room.
    pub evicted: Vec<SessionId>,
}

/// What to read of a session's output, and how long to wait for some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollQuery {
    /// From where; from the session's own cursor when not given, which then moves on.
    pub cursor: Option<ReadPosition>,
    /// How long to wait for output or the end; zero answers at once.
    pub wait: Duration,
    /// How much text to return; the session's own budget when not given.
    pub max_output_bytes: Option<u64>,
    /// How it is shown.
    #[serde(default)]
    pub render: Render,
}

impl PollQuery {
    /// Reads on from the session's own cursor, without waiting.
    #[must_use]
    pub const fn now() -> Self {
        Self {
            cursor: None,
            wait: Duration::ZERO,
            max_output_bytes: None,
            render: Render::Raw,
        }
    }

    /// Reads on from the session's own cursor, waiting this long.
    #[must_use]
    pub const fn wait(wait: Duration) -> Self {
        Self {
            cursor: None,
            wait,
            max_output_bytes: None,
            render: Render::Raw,
        }
    }

    /// The same, from this cursor.
    #[must_use]
    pub const fn from(mut self, cursor: ReadPosition) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// The same, shown like this.
    #[must_use]
    pub const fn render(mut self, render: Render) -> Self {
        self.render = render;
        self
    }

    /// The same, with this budget.
    #[must_use]
    pub const fn budget(mut self, max_output_bytes: u64) -> Self {
        self.max_output_bytes = Some(max_output_bytes);
        self
    }
}

/// Where a session is, and what it wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct PollReport {
    /// Which session.
    pub session: SessionId,
    /// Where it is in its life.
    pub phase: Phase,
    /// The leader's pid.
    pub pid: Option<u32>,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// Processes that are known to be left.
    pub residual_pids: Vec<u32>,
    /// Text of standard output.
    pub stdout: String,
    /// Text of standard error.
    pub stderr: String,
    /// Where to read on.
    pub cursor: ReadPosition,
    /// What was left out, by stream.
    pub omitted: Vec<Omission>,
    /// What the terminal shows, where [`Render::Screen`] was asked for; the texts are empty then.
    pub screen: Option<Screen>,
    /// What became of the log.
    pub log: LogSummary,
}

impl PollReport {
    /// How much was left out, in bytes, all streams together.
    #[must_use]
    pub fn omitted_bytes(&self) -> u64 {
        self.omitted
            .iter()
            .map(Omission::bytes)
            .fold(0, u64::saturating_add)
    }
}

/// What to read of a session's output as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadQuery {
    /// From where; from the session's own cursor when not given, which then moves on.
    pub cursor: Option<ReadPosition>,
    /// How long to wait for output or the end.
    pub wait: Duration,
    /// The most bytes to return, all streams together.
    pub max_bytes: u64,
}

/// Output as bytes, exactly as the process wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct RawOutput {
    /// Where the session is in its life.
    pub phase: Phase,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// The pieces, each stream in its order.
    pub pieces: Vec<RawPiece>,
    /// Where to read on.
    pub cursor: ReadPosition,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPiece {
    /// Of which stream.
    pub stream: StreamId,
    /// Bytes that the capture had dropped before this piece.
    pub omitted_bytes: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// What to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteRequest {
    /// The bytes, as they are.
    pub input: Bytes,
    /// How long to wait for all of them to be accepted.
    pub wait: Duration,
    /// The caller's name for this write; the same name is the same write.
    pub request_id: Option<RequestId>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// How much was accepted by the pipe, in bytes.
    pub accepted_bytes: u64,
    /// Whether that is all of it.
    pub end: WriteEnd,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteEnd {
    /// All was accepted.
    Complete,
    /// The time was up; the rest was not written and will not be.
    TimedOut,
}

/// How to stop a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// Whether it is asked before it is killed.
    pub ladder: Ladder,
    /// The caller's name for this stop.
    pub request_id: Option<RequestId>,
}

/// The ladder of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ladder {
    /// TERM, the session's own grace, KILL.
    Ask,
    /// TERM, this grace, KILL.
    AskFor(Duration),
    /// KILL at once.
    Force,
}

impl From<Ladder> for StopRequest {
    /// A stop by this ladder, without a name.
    fn from(ladder: Ladder) -> Self {
        Self {
            ladder,
            request_id: None,
        }
    }
}

impl From<Ladder> for LadderKind {
    fn from(ladder: Ladder) -> Self {
        match ladder {
            Ladder::Ask => Self::Ask { grace: None },
            Ladder::AskFor(grace) => Self::Ask { grace: Some(grace) },
            Ladder::Force => Self::Force,
        }
    }
}

/// What became of a stop.
#[derive(Debug, Clone, PartialEq)]
pub struct StopReport {
    /// Where the session is in its life: `Ended`, or `Terminating` where something could not be killed in time.
    pub phase: Phase,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// Processes that are known to be left.
    pub residual_pids: Vec<u32>,
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Condition {
    /// The leader has exited.
    Exited,
    /// No more output can come.
    Closed,
    /// No descendant is left.
    Quiescent,
    /// The record of the end is there.
    Ended,
}

/// What came of a wait.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitReport {
    /// Whether the condition holds; when not, the time was up, or it can no longer come to hold.
    pub result: WaitResult,
    /// Where the session is in its life.
    pub phase: Phase,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// The end of the output at that moment.
    pub cursor: ReadPosition,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitResult {
    /// The condition holds.
    Fired,
    /// The time was up.
    TimedOut,
    /// The condition can no longer come to hold.
    Impossible,
}

/// All that is known of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// Which session.
    pub session: SessionId,
    /// Its name for people.
    pub label: Option<String>,
    /// Where it is in its life.
    pub phase: Phase,
    /// The leader's pid.
    pub pid: Option<u32>,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// What was asked for and what holds.
    pub decision: Arc<Decision>,
    /// What was observed, once it has ended.
    pub receipt: Option<Receipt>,
    /// By what means its tree is held.
    pub containment: Containment,
    /// Names of the variables that its environment holds; never a value.
    pub environment_names: Arc<[String]>,
    /// Processes that are known to be left.
    pub residual_pids: Vec<u32>,
    /// Output so far, in bytes, by stream, secrets replaced.
    pub output_bytes: OutputBytes,
    /// How many secrets were replaced in it.
    pub redactions: u64,
    /// What became of the log.
    pub log: LogSummary,
}

/// Output in bytes, by stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutputBytes {
    /// Standard output.
    pub stdout: u64,
    /// Standard error.
    pub stderr: u64,
}

/// What became of a session's log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogSummary {
    /// Output that the session wrote, in bytes.
    pub total_bytes: u64,
    /// How much of it can be read from the log.
    pub kept_bytes: u64,
    /// How much of it cannot.
    pub dropped_bytes: u64,
    /// Why something is missing, with its first offset; none while nothing is.
    pub incomplete: Option<LogIncomplete>,
    /// Where the log lies, if there is one.
    pub path: Option<PathBuf>,
}

impl LogSummary {
    /// Whether everything that the session wrote can be read from the log.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.incomplete.is_none() && self.dropped_bytes == 0
    }
}

/// Why a log is not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogIncomplete {
    /// The first offset that is missing.
    pub from_offset: u64,
    /// Why, in one line.
    pub reason: String,
}

/// What to read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogQuery {
    /// From which offset of the merged output.
    pub offset: u64,
    /// The most bytes to return.
    pub max_bytes: u64,
    /// Of one stream alone.
    pub stream: Option<StreamId>,
}

/// A page of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The runs, in the order of the writes.
    pub runs: Vec<LogRun>,
    /// Where to read on.
    pub next_offset: u64,
    /// How much was written in all.
    pub total_bytes: u64,
    /// Whether the page reaches the end of what is there.
    pub at_end: bool,
    /// What was dropped at the offset asked for, if it lies in a gap.
    pub gap: Option<LogGap>,
    /// Whether the offset lies beyond the end.
    pub beyond_end: bool,
}

/// Bytes that one stream wrote without a break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRun {
    /// Where they stand in the merged output.
    pub offset: u64,
    /// Of which stream.
    pub stream: StreamId,
    /// When they were read, in milliseconds since the session's spawn.
    pub time_ms: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// What to look for in a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSearch {
    /// The pattern.
    pub pattern: LogPattern,
    /// From which offset of the merged output.
    pub from_offset: u64,
    /// The most matches to return: at least 1, at most 1000.
    pub max_matches: u64,
    /// How much of the same stream to show on either side of a match, in bytes, at most 4096.
    pub context_bytes: u64,
}

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogPattern {
    /// This text.
    Literal(String),
    /// A regular expression in the syntax of the `regex` crate, on bytes; `^` and `$` match at lines.
    Regex(String),
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMatches {
    /// The matches, in the order of their offsets.
    pub matches: Vec<LogMatch>,
    /// Where to go on.
    pub next_offset: u64,
    /// Whether all that is there was looked through.
    pub at_end: bool,
}

/// A match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMatch {
    /// Where its first byte stands in the merged output.
    pub offset: u64,
    /// Of which stream; a match never lies in both.
    pub stream: StreamId,
    /// The match with what stands around it in the same stream.
    pub text: Bytes,
    /// Which bytes of the text are the match.
    pub range: Range<usize>,
}

/// What a log dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogGap {
    /// The first offset that is missing.
    pub from: u64,
    /// The first that is there again.
    pub to: u64,
}

/// A session in a list; never its environment.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// Which session.
    pub session: SessionId,
    /// Its name for people.
    pub label: Option<String>,
    /// Where it is in its life.
    pub phase: Phase,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// Since it was admitted.
    pub age: Duration,
    /// Since its last output.
    pub idle: Duration,
    /// What the session's own cursor has not passed yet, in bytes.
    pub unread_bytes: u64,
}

/// Which sessions to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListFilter {
    /// All.
    #[default]
    All,
    /// Those that have not ended.
    Live,
}

/// What becomes of processes that ended sessions kept, when the system shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptProcesses {
    /// They are ended like everything else.
    #[default]
    End,
    /// They live on, and nobody watches them any more.
    Leave,
}

/// What a shutdown left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShutdownReport {
    /// How many sessions ended in its course.
    pub ended: usize,
    /// Sessions that were not ended in time.
    pub left: Vec<LeftSession>,
}

/// A session that a shutdown could not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftSession {
    /// Which.
    pub session: SessionId,
    /// The leader's pid.
    pub pid: Option<u32>,
}

/// On what ground all sessions of an owner are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerEnd {
    /// They are stopped on request.
    Stop,
    /// Their owner is gone.
    OwnerEnded,
}

impl From<OwnerEnd> for Cause {
    fn from(end: OwnerEnd) -> Self {
        match end {
            OwnerEnd::Stop => Self::Stop,
            OwnerEnd::OwnerEnded => Self::OwnerEnded,
        }
    }
}

/// How much text to return, where nothing else is said.
#[must_use]
pub fn budget_or(requested: Option<u64>, session_budget_bytes: u64) -> OutputBudget {
    OutputBudget::new(requested.unwrap_or(session_budget_bytes))
}
