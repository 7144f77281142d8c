//! The machine's effects, carried out.

use std::{collections::VecDeque, sync::Arc};

use procession_core::{
    Cause, Outcome, Status,
    outcome::{ExitObservation, ObservedBy, UnknownStatus, Usage},
    session::{Effect, Input, LadderKind, TreeReport},
};
use procession_policy::{EndRecord, Observation, Receipt, Record, encode_record};
use procession_process::{BoxFuture, Leader, Spawned, Tree};

use super::{
    Event, Internal, Launched, SessionMessage, Turn,
    state::{InputState, LogHandle, Process},
};
use crate::{
    log::LogMessage,
    report::LogSummary,
    sync::{Watcher, lock},
};

impl Turn<'_> {
    /// Log and process were made, or not.
    pub(super) fn launched(&mut self, launched: Launched) {
        lock(&self.actor.watchers).launch = None;
        self.state.log = match launched.log {
            Ok(opened) => LogHandle::Open {
                feed: opened.feed,
                path: opened.path,
            },
            Err(incomplete) => LogHandle::None(incomplete),
        };
        match launched.spawned {
            Ok(spawned) => self.spawned(spawned),
            Err(failure) => {
                self.state.arguments.reporter.start_failed(failure);
                self.advance(Input::StartFailed);
            }
        }
    }

    fn spawned(&mut self, spawned: Spawned) {
        let Spawned {
            pid,
            outputs,
            input,
            leader,
            tree,
            guard,
            containment,
        } = spawned;
        *lock(&self.actor.guard) = Some(guard);
        if let Some(sink) = input {
            self.state.input = InputState::Open(sink);
        }
        self.watch_leader(&leader);
        self.state.process = Some(Process { leader, tree });
        self.state.containment = Some(containment);
        let streams: Vec<_> = outputs.iter().map(|(stream, _)| *stream).collect();
        for stream in procession_core::StreamId::ALL {
            if !streams.contains(&stream) {
                self.state.capture.close(stream);
            }
        }
        self.advance(Input::Spawned { pid, streams });
        for (stream, source) in outputs {
            self.watch_output(stream, source);
        }
        self.state.arguments.reporter.started(pid, containment);
    }

    fn watch_leader(&self, leader: &Arc<dyn Leader>) {
        let (leader, myself) = (Arc::clone(leader), self.myself.clone());
        lock(&self.actor.watchers).leader = Some(Watcher::spawn(async move {
            let exited = leader.exited().await;
            let _ = myself.cast(SessionMessage::Internal(Internal(Event::LeaderExited(exited))));
        }));
    }

    /// The leader's exit can be seen, or can be waited for no more.
    pub(super) fn leader_exited(&mut self, exited: std::io::Result<()>) {
        if self.look_at_leader() {
            return;
        }
        match (exited, &self.state.process) {
            (Ok(()), Some(process)) => {
                let leader = Arc::clone(&process.leader);
                self.watch_leader(&leader); // A false alarm.
            }
            (Ok(()), None) => {}
            (Err(error), _) => {
                let at = self.state.now();
                let reason = UnknownStatus::ObservationFailed {
                    errno: error.raw_os_error().unwrap_or_default(),
                };
                let status = Status::Unknown { reason };
                let observation = ExitObservation {
                    status,
                    observed_by: ObservedBy::Nobody,
                    at,
                };
                self.advance(Input::Exited { observation });
            }
        }
    }

    /// Looks whether the leader has exited; then what it wrote is read before its exit is told.
    fn look_at_leader(&mut self) -> bool {
        if self.state.machine.exit().is_some() {
            return true;
        }
        let Some(process) = &self.state.process else {
            return false;
        };
        let Some((status, observed_by)) = process.leader.peek() else {
            return false;
        };
        let at = self.state.now();
        self.read_what_waits();
        self.advance(Input::Exited {
            observation: ExitObservation {
                status,
                observed_by,
                at,
            },
        });
        true
    }

    /// An end on somebody else's ground.
    pub(super) fn end(&mut self, cause: Cause, ladder: LadderKind) {
        self.advance(Input::End { cause, ladder });
    }

    /// What is kept is to live on without the session.
    pub(super) fn let_go(&mut self) {
        self.advance(Input::LetGo);
    }

    pub(super) fn tree_seen(&mut self, report: TreeReport) {
        self.advance(Input::TreeSeen(report));
    }

    pub(super) fn log_closed(&mut self, summary: LogSummary) {
        self.state.log = LogHandle::Closed(summary);
        self.advance(Input::LogClosed);
    }

    /// Feeds the machine and carries out what it asks for, until it asks for nothing more.
    pub(super) fn advance(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let now = self.state.now();
            for effect in self.state.machine.step(now, input) {
                self.carry_out(effect, &mut inputs);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect, inputs: &mut VecDeque<Input>) {
        match effect {
            Effect::Observe => {
                let is_told = self.look_at_leader();
                if !is_told {
                    self.read_what_waits();
                }
                let has_exited = |process: &Process| process.leader.has_exited();
                let is_untold = !is_told && self.state.process.as_ref().is_some_and(has_exited);
                inputs.push_back(if is_untold {
                    Input::ExitUntold
                } else {
                    Input::Observed
                });
            }
            Effect::SignalTree { signal, step } => {
                if let Some(process) = &self.state.process {
                    let effect = process.tree.signal_all(signal);
                    inputs.push_back(Input::Signaled { step, effect });
                }
            }
            Effect::KillTree { step } => {
                if let Some(process) = &self.state.process {
                    let effect = process.tree.kill();
                    inputs.push_back(Input::Signaled { step, effect });
                }
            }
            Effect::Survey => self.ask_tree(|tree| tree.survey()),
            Effect::Sweep => self.ask_tree(|tree| tree.sweep()),
            Effect::ReleaseOutput => self.release_output(),
            Effect::Reap => {
                let usage = self.reap();
                inputs.push_back(Input::Reaped { usage });
            }
            Effect::CloseLog(outcome) => {
                if !self.close_log(&outcome) {
                    inputs.push_back(Input::LogClosed);
                }
            }
            Effect::Finish(outcome) => self.ended(*outcome),
            Effect::AnswerStops => self.answer_stops(),
            Effect::Released(outcome) => self.released(&outcome),
            Effect::LetGo(outcome) => self.leave_kept(outcome),
            _ => tracing::error!("the session's machine asks for what this actor does not know"),
        }
    }

    /// Has the tree left to itself in a task; that it is comes as a message.
    fn leave_kept(&mut self, outcome: Box<Outcome>) {
        let Some(process) = &self.state.process else {
            self.left(&outcome, Ok(()));
            return;
        };
        let (answer, myself) = (process.tree.leave(), self.myself.clone());
        lock(&self.actor.watchers).tree = Some(Watcher::spawn(async move {
            let left = answer.await;
            let _ = myself.cast(SessionMessage::Internal(Internal(Event::Left(outcome, left))));
        }));
    }

    pub(super) fn left(&mut self, outcome: &Outcome, left: std::io::Result<()>) {
        if let Err(error) = left {
            tracing::warn!(session = %self.state.arguments.session, %error, "what was kept ends with the host");
        }
        // The leader is reaped and the guard disarmed: nothing is signalled from here on.
        let _ = self.reap();
        self.released(outcome);
    }

    /// Asks about the tree in a task; the answer comes as a message.
    fn ask_tree(&mut self, question: impl FnOnce(&dyn Tree) -> BoxFuture<'static, TreeReport>) {
        let Some(process) = &self.state.process else {
            return;
        };
        let (answer, myself) = (question(&*process.tree), self.myself.clone());
        lock(&self.actor.watchers).tree = Some(Watcher::spawn(async move {
            let report = answer.await;
            let _ = myself.cast(SessionMessage::Internal(Internal(Event::TreeSeen(report))));
        }));
    }

    fn reap(&mut self) -> Option<Usage> {
        let usage = self
            .state
            .process
            .as_ref()
            .and_then(|process| process.leader.reap());
        // The tree is swept and the leader reaped: from here on its number may become somebody else's.
        if let Some(guard) = lock(&self.actor.guard).take() {
            guard.disarm();
        }
        lock(&self.actor.watchers).leader = None;
        usage
    }

    /// Has the log closed; answers whether somebody will tell that it is.
    fn close_log(&mut self, outcome: &Outcome) -> bool {
        let observation = Observation {
            log_bytes: None,
            largest_write_bytes: Some(self.state.largest_write_bytes).filter(|bytes| *bytes > 0),
            containment: Some(self.state.containment()),
            ..Observation::default()
        };
        let receipt = Receipt::new(&self.state.arguments.decision, outcome, &observation);
        self.state.receipt = Some(receipt.clone());
        let (Some(log), LogHandle::Open { feed, path }) = (&self.state.arguments.log, &self.state.log) else {
            return false;
        };
        let record = EndRecord {
            decision: (*self.state.arguments.decision).clone(),
            outcome: outcome.clone(),
            receipt,
        };
        let end_record = encode_record(&Record::End(Box::new(record))).unwrap_or_default();
        let is_written = feed.is_written();
        let (feed, path, myself) = (feed.clone(), path.clone(), self.myself.clone());
        // Asked here and now, so that it is asked even if this actor is gone before its task runs.
        let (reply, answer) = ractor::concurrency::oneshot();
        let asked = log.cast(LogMessage::Close {
            session: self.state.arguments.session,
            end_record,
            reply: reply.into(),
        });
        if asked.is_err() {
            feed.give_up("the log's actor is gone");
            return false;
        }
        lock(&self.actor.watchers).log = Some(Watcher::spawn(async move {
            let summary = answer.await.unwrap_or_else(|_| {
                feed.give_up("the log's actor is gone");
                LogSummary {
                    path,
                    ..feed.status()
                }
            });
            let _ = myself.cast(SessionMessage::Internal(Internal(Event::LogClosed(summary))));
        }));
        // Where all is written already there is nothing to learn that the end would have to wait for.
        !is_written
    }

    /// What was kept is gone, or no longer ours.
    fn released(&mut self, outcome: &Outcome) {
        // The log was left open for what was kept; nobody waits for it to be closed.
        let _ = self.close_log(outcome);
        self.state.process = None;
        self.state.arguments.reporter.released();
        self.answer_stops();
    }

    /// The record is final: everybody who waits is told.
    fn ended(&mut self, outcome: Outcome) {
        if self.state.receipt.is_none() {
            let observation = Observation {
                containment: Some(self.state.containment()),
                ..Observation::default()
            };
            self.state.receipt = Some(Receipt::new(
                &self.state.arguments.decision,
                &outcome,
                &observation,
            ));
        }
        self.end_input();
        if self.state.machine.is_released() {
            // For as long as it can be read, an ended session holds no descriptor of a process.
            self.state.process = None;
        }
        self.state.arguments.reporter.ended(outcome);
        self.answer_stops();
        self.answer_waits();
        self.answer_readers();
    }

    /// The end of a turn: who gave up is forgotten, the rest is told what is new, the timer is set.
    pub(super) fn finish(&mut self) {
        let mut parked = lock(&self.actor.parked);
        let is_idle = parked.len() == 0;
        if !is_idle {
            parked.forget_vanished();
        }
        drop(parked);
        if !is_idle {
            self.after_writes();
            self.answer_waits();
        }
        let state = &*self.state;
        let unread_bytes = state.drained.unread_bytes(&state.capture);
        state.arguments.reporter.publish(
            state.machine.phase(),
            state.machine.last_output_at(),
            unread_bytes,
        );
        self.arm_timer();
    }
}
