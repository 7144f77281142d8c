//! System calls that no crate has in the form that is needed here.
#![expect(
    unsafe_code,
    reason = "processes are cloned, waited for and filtered by calls that have no safe form"
)]

use std::{
    ffi::CStr,
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use procession_core::Status;
use rustix::{
    event::{PollFd, PollFlags},
    process::{Pid, PidfdFlags},
};

use super::raw::{Entry, clone_onto_stack};
use crate::unix::wait::{Mode, Seen, look};

/// The two sides of a clone.
#[derive(Debug)]
pub(super) enum Cloned {
    /// Here it was called, and this is who was made.
    Parent { pid: i32, pidfd: OwnedFd },
    /// This is who was made.
    Child,
}

/// Makes a process: a copy of the calling one, with one thread.
///
/// To be called by a process with a single thread only; all that is here is, and so the child may do anything that
/// the parent may. Where the newer call is not known or filtered the older one is used, which cannot place a child
/// into a group.
pub(super) fn clone_process(group: Option<BorrowedFd<'_>>, namespaces: i32) -> io::Result<Cloned> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: all zeroes are a valid value of this type.
    let mut arguments: libc::clone_args = unsafe { MaybeUninit::zeroed().assume_init() };
    let namespaces = u64::from(namespaces.unsigned_abs());
    arguments.flags = u64::from(libc::CLONE_PIDFD.unsigned_abs()) | namespaces;
    arguments.pidfd = address(&raw mut pidfd);
    arguments.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
    let mut size = CLONE_ARGS_SIZE_VER0;
    if let Some(group) = group {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::try_from(group.as_raw_fd()).unwrap_or_default();
        size = size_of::<libc::clone_args>();
    }
    // SAFETY: the arguments and what they point to outlive the call. No memory is shared and no stack is given: the
    // child goes on with a copy of everything, as after `fork`, and there are no other threads whose locks it could
    // have copied.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size) };
    match pid {
        0 => Ok(Cloned::Child),
        -1 => {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::ENOSYS) && group.is_none() {
                return clone_by_the_older_call(namespaces);
            }
            Err(error)
        }
        pid => Ok(Cloned::Parent {
            pid: i32::try_from(pid).map_err(io::Error::other)?,
            // SAFETY: the call succeeded, and with that flag it has put a new descriptor here.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        }),
    }
}

/// Makes a process that shares this one's memory until it executes a program, and begins at `entry` on its own stack.
///
/// Where the machine or its filters do not let us, the child is a copy as above, and comes back here.
///
/// # Safety
/// The stack, and all behind `argument`, has to stay until the child has executed a program or ended; and `entry`
/// may rely on nothing that belongs to this thread.
pub(super) unsafe fn clone_sharing(
    group: Option<BorrowedFd<'_>>,
    stack: &mut [MaybeUninit<u8>],
    entry: Entry,
    argument: *mut libc::c_void,
) -> io::Result<Cloned> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: all zeroes are a valid value of this type.
    let mut arguments: libc::clone_args = unsafe { MaybeUninit::zeroed().assume_init() };
    arguments.flags = u64::from(libc::CLONE_VM.unsigned_abs()) | u64::from(libc::CLONE_PIDFD.unsigned_abs());
    arguments.pidfd = address(&raw mut pidfd);
    arguments.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
    // Aligned as a call expects it.
    let base = stack.as_mut_ptr().addr().next_multiple_of(STACK_ALIGNMENT);
    let end = (stack.as_mut_ptr().addr() + stack.len()) & !(STACK_ALIGNMENT - 1);
    arguments.stack = u64::try_from(base).unwrap_or_default();
    arguments.stack_size = u64::try_from(end.saturating_sub(base)).unwrap_or_default();
    if let Some(group) = group {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::try_from(group.as_raw_fd()).unwrap_or_default();
    }
    // SAFETY: the stack is nobody else's, and the caller vouches for all else.
    let result = unsafe { clone_onto_stack(&arguments, entry, argument) };
    match i32::try_from(result) {
        Ok(pid) if pid > 0 => Ok(Cloned::Parent {
            pid,
            // SAFETY: the call succeeded, and with that flag it has put a new descriptor here.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        }),
        Ok(errno) if errno == -libc::ENOSYS && group.is_none() => clone_by_the_older_call(0),
        Ok(errno) => Err(io::Error::from_raw_os_error(errno.saturating_neg())),
        Err(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

const STACK_ALIGNMENT: usize = 16;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// How much of the arguments the first kernels with this call know.
const CLONE_ARGS_SIZE_VER0: usize = 64;

fn clone_by_the_older_call(namespaces: u64) -> io::Result<Cloned> {
    let flags = namespaces | u64::from(libc::SIGCHLD.unsigned_abs());
    // SAFETY: as above; the flags come first on all systems but one that is not served, and all else is nothing.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    match pid {
        0 => Ok(Cloned::Child),
        -1 => Err(io::Error::last_os_error()),
        pid => {
            let pid = i32::try_from(pid).map_err(io::Error::other)?;
            // Nobody else reaps it, so that the pid is its own.
            let named = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
            match rustix::process::pidfd_open(named, PidfdFlags::empty()) {
                Ok(pidfd) => Ok(Cloned::Parent { pid, pidfd }),
                Err(errno) => {
                    kill_child(pid);
                    Err(errno.into())
                }
            }
        }
    }
}

fn address(pointer: *mut libc::c_int) -> u64 {
    u64::try_from(pointer.addr()).unwrap_or_default()
}

/// Kills and reaps a child of ours that was not reaped before.
pub(super) fn kill_child(pid: i32) {
    // SAFETY: the call takes no pointers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    crate::unix::wait::reap_killed(pid);
}

/// Sends a signal to a child of ours that was not reaped, or with −1 to everybody in our own pid namespace.
pub(super) fn kill(pid: i32, signal: i32) {
    // SAFETY: the call takes no pointers.
    unsafe { libc::kill(pid, signal) };
}

/// Sends a signal to the group of the process that a pidfd names, also where it is gone and others of the group are
/// not. Linux 6.9.
pub(super) fn signal_group_of(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    const PIDFD_SIGNAL_PROCESS_GROUP: u32 = 4;
    // SAFETY: the descriptor is open for the length of the call, and no `siginfo` is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            ptr::null::<libc::siginfo_t>(),
            PIDFD_SIGNAL_PROCESS_GROUP,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The first child that has ended, not reaped.
pub(super) fn ended_child() -> Option<i32> {
    wait(libc::P_ALL, 0, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)
        .ok()
        .filter(|pid| *pid != 0)
}

/// Reaps a child, where it has ended.
pub(super) fn reap(pid: i32) -> bool {
    let id = libc::id_t::try_from(pid).unwrap_or_default();
    wait(libc::P_PID, id, libc::WEXITED | libc::WNOHANG).is_ok_and(|reaped| reaped != 0)
}

/// Waits for a child's end, and leaves it to be reaped.
pub(super) fn await_end(pidfd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, None)).is_ok()
}

/// Whether a process has ended, reaped or not; it need not be a child.
pub(super) fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    let at_once = rustix::event::Timespec::default();
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&at_once)))
        .is_ok_and(|ready| ready > 0)
}

