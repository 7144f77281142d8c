//! What a played process is at a moment.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bytes::{Buf, Bytes};
use procession_core::{
    Signal, Status, StreamId,
    outcome::{StepEffect, Usage},
    session::{Sight, TreeReport},
    spec::TerminalSize,
    terminal::TerminalMode,
};

use super::script::{Descendant, DiesOf, Steps};

/// A signal that came to a played process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentSignal {
    /// Which.
    pub signal: Signal,
    /// To whom.
    pub target: Target,
    /// When, since the start of the process.
    pub at: Duration,
}

/// To whom a signal was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To the whole tree.
    Tree,
    /// To the foreground group.
    Foreground,
    /// To the whole tree by the means in force: the ladder's last rung, or the guard.
    Kill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answering {
    AtOnce,
    Never,
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is something that a script says of its process, whatever it says of the rest"
)]
pub(super) struct State {
    pub(super) end: Option<Status>,
    pub(super) is_reaped: bool,
    pub(super) was_left: bool,
    pub(super) is_unkillable: bool,
    /// Whether the leader is gone, and its status has not been told.
    pub(super) is_exit_untold: bool,
    pub(super) observation_errno: Option<i32>,
    pub(super) usage: Option<Usage>,
    pub(super) descendants: BTreeMap<u32, Descendant>,
    pub(super) pipes: BTreeMap<StreamId, Pipe>,
    pub(super) input: InputPipe,
    pub(super) reactions: BTreeMap<Signal, Steps>,
    pub(super) signals: Vec<SentSignal>,
    pub(super) sight: Sight,
    pub(super) surveys: Answering,
    pub(super) sweeps: Answering,
    pub(super) asked_surveys: usize,
    pub(super) asked_sweeps: usize,
    pub(super) resizes: Vec<TerminalSize>,
}

/// One stream of output.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pub(super) waiting: VecDeque<Bytes>,
    pub(super) read_bytes: u64,
    pub(super) is_blocked: bool,
    pub(super) is_closed: bool,
    pub(super) errno: Option<i32>,
    /// Whether the session dropped its end.
    pub(super) is_released: bool,
}

impl Pipe {
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(Bytes::len).sum()
    }

    pub(super) fn take(&mut self, most: usize) -> Option<Bytes> {
        let front = self.waiting.front_mut()?;
        let piece = front.split_to(front.len().min(most));
        if !front.has_remaining() {
            self.waiting.pop_front();
        }
        self.read_bytes = self.read_bytes.saturating_add(piece.len() as u64);
        Some(piece)
    }
}

/// The input.
#[derive(Debug)]
pub(super) struct InputPipe {
    pub(super) capacity_bytes: usize,
    pub(super) waiting: Vec<u8>,
    pub(super) written: Vec<u8>,
    pub(super) is_reader_closed: bool,
    pub(super) is_writer_closed: bool,
    /// How the terminal passes input on; none where it is a pipe.
    pub(super) mode: Option<TerminalMode>,
}

impl InputPipe {
    pub(super) fn room_bytes(&self) -> usize {
        self.capacity_bytes.saturating_sub(self.waiting.len())
    }
}

impl State {
    pub(super) fn new(streams: &[StreamId]) -> Self {
        Self {
            end: None,
            is_reaped: false,
            was_left: false,
            is_unkillable: false,
            is_exit_untold: false,
            observation_errno: None,
            usage: None,
            descendants: BTreeMap::new(),
            pipes: streams.iter().map(|stream| (*stream, Pipe::default())).collect(),
            input: InputPipe {
                capacity_bytes: usize::MAX,
                waiting: Vec::new(),
                written: Vec::new(),
                is_reader_closed: false,
                is_writer_closed: false,
                mode: None,
            },
            reactions: BTreeMap::new(),
            signals: Vec::new(),
            sight: Sight::Exact,
            surveys: Answering::AtOnce,
            sweeps: Answering::AtOnce,
            asked_surveys: 0,
            asked_sweeps: 0,
            resizes: Vec::new(),
        }
    }

    /// The pipe that a stream goes to: the only one where the streams are merged.
    fn pipe_of(&mut self, stream: StreamId) -> Option<&mut Pipe> {
        let stream = if self.pipes.contains_key(&stream) {
            stream
        } else {
            StreamId::Stdout
        };
        self.pipes.get_mut(&stream)
    }

    pub(super) fn pipe(&self, stream: StreamId) -> Option<&Pipe> {
        self.pipes.get(&stream)
    }

