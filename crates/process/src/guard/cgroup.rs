//! Control groups: one above all sessions of a guard, one below it for each.
//!
//! No controller is needed for any of this, so that it works wherever a directory of the second version may be
//! written to: a delegated subtree, or a hybrid hierarchy that has no controllers at all.
//!
//! A guard holds a lock on its group for as long as it lives, which the system takes back with the guard. Who finds
//! a group without a lock has found the leftovers of a dead one, whatever namespace of pids that one lived in.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, FlockOperation, Mode, OFlags},
    io::Errno,
    process::{Pid, PidfdFlags},
};

use crate::unix::signal;

mod count;

pub(super) use count::count_at;

/// How the group of a guard begins.
const PREFIX: &str = "procession-";
/// What lies in a group that holds what is to outlive its guard.
const KEPT: &str = "kept";
/// How long leftovers of dead guards are waited for, all together.
const STALE_BOUND: Duration = Duration::from_millis(300);
/// How often one that has to be empty in a moment is looked at.
const PAUSE: Duration = Duration::from_millis(1);
/// How deep groups within a session's own are followed.
const MAX_DEPTH: u32 = 8;

/// The group above all sessions of this guard.
#[derive(Debug)]
pub(super) struct Groups {
    path: PathBuf,
    /// Locked for as long as it is open.
    directory: OwnedFd,
    next: u64,
    /// Made beforehand, so that no start waits for it.
    spare: Option<Group>,
    /// Those that could not be removed yet.
    leaving: Vec<Group>,
    /// Those that are to outlive the guard.
    kept: BTreeSet<u64>,
}

/// A session's group.
#[derive(Debug)]
pub(super) struct Group {
    number: u64,
    directory: OwnedFd,
}

/// The name of a session's group below the guard's.
pub(super) fn name_of(number: u64) -> String {
    format!("s{number}")
}

impl Groups {
    /// Makes the group, where this machine lets us.
    ///
    /// # Errors
    /// Why not, in a few words.
    pub(super) fn make() -> Result<Self, String> {
        let base = base()?;
        clear_stale(&base);
        let why = |error: io::Error| format!("`{}` may not be written to: {error}", base.display());
        for attempt in 0..8_u32 {
            let path = base.join(format!("{PREFIX}{}-{attempt}", unique()));
            match fs::create_dir(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(why(error)),
            }
            let Ok(directory) = open(&path) else { continue };
            // Somebody who looks for leftovers may have come first, and removed it.
            let is_ours = rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok()
                && path.exists();
            if is_ours {
                return Ok(Self {
                    path,
                    directory,
                    next: 0,
                    spare: None,
                    leaving: Vec::new(),
                    kept: BTreeSet::new(),
                });
            }
        }
        Err(format!("no group could be kept below `{}`", base.display()))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether writing to one file kills a group.
    pub(super) fn has_kill(&self) -> bool {
        rustix::fs::accessat(
            &self.directory,
            "cgroup.kill",
            rustix::fs::Access::WRITE_OK,
            AtFlags::empty(),
        )
        .is_ok()
    }

    /// A group for a session.
    pub(super) fn take(&mut self) -> io::Result<Group> {
        match self.spare.take() {
            Some(group) => Ok(group),
            None => self.create(),
        }
    }

    /// Makes one beforehand, and removes what is empty by now.
    pub(super) fn tidy(&mut self) {
        if !self.leaving.is_empty() {
            let path = &self.path;
            self.leaving
                .retain(|group| !remove(&path.join(name_of(group.number))));
        }
        if self.spare.is_none() {
            self.spare = self.create().ok();
        }
    }

    /// Removes a session's group, now or when it is empty.
    pub(super) fn leave(&mut self, group: Group) {
        self.leaving.push(group);
    }

    /// Has a session outlive the guard.
    pub(super) fn keep(&mut self, number: u64) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.directory, KEPT, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.kept.insert(number);
        Ok(())
    }

    /// Whether a session is to outlive the guard.
    pub(super) fn keeps(&self, number: u64) -> bool {
        self.kept.contains(&number)
    }

    /// Who is to outlive the guard.
    pub(super) fn kept_members(&self) -> BTreeSet<i32> {
        let mut members = BTreeSet::new();
        for number in &self.kept {
            if let Ok(directory) = open(&self.path.join(name_of(*number))) {
                members_of(&directory, MAX_DEPTH, &mut members);
            }
        }
        members
    }

    /// Kills all sessions that are not to outlive the guard.
    pub(super) fn kill_all(&self) {
        if self.kept.is_empty() {
            // One write for all of them, the ones that are just being started too.
            let _ = kill(&self.directory);
            return;
        }
        for path in self.others() {
            if let Ok(directory) = open(&path) {
                let _ = kill(&directory);
            }
        }
    }

    /// Kills all sessions, waits until they are gone, removes everything; what is to outlive the guard stays.
    pub(super) fn end(self, bound: Duration) {
        if self.kept.is_empty() || is_empty(&self.directory).unwrap_or(false) {
            end(&self.path, &self.directory, Instant::now() + bound);
            return;
        }
        for path in self.others() {
            remove(&path);
        }
    }

