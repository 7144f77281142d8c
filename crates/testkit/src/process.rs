//! Processes that are played: what the port promises, without an operating system.
//!
//! A [`Script`] says how a process begins and how it takes signals; a [`ScriptedProcess`] is the test's hand on it while
//! it runs. Everything happens in the test's order, times are those of tokio's clock.

mod parts;
mod port;
mod script;
mod state;

pub use port::ScriptedPort;
pub use script::{Descendant, Script, Steps};
pub use state::{SentSignal, Target};

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use procession_core::{
    Signal, Status, StreamId,
    outcome::{UnknownStatus, Usage},
    session::Sight,
    spec::TerminalSize,
    terminal::TerminalMode,
};
use procession_process::SpawnRequest;

use crate::patience::expect;
use parts::Shared;
use state::{Answering, State};

/// The test's hand on a played process; clones are the same process.
#[derive(Clone)]
pub struct ScriptedProcess(Arc<Shared>);

impl fmt::Debug for ScriptedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedProcess")
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}

impl ScriptedProcess {
    /// The leader's pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// What was asked for.
    #[must_use]
    pub fn request(&self) -> &SpawnRequest {
        &self.0.request
    }

    /// Writes to a stream; nothing where it is closed. On a terminal and with merged streams all goes to one.
    pub fn emit(&self, stream: StreamId, bytes: impl Into<Bytes>) {
        self.0.change(|state| state.emit(stream, bytes.into()));
    }

    /// Withholds that a stream can be read: what is written waits in the pipe, as on a host that has no time to look.
    pub fn block_output(&self, stream: StreamId) {
        self.0.change(|state| state.set_blocked(stream, true));
    }

    /// Tells again when a stream can be read.
    pub fn unblock_output(&self, stream: StreamId) {
        self.0.change(|state| state.set_blocked(stream, false));
    }

    /// Closes a stream, whoever holds it.
    pub fn close(&self, stream: StreamId) {
        self.0.change(|state| state.close(stream));
    }

    /// Has the next read of a stream fail with this error number.
    pub fn fail_output(&self, stream: StreamId, errno: i32) {
        self.0.change(|state| state.fail_output(stream, errno));
    }

    /// How many bytes of a stream were read by the session.
    #[must_use]
    pub fn read_bytes(&self, stream: StreamId) -> u64 {
        self.0
            .look(|state| state.pipe(stream).map_or(0, |pipe| pipe.read_bytes))
    }

    /// Exits.
    pub fn exit(&self, code: i32) {
        self.end(Status::Exited { code });
    }

    /// Dies of a signal that nobody here sent.
    pub fn die(&self, signal: Signal) {
        self.end(Status::Signaled {
            signal,
            core_dumped: false,
        });
    }

    /// Ends so that its status is not known, for example because somebody else took it.
    pub fn end_unknown(&self, reason: UnknownStatus) {
        self.end(Status::Unknown { reason });
    }

    fn end(&self, status: Status) {
        self.0.change(|state| state.end_leader(status));
    }

    /// Is gone, and its status is not told before it ends by one of the ways above.
    pub fn exit_untold(&self) {
        self.0.change(|state| state.is_exit_untold = true);
    }

    /// Ends the observation with this error number: the exit can be waited for no more.
    pub fn fail_observation(&self, errno: i32) {
        self.0.change(|state| state.observation_errno = Some(errno));
    }

