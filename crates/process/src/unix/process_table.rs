//! The process table: who belongs to a session, and whether anybody can.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, RawDir},
    io::Errno,
};

use super::descriptor::above_stdio;

/// How much of a `stat` line is read: enough for all fields up to the number of threads.
const STAT_BYTES: usize = 512;
/// How much of the table's directory is read at once.
const DIRECTORY_BYTES: usize = 8 * 1024;

/// `/proc`, where it is the one of our own pid namespace.
#[derive(Debug)]
pub(crate) struct ProcessTable {
    proc: Option<OwnedFd>,
    loadavg: Option<OwnedFd>,
}

/// A process of a session, alive, not its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its pid.
    pub(crate) pid: i32,
    /// Its process group.
    pub(crate) group: i32,
}

impl ProcessTable {
    /// The table of this process's own pid namespace.
    pub(crate) fn open() -> Self {
        let open = |dir: BorrowedFd<'_>, path: &str, flags| {
            let opened = rustix::fs::openat(dir, path, flags | OFlags::CLOEXEC, Mode::empty()).ok()?;
            above_stdio(opened).ok()
        };
        let own = open(CWD, "/proc", OFlags::PATH | OFlags::DIRECTORY).filter(|proc| is_own(proc.as_fd()));
        let loadavg = own
            .as_ref()
            .and_then(|proc| open(proc.as_fd(), "loadavg", OFlags::RDONLY));
        Self { proc: own, loadavg }
    }

    /// Whether there is one.
    pub(crate) fn is_readable(&self) -> bool {
        self.proc.is_some()
    }

    /// Whether no process and no thread was started in this pid namespace since the one of this pid, which has to be
    /// held: running, or not reaped.
    ///
    /// Then it has no descendants, and to look for any is needless. The proof: the last field of `/proc/loadavg` is
    /// the pid that was given out last, in the namespace of the one who reads. Pids are given out in ascending order
    /// and around again, those that are held being passed over; so as long as this one is held it is given out once,
    /// and when it is the last that was given out, none was since. A process in a namespace below has a pid in this
    /// one too, so that it counts.
    ///
    /// What could deceive it takes privileges over the namespace: to set the last pid by hand, or to start a process
    /// with a chosen pid, as restoring a checkpoint does.
    pub(crate) fn is_newest(&self, pid: i32) -> bool {
        self.last_pid() == Some(pid)
    }

    fn last_pid(&self) -> Option<i32> {
        let mut line = [0; 128];
        let length = rustix::io::pread(self.loadavg.as_ref()?, &mut line, 0).ok()?;
        last_pid(&line[..length])
    }

    /// The members of sessions, by the pids of their leaders; a leader without members has no entry.
    ///
    /// A job that a shell put into a group of its own is a member; who started a session of its own is not.
    pub(crate) fn members(&self, leaders: &BTreeSet<i32>) -> BTreeMap<i32, Vec<Member>> {
        let mut members: BTreeMap<i32, Vec<Member>> = BTreeMap::new();
        let seen = self.for_each(|pid, stat| {
            if stat.is_alive() && leaders.contains(&stat.session) && pid != stat.session {
                members.entry(stat.session).or_default().push(Member {
                    pid,
                    group: stat.group,
                });
            }
        });
        if let Err(errno) = seen {
            tracing::warn!(%errno, "the process table cannot be read");
        }
        members
    }

    /// Whether a process is a living member of a leader's session now.
    pub(crate) fn is_member(&self, pid: i32, leader: i32) -> bool {
        let Some(proc) = &self.proc else { return false };
        read_stat(proc.as_fd(), pid).is_some_and(|stat| stat.is_alive() && stat.session == leader)
    }

    /// A line of our own `status`, by its name.
    pub(crate) fn own_status(&self, name: &str) -> Option<String> {
        own_status(self.proc.as_ref()?.as_fd(), name)
    }

    /// A small file of our own, for example `oom_score_adj`.
    pub(crate) fn own_file(&self, name: &str) -> Option<String> {
        read_text(self.proc.as_ref()?.as_fd(), &format!("self/{name}"))
    }

    fn for_each(&self, mut visit: impl FnMut(i32, Stat)) -> Result<(), Errno> {
        let Some(proc) = &self.proc else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(proc, ".", flags, Mode::empty())?;
        let mut buffer = [MaybeUninit::uninit(); DIRECTORY_BYTES];
        let mut entries = RawDir::new(directory, &mut buffer);
        while let Some(entry) = entries.next() {
            let name = entry?;
            let pid = name.file_name().to_str().ok().and_then(|name| name.parse().ok());
            if let Some(pid) = pid
                && let Some(stat) = read_stat(proc.as_fd(), pid)
            {
                visit(pid, stat);
            }
        }
        Ok(())
    }
}

