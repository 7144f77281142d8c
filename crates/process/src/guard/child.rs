//! From a clone to the program: what happens in a child before its first instruction.
//!
//! A child shares the guard's memory until it executes its program, as one of `vfork` does, but the guard goes on
//! meanwhile: a copy of the memory takes longer than all the rest, and a guard that waits could be held up by a file
//! system. So the child has a stack of its own and touches nothing but that and what was laid out for it, calls the
//! system without the C library, and never allocates or panics. All that needs more is done before, in the parent.
#![expect(
    unsafe_code,
    reason = "the child calls the system by what was laid out for it"
)]

use std::{
    ffi::CStr,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::pipe::PipeFlags;

use super::{
    raw::call,
    setup::ChildSetup,
    sys::{self, Cloned},
    wire::{Malformed, Step, Strings},
};

/// How often a program that is being written to is tried again, for a second all together.
const BUSY_TRIES: u32 = 200;
const BUSY_PAUSE_NANOSECONDS: i64 = 5_000_000;
/// More than the child's few frames take.
const STACK_BYTES: usize = 64 * 1024;
/// Makes a terminal the controlling one; the same on both architectures.
const TIOCSCTTY: usize = 0x540E;
/// How a child ends that has told its failure.
const FAILED: usize = 127;

/// What a child is made of.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) strings: Vec<u8>,
    pub(super) arguments: u32,
    pub(super) variables: u32,
    pub(super) setup: &'a ChildSetup,
    /// The working directory; none where it is to be entered by its name, because descriptors are of another mount
    /// namespace.
    pub(super) directory: Option<BorrowedFd<'a>>,
    /// Input, output, error; none of them is 0, 1 or 2.
    pub(super) streams: [BorrowedFd<'a>; 3],
    /// Where a failure is written to; closed by a program that runs.
    pub(super) report: BorrowedFd<'a>,
    /// Which process has to be the parent; who has another one was started by somebody who is gone.
    pub(super) parent: i32,
    /// The filter under which nobody leaves their group.
    pub(super) lock: Option<&'a [libc::sock_filter]>,
    /// What the limit on descriptors was before the guard raised its own.
    pub(super) open_files: Option<(u64, u64)>,
}

/// All that a child needs, laid out so that it finds it by pointers.
///
/// It has to stay where it is until the child has executed its program or ended.
#[derive(Debug)]
pub(super) struct Layout {
    script: Box<Script>,
    stack: Box<[MaybeUninit<u8>]>,
}

#[derive(Debug)]
struct Script {
    /// Holds what the pointers below point to.
    _strings: Vec<u8>,
    program: *const libc::c_char,
    argv: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    directory: *const libc::c_char,
    directory_descriptor: Option<i32>,
    streams: [i32; 3],
    report: i32,
    parent: i32,
    limits: Vec<(u32, [u64; 2])>,
    has_terminal: bool,
    nice: Option<i32>,
    oom_score_adj: Option<Vec<u8>>,
    umask: Option<u32>,
    lock: Vec<libc::sock_filter>,
    no_signals: u64,
}

impl Layout {
    /// Lays out a start.
    pub(super) fn new(start: Start<'_>) -> Result<Self, Malformed> {
        let Start {
            strings,
            setup,
            open_files,
            ..
        } = start;
        let found = Strings::find(&strings, start.arguments, start.variables)?;
        let pointers = |strings: &[&CStr]| sys::pointers(strings);
        let (argv, environment) = (pointers(&found.argv), pointers(&found.environment));
        let (program, directory) = (found.program.as_ptr(), found.directory.as_ptr());
        // Their own first: one that was asked for counts more.
        let inherited = open_files.map(|(soft, hard)| (libc::RLIMIT_NOFILE, [soft, hard]));
        let asked = setup
            .limits
            .iter()
            .map(|limit| (limit.resource, [limit.soft, limit.hard]));
        let script = Script {
            program,
            argv,
            environment,
            directory,
            // To move the vector does not move its bytes.
            _strings: strings,
            directory_descriptor: start.directory.map(|directory| directory.as_raw_fd()),
            streams: start.streams.map(|stream| stream.as_raw_fd()),
            report: start.report.as_raw_fd(),
            parent: start.parent,
            limits: inherited.into_iter().chain(asked).collect(),
            has_terminal: setup.terminal,
            nice: setup.nice,
            oom_score_adj: setup.oom_score_adj.map(|score| score.to_string().into_bytes()),
            umask: setup.umask,
            lock: start.lock.map(<[_]>::to_vec).unwrap_or_default(),
            no_signals: 0,
        };
        Ok(Self {
            script: Box::new(script),
            stack: Box::new_uninit_slice(STACK_BYTES),
        })
    }

    /// Starts the child, in a control group where one is given.
    pub(super) fn launch(&mut self, group: Option<BorrowedFd<'_>>) -> io::Result<(i32, OwnedFd)> {
        let argument: *mut Script = &raw mut *self.script;
        let cloned = if self.script.oom_score_adj.is_some() {
            // The score belongs to the memory: whoever shares it has it too, and the guard must not be taken first.
            sys::clone_process(group, 0)
        } else {
            // SAFETY: the script is laid out, and it and the stack stay as long as the layout, which its owner keeps
            // until the child is known not to need it any more.
            unsafe { sys::clone_sharing(group, &mut self.stack, begin, argument.cast()) }
        };
        match cloned? {
            Cloned::Parent { pid, pidfd } => Ok((pid, pidfd)),
            // A copy of all, where the memory is not shared.
            // SAFETY: as above, in the child's own copy.
            Cloned::Child => unsafe { begin(argument.cast()) },
        }
    }
}

/// The two ends by which a child tells its failure.
pub(super) fn report_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}

