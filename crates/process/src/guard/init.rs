//! A session's own init: a process between the guard and a leader, below which all that the leader starts stays.
//!
//! As the first process of a namespace of pids it is the one that the kernel ends everybody else with; without a
//! namespace it is the one that orphans are given to. In both cases it sees for itself when nobody is left.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use procession_core::{
    Status,
    containment::Mechanism,
    outcome::{UnknownStatus, Usage},
};
use rustix::process::Signal;

use super::{
    cgroup,
    packet::{self, Packet, Wait},
    server::{Role, Server, Token, Turn},
    session::{Ends, take_apart},
    sys, tree,
    wire::{ExitNotice, Reply, Request, SpawnMessage, Step, TreeNotice},
};
use crate::unix::{
    signal,
    wait::{self, Mode},
};

/// A session's init, as its guard has it.
#[derive(Debug)]
pub(super) struct Init {
    pub(super) pid: i32,
    pidfd: OwnedFd,
    socket: OwnedFd,
    has_namespace: bool,
    /// The leader, once it runs.
    leader: Option<(i32, OwnedFd)>,
    has_ended: bool,
    /// Questions that it has not answered, and who was there when they were asked.
    tickets: BTreeMap<u64, BTreeSet<i32>>,
}

impl Init {
    /// Ends all that is below it.
    pub(super) fn end(&self) {
        if self.has_namespace {
            // The kernel ends all others of the namespace with it.
            let _ = signal::send_to_pidfd(self.pidfd.as_fd(), libc::SIGKILL);
        } else {
            packet::shut_down(&self.socket);
        }
    }

    fn members(&self) -> BTreeSet<i32> {
        let leader = self.leader.as_ref().map(|(pid, _)| *pid);
        let mut members: BTreeSet<i32> = tree::descendants(self.pid).into_iter().collect();
        members.retain(|pid| Some(*pid) != leader);
        members
    }
}

impl Server {
    /// Starts a session below an init of its own.
    pub(super) fn spawn_init(&mut self, spawn: &SpawnMessage, descriptors: Vec<OwnedFd>) {
        let session = spawn.session;
        let started = take_apart(spawn, descriptors)
            .map_err(|error| (Step::Message, error))
            .and_then(|(strings, ends)| self.start_init(spawn, strings, ends));
        if let Err((step, error)) = started {
            self.tell_failed(session, step, cgroup::errno_of(&error));
        }
    }

    fn start_init(
        &mut self,
        spawn: &SpawnMessage,
        strings: Vec<u8>,
        ends: Ends,
    ) -> Result<(), (Step, io::Error)> {
        let at = |step: Step| move |error: io::Error| (step, error);
        let has_namespace = spawn.rung == Mechanism::PidNamespace;
        let namespaces = match (has_namespace, self.namespaces) {
            (false, _) => 0,
            (true, Some(namespaces)) => namespaces,
            (true, None) => return Err((Step::Containment, io::Error::from_raw_os_error(libc::ENOSYS))),
        };
        // In a namespace nobody is anybody until it is said who is who.
        let ids = Ids::own();
        let (socket, other) = packet::pair().map_err(at(Step::Process))?;
        match sys::clone_process(None, namespaces).map_err(at(Step::Process))? {
            sys::Cloned::Child => {
                let birth = Birth {
                    link: other,
                    namespaces,
                    ids,
                    open_files: self.open_files,
                };
                be_init(birth, spawn, strings, ends)
            }
            sys::Cloned::Parent { pid, pidfd } => {
                let watched = self
                    .watch(pidfd.as_fd(), Token::Ended(spawn.session))
                    .and_then(|()| self.watch(socket.as_fd(), Token::Told(spawn.session)));
                if let Err(error) = watched {
                    sys::kill_child(pid);
                    return Err((Step::Process, error));
                }
                self.inits.insert(
                    spawn.session,
                    Init {
                        pid,
                        pidfd,
                        socket,
                        has_namespace,
                        leader: None,
                        has_ended: false,
                        tickets: BTreeMap::new(),
                    },
                );
                Ok(())
            }
        }
    }

