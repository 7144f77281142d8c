//! Writing: in order, each write whole with respect to the others, and nobody waits but the caller.

use std::{io, sync::Arc};

use ractor::RpcReplyPort;

use super::{
    Event, Internal, MAX_WAITERS, SessionMessage, Turn, parked::ParkedWrite, state::InputState,
    typed::EndTyped,
};
use crate::{
    error::{CallError, CloseStdinError, WriteError},
    report::{WriteEnd, WriteRequest, Written},
    sync::{Watcher, lock},
};

/// How much is written before other messages get their turn, in bytes.
const TURN_BYTES: usize = 256 << 10;

impl Turn<'_> {
    pub(super) fn write(&mut self, request: WriteRequest, reply: RpcReplyPort<Result<Written, WriteError>>) {
        match self.admit_write(&request) {
            Admitted::Queue => {}
            Admitted::Answer(result) => {
                let _ = reply.send(*result);
                return;
            }
            Admitted::Join(index) => {
                if let Some(write) = lock(&self.actor.parked).writes.get_mut(index) {
                    write.replies.push(reply);
                }
                return;
            }
        }
        let until = self.state.now().saturating_add(request.wait);
        self.state.largest_write_bytes = self.state.largest_write_bytes.max(request.input.len() as u64);
        let is_first = {
            let mut parked = lock(&self.actor.parked);
            parked.writes.push_back(ParkedWrite {
                rest: request.input,
                accepted_bytes: 0,
                until,
                request_id: request.request_id,
                replies: vec![reply],
            });
            parked.writes.len() == 1
        };
        if is_first {
            self.write_on();
        }
        if request.wait.is_zero() {
            // Nothing waits: what did not fit at once is not written.
            self.timer_elapsed();
        }
    }

    fn admit_write(&self, request: &WriteRequest) -> Admitted {
        let parked = lock(&self.actor.parked);
        if let Some(id) = &request.request_id {
            if let Some((_, result)) = parked.answered_writes.iter().find(|(answered, _)| answered == id) {
                return Admitted::Answer(Box::new(result.clone()));
            }
            if let Some(index) = parked
                .writes
                .iter()
                .position(|write| write.request_id.as_ref() == Some(id))
            {
                return Admitted::Join(index);
            }
        }
        let bytes = request.input.len() as u64;
        let limit_bytes = self.state.arguments.limits.write_bytes;
        let refusal = if let InputState::None = self.state.input {
            WriteError::NoStdin
        } else if let Some(outcome) = self.state.machine.outcome() {
            WriteError::SessionEnded {
                outcome: Box::new(outcome.clone()),
                accepted_bytes: 0,
            }
        } else if bytes > limit_bytes {
            WriteError::TooLong { bytes, limit_bytes }
        } else if parked.len() >= MAX_WAITERS {
            CallError::TooManyWaiters {
                waiting: parked.len(),
                limit: MAX_WAITERS,
            }
            .into()
        } else {
            match self.state.input {
                InputState::Open(_) => return Admitted::Queue,
                InputState::ReaderClosed => WriteError::ReaderClosed { accepted_bytes: 0 },
                InputState::None | InputState::Closing(_) | InputState::Closed => {
                    WriteError::StdinClosed { accepted_bytes: 0 }
                }
            }
        };
        Admitted::Answer(Box::new(Err(refusal)))
    }

    /// The pipe takes more.
    pub(super) fn writable(&mut self) {
        lock(&self.actor.watchers).input = None;
        // Nothing is written that nobody waits for any more.
        lock(&self.actor.parked).forget_vanished();
        self.write_on();
    }

    /// Writes what waits, as far as the pipe takes it.
    fn write_on(&mut self) {
        let sink = match &self.state.input {
            InputState::Open(sink) | InputState::Closing(sink) => Arc::clone(sink),
            InputState::None | InputState::Closed | InputState::ReaderClosed => return,
        };
        let mut budget = TURN_BYTES;
        loop {
            let mut parked = lock(&self.actor.parked);
            let Some(write) = parked.writes.front_mut() else {
                break;
            };
            if write.rest.is_empty() {
                let written = Written {
                    accepted_bytes: write.accepted_bytes,
                    end: WriteEnd::Complete,
                };
                parked.answer_write(&Ok(written));
                continue;
            }
            if budget == 0 {
                drop(parked);
                let _ = self
                    .myself
                    .cast(SessionMessage::Internal(Internal(Event::Writable)));
                return;
            }
            // Asked each time: the program may change it at any time.
            let mode = sink.terminal();
            if let Some(mode) = mode.as_ref().filter(|_| write.accepted_bytes == 0)
                && let Err(error) = self.state.typed.check(&write.rest, mode)
            {
                parked.answer_write(&Err(error));
                continue;
            }
            let piece = &write.rest[..write.rest.len().min(budget)];
            match sink.try_write(piece) {
                Ok(bytes) => {
                    let bytes = bytes.min(piece.len());
                    if let Some(mode) = &mode {
                        self.state.typed.follow(&piece[..bytes], mode);
                    }
                    let _ = write.rest.split_to(bytes);
                    write.accepted_bytes = write.accepted_bytes.saturating_add(bytes as u64);
                    budget = budget.saturating_sub(bytes.max(1));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    drop(parked);
                    self.watch_input(sink);
                    return;
                }
                Err(_) => {
                    drop(parked);
                    self.reader_closed();
                    return;
                }
            }
        }
        self.after_writes();
    }

    fn watch_input(&mut self, sink: Arc<dyn procession_process::InputSink>) {
        let myself = self.myself.clone();
        lock(&self.actor.watchers).input.get_or_insert_with(|| {
            Watcher::spawn(async move {
                // An error shows at the write that follows.
                let _ = sink.writable().await;
                drop(sink);
                let _ = myself.cast(SessionMessage::Internal(Internal(Event::Writable)));
            })
        });
    }

    /// Nobody reads any more: writes that wait are told so.
    fn reader_closed(&mut self) {
        self.drop_input(InputState::ReaderClosed);
        let mut parked = lock(&self.actor.parked);
        while let Some(write) = parked.writes.front() {
            let error = WriteError::ReaderClosed {
                accepted_bytes: write.accepted_bytes,
            };
            parked.answer_write(&Err(error));
        }
        let closes = std::mem::take(&mut parked.closes);
        drop(parked);
        for reply in closes {
            let _ = reply.send(Ok(()));
        }
    }

    /// Where a close waits for writes and none is left, it is done.
    pub(super) fn after_writes(&mut self) {
        let InputState::Closing(sink) = &self.state.input else {
            return;
        };
        if !lock(&self.actor.parked).writes.is_empty() {
            return;
        }
        let sink = Arc::clone(sink);
        let (state, result) = match sink.terminal() {
            None => (InputState::Closed, Ok(())),
            Some(mode) => match self.state.typed.type_end(&*sink, &mode) {
                EndTyped::Done => (InputState::Open(sink), Ok(())),
                EndTyped::Raw => (InputState::Open(sink), Err(CloseStdinError::TerminalRaw)),
                EndTyped::ReaderGone => (InputState::ReaderClosed, Ok(())),
                EndTyped::Blocked => {
                    self.watch_input(sink);
                    return;
                }
            },
        };
        self.drop_input(state);
        let closes = std::mem::take(&mut lock(&self.actor.parked).closes);
        for reply in closes {
            let _ = reply.send(result.clone());
        }
    }

    fn drop_input(&mut self, state: InputState) {
        self.state.input = state;
        lock(&self.actor.watchers).input = None;
    }

    pub(super) fn close_stdin(&mut self, reply: RpcReplyPort<Result<(), CloseStdinError>>) {
        match &self.state.input {
            InputState::None => {
                let _ = reply.send(Err(CloseStdinError::NoStdin));
            }
            InputState::Closed | InputState::ReaderClosed => {
                let _ = reply.send(Ok(()));
            }
            // Once more would be the end of whoever reads next.
            InputState::Open(_)
                if self.state.typed.is_at_end() && lock(&self.actor.parked).writes.is_empty() =>
            {
                let _ = reply.send(Ok(()));
            }
            InputState::Open(sink) | InputState::Closing(sink) => {
                self.state.input = InputState::Closing(Arc::clone(sink));
                lock(&self.actor.parked).closes.push(reply);
                self.after_writes();
            }
        }
    }

    /// The session has ended: what waits is told so, with how much was accepted.
    pub(super) fn end_input(&mut self) {
        if !matches!(self.state.input, InputState::None) {
            self.drop_input(InputState::Closed);
        }
        let Some(outcome) = self.state.machine.outcome().cloned() else {
            return;
        };
        let mut parked = lock(&self.actor.parked);
        while let Some(write) = parked.writes.front() {
            let accepted_bytes = write.accepted_bytes;
            let error = WriteError::SessionEnded {
                outcome: Box::new(outcome.clone()),
                accepted_bytes,
            };
            parked.answer_write(&Err(error));
        }
        let closes = std::mem::take(&mut parked.closes);
        drop(parked);
        for reply in closes {
            let _ = reply.send(Ok(()));
        }
    }
}

/// What becomes of a write that arrives.
enum Admitted {
    /// It goes to the end of the queue.
    Queue,
    /// It is answered at once.
    Answer(Box<Result<Written, WriteError>>),
    /// It is the same as the one at this place of the queue.
    Join(usize),
}
