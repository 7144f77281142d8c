//! What a session can be asked.

use procession_core::{Cause, Signal, session::LadderKind, spec::TerminalSize};
use ractor::RpcReplyPort;

use super::Internal;
use crate::{
    error::{
        CallError, CloseStdinError, InspectError, PollError, ResizeError, SignalError, StopError, WaitError,
        WriteError,
    },
    report::{
        Condition, Inspection, PollQuery, PollReport, RawOutput, ReadQuery, StopReport, StopRequest,
        WaitReport, WriteRequest, Written,
    },
};

/// What a session can be asked; the registry has checked the owner before it passes one on.
///
/// Every question has one `reply`, which is answered on every path. A session that cannot answer at once parks the
/// reply and goes on.
#[derive(Debug)]
pub enum SessionMessage {
    /// Read text; answered with the first new output, with the end, or when the wait is over.
    Poll {
        /// What to read.
        query: PollQuery,
        /// The answer.
        reply: RpcReplyPort<Result<PollReport, PollError>>,
    },
    /// Read bytes; answered like a poll.
    ReadOutput {
        /// What to read.
        query: ReadQuery,
        /// The answer.
        reply: RpcReplyPort<Result<RawOutput, PollError>>,
    },
    /// Write input; answered when all is accepted, or the wait is over, or nobody can read.
    Write {
        /// What to write.
        request: WriteRequest,
        /// The answer.
        reply: RpcReplyPort<Result<Written, WriteError>>,
    },
    /// Close the input behind what was written before; answered when it is closed, or the end of file was typed.
    CloseStdin {
        /// The answer.
        reply: RpcReplyPort<Result<(), CloseStdinError>>,
    },
    /// Send a signal to the foreground group of a terminal, else to the session's group.
    Signal {
        /// The signal.
        signal: Signal,
        /// The answer.
        reply: RpcReplyPort<Result<(), SignalError>>,
    },
    /// Set the terminal's size.
    Resize {
        /// The size.
        size: TerminalSize,
        /// The answer.
        reply: RpcReplyPort<Result<(), ResizeError>>,
    },
    /// End the session; answered when its tree is gone, or after a bound with what is left.
    Stop {
        /// How.
        request: StopRequest,
        /// The answer.
        reply: RpcReplyPort<Result<StopReport, StopError>>,
    },
    /// Wait for a condition; answered when it holds, can no longer hold, or the time is up.
    Wait {
        /// For what.
        until: Condition,
        /// For how long.
        timeout: std::time::Duration,
        /// The answer.
        reply: RpcReplyPort<Result<WaitReport, WaitError>>,
    },
    /// Tell all that is known; answered at once.
    Inspect {
        /// The answer.
        reply: RpcReplyPort<Result<Inspection, InspectError>>,
    },
    /// End on somebody else's ground: the owner ended, the host shuts down. No answer; the end is reported.
    End {
        /// The ground.
        cause: Cause,
        /// Whether it is asked before it is killed.
        ladder: LadderKind,
    },
    /// Let what was kept live on without the session: its record is closed, nothing is killed. No answer.
    LetGo,
    /// From the session's own watchers and tasks; only its own module can make one.
    Internal(Internal),
}

crate::local_message!(SessionMessage);

impl SessionMessage {
    /// Answers the question with a refusal, whatever it asks for.
    pub fn refuse(self, error: CallError) {
        // A caller that gave up is nobody's failure.
        match self {
            Self::Poll { reply, .. } => drop(reply.send(Err(error.into()))),
            Self::ReadOutput { reply, .. } => drop(reply.send(Err(error.into()))),
            Self::Write { reply, .. } => drop(reply.send(Err(error.into()))),
            Self::CloseStdin { reply } => drop(reply.send(Err(error.into()))),
            Self::Signal { reply, .. } => drop(reply.send(Err(error.into()))),
            Self::Resize { reply, .. } => drop(reply.send(Err(error.into()))),
            Self::Stop { reply, .. } => drop(reply.send(Err(error.into()))),
            Self::Wait { reply, .. } => drop(reply.send(Err(error.into()))),
            Self::Inspect { reply } => drop(reply.send(Err(error.into()))),
            Self::End { .. } | Self::LetGo | Self::Internal(_) => {}
        }
    }
}
