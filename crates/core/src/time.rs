//! Time as the core sees it: given by the caller, never read.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point on the monotonic clock, as the time since the start of the system.
///
/// All arithmetic saturates: the far future is reached, never overflowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Moment(Duration);

impl Moment {
    /// The start of the system.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// The moment this long after the start of the system.
    #[must_use]
    pub const fn from_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The moment this many milliseconds after the start of the system.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The time since the start of the system.
    #[must_use]
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// The time since `earlier`, zero when that lies in the future.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment this much later, at most the last one that can be told.
    #[must_use]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// A point on the wall clock, in milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct WallTime(u64);

impl WallTime {
    /// The wall time this many milliseconds after 1970-01-01 UTC.
    #[must_use]
    pub const fn from_unix_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn unix_millis(self) -> u64 {
        self.0
    }
}

/// A duration in whole milliseconds, at most `u64::MAX`.
#[must_use]
pub fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_on_moments_saturates() {
        let last = Moment::from_start(Duration::MAX);
        assert_eq!(last.saturating_add(Duration::from_secs(1)), last);
        assert_eq!(Moment::ZERO.saturating_since(last), Duration::ZERO);
        assert_eq!(last.saturating_since(Moment::ZERO), Duration::MAX);
        assert_eq!(whole_millis(Duration::MAX), u64::MAX);
    }
}