/// Waits for a child and reaps it; its code where it exited by itself.
pub(super) fn await_exit(pidfd: &OwnedFd) -> Option<i32> {
    await_end(pidfd);
    match look(pidfd.as_fd(), Mode::Reap) {
        Seen::Ended(Status::Exited { code }, ..) => Some(code),
        _ => None,
    }
}

/// Whether a living child is in this process group, zombies not counted.
pub(super) fn has_living_child_in(group: i32) -> bool {
    has_living_child(libc::P_PGID, libc::id_t::try_from(group).unwrap_or_default())
}

/// Whether a living child is there at all, zombies not counted.
pub(super) fn has_any_living_child() -> bool {
    has_living_child(libc::P_ALL, 0)
}

/// Asks for children that have stopped: one that has ended can never stop, so that where none is left who has not,
/// the system says that there is nobody to wait for. Nothing is taken from anybody.
fn has_living_child(kind: libc::idtype_t, id: libc::id_t) -> bool {
    let seen = wait(kind, id, libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT);
    !seen.is_err_and(|error| error.raw_os_error() == Some(libc::ECHILD))
}

fn wait(kind: libc::idtype_t, id: libc::id_t, options: libc::c_int) -> io::Result<i32> {
    loop {
        let mut seen = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the pointer is to writable memory of the right type.
        let result = unsafe { libc::waitid(kind, id, seen.as_mut_ptr(), options) };
        if result == 0 {
            // SAFETY: all zeroes are valid, and the call has filled it in where there was a child to tell of.
            return Ok(unsafe { seen.assume_init().si_pid() });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Blocks all signals, and makes one descriptor readable when a child has ended.
pub(super) fn child_signals() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the sets are initialised by the calls before they are used, and outlive them; the descriptor is new.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), ptr::null_mut());
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        let signals = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if signals == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(signals))
    }
}

