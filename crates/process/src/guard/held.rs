//! A session of the guard's, as its host has it.
//!
//! What has to be at once is done from here: a signal to the leader's group, and the kill of a whole control group.
//! That is safe for as long as the guard lives, because it reaps a leader only when it is asked to from here. All
//! else is asked of the guard.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use procession_core::{
    Containment, Signal, Status,
    containment::{CrashPromise, EmptyPromise, KillPromise, Mechanism},
    outcome::{ObservedBy, StepEffect, UnknownStatus, Usage},
    session::{Sight, TreeReport},
    spec::TerminalSize,
};
use rustix::io::Errno;
use tokio::sync::{oneshot, watch};

use super::{
    cgroup,
    link::Link,
    sys,
    wire::{ExitNotice, Request, TreeNotice},
};
use crate::{
    port::{BoxFuture, Leader, Tree},
    unix::signal,
};

/// What a rung promises under a guard.
pub(super) const fn containment(mechanism: Mechanism) -> Containment {
    use Mechanism::{Cgroup, PgidLock, PidNamespace, Subreaper};

    Containment {
        mechanism,
        kill: match mechanism {
            Cgroup | PidNamespace | PgidLock => KillPromise::Sure,
            _ => KillPromise::BestEffort,
        },
        empty: match mechanism {
            Cgroup | PidNamespace | PgidLock | Subreaper => EmptyPromise::Exact,
            _ => EmptyPromise::Unknown,
        },
        crash: match mechanism {
            PidNamespace => CrashPromise::Kernel,
            _ => CrashPromise::Guard,
        },
    }
}

/// What was seen of a session.
#[derive(Debug)]
pub(super) struct Seen {
    pid: i32,
    pidfd: OwnedFd,
    cgroup: Option<PathBuf>,
    exit: watch::Sender<Option<(Status, ObservedBy)>>,
    /// Whether nobody but the leader is left, as a fact.
    is_alone: AtomicBool,
    hold: Mutex<Hold>,
}

#[derive(Debug, Default)]
struct Hold {
    /// The leader is reaped, or is not held by anybody who would ask first: its number may be somebody else's.
    is_gone: bool,
    usage: Option<Usage>,
}

impl Seen {
    /// A session that runs.
    pub(super) fn new(pid: i32, pidfd: OwnedFd, cgroup: Option<PathBuf>) -> Self {
        Self {
            pid,
            pidfd,
            cgroup,
            exit: watch::Sender::new(None),
            is_alone: AtomicBool::new(false),
            hold: Mutex::default(),
        }
    }

    /// Its leader has ended.
    pub(super) fn exited(&self, notice: ExitNotice) {
        let ExitNotice {
            status,
            usage,
            is_alone,
            ..
        } = notice;
        self.is_alone.store(is_alone, Ordering::Release);
        let observed_by = if matches!(status, Status::Unknown { .. }) {
            ObservedBy::Nobody
        } else {
            self.hold().usage = Some(usage);
            ObservedBy::Guard
        };
        self.exit.send_replace(Some((status, observed_by)));
    }

    /// Its guard has ended, and the kernel has killed its leader with it; ends what can be reached of the others.
    pub(super) fn guard_has_ended(&self) {
        {
            let mut hold = self.hold();
            if !hold.is_gone {
                hold.is_gone = true;
                let killed = sys::signal_group_of(self.pidfd.as_fd(), libc::SIGKILL);
                let is_unknown = killed.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL));
                // Older systems know groups by numbers alone, and this one was the session's a moment ago.
                if is_unknown && signal::send_to_pidfd(self.pidfd.as_fd(), libc::SIGKILL).is_ok() {
                    let _ = signal::send_to_group(self.pid, libc::SIGKILL);
                }
            }
        }
        if let Some(group) = &self.cgroup {
            drop(cgroup::kill_at(group));
        }
        self.exit.send_if_modified(|exit| {
            let is_new = exit.is_none();
            exit.get_or_insert((
                Status::Unknown {
                    reason: UnknownStatus::SupervisorDied,
                },
                ObservedBy::Nobody,
            ));
            is_new
        });
    }

    fn hold(&self) -> MutexGuard<'_, Hold> {
        // Nothing that holds the lock can panic half-way through a change.
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Charge of a session: when the last who has it lets go, it is left to the guard, which reaps it.
#[derive(Debug)]
pub(super) struct Held {
    session: u64,
    mechanism: Mechanism,
    seen: Arc<Seen>,
    link: Arc<Link>,
}

