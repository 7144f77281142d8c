//! Answers: what is told at once, what is parked, and what wakes it.

use std::{sync::Arc, time::Duration};

use procession_core::{
    Phase, Signal, StreamId,
    capture::Piece,
    outcome::{Fact, UnknownFact},
    preview::read_text,
    render::Render,
    session::Input,
    spec::TerminalSize,
    text::ReadPosition,
};
use ractor::RpcReplyPort;

use super::{
    MAX_WAITERS, Turn,
    parked::{ParkedPoll, ParkedRead, ParkedWait},
    state::{EndSeen, Pause},
};
use crate::{
    error::{CallError, InspectError, PollError, ResizeError, SignalError, StopError, WaitError},
    report::{
        Condition, Inspection, OutputBytes, PollQuery, PollReport, RawOutput, RawPiece, ReadQuery,
        StopReport, StopRequest, WaitReport, WaitResult, budget_or,
    },
    sync::lock,
};

impl Turn<'_> {
    pub(super) fn poll(&mut self, query: PollQuery, reply: RpcReplyPort<Result<PollReport, PollError>>) {
        if let Err(error) = self.check_render(query.render) {
            let _ = reply.send(Err(error));
            return;
        }
        if query.wait.is_zero() || self.has_text(&query) {
            self.answer_poll(&query, reply);
            return;
        }
        let latest = self.state.now().saturating_add(query.wait);
        let until = self.patience(&query, latest);
        match self.room_to_park() {
            Ok(()) => lock(&self.actor.parked).polls.push(ParkedPoll {
                query,
                until,
                latest,
                reply,
            }),
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    pub(super) fn read_output(
        &mut self,
        query: ReadQuery,
        reply: RpcReplyPort<Result<RawOutput, PollError>>,
    ) {
        if query.wait.is_zero() || self.has_bytes(query.cursor) {
            self.answer_read(&query, reply);
            return;
        }
        let until = self.state.now().saturating_add(query.wait);
        match self.room_to_park() {
            Ok(()) => lock(&self.actor.parked)
                .reads
                .push(ParkedRead { query, until, reply }),
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    fn room_to_park(&self) -> Result<(), CallError> {
        let mut parked = lock(&self.actor.parked);
        if parked.len() >= MAX_WAITERS {
            parked.forget_vanished();
        }
        if parked.len() >= MAX_WAITERS {
            return Err(CallError::TooManyWaiters {
                waiting: parked.len(),
                limit: MAX_WAITERS,
            });
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.state.machine.phase() == Phase::Ended
    }

    fn has_bytes(&self, cursor: Option<ReadPosition>) -> bool {
        self.has_ended()
            || cursor
                .unwrap_or(self.state.drained)
                .unread_bytes(&self.state.capture)
                > 0
    }

    /// Whether a poll would return more than half a character.
    fn has_text(&self, query: &PollQuery) -> bool {
        if self.has_ended() {
            return true;
        }
        let position = query.cursor.unwrap_or(self.state.drained);
        match position.unread_bytes(&self.state.capture) {
            0 => false,
            _ if query.render == Render::Plain => self.has_lines(query, position),
            // The longest character has four bytes: so many in two streams can be held back.
            1..=6 => !read_text(&self.state.capture, position, budget_or(None, 128)).is_empty(),
            _ => true,
        }
    }

    /// Answers a poll; what nobody got any more is there for the next.
    pub(super) fn answer_poll(
        &mut self,
        query: &PollQuery,
        reply: RpcReplyPort<Result<PollReport, PollError>>,
    ) {
        if reply.is_closed() {
            return;
        }
        let drained = self.state.drained;
        let report = self.poll_report(query);
        if reply.send(Ok(report)).is_err() {
            self.state.drained = drained;
        }
    }

    /// Answers a read, likewise.
    pub(super) fn answer_read(
        &mut self,
        query: &ReadQuery,
        reply: RpcReplyPort<Result<RawOutput, PollError>>,
    ) {
        if reply.is_closed() {
            return;
        }
        let drained = self.state.drained;
        let output = self.raw_output(query);
        if reply.send(Ok(output)).is_err() {
            self.state.drained = drained;
        }
    }

    fn poll_report(&mut self, query: &PollQuery) -> PollReport {
        let position = query.cursor.unwrap_or(self.state.drained);
        let (reading, screen) = self.show(query, position);
        if query.cursor.is_none() {
            self.drain_to(reading.next);
        }
        let outcome = self.told_outcome();
        PollReport {
            session: self.state.arguments.session,
            phase: self.state.machine.phase(),
            pid: self.state.machine.pid(),
            outcome,
            residual_pids: self.state.machine.residual_pids().to_vec(),
            stdout: reading.stdout,
            stderr: reading.stderr,
            cursor: reading.next,
            omitted: reading.omitted,
            screen,
            log: self.state.log_summary(),
        }
    }

    fn raw_output(&mut self, query: &ReadQuery) -> RawOutput {
        let mut cursor = query.cursor.unwrap_or(self.state.drained);
        let mut rest = query.max_bytes.max(1);
        let mut pieces = Vec::new();
        for stream in StreamId::ALL {
            let mut omitted_bytes = 0;
            for piece in self.state.capture.range(stream, cursor.offset(stream)) {
                match piece {
                    Piece::Gap { from, to } => {
                        omitted_bytes += to.saturating_sub(from);
                        advance(&mut cursor, stream, to.saturating_sub(from));
                    }
                    Piece::Bytes { bytes, .. } => {
                        let taken = usize::try_from(rest).unwrap_or(usize::MAX).min(bytes.len());
                        if taken == 0 {
                            break;
                        }
                        let bytes = bytes::Bytes::copy_from_slice(&bytes[..taken]);
                        pieces.push(RawPiece {
                            stream,
                            omitted_bytes: std::mem::take(&mut omitted_bytes),
                            bytes,
                        });
                        advance(&mut cursor, stream, taken as u64);
                        rest = rest.saturating_sub(taken as u64);
                    }
                }
            }
        }
        if query.cursor.is_none() {
            self.drain_to(cursor);
        }
        RawOutput {
            phase: self.state.machine.phase(),
            outcome: self.told_outcome(),
            pieces,
            cursor,
        }
    }

    /// The session's own cursor moves on; where it sets the pace, reading goes on.
    fn drain_to(&mut self, position: ReadPosition) {
        self.state.drained = position;
        self.resume(Pause::ForReader);
    }

    /// The outcome, for somebody of the owner's; the registry learns that it was told.
    fn told_outcome(&mut self) -> Option<procession_core::Outcome> {
        if !self.has_ended() {
            return None;
        }
        if std::mem::replace(&mut self.state.end_seen, EndSeen::Seen) == EndSeen::NotYet {
            self.state.arguments.reporter.end_seen();
        }
        self.state.machine.outcome().cloned()
    }

    /// Answers who waits for output, where there is some.
    pub(super) fn answer_readers(&mut self) {
        self.renew_patience();
        // One after the other: the first that reads at the session's own cursor takes what the next waits for.
        loop {
            let mut parked = lock(&self.actor.parked);
            let Some(index) = parked.polls.iter().position(|poll| self.has_text(&poll.query)) else {
                break;
            };
            let poll = parked.polls.remove(index);
            drop(parked);
            self.answer_poll(&poll.query, poll.reply);
        }
        loop {
            let mut parked = lock(&self.actor.parked);
            let Some(index) = parked
                .reads
                .iter()
                .position(|read| self.has_bytes(read.query.cursor))
            else {
                break;
            };
            let read = parked.reads.remove(index);
            drop(parked);
            self.answer_read(&read.query, read.reply);
        }
    }

    pub(super) fn wait(
        &mut self,
        condition: Condition,
        timeout: Duration,
        reply: RpcReplyPort<Result<WaitReport, WaitError>>,
    ) {
        if let Some(result) = self
            .holds(condition)
            .or(timeout.is_zero().then_some(WaitResult::TimedOut))
        {
            let report = self.wait_report(result);
            let _ = reply.send(Ok(report));
            return;
        }
        let until = self.state.now().saturating_add(timeout);
        match self.room_to_park() {
            Ok(()) => lock(&self.actor.parked).waits.push(ParkedWait {
                condition,
                until,
                reply,
            }),
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    /// Whether a condition holds, or can no longer come to hold.
    fn holds(&self, condition: Condition) -> Option<WaitResult> {
        let machine = &self.state.machine;
        let fired = match condition {
            Condition::Exited => machine.exit().is_some(),
            Condition::Closed => machine.closed_at().is_some(),
            Condition::Quiescent => machine.quiescent().at().is_some(),
            Condition::Ended => self.has_ended(),
        };
        if fired {
            return Some(WaitResult::Fired);
        }
        let kept = machine.quiescent() == Fact::Unknown(UnknownFact::Kept);
        (self.has_ended() && !kept).then_some(WaitResult::Impossible)
    }

    pub(super) fn answer_waits(&mut self) {
        let mut parked = lock(&self.actor.parked);
        let mut due = Vec::new();
        let mut index = 0;
        while index < parked.waits.len() {
            match self.holds(parked.waits[index].condition) {
                Some(result) => due.push((parked.waits.remove(index), result)),
                None => index += 1,
            }
        }
        drop(parked);
        for (wait, result) in due {
            let report = self.wait_report(result);
            let _ = wait.reply.send(Ok(report));
        }
    }

    pub(super) fn wait_report(&mut self, result: WaitResult) -> WaitReport {
        WaitReport {
            result,
            phase: self.state.machine.phase(),
            outcome: self.told_outcome(),
            cursor: ReadPosition::at_end(&self.state.capture),
        }
    }

    pub(super) fn signal(&mut self, signal: Signal, reply: RpcReplyPort<Result<(), SignalError>>) {
        let result = match (self.state.machine.outcome(), &self.state.process) {
            (Some(outcome), _) => Err(SignalError::SessionEnded {
                outcome: Box::new(outcome.clone()),
            }),
            (None, None) => Err(SignalError::NotStarted),
            (None, Some(process)) => {
                process.tree.signal_foreground(signal);
                Ok(())
            }
        };
        let _ = reply.send(result);
    }

    pub(super) fn resize(&mut self, size: TerminalSize, reply: RpcReplyPort<Result<(), ResizeError>>) {
        let result = match (self.state.machine.outcome(), &self.state.process) {
            (Some(outcome), _) => Err(ResizeError::SessionEnded {
                outcome: Box::new(outcome.clone()),
            }),
            (None, Some(process)) if self.state.arguments.decision.terminal().is_some() => {
                let resized = process.tree.resize(size);
                resized
                    .map(|()| self.state.screen_resized(size))
                    .map_err(|error| ResizeError::Failed {
                        errno: error.raw_os_error().unwrap_or_default(),
                    })
            }
            (None, _) => Err(ResizeError::NoTerminal),
        };
        let _ = reply.send(result);
    }

    pub(super) fn stop(&mut self, request: &StopRequest, reply: RpcReplyPort<Result<StopReport, StopError>>) {
        if let Err(error) = self.room_to_park() {
            // It is ended all the same: a stop is never refused for want of room.
            tracing::debug!(session = %self.state.arguments.session, %error, "a stop is answered at once");
            self.advance(Input::End {
                cause: procession_core::Cause::Stop,
                ladder: request.ladder.into(),
            });
            let report = self.stop_report();
            let _ = reply.send(Ok(report));
            return;
        }
        lock(&self.actor.parked).stops.push(reply);
        self.advance(Input::End {
            cause: procession_core::Cause::Stop,
            ladder: request.ladder.into(),
        });
        let is_over = self.has_ended() && (self.state.machine.is_released());
        if is_over {
            self.answer_stops();
        }
    }

    pub(super) fn answer_stops(&mut self) {
        let stops = std::mem::take(&mut lock(&self.actor.parked).stops);
        for reply in stops {
            let report = self.stop_report();
            let _ = reply.send(Ok(report));
        }
    }

    fn stop_report(&mut self) -> StopReport {
        StopReport {
            phase: self.state.machine.phase(),
            outcome: self.told_outcome(),
            residual_pids: self.state.machine.residual_pids().to_vec(),
        }
    }

    pub(super) fn inspect(&mut self, reply: RpcReplyPort<Result<Inspection, InspectError>>) {
        let outcome = self.told_outcome();
        let environment = &self.state.arguments.environment;
        let environment_names = Arc::clone(
            self.state
                .environment_names
                .get_or_insert_with(|| environment.names().into()),
        );
        let state = &*self.state;
        let inspection = Inspection {
            session: state.arguments.session,
            label: state.arguments.spec.label.clone(),
            phase: state.machine.phase(),
            pid: state.machine.pid(),
            outcome,
            decision: Arc::clone(&state.arguments.decision),
            receipt: state.receipt.clone(),
            containment: state.containment(),
            environment_names,
            residual_pids: state.machine.residual_pids().to_vec(),
            output_bytes: OutputBytes {
                stdout: state.capture.total(StreamId::Stdout),
                stderr: state.capture.total(StreamId::Stderr),
            },
            redactions: state.redactions(),
            log: state.log_summary(),
        };
        let _ = reply.send(Ok(inspection));
    }
}

fn advance(position: &mut ReadPosition, stream: StreamId, bytes: u64) {
    match stream {
        StreamId::Stdout => position.stdout = position.stdout.saturating_add(bytes),
        StreamId::Stderr => position.stderr = position.stderr.saturating_add(bytes),
    }
}
