//! What is set in a child besides what every child gets.

use crate::port::{ProcessLimits, SpawnRequest};

use super::sys;

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

impl ChildSetup {
    /// What a request asks for.
    pub(crate) fn of(request: &SpawnRequest) -> Self {
        let ProcessLimits {
            cpu_time,
            address_space_bytes,
            open_files,
            file_size_bytes,
            processes,
            core_bytes,
            nice,
            oom_score_adj,
            umask,
        } = &request.limits;
        let cpu = cpu_time.map(|time| {
            let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
            // Later than the signal that names the limit, for who does not mind that one.
            let most = sys::limit(libc::RLIMIT_CPU).map_or(u64::MAX, |(_, hard)| hard);
            ResourceLimit {
                resource: libc::RLIMIT_CPU,
                soft: seconds,
                hard: seconds.saturating_add(1).min(most).max(seconds),
            }
        });
        let others = [
            (libc::RLIMIT_AS, address_space_bytes),
            (libc::RLIMIT_NOFILE, open_files),
            (libc::RLIMIT_FSIZE, file_size_bytes),
            (libc::RLIMIT_NPROC, processes),
            (libc::RLIMIT_CORE, core_bytes),
        ];
        let others = others.into_iter().filter_map(|(resource, value)| {
            value.map(|value| ResourceLimit {
                resource,
                soft: value,
                hard: value,
            })
        });
        Self {
            terminal: request.terminal.is_some(),
            limits: cpu.into_iter().chain(others).collect(),
            nice: *nice,
            oom_score_adj: *oom_score_adj,
            umask: *umask,
        }
    }
}
