//! The guard: a small process beside the host that starts, holds and ends sessions.
//!
//! It is the same program started again under another name, so that a host that hooks [`run_if_asked`] into its
//! `main` needs nothing installed. It has one thread, none of the host's memory, environment, terminal or
//! descriptors, and a socket to the host that is its lifeline: when the host is gone, however that came, the guard
//! ends every session by the means that it is held by.
//!
//! # Rungs
//! All are tried at the start by really running a process in them; the strongest that works is in force.
//!
//! | means | kill | empty | host dies | guard is killed |
//! | --- | --- | --- | --- | --- |
//! | `cgroup` | sure | exact | the guard ends all | the host ends all; both at once: the next guard |
//! | `pid_namespace` | sure | exact | the kernel ends all | the kernel ends all |
//! | `pgid_lock` | sure | exact | the guard ends all | the host ends all; both at once: leaders alone end |
//! | `subreaper` | best effort | exact | the guard ends whom it finds | the session's init ends whom it finds |
//! | `process_group` | best effort | unknown | the guard ends whom it finds | leaders and their groups end; both at once: leaders alone |
//!
//! A guard that somebody has stopped is woken by the kernel when its host dies.
//!
//! What they cost a session: `pid_namespace` shows it its own processes only, and takes away other users' rights
//! (`sudo`) where it needs a user namespace; `pgid_lock` takes those away too, and job control.
//!
//! What none of them sees is work that was handed to another daemon. And none holds a session that means to get out
//! and may: one that runs as root, or as the same user with a control group that it may write to, can move itself.

use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use procession_core::{Containment, StartFailure, containment::Mechanism, spec::ExecLimits};
use procession_policy::Capabilities;

use crate::{
    port::{BoxFuture, ProcessPort, SpawnRequest, Spawned},
    unix::{PortError, UnixPort, probe, process_table::ProcessTable},
};

mod packet;
mod setup;
mod sys;
mod wire;

mod capability;
mod held;
mod link;
mod spawner;
mod start;

mod cgroup;
mod child;
mod init;
mod leave;
mod main;
mod outbox;
mod pgid_lock;
mod raw;
mod server;
mod session;
mod sweep;
mod tree;

pub use main::run_if_asked;

use link::Link;
use spawner::Spawner;

/// How a guard is started, and what it is to hold sessions by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GuardOptions {
    /// Which program the guard is.
    pub program: GuardProgram,
    /// By what means sessions are held.
    pub prefer: Preference,
}

impl GuardOptions {
    /// The same with another program.
    #[must_use]
    pub fn program(mut self, program: GuardProgram) -> Self {
        self.program = program;
        self
    }

    /// The same with another means.
    #[must_use]
    pub fn prefer(mut self, prefer: Preference) -> Self {
        self.prefer = prefer;
        self
    }
}

/// Which program the guard is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum GuardProgram {
    /// This one, started again; it has to call [`run_if_asked`] first in its `main`.
    #[default]
    SelfExe,
    /// Another one that calls [`run_if_asked`] first in its `main`, for example an installed `procession`.
    ///
    /// One that does not is started all the same, with no environment, and killed when it has not said what it is
    /// within two seconds.
    Path(PathBuf),
}

/// By what means sessions are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Preference {
    /// By the strongest that the machine has.
    #[default]
    Auto,
    /// By this one, or the guard does not start.
    Only(Mechanism),
}

/// A guard that cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// This program does not call [`run_if_asked`], so that a second one of it would be no guard.
    #[error("this program does not hook the guard into its `main`")]
    NotHooked,
    /// The program could not be started.
    #[error("the guard `{}` could not be started", program.display())]
    Spawn {
        /// Which.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was started did not say that it is a guard of this version; it was killed.
    #[error("`{}` is no guard of this version", program.display())]
    NoGuard {
        /// Which.
        program: PathBuf,
    },
    /// The guard ended, or said nothing, before it was ready; it was killed.
    #[error("the guard `{}` did not become ready", program.display())]
    Silent {
        /// Which.
        program: PathBuf,
    },
    /// This machine does not have the means that was asked for.
    #[error("sessions cannot be held by `{}`: {reason}", mechanism.as_str())]
    Unavailable {
        /// Which.
        mechanism: Mechanism,
        /// Why not, for people.
        reason: String,
    },
    /// The host could not make what it needs for its own end.
    #[error("the port's own end could not be made")]
    Host {
        /// Why.
        source: io::Error,
    },
}