/// Sets all signals to their defaults.
pub(super) fn default_dispositions() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the default installs no handler. It fails for the two that have no other, and for those that the C
        // library keeps.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Closes all descriptors from the first number to the last, both inclusive.
///
/// Does nothing where the system does not know how; all that is open here closes on exec anyway.
pub(super) fn close_range(first: u32, last: u32) {
    if first <= last {
        // SAFETY: the callers own all descriptors in between, and use none of them any more.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

/// Closes all descriptors from 3 on but these.
pub(super) fn close_all_but(kept: &[i32]) {
    let mut kept: Vec<u32> = kept
        .iter()
        .filter_map(|number| u32::try_from(*number).ok())
        .collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept {
        if number > first {
            close_range(first, number - 1);
        }
        first = first.max(number.saturating_add(1));
    }
    close_range(first, u32::MAX);
}

/// Puts a descriptor at a number, closing what was there; it closes on exec only where that is said.
pub(super) fn place(descriptor: BorrowedFd<'_>, number: i32, flags: i32) -> io::Result<()> {
    if descriptor.as_raw_fd() == number {
        return Ok(());
    }
    // SAFETY: the number is one that nobody else in this process relies on.
    if unsafe { libc::dup3(descriptor.as_raw_fd(), number, flags) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A descriptor by its number.
///
/// The caller has put it there and closes it nowhere.
pub(super) fn standing(number: i32) -> BorrowedFd<'static> {
    // SAFETY: the callers name descriptors that stay open for as long as the process runs.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Sets a resource limit of this process.
pub(super) fn set_limit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: the pointer is to a limit that outlives the call.
    let result = unsafe { libc::setrlimit(resource, &raw const limit) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What a resource limit is.
pub(super) fn limit(resource: u32) -> Option<(u64, u64)> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the pointer is to writable memory of the right type.
    let result = unsafe { libc::getrlimit(resource, limit.as_mut_ptr()) };
    // SAFETY: all zeroes are valid, and the call has filled it in.
    let limit = unsafe { limit.assume_init() };
    (result == 0).then_some((limit.rlim_cur, limit.rlim_max))
}

/// Filters the calls of this process and all that it starts, which can gain no privileges from here on.
pub(super) fn filter(program: &[libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the program outlives the call, which copies it.
    let result = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 {
            -1
        } else {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
        }
    };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// What a `setsid` and a `setpgid` answer here, and whether the session is still the same afterwards.
pub(super) fn tries_to_move() -> (i64, i64, bool) {
    // SAFETY: the calls take no pointers.
    unsafe {
        let before = (libc::getsid(0), libc::getpgid(0));
        let answers = (
            libc::syscall(libc::SYS_setsid),
            libc::syscall(libc::SYS_setpgid, 0, 0),
        );
        (
            answers.0,
            answers.1,
            before == (libc::getsid(0), libc::getpgid(0)),
        )
    }
}

/// The strings as the system takes them: good for as long as the strings are.
pub(super) fn pointers(strings: &[&CStr]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// Ends this process at once.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: the call takes no pointers and does not return; nothing of this process is to be cleaned up.
    unsafe { libc::_exit(code) }
}

/// Mounts a fresh `/proc` that nobody outside of our own mount namespace sees.
pub(super) fn mount_own_proc() -> io::Result<()> {
    let (nothing, root, proc) = (ptr::null(), c"/".as_ptr(), c"proc".as_ptr());
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: all strings end in a null and outlive the calls.
    let result = unsafe {
        if libc::mount(nothing, root, nothing, libc::MS_REC | libc::MS_SLAVE, ptr::null()) == -1 {
            -1
        } else {
            libc::mount(proc, c"/proc".as_ptr(), proc, flags, ptr::null())
        }
    };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The name of this process in the process table.
pub(super) fn set_name(name: &CStr) {
    // SAFETY: the string ends in a null and outlives the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}
