//! One session's life, as a pure state machine: inputs in, effects out, no clock, no process, no wait.
//!
//! ```text
//! starting ──spawned──▶ running ──leader exits──▶ draining ──end of output, or grace──▶ sweeping ─┐
//!    │                     │                                                                      ▼
//!    │                     └─stop, time-out, …─▶ terminating: TERM ─grace─▶ KILL ─leader exits─▶ sweeping
//!    │                                                                                            │
//!    └──start failed──▶ ended ◀── log closed ◀── closing ◀── reaped ◀── last output, or bound ────┘
//! ```
//! Exit is observed without reaping, the tree is swept, and only then is the leader reaped, so that its pid and group
//! cannot have become somebody else's while they are signalled.

use std::time::Duration;

use crate::{
    limits::{EffectiveLimits, Leftovers},
    outcome::{
        Cause, ExitObservation, Fact, IncompleteOutput, LadderAction, LadderStep, Outcome, StepEffect,
        UnknownFact, Usage,
    },
    signal::Signal,
    stream::StreamId,
    time::{Moment, WallTime},
};

mod deadline;
#[cfg(test)]
mod tests;

/// How long a killed leader may take to be gone before a stop is answered with what is left.
pub const KILL_BOUND: Duration = Duration::from_millis(1_500);

/// How long an end waits for the status of a leader that has exited, where who holds it has not told it yet.
pub const STATUS_BOUND: Duration = Duration::from_secs(1);
/// How long the report on a sweep may take before the session ends without it.
pub const SWEEP_BOUND: Duration = Duration::from_secs(2);
/// How long the output that a sweep set free may take to reach its end.
pub const FREED_OUTPUT_BOUND: Duration = Duration::from_millis(250);
/// How long the log may take to be closed before the session ends without it.
pub const LOG_CLOSE_BOUND: Duration = Duration::from_secs(1);
/// How long that answer waits for a last look at the tree.
pub const LAST_LOOK_BOUND: Duration = Duration::from_millis(250);
/// How soon the tree is looked at again while it is waited for.
pub const SURVEY_INTERVAL: Duration = Duration::from_millis(50);
/// How soon at the latest it is looked at again.
pub const MAX_SURVEY_INTERVAL: Duration = Duration::from_secs(2);

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Input {
    /// The process runs.
    Spawned {
        /// The leader's pid.
        pid: u32,
        /// The streams that are read.
        streams: Vec<StreamId>,
    },
    /// The process could not be started.
    StartFailed,
    /// Output was read.
    Output {
        /// How much, in bytes.
        bytes: u64,
    },
    /// Output is left unread by our own choice: a reader sets the pace, or a log has to catch up.
    ReadingHeld,
    /// A stream reached its end.
    StreamClosed {
        /// Which.
        stream: StreamId,
    },
    /// A stream cannot be read any more: what it may still have held is lost.
    ReadFailed {
        /// Which.
        stream: StreamId,
    },
    /// The leader's exit was seen; it is not reaped yet.
    Exited {
        /// What was seen.
        observation: ExitObservation,
    },
    /// Somebody wants the session to end.
    End {
        /// On what ground.
        cause: Cause,
        /// Whether TERM comes before KILL.
        ladder: LadderKind,
    },
    /// An [`Effect::Observe`] was carried out; exit and output that were there have been given before.
    Observed,
    /// An [`Effect::Observe`] was carried out: the leader has exited, and its status is on its way.
    ///
    /// What was about to strike waits for it, [`STATUS_BOUND`] at the most.
    ExitUntold,
    /// A signal was sent.
    Signaled {
        /// Which step of the ladder it was.
        step: usize,
        /// What came of it.
        effect: StepEffect,
    },
    /// A look at the tree, or a sweep, was carried out.
    TreeSeen(TreeReport),
    /// The leader was reaped.
    Reaped {
        /// What the tree used, where the system tells.
        usage: Option<Usage>,
    },
    /// The log was closed.
    LogClosed,
    /// What was kept is to live on without the session.
    LetGo,
    /// A deadline may have passed.
    Tick,
}

/// Whether an end is asked for or forced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LadderKind {
    /// TERM, then KILL after this grace, or after the session's own when none is given.
    Ask {
        /// The grace.
        grace: Option<Duration>,
    },
    /// KILL at once.
    Force,
}

