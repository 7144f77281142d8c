//! `posix_spawn`, which costs the same whatever the size of the host.
#![expect(
    unsafe_code,
    reason = "the attributes and actions that are needed have no safe form"
)]

use std::{
    ffi::{CStr, CString},
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use rustix::io::Errno;

/// What is started, and with which descriptors; these have to lie above 2.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) argv: &'a [CString],
    pub(crate) environment: &'a [CString],
    pub(crate) cwd: BorrowedFd<'a>,
    pub(crate) streams: Streams<'a>,
}

/// What becomes of 0, 1 and 2.
#[derive(Debug)]
pub(crate) enum Streams<'a> {
    /// Input, output, error.
    Separate([BorrowedFd<'a>; 3]),
    /// The end of a terminal that becomes all three, and the controlling one; with its name below `/proc/self/fd`.
    Terminal(&'a CStr),
}

/// Starts a process in a session of its own and tells its pid.
///
/// Returns when the program runs or could not be executed; in the latter case the number is that of the `exec`, and
/// the C library has reaped what it had started.
pub(crate) fn launch(launch: &Launch<'_>) -> Result<i32, Errno> {
    let attributes = Attributes::for_a_leader()?;
    let actions = Actions::for_streams(launch)?;
    let argv = pointers(launch.argv);
    let environment = pointers(launch.environment);
    let mut pid = 0;
    // SAFETY: all pointers are to values that outlive the call; both vectors end in a null and point to strings that
    // end in one; attributes and actions are initialised. The call writes to `pid` alone.
    let errno = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            launch.program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            argv.as_ptr(),
            environment.as_ptr(),
        )
    };
    checked(errno)?;
    Ok(pid)
}

fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect()
}

fn checked(errno: i32) -> Result<(), Errno> {
    if errno == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw_os_error(errno))
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A new session, an empty signal mask, the default for every signal.
    fn for_a_leader() -> Result<Self, Errno> {
        let mut attributes = MaybeUninit::zeroed();
        // SAFETY: the pointer is to writable memory of the right type.
        checked(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: it was initialised.
        let mut attributes = Self(unsafe { attributes.assume_init() });
        let flags = libc::POSIX_SPAWN_SETSID
            | to_short(libc::POSIX_SPAWN_SETSIGMASK)
            | to_short(libc::POSIX_SPAWN_SETSIGDEF);
        let (none, all) = (signal_set(libc::sigemptyset), signal_set(libc::sigfillset));
        // SAFETY: the attributes are initialised, and the sets outlive the calls.
        unsafe {
            checked(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags))?;
            checked(libc::posix_spawnattr_setsigmask(
                &raw mut attributes.0,
                &raw const none,
            ))?;
            checked(libc::posix_spawnattr_setsigdefault(
                &raw mut attributes.0,
                &raw const all,
            ))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: they are initialised, and not used after this.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// The flags are small numbers that the C library takes as a `short`.
fn to_short(flag: libc::c_int) -> libc::c_short {
    libc::c_short::try_from(flag).unwrap_or_default()
}

fn signal_set(fill: unsafe extern "C" fn(*mut libc::sigset_t) -> libc::c_int) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both functions that are passed here write a set to the pointer, which is to memory of that type.
    unsafe { fill(set.as_mut_ptr()) };
    // SAFETY: it was filled in, and all zeroes are a set too.
    unsafe { set.assume_init() }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn for_streams(launch: &Launch<'_>) -> Result<Self, Errno> {
        let mut actions = MaybeUninit::zeroed();
        // SAFETY: the pointer is to writable memory of the right type.
        checked(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: they were initialised.
        let mut actions = Self(unsafe { actions.assume_init() });
        let this = &raw mut actions.0;
        // SAFETY: the actions are initialised. No action names a descriptor that an earlier one has overwritten:
        // those that are given lie above 2, which are the only ones that are written to. The name is copied.
        unsafe {
            checked(libc::posix_spawn_file_actions_addfchdir_np(
                this,
                launch.cwd.as_raw_fd(),
            ))?;
            match launch.streams {
                Streams::Separate(streams) => {
                    for (target, stream) in (0..).zip(streams) {
                        checked(libc::posix_spawn_file_actions_adddup2(
                            this,
                            stream.as_raw_fd(),
                            target,
                        ))?;
                    }
                }
                Streams::Terminal(name) => {
                    // The session is new by now. The terminal that its leader opens first is its own from then on;
                    // no other action could make it so.
                    checked(libc::posix_spawn_file_actions_addopen(
                        this,
                        0,
                        name.as_ptr(),
                        libc::O_RDWR,
                        0,
                    ))?;
                    for target in [1, 2] {
                        checked(libc::posix_spawn_file_actions_adddup2(this, 0, target))?;
                    }
                }
            }
            // Whatever the host has open, close-on-exec or not, ends here.
            checked(libc::posix_spawn_file_actions_addclosefrom_np(this, 3))?;
        }
        Ok(actions)
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: they are initialised, and not used after this.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}