impl Held {
    /// Charge of a session that runs.
    pub(super) fn new(session: u64, mechanism: Mechanism, seen: Arc<Seen>, link: Arc<Link>) -> Self {
        Self {
            session,
            mechanism,
            seen,
            link,
        }
    }

    /// The leader's pid.
    pub(super) fn pid(&self) -> u32 {
        self.seen.pid.unsigned_abs()
    }

    /// By what means it is held.
    pub(super) fn containment(&self) -> Containment {
        containment(self.mechanism)
    }

    /// Kills all at once; never waits.
    pub(super) fn kill(&self) -> StepEffect {
        if self.is_known_to_be_empty() {
            return StepEffect::MetNobody;
        }
        if let Some(group) = &self.seen.cgroup
            && self.link.readiness().has_cgroup_kill
        {
            return match cgroup::kill_at(group) {
                None => StepEffect::MetNobody,
                Some(Ok(())) => StepEffect::Delivered,
                Some(Err(error)) => effect_of(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            };
        }
        let effect = self.signal_group(libc::SIGKILL);
        if self.mechanism != Mechanism::PgidLock || effect == StepEffect::MetNobody {
            self.link.post(&Request::Kill {
                session: self.session,
            });
        }
        effect
    }

    fn signal_all(&self, number: i32) -> StepEffect {
        let effect = self.signal_group(number);
        if self.mechanism != Mechanism::PgidLock && !self.is_known_to_be_empty() {
            self.link.post(&Request::SignalRest {
                session: self.session,
                number,
            });
        }
        effect
    }

    /// Signals the leader's group. To a group of which only the dead leader is left a signal is "delivered" too;
    /// that nobody was met is said where it is known.
    fn signal_group(&self, number: i32) -> StepEffect {
        let hold = self.seen.hold();
        if hold.is_gone || self.is_known_to_be_empty() {
            return StepEffect::MetNobody;
        }
        // The leader is not reaped: the guard asks us first, and this lock is held.
        match signal::send_to_group(self.seen.pid, number) {
            Ok(()) => StepEffect::Delivered,
            Err(errno) => effect_of(errno),
        }
    }

    /// Whether the leader has ended and nobody else is left, as a fact.
    fn is_known_to_be_empty(&self) -> bool {
        if self.seen.exit.borrow().is_none() {
            return false;
        }
        if self.seen.is_alone.load(Ordering::Acquire) {
            return true;
        }
        let is_empty = self
            .seen
            .cgroup
            .as_ref()
            .is_some_and(|group| cgroup::is_empty_at(group) == Some(true));
        if is_empty {
            self.seen.is_alone.store(true, Ordering::Release);
        }
        is_empty
    }

    fn sight(&self) -> Sight {
        match self.containment().empty {
            EmptyPromise::Exact => Sight::Exact,
            EmptyPromise::Unknown => Sight::Partial,
        }
    }

    fn ask(self: &Arc<Self>, question: fn(u64, u64) -> Request) -> BoxFuture<'static, TreeReport> {
        let held = Arc::clone(self);
        Box::pin(async move {
            let nobody = |sight| TreeReport {
                swept: Vec::new(),
                alive: Vec::new(),
                sight,
            };
            if held.is_known_to_be_empty() {
                return nobody(held.sight());
            }
            let session = held.session;
            let answer: oneshot::Receiver<TreeNotice> = held.link.ask(|ticket| question(session, ticket));
            let Ok(notice) = answer.await else {
                return nobody(Sight::Partial);
            };
            held.reported(notice)
        })
    }

