//! Killing what is left of a tree, without holding up the loop.
//!
//! A sweep is a few rounds of: is anybody there, kill them, go on with other work until something has ended. It is
//! over when nobody is there, or only those that cannot be killed, or when its time is.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::{
    server::Server,
    session::{LeaderState, Place},
    sys, tree,
    wire::{Reply, TreeNotice},
};
use crate::unix::{process_table::ProcessTable, signal, sweeper::signal_member};

/// How long a sweep goes on.
const SWEEP_TIME: Duration = Duration::from_millis(500);
/// How soon the next round is due where nothing ends meanwhile, at first and at the most.
const PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// A sweep under way.
#[derive(Debug)]
pub(super) struct Sweep {
    session: u64,
    /// None where it is for the guard's own sake.
    ticket: Option<u64>,
    killed: BTreeSet<i32>,
    ends_at: Instant,
    due_at: Instant,
    pause: Duration,
}

impl Sweep {
    fn new(session: u64, ticket: Option<u64>) -> Self {
        let now = Instant::now();
        Self {
            session,
            ticket,
            killed: BTreeSet::new(),
            ends_at: now + SWEEP_TIME,
            due_at: now,
            pause: PAUSE,
        }
    }

    /// How soon its next round is due.
    pub(super) fn due_in(&self, now: Instant) -> Duration {
        self.due_at.saturating_duration_since(now)
    }

    /// Something has ended.
    pub(super) fn is_due_now(&mut self) {
        self.due_at = Instant::now();
    }
}

/// What a look at a tree shows.
#[derive(Debug, Default)]
struct Look {
    /// Who is there, the leader not counted; may be none although somebody is.
    members: BTreeSet<i32>,
    is_empty: bool,
}

/// What a round of killing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    MetSome,
    MetNobody,
}

impl Server {
    /// Whether a sweep of this session is under way.
    pub(super) fn is_being_swept(&self, session: u64) -> bool {
        self.sweeps.iter().any(|sweep| sweep.session == session)
    }

    /// Tells who is there.
    pub(super) fn survey(&mut self, session: u64, ticket: u64) {
        let Some(look) = self.look(session) else {
            self.tell_nothing_seen(ticket);
            return;
        };
        let notice = self.notice(session, ticket, Vec::new(), look.members.into_iter().collect());
        self.tell(&Reply::Report(notice), Vec::new());
    }

    /// Begins to kill who is there.
    pub(super) fn sweep(&mut self, session: u64, ticket: u64) {
        if self.sessions.contains_key(&session) {
            self.sweeps.push(Sweep::new(session, Some(ticket)));
        } else {
            self.tell_nothing_seen(ticket);
        }
    }

    /// The same before a leader is reaped that nobody has charge of.
    pub(super) fn sweep_before_reaping(&mut self, session: u64) {
        self.sweeps.push(Sweep::new(session, None));
    }

    /// Goes on with all sweeps that are due.
    pub(super) fn advance_sweeps(&mut self) {
        let now = Instant::now();
        for mut sweep in std::mem::take(&mut self.sweeps) {
            if sweep.due_at <= now && self.advance(&mut sweep, now) {
                self.finish_sweep(sweep);
            } else {
                self.sweeps.push(sweep);
            }
        }
    }

    /// One round; true when the sweep is over.
    fn advance(&mut self, sweep: &mut Sweep, now: Instant) -> bool {
        let Some(look) = self.look(sweep.session) else {
            return true;
        };
        if look.is_empty || now >= sweep.ends_at {
            return true;
        }
        let round = self.kill_round(sweep, &look.members);
        sweep.due_at = now + sweep.pause;
        sweep.pause = (sweep.pause * 2).min(MAX_PAUSE);
        // Most are gone by the time that this has been said.
        round == Round::MetNobody || self.look(sweep.session).is_none_or(|look| look.is_empty)
    }

    fn finish_sweep(&mut self, sweep: Sweep) {
        let Sweep {
            session,
            ticket,
            killed,
            ..
        } = sweep;
        if let Some(ticket) = ticket {
            let alive: Vec<i32> = self
                .look(session)
                .map(|look| look.members.into_iter().collect())
                .unwrap_or_default();
            let swept = killed.into_iter().filter(|pid| !alive.contains(pid)).collect();
            let notice = self.notice(session, ticket, swept, alive);
            self.tell(&Reply::Report(notice), Vec::new());
        }
        if !self.is_being_swept(session) {
            self.swept(session);
        }
    }

