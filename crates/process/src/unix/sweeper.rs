//! The thread that looks at the process table and reaps who was abandoned.
//!
//! One look at the table serves all who wait for one: that many sessions end at the same time costs no more looks.
//!
//! A sweep is a few rounds of: look, kill who is there, wait until they are gone. It ends when a look shows nobody,
//! or only those that cannot be killed, or when its time is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

use procession_core::session::{Sight, TreeReport};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec},
    io::Errno,
    process::{Pid, PidfdFlags},
};
use tokio::sync::oneshot;

use super::{
    PortError,
    descriptor::above_stdio,
    leader::{LeaderProcess, Pin},
    process_table::{Member, ProcessTable},
    signal,
};

/// How long a sweep goes on where some do not go away: a loaded machine takes its time to let the killed die.
const SWEEP_TIME: Duration = Duration::from_millis(1_500);
/// How often a sweep looks at the most.
const MAX_ROUNDS: u32 = 20;
/// How many of those that a round killed are waited for; the next look shows the others.
const MAX_AWAITED: usize = 64;
/// How long the thread pauses where the system refuses to let it wait.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);
/// More than enough for tables read into an array.
const STACK_BYTES: usize = 256 * 1024;
const NAME: &str = "procession-sweep";

/// What the sweeper is asked for.
#[derive(Debug)]
pub(super) enum Work {
    /// Reap a leader that nobody has charge of any more, as soon as it ends; where its tree was killed, sweep first.
    Reap(Arc<LeaderProcess>),
    /// Signal the members of a session that are in other groups than the leader's.
    Signal {
        /// Whose session.
        process: Arc<LeaderProcess>,
        /// The signal's number.
        number: i32,
    },
    /// See who is there.
    Survey {
        /// Whose session.
        process: Arc<LeaderProcess>,
        /// Where the answer goes.
        reply: oneshot::Sender<TreeReport>,
    },
    /// Kill who is there.
    Sweep {
        /// Whose session.
        process: Arc<LeaderProcess>,
        /// Where the answer goes.
        reply: oneshot::Sender<TreeReport>,
    },
}

/// The way to the sweeper; it ends when this is dropped and nobody is left to be reaped.
#[derive(Debug)]
pub(super) struct SweeperHandle {
    // Dropped in this order: the bell rings when the channel is closed.
    work: Sender<Work>,
    bell: Bell,
    table: Arc<ProcessTable>,
}

impl SweeperHandle {
    /// Starts the sweeper.
    pub(super) fn start(table: Arc<ProcessTable>) -> Result<Arc<Self>, PortError> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(above_stdio)
            .map_err(|source| PortError::Wake { source })?;
        let bell = Arc::new(bell);
        let (work, queue) = mpsc::channel();
        let sweeper = Sweeper {
            queue,
            bell: Arc::clone(&bell),
            table: Arc::clone(&table),
            is_open: true,
            orphans: Vec::new(),
            sweeps: Vec::new(),
        };
        thread::Builder::new()
            .name(NAME.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(|| sweeper.run())
            .map_err(|source| PortError::Thread { name: NAME, source })?;
        Ok(Arc::new(Self {
            work,
            bell: Bell(bell),
            table,
        }))
    }

    /// Leaves work; never waits.
    pub(super) fn submit(&self, work: Work) {
        if self.work.send(work).is_ok() {
            self.bell.ring();
        }
    }

    /// The table that is looked at.
    pub(super) fn table(&self) -> &ProcessTable {
        &self.table
    }
}

/// Wakes the sweeper; also when dropped.
#[derive(Debug)]
struct Bell(Arc<OwnedFd>);

impl Bell {
    fn ring(&self) {
        // The one way to fail is that it has rung too often already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ring();
    }
}

#[derive(Debug)]
struct Sweeper {
    queue: Receiver<Work>,
    bell: Arc<OwnedFd>,
    table: Arc<ProcessTable>,
    is_open: bool,
    /// Leaders that are reaped when they end.
    orphans: Vec<Arc<LeaderProcess>>,
    sweeps: Vec<Sweep>,
}

/// What one look at the table is to serve, besides the sweeps.
#[derive(Debug, Default)]
struct Requests {
    signals: Vec<(Pin, i32)>,
    surveys: Vec<(Pin, oneshot::Sender<TreeReport>)>,
}