    pub(super) fn emit(&mut self, stream: StreamId, bytes: Bytes) {
        if self.is_output_held()
            && let Some(pipe) = self
                .pipe_of(stream)
                .filter(|pipe| !pipe.is_closed && !pipe.is_released)
            && !bytes.is_empty()
        {
            pipe.waiting.push_back(bytes);
        }
    }

    pub(super) fn set_blocked(&mut self, stream: StreamId, is_blocked: bool) {
        if let Some(pipe) = self.pipe_of(stream) {
            pipe.is_blocked = is_blocked;
        }
    }

    pub(super) fn close(&mut self, stream: StreamId) {
        if let Some(pipe) = self.pipe_of(stream) {
            pipe.is_closed = true;
        }
    }

    pub(super) fn fail_output(&mut self, stream: StreamId, errno: i32) {
        if let Some(pipe) = self.pipe_of(stream) {
            pipe.errno = Some(errno);
        }
    }

    pub(super) fn is_leader_alive(&self) -> bool {
        self.end.is_none()
    }

    pub(super) fn end_leader(&mut self, status: Status) {
        self.end.get_or_insert(status);
        self.close_what_nobody_holds();
    }

    pub(super) fn fork(&mut self, descendant: Descendant) {
        self.descendants.insert(descendant.pid, descendant);
    }

    pub(super) fn end_descendant(&mut self, pid: u32) {
        self.descendants.remove(&pid);
        self.close_what_nobody_holds();
    }

    pub(super) fn descendants_alive(&self) -> Vec<u32> {
        self.descendants.keys().copied().collect()
    }

    pub(super) fn set_reaction(&mut self, signal: Signal, steps: Steps) {
        self.reactions.insert(signal, steps);
    }

    fn is_output_held(&self) -> bool {
        self.is_leader_alive()
            || self
                .descendants
                .values()
                .any(|descendant| descendant.holds_output)
    }

    fn close_what_nobody_holds(&mut self) {
        if !self.is_output_held() {
            self.pipes.values_mut().for_each(|pipe| pipe.is_closed = true);
        }
        if !self.is_leader_alive() && self.descendants.is_empty() {
            self.input.is_reader_closed = true;
        }
    }

    /// A signal to all that can be reached; what the leader plays at it.
    pub(super) fn signal(
        &mut self,
        signal: Signal,
        target: Target,
        at: Duration,
    ) -> (StepEffect, Option<Steps>) {
        self.signals.push(SentSignal { signal, target, at });
        let reached =
            self.is_leader_alive() || self.descendants.values().any(|descendant| !descendant.moved_away);
        if is_fatal(signal) {
            let force = if signal == Signal::KILL {
                DiesOf::Kill
            } else {
                DiesOf::AnySignal
            };
            self.descendants
                .retain(|_, descendant| descendant.moved_away || descendant.dies_of > force);
        }
        let reaction = self
            .reactions
            .get(&signal)
            .filter(|_| signal != Signal::KILL && self.is_leader_alive())
            .cloned();
        let dies = is_fatal(signal) && reaction.is_none() && !self.is_unkillable;
        if dies && self.is_leader_alive() {
            self.end_leader(Status::Signaled {
                signal,
                core_dumped: false,
            });
        }
        self.close_what_nobody_holds();
        (
            if reached {
                StepEffect::Delivered
            } else {
                StepEffect::MetNobody
            },
            reaction,
        )
    }

    pub(super) fn survey(&mut self) -> Option<TreeReport> {
        self.asked_surveys += 1;
        let report = TreeReport {
            swept: Vec::new(),
            alive: self.descendants_alive(),
            sight: self.sight,
        };
        (self.surveys == Answering::AtOnce).then_some(report)
    }

    pub(super) fn sweep(&mut self) -> Option<TreeReport> {
        self.asked_sweeps += 1;
        let is_mortal = |member: &Descendant| member.dies_of != DiesOf::Nothing;
        let swept = self
            .descendants
            .values()
            .filter(|member| is_mortal(member))
            .map(|member| member.pid)
            .collect();
        self.descendants.retain(|_, member| !is_mortal(member));
        self.close_what_nobody_holds();
        let report = TreeReport {
            swept,
            alive: self.descendants_alive(),
            sight: self.sight,
        };
        (self.sweeps == Answering::AtOnce).then_some(report)
    }
}

/// Whether a signal ends a process that says nothing about it; stops count as ignored.
fn is_fatal(signal: Signal) -> bool {
    const HARMLESS: [i32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];
    !HARMLESS.contains(&signal.number())
}
