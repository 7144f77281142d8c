//! The guard's own loop: one thread that waits for the host, for children and for nothing else.
//!
//! The init of a session runs the same loop with the guard as its host and a single session, whose tree is all that
//! lives below it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use procession_core::containment::Mechanism;
use rustix::event::{Timespec, epoll};

use super::{
    cgroup::Groups,
    init::Init,
    leave::Left,
    outbox::Outbox,
    packet::{self, Packet, Wait},
    session::{LeaderState, Place, Session},
    sweep::Sweep,
    sys, tree,
    wire::{ExitNotice, Reply, Request, Step, TreeNotice},
};
use crate::unix::{process_table::ProcessTable, resident::OwnPeak};

/// How many messages are taken before children are looked at again.
const MESSAGES_A_TURN: usize = 32;
/// How many events are taken at once.
const EVENTS_A_TURN: usize = 64;
/// How long the end may take.
pub(super) const END_BOUND: Duration = Duration::from_secs(2);
/// How long of that the inits of sessions have for theirs.
const INIT_BOUND: Duration = Duration::from_millis(1_500);
/// How soon the end is looked at again, where nothing wakes us.
const END_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// As what the loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// As the guard of a host.
    Guard,
    /// As the init of one session.
    Init {
        /// Whether it is the first process of a namespace, which ends with it.
        has_namespace: bool,
    },
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Link,
    Signals,
    Host,
    /// The leader of a session has ended, or its init.
    Ended(u64),
    /// A start has failed or succeeded.
    Started(u64),
    /// A session's init has something to tell.
    Told(u64),
}

impl Token {
    fn encode(self) -> epoll::EventData {
        let (session, kind) = match self {
            Self::Link => (0, 0),
            Self::Signals => (0, 1),
            Self::Host => (0, 2),
            Self::Ended(session) => (session, 3),
            Self::Started(session) => (session, 4),
            Self::Told(session) => (session, 5),
        };
        epoll::EventData::new_u64(session << 3 | kind)
    }

    fn decode(token: epoll::EventData) -> Self {
        let (session, kind) = (token.u64() >> 3, token.u64() & 7);
        match kind {
            0 => Self::Link,
            1 => Self::Signals,
            2 => Self::Host,
            3 => Self::Ended(session),
            4 => Self::Started(session),
            _ => Self::Told(session),
        }
    }
}

/// A guard at work.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) role: Role,
    pub(super) link: OwnedFd,
    pub(super) own_pid: i32,
    pub(super) table: ProcessTable,
    pub(super) groups: Option<Groups>,
    pub(super) lock: Option<Vec<libc::sock_filter>>,
    /// The namespaces that an init can have.
    pub(super) namespaces: Option<i32>,
    /// What the limit on descriptors was before it was raised.
    pub(super) open_files: Option<(u64, u64)>,
    pub(super) sessions: BTreeMap<u64, Session>,
    pub(super) inits: BTreeMap<u64, Init>,
    pub(super) sweeps: Vec<Sweep>,
    /// Leaders begin in this process's memory.
    pub(super) own_peak: OwnPeak,
    pub(super) left: Left,
    epoll: OwnedFd,
    signals: OwnedFd,
    outbox: Outbox,
    interest: epoll::EventFlags,
}

/// Whether the loop goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    GoesOn,
    Ends,
}

