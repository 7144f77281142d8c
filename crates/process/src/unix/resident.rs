//! The largest resident memory of a child, told apart from that of the process in which it began.
//!
//! A child that begins in its starter's memory, as those of `posix_spawn` and of a shared clone do, is counted with
//! the most that this memory ever was, whatever its own program needs.

use std::fs;

/// By how much the system's running count of a process's memory may be wrong at one look: it is kept by processor,
/// and summed up roughly.
const ROUGHNESS_BYTES: u64 = 1 << 20;

/// The largest resident memory of a child and of those that it waited for, as the system counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) bytes: u64,
}

/// The most memory that this process ever had; it only grows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OwnPeak {
    /// As far as it was looked at.
    known_bytes: u64,
}

impl OwnPeak {
    /// What is a child's own; none where it may be this process's.
    ///
    /// Looks at this process only where that can make a difference.
    pub(crate) fn exceeded_by(&mut self, counted: Counted) -> Option<u64> {
        if !self.is_exceeded(counted) {
            return None;
        }
        let status = fs::read_to_string("/proc/self/status").ok()?;
        self.known_bytes = self.known_bytes.max(peak(&status)?);
        self.is_exceeded(counted).then_some(counted.bytes)
    }

    fn is_exceeded(self, counted: Counted) -> bool {
        counted.bytes > self.known_bytes.saturating_add(ROUGHNESS_BYTES)
    }
}

fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_our_own_is_not_told() {
        let mut own = OwnPeak::default();
        for (bytes, expected) in [
            (0, None),
            (4096, None),
            (u64::MAX, Some(u64::MAX)),
            (1 << 50, Some(1 << 50)),
        ] {
            assert_eq!(own.exceeded_by(Counted { bytes }), expected, "{bytes}");
        }
        assert!(own.known_bytes > 0, "it was looked at");
        let bytes = own.known_bytes;
        assert_eq!(own.exceeded_by(Counted { bytes }), None);
    }

    #[test]
    fn the_peak_is_read_in_bytes() {
        for (status, expected) in [
            (
                "Name:\tx\nVmPeak:\t  99 kB\nVmHWM:\t    1988 kB\nVmRSS:\t 1 kB\n",
                Some(1988 << 10),
            ),
            ("VmHWM:\t 18446744073709551615 kB\n", Some(u64::MAX)),
            ("VmHWM:\t 5\n", None),
            ("Name:\tkthread\n", None),
        ] {
            assert_eq!(peak(status), expected, "{status}");
        }
    }
}
