//! Signals by number and name, without the operating system.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A signal's number, 1 to 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub struct Signal(i32);

/// Names of the standard signals on Linux (`signal(7)`, the column of x86 and ARM).
const NAMES: [(i32, &str); 31] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (16, "SIGSTKFLT"),
    (17, "SIGCHLD"),
    (18, "SIGCONT"),
    (19, "SIGSTOP"),
    (20, "SIGTSTP"),
    (21, "SIGTTIN"),
    (22, "SIGTTOU"),
    (23, "SIGURG"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (26, "SIGVTALRM"),
    (27, "SIGPROF"),
    (28, "SIGWINCH"),
    (29, "SIGIO"),
    (30, "SIGPWR"),
    (31, "SIGSYS"),
];

impl Signal {
    /// Hang-up.
    pub const HUP: Self = Self(1);
    /// Interrupt, what Ctrl-C sends.
    pub const INT: Self = Self(2);
    /// Kill, which cannot be caught.
    pub const KILL: Self = Self(9);
    /// Write to a pipe without a reader.
    pub const PIPE: Self = Self(13);
    /// Terminate, which asks.
    pub const TERM: Self = Self(15);
    /// Continue a stopped process.
    pub const CONT: Self = Self(18);

    /// The signal of this number.
    ///
    /// # Errors
    /// [`UnknownSignal`] for numbers outside of 1 to 64.
    pub fn from_number(number: i32) -> Result<Self, UnknownSignal> {
        if (1..=64).contains(&number) {
            Ok(Self(number))
        } else {
            Err(UnknownSignal {
                signal: number.to_string(),
            })
        }
    }

    /// The signal's number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }

    /// The signal's name with its prefix, for example `SIGTERM`; none for real-time signals.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .iter()
            .find(|(number, _)| *number == self.0)
            .map(|(_, name)| *name)
    }
}

/// What was given is neither the number nor the name of a signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{signal}` is not a signal: a name such as `TERM` or `SIGTERM`, or a number from 1 to 64, is")]
pub struct UnknownSignal {
    /// What was given.
    pub signal: String,
}

impl FromStr for Signal {
    type Err = UnknownSignal;

    /// Takes `TERM`, `SIGTERM`, both in any case, and `15`.
    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        let unknown = || UnknownSignal {
            signal: text.chars().take(40).collect(),
        };
        if let Ok(number) = text.parse() {
            return Self::from_number(number);
        }
        let upper = text.to_ascii_uppercase();
        let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
        NAMES
            .iter()
            .find(|(_, name)| name.strip_prefix("SIG") == Some(bare))
            .map(|(number, _)| Self(*number))
            .ok_or_else(unknown)
    }
}

impl TryFrom<i32> for Signal {
    type Error = UnknownSignal;

    fn try_from(number: i32) -> Result<Self, UnknownSignal> {
        Self::from_number(number)
    }
}

impl From<Signal> for i32 {
    fn from(signal: Signal) -> Self {
        signal.0
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_known_by_name_and_number() {
        for (given, number) in [
            ("TERM", 15),
            ("SIGTERM", 15),
            ("sigint", 2),
            ("9", 9),
            ("Kill", 9),
            ("40", 40),
        ] {
            assert_eq!(given.parse::<Signal>().map(Signal::number), Ok(number), "{given}");
        }
        for given in ["", "SIG", "FOO", "0", "-9", "65", "9.0", "SIGSIGTERM", "\0"] {
            assert!(given.parse::<Signal>().is_err(), "{given:?}");
        }
    }

    #[test]
    fn a_real_time_signal_has_no_name() {
        let signal = Signal::from_number(40).expect("in range");
        assert_eq!(
            (signal.name(), signal.to_string()),
            (None, "signal 40".to_owned())
        );
    }
}
