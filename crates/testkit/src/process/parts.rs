//! The parts of a played process, as the port promises them.

use std::{
    future, io,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::{BufMut, BytesMut};
use procession_core::{
    Signal, Status, StreamId,
    outcome::{ObservedBy, StepEffect, Usage},
    session::TreeReport,
    spec::TerminalSize,
    terminal::TerminalMode,
};
use procession_process::{BoxFuture, InputSink, Leader, OutputSource, SpawnRequest, Tree};
use tokio::{sync::Notify, time::Instant};

use super::{
    script::{Step, Steps},
    state::{State, Target},
};

/// What all parts share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pid: u32,
    pub(super) request: SpawnRequest,
    pub(super) started_at: Instant,
    state: Mutex<State>,
    changed: Notify,
}

impl Shared {
    pub(super) fn new(pid: u32, request: SpawnRequest, state: State) -> Self {
        Self {
            pid,
            request,
            started_at: Instant::now(),
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_waiters();
        result
    }

    /// Waits until there is an answer.
    pub(super) async fn until<T>(&self, answer: impl Fn() -> Option<T>) -> T {
        loop {
            // Before the look, so that no change gets lost between look and wait.
            let changed = self.changed.notified();
            if let Some(answer) = answer() {
                return answer;
            }
            changed.await;
        }
    }

    /// Plays steps: at once up to the first wait, the rest in a task.
    pub(super) fn play(shared: &Arc<Self>, mut steps: Steps) {
        while let Some(step) = steps.0.pop_front() {
            match step {
                Step::Wait(time) => {
                    let shared = Arc::clone(shared);
                    tokio::spawn(async move {
                        tokio::time::sleep(time).await;
                        Self::play(&shared, steps);
                    });
                    return;
                }
                Step::Emit(stream, bytes) => shared.change(|state| state.emit(stream, bytes)),
                Step::Close(stream) => shared.change(|state| state.close(stream)),
                Step::Fork(descendant) => shared.change(|state| state.fork(descendant)),
                Step::End(status) => shared.change(|state| state.end_leader(status)),
            }
        }
    }

    fn send(shared: &Arc<Self>, signal: Signal, target: Target) -> StepEffect {
        let at = shared.started_at.elapsed();
        let (effect, reaction) = shared.change(|state| state.signal(signal, target, at));
        if let Some(steps) = reaction {
            Self::play(shared, steps);
        }
        effect
    }
}

#[derive(Debug)]
pub(super) struct PlayedOutput {
    pub(super) shared: Arc<Shared>,
    pub(super) stream: StreamId,
}

impl OutputSource for PlayedOutput {
    fn readable(&self) -> BoxFuture<'_, io::Result<()>> {
        let is_readable = || {
            self.shared.look(|state| {
                let pipe = state.pipe(self.stream)?;
                let is_ready = !pipe.waiting.is_empty() || pipe.is_closed || pipe.errno.is_some();
                (is_ready && !pipe.is_blocked).then_some(Ok(()))
            })
        };
        Box::pin(self.shared.until(is_readable))
    }