    /// The groups of sessions that are not to outlive the guard.
    fn others(&self) -> Vec<PathBuf> {
        let kept: BTreeSet<String> = self.kept.iter().map(|number| name_of(*number)).collect();
        let is_other = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            let is_kept = name == KEPT || name.to_str().is_some_and(|name| kept.contains(name));
            !is_kept && entry.file_type().is_ok_and(|kind| kind.is_dir())
        };
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.filter(is_other).map(|entry| entry.path()).collect()
    }

    fn create(&mut self) -> io::Result<Group> {
        let number = self.next;
        self.next += 1;
        let name = name_of(number);
        rustix::fs::mkdirat(&self.directory, &name, Mode::from_raw_mode(0o755))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, &name, flags, Mode::empty())?;
        Ok(Group { number, directory })
    }
}

impl Group {
    /// The number that its name is made of.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The directory, to place a process into.
    pub(super) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Whether nobody is in it or below it, zombies not counted; as a fact.
    pub(super) fn is_empty(&self) -> bool {
        is_empty(&self.directory).unwrap_or(false)
    }

    /// Kills all that are in it and below it.
    pub(super) fn kill(&self) -> io::Result<()> {
        kill(&self.directory)
    }

    /// Who is in it and below it.
    pub(super) fn members(&self) -> BTreeSet<i32> {
        let mut members = BTreeSet::new();
        members_of(&self.directory, MAX_DEPTH, &mut members);
        members
    }

    /// Sends a signal to all members that are not among these; who leaves the group meanwhile is spared.
    pub(super) fn signal(&self, number: i32, is_spared: impl Fn(i32) -> bool) {
        for pid in self.members() {
            if is_spared(pid) {
                continue;
            }
            let Some(named) = Pid::from_raw(pid) else { continue };
            // The pidfd comes first and the look second: what it names then is a member, whoever had the pid before.
            let Ok(pidfd) = rustix::process::pidfd_open(named, PidfdFlags::empty()) else {
                continue;
            };
            if self.members().contains(&pid) {
                // Who may not be signalled is told by the sweep.
                let _ = signal::send_to_pidfd(pidfd.as_fd(), number);
            }
        }
    }
}

/// Kills a group by its path; none where it is gone.
pub(super) fn kill_at(path: &Path) -> Option<io::Result<()>> {
    match fs::OpenOptions::new().write(true).open(path.join("cgroup.kill")) {
        Ok(mut file) => Some(file.write_all(b"1")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(error)),
    }
}

/// Whether nobody is in a group, by its path; none where that cannot be told.
pub(super) fn is_empty_at(path: &Path) -> Option<bool> {
    match fs::read_to_string(path.join("cgroup.events")) {
        Ok(text) => populated(&text).map(|populated| !populated),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(true),
        Err(_) => None,
    }
}

/// The directory that a group can be made in: our own group's.
fn base() -> Result<PathBuf, String> {
    let own =
        fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or("this kernel has no control groups of the second version")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    find_base(&mounts, own)
        .ok_or_else(|| "no hierarchy of the second version is mounted that shows our own group".to_owned())
}

/// Finds the mount that shows a group, and the group in it.
fn find_base(mounts: &str, own: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        if back.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut front = front.split(' ');
        let root = unescape(front.nth(3)?);
        let point = unescape(front.next()?);
        // What lies above the mount's root cannot be reached.
        let below = Path::new(own).strip_prefix(&root).ok()?;
        Some(point.join(below))
    })
}

/// Blanks and the like are written in octal.
fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let code = (*byte == b'\\')
            .then(|| behind.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code {
            bytes.push(code);
            rest = &behind[3..];
        } else {
            bytes.push(*byte);
            rest = behind;
        }
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

/// Ends what guards have left that are dead.
fn clear_stale(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let deadline = Instant::now() + STALE_BOUND;
    for entry in entries.flatten() {
        if !entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let Ok(directory) = open(&entry.path()) else {
            continue;
        };
        // What was meant to stay goes when nobody is in it any more.
        let is_kept = entry.path().join(KEPT).exists() && !is_empty(&directory).unwrap_or(true);
        if !is_kept && rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            end(&entry.path(), &directory, deadline);
        }
    }
}

fn end(path: &Path, directory: &OwnedFd, deadline: Instant) {
    // What cannot be killed stays, and with it the directory; the next guard tries again.
    let _ = kill(directory);
    while !is_empty(directory).unwrap_or(true) && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
    remove(path);
}

/// Removes a group and what is below it; a zombie that nobody has reaped is no hindrance, a living member is.
fn remove(path: &Path) -> bool {
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(_) => {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove(&entry.path());
                }
            }
            fs::remove_dir(path).is_ok()
        }
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn read(directory: &OwnedFd, name: &str) -> io::Result<String> {
    let file = rustix::fs::openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    io::read_to_string(fs::File::from(file))
}

fn write(directory: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
    let file = rustix::fs::openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    fs::File::from(file).write_all(text.as_bytes())
}