/// Who is left of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeReport {
    /// Members that were killed by this sweep.
    pub swept: Vec<u32>,
    /// Members that are still there.
    pub alive: Vec<u32>,
    /// Whether the means in force sees all members.
    pub sight: Sight,
}

/// How well a tree can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sight {
    /// All members are seen: nobody seen means nobody there.
    Exact,
    /// Members that moved away are not seen.
    #[default]
    Partial,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Look now whether the leader has exited and whether output waits; then give [`Input::Observed`], or
    /// [`Input::ExitUntold`] where it has exited and nobody can tell its status yet.
    Observe,
    /// Send a signal to the whole tree; then give [`Input::Signaled`].
    SignalTree {
        /// The signal.
        signal: Signal,
        /// The step of the ladder.
        step: usize,
    },
    /// Kill the whole tree by the means in force; then give [`Input::Signaled`].
    KillTree {
        /// The step of the ladder.
        step: usize,
    },
    /// See who is left; then give [`Input::TreeSeen`].
    Survey,
    /// Kill all that is left, but for the leader; then give [`Input::TreeSeen`].
    Sweep,
    /// Stop reading: whatever comes now is not part of the session.
    ReleaseOutput,
    /// Reap the leader; then give [`Input::Reaped`].
    Reap,
    /// Close the log with this record; then give [`Input::LogClosed`].
    CloseLog(Box<Outcome>),
    /// The session has ended, with this record.
    Finish(Box<Outcome>),
    /// The bound on a stop is over, the tree is not, and it was looked at: callers get what is left.
    AnswerStops,
    /// What was kept is gone; the record, which has been told before, stays as it is.
    Released(Box<Outcome>),
    /// What was kept is no longer ours: it is not to be killed, and nothing of it is read.
    LetGo(Box<Outcome>),
}

/// Where a session is in its life, for everybody.
pub use crate::outcome::Phase;

/// One session's life.
#[derive(Debug, Clone)]
pub struct Session {
    limits: EffectiveLimits,
    clock_offset: WallTime,
    stage: Stage,
    pid: Option<u32>,
    spawned_at: Option<Moment>,
    open_streams: Vec<StreamId>,
    last_output_at: Moment,
    largest_idle_gap: Duration,
    output_bytes: u64,
    cause: Option<Cause>,
    exit: Option<ExitObservation>,
    closed_at: Option<Moment>,
    quiescent: Fact,
    strike: Option<Strike>,
    /// Until when a strike waits for the status of a leader that has exited.
    status_by: Option<Moment>,
    ladder: Ladder,
    swept_pids: Vec<u32>,
    residual_pids: Vec<u32>,
    incomplete: Option<IncompleteOutput>,
    usage: Option<Usage>,
    outcome: Option<Box<Outcome>>,
}

/// An end that was asked for and is not decided yet.
#[derive(Debug, Clone, Copy)]
struct Strike {
    cause: Cause,
    kind: LadderKind,
}

#[derive(Debug, Clone, Default)]
struct Ladder {
    steps: Vec<LadderStep>,
    /// When KILL follows TERM.
    kill_at: Option<Moment>,
    /// When a stop is answered although the leader is not gone.
    give_up_at: Option<Moment>,
    /// When that answer is given at the latest, the last look at the tree taken or not.
    answer_by: Option<Moment>,
    survey: Option<Survey>,
}

/// The next look at the tree.
#[derive(Debug, Clone, Copy)]
struct Survey {
    due_at: Moment,
    interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    /// The leader has exited by itself, output is held open.
    Draining {
        idle_until: Moment,
        latest: Moment,
    },
    /// The ladder is under way.
    Terminating,
    /// Leftovers are kept; who they are is being looked up.
    Surveying {
        until: Moment,
    },
    Sweeping {
        until: Moment,
    },
    /// The tree was swept, what that freed is being read.
    Freed {
        until: Moment,
    },
    Reaping,
    Closing {
        until: Moment,
    },
    /// The record is final, processes live on as was asked.
    Kept,
    Ended,
}

