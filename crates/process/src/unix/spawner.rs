//! The thread that starts all processes.
//!
//! It never waits for anything but its queue. A program that is being written to is tried again from the queue, so
//! that it holds up nobody else's start.

use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use procession_core::{
    Containment, Environment, StartFailure, StartFailureKind, StreamId,
    spec::{StdinMode, StreamMode},
};
use rustix::io::Errno;
use tokio::sync::oneshot;

use super::{
    PortError,
    cwd::{self, Cwd},
    descriptor,
    failure::{of, of_host, of_program},
    group::GroupTree,
    launch::{self, Launch, launch},
    leader::{Custody, LeaderProcess, UnixLeader},
    lookup,
    pipe::{PipeInput, PipeOutput},
    signal,
    sweeper::SweeperHandle,
};
use crate::{
    port::{InputSink, KillGuard, OutputSource, SpawnRequest, Spawned, Tree},
    terminal::TerminalPair,
};

/// How many starts may wait.
const QUEUE_LENGTH: usize = 4096;
/// For how long a program that is being written to is tried.
const BUSY_BOUND: Duration = Duration::from_secs(1);
/// How soon it is tried again, at first and at the most.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
const MAX_BUSY_PAUSE: Duration = Duration::from_millis(50);
/// Arguments lie on the heap; what is on the stack are file names.
const STACK_BYTES: usize = 256 * 1024;
const NAME: &str = "procession-spawn";

/// The way to the spawner, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Spawner {
    queue: SyncSender<Job>,
}

impl Spawner {
    /// Starts the spawner.
    pub(super) fn start(sweeper: Arc<SweeperHandle>) -> Result<Self, PortError> {
        let (queue, jobs) = mpsc::sync_channel(QUEUE_LENGTH);
        thread::Builder::new()
            .name(NAME.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || run(&jobs, &sweeper))
            .map_err(|source| PortError::Thread { name: NAME, source })?;
        Ok(Self { queue })
    }

    /// Starts a process; what is started dies with what is returned.
    pub(super) async fn spawn(&self, request: SpawnRequest) -> Result<Launched, StartFailure> {
        let (reply, launched) = oneshot::channel();
        match self.queue.try_send(Job { request, reply }) {
            Ok(()) => {}
            Err(mpsc::TrySendError::Full(_)) => {
                return Err(of(StartFailureKind::Exhausted, "host", "queue of starts"));
            }
            Err(mpsc::TrySendError::Disconnected(_)) => return Err(host_stopped()),
        }
        launched.await.unwrap_or_else(|_| Err(host_stopped()))
    }
}

fn host_stopped() -> StartFailure {
    of(StartFailureKind::HostStopped, "host", "spawner")
}

#[derive(Debug)]
struct Job {
    request: SpawnRequest,
    reply: Reply,
}

type Reply = oneshot::Sender<Result<Launched, StartFailure>>;

/// A start whose program is being written to.
#[derive(Debug)]
struct Retry {
    prepared: Prepared,
    reply: Reply,
    due_at: Instant,
    gives_up_at: Instant,
    pause: Duration,
}

fn run(jobs: &Receiver<Job>, sweeper: &Arc<SweeperHandle>) {
    signal::block_all();
    let mut retries: Vec<Retry> = Vec::new();
    loop {
        match next(jobs, &retries) {
            Ok(job) => retries.extend(begin(job, sweeper)),
            Err(RecvTimeoutError::Timeout) => {}
            // Whoever waits for a start holds the other end, so that there is nobody.
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        let due: Vec<Retry> = retries.extract_if(.., |retry| retry.due_at <= now).collect();
        retries.extend(due.into_iter().filter_map(|retry| attempt(retry, sweeper)));
    }
}

fn next(jobs: &Receiver<Job>, retries: &[Retry]) -> Result<Job, RecvTimeoutError> {
    match retries.iter().map(|retry| retry.due_at).min() {
        Some(due_at) => jobs.recv_timeout(due_at.saturating_duration_since(Instant::now())),
        None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}

fn begin(job: Job, sweeper: &Arc<SweeperHandle>) -> Option<Retry> {
    let Job { request, reply } = job;
    if reply.is_closed() {
        return None;
    }
    match Prepared::new(&request) {
        Ok(prepared) => {
            let now = Instant::now();
            let retry = Retry {
                prepared,
                reply,
                due_at: now,
                gives_up_at: now + BUSY_BOUND,
                pause: BUSY_PAUSE,
            };
            attempt(retry, sweeper)
        }
        Err(failure) => {
            answer(reply, Err(failure));
            None
        }
    }
}

fn attempt(retry: Retry, sweeper: &Arc<SweeperHandle>) -> Option<Retry> {
    if retry.reply.is_closed() {
        return None;
    }
    match retry.prepared.launch() {
        Ok(pid) => {
            let launched = retry.prepared.into_launched(pid, Arc::clone(sweeper));
            answer(retry.reply, launched);
            None
        }
        Err(Errno::TXTBSY) if Instant::now() < retry.gives_up_at => {
            let due_at = (Instant::now() + retry.pause).min(retry.gives_up_at);
            Some(Retry {
                due_at,
                pause: retry.pause.saturating_mul(2).min(MAX_BUSY_PAUSE),
                ..retry
            })
        }
        Err(errno) => {
            let failure = of_program(errno, &retry.prepared.found);
            // Its descriptors are closed before anybody hears of the failure.
            drop(retry.prepared);
            answer(retry.reply, Err(failure));
            None
        }
    }
}

fn answer(reply: Reply, result: Result<Launched, StartFailure>) {
    // Nobody waits any more: what was started is dropped, which kills it.
    drop(reply.send(result));
}

/// All that a start needs.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) found: PathBuf,
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) cwd: Cwd,
    pub(crate) streams: Streams,
}