    fn notice(&self, session: u64, ticket: u64, swept: Vec<i32>, alive: Vec<i32>) -> TreeNotice {
        let place = self.sessions.get(&session).map(|session| &session.place);
        TreeNotice {
            ticket,
            swept,
            alive,
            is_exact: place.is_some_and(|place| !matches!(place, Place::Group)),
        }
    }

    fn look(&self, session: u64) -> Option<Look> {
        let found = self.sessions.get(&session)?;
        let leader = found.pid;
        let in_table = || -> BTreeSet<i32> {
            let members = self.table.members(&BTreeSet::from([leader]));
            members.into_values().flatten().map(|member| member.pid).collect()
        };
        let look = match &found.place {
            Place::Cgroup(group) if group.is_empty() => Look {
                is_empty: true,
                ..Look::default()
            },
            Place::Cgroup(group) => {
                let mut members = group.members();
                members.remove(&leader);
                Look {
                    members,
                    is_empty: false,
                }
            }
            Place::Locked if !sys::has_living_child_in(leader) || !self.has_number(session) => Look {
                is_empty: true,
                ..Look::default()
            },
            Place::Locked => Look {
                members: in_table(),
                is_empty: false,
            },
            Place::Subtree if !sys::has_any_living_child() => Look {
                is_empty: true,
                ..Look::default()
            },
            Place::Subtree => Look {
                members: tree::descendants(self.own_pid)
                    .into_iter()
                    .filter(|pid| *pid != leader)
                    .collect(),
                is_empty: false,
            },
            Place::Group if found.leader == LeaderState::Reaped => return None,
            Place::Group => {
                let members = if self.is_alone(found) {
                    BTreeSet::new()
                } else {
                    in_table()
                };
                Look {
                    is_empty: members.is_empty(),
                    members,
                }
            }
        };
        Some(look)
    }

    fn kill_round(&mut self, sweep: &mut Sweep, members: &BTreeSet<i32>) -> Round {
        let Some(found) = self.sessions.get(&sweep.session) else {
            return Round::MetNobody;
        };
        let leader = found.pid;
        match &found.place {
            Place::Cgroup(group) => {
                if group.kill().is_err() {
                    return Round::MetNobody;
                }
                sweep.killed.extend(members);
            }
            Place::Locked => {
                // Somebody of the group is a child of ours and not reaped: the number is theirs.
                if signal::send_to_group(leader, libc::SIGKILL).is_err() {
                    return Round::MetNobody;
                }
                sweep.killed.extend(members);
            }
            Place::Subtree => {
                // Who forks and ends all the time may be missed by one round and met by the next.
                let killed = self.kill_subtree();
                sweep
                    .killed
                    .extend(killed.into_iter().filter(|pid| *pid != leader));
            }
            Place::Group => {
                let is_in_group = |pid: &&i32| tree::group_of(**pid) == Some(leader);
                let in_group: BTreeSet<i32> = members.iter().filter(is_in_group).copied().collect();
                if !in_group.is_empty() {
                    // At one stroke, so that none of them starts another one meanwhile.
                    let _ = signal::send_to_group(leader, libc::SIGKILL);
                }
                let mut round = Round::MetNobody;
                for pid in members {
                    if let Ok(victim) = signal_member(&self.table, leader, *pid, libc::SIGKILL) {
                        round = Round::MetSome;
                        if victim.is_some() || in_group.contains(pid) {
                            sweep.killed.insert(*pid);
                        }
                    }
                }
                return round;
            }
        }
        Round::MetSome
    }
}

/// Sends a signal to the jobs of a session that are in other groups than the leader's, which is not reaped.
pub(super) fn signal_jobs(table: &ProcessTable, leader: i32, number: i32) {
    let members = table.members(&BTreeSet::from([leader]));
    for member in members
        .into_values()
        .flatten()
        .filter(|member| member.group != leader)
    {
        // Who cannot be signalled is seen by the sweep, which says so.
        let _ = signal_member(table, leader, member.pid, number);
    }
}
