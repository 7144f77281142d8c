//! What a machine and its host can enforce, field by field.

use std::collections::BTreeMap;

use procession_core::{Field, Value};
use serde::{Deserialize, Serialize};

/// How well a limit is enforced.
///
/// On record by its place in this list: new levels go to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// By the system or the supervisor, for the whole tree.
    Native,
    /// For each process alone.
    PerProcess,
    /// By a sandbox program around the session.
    Wrapper,
    /// Passed on, not enforced.
    Advisory,
    /// Not at all.
    Unsupported,
}

impl Level {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::PerProcess => "per_process",
            Self::Wrapper => "wrapper",
            Self::Advisory => "advisory",
            Self::Unsupported => "unsupported",
        }
    }
}

/// By what a limit is enforced.
///
/// On record by its place in this list: new channels go to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Channel {
    /// The session's own supervision: timers, readers, signals.
    Supervisor,
    /// The registry: admission, retention.
    Registry,
    /// Resource limits of each process.
    Rlimit,
    /// A control group.
    Cgroup,
    /// Landlock.
    Landlock,
    /// A system call filter.
    Seccomp,
    /// Namespaces.
    Namespace,
    /// The argument vector.
    Argv,
    /// The environment.
    Env,
    /// Nothing.
    None,
}

impl Channel {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Supervisor => "supervisor",
            Self::Registry => "registry",
            Self::Rlimit => "rlimit",
            Self::Cgroup => "cgroup",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Namespace => "namespace",
            Self::Argv => "argv",
            Self::Env => "env",
            Self::None => "none",
        }
    }
}

/// What can be done about one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// How well.
    pub level: Level,
    /// By what.
    pub channel: Channel,
    /// The words, or `true` or `false`, that can be had, where not all of the field's can.
    pub supported: Option<Vec<String>>,
    /// What holds for a session that asks for nothing, where the machine says so: an inherited limit, the
    /// containment in force.
    pub inherited: Option<Value>,
    /// The most that the machine gives, inclusive, where it says so: a hard limit. Nobody's rule goes beyond it.
    pub most: Option<Value>,
    /// What a reader has to know, in one line.
    pub note: Option<String>,
}

impl Capability {
    /// A capability with nothing more to say.
    #[must_use]
    pub const fn new(level: Level, channel: Channel) -> Self {
        Self {
            level,
            channel,
            supported: None,
            inherited: None,
            most: None,
            note: None,
        }
    }

    /// The same, for these words only.
    #[must_use]
    pub fn supporting(mut self, words: &[&str]) -> Self {
        self.supported = Some(words.iter().map(|word| (*word).to_owned()).collect());
        self
    }

    /// The same, with what is inherited.
    #[must_use]
    pub fn inheriting(mut self, value: impl Into<Value>) -> Self {
        self.inherited = Some(value.into());
        self
    }

    /// The same, with the most that the machine gives, inclusive.
    #[must_use]
    pub fn at_most(mut self, value: impl Into<Value>) -> Self {
        self.most = Some(value.into());
        self
    }

    /// The same, with a note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// What can be enforced here; a field without an entry is unsupported.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    entries: BTreeMap<Field, Capability>,
}

impl Capabilities {
    /// Nothing can be enforced.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// What supervision does on any machine: times, output, input, log, environment, retention.
    #[must_use]
    pub fn supervision() -> Self {
        let native = |channel| Capability::new(Level::Native, channel);
        let entries = [
            (Field::WallTime, native(Channel::Supervisor)),
            (Field::IdleTime, native(Channel::Supervisor)),
            (Field::Grace, native(Channel::Supervisor)),
            (Field::DrainGrace, native(Channel::Supervisor)),
            (Field::YieldTime, native(Channel::Supervisor)),
            (Field::OutputBudget, native(Channel::Supervisor)),
            (Field::Capture, native(Channel::Supervisor)),
            (Field::LogBytes, native(Channel::Supervisor)),
            (Field::LogMode, native(Channel::Supervisor)),
            (Field::WriteBytes, native(Channel::Supervisor)),
            (Field::Stdin, native(Channel::Supervisor)),
            (Field::EnvKeys, native(Channel::Env)),
            (Field::EnvLiteral, native(Channel::Env)),
            (Field::Retention, native(Channel::Registry)),
            (
                Field::CwdRoot,
                Capability::new(Level::Advisory, Channel::Supervisor)
                    .with_note("where the session starts, not where it may go"),
            ),
        ];
        Self {
            entries: entries.into(),
        }
    }

    /// Sets what can be done about a field.
    #[must_use]
    pub fn with(mut self, field: Field, capability: Capability) -> Self {
        self.entries.insert(field, capability);
        self
    }

    /// What can be done about a field; none when nothing can.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&Capability> {
        self.entries.get(&field)
    }

    /// All entries, by field.
    pub fn iter(&self) -> impl Iterator<Item = (Field, &Capability)> {
        self.entries
            .iter()
            .map(|(field, capability)| (*field, capability))
    }
}
