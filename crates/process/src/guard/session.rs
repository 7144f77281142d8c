//! One session as the guard has it, from the clone to the release.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
};

use procession_core::{
    Status,
    containment::Mechanism,
    outcome::{UnknownStatus, Usage},
};

use super::{
    cgroup::{self, Group},
    child::{self, Layout, Start},
    server::{Role, Server, Token, Turn},
    sys, tree,
    wire::{ExitNotice, MAX_STRINGS_BYTES, Reply, SpawnMessage, Step},
};
use crate::unix::{
    signal,
    wait::{self, Mode, Seen},
};

/// A session whose leader is a child of ours.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) place: Place,
    /// Open until it is known whether the program runs.
    report: Option<OwnedFd>,
    /// What the child uses until it has executed its program or ended.
    layout: Option<Layout>,
    failure: Option<(Step, i32)>,
    pub(super) leader: LeaderState,
    /// The host wants it reaped; a sweep that is under way comes first.
    wants_reaping: bool,
    released: bool,
    was_killed: bool,
}

/// What has become of a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaderState {
    /// It runs, or is about to.
    Running,
    /// It has ended, and is not reaped.
    Ended,
    /// Its number may be somebody else's.
    Reaped,
}

/// By what a session is held.
#[derive(Debug)]
pub(super) enum Place {
    /// By a control group of its own.
    Cgroup(Group),
    /// By its process group, which nobody can leave.
    Locked,
    /// By its process group, as far as that goes.
    Group,
    /// By being all that lives below this process.
    Subtree,
}

impl Session {
    /// Whether this pid is its leader's.
    pub(super) fn holds(&self, pid: i32) -> bool {
        self.leader != LeaderState::Reaped && self.pid == pid
    }
}

/// The descriptors of a start.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) directory: OwnedFd,
    pub(super) streams: Vec<OwnedFd>,
}

/// The strings of a start and its descriptors, taken apart.
pub(super) fn take_apart(spawn: &SpawnMessage, descriptors: Vec<OwnedFd>) -> io::Result<(Vec<u8>, Ends)> {
    let mut descriptors = descriptors.into_iter();
    // What the system had no number for did not come along.
    let lost = || io::Error::from_raw_os_error(libc::EMFILE);
    let mut next = || descriptors.next().ok_or_else(lost);
    let strings = if let Some(strings) = &spawn.strings {
        strings.clone()
    } else {
        let mut strings = Vec::new();
        let most = u64::try_from(MAX_STRINGS_BYTES).unwrap_or(u64::MAX);
        File::from(next()?).take(most).read_to_end(&mut strings)?;
        strings
    };
    let directory = next()?;
    let streams: Vec<OwnedFd> = descriptors.collect();
    if !(2..=3).contains(&streams.len()) {
        return Err(lost());
    }
    Ok((strings, Ends { directory, streams }))
}

impl Server {
    /// Starts a session; how that went is told when it is known.
    pub(super) fn spawn(&mut self, spawn: &SpawnMessage, descriptors: Vec<OwnedFd>) {
        let started = take_apart(spawn, descriptors)
            .map_err(|error| (Step::Message, error))
            .and_then(|(strings, ends)| self.start(spawn, strings, &ends));
        if let Err((step, error)) = started {
            self.tell_failed(spawn.session, step, cgroup::errno_of(&error));
        }
    }

    /// The same with what came taken apart.
    pub(super) fn start(
        &mut self,
        spawn: &SpawnMessage,
        strings: Vec<u8>,
        ends: &Ends,
    ) -> Result<(), (Step, io::Error)> {
        let place = self
            .place(spawn.rung)
            .map_err(|error| (Step::Containment, error))?;
        let launched = self.launch(spawn, strings, ends, &place);
        let (pid, pidfd, report, layout) = match launched {
            Ok(launched) => launched,
            Err(failure) => {
                self.leave(place);
                return Err(failure);
            }
        };
        self.sessions.insert(
            spawn.session,
            Session {
                pid,
                pidfd,
                place,
                report: Some(report),
                layout: Some(layout),
                failure: None,
                leader: LeaderState::Running,
                wants_reaping: false,
                released: false,
                was_killed: false,
            },
        );
        Ok(())
    }