/// A failure as it was reported; none where the program runs.
pub(super) fn failure(report: &[u8]) -> Option<(Step, i32)> {
    let [step, errno @ ..] = report else { return None };
    let errno = errno.try_into().map_or(libc::EIO, i32::from_le_bytes);
    Some((Step::from_number(*step).unwrap_or(Step::Process), errno))
}

/// Raises the limit on descriptors of this process as far as it may; what it was, where that changed it.
pub(super) fn raise_open_files() -> Option<(u64, u64)> {
    let (soft, hard) = sys::limit(libc::RLIMIT_NOFILE)?;
    if soft >= hard {
        return None;
    }
    sys::set_limit(libc::RLIMIT_NOFILE, hard, hard).ok()?;
    Some((soft, hard))
}

/// Where a child begins: becomes the program; a failure is reported, with its step.
///
/// # Safety
/// `script` has to be a pointer to a [`Script`] that stays.
unsafe extern "C" fn begin(script: *mut libc::c_void) -> ! {
    // SAFETY: the caller vouches for it; nobody writes to it.
    let script = unsafe { &*script.cast::<Script>() };
    let (step, errno) = match script.prepare() {
        Ok(()) => (Step::Program, script.execute()),
        Err(failure) => failure,
    };
    let bytes = errno.to_le_bytes();
    let report = [step as u8, bytes[0], bytes[1], bytes[2], bytes[3]];
    // SAFETY: the pointer is to as many bytes as are told. That it fails matters to nobody: then nobody listens.
    unsafe {
        call(
            libc::SYS_write,
            [number(script.report), report.as_ptr().addr(), report.len(), 0, 0],
        )
    };
    loop {
        // SAFETY: the call takes a number, and does not return.
        unsafe { call(libc::SYS_exit_group, [FAILED, 0, 0, 0, 0]) };
    }
}

type Prepared = Result<(), (Step, i32)>;