    /// Passes on what the host asks for.
    pub(super) fn pass_on(&mut self, session: u64, request: &Request, bytes: &[u8]) {
        let Some(init) = self.inits.get_mut(&session) else {
            return;
        };
        let ticket = match *request {
            Request::Survey { ticket, .. }
            | Request::Sweep { ticket, .. }
            | Request::Leave { ticket, .. } => Some(ticket),
            _ => None,
        };
        if let Some(ticket) = ticket {
            // Before it hears of it: what it tells are numbers of its namespace.
            let members = if init.has_namespace {
                init.members()
            } else {
                BTreeSet::new()
            };
            init.tickets.insert(ticket, members);
        }
        let is_sent = packet::send(init.socket.as_fd(), bytes, &[], Wait::No).is_ok();
        if is_sent && matches!(request, Request::Leave { .. }) {
            self.left.init_is_told(session);
        }
        if !is_sent && let Some(ticket) = ticket {
            init.tickets.remove(&ticket);
            self.tell_nothing_seen(ticket);
        }
    }

    /// An init has something to tell.
    pub(super) fn told_event(&mut self, session: u64) -> Turn {
        while let Some(init) = self.inits.get(&session) {
            match packet::receive(init.socket.as_fd(), Wait::No) {
                Ok(Packet { bytes, .. }) if bytes.is_empty() => {
                    // That it has ended is told by its pidfd.
                    self.unwatch_init(session);
                    break;
                }
                Ok(Packet { bytes, descriptors }) => {
                    if let Ok(reply) = Reply::decode(&bytes) {
                        self.told(session, reply, descriptors);
                    }
                }
                Err(_) => break,
            }
        }
        Turn::GoesOn
    }

    fn unwatch_init(&mut self, session: u64) {
        if let Some(init) = self.inits.get(&session) {
            self.unwatch(init.socket.as_fd());
        }
    }

    fn told(&mut self, session: u64, reply: Reply, mut descriptors: Vec<OwnedFd>) {
        let Some(init) = self.inits.get_mut(&session) else {
            return;
        };
        let reply = match reply {
            Reply::Spawned { pid, cgroup, .. } => {
                let Some(pidfd) = descriptors.first().and_then(|pidfd| pidfd.try_clone().ok()) else {
                    return;
                };
                // Its own number is one of its namespace.
                let pid = pid_of(&pidfd).unwrap_or(pid);
                init.leader = Some((pid, pidfd));
                Reply::Spawned { session, pid, cgroup }
            }
            Reply::Report(notice) => {
                let before = init.tickets.remove(&notice.ticket).unwrap_or_default();
                if init.has_namespace {
                    let alive = init.members();
                    let swept = before.difference(&alive).copied().collect();
                    Reply::Report(TreeNotice {
                        swept: if notice.swept.is_empty() {
                            Vec::new()
                        } else {
                            swept
                        },
                        alive: if notice.alive.is_empty() {
                            Vec::new()
                        } else {
                            alive.into_iter().collect()
                        },
                        ..notice
                    })
                } else {
                    Reply::Report(notice)
                }
            }
            Reply::Exited(_) | Reply::Failed { .. } => {
                init.has_ended = true;
                reply
            }
            Reply::Hello { .. } | Reply::Ready(_) => return,
        };
        descriptors.truncate(1);
        self.tell(&reply, descriptors);
    }

    /// An init has ended: what it has not told is not known to anybody.
    pub(super) fn init_ended(&mut self, session: u64) {
        self.told_event(session);
        let Some(init) = self.inits.remove(&session) else {
            return;
        };
        wait::look(init.pidfd.as_fd(), Mode::Reap);
        self.unwatch(init.socket.as_fd());
        self.unwatch(init.pidfd.as_fd());
        match init.leader {
            None if !init.has_ended => self.tell_failed(session, Step::Containment, libc::ECHILD),
            Some((_, leader)) if !init.has_ended => {
                let _ = signal::send_to_pidfd(leader.as_fd(), libc::SIGKILL);
                self.tell_exited(ExitNotice {
                    session,
                    status: Status::Unknown {
                        reason: UnknownStatus::SupervisorDied,
                    },
                    usage: Usage::default(),
                    is_alone: false,
                });
            }
            _ => {}
        }
        for ticket in init.tickets.into_keys() {
            self.tell_nothing_seen(ticket);
        }
    }
}