    fn reported(&self, notice: TreeNotice) -> TreeReport {
        let TreeNotice {
            swept,
            alive,
            is_exact,
            ..
        } = notice;
        if is_exact && alive.is_empty() && self.seen.exit.borrow().is_some() {
            self.seen.is_alone.store(true, Ordering::Release);
        }
        let to_pids = |pids: Vec<i32>| pids.into_iter().map(i32::unsigned_abs).collect();
        TreeReport {
            swept: to_pids(swept),
            alive: to_pids(alive),
            sight: if is_exact { Sight::Exact } else { Sight::Partial },
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.link.release(self.session);
    }
}

fn effect_of(errno: Errno) -> StepEffect {
    match errno {
        Errno::SRCH => StepEffect::MetNobody,
        Errno::PERM | Errno::ACCESS => StepEffect::NotPermitted,
        _ => StepEffect::Failed,
    }
}

/// The leader as the port gives it.
#[derive(Debug)]
pub(super) struct HeldLeader(pub(super) Arc<Held>);

impl Leader for HeldLeader {
    fn exited(&self) -> BoxFuture<'_, io::Result<()>> {
        let mut exit = self.0.seen.exit.subscribe();
        Box::pin(async move {
            // The sender is ours, and with it the channel stays open.
            exit.wait_for(Option::is_some)
                .await
                .map(|_| ())
                .map_err(io::Error::other)
        })
    }

    fn peek(&self) -> Option<(Status, ObservedBy)> {
        self.0.seen.exit.borrow().clone()
    }

    fn has_exited(&self) -> bool {
        self.0.seen.exit.borrow().is_some() || sys::has_ended(&self.0.seen.pidfd)
    }

    fn reap(&self) -> Option<Usage> {
        self.0.seen.exit.borrow().as_ref()?;
        let mut hold = self.0.seen.hold();
        if hold.is_gone {
            return None;
        }
        hold.is_gone = true;
        if let (Some(group), Some(usage)) = (&self.0.seen.cgroup, &mut hold.usage) {
            // It is removed behind the reaping, and nobody is in it any more but who is kept.
            cgroup::count_at(group, usage);
        }
        let session = self.0.session;
        self.0.link.post(&Request::Reap { session });
        hold.usage
    }
}

/// The tree as the port gives it.
#[derive(Debug)]
pub(super) struct HeldTree(pub(super) Arc<Held>);

impl Tree for HeldTree {
    fn signal_all(&self, signal: Signal) -> StepEffect {
        self.0.signal_all(signal.number())
    }

    fn signal_foreground(&self, signal: Signal) -> StepEffect {
        self.0.signal_group(signal.number())
    }

    fn kill(&self) -> StepEffect {
        self.0.kill()
    }

    fn survey(&self) -> BoxFuture<'static, TreeReport> {
        self.0.ask(|session, ticket| Request::Survey { session, ticket })
    }

    fn sweep(&self) -> BoxFuture<'static, TreeReport> {
        self.0.ask(|session, ticket| Request::Sweep { session, ticket })
    }

    fn resize(&self, _size: TerminalSize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn leave(&self) -> BoxFuture<'static, io::Result<()>> {
        let held = Arc::clone(&self.0);
        Box::pin(async move {
            let session = held.session;
            let answer = held.link.ask(|ticket| Request::Leave { session, ticket });
            // A guard that is gone has taken all with it.
            match answer.await {
                Ok(TreeNotice { is_exact: true, .. }) => Ok(()),
                Ok(_) => Err(io::Error::other("the guard cannot leave it")),
                Err(_) => Err(io::Error::other("the guard is gone")),
            }
        })
    }
}