impl Script {
    fn prepare(&self) -> Prepared {
        // The kernel ends it with the guard. A guard that ended before this was said is not the parent any more.
        let sigkill = number(libc::SIGKILL);
        let prctl =
            |option: i32, value: usize, step| does(step, libc::SYS_prctl, [number(option), value, 0, 0, 0]);
        prctl(libc::PR_SET_PDEATHSIG, sigkill, Step::Session)?;
        if ask(libc::SYS_getppid, [0; 5]) != Ok(number(self.parent)) {
            return Err((Step::Session, libc::ESRCH));
        }
        does(Step::Session, libc::SYS_setsid, [0; 5])?;
        for (place, stream) in (0..).zip(self.streams) {
            does(Step::Streams, libc::SYS_dup3, [number(stream), place, 0, 0, 0])?;
        }
        match self.directory_descriptor {
            Some(directory) => does(Step::Directory, libc::SYS_fchdir, [number(directory), 0, 0, 0, 0])?,
            None => does(
                Step::Directory,
                libc::SYS_chdir,
                [self.directory.addr(), 0, 0, 0, 0],
            )?,
        }
        // Nothing else is needed from here on. What the guard has open closes here and not at the end, so that a
        // program that is waited for keeps nobody's lifeline. Where that is not known it closes at the end.
        let report = number(self.report);
        let last = number(-1) & 0xffff_ffff;
        if report > 3 {
            let _ = ask(libc::SYS_close_range, [3, report.wrapping_sub(1), 0, 0, 0]);
        }
        let _ = ask(libc::SYS_close_range, [report.wrapping_add(1), last, 0, 0, 0]);
        self.apply()?;
        if !self.lock.is_empty() {
            prctl(libc::PR_SET_NO_NEW_PRIVS, 1, Step::Filter)?;
            let filter = libc::sock_fprog {
                // It is a constant of a few instructions.
                len: u16::try_from(self.lock.len()).unwrap_or(u16::MAX),
                filter: self.lock.as_ptr().cast_mut(),
            };
            let mode = libc::SECCOMP_MODE_FILTER as usize;
            let pointer = (&raw const filter).addr();
            does(
                Step::Filter,
                libc::SYS_prctl,
                [number(libc::PR_SET_SECCOMP), mode, pointer, 0, 0],
            )?;
        }
        // Its signals have their defaults, since the guard's have.
        let (set, none) = ((&raw const self.no_signals).addr(), 0);
        let how = number(libc::SIG_SETMASK);
        does(
            Step::Session,
            libc::SYS_rt_sigprocmask,
            [how, set, none, size_of::<u64>(), 0],
        )
    }

    fn apply(&self) -> Prepared {
        if self.has_terminal {
            does(Step::Terminal, libc::SYS_ioctl, [0, TIOCSCTTY, 0, 0, 0])?;
        }
        for (resource, limit) in &self.limits {
            let (resource, limit) = (*resource as usize, limit.as_ptr().addr());
            does(Step::Limits, libc::SYS_prlimit64, [0, resource, limit, 0, 0])?;
        }
        if let Some(nice) = self.nice {
            does(Step::Nice, libc::SYS_setpriority, [0, 0, number(nice), 0, 0])?;
        }
        if let Some(score) = &self.oom_score_adj {
            let (path, flags) = (
                c"/proc/self/oom_score_adj".as_ptr().addr(),
                number(libc::O_WRONLY),
            );
            let at = number(libc::AT_FDCWD);
            let file =
                ask(libc::SYS_openat, [at, path, flags, 0, 0]).map_err(|errno| (Step::OomScore, errno))?;
            does(
                Step::OomScore,
                libc::SYS_write,
                [file, score.as_ptr().addr(), score.len(), 0, 0],
            )?;
            let _ = ask(libc::SYS_close, [file, 0, 0, 0, 0]);
        }
        if let Some(umask) = self.umask {
            let _ = ask(libc::SYS_umask, [umask as usize, 0, 0, 0, 0]);
        }
        Ok(())
    }

    /// Executes the program; one that is being written to is tried again for a while. It is the child that waits, so
    /// that nobody else does.
    fn execute(&self) -> i32 {
        let arguments = [
            self.program.addr(),
            self.argv.as_ptr().addr(),
            self.environment.as_ptr().addr(),
            0,
            0,
        ];
        let pause = [0_i64, BUSY_PAUSE_NANOSECONDS];
        let mut left = BUSY_TRIES;
        loop {
            let errno = ask(libc::SYS_execve, arguments).err().unwrap_or(libc::EIO);
            if errno != libc::ETXTBSY || left == 0 {
                return errno;
            }
            let _ = ask(libc::SYS_nanosleep, [pause.as_ptr().addr(), 0, 0, 0, 0]);
            left = left.wrapping_sub(1);
        }
    }
}

/// A number as the system takes it: negative ones are extended.
#[expect(clippy::cast_sign_loss, reason = "that is what is meant")]
const fn number(value: i32) -> usize {
    value as isize as usize
}

fn does(step: Step, call: libc::c_long, arguments: [usize; 5]) -> Prepared {
    match ask(call, arguments) {
        Ok(_) => Ok(()),
        Err(errno) => Err((step, errno)),
    }
}

fn ask(system_call: libc::c_long, arguments: [usize; 5]) -> Result<usize, i32> {
    // SAFETY: all callers are in this file and pass what the calls take: numbers, and addresses of what is laid out
    // and outlives the call.
    let result = unsafe { call(system_call, arguments) };
    match usize::try_from(result) {
        Ok(value) => Ok(value),
        Err(_) => Err(i32::try_from(result.wrapping_neg()).unwrap_or(libc::EIO)),
    }
}
