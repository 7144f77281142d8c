//! The thread that prepares starts and hands them to the guard.
//!
//! Files are looked up here, so that a file system that does not answer holds up other starts and nothing else. It is
//! also here that a guard that was killed is replaced.

use std::{
    collections::VecDeque,
    ffi::CString,
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use procession_core::{StartFailure, StartFailureKind};
use rustix::{fs::MemfdFlags, io::Errno};
use tokio::sync::oneshot;

use super::{
    Current,
    held::HeldLeader,
    link::{Begun, Link, Pending},
    setup::ChildSetup,
    wire::{MAX_MESSAGE_BYTES, Request, SpawnMessage, Step},
};
use crate::{
    port::{InputSink, OutputSource, SpawnRequest, Spawned},
    unix::{
        descriptor::above_stdio,
        failure::{of, of_cwd, of_host, of_program},
        pipe::{PipeInput, PipeOutput},
        signal,
        spawner::{Ends, Pipes, Prepared, Streams},
    },
};

/// How many starts may wait.
const QUEUE_LENGTH: usize = 4096;
/// The strings that a message takes with it; what is longer is passed in a memory file.
const MAX_INLINE_BYTES: usize = MAX_MESSAGE_BYTES - 1024;
/// How many guards may be started in place of others within a time.
const MAX_RENEWALS: usize = 5;
const RENEWAL_TIME: Duration = Duration::from_secs(60);
const STACK_BYTES: usize = 256 * 1024;
const NAME: &str = "procession-guard-spawn";

/// The way to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Spawner {
    queue: SyncSender<Job>,
}

#[derive(Debug)]
struct Job {
    request: SpawnRequest,
    reply: oneshot::Sender<Result<Handed, StartFailure>>,
}

/// A start that was handed to the guard.
#[derive(Debug)]
struct Handed {
    answer: oneshot::Receiver<Result<Begun, (Step, i32)>>,
    ends: Ends,
    found: PathBuf,
    cwd: PathBuf,
}

/// A process that runs and is not known to a runtime yet; it dies when dropped.
#[derive(Debug)]
pub(super) struct Launched {
    begun: Begun,
    ends: Ends,
}

impl Spawner {
    /// Starts the thread.
    pub(super) fn start(current: Arc<Current>) -> io::Result<Self> {
        let (queue, jobs) = mpsc::sync_channel(QUEUE_LENGTH);
        thread::Builder::new()
            .name(NAME.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || run(&jobs, &current))?;
        Ok(Self { queue })
    }

    /// Starts a process; what is started dies with what is returned.
    pub(super) async fn spawn(&self, request: SpawnRequest) -> Result<Launched, StartFailure> {
        let (reply, handed) = oneshot::channel();
        match self.queue.try_send(Job { request, reply }) {
            Ok(()) => {}
            Err(mpsc::TrySendError::Full(_)) => {
                return Err(of(StartFailureKind::Exhausted, "host", "queue of starts"));
            }
            Err(mpsc::TrySendError::Disconnected(_)) => return Err(host_stopped("spawner")),
        }
        let Handed {
            answer,
            ends,
            found,
            cwd,
        } = handed.await.unwrap_or_else(|_| Err(host_stopped("spawner")))?;
        match answer.await {
            Ok(Ok(begun)) => Ok(Launched { begun, ends }),
            Ok(Err((step, errno))) => Err(failure_of(step, errno, &found, &cwd)),
            Err(_) => Err(host_stopped("guard")),
        }
    }
}

fn host_stopped(what: &str) -> StartFailure {
    of(StartFailureKind::HostStopped, "host", what)
}

fn failure_of(step: Step, errno: i32, found: &std::path::Path, cwd: &std::path::Path) -> StartFailure {
    let error = io::Error::from_raw_os_error(errno);
    let of_place = |place: &str, what: &str| StartFailure {
        place: place.to_owned(),
        ..of_host(&error, what)
    };
    match step {
        Step::Program => of_program(Errno::from_raw_os_error(errno), found),
        Step::Directory => of_cwd(&error, cwd),
        Step::Terminal => of_place("tty", "controlling terminal"),
        Step::Message => of_host(&error, "message to the guard"),
        Step::Process => of_host(&error, "process"),
        Step::Containment => of_host(&error, "containment"),
        Step::Session => of_host(&error, "session"),
        Step::Streams => of_host(&error, "streams"),
        Step::Limits => of_host(&error, "resource limit"),
        Step::Nice => of_host(&error, "priority"),
        Step::OomScore => of_host(&error, "oom_score_adj"),
        Step::Filter => of_host(&error, "system call filter"),
    }
}

fn run(jobs: &Receiver<Job>, current: &Current) {
    signal::block_all();
    let mut renewals = VecDeque::new();
    while let Ok(Job { request, reply }) = jobs.recv() {
        if !reply.is_closed() {
            // Nobody waits any more: what was handed over is dropped when it comes back, which kills it.
            drop(reply.send(hand_over(&request, current, &mut renewals)));
        }
    }
}

