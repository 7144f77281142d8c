//! The port: what the actors need of an operating system, and what a scripted process replaces.

use std::{
    fmt,
    future::Future,
    io,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use procession_core::{
    Containment, Environment, SessionId, Signal, StartFailure, Status, StreamId,
    outcome::{ObservedBy, StepEffect, Usage},
    session::TreeReport,
    spec::{ExecLimits, StdinMode, StreamMode, TerminalSize},
    terminal::TerminalMode,
};
use procession_policy::Capabilities;

/// A boxed future, as the port's methods return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Starts processes.
pub trait ProcessPort: fmt::Debug + Send + Sync + 'static {
    /// What this machine can enforce, as it was found by trying.
    fn capabilities(&self) -> Capabilities;

    /// By what means the next session's tree will be held.
    fn containment(&self) -> Containment;

    /// What the system takes as arguments and environment.
    fn exec_limits(&self) -> ExecLimits;

    /// Starts a process.
    ///
    /// # Errors
    /// [`StartFailure`], and then nothing is left: no process, no descriptor.
    ///
    /// # Cancel safety
    /// Dropping the future either prevents the start or kills what was started.
    fn spawn(&self, request: SpawnRequest) -> BoxFuture<'static, Result<Spawned, StartFailure>>;
}

/// What is to be started.
#[derive(Debug, Clone)]
pub struct SpawnRequest {
    /// For which session.
    pub session: SessionId,
    /// The argument vector, not empty, free of NUL; the program is looked up in the environment's `PATH` unless it
    /// holds a slash.
    pub argv: Vec<std::ffi::OsString>,
    /// The whole environment.
    pub environment: Environment,
    /// The working directory; relative ones start at `root`, which is also the default.
    pub cwd: Option<PathBuf>,
    /// The folder that the working directory has to lie in, links followed; anywhere when there is none.
    pub root: Option<PathBuf>,
    /// Where standard input comes from.
    pub stdin: StdinMode,
    /// Whether both output streams are one.
    pub streams: StreamMode,
    /// The terminal's size, and that there is one: then it is input and output, whatever is asked of those.
    pub terminal: Option<TerminalSize>,
    /// What is limited for each of its processes.
    pub limits: ProcessLimits,
}

/// What is limited for each process of a session, from its leader's first instruction on; what is none is inherited.
///
/// A port applies what it has capabilities for, and leaves out all else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessLimits {
    /// Processor time, rounded up to whole seconds.
    pub cpu_time: Option<Duration>,
    /// Address space, in bytes.
    pub address_space_bytes: Option<u64>,
    /// How many descriptors may be open.
    pub open_files: Option<u64>,
    /// The largest file that may be written, in bytes, inclusive.
    pub file_size_bytes: Option<u64>,
    /// How many processes the session's user may have, those outside of the session counted.
    pub processes: Option<u64>,
    /// The largest core file, in bytes.
    pub core_bytes: Option<u64>,
    /// The priority, −20 to 19, the higher the more yielding.
    pub nice: Option<i32>,
    /// How soon the killer of last resort takes it, −1000 to 1000.
    pub oom_score_adj: Option<i32>,
    /// The permission bits that new files do not get.
    pub umask: Option<u32>,
}

/// A process that was started; it dies with its [`KillGuard`].
#[derive(Debug)]
pub struct Spawned {
    /// The leader's pid.
    pub pid: u32,
    /// The streams to read; one when they are merged or on a terminal.
    pub outputs: Vec<(StreamId, Arc<dyn OutputSource>)>,
    /// Where to write, if anywhere.
    pub input: Option<Arc<dyn InputSink>>,
    /// The process that was started.
    pub leader: Arc<dyn Leader>,
    /// It and its descendants.
    pub tree: Arc<dyn Tree>,
    /// Kills the tree when dropped.
    pub guard: KillGuard,
    /// By what means the tree is held.
    pub containment: Containment,
}

/// One stream of a process's output.
///
/// A terminal may end no sooner than the leader's exit was seen through its [`Leader`].
///
/// Dropping the last reference closes our end.
pub trait OutputSource: fmt::Debug + Send + Sync {
    /// Waits until a read would not block.
    ///
    /// # Errors
    /// When the descriptor cannot be waited for any more.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is read.
    fn readable(&self) -> BoxFuture<'_, io::Result<()>>;

