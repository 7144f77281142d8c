//! The process table, as far as it is needed here.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// How long what is killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// Processes with this mark among their arguments; zombies have none.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| has_mark(*pid, mark))
        .collect()
}

fn has_mark(pid: u32, mark: &str) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments
        .split(|byte| *byte == 0)
        .any(|argument| String::from_utf8_lossy(argument).contains(mark))
}

/// Whether a process lives; a zombie does not, whose parent is slow to look.
pub(crate) fn is_alive(pid: u32) -> bool {
    let state = status_line(pid, "State");
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// Waits until nobody is left; answers who was, when the time is up.
pub(crate) fn until_gone(mut left: impl FnMut() -> Vec<u32>) -> Vec<u32> {
    let began = Instant::now();
    loop {
        let pids = left();
        if pids.is_empty() || began.elapsed() > GONE_WITHIN {
            return pids;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Descriptors that a process has open.
pub(crate) fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// A number out of a process's `status`: threads, or KiB of memory.
pub(crate) fn status(pid: u32, name: &str) -> u64 {
    status_line(pid, name)
        .and_then(|value| value.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

fn status_line(pid: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
}

/// Children of a process, zombies included.
pub(crate) fn children(pid: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .map(|children| children.split_whitespace().count())
        .sum()
}
