//! The host's end of the talk with one guard.
//!
//! Any thread may send: a message is one packet, which is sent whole. One thread receives, for as long as the guard
//! lives. When the guard ends, this thread is the first to know, ends what the guard has held as far as that can be
//! done from here, and tells so.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use procession_core::{containment::Mechanism, spec::TerminalSize};
use procession_policy::Capabilities;
use tokio::sync::oneshot;

use super::{
    cgroup,
    held::{Held, HeldTree, Seen},
    packet::{self, Packet, Wait},
    server::END_BOUND,
    start::{GuardProcess, Started},
    wire::{Readiness, Reply, Request, Step, TreeNotice},
};
use crate::{
    port::{KillGuard, Tree},
    unix::signal,
};

/// How long a guard may take to end behind its host's last word.
const GUARD_END_BOUND: Duration = END_BOUND.saturating_add(Duration::from_secs(1));
const STACK_BYTES: usize = 256 * 1024;
const NAME: &str = "procession-guard-link";

/// The host's end; when the last who has it lets go, the guard ends.
#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    next: AtomicU64,
}

/// A start that the guard has not answered.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) reply: oneshot::Sender<Result<Begun, (Step, i32)>>,
    /// Keeps the guard until it has answered.
    pub(super) link: Arc<Link>,
    pub(super) mechanism: Mechanism,
}

/// A session that runs; it dies when dropped.
#[derive(Debug)]
pub(super) struct Begun {
    // Dropped first: the leader is left to be reaped only after its tree was killed.
    pub(super) guard: KillGuard,
    pub(super) tree: Arc<HeldTree>,
}

#[derive(Debug)]
struct Shared {
    socket: OwnedFd,
    process: GuardProcess,
    readiness: Readiness,
    mechanism: Mechanism,
    capabilities: Capabilities,
    is_gone: AtomicBool,
    state: Mutex<State>,
    late: Mutex<Late>,
}

#[derive(Debug, Default)]
struct State {
    pending: BTreeMap<u64, Pending>,
    sessions: BTreeMap<u64, Arc<Seen>>,
    tickets: BTreeMap<u64, oneshot::Sender<TreeNotice>>,
}

/// What the guard did not take at once.
#[derive(Debug, Default)]
struct Late {
    messages: VecDeque<Vec<u8>>,
    is_being_sent: bool,
}

impl Link {
    /// Takes over a guard that is ready.
    ///
    /// # Errors
    /// Where there is no thread to listen to it.
    pub(super) fn new(started: Started, capabilities: Capabilities) -> io::Result<Arc<Self>> {
        let Started {
            process,
            socket,
            readiness,
            mechanism,
        } = started;
        let shared = Arc::new(Shared {
            socket,
            process,
            readiness,
            mechanism,
            capabilities,
            is_gone: AtomicBool::new(false),
            state: Mutex::default(),
            late: Mutex::default(),
        });
        let listener = Arc::clone(&shared);
        let spawned = thread::Builder::new()
            .name(NAME.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || listener.listen());
        if let Err(error) = spawned {
            packet::shut_down(&shared.socket);
            shared.process.end_within(GUARD_END_BOUND);
            return Err(error);
        }
        Ok(Arc::new(Self {
            shared,
            next: AtomicU64::new(1),
        }))
    }

    /// By what means sessions are held.
    pub(super) fn mechanism(&self) -> Mechanism {
        self.shared.mechanism
    }

    /// By what means one is held that runs on a terminal, or does not: a shell on a terminal moves its jobs into
    /// groups of their own, which the lock would not let it.
    pub(super) fn mechanism_for(&self, terminal: Option<TerminalSize>) -> Mechanism {
        let mechanism = self.mechanism();
        if terminal.is_none() || mechanism != Mechanism::PgidLock {
            return mechanism;
        }
        let has = |rung| {
            let rungs = &self.readiness().rungs;
            rungs
                .iter()
                .any(|found| found.mechanism == rung && found.lacks.is_none())
        };
        if has(Mechanism::Subreaper) {
            Mechanism::Subreaper
        } else {
            Mechanism::ProcessGroup
        }
    }

    /// What the guard found.
    pub(super) fn readiness(&self) -> &Readiness {
        &self.shared.readiness
    }

    /// What sessions inherit, and what can be done.
    pub(super) fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    /// The guard's pid.
    pub(super) fn guard_pid(&self) -> i32 {
        self.shared.process.pid()
    }