    fn launch(
        &self,
        spawn: &SpawnMessage,
        strings: Vec<u8>,
        ends: &Ends,
        place: &Place,
    ) -> Result<(i32, OwnedFd, OwnedFd, Layout), (Step, io::Error)> {
        let of_process = |error: io::Error| (Step::Process, error);
        let (report, writer) = child::report_pipe().map_err(of_process)?;
        let is_named = self.role == Role::Init { has_namespace: true };
        let mut layout = Layout::new(Start {
            strings,
            arguments: spawn.arguments,
            variables: spawn.variables,
            setup: &spawn.setup,
            directory: (!is_named).then_some(ends.directory.as_fd()),
            streams: [
                ends.streams[0].as_fd(),
                ends.streams[1].as_fd(),
                ends.streams.get(2).unwrap_or(&ends.streams[1]).as_fd(),
            ],
            report: writer.as_fd(),
            parent: self.own_pid,
            lock: self.lock.as_deref().filter(|_| matches!(place, Place::Locked)),
            open_files: self.open_files,
        })
        .map_err(|malformed| (Step::Message, io::Error::other(malformed)))?;
        let group = match place {
            Place::Cgroup(group) => Some(group.directory().as_fd()),
            _ => None,
        };
        let (pid, pidfd) = layout.launch(group).map_err(of_process)?;
        let watched = self
            .watch(pidfd.as_fd(), Token::Ended(spawn.session))
            .and_then(|()| self.watch(report.as_fd(), Token::Started(spawn.session)));
        if let Err(error) = watched {
            // Behind this nobody needs the layout any more.
            sys::kill_child(pid);
            return Err(of_process(error));
        }
        Ok((pid, pidfd, report, layout))
    }

    fn place(&mut self, rung: Mechanism) -> io::Result<Place> {
        if matches!(self.role, Role::Init { .. }) {
            return Ok(Place::Subtree);
        }
        let missing = || io::Error::from_raw_os_error(libc::ENOSYS);
        match rung {
            Mechanism::Cgroup => Ok(Place::Cgroup(self.groups.as_mut().ok_or_else(missing)?.take()?)),
            Mechanism::PgidLock if self.lock.is_some() => Ok(Place::Locked),
            Mechanism::ProcessGroup => Ok(Place::Group),
            _ => Err(missing()),
        }
    }

    fn leave(&mut self, place: Place) {
        if let (Place::Cgroup(group), Some(groups)) = (place, &mut self.groups) {
            groups.leave(group);
        }
    }

    /// A start has failed, or its program runs.
    pub(super) fn started_event(&mut self, session: u64) -> Turn {
        let Some(found) = self.sessions.get_mut(&session) else {
            return Turn::GoesOn;
        };
        let Some(report) = found.report.take() else {
            return Turn::GoesOn;
        };
        let mut bytes = [0; 8];
        let length = rustix::io::read(&report, &mut bytes).unwrap_or(0);
        found.failure = child::failure(&bytes[..length]);
        if found.failure.is_some() {
            // It is told when the process is gone, which may use its layout until then.
            return Turn::GoesOn;
        }
        // It has memory of its own now, or none: the system closes the report behind that.
        found.layout = None;
        let cgroup = match &found.place {
            Place::Cgroup(group) => Some(group.number()),
            _ => None,
        };
        let (pid, pidfd) = (found.pid, found.pidfd.try_clone());
        match pidfd {
            Ok(pidfd) => self.tell(&Reply::Spawned { session, pid, cgroup }, vec![pidfd]),
            Err(error) => {
                let errno = cgroup::errno_of(&error);
                found.failure = Some((Step::Process, errno));
                sys::kill(pid, libc::SIGKILL);
            }
        }
        Turn::GoesOn
    }

    /// A leader has ended.
    pub(super) fn ended_event(&mut self, session: u64) -> Turn {
        if self.inits.contains_key(&session) {
            self.init_ended(session);
            return Turn::GoesOn;
        }
        // Whether it ever ran comes first.
        self.started_event(session);
        let Some(found) = self.sessions.get_mut(&session) else {
            return Turn::GoesOn;
        };
        if let Some((step, errno)) = found.failure {
            wait::look(found.pidfd.as_fd(), Mode::Reap);
            found.leader = LeaderState::Reaped;
            self.forget(session);
            self.tell_failed(session, step, errno);
            return Turn::GoesOn;
        }
        let (status, usage) = match wait::look(found.pidfd.as_fd(), Mode::Peek) {
            Seen::Ended(status, usage, counted) => {
                let usage = Usage {
                    peak_memory_bytes: self.own_peak.exceeded_by(counted),
                    ..usage
                };
                (status, usage)
            }
            Seen::Running => return Turn::GoesOn,
            Seen::Taken => (unknown(UnknownStatus::TakenElsewhere), Usage::default()),
            Seen::Failed(errno) => (
                unknown(UnknownStatus::ObservationFailed { errno }),
                Usage::default(),
            ),
        };
        found.leader = LeaderState::Ended;
        let is_released = found.released;
        let found = &self.sessions[&session];
        let is_alone = self.is_alone(found);
        self.tell_exited(ExitNotice {
            session,
            status,
            usage,
            is_alone,
        });
        if is_released {
            self.finish(session);
        }
        Turn::GoesOn
    }

