//! Why a process could not be started.

use serde::{Deserialize, Serialize};

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StartFailureKind {
    /// It, or the interpreter that it names, does not exist.
    NotFound,
    /// It may not be executed or entered.
    PermissionDenied,
    /// It is no directory.
    NotADirectory,
    /// It lies outside of the root that the host set.
    OutsideRoot,
    /// It is being written to, and was so for as long as the start was tried.
    Busy,
    /// Arguments and environment are more than the system takes.
    TooLong,
    /// It is no program that the system knows how to run.
    NotExecutable,
    /// Descriptors, processes or memory are short.
    Exhausted,
    /// This machine or host cannot give what was asked for.
    Unsupported,
    /// The part of the host that starts processes is gone.
    HostStopped,
    /// The system refused for another reason, which the error number tells.
    Other,
}

impl StartFailureKind {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::PermissionDenied => "permission_denied",
            Self::NotADirectory => "not_a_directory",
            Self::OutsideRoot => "outside_root",
            Self::Busy => "busy",
            Self::TooLong => "too_long",
            Self::NotExecutable => "not_executable",
            Self::Exhausted => "exhausted",
            Self::Unsupported => "unsupported",
            Self::HostStopped => "host_stopped",
            Self::Other => "other",
        }
    }
}

/// A process that could not be started; nothing of it is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{place} `{subject}` cannot be used: {}{}", kind.as_str(), errno.map(|errno| format!(" (os error {errno})")).unwrap_or_default())]
pub struct StartFailure {
    /// What kind of failure it is.
    pub kind: StartFailureKind,
    /// The part of the spec that is at fault: `argv`, `cwd`, `tty`, or `host` where the spec is not.
    pub place: String,
    /// What was tried, for example the program or the directory; never a variable's value.
    pub subject: String,
    /// The system's error number, where it gave one.
    pub errno: Option<i32>,
}