    /// Whether the guard has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.shared.is_gone.load(Ordering::Acquire)
    }

    /// A number that was not used before, for a session or a question.
    pub(super) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks for a start; waits until the guard takes the message.
    ///
    /// # Errors
    /// Where the guard is gone; then nothing was started.
    pub(super) fn request_start(
        &self,
        session: u64,
        pending: Pending,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Pending> {
        {
            let mut state = self.shared.state();
            if self.is_gone() {
                return Err(pending);
            }
            state.pending.insert(session, pending);
        }
        if packet::send(self.shared.socket.as_fd(), message, descriptors, Wait::Yes).is_err()
            && let Some(pending) = self.shared.state().pending.remove(&session)
        {
            return Err(pending);
        }
        Ok(())
    }

    /// Asks who is there; nothing comes where the guard is gone.
    pub(super) fn ask(&self, question: impl FnOnce(u64) -> Request) -> oneshot::Receiver<TreeNotice> {
        let (reply, answer) = oneshot::channel();
        let ticket = self.next();
        {
            let mut state = self.shared.state();
            if !self.is_gone() {
                state.tickets.insert(ticket, reply);
            }
        }
        self.post(&question(ticket));
        answer
    }

    /// Sends a message; never waits, so that it can be called from a destructor.
    pub(super) fn post(&self, message: &Request) {
        let bytes = message.encode();
        let late = &mut *self.shared.late();
        if late.messages.is_empty() && !late.is_being_sent {
            match packet::send(self.shared.socket.as_fd(), &bytes, &[], Wait::No) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // That the guard is gone is seen by who listens to it.
                Ok(()) | Err(_) => return,
            }
        }
        late.messages.push_back(bytes);
        if !late.is_being_sent {
            let shared = Arc::clone(&self.shared);
            // Where there is no thread to be had the next message tries again.
            late.is_being_sent = thread::Builder::new()
                .name(NAME.to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || shared.send_late())
                .is_ok();
        }
    }

    /// Forgets a session that nobody has any more.
    pub(super) fn release(&self, session: u64) {
        self.shared.state().sessions.remove(&session);
        self.post(&Request::Release { session });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        packet::shut_down(&self.shared.socket);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn late(&self) -> MutexGuard<'_, Late> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_late(&self) {
        signal::block_all();
        loop {
            let next = {
                let mut late = self.late();
                let next = late.messages.pop_front();
                late.is_being_sent = next.is_some();
                next
            };
            let Some(bytes) = next else { return };
            // A guard that is gone needs to know nothing.
            let _ = packet::send(self.socket.as_fd(), &bytes, &[], Wait::Yes);
        }
    }

    fn listen(&self) {
        signal::block_all();
        loop {
            match packet::receive(self.socket.as_fd(), Wait::Yes) {
                Ok(Packet { bytes, .. }) if bytes.is_empty() => break,
                Ok(Packet { bytes, descriptors }) => match Reply::decode(&bytes) {
                    Ok(reply) => self.hear(reply, descriptors),
                    Err(error) => {
                        tracing::error!(%error, "the guard says what cannot be understood");
                        break;
                    }
                },
                Err(_) => break,
            }
        }
        packet::shut_down(&self.socket);
        self.guard_has_ended();
        self.process.end_within(GUARD_END_BOUND);
    }

    fn hear(&self, reply: Reply, descriptors: Vec<OwnedFd>) {
        match reply {
            Reply::Spawned { session, pid, cgroup } => {
                let mut state = self.state();
                let Some(pending) = state.pending.remove(&session) else {
                    return;
                };
                let Some(pidfd) = descriptors.into_iter().next() else {
                    drop(state);
                    // This process had no number left for it.
                    pending.link.post(&Request::Kill { session });
                    pending.link.release(session);
                    drop(pending.reply.send(Err((Step::Process, libc::EMFILE))));
                    return;
                };
                let cgroup = cgroup.and_then(|number| Some(self.cgroup()?.join(cgroup::name_of(number))));
                let seen = Arc::new(Seen::new(pid, pidfd, cgroup));
                state.sessions.insert(session, Arc::clone(&seen));
                drop(state);
                let held = Held::new(session, pending.mechanism, seen, pending.link);
                let tree = Arc::new(HeldTree(Arc::new(held)));
                let guard = KillGuard::new(Arc::clone(&tree) as Arc<dyn Tree>);
                // Nobody waits any more: what was started is dropped, which kills it.
                drop(pending.reply.send(Ok(Begun { guard, tree })));
            }
            Reply::Failed { session, step, errno } => {
                if let Some(pending) = self.state().pending.remove(&session) {
                    drop(pending.reply.send(Err((step, errno))));
                }
            }
            Reply::Exited(notice) => {
                let seen = self.state().sessions.get(&notice.session).cloned();
                if let Some(seen) = seen {
                    seen.exited(notice);
                }
            }
            Reply::Report(notice) => {
                let ticket = self.state().tickets.remove(&notice.ticket);
                if let Some(ticket) = ticket {
                    // Who asked may be gone.
                    drop(ticket.send(notice));
                }
            }
            Reply::Hello { .. } | Reply::Ready(_) => {}
        }
    }

    fn cgroup(&self) -> Option<&Path> {
        use std::os::unix::ffi::OsStrExt;

        let path: &[u8] = self.readiness.cgroup.as_ref()?;
        Some(Path::new(std::ffi::OsStr::from_bytes(path)))
    }

    fn guard_has_ended(&self) {
        let State {
            pending,
            sessions,
            tickets,
        } = {
            let mut state = self.state();
            self.is_gone.store(true, Ordering::Release);
            std::mem::take(&mut *state)
        };
        if !sessions.is_empty() {
            tracing::error!(
                sessions = sessions.len(),
                "the guard has ended; so do its sessions"
            );
            if let Some(group) = self.cgroup().map(PathBuf::from) {
                // All that are in it, the ones of which nobody has heard yet too.
                drop(cgroup::kill_at(&group));
            }
        }
        for seen in sessions.into_values() {
            seen.guard_has_ended();
        }
        // Whoever waits hears of it by what is dropped here.
        drop((pending, tickets));
    }
}
