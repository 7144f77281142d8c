//! Descendants by the process table, and the kill that follows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::fd::{AsFd, OwnedFd},
};

use rustix::process::{Pid, PidfdFlags};

use crate::unix::signal;

/// How often a tree is gone through until nobody new is found.
const MAX_PASSES: u32 = 32;
/// The most descendants that are followed.
const MAX_DESCENDANTS: usize = 16 * 1024;

/// The children of this process, as far as `/proc` tells.
pub(super) fn own_children() -> Vec<i32> {
    parse(&fs::read_to_string("/proc/thread-self/children").unwrap_or_default())
}

/// All living descendants of a process, nearest first.
pub(super) fn descendants(root: i32) -> Vec<i32> {
    let mut found = look(root);
    found.retain(|pid| is_living(*pid));
    found
}

/// All descendants, those too that have ended and are not reaped.
fn look(root: i32) -> Vec<i32> {
    let mut found = children(root);
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        found.extend(children(pid));
        if found.len() > MAX_DESCENDANTS {
            break;
        }
    }
    found
}

/// Stops, scans and kills: stops all descendants until nobody new is found, then kills them.
///
/// Best effort: who forks and ends faster than this looks is not met. Returns who was killed.
pub(super) fn kill_descendants(root: i32) -> Vec<i32> {
    let mut held: BTreeMap<i32, OwnedFd> = BTreeMap::new();
    for _ in 0..MAX_PASSES {
        let mut is_new = false;
        for pid in descendants(root) {
            if held.contains_key(&pid) {
                continue;
            }
            let Some(named) = Pid::from_raw(pid) else { continue };
            let Ok(pidfd) = rustix::process::pidfd_open(named, PidfdFlags::empty()) else {
                continue;
            };
            // The pidfd comes first and the look second: a stranger that got the pid has another parent.
            let is_ours = parent_of(pid).is_some_and(|parent| parent == root || held.contains_key(&parent))
                || descendants(root).contains(&pid);
            if is_ours && signal::send_to_pidfd(pidfd.as_fd(), libc::SIGSTOP).is_ok() {
                held.insert(pid, pidfd);
                is_new = true;
            }
        }
        if !is_new {
            break;
        }
    }
    held.retain(|_, pidfd| signal::send_to_pidfd(pidfd.as_fd(), libc::SIGKILL).is_ok());
    held.into_keys().collect()
}

/// Sends a signal to all descendants that are not spared, once to each.
///
/// Goes on until two looks show the same: whoever loses their parent during a look is given to another one that was
/// looked at already, and so is met by the next. That is no rare thing here, since the leader's group has had the
/// signal just before.
pub(super) fn signal_descendants(root: i32, number: i32, is_spared: impl Fn(i32) -> bool) {
    let (mut met, mut before) = (BTreeSet::new(), None);
    for _ in 0..MAX_PASSES {
        let seen: BTreeSet<i32> = look(root).into_iter().collect();
        let mut is_new = false;
        for pid in seen.iter().copied() {
            if met.contains(&pid) || !is_living(pid) || is_spared(pid) {
                continue;
            }
            is_new = true;
            let Some(named) = Pid::from_raw(pid) else { continue };
            let Ok(pidfd) = rustix::process::pidfd_open(named, PidfdFlags::empty()) else {
                continue;
            };
            if descendants(root).contains(&pid) {
                // Who may not be signalled is told by the sweep.
                let _ = signal::send_to_pidfd(pidfd.as_fd(), number);
                met.insert(pid);
            }
        }
        if !is_new && before.as_ref() == Some(&seen) {
            break;
        }
        before = Some(seen);
    }
}

/// The process group of a process; none where the group's leader is in a pid namespace above, so that it has no number
/// here.
pub(super) fn group_of(pid: i32) -> Option<i32> {
    let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid))).ok()?;
    Some(group.as_raw()).filter(|group| *group > 0)
}

/// The session of a process, as far as it has a number here.
pub(super) fn session_of(pid: i32) -> Option<i32> {
    let session = nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(pid))).ok()?;
    Some(session.as_raw()).filter(|session| *session > 0)
}

fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|children| parse(&children))
        .collect()
}

fn parse(children: &str) -> Vec<i32> {
    children
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Whether a process is there and has not ended.
pub(super) fn is_living(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn parent_of(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent)| parent)
}

fn stat(pid: i32) -> Option<(char, i32)> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind_name = line.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(line.get(behind_name + 1..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
