//! The port on Linux, on the rung `process_group`.
//!
//! Two threads serve it. The *spawner* starts all processes: one thread that lives as long as the port, so that
//! nothing that the kernel ties to the thread that started a process can end it early. The *sweeper* looks at the
//! process table, kills what is left of trees, and reaps leaders that were abandoned. Neither runs a signal handler
//! of the embedding program, and neither is needed to signal or to see an exit.

use std::{fmt, io, sync::Arc};

use procession_core::{Containment, StartFailure, spec::ExecLimits};
use procession_policy::Capabilities;

use crate::port::{BoxFuture, ProcessPort, SpawnRequest, Spawned};

pub(crate) mod descriptor;
pub(crate) mod failure;
pub(crate) mod resident;
pub(crate) mod signal;
pub(crate) mod wait;

pub(crate) mod cwd;
pub(crate) mod launch;
mod lookup;
pub(crate) mod spawner;

mod leader;
pub(crate) mod pipe;

mod group;
pub(crate) mod process_table;
pub(crate) mod sweeper;

pub(crate) mod probe;

#[cfg(test)]
mod tests;

pub use signal::restore_sigchld;

use process_table::ProcessTable;
use spawner::Spawner;
use sweeper::SweeperHandle;

/// Starts processes on Linux; a clone is the same port.
///
/// Its threads end by themselves when the port and everything that it started is dropped.
#[derive(Clone)]
pub struct UnixPort {
    spawner: Arc<Spawner>,
    table: Arc<ProcessTable>,
}

/// A port that cannot be made, or a disposition that cannot be set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// One of the port's threads could not be started.
    #[error("the thread `{name}` could not be started")]
    Thread {
        /// Which.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The descriptor that wakes a thread could not be made.
    #[error("no descriptor can be had to wake a thread with")]
    Wake {
        /// Why.
        source: io::Error,
    },
    /// A signal's disposition could not be read or set.
    #[error("the disposition of SIGCHLD could not be restored")]
    Disposition {
        /// Why.
        source: io::Error,
    },
}

impl UnixPort {
    /// Makes the port with its threads; no runtime is needed yet.
    ///
    /// The futures of [`ProcessPort::spawn`] have to be polled inside a tokio runtime with IO enabled, where they
    /// register the descriptors.
    ///
    /// Warns where SIGCHLD is ignored: the system then keeps no exit status, and all that can be said of an end is
    /// that somebody else took it. A program cures that with [`restore_sigchld`] before anything else.
    ///
    /// # Errors
    /// [`PortError::Thread`] or [`PortError::Wake`] where threads or descriptors are short.
    pub fn start() -> Result<Self, PortError> {
        if signal::is_sigchld_ignored() {
            tracing::warn!("SIGCHLD is ignored: no exit status can be seen until it is restored");
        }
        let table = Arc::new(ProcessTable::open());
        if !table.is_readable() {
            tracing::warn!("/proc is not this process's own: leftovers cannot be found");
        }
        let sweeper = SweeperHandle::start(Arc::clone(&table))?;
        let spawner = Spawner::start(sweeper)?;
        Ok(Self {
            spawner: Arc::new(spawner),
            table,
        })
    }
}

impl fmt::Debug for UnixPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixPort").finish_non_exhaustive()
    }
}

impl ProcessPort for UnixPort {
    fn capabilities(&self) -> Capabilities {
        probe::capabilities(&self.table)
    }

    fn containment(&self) -> Containment {
        Containment::PROCESS_GROUP
    }

    fn exec_limits(&self) -> ExecLimits {
        probe::exec_limits()
    }

    fn spawn(&self, request: SpawnRequest) -> BoxFuture<'static, Result<Spawned, StartFailure>> {
        let spawner = Arc::clone(&self.spawner);
        Box::pin(async move { spawner.spawn(request).await?.adopt() })
    }
}