impl Session {
    /// A session that is being started.
    ///
    /// `wall_at_start` is the wall time of [`Moment::ZERO`].
    #[must_use]
    pub fn new(limits: EffectiveLimits, wall_at_start: WallTime) -> Self {
        Self {
            limits,
            clock_offset: wall_at_start,
            stage: Stage::Starting,
            pid: None,
            spawned_at: None,
            open_streams: Vec::new(),
            last_output_at: Moment::ZERO,
            largest_idle_gap: Duration::ZERO,
            output_bytes: 0,
            cause: None,
            exit: None,
            closed_at: None,
            quiescent: Fact::Unknown(UnknownFact::NotYet),
            strike: None,
            status_by: None,
            ladder: Ladder::default(),
            swept_pids: Vec::new(),
            residual_pids: Vec::new(),
            incomplete: None,
            usage: None,
            outcome: None,
        }
    }

    /// Where the session is in its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Starting => Phase::Starting,
            Stage::Running | Stage::Draining { .. } | Stage::Surveying { .. } => Phase::Running,
            Stage::Terminating
            | Stage::Sweeping { .. }
            | Stage::Freed { .. }
            | Stage::Reaping
            | Stage::Closing { .. } => Phase::Terminating,
            Stage::Kept | Stage::Ended => Phase::Ended,
        }
    }

    /// The record of the end, once there is one; it never changes.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_deref()
    }

    /// The leader's pid, once it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// The leader's exit, once it was seen.
    #[must_use]
    pub fn exit(&self) -> Option<&ExitObservation> {
        self.exit.as_ref()
    }

    /// When no more output could come.
    #[must_use]
    pub fn closed_at(&self) -> Option<Moment> {
        self.closed_at
    }

    /// When the tree was known to be empty.
    #[must_use]
    pub fn quiescent(&self) -> Fact {
        self.quiescent
    }

    /// When output was last read; the spawn where there was none.
    #[must_use]
    pub fn last_output_at(&self) -> Moment {
        self.last_output_at
    }

    /// When the process was spawned.
    #[must_use]
    pub fn spawned_at(&self) -> Option<Moment> {
        self.spawned_at
    }

    /// The longest time without output so far.
    #[must_use]
    pub fn largest_idle_gap(&self) -> Duration {
        self.largest_idle_gap
    }

    /// Processes that are known to be left.
    #[must_use]
    pub fn residual_pids(&self) -> &[u32] {
        &self.residual_pids
    }

    /// The limits that hold.
    #[must_use]
    pub fn limits(&self) -> &EffectiveLimits {
        &self.limits
    }

    /// Whether nothing is left to do: no process, no timer.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Advances by one input.
    ///
    /// Inputs that come too late, twice, or out of place change nothing.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Spawned { pid, streams } => self.spawned(now, pid, streams, &mut effects),
            Input::StartFailed => self.start_failed(now, &mut effects),
            Input::Output { bytes } => self.output(now, bytes),
            Input::ReadingHeld => self.reading_held(now),
            Input::StreamClosed { stream } => self.stream_closed(now, stream, &mut effects),
            Input::ReadFailed { stream } => {
                if self.open_streams.contains(&stream) {
                    self.incomplete.get_or_insert(IncompleteOutput::ReadFailed);
                }
                self.stream_closed(now, stream, &mut effects);
            }
            Input::Exited { observation } => self.exited(now, observation, &mut effects),
            Input::End { cause, ladder } => self.end(now, Strike { cause, kind: ladder }, &mut effects),
            Input::Observed => self.observed(now, &mut effects),
            Input::ExitUntold => self.exit_untold(now),
            Input::Signaled { step, effect } => {
                if let Some(step) = self.ladder.steps.get_mut(step) {
                    step.effect = effect;
                }
            }
            Input::TreeSeen(report) => self.tree_seen(now, report, &mut effects),
            Input::Reaped { usage } => self.reaped(now, usage, &mut effects),
            Input::LogClosed => self.log_closed(&mut effects),
            Input::LetGo => self.let_go(&mut effects),
            Input::Tick => self.tick(now, &mut effects),
        }
        effects
    }

    fn spawned(&mut self, now: Moment, pid: u32, streams: Vec<StreamId>, effects: &mut Vec<Effect>) {
        if self.stage != Stage::Starting {
            return;
        }
        self.stage = Stage::Running;
        self.pid = Some(pid);
        self.spawned_at = Some(now);
        self.last_output_at = now;
        self.open_streams = streams;
        if self.open_streams.is_empty() {
            self.closed_at = Some(now);
        }
        if self.strike.is_some() {
            effects.push(Effect::Observe);
        }
    }

    fn start_failed(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.stage != Stage::Starting {
            return;
        }
        self.decide(Cause::FailedToStart);
        self.quiescent = Fact::At(now);
        self.closed_at = Some(now);
        self.stage = Stage::Ended;
        let outcome = Box::new(self.make_outcome(now));
        self.outcome = Some(outcome.clone());
        effects.push(Effect::Finish(outcome));
    }

    fn output(&mut self, now: Moment, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let gap = now.saturating_since(self.last_output_at);
        self.largest_idle_gap = self.largest_idle_gap.max(gap);
        self.last_output_at = now;
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if let Stage::Draining { idle_until, latest } = &mut self.stage {
            *idle_until = now.saturating_add(self.limits.drain_grace).min(*latest);
        }
    }

    /// The drain counts the time in which nothing was written, not that in which nothing was read.
    fn reading_held(&mut self, now: Moment) {
        if let Stage::Draining { idle_until, latest } = &mut self.stage {
            *idle_until = now.saturating_add(self.limits.drain_grace);
            *latest = now.saturating_add(self.limits.drain_grace.saturating_mul(2));
        }
    }

    fn stream_closed(&mut self, now: Moment, stream: StreamId, effects: &mut Vec<Effect>) {
        let before = self.open_streams.len();
        self.open_streams.retain(|open| *open != stream);
        if before == 0 || !self.open_streams.is_empty() {
            return;
        }
        self.closed_at.get_or_insert(now);
        match self.stage {
            Stage::Draining { .. } => self.leave_drain(now, effects),
            Stage::Freed { .. } => self.reap(effects),
            _ => {}
        }
    }

    fn exited(&mut self, now: Moment, observation: ExitObservation, effects: &mut Vec<Effect>) {
        if self.exit.is_some() {
            return;
        }
        let unobserved = observation.is_unknown();
        self.exit = Some(observation);
        match self.stage {
            Stage::Running => {
                self.decide(if unobserved { Cause::Lost } else { Cause::Exit });
                if self.open_streams.is_empty() {
                    self.leave_drain(now, effects);
                } else {
                    self.stage = Stage::Draining {
                        idle_until: now.saturating_add(self.limits.drain_grace),
                        latest: now.saturating_add(self.limits.drain_grace.saturating_mul(2)),
                    };
                }
                if self.status_by.take().is_some() {
                    self.observed(now, effects);
                }
            }
            Stage::Terminating => {
                if self.ladder.kill_at.is_some() {
                    // The leader's polite exit spares nobody: the ladder ends when the tree is gone.
                    self.survey_at(now, SURVEY_INTERVAL);
                    effects.push(Effect::Survey);
                } else {
                    self.sweep(now, effects);
                }
            }
            _ => {}
        }
    }

    /// Somebody wants an end: nothing is decided before it was looked whether the leader ended by itself.
    fn end(&mut self, now: Moment, strike: Strike, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Starting => {
                self.strike.get_or_insert(strike);
            }
            Stage::Running => {
                self.strike.get_or_insert(strike);
                effects.push(Effect::Observe);
            }
            // The leader has gone by itself, the rest goes now.
            Stage::Draining { .. } | Stage::Surveying { .. } => self.sweep(now, effects),
            Stage::Terminating => {
                // A second, more forceful wish hurries the ladder; a milder one changes nothing.
                let wanted = match strike.kind {
                    LadderKind::Force => Some(now),
                    LadderKind::Ask { grace } => grace.map(|grace| now.saturating_add(grace)),
                };
                if let (Some(kill_at), Some(wanted)) = (self.ladder.kill_at, wanted) {
                    self.ladder.kill_at = Some(kill_at.min(wanted));
                    self.tick(now, effects);
                }
            }
            Stage::Kept => self.climb(now, strike.kind, effects),
            Stage::Sweeping { .. }
            | Stage::Freed { .. }
            | Stage::Reaping
            | Stage::Closing { .. }
            | Stage::Ended => {}
        }
    }

    fn observed(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let Some(strike) = self.strike.take() else { return };
        match self.stage {
            Stage::Running => {
                self.status_by = None;
                let idle_is_over = self.idle_deadline().is_some_and(|deadline| deadline <= now);
                if strike.cause == Cause::IdleTimeout && !idle_is_over {
                    return; // Output was waiting: the session is not idle.
                }
                self.decide(strike.cause);
                self.stage = Stage::Terminating;
                self.climb(now, strike.kind, effects);
            }
            // It ended by itself in the meantime; a time-out has nothing to do then, a stop does not wait for the drain.
            Stage::Draining { .. } if !strike.cause.is_timeout() => self.sweep(now, effects),
            _ => {}
        }
    }

    fn exit_untold(&mut self, now: Moment) {
        if self.stage == Stage::Running && self.strike.is_some() {
            self.status_by.get_or_insert(now.saturating_add(STATUS_BOUND));
        }
    }

    /// The first rung of the ladder.
    fn climb(&mut self, now: Moment, kind: LadderKind, effects: &mut Vec<Effect>) {
        let grace = match kind {
            LadderKind::Force => Duration::ZERO,
            LadderKind::Ask { grace } => grace.unwrap_or(self.limits.grace),
        };
        if grace.is_zero() {
            self.kill(now, effects);
            return;
        }
        for (action, signal) in [
            (LadderAction::Terminate, Signal::TERM),
            (LadderAction::Continue, Signal::CONT),
        ] {
            let step = self.push_step(now, action);
            effects.push(Effect::SignalTree { signal, step });
        }
        let kill_at = now.saturating_add(grace);
        self.ladder.kill_at = Some(
            self.ladder
                .kill_at
                .map_or(kill_at, |earlier| earlier.min(kill_at)),
        );
        if self.stage == Stage::Kept {
            self.survey_at(now, SURVEY_INTERVAL);
        }
    }

    fn kill(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.ladder.kill_at = None;
        self.ladder.survey = None;
        let step = self.push_step(now, LadderAction::Kill);
        effects.push(Effect::KillTree { step });
        if self.stage == Stage::Kept || self.exit.is_some() {
            self.sweep(now, effects);
        } else {
            self.ladder.give_up_at = Some(now.saturating_add(KILL_BOUND));
        }
    }

    fn push_step(&mut self, now: Moment, action: LadderAction) -> usize {
        self.ladder.steps.push(LadderStep {
            action,
            at: now,
            effect: StepEffect::Pending,
        });
        self.ladder.steps.len() - 1
    }

    /// Output came to its end, or its grace did: leftovers are dealt with.
    fn leave_drain(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        match self.limits.leftovers {
            Leftovers::Sweep => self.sweep(now, effects),
            Leftovers::Keep => {
                self.stage = Stage::Surveying {
                    until: now.saturating_add(SWEEP_BOUND),
                };
                effects.push(Effect::Survey);
            }
        }
    }

    fn cut_output(&mut self) {
        if !self.open_streams.is_empty() {
            self.incomplete.get_or_insert(IncompleteOutput::HeldOpen);
        }
    }

    fn sweep(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.ladder.kill_at = None;
        self.ladder.give_up_at = None;
        self.ladder.answer_by = None;
        self.ladder.survey = None;
        if self.outcome.is_none() {
            self.push_step(now, LadderAction::Sweep);
        }
        self.stage = Stage::Sweeping {
            until: now.saturating_add(SWEEP_BOUND),
        };
        effects.push(Effect::Sweep);
    }

    fn tree_seen(&mut self, now: Moment, report: TreeReport, effects: &mut Vec<Effect>) {
        let is_empty = report.alive.is_empty();
        let TreeReport { swept, alive, sight } = report;
        match self.stage {
            Stage::Sweeping { .. } => {
                let effect = if swept.is_empty() {
                    StepEffect::MetNobody
                } else {
                    StepEffect::Delivered
                };
                if let Some(step) = self
                    .ladder
                    .steps
                    .last_mut()
                    .filter(|step| step.action == LadderAction::Sweep)
                {
                    step.effect = effect;
                }
                self.swept_pids.extend(swept);
                self.residual_pids = alive;
                self.quiescent = match (is_empty, sight) {
                    (true, Sight::Exact) => Fact::At(now),
                    (true, Sight::Partial) => Fact::Unknown(UnknownFact::PartialSight),
                    (false, _) => Fact::Unknown(UnknownFact::Residual),
                };
                self.leave_sweep(now, effects);
            }
            Stage::Surveying { .. } => {
                self.residual_pids = alive;
                if is_empty {
                    self.sweep(now, effects);
                } else {
                    self.quiescent = Fact::Unknown(UnknownFact::Kept);
                    self.cut_output();
                    self.close_log(now, effects);
                }
            }
            Stage::Terminating => {
                self.residual_pids = alive;
                if self.ladder.answer_by.take().is_some() {
                    effects.push(Effect::AnswerStops);
                }
                if self.exit.is_some() && is_empty {
                    self.sweep(now, effects);
                }
            }
            Stage::Kept => {
                self.residual_pids = alive;
                if is_empty {
                    self.sweep(now, effects);
                }
            }
            _ => {}
        }
    }

    fn leave_sweep(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.open_streams.is_empty() {
            self.reap(effects);
        } else {
            self.stage = Stage::Freed {
                until: now.saturating_add(FREED_OUTPUT_BOUND),
            };
        }
    }

    fn reap(&mut self, effects: &mut Vec<Effect>) {
        self.stage = Stage::Reaping;
        effects.push(Effect::ReleaseOutput);
        effects.push(Effect::Reap);
    }

    fn reaped(&mut self, now: Moment, usage: Option<Usage>, effects: &mut Vec<Effect>) {
        if self.stage != Stage::Reaping {
            return;
        }
        self.usage = usage;
        if let Some(outcome) = &self.outcome {
            // What was kept is gone now; the record stays.
            effects.push(Effect::Released(outcome.clone()));
            self.stage = Stage::Ended;
            return;
        }
        self.close_log(now, effects);
    }

    fn close_log(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let kept = matches!(self.stage, Stage::Surveying { .. });
        let outcome = Box::new(self.make_outcome(now));
        self.outcome = Some(outcome.clone());
        if kept {
            // Kept processes may write on: the log stays open.
            self.stage = Stage::Kept;
            self.survey_at(now, SURVEY_INTERVAL);
            effects.push(Effect::Finish(outcome));
        } else {
            self.stage = Stage::Closing {
                until: now.saturating_add(LOG_CLOSE_BOUND),
            };
            effects.push(Effect::CloseLog(outcome));
        }
    }

    fn log_closed(&mut self, effects: &mut Vec<Effect>) {
        if let (Stage::Closing { .. }, Some(outcome)) = (self.stage, &self.outcome) {
            self.stage = Stage::Ended;
            effects.push(Effect::Finish(outcome.clone()));
        }
    }

    fn let_go(&mut self, effects: &mut Vec<Effect>) {
        if let (Stage::Kept, Some(outcome)) = (self.stage, &self.outcome) {
            effects.push(Effect::ReleaseOutput);
            effects.push(Effect::LetGo(outcome.clone()));
            self.stage = Stage::Ended;
        }
    }

    /// The arbiter: the first ground stands, later ones change nothing.
    fn decide(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
    }

    fn make_outcome(&self, now: Moment) -> Outcome {
        let wall = self
            .clock_offset
            .unix_millis()
            .saturating_add(crate::time::whole_millis(now.since_start()));
        Outcome {
            cause: self.cause.unwrap_or(Cause::Lost),
            status: self.exit.as_ref().map_or_else(
                || ExitObservation::unobserved(now, self.cause == Some(Cause::FailedToStart)).status,
                |exit| exit.status.clone(),
            ),
            observed_by: self.exit.as_ref().map(|exit| exit.observed_by),
            spawned_at: self.spawned_at,
            exited_at: self.exit.as_ref().map(|exit| exit.at),
            closed_at: self.closed_at,
            quiescent: self.quiescent,
            ended_at: now,
            ended_wall: WallTime::from_unix_millis(wall),
            ladder: self
                .ladder
                .steps
                .iter()
                .filter(|step| step.is_worth_telling())
                .cloned()
                .collect(),
            swept_pids: self.swept_pids.clone(),
            residual_pids: self.residual_pids.clone(),
            incomplete_output: self.incomplete,
            output_bytes: self.output_bytes,
            largest_idle_gap: self
                .largest_idle_gap
                .max(self.exit.as_ref().map_or(Duration::ZERO, |exit| {
                    exit.at.saturating_since(self.last_output_at)
                })),
            usage: self.usage,
        }
    }
}