impl Prepared {
    /// Looks up all that is named, and opens all that is needed.
    pub(crate) fn new(request: &SpawnRequest) -> Result<Self, StartFailure> {
        let cwd = cwd::resolve(request.cwd.as_deref(), request.root.as_deref())?;
        let name = request.argv.first().map(OsString::as_os_str).unwrap_or_default();
        let found = lookup::find(name, request.environment.get("PATH"), cwd.directory.as_fd())?;
        let program = to_c(found.as_os_str(), "argv", name)?;
        let argv = request
            .argv
            .iter()
            .map(|argument| to_c(argument, "argv", name))
            .collect::<Result<_, _>>()?;
        let environment = to_environment(&request.environment, &cwd.path)?;
        let streams = Streams::open(request)?;
        Ok(Self {
            found,
            program,
            argv,
            environment,
            cwd,
            streams,
        })
    }

    fn launch(&self) -> Result<i32, Errno> {
        launch(&Launch {
            program: &self.program,
            argv: &self.argv,
            environment: &self.environment,
            cwd: self.cwd.directory.as_fd(),
            streams: self.streams.for_the_child(),
        })
    }

    fn into_launched(self, pid: i32, sweeper: Arc<SweeperHandle>) -> Result<Launched, StartFailure> {
        // The child's ends have to go: an end of output is seen when the last writer is gone. It also frees the
        // numbers that the pidfd needs where descriptors are short.
        let ends = self.streams.into_ends();
        drop(self.cwd);
        let process = LeaderProcess::adopt(pid).map_err(|error| of_host(&error, "pidfd"))?;
        let custody = Arc::new(Custody::new(process, sweeper));
        let tree: Arc<dyn Tree> = Arc::new(GroupTree::new(Arc::clone(&custody)));
        let guard = KillGuard::new(Arc::clone(&tree));
        Ok(Launched {
            guard,
            tree,
            custody,
            ends,
        })
    }
}

/// The descriptors of a start.
#[derive(Debug)]
pub(crate) enum Streams {
    Pipes(Pipes),
    Terminal {
        pair: TerminalPair,
        /// By what name the child opens its end.
        name: CString,
    },
}

/// What the host keeps of them.
#[derive(Debug)]
pub(crate) enum Ends {
    Pipes {
        outputs: Vec<(StreamId, OwnedFd)>,
        input: Option<OwnedFd>,
    },
    Terminal(TerminalPair),
}

impl Streams {
    fn open(request: &SpawnRequest) -> Result<Self, StartFailure> {
        let Some(size) = request.terminal else {
            return Pipes::open(request.stdin, request.streams).map(Self::Pipes);
        };
        let pair = TerminalPair::open(size).map_err(|error| of_host(&error, "/dev/ptmx"))?;
        let name = format!("/proc/self/fd/{}", pair.slave().as_raw_fd());
        // In the child a name that leads nowhere would look like a program that is not there.
        rustix::fs::stat(&name).map_err(|errno| of_host(&errno.into(), "/proc"))?;
        let name = to_c(OsStr::new(&name), "tty", OsStr::new("/proc"))?;
        Ok(Self::Terminal { pair, name })
    }

    fn for_the_child(&self) -> launch::Streams<'_> {
        match self {
            Self::Terminal { name, .. } => launch::Streams::Terminal(name),
            Self::Pipes(Pipes {
                stdin,
                stdout,
                stderr,
                ..
            }) => launch::Streams::Separate([
                stdin.as_fd(),
                stdout.as_fd(),
                stderr.as_ref().unwrap_or(stdout).as_fd(),
            ]),
        }
    }

    /// What the host keeps; the child's ends are closed.
    pub(crate) fn into_ends(self) -> Ends {
        match self {
            Self::Terminal { pair, .. } => Ends::Terminal(pair),
            Self::Pipes(Pipes { outputs, input, .. }) => Ends::Pipes { outputs, input },
        }
    }
}

/// Three ends for the child, the others for the host.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    /// None where standard output takes both.
    pub(crate) stderr: Option<OwnedFd>,
    outputs: Vec<(StreamId, OwnedFd)>,
    input: Option<OwnedFd>,
}