fn hand_over(
    request: &SpawnRequest,
    current: &Current,
    renewals: &mut VecDeque<Instant>,
) -> Result<Handed, StartFailure> {
    let Prepared {
        found,
        program,
        argv,
        environment,
        cwd,
        streams,
    } = Prepared::new(request)?;
    let directory = CString::new(cwd.path.as_os_str().as_bytes())
        .map_err(|_| of(StartFailureKind::Other, "cwd", cwd.path.to_string_lossy()))?;
    let strings = join(&program, &argv, &environment, &directory);
    let is_inline = strings.len() <= MAX_INLINE_BYTES;
    let memory = if is_inline {
        None
    } else {
        Some(memory_file(&strings)?)
    };
    let inline = is_inline.then_some(strings);
    let mut descriptors = Vec::with_capacity(5);
    descriptors.extend(memory.as_ref().map(AsFd::as_fd));
    descriptors.push(cwd.directory.as_fd());
    match &streams {
        Streams::Pipes(Pipes {
            stdin,
            stdout,
            stderr,
            ..
        }) => {
            descriptors.extend([stdin.as_fd(), stdout.as_fd()]);
            descriptors.extend(stderr.as_ref().map(AsFd::as_fd));
        }
        Streams::Terminal { pair, .. } => descriptors.extend([pair.slave(), pair.slave()]),
    }
    let setup = ChildSetup::of(request);
    let count = |strings: &[CString]| u32::try_from(strings.len()).unwrap_or(u32::MAX);
    let (arguments, variables) = (count(&argv), count(&environment));
    let mut link = current.link();
    // Where the guard is gone, another one takes its place, and the start is tried once more.
    for _ in 0..2 {
        if link.is_gone() {
            link = renew(current, renewals)?;
        }
        let session = link.next();
        let mechanism = link.mechanism_for(request.terminal);
        let message = Request::Spawn(SpawnMessage {
            session,
            rung: mechanism,
            arguments,
            variables,
            setup: setup.clone(),
            strings: inline.clone(),
        });
        let (reply, answer) = oneshot::channel();
        let pending = Pending {
            reply,
            link: Arc::clone(&link),
            mechanism,
        };
        if link
            .request_start(session, pending, &message.encode(), &descriptors)
            .is_ok()
        {
            return Ok(Handed {
                answer,
                ends: streams.into_ends(),
                found,
                cwd: cwd.path,
            });
        }
        if !link.is_gone() {
            wait_for_the_end_of(&link);
        }
    }
    Err(host_stopped("guard"))
}

/// A guard that takes no message has ended; who listens to it is about to see that too.
fn wait_for_the_end_of(link: &Link) {
    let deadline = Instant::now() + Duration::from_millis(100);
    while !link.is_gone() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
}

fn renew(current: &Current, renewals: &mut VecDeque<Instant>) -> Result<Arc<Link>, StartFailure> {
    let now = Instant::now();
    renewals.retain(|renewed| now.saturating_duration_since(*renewed) < RENEWAL_TIME);
    if renewals.len() >= MAX_RENEWALS {
        return Err(host_stopped("guard"));
    }
    renewals.push_back(now);
    current.renew().map_err(|error| {
        tracing::error!(%error, "no other guard can be started");
        host_stopped("guard")
    })
}

fn join(program: &CString, argv: &[CString], environment: &[CString], directory: &CString) -> Vec<u8> {
    let all = || {
        [program]
            .into_iter()
            .chain(argv)
            .chain(environment)
            .chain([directory])
            .map(CString::as_bytes_with_nul)
    };
    let mut joined = Vec::with_capacity(all().map(<[u8]>::len).sum());
    for string in all() {
        joined.extend_from_slice(string);
    }
    joined
}

fn memory_file(strings: &[u8]) -> Result<OwnedFd, StartFailure> {
    let made = || -> io::Result<OwnedFd> {
        let memory = rustix::fs::memfd_create("procession-start", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(above_stdio(memory)?);
        file.write_all(strings)?;
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
        Ok(file.into())
    };
    made().map_err(|error| of_host(&error, "memory file"))
}

impl Launched {
    /// Registers all descriptors with the runtime that this runs in.
    pub(super) fn adopt(self) -> Result<Spawned, StartFailure> {
        let Self { begun, ends } = self;
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
            let Begun { guard, tree } = begun;
            let held = Arc::clone(&tree.0);
            let spawned = Spawned {
                pid: held.pid(),
                outputs,
                input: input.map(|input| Arc::new(input) as Arc<dyn InputSink>),
                containment: held.containment(),
                leader: Arc::new(HeldLeader(held)),
                tree,
                guard,
            };
            match terminal {
                Some(terminal) => terminal.attach(spawned),
                None => Ok(spawned),
            }
        };
        registered().map_err(|error| of_host(&error, "event queue"))
    }
}