    fn try_read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        let most = buffer.capacity() - buffer.len();
        self.shared.change(|state| {
            let Some(pipe) = state.pipes.get_mut(&self.stream) else {
                return Ok(0);
            };
            if let Some(piece) = pipe.take(most) {
                buffer.put_slice(&piece);
                return Ok(piece.len());
            }
            match pipe.errno.take() {
                Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                None if pipe.is_closed => Ok(0),
                None => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
    }

    fn waiting_bytes(&self) -> Option<u64> {
        if self.shared.request.terminal.is_some() {
            return None;
        }
        self.shared
            .look(|state| state.pipe(self.stream).map(|pipe| pipe.waiting_bytes() as u64))
    }
}

impl Drop for PlayedOutput {
    fn drop(&mut self) {
        self.shared.change(|state| {
            if let Some(pipe) = state.pipes.get_mut(&self.stream) {
                pipe.is_released = true;
            }
        });
    }
}

#[derive(Debug)]
pub(super) struct PlayedInput(pub(super) Arc<Shared>);

impl InputSink for PlayedInput {
    fn writable(&self) -> BoxFuture<'_, io::Result<()>> {
        let is_writable = || {
            self.0.look(|state| {
                let input = &state.input;
                (input.is_reader_closed || input.room_bytes() > 0).then_some(Ok(()))
            })
        };
        Box::pin(self.0.until(is_writable))
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.change(|state| {
            let input = &mut state.input;
            if input.is_reader_closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let accepted = &bytes[..bytes.len().min(input.room_bytes())];
            if accepted.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            input.waiting.extend_from_slice(accepted);
            input.written.extend_from_slice(accepted);
            Ok(accepted.len())
        })
    }

    fn terminal(&self) -> Option<TerminalMode> {
        self.0.look(|state| state.input.mode.clone())
    }
}

impl Drop for PlayedInput {
    fn drop(&mut self) {
        self.0.change(|state| state.input.is_writer_closed = true);
    }
}

#[derive(Debug)]
pub(super) struct PlayedLeader(pub(super) Arc<Shared>);

impl Leader for PlayedLeader {
    fn exited(&self) -> BoxFuture<'_, io::Result<()>> {
        let exited = || {
            self.0.look(|state| match (state.observation_errno, &state.end) {
                (Some(errno), _) => Some(Err(io::Error::from_raw_os_error(errno))),
                (None, Some(_)) => Some(Ok(())),
                (None, None) => None,
            })
        };
        Box::pin(self.0.until(exited))
    }

    fn peek(&self) -> Option<(Status, ObservedBy)> {
        self.0.look(|state| {
            let status = state.end.clone().filter(|_| state.observation_errno.is_none())?;
            let is_unknown = matches!(status, Status::Unknown { .. });
            Some((
                status,
                if is_unknown {
                    ObservedBy::Nobody
                } else {
                    ObservedBy::Script
                },
            ))
        })
    }

    fn has_exited(&self) -> bool {
        self.peek().is_some() || self.0.look(|state| state.is_exit_untold)
    }

    fn reap(&self) -> Option<Usage> {
        self.0.change(|state| {
            if state.end.is_none() || std::mem::replace(&mut state.is_reaped, true) {
                return None;
            }
            state.usage
        })
    }
}

#[derive(Debug)]
pub(super) struct PlayedTree(pub(super) Arc<Shared>);

impl Tree for PlayedTree {
    fn signal_all(&self, signal: Signal) -> StepEffect {
        Shared::send(&self.0, signal, Target::Tree)
    }

    fn signal_foreground(&self, signal: Signal) -> StepEffect {
        Shared::send(&self.0, signal, Target::Foreground)
    }

    fn kill(&self) -> StepEffect {
        Shared::send(&self.0, Signal::KILL, Target::Kill)
    }

    fn survey(&self) -> BoxFuture<'static, TreeReport> {
        answer(self.0.change(State::survey))
    }

    fn sweep(&self) -> BoxFuture<'static, TreeReport> {
        answer(self.0.change(State::sweep))
    }

    fn leave(&self) -> BoxFuture<'static, io::Result<()>> {
        self.0.change(|state| {
            assert!(!state.is_reaped, "a tree is left before its leader is reaped");
            state.was_left = true;
        });
        Box::pin(future::ready(Ok(())))
    }

    fn resize(&self, size: TerminalSize) -> io::Result<()> {
        if self.0.request.terminal.is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.0.change(|state| state.resizes.push(size));
        Ok(())
    }
}

fn answer(report: Option<TreeReport>) -> BoxFuture<'static, TreeReport> {
    match report {
        Some(report) => Box::pin(future::ready(report)),
        None => Box::pin(future::pending()),
    }
}