    /// Whether the leader still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.look(State::is_leader_alive)
    }

    /// Plays steps from now on.
    pub fn play(&self, steps: Steps) {
        Shared::play(&self.0, steps);
    }

    /// Adds a descendant.
    pub fn fork(&self, descendant: Descendant) {
        self.0.change(|state| state.fork(descendant));
    }

    /// Ends a descendant.
    pub fn end_descendant(&self, pid: u32) {
        self.0.change(|state| state.end_descendant(pid));
    }

    /// The descendants that are alive, by pid.
    #[must_use]
    pub fn descendants(&self) -> Vec<u32> {
        self.0.look(State::descendants_alive)
    }

    /// Plays these steps when the signal comes, instead of dying of it.
    pub fn on_signal(&self, signal: Signal, steps: Steps) {
        self.0.change(|state| state.set_reaction(signal, steps));
    }

    /// Ignores a signal.
    pub fn ignore(&self, signal: Signal) {
        self.on_signal(signal, Steps::new());
    }

    /// From now on no signal ends the process, not even KILL, as with one that waits in the kernel.
    pub fn resist(&self) {
        self.0.change(|state| state.is_unkillable = true);
    }

    /// The signals that came, in their order.
    #[must_use]
    pub fn signals(&self) -> Vec<SentSignal> {
        self.0.look(|state| state.signals.clone())
    }

    /// Whether the whole tree was killed, by the ladder or by the guard.
    #[must_use]
    pub fn was_killed(&self) -> bool {
        self.0
            .look(|state| state.signals.iter().any(|sent| sent.target == Target::Kill))
    }

    /// Waits until the whole tree was killed.
    ///
    /// # Panics
    /// When it is not within [`crate::PATIENCE`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn killed(&self) {
        self.until("the kill", || self.was_killed()).await;
    }

    /// Waits until this signal has come.
    ///
    /// # Panics
    /// When it has not within [`crate::PATIENCE`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn signalled(&self, signal: Signal) {
        self.until("the signal", || {
            self.signals().iter().any(|sent| sent.signal == signal)
        })
        .await;
    }

    /// Whether what is left was left to itself.
    #[must_use]
    pub fn was_left(&self) -> bool {
        self.0.look(|state| state.was_left)
    }

    /// Whether the leader was reaped.
    #[must_use]
    pub fn is_reaped(&self) -> bool {
        self.0.look(|state| state.is_reaped)
    }

    /// What [`procession_process::Leader::reap`] tells.
    pub fn set_usage(&self, usage: Usage) {
        self.0.change(|state| state.usage = Some(usage));
    }

    /// How well the tree can be seen; exactly unless said otherwise.
    pub fn set_sight(&self, sight: Sight) {
        self.0.change(|state| state.sight = sight);
    }

    /// Never answers a look at the tree from now on.
    pub fn never_answer_surveys(&self) {
        self.0.change(|state| state.surveys = Answering::Never);
    }

    /// Never answers a sweep from now on; who is swept dies all the same.
    pub fn never_answer_sweeps(&self) {
        self.0.change(|state| state.sweeps = Answering::Never);
    }

    /// How many looks at the tree were asked for.
    #[must_use]
    pub fn surveys(&self) -> usize {
        self.0.look(|state| state.asked_surveys)
    }

    /// How many sweeps were asked for.
    #[must_use]
    pub fn sweeps(&self) -> usize {
        self.0.look(|state| state.asked_sweeps)
    }

    /// How much the input takes until it is read from; everything unless said otherwise.
    pub fn limit_input(&self, capacity_bytes: usize) {
        self.0.change(|state| state.input.capacity_bytes = capacity_bytes);
    }

    /// Reads all that waits in the input, which makes room.
    #[must_use]
    pub fn take_input(&self) -> Vec<u8> {
        self.0.change(|state| std::mem::take(&mut state.input.waiting))
    }

    /// All that was ever written to the input.
    #[must_use]
    pub fn input(&self) -> Vec<u8> {
        self.0.look(|state| state.input.written.clone())
    }

    /// Closes the reading end of the input: writers see a broken pipe.
    pub fn close_input(&self) {
        self.0.change(|state| state.input.is_reader_closed = true);
    }

    /// Whether the session closed its end of the input.
    #[must_use]
    pub fn is_input_closed(&self) -> bool {
        self.0.look(|state| state.input.is_writer_closed)
    }

    /// Waits until the session closed its end of the input.
    ///
    /// # Panics
    /// When it does not within [`crate::PATIENCE`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn input_closed(&self) {
        self.until("the end of the input", || self.is_input_closed())
            .await;
    }

    /// Changes how the terminal passes on what is typed; in lines, by the usual rules, unless said otherwise.
    pub fn set_terminal_mode(&self, mode: TerminalMode) {
        self.0.change(|state| state.input.mode = Some(mode));
    }

    /// The sizes that the terminal was set to.
    #[must_use]
    pub fn resizes(&self) -> Vec<TerminalSize> {
        self.0.look(|state| state.resizes.clone())
    }

    /// How long ago the process was started, on tokio's clock.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.0.started_at.elapsed()
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        expect(what, self.0.until(|| is_so().then_some(()))).await;
    }
}
