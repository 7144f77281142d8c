//! What a caller asks for: one command with all that belongs to it.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    field::{Field, RequestedLimits, UnfitValue, Value},
    id::RequestId,
    limits::Leftovers,
};

mod check;
#[cfg(test)]
mod tests;

/// One command, and how it is to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSpec {
    /// What to run.
    pub program: Program,
    /// Where to run it; relative paths start at the host's root, which is also the default.
    pub cwd: Option<PathBuf>,
    /// Variables that the caller gives, by name.
    pub env: BTreeMap<OsString, EnvValue>,
    /// Variables that the host configured, by name.
    pub env_keys: Vec<String>,
    /// Where standard input comes from.
    pub stdin: StdinMode,
    /// The terminal to run on, if any.
    pub terminal: Option<Terminal>,
    /// Whether standard output and standard error are one stream.
    pub streams: StreamMode,
    /// A name for people, at most [`MAX_LABEL_BYTES`] long.
    pub label: Option<String>,
    /// What happens to leftovers; the host's default when not given.
    pub leftovers: Option<Leftovers>,
    /// Requested limits, by field.
    pub limits: RequestedLimits,
    /// Who sets the pace of reading.
    pub pace: Pace,
    /// The caller's name for this start; the same name from the same owner is the same session.
    pub request_id: Option<RequestId>,
}

impl SessionSpec {
    /// A session of this program with everything else at its default.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            cwd: None,
            env: BTreeMap::new(),
            env_keys: Vec::new(),
            stdin: StdinMode::Null,
            terminal: None,
            streams: StreamMode::Separate,
            label: None,
            leftovers: None,
            limits: RequestedLimits::new(),
            pace: Pace::Free,
            request_id: None,
        }
    }

    /// A session of this argument vector.
    pub fn argv<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self::new(Program::Argv(argv.into_iter().map(Into::into).collect()))
    }

    /// A session of this command line in a shell.
    pub fn shell(shell: Shell, command: impl Into<OsString>) -> Self {
        Self::new(Program::Shell {
            command: command.into(),
            shell,
        })
    }

    /// Requests a limit.
    #[must_use]
    pub fn limit(mut self, field: Field, value: impl Into<Value>) -> Self {
        self.limits.insert(field, value.into());
        self
    }

    /// Requests a wall time-out.
    #[must_use]
    pub fn wall_time(self, limit: Duration) -> Self {
        self.limit(Field::WallTime, crate::time::whole_millis(limit))
    }

    /// Everything that is requested, by field: the limits and what the other parts of the spec ask for.
    #[must_use]
    pub fn requested(&self) -> RequestedLimits {
        let mut requested = self.limits.clone();
        if self.stdin == StdinMode::Piped {
            requested.insert(Field::Stdin, Value::from("piped"));
        }
        if let Some(terminal) = &self.terminal {
            requested.insert(Field::Tty, Value::Flag(true));
            if let Some(size) = terminal.size {
                requested.insert(Field::TerminalSize, Value::Text(size.to_string()));
            }
        }
        if let Some(leftovers) = self.leftovers {
            requested.insert(Field::Leftovers, Value::from(leftovers.as_str()));
        }
        if self.pace == Pace::Reader {
            // Less could not hold what a pipe holds at the leader's exit.
            let capture = requested
                .entry(Field::Capture)
                .or_insert(Value::Number(PACED_CAPTURE_BYTES));
            if capture
                .as_number()
                .is_some_and(|bytes| bytes < PACED_CAPTURE_BYTES)
            {
                *capture = Value::Number(PACED_CAPTURE_BYTES);
            }
        }
        if !self.env_keys.is_empty() {
            requested.insert(Field::EnvKeys, Value::List(self.env_keys.clone()));
        }
        if !self.env.is_empty() {
            let names = self
                .env
                .keys()
                .map(|name| name.to_string_lossy().into_owned())
                .collect();
            requested.insert(Field::EnvLiteral, Value::List(names));
        }
        requested
    }
}

/// What a session asks for at the least to keep, where its reader sets the pace, in bytes for each stream.
pub const PACED_CAPTURE_BYTES: u64 = 1 << 20;
/// The longest label, in bytes, inclusive.
pub const MAX_LABEL_BYTES: usize = 256;
/// The most configured variables that one session may name, and the most that it may give itself.
pub const MAX_ENV_KEYS: usize = 256;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// A program and its arguments, no shell between.
    Argv(Vec<OsString>),
    /// A command line for a shell that reads no start-up file.
    Shell {
        /// The command line, one string.
        command: OsString,
        /// The shell.
        shell: Shell,
    },
}

impl Program {
    /// The argument vector that is executed.
    #[must_use]
    pub fn to_argv(&self) -> Vec<OsString> {
        match self {
            Self::Argv(argv) => argv.clone(),
            Self::Shell { command, shell } => {
                let mut argv: Vec<OsString> = shell.argv().iter().map(OsString::from).collect();
                argv.push(command.clone());
                argv
            }
        }
    }
}

