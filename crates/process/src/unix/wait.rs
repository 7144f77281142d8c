//! One look at a child through its pidfd, reaping or not.
#![expect(
    unsafe_code,
    reason = "no crate passes on the fifth argument of waitid, which tells the usage"
)]

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use procession_core::{
    Signal, Status,
    outcome::{UnknownStatus, Usage},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::resident::Counted;

/// Whether the child is still there after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is.
    Peek,
    /// It is not, where it had ended.
    Reap,
}

/// What a look at a child shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// It has not ended.
    Running,
    /// It has ended; the usage tells no memory, which has to be told apart from our own first.
    Ended(Status, Usage, Counted),
    /// It is no child of ours any more: somebody else took its status, or the system kept none.
    Taken,
    /// The look failed.
    Failed(i32),
}

/// Looks at a child; never waits.
pub(crate) fn look(pidfd: BorrowedFd<'_>, mode: Mode) -> Seen {
    let keep = if mode == Mode::Peek { libc::WNOWAIT } else { 0 };
    loop {
        let mut seen = MaybeUninit::<libc::siginfo_t>::zeroed();
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both pointers are to writable memory of the right type, the descriptor is open for the length of
        // the call, and the arguments are those of the system call: the usage is its fifth.
        let result = unsafe {
            libc::syscall(
                libc::SYS_waitid,
                libc::P_PIDFD,
                pidfd.as_raw_fd(),
                seen.as_mut_ptr(),
                libc::WEXITED | libc::WNOHANG | keep,
                usage.as_mut_ptr(),
            )
        };
        if result == 0 {
            // SAFETY: all zeroes are valid for both, and the call filled them in where the child had ended.
            let (seen, usage) = unsafe { (seen.assume_init(), usage.assume_init()) };
            return seen_child(&seen, &usage);
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Seen::Taken,
            errno => return Seen::Failed(errno.unwrap_or_default()),
        }
    }
}

/// Registers a pidfd with the runtime; it becomes readable when the child has ended.
///
/// # Errors
/// Where the runtime cannot take another descriptor.
pub(crate) fn watch(pidfd: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: what is registered owns the descriptor, so that it stays open and the same until it is taken off.
    let watched = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
    Ok(watched?)
}

/// Waits for a child that was killed, and reaps it.
pub(crate) fn reap_killed(pid: i32) {
    loop {
        // SAFETY: a null status is not written to.
        let result = unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        if result != -1 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return;
        }
    }
}

fn seen_child(seen: &libc::siginfo_t, usage: &libc::rusage) -> Seen {
    // SAFETY: of a child's `siginfo` these two are set; with no child that ended both are zero.
    let (pid, number) = unsafe { (seen.si_pid(), seen.si_status()) };
    if pid == 0 {
        return Seen::Running;
    }
    let signaled = |core_dumped| match Signal::from_number(number) {
        Ok(signal) => Status::Signaled { signal, core_dumped },
        Err(_) => Status::Unknown {
            reason: UnknownStatus::ObservationFailed { errno: libc::EINVAL },
        },
    };
    let status = match seen.si_code {
        libc::CLD_EXITED => Status::Exited { code: number },
        libc::CLD_KILLED => signaled(false),
        libc::CLD_DUMPED => signaled(true),
        _ => Status::Unknown {
            reason: UnknownStatus::ObservationFailed { errno: libc::EINVAL },
        },
    };
    // In units of 1024 bytes.
    let bytes = count(usage.ru_maxrss).saturating_mul(1024);
    Seen::Ended(status, to_usage(usage), Counted { bytes })
}

fn count(number: libc::c_long) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn to_usage(usage: &libc::rusage) -> Usage {
    let time = |time: libc::timeval| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
        seconds.saturating_add(Duration::from_micros(
            u64::try_from(time.tv_usec).unwrap_or_default(),
        ))
    };
    Usage {
        user_time: time(usage.ru_utime),
        system_time: time(usage.ru_stime),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        ..Usage::default()
    }
}
