//! What a control group has counted of all that were ever in it.

use std::{fs, path::Path, time::Duration};

use procession_core::outcome::{Usage, UsageScope};

/// Puts into a usage what a group has counted of all that were ever in it, by its path.
///
/// Processor time is counted by every group, memory where there is a controller for it.
pub(in crate::guard) fn count_at(path: &Path, usage: &mut Usage) {
    if let Some((user, system)) = fs::read_to_string(path.join("cpu.stat"))
        .ok()
        .and_then(|text| cpu(&text))
    {
        usage.user_time = usage.user_time.max(user);
        usage.system_time = usage.system_time.max(system);
        usage.cpu_covers = UsageScope::Tree;
    }
    let peak = fs::read_to_string(path.join("memory.peak"));
    if let Some(bytes) = peak.ok().and_then(|text| text.trim().parse().ok()) {
        usage.peak_memory_bytes = Some(bytes);
        usage.peak_memory_covers = UsageScope::Tree;
    }
}

/// The times in a group's `cpu.stat`: in the program and in the system.
fn cpu(text: &str) -> Option<(Duration, Duration)> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(Duration::from_micros(line.trim().parse().ok()?))
    };
    Some((value("user_usec ")?, value("system_usec ")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_group_counted_is_the_whole_trees() {
        let group = tempfile::tempdir().unwrap();
        let leader = Usage {
            user_time: Duration::from_millis(2),
            peak_memory_bytes: Some(5),
            minor_faults: 7,
            ..Usage::default()
        };
        let counted = || {
            let mut usage = leader;
            count_at(group.path(), &mut usage);
            usage
        };
        assert_eq!(counted(), leader, "nothing is told");
        let stat = "usage_usec 9000\nuser_usec 3000\nsystem_usec 6000\nnr_periods 0\n";
        fs::write(group.path().join("cpu.stat"), stat).unwrap();
        let with_cpu = Usage {
            user_time: Duration::from_millis(3),
            system_time: Duration::from_millis(6),
            cpu_covers: UsageScope::Tree,
            ..leader
        };
        assert_eq!(counted(), with_cpu, "there is no controller for memory");
        fs::write(group.path().join("memory.peak"), "1048576\n").unwrap();
        let whole = Usage {
            peak_memory_bytes: Some(1 << 20),
            peak_memory_covers: UsageScope::Tree,
            ..with_cpu
        };
        assert_eq!(counted(), whole);
        fs::write(group.path().join("memory.peak"), "max\n").unwrap();
        assert_eq!(counted(), with_cpu);
    }
}
