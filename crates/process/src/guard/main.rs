//! The guard's `main`: from the first instruction to the loop.

use std::{
    ffi::{CStr, OsStr},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    sync::atomic::{AtomicBool, Ordering},
};

use procession_core::containment::Mechanism;
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, PidfdFlags, Signal},
};

use super::{
    cgroup::{self, Groups},
    child, init,
    packet::{self, Wait},
    pgid_lock,
    server::{Role, Server, Token},
    sys,
    wire::{RUNGS, Readiness, Reply, Request, RungFound, VERSION},
};

/// What the guard is started as, so that it can be told from the program that it is.
pub(super) const NAME: &CStr = c"procession-guard";
/// What it is told to do.
pub(super) const MARKER: &CStr = c"--serve-the-host-on-standard-input";

static IS_HOOKED: AtomicBool = AtomicBool::new(false);

/// Whether [`run_if_asked`] was called in this process.
pub(super) fn is_hooked() -> bool {
    IS_HOOKED.load(Ordering::Acquire)
}

/// Becomes the guard where this process was started as one; else returns at once.
///
/// A program that hosts sessions calls this first in `main`, before it makes threads or a runtime, and before it
/// looks at its arguments. In the guard it never returns. It is what allows
/// [`GuardProgram::SelfExe`](super::GuardProgram::SelfExe): a program that does not call it is never started a second
/// time.
///
/// ```
/// // First of all in `main`.
/// procession_process::guard::run_if_asked();
/// ```
pub fn run_if_asked() {
    IS_HOOKED.store(true, Ordering::Release);
    let mut arguments = std::env::args_os();
    let is_asked = [NAME, MARKER].iter().all(|expected| {
        arguments
            .next()
            .is_some_and(|argument| argument == OsStr::from_bytes(expected.to_bytes()))
    });
    if is_asked && packet::is_end(sys::standing(0)) {
        // There is nobody to tell a failure to but the host, to whom the end of the link tells it.
        let _ = serve();
        sys::exit(1);
    }
}

fn serve() -> io::Result<()> {
    sys::default_dispositions();
    let host = rustix::process::getppid();
    let link = take_link()?;
    let signals = sys::child_signals()?;
    sys::set_name(NAME);
    rustix::process::chdir("/")?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // A guard that somebody has stopped goes on when its host dies. It comes too when only the thread dies that has
    // started us, which does no harm: to who runs it says nothing.
    rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
    packet::send(
        link.as_fd(),
        &Reply::Hello { version: VERSION }.encode(),
        &[],
        Wait::Yes,
    )?;
    let hello = packet::receive(link.as_fd(), Wait::Yes)?;
    let Ok(Request::Hello {
        version: VERSION,
        only,
    }) = Request::decode(&hello.bytes)
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let open_files = child::raise_open_files();
    let mut server = Server::new(Role::Guard, link, signals)?;
    server.open_files = open_files;
    let ready = probe(&mut server, only);
    server.tell(&Reply::Ready(ready), Vec::new());
    // A copy of the host's end may outlive the host, in a process that it forked.
    let host = host.and_then(|host| watch_host(&server, host));
    let _kept_open = host;
    server.run()
}

/// Takes the link from where it was put, and leaves nothing of the host's open.
fn take_link() -> io::Result<OwnedFd> {
    let link = rustix::io::fcntl_dupfd_cloexec(sys::standing(0), 3)?;
    sys::close_all_but(&[link.as_raw_fd()]);
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for number in 0..3 {
        sys::place(null.as_fd(), number, 0)?;
    }
    Ok(link)
}

fn watch_host(server: &Server, host: Pid) -> Option<OwnedFd> {
    let pidfd = rustix::process::pidfd_open(host, PidfdFlags::empty()).ok()?;
    if rustix::process::getppid() != Some(host) {
        // It is gone, and the end of the link tells so.
        return None;
    }
    server.watch(pidfd.as_fd(), Token::Host).ok()?;
    Some(pidfd)
}

/// Tries all rungs, or one.
fn probe(server: &mut Server, only: Option<Mechanism>) -> Readiness {
    let rungs = RUNGS
        .into_iter()
        .filter(|mechanism| only.is_none_or(|only| only == *mechanism))
        .map(|mechanism| RungFound {
            mechanism,
            lacks: probe_rung(server, mechanism).err(),
        })
        .collect();
    Readiness {
        rungs,
        cgroup: server
            .groups
            .as_ref()
            .map(|groups| groups.path().as_os_str().as_bytes().to_vec()),
        has_cgroup_kill: server.groups.as_ref().is_some_and(Groups::has_kill),
    }
}

fn probe_rung(server: &mut Server, mechanism: Mechanism) -> Result<(), String> {
    match mechanism {
        Mechanism::Cgroup => {
            let mut groups = Groups::make()?;
            match cgroup::probe(&mut groups) {
                Ok(()) => {
                    server.groups = Some(groups);
                    Ok(())
                }
                Err(why) => {
                    groups.end(std::time::Duration::ZERO);
                    Err(why)
                }
            }
        }
        Mechanism::PidNamespace => {
            server.namespaces = Some(init::probe_namespaces()?);
            Ok(())
        }
        Mechanism::PgidLock => {
            let filter = pgid_lock::program().ok_or("the numbers of this architecture are not known")?;
            probe_lock(&filter)?;
            server.lock = Some(filter);
            Ok(())
        }
        Mechanism::Subreaper if !server.table.is_readable() => {
            Err("/proc is not the one of this process's own pid namespace".to_owned())
        }
        Mechanism::Subreaper => std::fs::read("/proc/thread-self/children")
            .map(drop)
            .map_err(|error| format!("/proc does not list children: {error}")),
        _ => Ok(()),
    }
}

/// Whether a process under the lock stays where it is, and is seen to be gone when it is.
fn probe_lock(filter: &[libc::sock_filter]) -> Result<(), String> {
    let cloned = sys::clone_process(None, 0).map_err(|error| format!("no process can be made: {error}"))?;
    let (pid, pidfd) = match cloned {
        sys::Cloned::Child => {
            let is_locked = rustix::process::setsid().is_ok()
                && sys::filter(filter).is_ok()
                && sys::tries_to_move() == (0, 0, true);
            sys::exit(i32::from(!is_locked));
        }
        sys::Cloned::Parent { pid, pidfd } => (pid, pidfd),
    };
    // While it is not reaped.
    let is_seen = sys::await_end(&pidfd) && sys::has_living_child_in(pid);
    if sys::await_exit(&pidfd) != Some(0) {
        return Err("a filter for system calls cannot be set".to_owned());
    }
    if is_seen {
        return Err("the system does not tell who is left of a process group".to_owned());
    }
    Ok(())
}