/// What is needed of a process's `stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: u8,
    group: i32,
    session: i32,
    threads: u32,
}

impl Stat {
    /// Whether it runs or could; a main thread that ended before its others looks like a zombie and is none.
    fn is_alive(self) -> bool {
        match self.state {
            b'X' | b'x' => false,
            b'Z' => self.threads > 1,
            _ => true,
        }
    }

    /// Takes the line apart behind the name, which may hold anything, brackets and blanks too.
    fn parse(line: &[u8]) -> Option<Self> {
        let behind_name = line.iter().rposition(|byte| *byte == b')')?;
        let fields = std::str::from_utf8(line.get(behind_name + 1..)?).ok()?;
        let mut fields = fields.split_ascii_whitespace();
        Some(Self {
            state: *fields.next()?.as_bytes().first()?,
            // The parent lies between.
            group: fields.nth(1)?.parse().ok()?,
            session: fields.next()?.parse().ok()?,
            // Thirteen fields lie between the session, which is the sixth, and this one, which is the twentieth.
            threads: fields.nth(13)?.parse().ok()?,
        })
    }
}

fn read_stat(proc: BorrowedFd<'_>, pid: i32) -> Option<Stat> {
    let mut line = [0; STAT_BYTES];
    let file = rustix::fs::openat(
        proc,
        format!("{pid}/stat"),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()?;
    let length = rustix::io::read(file, &mut line).ok()?;
    Stat::parse(&line[..length])
}

/// Whether this `/proc` shows our own pid namespace: seen from one above, we have more than one pid, and from any
/// other none.
fn is_own(proc: BorrowedFd<'_>) -> bool {
    let pids = own_status(proc, "NSpid");
    pids.and_then(|pids| pids.parse().ok()) == Some(std::process::id())
}

fn own_status(proc: BorrowedFd<'_>, name: &str) -> Option<String> {
    let status = read_text(proc, "self/status")?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

fn read_text(proc: BorrowedFd<'_>, path: &str) -> Option<String> {
    let file = rustix::fs::openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    std::io::read_to_string(std::fs::File::from(file)).ok()
}

fn last_pid(line: &[u8]) -> Option<i32> {
    std::str::from_utf8(line)
        .ok()?
        .split_ascii_whitespace()
        .nth(4)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_taken_apart_behind_the_name() {
        let tail = "4242 7 8 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 55 9 9";
        let check = |name: &str, state: char, threads: u32, is_alive: bool| {
            let line =
                format!("99 ({name}) {state} {tail}").replace(" 20 0 3 0 ", &format!(" 20 0 {threads} 0 "));
            let stat = Stat::parse(line.as_bytes()).expect(&line);
            assert_eq!(
                (stat.group, stat.session, stat.threads),
                (7, 8, threads),
                "{line}"
            );
            assert_eq!(stat.is_alive(), is_alive, "{line}");
        };
        check("sleep", 'S', 1, true);
        check("a) Z 1 1 1 (b", 'R', 1, true);
        check("", 'T', 1, true);
        check("x", 'Z', 1, false);
        check("x", 'Z', 2, true);
        check("x", 'X', 1, false);
        for line in ["", "99 (x", "99 (x) ", "99 (x) S 1 2", "99 (x) S 1 b 3"] {
            assert_eq!(Stat::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn the_last_pid_is_the_fifth_field() {
        assert_eq!(last_pid(b"0.35 0.15 0.08 3/94 7895\n"), Some(7895));
        assert_eq!(last_pid(b"0.35 0.15 0.08 3/94\n"), None);
    }

    #[test]
    fn our_own_entry_is_read() {
        let table = ProcessTable::open();
        assert!(table.is_readable());
        let own = i32::try_from(std::process::id()).unwrap();
        let mut seen = None;
        table
            .for_each(|pid, stat| {
                if pid == own {
                    seen = Some(stat);
                }
            })
            .unwrap();
        let stat = seen.expect("our own entry");
        assert!(stat.is_alive() && table.is_member(own, stat.session));
        // It may be 0: the session's leader is then in a pid namespace above.
        assert_eq!(stat.session, nix::unistd::getsid(None).unwrap().as_raw());
        assert!(
            table
                .own_status("Umask")
                .is_some_and(|umask| u32::from_str_radix(&umask, 8).is_ok())
        );
    }
}
