//! A process on a terminal: what differs from one on pipes.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use procession_core::{
    Signal, Status,
    outcome::{ObservedBy, StepEffect, Usage},
    session::TreeReport,
    spec::TerminalSize,
};

use super::TerminalMaster;
use crate::port::{BoxFuture, Leader, Tree};

/// A leader that keeps its terminal open until its exit is seen.
#[derive(Debug)]
pub(super) struct AttachedLeader {
    leader: Arc<dyn Leader>,
    slave: Mutex<Option<OwnedFd>>,
}

impl AttachedLeader {
    pub(super) fn new(leader: Arc<dyn Leader>, slave: OwnedFd) -> Self {
        Self {
            leader,
            slave: Mutex::new(Some(slave)),
        }
    }

    fn let_go(&self) {
        drop(self.slave.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Leader for AttachedLeader {
    fn exited(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            let exited = self.leader.exited().await;
            // Also where it cannot be waited for any more: nobody would see it.
            self.let_go();
            exited
        })
    }

    fn peek(&self) -> Option<(Status, ObservedBy)> {
        let seen = self.leader.peek();
        if seen.is_some() {
            self.let_go();
        }
        seen
    }

    fn has_exited(&self) -> bool {
        self.leader.has_exited()
    }

    fn reap(&self) -> Option<Usage> {
        let usage = self.leader.reap();
        if usage.is_some() {
            self.let_go();
        }
        usage
    }
}

/// A tree with a terminal, which it does not keep open.
#[derive(Debug)]
pub(super) struct AttachedTree {
    tree: Arc<dyn Tree>,
    leader: u32,
    master: Weak<TerminalMaster>,
}

impl AttachedTree {
    pub(super) fn new(tree: Arc<dyn Tree>, leader: u32, master: Weak<TerminalMaster>) -> Self {
        Self { tree, leader, master }
    }
}

impl Tree for AttachedTree {
    fn signal_all(&self, signal: Signal) -> StepEffect {
        self.tree.signal_all(signal)
    }

    fn signal_foreground(&self, signal: Signal) -> StepEffect {
        self.master
            .upgrade()
            .and_then(|master| master.signal_foreground(signal, self.leader))
            .unwrap_or_else(|| self.tree.signal_foreground(signal))
    }

    fn kill(&self) -> StepEffect {
        self.tree.kill()
    }

    fn survey(&self) -> BoxFuture<'static, TreeReport> {
        self.tree.survey()
    }

    fn sweep(&self) -> BoxFuture<'static, TreeReport> {
        self.tree.sweep()
    }

    fn leave(&self) -> BoxFuture<'static, io::Result<()>> {
        self.tree.leave()
    }

    fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let master = self.master.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
        master.resize(size)
    }
}
