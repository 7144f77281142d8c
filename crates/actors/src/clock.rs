//! The one place that reads the clocks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use procession_core::{Moment, WallTime, time::whole_millis};
use tokio::time::Instant;

/// The clock of one system: monotonic time since its start, which follows tokio's clock and so can be paused in tests.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
    wall_at_start: WallTime,
}

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            start: Instant::now(),
            wall_at_start: WallTime::from_unix_millis(whole_millis(since_epoch)),
        }
    }

    /// The time since the start.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment::from_start(self.start.elapsed())
    }

    /// The wall time at the start.
    #[must_use]
    pub const fn wall_at_start(&self) -> WallTime {
        self.wall_at_start
    }

    /// The wall time of a moment, as if the wall clock had not been set since the start.
    #[must_use]
    pub fn wall(&self, moment: Moment) -> WallTime {
        let millis = self
            .wall_at_start
            .unix_millis()
            .saturating_add(whole_millis(moment.since_start()));
        WallTime::from_unix_millis(millis)
    }

    /// The moment as an instant of tokio's clock; the far future for moments that it cannot tell.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        const FAR: Duration = Duration::from_secs(86_400 * 365);
        self.start + moment.since_start().min(self.start.elapsed().saturating_add(FAR))
    }
}

/// How long work on a blocking thread takes; it does not follow tokio's clock, which stands still while work is done in
/// tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(std::time::Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
