//! What is wrong with a configuration, and where.

use std::{fmt, io, path::PathBuf};

use procession_core::redact::SecretError;
use procession_policy::HostPolicyError;

/// A line of the configuration file, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file.
    pub(crate) file: PathBuf,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// Why a configuration cannot hold; never with a value of `[env]` or `[secrets]`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration `{}` cannot be read", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is larger than any configuration.
    #[error("the configuration `{}` is too long: the limit is {limit_bytes} bytes", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
        /// The limit, inclusive.
        limit_bytes: u64,
    },
    /// The file is no TOML.
    #[error("{place}: {message}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser said, without the line itself.
        message: String,
    },
    /// There is no such table.
    #[error("{place}: unknown table `{name}`; the nearest known one is `{nearest}`")]
    UnknownTable {
        /// Where.
        place: Place,
        /// The name.
        name: String,
        /// The known name that is most like it.
        nearest: &'static str,
    },
    /// There is no such key.
    #[error("{place}: unknown key `{key}` in [{table}]; the nearest known one is `{nearest}`")]
    UnknownKey {
        /// Where.
        place: Place,
        /// The table.
        table: &'static str,
        /// The key.
        key: String,
        /// The known key that is most like it.
        nearest: &'static str,
    },
    /// A value is of the wrong kind.
    #[error("{place}: `{key}` is {expected}, not {found}")]
    WrongType {
        /// Where.
        place: Place,
        /// The key with its table.
        key: String,
        /// What it has to be, in words.
        expected: &'static str,
        /// What it is, in words.
        found: &'static str,
    },
    /// A value is of the right kind and does not fit.
    #[error("{place}: `{key}` does not fit: {expected}")]
    Unfit {
        /// Where.
        place: Place,
        /// The key with its table.
        key: String,
        /// What fits, in words.
        expected: String,
    },
    /// A policy field's value does not fit.
    #[error("{place}")]
    Policy {
        /// Where.
        place: Place,
        /// What does not fit.
        #[source]
        source: HostPolicyError,
    },
    /// Two keys say the same thing.
    #[error("{place}: `{key}` and `{other}` say the same thing: keep one")]
    Twice {
        /// Where the second one stands.
        place: Place,
        /// The second one.
        key: String,
        /// The first one.
        other: &'static str,
    },
    /// A variable of the host that a value comes from is not set.
    #[error("{place}: `{key}` comes from `{variable}`, which is not set here")]
    NotSet {
        /// Where.
        place: Place,
        /// The key with its table.
        key: String,
        /// The host's variable.
        variable: String,
    },
    /// A secret cannot be looked for in output.
    #[error("{place}: `{key}` cannot be replaced in output")]
    UnfitSecret {
        /// Where.
        place: Place,
        /// The key with its table.
        key: String,
        /// Why.
        #[source]
        source: SecretError,
    },
    /// What is asked for cannot be had from this version; nothing starts without it.
    #[error("{place}: `{key}` cannot be honoured by this version, and is not ignored: {reason}")]
    CannotHonour {
        /// Where.
        place: Place,
        /// The key with its table.
        key: String,
        /// Why, in words.
        reason: &'static str,
    },
}
