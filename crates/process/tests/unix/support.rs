//! What scenarios without a guard need.

use procession_process::UnixPort;

#[path = "scenario.rs"]
mod scenario;

pub(crate) use scenario::*;

pub(crate) fn port() -> UnixPort {
    UnixPort::start().expect("a port")
}

/// What is held on behalf of sessions: descriptors of this process, and processes.
pub(crate) fn held(_port: &UnixPort) -> (usize, usize) {
    (own_pipes_and_pidfds(), own_children().len())
}

/// The children of this process, zombies too.
pub(crate) fn own_children() -> Vec<u32> {
    children_of(std::process::id())
}

/// The living processes of a session.
pub(crate) fn members(session: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").expect("the process table");
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_member = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let found = stat
            .rsplit_once(") ")
            .and_then(|(_, fields)| fields.split(' ').nth(3)?.parse().ok());
        found == Some(session) && is_alive(*pid)
    };
    pids.filter(is_member).collect()
}
