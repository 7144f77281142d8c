//! A tree held by its leader's process group and session.
//!
//! A signal to the group is one call, reaches all its members at once, and no fork escapes it. Jobs that a shell put
//! into groups of their own are still of the leader's session; they are found in the process table, which takes time
//! by the number of all processes of the machine. So these are signalled a moment later, by the sweeper, and nothing
//! here waits for that. Who started a session of its own is out of reach.

use std::{io, sync::Arc};

use procession_core::{
    Signal,
    outcome::StepEffect,
    session::{Sight, TreeReport},
    spec::TerminalSize,
};
use tokio::sync::oneshot;

use super::{
    leader::{Custody, LeaderProcess},
    sweeper::{SweeperHandle, Work},
};
use crate::port::{BoxFuture, Tree};

/// A leader's group and session.
#[derive(Debug)]
pub(super) struct GroupTree(Arc<Custody>);

impl GroupTree {
    /// The tree of this leader.
    pub(super) fn new(custody: Arc<Custody>) -> Self {
        Self(custody)
    }

    fn signal_members(&self, number: i32) -> StepEffect {
        let effect = self.signal_group(number);
        let (process, sweeper) = (self.0.process(), self.0.sweeper());
        // After the signal: whoever a killed leader started, it has started by now.
        if process.is_unreaped() && !sweeper.table().is_newest(process.pid()) {
            sweeper.submit(Work::Signal {
                process: Arc::clone(process),
                number,
            });
        }
        effect
    }

    /// Signals the group. To a group of which only the dead leader is left a signal is "delivered" too; that nobody
    /// was met is said where it is known.
    fn signal_group(&self, number: i32) -> StepEffect {
        let (process, sweeper) = (self.0.process(), self.0.sweeper());
        let is_alone = process.status().is_some() && sweeper.table().is_newest(process.pid());
        match process.signal_group(number) {
            StepEffect::Delivered if is_alone => StepEffect::MetNobody,
            effect => effect,
        }
    }

    /// Asks the sweeper, unless the leader has ended and there is proof that it never had a descendant.
    fn ask(
        &self,
        work: fn(Arc<LeaderProcess>, oneshot::Sender<TreeReport>) -> Work,
    ) -> BoxFuture<'static, TreeReport> {
        let process = Arc::clone(self.0.process());
        let sweeper: Arc<SweeperHandle> = Arc::clone(self.0.sweeper());
        Box::pin(async move {
            let nothing_seen = TreeReport {
                swept: Vec::new(),
                alive: Vec::new(),
                sight: Sight::Partial,
            };
            let has_ended = process.status().is_some();
            if !process.is_unreaped() || has_ended && sweeper.table().is_newest(process.pid()) {
                return nothing_seen;
            }
            let (reply, answer) = oneshot::channel();
            sweeper.submit(work(process, reply));
            answer.await.unwrap_or(nothing_seen)
        })
    }
}

impl Tree for GroupTree {
    fn signal_all(&self, signal: Signal) -> StepEffect {
        self.signal_members(signal.number())
    }

    fn signal_foreground(&self, signal: Signal) -> StepEffect {
        self.signal_group(signal.number())
    }

    fn kill(&self) -> StepEffect {
        self.0.process().mark_killed();
        self.signal_members(Signal::KILL.number())
    }

    fn survey(&self) -> BoxFuture<'static, TreeReport> {
        self.ask(|process, reply| Work::Survey { process, reply })
    }

    fn sweep(&self) -> BoxFuture<'static, TreeReport> {
        self.ask(|process, reply| Work::Sweep { process, reply })
    }

    fn resize(&self, _size: TerminalSize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
