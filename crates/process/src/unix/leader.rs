//! The process that was started, from its spawn to its reaping.
//!
//! INVARIANT: as long as the leader is not reaped, its pid is nobody else's, and with it the number of its group and
//! its session. All that relies on these numbers goes through [`LeaderProcess`], which knows whether that still
//! holds; signalling and reaping take the same short lock.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use procession_core::{
    Status,
    outcome::{ObservedBy, StepEffect, UnknownStatus, Usage},
};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags},
};
use tokio::io::unix::AsyncFd;

use super::{
    descriptor::above_stdio,
    resident::{Counted, OwnPeak},
    signal,
    sweeper::{SweeperHandle, Work},
    wait::{self, Mode, Seen},
};
use crate::port::{BoxFuture, Leader};

/// A leader, and whether its pid is still its own.
#[derive(Debug)]
pub(super) struct LeaderProcess {
    pid: i32,
    /// None where the leader was gone before it could be had.
    pidfd: Option<Arc<OwnedFd>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    hold: Hold,
    pins: u32,
    /// How it ended, once that was seen; kept past the reaping.
    status: Option<(Status, ObservedBy)>,
    was_killed: bool,
}

/// Whether the pid is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// It is: by the running leader, or by what is left of it until it is reaped.
    Unreaped,
    /// It was to be reaped while somebody still looked at its session: the last to leave reaps it.
    ReapWhenUnpinned,
    /// It may be somebody else's.
    Gone,
}

impl LeaderProcess {
    /// Takes charge of a child that was just started.
    ///
    /// # Errors
    /// Where no pidfd can be had; the child is dead and reaped then.
    pub(super) fn adopt(pid: i32) -> io::Result<Self> {
        let found = Pid::from_raw(pid).ok_or(Errno::SRCH).and_then(|pid| {
            let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
            Ok(pidfd)
        });
        let pidfd = match found.map_err(io::Error::from).and_then(above_stdio) {
            // It could be a stranger's that got the pid of a child whose status was taken already.
            Ok(pidfd) => (wait::look(pidfd.as_fd(), Mode::Peek) != Seen::Taken).then(|| Arc::new(pidfd)),
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => None,
            Err(error) => {
                // Not reaped by us and not taken by anybody: the pid and the group are still the child's.
                if let Err(errno) = signal::send_to_group(pid, libc::SIGKILL) {
                    tracing::warn!(pid, %errno, "a process without a pidfd could not be killed");
                }
                wait::reap_killed(pid);
                return Err(error);
            }
        };
        let (hold, status) = match pidfd {
            Some(_) => (Hold::Unreaped, None),
            None => (Hold::Gone, Some(unknown(UnknownStatus::TakenElsewhere))),
        };
        Ok(Self {
            pid,
            pidfd,
            state: Mutex::new(State {
                hold,
                pins: 0,
                status,
                was_killed: false,
            }),
        })
    }