/// The pid of who a pidfd names, as this process sees it.
fn pid_of(pidfd: &OwnedFd) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok().filter(|pid| *pid > 0)
}

/// What an init is born with.
#[derive(Debug)]
struct Birth {
    link: OwnedFd,
    /// None where it is a subreaper.
    namespaces: i32,
    ids: Ids,
    open_files: Option<(u64, u64)>,
}

/// Who we act as.
#[derive(Debug, Clone, Copy)]
struct Ids {
    user: u32,
    group: u32,
}

impl Ids {
    fn own() -> Self {
        Self {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        }
    }
}

/// Becomes the init of a session, and starts it.
fn be_init(birth: Birth, spawn: &SpawnMessage, strings: Vec<u8>, ends: Ends) -> ! {
    let Birth {
        link,
        namespaces,
        ids,
        open_files,
    } = birth;
    // Of the guard's descriptors none stays: neither the host's lifeline nor another session's.
    let mut kept = vec![link.as_raw_fd(), ends.directory.as_raw_fd()];
    kept.extend(ends.streams.iter().map(AsRawFd::as_raw_fd));
    sys::close_all_but(&kept);
    sys::set_name(c"procession-init");
    let role = Role::Init {
        has_namespace: namespaces != 0,
    };
    let at = |step: Step| move |error: io::Error| (step, error);
    let begun = enter(namespaces, ids)
        .and_then(|()| sys::child_signals())
        .map_err(at(Step::Containment))
        .and_then(|signals| {
            let link = link.try_clone().map_err(at(Step::Process))?;
            let mut server = Server::new(role, link, signals).map_err(at(Step::Process))?;
            server.open_files = open_files;
            server.start(spawn, strings, &ends)?;
            Ok(server)
        });
    match begun {
        Ok(server) => {
            // The child has its own.
            drop(ends);
            server.run()
        }
        Err((step, error)) => {
            let reply = Reply::Failed {
                session: spawn.session,
                step,
                errno: cgroup::errno_of(&error),
            };
            // A guard that is gone needs to know nothing.
            drop(packet::send(link.as_fd(), &reply.encode(), &[], Wait::No));
            sys::exit(0)
        }
    }
}

/// Makes this process the one that all below it are left to.
fn enter(namespaces: i32, ids: Ids) -> io::Result<()> {
    if namespaces == 0 {
        return Ok(rustix::process::set_child_subreaper(Some(
            rustix::process::getpid(),
        ))?);
    }
    // The kernel ends it, and with it the namespace, when the guard has ended. A guard that has ended before this is
    // seen by the end of the link.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if namespaces & libc::CLONE_NEWUSER != 0 {
        let Ids { user, group } = ids;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    sys::mount_own_proc()
}

/// Which namespaces this machine gives us: with one of users only where it has to be.
///
/// # Errors
/// What did not work, in a few words.
pub(super) fn probe_namespaces() -> Result<i32, String> {
    let plain = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    let with_users = plain | libc::CLONE_NEWUSER;
    match probe(plain) {
        Ok(()) => Ok(plain),
        Err(_) => probe(with_users)
            .map(|()| with_users)
            .map_err(|error| format!("a namespace of pids with its own /proc cannot be made: {error}")),
    }
}

fn probe(namespaces: i32) -> io::Result<()> {
    let ids = Ids::own();
    match sys::clone_process(None, namespaces)? {
        sys::Cloned::Child => {
            let code = match enter(namespaces, ids) {
                Ok(()) if tree::own_children().is_empty() && rustix::process::getpid().is_init() => 0,
                Ok(()) => libc::EINVAL,
                Err(error) => cgroup::errno_of(&error),
            };
            sys::exit(code)
        }
        sys::Cloned::Parent { pidfd, .. } => match sys::await_exit(&pidfd) {
            Some(0) => Ok(()),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Err(io::ErrorKind::Other.into()),
        },
    }
}
