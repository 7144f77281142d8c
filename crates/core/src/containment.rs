//! By what means a tree can be found and killed, and what each can promise.

use serde::{Deserialize, Serialize};

/// The means, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mechanism {
    /// A delegated control group of its own.
    Cgroup,
    /// A process namespace with an init of ours.
    PidNamespace,
    /// A filter under which no process can leave its group.
    PgidLock,
    /// A subreaper that stops, scans and kills.
    Subreaper,
    /// The process group alone.
    ProcessGroup,
    /// A script that plays a process.
    Scripted,
}

impl Mechanism {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::PidNamespace => "pid_namespace",
            Self::PgidLock => "pgid_lock",
            Self::Subreaper => "subreaper",
            Self::ProcessGroup => "process_group",
            Self::Scripted => "scripted",
        }
    }
}

/// Whether a kill reaches everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillPromise {
    /// Nobody escapes.
    Sure,
    /// Who moved away may escape.
    BestEffort,
}

/// Whether an empty tree can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyPromise {
    /// It is known when nobody is left.
    Exact,
    /// It is not.
    Unknown,
}

/// What ends the tree when the host dies without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashPromise {
    /// The kernel does.
    Kernel,
    /// The guard does.
    Guard,
    /// Nothing does before the next start of a host.
    NextStart,
}

/// A means with its promises; named before the session runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containment {
    /// The means.
    pub mechanism: Mechanism,
    /// Whether a kill reaches everybody.
    pub kill: KillPromise,
    /// Whether an empty tree can be told.
    pub empty: EmptyPromise,
    /// What ends the tree when the host dies.
    pub crash: CrashPromise,
}

impl Containment {
    /// The process group alone: best effort, nothing known of who moved away, nothing done at a crash.
    pub const PROCESS_GROUP: Self = Self {
        mechanism: Mechanism::ProcessGroup,
        kill: KillPromise::BestEffort,
        empty: EmptyPromise::Unknown,
        crash: CrashPromise::NextStart,
    };
}
