//! Starting a guard, and the first words with it.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use procession_core::containment::Mechanism;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    process::{Pid, PidfdFlags},
};

use super::{
    GuardError, GuardOptions, GuardProgram, Preference, main,
    packet::{self, Packet, Wait},
    wire::{Readiness, Reply, Request, VERSION},
};
use crate::unix::{
    descriptor::{above_stdio, null},
    launch::{Launch, Streams, launch},
    signal, wait,
};

/// How long a guard may take to say that it is one.
const HELLO_BOUND: Duration = Duration::from_secs(2);
/// How long it may take to try what the machine has.
const READY_BOUND: Duration = Duration::from_secs(10);

/// A guard that runs, as its host knows it.
#[derive(Debug)]
pub(super) struct GuardProcess {
    pid: i32,
    /// None where the host ignores the ends of its children, and it was gone before it could be had.
    pidfd: Option<OwnedFd>,
}

/// A guard that is ready.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) process: GuardProcess,
    pub(super) socket: OwnedFd,
    pub(super) readiness: Readiness,
    /// By what means sessions are held.
    pub(super) mechanism: Mechanism,
}

impl GuardProcess {
    /// Its pid.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for its end and reaps it; kills it where it takes longer.
    pub(super) fn end_within(&self, bound: Duration) {
        let Some(pidfd) = &self.pidfd else { return };
        if !is_readable_within(pidfd, bound) {
            let _ = signal::send_to_pidfd(pidfd.as_fd(), libc::SIGKILL);
        }
        // Another part of the program may have reaped it, and then its number is not ours to wait for.
        if wait::look(pidfd.as_fd(), wait::Mode::Peek) != wait::Seen::Taken {
            wait::reap_killed(self.pid);
        }
    }
}

/// Starts a guard and asks what it can do.
pub(super) fn start(options: &GuardOptions) -> Result<Started, GuardError> {
    let program = match &options.program {
        GuardProgram::SelfExe if !main::is_hooked() => return Err(GuardError::NotHooked),
        GuardProgram::SelfExe => PathBuf::from("/proc/self/exe"),
        GuardProgram::Path(path) => path.clone(),
    };
    let (process, socket) = spawn(&program).map_err(|source| GuardError::Spawn {
        program: program.clone(),
        source,
    })?;
    let only = match options.prefer {
        Preference::Auto => None,
        Preference::Only(mechanism) => Some(mechanism),
    };
    let readiness = match shake_hands(&socket, only) {
        Ok(readiness) => readiness,
        Err(said_hello) => {
            // It is no guard, or one of another version: whatever it is doing, it is to do no more of it.
            process.end_within(Duration::ZERO);
            return Err(if said_hello {
                GuardError::Silent { program }
            } else {
                GuardError::NoGuard { program }
            });
        }
    };
    let in_force = readiness.rungs.iter().find(|found| found.lacks.is_none());
    let Some(mechanism) = in_force.map(|found| found.mechanism) else {
        let reason = readiness.rungs.first().and_then(|found| found.lacks.clone());
        packet::shut_down(&socket);
        process.end_within(READY_BOUND);
        return Err(GuardError::Unavailable {
            mechanism: only.unwrap_or(Mechanism::ProcessGroup),
            reason: reason.unwrap_or_else(|| "the guard does not know it".to_owned()),
        });
    };
    Ok(Started {
        process,
        socket,
        readiness,
        mechanism,
    })
}

fn spawn(program: &Path) -> io::Result<(GuardProcess, OwnedFd)> {
    let (socket, other) = packet::pair()?;
    let (socket, other) = (above_stdio(socket)?, above_stdio(other)?);
    let directory = rustix::fs::open(
        "/",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let directory = above_stdio(directory)?;
    let nothing = null()?;
    let program = CString::new(program.as_os_str().as_bytes())?;
    // Nothing of the host's environment, so that no secret of it lies open in another process.
    let pid = launch(&Launch {
        program: &program,
        argv: &[main::NAME.to_owned(), main::MARKER.to_owned()],
        environment: &[],
        cwd: directory.as_fd(),
        streams: Streams::Separate([other.as_fd(), nothing.as_fd(), nothing.as_fd()]),
    })?;
    let pidfd = Pid::from_raw(pid)
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok())
        .map(above_stdio)
        .transpose()?;
    Ok((GuardProcess { pid, pidfd }, socket))
}

/// Says hello; the error is whether the other side did.
fn shake_hands(socket: &OwnedFd, only: Option<Mechanism>) -> Result<Readiness, bool> {
    match receive_within(socket, HELLO_BOUND) {
        Some(Reply::Hello { version: VERSION }) => {}
        _ => return Err(false),
    }
    let hello = Request::Hello {
        version: VERSION,
        only,
    };
    packet::send(socket.as_fd(), &hello.encode(), &[], Wait::No).map_err(|_| true)?;
    match receive_within(socket, READY_BOUND) {
        Some(Reply::Ready(readiness)) => Ok(readiness),
        _ => Err(true),
    }
}

fn receive_within(socket: &OwnedFd, bound: Duration) -> Option<Reply> {
    if !is_readable_within(socket, bound) {
        return None;
    }
    let Packet { bytes, .. } = packet::receive(socket.as_fd(), Wait::No).ok()?;
    Reply::decode(&bytes).ok()
}

fn is_readable_within(descriptor: &OwnedFd, bound: Duration) -> bool {
    let deadline = Instant::now() + bound;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