impl Server {
    /// Makes a loop over this link; `signals` is readable when a child has ended.
    pub(super) fn new(role: Role, link: OwnedFd, signals: OwnedFd) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let interest = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&epoll, &link, Token::Link.encode(), interest)?;
        epoll::add(&epoll, &signals, Token::Signals.encode(), epoll::EventFlags::IN)?;
        Ok(Self {
            role,
            link,
            own_pid: rustix::process::getpid().as_raw_pid(),
            table: ProcessTable::open(),
            groups: None,
            lock: None,
            namespaces: None,
            open_files: None,
            sessions: BTreeMap::new(),
            inits: BTreeMap::new(),
            sweeps: Vec::new(),
            own_peak: OwnPeak::default(),
            left: Left::default(),
            epoll,
            signals,
            outbox: Outbox::default(),
            interest,
        })
    }

    /// Waits once for this descriptor.
    pub(super) fn watch(&self, descriptor: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        let mut flags = epoll::EventFlags::IN;
        if !matches!(token, Token::Told(_)) {
            // What has ended stays readable.
            flags |= epoll::EventFlags::ONESHOT;
        }
        Ok(epoll::add(&self.epoll, descriptor, token.encode(), flags)?)
    }

    /// Waits for this descriptor no more.
    pub(super) fn unwatch(&self, descriptor: BorrowedFd<'_>) {
        // It fails where it was not waited for.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Tells the host something.
    pub(super) fn tell(&mut self, reply: &Reply, descriptors: Vec<OwnedFd>) {
        self.outbox.send(self.link.as_fd(), reply, descriptors);
    }

    /// Tells the host that a start has failed.
    pub(super) fn tell_failed(&mut self, session: u64, step: Step, errno: i32) {
        self.tell(&Reply::Failed { session, step, errno }, Vec::new());
    }

    /// Answers a ticket for which there is nothing to be seen.
    pub(super) fn tell_nothing_seen(&mut self, ticket: u64) {
        let notice = TreeNotice {
            ticket,
            swept: Vec::new(),
            alive: Vec::new(),
            is_exact: false,
        };
        self.tell(&Reply::Report(notice), Vec::new());
    }

    /// Serves until the host is gone or the session has ended; then ends all that is left and not to be left alone.
    pub(super) fn run(mut self) -> ! {
        while self.turn() == Turn::GoesOn {}
        if self.left.is_everybody() {
            self.outlive();
        } else {
            self.end();
        }
        sys::exit(0)
    }

    fn turn(&mut self) -> Turn {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; EVENTS_A_TURN];
        let timeout = self.time_left();
        let Ok(count) = epoll::wait(&self.epoll, &mut events, timeout.as_ref()) else {
            return Turn::GoesOn;
        };
        for event in &events[..count] {
            let (flags, data) = (event.flags, event.data);
            let turn = match Token::decode(data) {
                Token::Link => self.link_event(flags),
                Token::Host => Turn::Ends,
                Token::Signals => self.children_event(),
                Token::Ended(session) => self.ended_event(session),
                Token::Started(session) => self.started_event(session),
                Token::Told(session) => self.told_event(session),
            };
            if turn == Turn::Ends {
                return Turn::Ends;
            }
        }
        self.advance_sweeps();
        self.outbox.flush(self.link.as_fd());
        self.set_interest();
        if let Some(groups) = &mut self.groups {
            groups.tidy();
        }
        let is_done = matches!(self.role, Role::Init { .. })
            && self.sessions.is_empty()
            && self.outbox.is_empty()
            && !sys::has_any_living_child();
        if is_done { Turn::Ends } else { Turn::GoesOn }
    }

    fn time_left(&self) -> Option<Timespec> {
        let now = Instant::now();
        let due = self.sweeps.iter().map(|sweep| sweep.due_in(now)).min()?;
        Timespec::try_from(due).ok()
    }

    fn set_interest(&mut self) {
        let mut interest = epoll::EventFlags::RDHUP;
        if !self.outbox.is_full() {
            interest |= epoll::EventFlags::IN;
        }
        if !self.outbox.is_empty() {
            interest |= epoll::EventFlags::OUT;
        }
        if interest != self.interest
            && epoll::modify(&self.epoll, &self.link, Token::Link.encode(), interest).is_ok()
        {
            self.interest = interest;
        }
    }

    fn link_event(&mut self, flags: epoll::EventFlags) -> Turn {
        for _ in 0..MESSAGES_A_TURN {
            if self.outbox.is_full() {
                break;
            }
            match packet::receive(self.link.as_fd(), Wait::No) {
                Ok(Packet { bytes, .. }) if bytes.is_empty() => return Turn::Ends,
                Ok(Packet { bytes, descriptors }) => match Request::decode(&bytes) {
                    Ok(request) => self.request(request, &bytes, descriptors),
                    // It is not our host that speaks.
                    Err(_) => return Turn::Ends,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Turn::Ends,
            }
        }
        let ends = epoll::EventFlags::HUP | epoll::EventFlags::RDHUP | epoll::EventFlags::ERR;
        if flags.intersects(ends) {
            // Whatever came before the end is of no use to anybody.
            return Turn::Ends;
        }
        Turn::GoesOn
    }

    fn request(&mut self, request: Request, bytes: &[u8], descriptors: Vec<OwnedFd>) {
        if let Request::Spawn(spawn) = request {
            let has_init = self.role == Role::Guard
                && matches!(spawn.rung, Mechanism::PidNamespace | Mechanism::Subreaper);
            if has_init {
                self.spawn_init(&spawn, descriptors);
            } else {
                self.spawn(&spawn, descriptors);
            }
            return;
        }
        let init = request
            .session()
            .filter(|session| self.inits.contains_key(session));
        if let Some(session) = init {
            self.pass_on(session, &request, bytes);
            return;
        }
        match request {
            Request::Hello { .. } | Request::Spawn(_) => {}
            Request::SignalRest { session, number } => self.signal_rest(session, number),
            Request::Kill { session } => self.kill(session),
            Request::Survey { session, ticket } => self.survey(session, ticket),
            Request::Sweep { session, ticket } => self.sweep(session, ticket),
            Request::Reap { session } => self.reap(session),
            Request::Release { session } => self.release(session),
            Request::Leave { session, ticket } => self.leave_alone(session, ticket),
        }
    }

    fn children_event(&mut self) -> Turn {
        // What it tells is not looked at: one signal may stand for many children.
        let mut seen = [0; 1024];
        while rustix::io::read(&self.signals, &mut seen).is_ok_and(|length| length == seen.len()) {}
        self.reap_strangers();
        for sweep in &mut self.sweeps {
            sweep.is_due_now();
        }
        Turn::GoesOn
    }

    /// Reaps all children that have ended and are no leaders: those whose parents have ended before them.
    ///
    /// A leader that has ended and is not reaped yet would be told first every time; behind it the others are found
    /// by the list of children.
    fn reap_strangers(&mut self) {
        while let Some(pid) = sys::ended_child() {
            if !self.is_known(pid) {
                sys::reap(pid);
                continue;
            }
            if self.table.is_readable() {
                for pid in tree::own_children() {
                    if !self.is_known(pid) {
                        sys::reap(pid);
                    }
                }
            }
            return;
        }
    }

    fn is_known(&self, pid: i32) -> bool {
        self.sessions.values().any(|session| session.holds(pid))
            || self.inits.values().any(|init| init.pid == pid)
    }

    /// Whether nobody but the leader is left of a tree that it has, as a fact.
    pub(super) fn is_alone(&self, session: &Session) -> bool {
        match &session.place {
            Place::Cgroup(group) => group.is_empty(),
            Place::Locked => !sys::has_living_child_in(session.pid),
            Place::Subtree => !sys::has_any_living_child(),
            Place::Group => session.leader == LeaderState::Ended && self.table.is_newest(session.pid),
        }
    }

    /// Tells that a leader has ended.
    pub(super) fn tell_exited(&mut self, notice: ExitNotice) {
        self.tell(&Reply::Exited(notice), Vec::new());
    }

    /// Ends all sessions by the strongest means, within a bound.
    fn end(mut self) {
        let begun = Instant::now();
        let deadline = begun + END_BOUND;
        if let Some(groups) = &self.groups {
            groups.kill_all();
        }
        for (session, init) in &self.inits {
            if !self.left.has_init(*session) {
                init.end();
            }
        }
        loop {
            match self.role {
                Role::Init { has_namespace: true } => sys::kill(-1, libc::SIGKILL),
                Role::Init { has_namespace: false } => drop(tree::kill_descendants(self.own_pid)),
                Role::Guard => {
                    // An init does its own work first.
                    let is_early = begun.elapsed() < INIT_BOUND;
                    let inits = self.inits.values().filter(|_| is_early).map(|init| init.pid);
                    self.kill_children(&inits.collect());
                }
            }
            // Nobody wants to know any more how they ended.
            while let Some(pid) = sys::ended_child() {
                sys::reap(pid);
                self.sessions.retain(|_, session| session.pid != pid);
                self.inits.retain(|_, init| init.pid != pid);
            }
            if self.is_over() || Instant::now() >= deadline {
                break;
            }
            self.wait_for_children(Some(&END_PAUSE));
        }
        if let Some(groups) = self.groups.take() {
            groups.end(deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// Kills all children, who are ours to kill as long as they are not reaped, and the groups of leaders.
    fn kill_children(&self, spared: &BTreeSet<i32>) {
        for session in self
            .sessions
            .values()
            .filter(|session| session.leader != LeaderState::Reaped && !self.is_left(session))
        {
            // The leader is not reaped, so that the group is its own.
            let _ = crate::unix::signal::send_to_group(session.pid, libc::SIGKILL);
            sys::kill(session.pid, libc::SIGKILL);
        }
        if self.table.is_readable() {
            for pid in self.children_to_end() {
                if !spared.contains(&pid) {
                    sys::kill(pid, libc::SIGKILL);
                }
            }
        }
    }

    /// Waits until a child has ended, or for this long.
    pub(super) fn wait_for_children(&self, bound: Option<&Timespec>) {
        let mut polled = [rustix::event::PollFd::new(
            &self.signals,
            rustix::event::PollFlags::IN,
        )];
        let _ = rustix::event::poll(&mut polled, bound);
        let _ = rustix::io::read(&self.signals, &mut [0; 1024]);
    }
}