impl Sweeper {
    fn run(mut self) {
        signal::block_all();
        while self.is_open || !self.orphans.is_empty() || !self.sweeps.is_empty() {
            self.wait();
            let requests = self.take_work();
            self.meet_orphans();
            self.look(requests);
        }
    }

    /// Waits for work, for the end of an orphan or of somebody who was killed, or until a sweep's time is over.
    fn wait(&mut self) {
        let now = Instant::now();
        let left = self.sweeps.iter().map(|sweep| sweep.due_in(now)).min();
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let victims = self.sweeps.iter().flat_map(|sweep| &sweep.victims);
        let mut polled: Vec<PollFd<'_>> = [self.bell.as_fd()]
            .into_iter()
            .chain(victims.map(AsFd::as_fd))
            .chain(self.orphans.iter().filter_map(|orphan| orphan.pidfd()))
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
            .collect();
        if let Err(errno) = rustix::event::poll(&mut polled, left.as_ref())
            && errno != Errno::INTR
        {
            tracing::warn!(%errno, "the sweeper cannot wait");
            thread::sleep(REFUSED_PAUSE);
        }
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        if ready.next() == Some(true) {
            // Fails where it did not ring.
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        for sweep in &mut self.sweeps {
            sweep.victims.retain(|_| ready.next() == Some(false));
        }
    }

    fn take_work(&mut self) -> Requests {
        let mut requests = Requests::default();
        loop {
            // Who is not held any more has no session that could be told from a stranger's: nobody is looked for,
            // and the dropped reply says so.
            match self.queue.try_recv() {
                Ok(Work::Reap(process)) => self.orphans.push(process),
                Ok(Work::Signal { process, number }) => {
                    requests.signals.extend(process.pin().map(|pin| (pin, number)));
                }
                Ok(Work::Survey { process, reply }) => {
                    requests.surveys.extend(process.pin().map(|pin| (pin, reply)));
                }
                Ok(Work::Sweep { process, reply }) => {
                    self.sweeps
                        .extend(process.pin().map(|pin| Sweep::new(pin, Then::Answer(reply))));
                }
                Err(TryRecvError::Empty) => return requests,
                Err(TryRecvError::Disconnected) => {
                    self.is_open = false;
                    return requests;
                }
            }
        }
    }

    /// Reaps the orphans that have ended; those whose trees were killed are swept first.
    fn meet_orphans(&mut self) {
        let ended = self.orphans.extract_if(.., |orphan| orphan.status().is_some());
        for orphan in ended {
            let may_have_left_some = orphan.was_killed() && !self.table.is_newest(orphan.pid());
            match orphan.pin() {
                Some(pin) if may_have_left_some => self.sweeps.push(Sweep::new(pin, Then::Reap)),
                _ => drop(orphan.reap()),
            }
        }
    }

    fn look(&mut self, requests: Requests) {
        let now = Instant::now();
        let due = self
            .sweeps
            .iter()
            .filter(|sweep| sweep.due_in(now).is_zero())
            .map(|sweep| &sweep.pin);
        let asked = requests
            .signals
            .iter()
            .map(|(pin, _)| pin)
            .chain(requests.surveys.iter().map(|(pin, _)| pin));
        let leaders: BTreeSet<i32> = due.chain(asked).map(|pin| pin.process().pid()).collect();
        if leaders.is_empty() {
            return;
        }
        let members = self.table.members(&leaders);
        for (pin, number) in requests.signals {
            let leader = pin.process().pid();
            for member in of(&members, leader)
                .iter()
                .filter(|member| member.group != leader)
            {
                // Who cannot be signalled is seen by the sweep, which says so.
                let _ = signal_member(&self.table, leader, member.pid, number);
            }
        }
        for (pin, reply) in requests.surveys {
            let alive = to_pids(of(&members, pin.process().pid()));
            // Who asked may be gone.
            let _ = reply.send(TreeReport {
                swept: Vec::new(),
                alive,
                sight: Sight::Partial,
            });
        }
        let mut sweeps = Vec::new();
        for mut sweep in std::mem::take(&mut self.sweeps) {
            if !sweep.due_in(now).is_zero() || sweep.advance(&self.table, &members, now) == Progress::GoesOn {
                sweeps.push(sweep);
            } else {
                sweep.finish(&members);
            }
        }
        self.sweeps = sweeps;
    }
}

#[derive(Debug)]
struct Sweep {
    pin: Pin,
    then: Then,
    /// When its time is over; it begins with the first look.
    ends_at: Option<Instant>,
    rounds: u32,
    killed: BTreeSet<u32>,
    /// Of those that were killed some, until they are gone.
    victims: Vec<OwnedFd>,
}

/// What follows a sweep.
#[derive(Debug)]
enum Then {
    Answer(oneshot::Sender<TreeReport>),
    Reap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    GoesOn,
    Done,
}

impl Sweep {
    fn new(pin: Pin, then: Then) -> Self {
        Self {
            pin,
            then,
            ends_at: None,
            rounds: 0,
            killed: BTreeSet::new(),
            victims: Vec::new(),
        }
    }

