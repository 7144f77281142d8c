//! What ends the program before or beside its session, and how that is told.

use std::{error::Error, io, io::Write, path::PathBuf};

use procession_actors::error::CallError;
use procession_policy::HostPolicyError;
use procession_process::{GuardError, PortError};

use crate::config::ConfigError;

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CommandError {
    /// The configuration cannot hold.
    #[error("the configuration is refused")]
    Configuration(#[from] ConfigError),
    /// The settings of the policy do not hold together with the command's own.
    #[error("the policy is refused")]
    Policy(#[from] HostPolicyError),
    /// The part that starts processes did not come up.
    #[error("processes cannot be started here")]
    Port(#[from] PortError),
    /// The means of containment that was asked for is not to be had.
    #[error("the containment that was asked for cannot be had here")]
    Guard(#[from] GuardError),
    /// The session system did not come up.
    #[error("the session system did not start")]
    System(#[from] procession_actors::SystemError),
    /// A call was not carried out.
    #[error("the session system did not answer")]
    Call(#[from] CallError),
    /// The tasks of the program cannot run.
    #[error("the program's own threads cannot be started")]
    Runtime {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomBytes,
    /// A path on the command line cannot be used.
    #[error("`{}` cannot be used as {purpose}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// For what it was given.
        purpose: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Two answers to one question.
    #[error("{given} cannot be given here: {reason}")]
    Conflict {
        /// The option.
        given: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// Standard output took no more.
    #[error("standard output cannot be written")]
    Output {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A log cannot be opened.
    #[error("`{}` cannot be read as a log", path.display())]
    Log {
        /// The folder.
        path: PathBuf,
        /// What the log store said.
        #[source]
        source: procession_log_store::OpenError,
    },
    /// A log cannot be read on.
    #[error("the log cannot be read on")]
    ReadLog(#[from] procession_log_store::ReadError),
    /// A log cannot be searched.
    #[error("the log cannot be searched")]
    SearchLog(#[from] procession_log_store::SearchError),
    /// A page was asked for of a command that there is not.
    #[error("there is no command `{name}`: see `procession --help`")]
    NoSuchCommand {
        /// What was asked for.
        name: String,
    },
    /// The MCP server ended with an error.
    #[error("the MCP server failed")]
    Mcp(#[from] procession_mcp::ServeError),
}

/// Tells an error with its causes, a line on standard error.
///
/// Nobody may be there to read it, which is no further error.
pub(crate) fn tell(error: &(dyn Error + 'static)) {
    let mut line = format!("procession: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors repeat their cause.
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    tell_line(&line);
}

/// Writes a line on standard error, if somebody reads it.
pub(crate) fn tell_line(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