/// A shell that runs a command line without start-up files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shell {
    /// `sh -c`.
    #[default]
    Sh,
    /// `bash --noprofile --norc -c`.
    Bash,
    /// `zsh -f -c`.
    Zsh,
}

impl Shell {
    /// The argument vector before the command line.
    #[must_use]
    pub const fn argv(self) -> &'static [&'static str] {
        match self {
            Self::Sh => &["sh", "-c"],
            Self::Bash => &["bash", "--noprofile", "--norc", "-c"],
            Self::Zsh => &["zsh", "-f", "-c"],
        }
    }

    /// The shell of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "sh" => Some(Self::Sh),
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            _ => None,
        }
    }
}

/// A variable's value; never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvValue(OsString);

impl EnvValue {
    /// The value itself, for the process that gets it.
    #[must_use]
    pub fn reveal(&self) -> &OsStr {
        &self.0
    }
}

impl<S: Into<OsString>> From<S> for EnvValue {
    fn from(value: S) -> Self {
        Self(value.into())
    }
}

impl fmt::Debug for EnvValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Where a session's standard input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    /// From nowhere: a reader sees end of file at once.
    #[default]
    Null,
    /// From a pipe that stays open until it is closed.
    Piped,
}

/// Whether a session's two output streams are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamMode {
    /// Two pipes: each in its own order, no order between them.
    #[default]
    Separate,
    /// One pipe for both, so that the order is that of the writes; all of it is standard output.
    Merged,
}

/// Who sets the pace at which a session's output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// The process: output is always read, what does not fit the capture is counted as omitted.
    #[default]
    Free,
    /// The reader at the session's own cursor: nothing is read that the capture could not keep for it, so that a
    /// slow reader slows the process and loses nothing.
    Reader,
}

/// A terminal to run on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Terminal {
    /// Its size; the host's default when not given.
    pub size: Option<TerminalSize>,
    /// The value of `TERM`; the host's default when not given.
    pub term: Option<String>,
}

/// A terminal's size in character cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl fmt::Display for TerminalSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.cols)
    }
}

/// What the operating system takes as arguments and environment of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecLimits {
    /// The longest single string, in bytes, inclusive, its end not counted.
    pub string_bytes: u64,
    /// All strings of arguments and environment together, in bytes, ends and pointers counted.
    pub total_bytes: u64,
}

impl Default for ExecLimits {
    /// Linux with the usual stack limit of 8 MiB: 32 pages less one byte for a string, a quarter of the stack for all.
    fn default() -> Self {
        Self {
            string_bytes: 131_071,
            total_bytes: 2 << 20,
        }
    }
}

/// A spec that cannot be carried out, whatever the machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A string holds a NUL, which the system takes for its end.
    #[error("`{place}` holds a NUL character")]
    Nul {
        /// Where, for example `argv[2]` or `env.NAME`.
        place: String,
    },
    /// There is no program to run.
    #[error("`argv` is empty: it has to hold at least the program")]
    EmptyArgv,
    /// The program's name is empty.
    #[error("`argv[0]` is empty: it has to name a program")]
    EmptyProgram,
    /// The name of a variable cannot be one.
    #[error("`env` holds the variable name `{name}`: a name is not empty and holds no `=`")]
    BadVariableName {
        /// The name, cut to 64 characters.
        name: String,
    },
    /// A string is longer than the system takes.
    #[error("`{place}` is too long: {bytes} bytes, the limit is {limit_bytes}")]
    TooLong {
        /// Where.
        place: String,
        /// How long it is.
        bytes: u64,
        /// What the limit is, inclusive.
        limit_bytes: u64,
    },
    /// There are more entries than a session may have.
    #[error("`{place}` has too many entries: {count}, the limit is {limit}")]
    TooMany {
        /// Where.
        place: String,
        /// How many there are.
        count: u64,
        /// What the limit is, inclusive.
        limit: u64,
    },
    /// A limit's value does not fit its field.
    #[error(transparent)]
    Unfit(#[from] UnfitValue),
    /// Two things are asked for that exclude one another.
    #[error("`{place}` and `{other}` cannot be asked for together")]
    Conflict {
        /// The one.
        place: &'static str,
        /// The other.
        other: &'static str,
    },
}

impl SpecError {
    /// The part of the spec that is at fault.
    #[must_use]
    pub fn place(&self) -> &str {
        match self {
            Self::Nul { place } | Self::TooLong { place, .. } | Self::TooMany { place, .. } => place,
            Self::EmptyArgv | Self::EmptyProgram => "argv",
            Self::BadVariableName { .. } => "env",
            Self::Unfit(unfit) => unfit.field.name(),
            Self::Conflict { place, .. } => place,
        }
    }
}