/// Starts processes through a guard; a clone is the same port.
///
/// When the port and all that it started is dropped, the guard ends.
#[derive(Clone)]
pub struct GuardPort {
    current: Arc<Current>,
    spawner: Arc<Spawner>,
}

/// The guard in use: another one takes over where it was killed.
#[derive(Debug)]
struct Current {
    options: GuardOptions,
    table: ProcessTable,
    link: Mutex<Arc<Link>>,
}

impl GuardPort {
    /// Starts a guard; no runtime is needed yet.
    ///
    /// Takes some milliseconds, in which the machine's means are tried. The futures of [`ProcessPort::spawn`] have to
    /// be polled inside a tokio runtime with IO enabled, where they register the pipes. Sessions inherit what the
    /// host has at this moment: limits, umask, priority.
    ///
    /// # Errors
    /// [`GuardError`], and then no guard is left.
    pub fn start(options: GuardOptions) -> Result<Self, GuardError> {
        let table = ProcessTable::open();
        let link = Current::begin(&options, &table)?;
        let current = Arc::new(Current {
            options,
            table,
            link: Mutex::new(link),
        });
        let spawner = Spawner::start(Arc::clone(&current)).map_err(|source| GuardError::Host { source })?;
        Ok(Self {
            current,
            spawner: Arc::new(spawner),
        })
    }

    /// A guard, or where there is none to be had a port without one, which says why.
    ///
    /// # Errors
    /// [`PortError`] where not even that can be made.
    pub fn start_or_fall_back(options: GuardOptions) -> Result<Arc<dyn ProcessPort>, PortError> {
        match Self::start(options) {
            Ok(port) => Ok(Arc::new(port)),
            Err(error) => {
                tracing::warn!(%error, "there is no guard: nothing ends sessions when the host dies");
                let port = UnixPort::start()?;
                Ok(Arc::new(Unguarded {
                    port,
                    reason: error.to_string(),
                }))
            }
        }
    }

    /// The pid of the guard in use.
    #[must_use]
    pub fn guard_pid(&self) -> u32 {
        self.current.link().guard_pid().unsigned_abs()
    }
}

impl fmt::Debug for GuardPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardPort")
            .field("guard", &self.guard_pid())
            .field("mechanism", &self.current.link().mechanism())
            .finish_non_exhaustive()
    }
}

impl ProcessPort for GuardPort {
    fn capabilities(&self) -> Capabilities {
        self.current.link().capabilities().clone()
    }

    fn containment(&self) -> Containment {
        held::containment(self.current.link().mechanism())
    }

    fn exec_limits(&self) -> ExecLimits {
        probe::exec_limits()
    }

    fn spawn(&self, request: SpawnRequest) -> BoxFuture<'static, Result<Spawned, StartFailure>> {
        let spawner = Arc::clone(&self.spawner);
        Box::pin(async move { spawner.spawn(request).await?.adopt() })
    }
}

impl Current {
    fn begin(options: &GuardOptions, table: &ProcessTable) -> Result<Arc<Link>, GuardError> {
        // What holds now is what the guard is born with, and all that it starts.
        let inherited = probe::capabilities(table);
        let started = start::start(options)?;
        let capabilities = capability::of_guard(inherited, &started.readiness, started.mechanism);
        Link::new(started, capabilities).map_err(|source| GuardError::Host { source })
    }

    fn link(&self) -> Arc<Link> {
        Arc::clone(&self.lock())
    }

    /// Starts another guard.
    fn renew(&self) -> Result<Arc<Link>, GuardError> {
        let link = Self::begin(&self.options, &self.table)?;
        *self.lock() = Arc::clone(&link);
        Ok(link)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Link>> {
        // Nothing that holds the lock can panic half-way through a change.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port without a guard, and why there is none.
#[derive(Debug)]
struct Unguarded {
    port: UnixPort,
    reason: String,
}

impl ProcessPort for Unguarded {
    fn capabilities(&self) -> Capabilities {
        capability::without_guard(self.port.capabilities(), &self.reason)
    }

    fn containment(&self) -> Containment {
        self.port.containment()
    }

    fn exec_limits(&self) -> ExecLimits {
        self.port.exec_limits()
    }

    fn spawn(&self, request: SpawnRequest) -> BoxFuture<'static, Result<Spawned, StartFailure>> {
        self.port.spawn(request)
    }
}
