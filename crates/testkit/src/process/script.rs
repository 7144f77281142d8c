//! What a played process does by itself.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use procession_core::{Signal, StartFailure, Status, StreamId};

use crate::Gate;

/// How a process begins, and how it takes signals.
///
/// ```
/// use std::time::Duration;
/// use procession_core::{Signal, StreamId};
/// use procession_testkit::{Script, Steps};
///
/// let _polite = Script::new()
///     .steps(Steps::new().emit(StreamId::Stdout, "ready\n"))
///     .on_signal(Signal::TERM, Steps::new().emit(StreamId::Stdout, "bye\n").wait(Duration::from_millis(10)).exit(3));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub(super) failure: Option<StartFailure>,
    pub(super) gate: Option<Gate>,
    pub(super) steps: Steps,
    pub(super) reactions: Vec<(Signal, Steps)>,
    pub(super) descendants: Vec<Descendant>,
    pub(super) is_unkillable: bool,
}

impl Script {
    /// A process that does nothing, and dies of every signal that kills by default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A start that fails.
    #[must_use]
    pub fn fails(failure: StartFailure) -> Self {
        Self {
            failure: Some(failure),
            ..Self::default()
        }
    }

    /// The start is not answered before the gate is open.
    #[must_use]
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// What the process does once it runs.
    #[must_use]
    pub fn steps(mut self, steps: Steps) -> Self {
        self.steps = steps;
        self
    }

    /// What the process does at a signal, instead of dying of it.
    #[must_use]
    pub fn on_signal(mut self, signal: Signal, steps: Steps) -> Self {
        self.reactions.push((signal, steps));
        self
    }

    /// The process ignores a signal.
    #[must_use]
    pub fn ignoring(self, signal: Signal) -> Self {
        self.on_signal(signal, Steps::new())
    }

    /// The process has this descendant from the beginning.
    #[must_use]
    pub fn with_descendant(mut self, descendant: Descendant) -> Self {
        self.descendants.push(descendant);
        self
    }

    /// No signal ends the process, not even KILL, as with one that waits in the kernel.
    #[must_use]
    pub fn unkillable(mut self) -> Self {
        self.is_unkillable = true;
        self
    }
}

/// A row of things that a process does, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Steps(pub(super) VecDeque<Step>);

#[derive(Debug, Clone)]
pub(super) enum Step {
    Wait(Duration),
    Emit(StreamId, Bytes),
    Close(StreamId),
    Fork(Descendant),
    End(Status),
}

impl Steps {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Then waits, on tokio's clock.
    #[must_use]
    pub fn wait(self, time: Duration) -> Self {
        self.then(Step::Wait(time))
    }

    /// Then writes to a stream.
    #[must_use]
    pub fn emit(self, stream: StreamId, bytes: impl Into<Bytes>) -> Self {
        self.then(Step::Emit(stream, bytes.into()))
    }

    /// Then closes a stream.
    #[must_use]
    pub fn close(self, stream: StreamId) -> Self {
        self.then(Step::Close(stream))
    }

    /// Then gets a descendant.
    #[must_use]
    pub fn fork(self, descendant: Descendant) -> Self {
        self.then(Step::Fork(descendant))
    }

    /// Then exits.
    #[must_use]
    pub fn exit(self, code: i32) -> Self {
        self.then(Step::End(Status::Exited { code }))
    }

    /// Then dies of a signal that nobody sent.
    #[must_use]
    pub fn die(self, signal: Signal) -> Self {
        self.then(Step::End(Status::Signaled {
            signal,
            core_dumped: false,
        }))
    }

    fn then(mut self, step: Step) -> Self {
        self.0.push_back(step);
        self
    }
}

/// A descendant of a played process.
#[derive(Debug, Clone)]
pub struct Descendant {
    pub(super) pid: u32,
    pub(super) holds_output: bool,
    pub(super) moved_away: bool,
    pub(super) dies_of: DiesOf,
}

/// The mildest signal that ends a descendant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DiesOf {
    AnySignal,
    Kill,
    Nothing,
}

impl Descendant {
    /// A descendant that holds no output and dies of every signal that kills by default.
    #[must_use]
    pub const fn new(pid: u32) -> Self {
        Self {
            pid,
            holds_output: false,
            moved_away: false,
            dies_of: DiesOf::AnySignal,
        }
    }

    /// It holds the output open.
    #[must_use]
    pub const fn holding_output(mut self) -> Self {
        self.holds_output = true;
        self
    }

    /// It ignores everything but KILL.
    #[must_use]
    pub const fn stubborn(mut self) -> Self {
        self.dies_of = DiesOf::Kill;
        self
    }

    /// It survives even KILL.
    #[must_use]
    pub const fn unkillable(mut self) -> Self {
        self.dies_of = DiesOf::Nothing;
        self
    }

    /// It left the process group: signals do not reach it, a sweep does.
    #[must_use]
    pub const fn moved_away(mut self) -> Self {
        self.moved_away = true;
        self
    }
}
