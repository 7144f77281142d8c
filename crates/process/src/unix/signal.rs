//! Signals: sending them, keeping them away from our threads, and the two dispositions that matter to a host.
#![expect(
    unsafe_code,
    reason = "killpg, pidfd_send_signal, sigtimedwait and sigaction have no safe form for all signals"
)]

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as Named};
use rustix::io::Errno;

use super::PortError;

/// Sends a signal to a process group.
pub(crate) fn send_to_group(group: i32, signal: i32) -> Result<(), Errno> {
    // 0 and 1 would be our own group and everybody.
    if group <= 1 {
        return Err(Errno::SRCH);
    }
    // SAFETY: the call takes no pointers.
    let result = unsafe { libc::killpg(group, signal) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Sends a signal to the process that a pidfd names.
pub(crate) fn send_to_pidfd(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    let no_siginfo = ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open for the length of the call, and a null `siginfo` is what `kill` would send.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            no_siginfo,
            0_u32,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Keeps all signals away from the calling thread, so that the embedding program's handlers do not run on it.
pub(crate) fn block_all() {
    if let Err(error) = SigSet::all().thread_block() {
        tracing::warn!(%error, "signals could not be blocked on a thread of the port");
    }
}

/// Writes to a pipe without the signal that a write without a reader raises.
///
/// There is no flag for that on a pipe, and to ignore SIGPIPE would change the embedding program. So the signal is
/// blocked on this thread for the length of the write, and taken back where the write raised it: the system sends it
/// to the very thread that wrote. One that was pending before is left pending.
pub(crate) fn write_without_sigpipe(descriptor: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let mut sigpipe = SigSet::empty();
    sigpipe.add(Named::SIGPIPE);
    let before = sigpipe.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // Only a thread that had it blocked can have one pending.
    let was_pending = before.contains(Named::SIGPIPE) && is_sigpipe_pending();
    let written = rustix::io::write(descriptor, bytes);
    if written == Err(Errno::PIPE) && !was_pending {
        take_back(&sigpipe);
    }
    before.thread_set_mask()?;
    Ok(written?)
}

fn is_sigpipe_pending() -> bool {
    let mut pending = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the pointer is to writable memory of the right type.
    let result = unsafe { libc::sigpending(pending.as_mut_ptr()) };
    // SAFETY: all zeroes are an empty set, and `sigpending` fills it in.
    let pending = unsafe { pending.assume_init() };
    // SAFETY: the pointer is to a set that was filled in.
    result == 0 && unsafe { libc::sigismember(&raw const pending, libc::SIGPIPE) } == 1
}

fn take_back(signals: &SigSet) {
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both pointers are to values that outlive the call, and a null `siginfo` is not written to. It fails
    // where nothing is pending, which is the case of a host that ignores SIGPIPE.
    unsafe { libc::sigtimedwait(signals.as_ref(), ptr::null_mut(), &raw const at_once) };
}

/// Whether the system throws exit statuses away because SIGCHLD is ignored.
pub(crate) fn is_sigchld_ignored() -> bool {
    sigchld().is_ok_and(|action| discards_statuses(&action))
}

/// Sets SIGCHLD to its default where the launcher left it ignored; does nothing otherwise.
///
/// An ignored SIGCHLD survives `exec`, and with it the system keeps no exit status. A program calls this first in
/// `main`; a library had better leave it to its embedder.
///
/// # Errors
/// [`PortError::Disposition`] where the system refuses.
pub fn restore_sigchld() -> Result<(), PortError> {
    restore().map_err(|source| PortError::Disposition { source })
}

fn restore() -> io::Result<()> {
    let mut action = sigchld()?;
    if !discards_statuses(&action) {
        return Ok(());
    }
    if action.sa_sigaction == libc::SIG_IGN {
        action.sa_sigaction = libc::SIG_DFL;
    }
    action.sa_flags &= !libc::SA_NOCLDWAIT;
    // SAFETY: the action is one that the system gave, with a handler that was installed or the default one.
    let result = unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn sigchld() -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the pointer is to writable memory of the right type; a null new action changes nothing.
    let result = unsafe { libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and filled it in.
    Ok(unsafe { action.assume_init() })
}

fn discards_statuses(action: &libc::sigaction) -> bool {
    action.sa_sigaction == libc::SIG_IGN || action.sa_flags & libc::SA_NOCLDWAIT != 0
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
