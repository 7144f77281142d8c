//! A place of its own for each test: home, state and configuration.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take that is waited for.
const BOUND: Duration = Duration::from_secs(20);

/// Folders that no other test sees.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The state directory of the program.
    pub(crate) fn state(&self) -> PathBuf {
        self.path("state/procession")
    }

    /// Writes the user's configuration.
    pub(crate) fn configure(&self, text: &str) {
        let file = self.path("config/procession/config.toml");
        fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
        fs::write(file, text).expect("a file");
    }

    /// The program with these arguments, nothing on its input, all output caught.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_procession"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.program(arguments).output().expect("the program starts")
    }

    /// Runs `procession run` to its end, with a report.
    pub(crate) fn reported(&self, arguments: &[&str]) -> (Output, Value) {
        let file = self.path("report.json");
        let report = file.to_str().expect("a path that is text");
        let output = self.run(&[&["run", "--report", report], arguments].concat());
        let report = serde_json::from_slice(&fs::read(&file).expect("a report")).expect("a report in JSON");
        (output, report)
    }

    /// Starts the program, with pipes to all three streams.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let mut child = self
            .program(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        Running { child, input, output }
    }
}

/// The program while it runs; killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Running {
    /// The next line of standard output; empty at its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let output = self.output.as_mut().expect("output is still open");
        output.read_line(&mut line).expect("text");
        line
    }

    pub(crate) fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("input is still open");
        input.write_all(text.as_bytes()).expect("somebody reads");
        input.flush().expect("somebody reads");
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    pub(crate) fn close_output(&mut self) {
        self.output = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// The exit code; input stays as it is.
    pub(crate) fn code(&mut self) -> Option<i32> {
        until(|| self.child.try_wait().expect("it is ours")).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until there is something, within a bound.
pub(crate) fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < BOUND, "it did not come within {BOUND:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The permission bits of a path, which is no link.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::symlink_metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o7777
}

/// Output as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Makes a named pipe.
pub(crate) fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
}
