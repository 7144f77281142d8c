//! What all scenarios need, whatever the port: requests, a session run to its end, bounded waits, a host of one's own.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    future::Future,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use procession_core::{
    Environment, SessionId, StartFailure, Status, StreamId,
    outcome::{ObservedBy, Usage},
    spec::{StdinMode, StreamMode},
};
use procession_process::{OutputSource, ProcessLimits, ProcessPort, SpawnRequest, Spawned};

/// Nothing here takes longer unless it is broken.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// A request for this argument vector, with the tests' own search path.
pub(crate) fn argv(argv: &[&str]) -> SpawnRequest {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    SpawnRequest {
        session: SessionId::from_random([7; 10]),
        argv: argv.iter().map(OsString::from).collect(),
        environment: Environment {
            variables: BTreeMap::from([("PATH".into(), path.into())]),
        },
        cwd: None,
        root: None,
        stdin: StdinMode::Null,
        streams: StreamMode::Separate,
        terminal: None,
        limits: ProcessLimits::default(),
    }
}

/// A request for this command line in bash.
pub(crate) fn bash(command: &str) -> SpawnRequest {
    argv(&["bash", "--noprofile", "--norc", "-c", command])
}

pub(crate) trait Adjust {
    fn stdin(self) -> Self;
    fn merged(self) -> Self;
    fn cwd(self, cwd: impl Into<PathBuf>) -> Self;
    fn root(self, root: impl Into<PathBuf>) -> Self;
    fn variable(self, name: &str, value: &str) -> Self;
}

impl Adjust for SpawnRequest {
    fn stdin(mut self) -> Self {
        self.stdin = StdinMode::Piped;
        self
    }

    fn merged(mut self) -> Self {
        self.streams = StreamMode::Merged;
        self
    }

    fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = Some(root.into());
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.variables.insert(name.into(), value.into());
        self
    }
}

/// A session that was run to its end and reaped.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) pid: u32,
    pub(crate) status: Status,
    pub(crate) observed_by: ObservedBy,
    pub(crate) usage: Option<Usage>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) async fn spawn(port: &impl ProcessPort, request: SpawnRequest) -> Spawned {
    bounded("a start", port.spawn(request))
        .await
        .expect("a process that starts")
}

pub(crate) async fn failure(port: &impl ProcessPort, request: SpawnRequest) -> StartFailure {
    bounded("a start", port.spawn(request))
        .await
        .expect_err("a process that cannot start")
}

/// Runs a session to the end of its output and its leader.
pub(crate) async fn run(port: &impl ProcessPort, request: SpawnRequest) -> Finished {
    finish(spawn(port, request).await).await
}

/// Waits for the end of a session that was started.
pub(crate) async fn finish(session: Spawned) -> Finished {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    for (stream, output) in &session.outputs {
        let text = String::from_utf8_lossy(&read_to_end(output.as_ref()).await).into_owned();
        match stream {
            StreamId::Stdout => stdout = text,
            StreamId::Stderr => stderr = text,
        }
    }
    let (status, observed_by) = exited(&session).await;
    let usage = session.leader.reap();
    Finished {
        pid: session.pid,
        status,
        observed_by,
        usage,
        stdout,
        stderr,
    }
}

/// Waits for the leader's exit and tells its status, which is left where it is.
pub(crate) async fn exited(session: &Spawned) -> (Status, ObservedBy) {
    bounded("an exit", session.leader.exited())
        .await
        .expect("an exit that can be waited for");
    session.leader.peek().expect("a status behind an exit")
}

pub(crate) async fn read_to_end(output: &dyn OutputSource) -> Vec<u8> {
    let mut all = BytesMut::new();
    while read_some(output, &mut all).await > 0 {}
    all.to_vec()
}

/// Reads until a line is there, and tells it without its end.
pub(crate) async fn read_line(output: &dyn OutputSource) -> String {
    let mut line = BytesMut::new();
    while !line.ends_with(b"\n") {
        assert!(
            read_some(output, &mut line).await > 0,
            "the output ended within a line: {line:?}"
        );
    }
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

pub(crate) async fn read_some(output: &dyn OutputSource, buffer: &mut BytesMut) -> usize {
    loop {
        buffer.reserve(64 * 1024);
        match output.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                bounded("output", output.readable())
                    .await
                    .expect("an output that can be waited for");
            }
            read => return read.expect("an output that can be read"),
        }
    }
}

pub(crate) fn output(session: &Spawned, stream: StreamId) -> &dyn OutputSource {
    let found = session.outputs.iter().find(|(found, _)| *found == stream);
    found.expect("a stream that was asked for").1.as_ref()
}

pub(crate) async fn bounded<T>(what: &str, future: impl Future<Output = T>) -> T {
    let value = tokio::time::timeout(BOUND, future).await;
    value.unwrap_or_else(|_| panic!("{what} did not come within {BOUND:?}"))
}

/// Writes a file.
pub(crate) fn file(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Waits until something that the system tells no event of has become true.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(
            started.elapsed() < BOUND,
            "{what} did not become true within {BOUND:?}"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The state letter of a process, none when there is no such process.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a process is there and no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// How many descriptors this process has open that are pipes or name processes; others come and go with the runtime.
pub(crate) fn own_pipes_and_pidfds() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").expect("our descriptors");
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets
        .filter(|target| {
            ["pipe:", "anon_inode:[pidfd]"]
                .iter()
                .any(|kind| target.to_string_lossy().starts_with(kind))
        })
        .count()
}

/// The children of a process, zombies too.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let children = tasks
        .into_iter()
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    children
        .flat_map(|children| {
            children
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// Runs a scenario alone in a process of its own, behind a line of shell.
///
/// For what concerns a whole process: dispositions, descriptors, masks, children. `test` is the full name of the
/// test that calls this.
pub(crate) fn in_own_host<F: Future<Output = ()>>(test: &str, prepare: &str, scenario: impl FnOnce() -> F) {
    if is_own_host() {
        runtime().block_on(scenario());
        return;
    }
    let done = own_host(test, prepare).output().expect("a process of our own");
    let shown = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(
        done.status.success(),
        "{test} in a process of its own: {}\n{shown}",
        done.status
    );
    // A name that matches nothing would succeed as well. That it passed is not said where it closed its output.
    assert!(
        shown.contains("running 1 test"),
        "{test} is not the name of a test\n{shown}"
    );
}

const OWN_HOST: &str = "PROCESSION_TEST_OWN_HOST";
/// The variable by which a process of our own, which may be somebody else's, is told where the guard's program is.
pub(crate) const GUARD: &str = "PROCESSION_TEST_GUARD";

/// The guard's program.
pub(crate) fn guard_program() -> PathBuf {
    std::env::var_os(GUARD).map_or_else(|| env!("CARGO_BIN_EXE_procession-guard").into(), PathBuf::from)
}

/// Whether this is such a process.
pub(crate) fn is_own_host() -> bool {
    std::env::var_os(OWN_HOST).is_some()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime")
}

/// This program once more, to run one test, behind a line of shell.
pub(crate) fn own_host(test: &str, prepare: &str) -> std::process::Command {
    let mut command = std::process::Command::new("bash");
    command
        .args([
            "--noprofile",
            "--norc",
            "-c",
            &format!("{prepare}\nexec \"$@\""),
            "bash",
        ])
        .arg(std::env::current_exe().expect("our own program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(OWN_HOST, "1")
        .env(GUARD, guard_program());
    command
}
