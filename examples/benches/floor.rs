//! The floor: plain tokio programs that do the same jobs with no product around them.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

use crate::jobs::{StartTimes, since_printed};

/// What a pipe gives at most at once.
const READ_BYTES: usize = 64 << 10;
/// Memory for the output that is kept.
const RING_BYTES: usize = 1 << 20;

/// Runs a command to its exit, then to the end of its output.
pub(crate) async fn start_to_end(argv: &[&str]) -> StartTimes {
    let begun = Instant::now();
    let mut child = spawn(argv, Stdio::null());
    child.wait().await.expect("an exit");
    let exited = begun.elapsed();
    let mut output = Vec::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut stderr = child.stderr.take().expect("a pipe");
    stdout.read_to_end(&mut output).await.expect("output");
    stderr.read_to_end(&mut output).await.expect("errors");
    StartTimes {
        exited,
        ended: begun.elapsed(),
    }
}

/// A file that is written over from its beginning once it is full.
#[derive(Debug)]
pub(crate) struct CappedFile {
    file: File,
    cap_bytes: u64,
    at: u64,
}

impl CappedFile {
    pub(crate) fn create(path: &Path, cap_bytes: u64) -> Self {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).open(path);
        Self {
            file: file.expect("a file"),
            cap_bytes,
            at: 0,
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).expect("small");
        if self.at + length > self.cap_bytes {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at).expect("written");
        self.at += length;
    }
}

/// Reads all that a command writes into a ring, and into a file where one is given; answers how much that was.
pub(crate) async fn flood(argv: &[&str], log: Option<CappedFile>) -> u64 {
    drain(spawn(argv, Stdio::null()), log).await
}

async fn drain(mut child: Child, mut log: Option<CappedFile>) -> u64 {
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut stderr = child.stderr.take().expect("a pipe");
    let errors = tokio::spawn(async move {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).await
    });
    let mut ring = vec![0; RING_BYTES];
    let (mut at, mut total) = (0, 0);
    loop {
        let length = stdout.read(&mut ring[at..at + READ_BYTES]).await.expect("output");
        if length == 0 {
            break;
        }
        if let Some(log) = &mut log {
            log.append(&ring[at..at + length]);
        }
        at += length;
        if at + READ_BYTES > RING_BYTES {
            at = 0;
        }
        total += u64::try_from(length).expect("small");
    }
    errors.await.expect("a task").expect("errors");
    child.wait().await.expect("an exit");
    if let Some(log) = log {
        log.file.sync_data().expect("synced");
    }
    total
}

/// Starts a command that waits for a line, and answers what makes it write and reads it to its end.
pub(crate) fn flood_on_demand(argv: &[&str]) -> impl Future<Output = u64> + use<> {
    let mut child = spawn(argv, Stdio::piped());
    async move {
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(b"go\n").await.expect("written");
        drain(child, None).await
    }
}

/// How long after it was printed each line of a command is read.
pub(crate) async fn lateness(argv: &[&str]) -> Vec<Duration> {
    let mut child = spawn(argv, Stdio::null());
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut late = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stdout.read(&mut buffer).await.expect("output") {
            0 => break,
            length => late.push(since_printed(&String::from_utf8_lossy(&buffer[..length]))),
        }
    }
    child.wait().await.expect("an exit");
    late
}

/// A `cat` to talk to.
#[derive(Debug)]
pub(crate) struct Echo {
    stdin: ChildStdin,
    stdout: ChildStdout,
    _child: Child,
}

impl Echo {
    pub(crate) fn start() -> Self {
        let mut child = spawn(&["cat"], Stdio::piped());
        Self {
            stdin: child.stdin.take().expect("a pipe"),
            stdout: child.stdout.take().expect("a pipe"),
            _child: child,
        }
    }

    pub(crate) async fn exchange(&mut self, line: &str) -> Duration {
        let begun = Instant::now();
        self.stdin.write_all(line.as_bytes()).await.expect("written");
        let mut back = vec![0; line.len()];
        self.stdout.read_exact(&mut back).await.expect("output");
        begun.elapsed()
    }
}

/// From killing the group of a command that has said that it is up, to its leader's exit.
pub(crate) async fn kill(argv: &[&str]) -> Duration {
    let mut child = spawn(argv, Stdio::null());
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut String::new()).await.expect("a line");
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let group = pid.and_then(Pid::from_raw).expect("a pid");
    let begun = Instant::now();
    kill_process_group(group, Signal::KILL).expect("killed");
    child.wait().await.expect("an exit");
    begun.elapsed()
}

/// A process that is held, with a task on each of its pipes.
#[derive(Debug)]
pub(crate) struct Held {
    _child: Child,
    _readers: [JoinHandle<()>; 2],
}

impl Held {
    pub(crate) fn start(argv: &[&str]) -> Self {
        let mut child = spawn(argv, Stdio::null());
        let stdout = child.stdout.take().expect("a pipe");
        let stderr = child.stderr.take().expect("a pipe");
        Self {
            _child: child,
            _readers: [tokio::spawn(discard(stdout)), tokio::spawn(discard(stderr))],
        }
    }
}

async fn discard(mut pipe: impl AsyncRead + Unpin) {
    let mut buffer = [0; 1024];
    while pipe.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
}

/// An actor that answers.
#[derive(Debug)]
pub(crate) struct Answering;

impl Actor for Answering {
    type Msg = Asked;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Asked>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<Asked>,
        asked: Asked,
        count: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        *count += 1;
        // Who does not wait any more misses nothing.
        let _ = asked.0.send(*count);
        Ok(())
    }
}

/// What it is asked.
#[derive(Debug)]
pub(crate) struct Asked(pub(crate) RpcReplyPort<u64>);

fn spawn(argv: &[&str], stdin: Stdio) -> Child {
    let (program, arguments) = argv.split_first().expect("a program");
    Command::new(program)
        .args(arguments)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .expect("a process")
}