    /// Sends a signal to those outside of the leader's group.
    pub(super) fn signal_rest(&mut self, session: u64, number: i32) {
        let Some(found) = self.sessions.get(&session) else {
            return;
        };
        let leader = found.pid;
        let is_in_group = |pid: i32| pid == leader || tree::group_of(pid) == Some(leader);
        match &found.place {
            Place::Cgroup(group) => group.signal(number, is_in_group),
            Place::Locked => {}
            Place::Subtree => tree::signal_descendants(self.own_pid, number, is_in_group),
            Place::Group => {
                if found.leader != LeaderState::Reaped {
                    super::sweep::signal_jobs(&self.table, leader, number);
                }
            }
        }
    }

    /// Kills a tree at once, by the means that it is held by.
    pub(super) fn kill(&mut self, session: u64) {
        if let Some(found) = self.sessions.get_mut(&session) {
            found.was_killed = true;
        }
        let Some(found) = self.sessions.get(&session) else {
            return;
        };
        let leader = found.pid;
        match &found.place {
            Place::Cgroup(group) => drop(group.kill()),
            Place::Locked => {
                // Somebody of the group is a child of ours and not reaped, so that the number is the group's.
                if sys::has_living_child_in(leader) && self.has_number(session) {
                    let _ = signal::send_to_group(leader, libc::SIGKILL);
                }
            }
            Place::Group => {
                if found.leader != LeaderState::Reaped {
                    let _ = signal::send_to_group(leader, libc::SIGKILL);
                    super::sweep::signal_jobs(&self.table, leader, libc::SIGKILL);
                }
            }
            Place::Subtree => drop(self.kill_subtree()),
        }
    }

    /// Whether the number of a session's group is not another session's by now.
    pub(super) fn has_number(&self, session: u64) -> bool {
        let Some(found) = self.sessions.get(&session) else {
            return false;
        };
        found.leader != LeaderState::Reaped || !self.sessions.values().any(|other| other.holds(found.pid))
    }

    /// Kills all that lives below this process.
    pub(super) fn kill_subtree(&self) -> Vec<i32> {
        if self.role == (Role::Init { has_namespace: true }) {
            let seen = tree::descendants(self.own_pid);
            // All at one stroke: nobody who is being killed can start another one.
            sys::kill(-1, libc::SIGKILL);
            return seen;
        }
        tree::kill_descendants(self.own_pid)
    }

    /// Reaps a leader that has ended, behind a sweep that is under way.
    pub(super) fn reap(&mut self, session: u64) {
        let is_swept = self.is_being_swept(session);
        if let Some(found) = self.sessions.get_mut(&session)
            && found.leader == LeaderState::Ended
        {
            if is_swept {
                found.wants_reaping = true;
            } else {
                wait::look(found.pidfd.as_fd(), Mode::Reap);
                found.leader = LeaderState::Reaped;
            }
        }
    }

    /// What was put off until the end of a sweep.
    pub(super) fn swept(&mut self, session: u64) {
        let Some(found) = self.sessions.get(&session) else {
            return;
        };
        let (wants_reaping, released) = (found.wants_reaping, found.released);
        if wants_reaping {
            self.reap(session);
        }
        if released {
            self.forget(session);
        }
    }

    /// Nobody has charge of a session any more: it is reaped when it ends, and swept before where it was killed.
    pub(super) fn release(&mut self, session: u64) {
        let Some(found) = self.sessions.get_mut(&session) else {
            return;
        };
        found.released = true;
        if found.leader != LeaderState::Running {
            self.finish(session);
        }
    }

    fn finish(&mut self, session: u64) {
        if self.is_being_swept(session) {
            return;
        }
        let found = &self.sessions[&session];
        let may_have_left_some = found.was_killed && !self.is_alone(found);
        if may_have_left_some && found.leader == LeaderState::Ended {
            self.sweep_before_reaping(session);
        } else {
            self.forget(session);
        }
    }

    /// Reaps a leader, and leaves its place.
    fn forget(&mut self, session: u64) {
        let Some(found) = self.sessions.remove(&session) else {
            return;
        };
        if found.leader != LeaderState::Reaped {
            wait::look(found.pidfd.as_fd(), Mode::Reap);
        }
        self.unwatch(found.pidfd.as_fd());
        self.leave(found.place);
    }
}

fn unknown(reason: UnknownStatus) -> Status {
    Status::Unknown { reason }
}