    /// The pid, which is also the number of the group and of the session.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// The same as the port tells it.
    pub(super) fn public_pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// What becomes readable when the leader has ended.
    pub(super) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(|pidfd| pidfd.as_fd())
    }

    /// How it ended, without reaping; none while it runs.
    pub(super) fn status(&self) -> Option<(Status, ObservedBy)> {
        self.status_in(&mut self.lock())
    }

    /// Reaps it where it has ended; where somebody looks at its session, the last to leave does.
    pub(super) fn reap(&self) -> Option<Usage> {
        let state = &mut *self.lock();
        if state.hold != Hold::Unreaped {
            return None;
        }
        let mode = if state.pins == 0 { Mode::Reap } else { Mode::Peek };
        let (mut usage, counted) = self.look_in(state, mode)?;
        usage.peak_memory_bytes = OwnPeak::default().exceeded_by(counted);
        state.hold = if state.pins == 0 {
            Hold::Gone
        } else {
            Hold::ReapWhenUnpinned
        };
        Some(usage)
    }

    /// Whether it was not reaped yet, by us or by somebody else.
    pub(super) fn is_unreaped(&self) -> bool {
        self.lock().hold == Hold::Unreaped
    }

    /// Sends a signal to its group, unless the group may be somebody else's.
    pub(super) fn signal_group(&self, number: i32) -> StepEffect {
        let state = &mut *self.lock();
        // Somebody else may have taken the status, and with it the hold on the pid.
        self.status_in(state);
        if state.hold != Hold::Unreaped {
            return StepEffect::MetNobody;
        }
        match signal::send_to_group(self.pid, number) {
            Ok(()) => StepEffect::Delivered,
            Err(Errno::SRCH) => StepEffect::MetNobody,
            Err(Errno::PERM) => StepEffect::NotPermitted,
            Err(_) => StepEffect::Failed,
        }
    }

    /// Remembers that the whole tree is to die, also where its owner is gone.
    pub(super) fn mark_killed(&self) {
        self.lock().was_killed = true;
    }

    /// Whether the whole tree is to die.
    pub(super) fn was_killed(&self) -> bool {
        self.lock().was_killed
    }

    /// Keeps the pid from becoming somebody else's; none when it may be already.
    pub(super) fn pin(self: &Arc<Self>) -> Option<Pin> {
        let state = &mut *self.lock();
        self.status_in(state);
        if state.hold != Hold::Unreaped {
            return None;
        }
        state.pins = state.pins.saturating_add(1);
        Some(Pin(Arc::clone(self)))
    }

    fn unpin(&self) {
        let state = &mut *self.lock();
        state.pins = state.pins.saturating_sub(1);
        if state.pins == 0 && state.hold == Hold::ReapWhenUnpinned {
            self.look_in(state, Mode::Reap);
            state.hold = Hold::Gone;
        }
    }

    fn status_in(&self, state: &mut State) -> Option<(Status, ObservedBy)> {
        // Only a look tells that somebody else has taken the status of one that is thought to be unreaped.
        if state.hold == Hold::Unreaped {
            self.look_in(state, Mode::Peek);
        }
        state.status.clone()
    }

    /// Looks at it and notes what is seen; the usage where it has ended.
    fn look_in(&self, state: &mut State, mode: Mode) -> Option<(Usage, Counted)> {
        match wait::look(self.pidfd()?, mode) {
            Seen::Running => None,
            Seen::Ended(status, usage, counted) => {
                state.status = Some((status, ObservedBy::Pidfd));
                Some((usage, counted))
            }
            Seen::Taken => {
                state.hold = Hold::Gone;
                state
                    .status
                    .get_or_insert_with(|| unknown(UnknownStatus::TakenElsewhere));
                None
            }
            Seen::Failed(errno) => {
                state
                    .status
                    .get_or_insert_with(|| unknown(UnknownStatus::ObservationFailed { errno }));
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(reason: UnknownStatus) -> (Status, ObservedBy) {
    (Status::Unknown { reason }, ObservedBy::Nobody)
}

/// Keeps a leader's pid from becoming somebody else's.
#[derive(Debug)]
pub(super) struct Pin(Arc<LeaderProcess>);

impl Pin {
    /// Whose.
    pub(super) fn process(&self) -> &Arc<LeaderProcess> {
        &self.0
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

/// Charge of a leader: when the last who has it lets go, the leader is left to the sweeper, which reaps it.
///
/// Leader, tree and guard share it, so that nobody is reaped before the guard over its tree has killed.
#[derive(Debug)]
pub(super) struct Custody {
    process: Arc<LeaderProcess>,
    sweeper: Arc<SweeperHandle>,
}

impl Custody {
    /// Charge of this leader.
    pub(super) fn new(process: LeaderProcess, sweeper: Arc<SweeperHandle>) -> Self {
        Self {
            process: Arc::new(process),
            sweeper,
        }
    }

    /// Whom it is over.
    pub(super) fn process(&self) -> &Arc<LeaderProcess> {
        &self.process
    }

    /// Who looks at the process table.
    pub(super) fn sweeper(&self) -> &Arc<SweeperHandle> {
        &self.sweeper
    }
}

impl Drop for Custody {
    fn drop(&mut self) {
        if self.process.is_unreaped() {
            self.sweeper.submit(Work::Reap(Arc::clone(&self.process)));
        }
    }
}

/// The leader as the port gives it.
#[derive(Debug)]
pub(super) struct UnixLeader {
    exit: Option<AsyncFd<Arc<OwnedFd>>>,
    custody: Arc<Custody>,
}

impl UnixLeader {
    /// Registers the leader with the runtime.
    ///
    /// # Errors
    /// Where the runtime cannot take another descriptor.
    pub(super) fn new(custody: Arc<Custody>) -> io::Result<Self> {
        let pidfd = custody.process.pidfd.clone();
        let exit = pidfd.map(wait::watch).transpose()?;
        Ok(Self { exit, custody })
    }
}

impl Leader for UnixLeader {
    fn exited(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            let Some(exit) = &self.exit else { return Ok(()) };
            loop {
                let mut ready = exit.readable().await?;
                if self.custody.process.status().is_some() {
                    return Ok(());
                }
                ready.clear_ready();
            }
        })
    }

    fn peek(&self) -> Option<(Status, ObservedBy)> {
        self.custody.process.status()
    }

    fn reap(&self) -> Option<Usage> {
        self.custody.process.reap()
    }
}
