//! What is set in a child besides what every child gets.

/// What is set in a child before its program runs; what is none stays as the host had it when the guard started.
///
/// Applied in the order of the fields, in the child, behind its session and streams and before filters: what is not
/// permitted fails the start, with the step and the error number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ChildSetup {
    /// Whether standard input is the end of a terminal that becomes the controlling one.
    pub(crate) terminal: bool,
    /// Resource limits, each once.
    pub(crate) limits: Vec<ResourceLimit>,
    /// The priority, −20 to 19.
    pub(crate) nice: Option<i32>,
    /// How soon the killer of last resort takes it, −1000 to 1000.
    pub(crate) oom_score_adj: Option<i32>,
    /// The mask of permissions for new files.
    pub(crate) umask: Option<u32>,
}

/// A resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResourceLimit {
    /// The system's number of the resource, `RLIMIT_*`.
    pub(crate) resource: u32,
    /// What holds.
    pub(crate) soft: u64,
    /// Up to where the child may raise it.
    pub(crate) hard: u64,
}