    /// How soon the next look is due: when those that are waited for are gone, or the time is over.
    fn due_in(&self, now: Instant) -> Duration {
        match self.ends_at {
            Some(ends_at) if !self.victims.is_empty() => ends_at.saturating_duration_since(now),
            _ => Duration::ZERO,
        }
    }

    /// Kills who is there.
    fn advance(
        &mut self,
        table: &ProcessTable,
        members: &BTreeMap<i32, Vec<Member>>,
        now: Instant,
    ) -> Progress {
        let process = self.pin.process();
        let leader = process.pid();
        let members = of(members, leader);
        let is_over = self.rounds >= MAX_ROUNDS || self.ends_at.is_some_and(|ends_at| ends_at <= now);
        if members.is_empty() || is_over {
            return Progress::Done;
        }
        self.ends_at.get_or_insert(now + SWEEP_TIME);
        self.rounds += 1;
        self.victims.clear();
        if members.iter().any(|member| member.group == leader) {
            // At one stroke, so that none of them starts another one meanwhile.
            process.signal_group(libc::SIGKILL);
        }
        let mut was_one_met = false;
        for member in members {
            let Ok(victim) = signal_member(table, leader, member.pid, libc::SIGKILL) else {
                continue;
            };
            was_one_met = true;
            if victim.is_some() || member.group == leader {
                self.killed.insert(member.pid.unsigned_abs());
            }
            if self.victims.len() < MAX_AWAITED {
                self.victims.extend(victim);
            }
        }
        if was_one_met {
            Progress::GoesOn
        } else {
            Progress::Done
        }
    }

    fn finish(self, members: &BTreeMap<i32, Vec<Member>>) {
        let Self {
            pin, then, killed, ..
        } = self;
        let process = Arc::clone(pin.process());
        let alive = to_pids(of(members, process.pid()));
        drop(pin);
        match then {
            Then::Answer(reply) => {
                let swept = killed.into_iter().filter(|pid| !alive.contains(pid)).collect();
                // Who asked may be gone.
                let _ = reply.send(TreeReport {
                    swept,
                    alive,
                    sight: Sight::Partial,
                });
            }
            Then::Reap => drop(process.reap()),
        }
    }
}

/// Signals a member that was seen, and gives its pidfd; nothing where it is gone in the meantime.
///
/// The pidfd comes first and the look second: what it names then is a member, whoever had the pid before.
pub(crate) fn signal_member(
    table: &ProcessTable,
    leader: i32,
    pid: i32,
    number: i32,
) -> Result<Option<OwnedFd>, Errno> {
    let Some(named) = Pid::from_raw(pid) else {
        return Ok(None);
    };
    let pidfd = match rustix::process::pidfd_open(named, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    if !table.is_member(pid, leader) {
        return Ok(None);
    }
    match signal::send_to_pidfd(pidfd.as_fd(), number) {
        Ok(()) => Ok(Some(pidfd)),
        Err(Errno::SRCH) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn of(members: &BTreeMap<i32, Vec<Member>>, leader: i32) -> &[Member] {
    members.get(&leader).map_or(&[], Vec::as_slice)
}

fn to_pids(members: &[Member]) -> Vec<u32> {
    members.iter().map(|member| member.pid.unsigned_abs()).collect()
}
