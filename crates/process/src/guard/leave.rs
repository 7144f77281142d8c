//! Leaving processes to themselves: what a session kept is to live on when the guard ends.
//!
//! Nothing is moved for it. Who is left is spared at the end, by what holds them: a control group stays where it is,
//! with a mark by which the next guard knows that nobody forgot it; an init goes on without its guard for as long as
//! somebody is below it; members of a process group are told by their session.

use std::collections::BTreeSet;

use super::{
    server::{Role, Server},
    session::{LeaderState, Place, Session},
    sys, tree,
    wire::{Reply, TreeNotice},
};

/// Who is left to themselves.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// The numbers of sessions, which nobody else gets while a member lives.
    sessions: BTreeSet<i32>,
    /// Whether members of one of them may have moved to other sessions, unseen.
    may_have_moved: bool,
    /// Of the guard: the sessions whose inits are.
    inits: BTreeSet<u64>,
    /// Of an init: it is itself.
    is_everybody: bool,
    /// Whether there is anybody.
    is_somebody: bool,
}

impl Left {
    /// An init goes on without its guard.
    pub(super) fn is_everybody(&self) -> bool {
        self.is_everybody
    }

    /// The session's init is told to go on without us.
    pub(super) fn init_is_told(&mut self, session: u64) {
        self.inits.insert(session);
        self.is_somebody = true;
    }

    /// Whether the session's init goes on without us.
    pub(super) fn has_init(&self, session: u64) -> bool {
        self.inits.contains(&session)
    }
}

impl Server {
    /// Lets who is there live on.
    pub(super) fn leave_alone(&mut self, session: u64, ticket: u64) {
        let Some(found) = self.sessions.get(&session) else {
            self.tell_nothing_seen(ticket);
            return;
        };
        let is_left = match &found.place {
            Place::Cgroup(group) => {
                let number = group.number();
                self.groups
                    .as_mut()
                    .is_some_and(|groups| groups.keep(number).is_ok())
            }
            Place::Locked => {
                self.left.sessions.insert(found.pid);
                true
            }
            Place::Group => {
                self.left.sessions.insert(found.pid);
                self.left.may_have_moved = true;
                true
            }
            Place::Subtree => {
                self.left.is_everybody = rustix::process::set_parent_process_death_signal(None).is_ok();
                self.left.is_everybody
            }
        };
        self.left.is_somebody |= is_left;
        let notice = TreeNotice {
            ticket,
            swept: Vec::new(),
            alive: Vec::new(),
            is_exact: is_left,
        };
        self.tell(&Reply::Report(notice), Vec::new());
    }

    /// Whether a session is left to itself.
    pub(super) fn is_left(&self, session: &Session) -> bool {
        match &session.place {
            Place::Cgroup(group) => self
                .groups
                .as_ref()
                .is_some_and(|groups| groups.keeps(group.number())),
            _ => self.left.sessions.contains(&session.pid),
        }
    }

    /// Our children who are not left to themselves.
    ///
    /// Who they are comes first and whether they are left second: whoever has become a child meanwhile, by the end of a
    /// parent, is told apart by the next look.
    pub(super) fn children_to_end(&self) -> Vec<i32> {
        let children = tree::own_children();
        let mut left: BTreeSet<i32> = self
            .inits
            .iter()
            .filter(|(session, _)| self.left.has_init(**session))
            .map(|(_, init)| init.pid)
            .collect();
        if let Some(groups) = &self.groups {
            left.extend(groups.kept_members());
        }
        let is_left = |pid: i32| {
            if left.contains(&pid) {
                return true;
            }
            match tree::session_of(pid) {
                Some(session) if self.left.sessions.contains(&session) => true,
                // Nobody can tell whose they are that made sessions of their own.
                session => self.left.may_have_moved && !session.is_some_and(|session| self.leads(session)),
            }
        };
        children.into_iter().filter(|pid| !is_left(*pid)).collect()
    }

    /// Whether nobody is there any more but who is left to themselves.
    pub(super) fn is_over(&self) -> bool {
        !sys::has_any_living_child()
            || (self.left.is_somebody && !self.children_to_end().into_iter().any(tree::is_living))
    }

    fn leads(&self, pid: i32) -> bool {
        let mut sessions = self.sessions.values();
        sessions.any(|session| session.pid == pid && session.leader != LeaderState::Reaped)
            || self.inits.values().any(|init| init.pid == pid)
    }

    /// Goes on without a guard, for as long as somebody is there.
    pub(super) fn outlive(self) {
        debug_assert!(matches!(self.role, Role::Init { .. }), "a guard does not");
        while sys::has_any_living_child() {
            self.wait_for_children(None);
            while let Some(pid) = sys::ended_child() {
                sys::reap(pid);
            }
        }
    }
}