fn is_empty(directory: &OwnedFd) -> io::Result<bool> {
    let mut bytes = [0; 128];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, "cgroup.events", flags, Mode::empty())?;
    let length = rustix::io::read(&file, &mut bytes)?;
    let text = std::str::from_utf8(&bytes[..length]).map_err(io::Error::other)?;
    populated(text)
        .map(|populated| !populated)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn populated(events: &str) -> Option<bool> {
    let value = events.lines().find_map(|line| line.strip_prefix("populated "))?;
    Some(value.trim() != "0")
}

/// Kills a group: by the file that does it at one stroke, else one by one while all of them are frozen, so that
/// nobody starts another one meanwhile.
fn kill(directory: &OwnedFd) -> io::Result<()> {
    match write(directory, "cgroup.kill", "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    write(directory, "cgroup.freeze", "1")?;
    let deadline = Instant::now() + STALE_BOUND;
    while !read(directory, "cgroup.events")?.contains("frozen 1") && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
    let mut members = BTreeSet::new();
    members_of(directory, MAX_DEPTH, &mut members);
    for pid in members {
        // A frozen one cannot end by itself, so that the pid is still its own.
        super::sys::kill(pid, libc::SIGKILL);
    }
    write(directory, "cgroup.freeze", "0")
}

fn members_of(directory: &OwnedFd, depth: u32, members: &mut BTreeSet<i32>) {
    if let Ok(text) = read(directory, "cgroup.procs") {
        // A process of another namespace of pids is shown as 0.
        members.extend(
            text.lines()
                .filter_map(|line| line.parse().ok())
                .filter(|pid: &i32| *pid > 0),
        );
    }
    if depth == 0 {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listed) = rustix::fs::openat(directory, ".", flags, Mode::empty()) else {
        return;
    };
    let Ok(entries) = rustix::fs::Dir::new(listed) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_below =
            entry.file_type() == rustix::fs::FileType::Directory && !matches!(name.to_bytes(), b"." | b"..");
        if is_below && let Ok(below) = rustix::fs::openat(directory, name, flags, Mode::empty()) {
            members_of(&below, depth - 1, members);
        }
    }
}

/// A name that nobody else has at this moment.
fn unique() -> String {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    format!(
        "{}-{:x}{:08x}",
        rustix::process::getpid().as_raw_nonzero(),
        now.tv_sec,
        now.tv_nsec
    )
}

/// Whether a process could be placed into a group, killed with it, and seen to be gone.
///
/// # Errors
/// What did not work, in a few words.
pub(super) fn probe(groups: &mut Groups) -> Result<(), String> {
    let group = groups
        .take()
        .map_err(|error| format!("no group can be made: {error}"))?;
    let result = probe_in(&group);
    groups.leave(group);
    groups.tidy();
    result
}

fn probe_in(group: &Group) -> Result<(), String> {
    let cloned = super::sys::clone_process(Some(group.directory().as_fd()), 0)
        .map_err(|error| format!("no process can be placed into a group: {error}"))?;
    let (pid, pidfd) = match cloned {
        super::sys::Cloned::Child => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        super::sys::Cloned::Parent { pid, pidfd } => (pid, pidfd),
    };
    let result = if group.is_empty() {
        Err("a process that was placed into a group is not seen there".to_owned())
    } else {
        group
            .kill()
            .map_err(|error| format!("a group cannot be killed: {error}"))
    };
    if result.is_err() {
        let _ = signal::send_to_pidfd(pidfd.as_fd(), libc::SIGKILL);
    }
    crate::unix::wait::reap_killed(pid);
    result?;
    if group.is_empty() {
        Ok(())
    } else {
        Err("a group is not empty behind a kill".to_owned())
    }
}

/// So that an error number can be told from others by its name.
pub(super) fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_group_is_found_in_the_mount_that_shows_it() {
        let line = |root: &str, point: &str, kind: &str| {
            format!("35 24 0:30 {root} {point} rw,relatime shared:9 - {kind} cgroup2 rw,nsdelegate\n")
        };
        let check = |mounts: &str, own: &str, expected: Option<&str>| {
            assert_eq!(
                find_base(mounts, own),
                expected.map(PathBuf::from),
                "{mounts}{own}"
            );
        };
        check(
            &line("/", "/sys/fs/cgroup", "cgroup2"),
            "/",
            Some("/sys/fs/cgroup/"),
        );
        check(
            &line("/", "/sys/fs/cgroup/unified", "cgroup2"),
            "/user.slice/a",
            Some("/sys/fs/cgroup/unified/user.slice/a"),
        );
        check(&line("/", "/sys/fs/cgroup", "cgroup"), "/", None);
        let both = line("/other", "/a", "cgroup2") + &line("/mine", "/b\\040c", "cgroup2");
        check(&both, "/mine/below", Some("/b c/below"));
        check(&both, "/elsewhere", None);
        check("", "/", None);
    }

    #[test]
    fn events_tell_whether_somebody_is_there() {
        for (text, expected) in [
            ("populated 0\nfrozen 0\n", Some(false)),
            ("populated 1\nfrozen 0\n", Some(true)),
            ("frozen 0\n", None),
        ] {
            assert_eq!(populated(text), expected, "{text}");
        }
    }
}