impl Pipes {
    fn open(stdin: StdinMode, streams: StreamMode) -> Result<Self, StartFailure> {
        let pipe = || descriptor::pipe().map_err(|error| of_host(&error, "pipe"));
        let (stdin, input) = match stdin {
            StdinMode::Null => (
                descriptor::null().map_err(|error| of_host(&error, "/dev/null"))?,
                None,
            ),
            StdinMode::Piped => {
                let pipe = pipe()?;
                (pipe.reader, Some(pipe.writer))
            }
        };
        let stdout = pipe()?;
        let mut outputs = vec![(StreamId::Stdout, stdout.reader)];
        let stderr = match streams {
            StreamMode::Merged => None,
            StreamMode::Separate => {
                let pipe = pipe()?;
                outputs.push((StreamId::Stderr, pipe.reader));
                Some(pipe.writer)
            }
        };
        Ok(Self {
            stdin,
            stdout: stdout.writer,
            stderr,
            outputs,
            input,
        })
    }
}

fn to_c(text: &OsStr, place: &str, subject: &OsStr) -> Result<CString, StartFailure> {
    CString::new(text.as_bytes()).map_err(|_| StartFailure {
        errno: Some(Errno::INVAL.raw_os_error()),
        ..of(StartFailureKind::Other, place, subject.to_string_lossy())
    })
}

/// The environment as `NAME=value`, with `PWD` unless it is there.
///
/// A program that was started by a shell finds in `PWD` where it is, and many rely on it.
fn to_environment(environment: &Environment, cwd: &Path) -> Result<Vec<CString>, StartFailure> {
    const PWD: &str = "PWD";
    let pwd = environment
        .get(PWD)
        .is_none()
        .then_some((OsStr::new(PWD), cwd.as_os_str()));
    let given = environment
        .variables
        .iter()
        .map(|(name, value)| (name.as_os_str(), value.reveal()));
    given
        .chain(pwd)
        .map(|(name, value)| {
            let mut variable = name.as_bytes().to_vec();
            variable.push(b'=');
            variable.extend_from_slice(value.as_bytes());
            to_c(&OsString::from_vec(variable), "env", name)
        })
        .collect()
}

/// A process that was started and is not known to a runtime yet; it dies when dropped.
#[derive(Debug)]
pub(super) struct Launched {
    // Dropped first: the leader is left to be reaped only after its tree was killed.
    guard: KillGuard,
    tree: Arc<dyn Tree>,
    custody: Arc<Custody>,
    ends: Ends,
}

impl Launched {
    /// The process itself.
    #[cfg(test)]
    pub(super) fn process(&self) -> &Arc<LeaderProcess> {
        self.custody.process()
    }

    /// Registers all descriptors with the runtime that this runs in.
    pub(super) fn adopt(self) -> Result<Spawned, StartFailure> {
        let Self {
            guard,
            tree,
            custody,
            ends,
        } = self;
        let pid = custody.process().public_pid();
        let (outputs, input, terminal) = match ends {
            Ends::Pipes { outputs, input } => (outputs, input, None),
            Ends::Terminal(pair) => (Vec::new(), None, Some(pair)),
        };
        let registered = || -> io::Result<_> {
            let outputs = outputs
                .into_iter()
                .map(|(stream, reader)| {
                    Ok((
                        stream,
                        Arc::new(PipeOutput::new(reader)?) as Arc<dyn OutputSource>,
                    ))
                })
                .collect::<io::Result<Vec<_>>>()?;
            let input = input.map(PipeInput::new).transpose()?;
            let input = input.map(|input| Arc::new(input) as Arc<dyn InputSink>);
            let leader = Arc::new(UnixLeader::new(custody)?);
            let spawned = Spawned {
                pid,
                outputs,
                input,
                leader,
                tree,
                guard,
                containment: Containment::PROCESS_GROUP,
            };
            match terminal {
                Some(terminal) => terminal.attach(spawned),
                None => Ok(spawned),
            }
        };
        registered().map_err(|error| of_host(&error, "event queue"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Environment {
        Environment {
            variables: pairs
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        }
    }

    #[test]
    fn a_directory_is_named_unless_the_environment_names_one() {
        let check = |given: &[(&str, &str)], expected: &[&str]| {
            let made = to_environment(&variables(given), Path::new("/here")).unwrap();
            let made: Vec<_> = made.iter().map(|variable| variable.to_str().unwrap()).collect();
            assert_eq!(made, expected);
        };
        check(&[], &["PWD=/here"]);
        check(&[("A", "b=c"), ("Z", "")], &["A=b=c", "Z=", "PWD=/here"]);
        check(&[("PWD", "/there")], &["PWD=/there"]);
    }

    #[test]
    fn a_nul_is_refused_and_its_variable_named_without_the_value() {
        let failure = to_environment(&variables(&[("A", "secret\0")]), Path::new("/")).unwrap_err();
        assert_eq!((failure.place.as_str(), failure.subject.as_str()), ("env", "A"));
    }
}