    /// Reads into the spare capacity of `buffer`, which must not be empty; zero is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; a terminal's end is not an error but zero.
    fn try_read(&self, buffer: &mut BytesMut) -> io::Result<usize>;

    /// How many bytes wait in a pipe, exactly; none on a terminal, which does not tell.
    fn waiting_bytes(&self) -> Option<u64>;
}

/// A process's input.
///
/// Dropping the last reference closes our end.
pub trait InputSink: fmt::Debug + Send + Sync {
    /// Waits until a write would not block, or the reader is gone.
    ///
    /// # Errors
    /// When the descriptor cannot be waited for any more.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is written.
    fn writable(&self) -> BoxFuture<'_, io::Result<()>>;

    /// Writes as much as fits.
    ///
    /// # Errors
    /// `WouldBlock` when nothing fits, `BrokenPipe` when the reader is gone.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// How the terminal passes on what is typed, at this moment; none where it is a pipe.
    ///
    /// A pipe is at its end when our end is closed. On a terminal the end of file is something that is typed.
    fn terminal(&self) -> Option<TerminalMode> {
        None
    }
}

/// The process that was started, until it is reaped.
pub trait Leader: fmt::Debug + Send + Sync {
    /// Waits for the exit, without reaping.
    ///
    /// # Errors
    /// When the exit cannot be waited for any more.
    ///
    /// # Cancel safety
    /// Cancel safe: the status is left where it is.
    fn exited(&self) -> BoxFuture<'_, io::Result<()>>;

    /// How the leader ended, without reaping; none while it runs.
    fn peek(&self) -> Option<(Status, ObservedBy)>;

    /// Whether the leader has exited, also where [`Self::peek`] does not tell how yet because somebody else holds it,
    /// who will tell; [`Self::exited`] waits for that.
    fn has_exited(&self) -> bool {
        self.peek().is_some()
    }

    /// Reaps the leader; from here on nothing is signalled by its pid or group.
    ///
    /// None when it has not exited, was reaped before, or the system does not tell.
    fn reap(&self) -> Option<Usage>;
}

/// A process and its descendants, as far as the means in force reaches.
pub trait Tree: fmt::Debug + Send + Sync {
    /// Sends a signal to all members.
    fn signal_all(&self, signal: Signal) -> StepEffect;

    /// Sends a signal to the foreground group of a terminal, else to the leader's group.
    fn signal_foreground(&self, signal: Signal) -> StepEffect;

    /// Kills all members at once; never waits, so that it can be called from a destructor.
    fn kill(&self) -> StepEffect;

    /// Sees who is left, the leader not counted.
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn survey(&self) -> BoxFuture<'static, TreeReport>;

    /// Kills all that is left and sees who was, the leader not counted; bounded in time.
    ///
    /// # Cancel safety
    /// When dropped, some may have been killed.
    fn sweep(&self) -> BoxFuture<'static, TreeReport>;

    /// Lets all that is left live on when the port is gone; nobody watches it from there on.
    ///
    /// To be asked before the leader is reaped. A port that nothing ends with has nothing to do for it.
    ///
    /// # Errors
    /// Where that cannot be: then what is left ends with the port.
    ///
    /// # Cancel safety
    /// When dropped, it may be so already.
    fn leave(&self) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Sets the terminal's size.
    ///
    /// # Errors
    /// `Unsupported` without a terminal.
    fn resize(&self, size: TerminalSize) -> io::Result<()>;
}

/// Kills a tree when dropped, unless disarmed.
///
/// It belongs into what dies with its actor at once, not into what travels to a supervisor first.
#[derive(Debug)]
pub struct KillGuard {
    tree: Arc<dyn Tree>,
    armed: AtomicBool,
}

impl KillGuard {
    /// A guard over this tree.
    #[must_use]
    pub fn new(tree: Arc<dyn Tree>) -> Self {
        Self {
            tree,
            armed: AtomicBool::new(true),
        }
    }

    /// Lets the tree live from here on.
    pub fn disarm(&self) {
        self.armed.store(false, Ordering::Release);
    }
}

impl Drop for KillGuard {
    fn drop(&mut self) {
        if *self.armed.get_mut() {
            self.tree.kill();
        }
    }
}
