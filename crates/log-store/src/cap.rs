//! How much a log may take, and how that is divided.

use std::sync::Arc;

use crate::budget::LogBudget;

/// The smallest cap that is accepted: 16 KiB.
pub const MIN_CAP_BYTES: u64 = 16 * KIB;

/// The cap of a log that asks for none: 32 MiB.
pub const DEFAULT_CAP_BYTES: u64 = 32 * MIB;

/// The head of a log that asks for none: 4 MiB, or an eighth of the cap if that is less.
pub const DEFAULT_HEAD_BYTES: u64 = 4 * MIB;

/// By how much the files of a log may pass the cap: one frame, 64 KiB.
///
/// It is used only where the application's own bytes in header and end record are large beside the cap.
pub const MAX_EXCESS_BYTES: u64 = 64 * KIB;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Kept free for the end record.
const END_RESERVE_BYTES: u64 = 4 * KIB;

/// What payload and index get at least, however large the header is.
const MIN_SEGMENTS_BYTES: u64 = 8 * KIB;

/// What a pipe gives at most at once; large segments of the tail hold a multiple of it.
const WRITE_BYTES: u64 = 64 * KIB;

/// What the index of a large segment takes if its entries are as large as they can be, roughly.
const INDEX_OF_LARGE_ENTRIES_BYTES: u64 = 8 * KIB;

/// Into how many segments the tail is divided. With the head and the header that makes at most 15 files, so that
/// even counted in blocks of 4 KiB the folder stays within the cap and one frame.
pub(crate) const TAIL_SEGMENTS: u64 = 6;

/// What happens at the cap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapMode {
    /// The head stays, the tail rolls: the oldest segment behind the head is dropped and becomes the gap.
    #[default]
    Rolling,
    /// Logging stops; what was written stays.
    KeepHead,
}

/// When what was written is made durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// Never: a crash of the machine may lose all of it; a crash of the process loses nothing that was written.
    Never,
    /// Once, when the log is finished.
    #[default]
    OnEnd,
    /// After each append: payload first, index after.
    EachRecord,
}

/// What a log may take and how it is kept.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    cap_bytes: Option<u64>,
    head_bytes: Option<u64>,
    mode: CapMode,
    sync: SyncPolicy,
    free_space_floor_bytes: u64,
    budget: Option<Arc<LogBudget>>,
}

impl LogOptions {
    /// Rolling at 32 MiB, synced on end, no floor, no budget.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what all files of the log may take together, in bytes; at least [`MIN_CAP_BYTES`].
    #[must_use]
    pub fn cap_bytes(mut self, cap_bytes: u64) -> Self {
        self.cap_bytes = Some(cap_bytes);
        self
    }

    /// Sets how many of the first payload bytes a rolling log keeps for ever; at most a quarter of the cap, 0 for none.
    #[must_use]
    pub fn head_bytes(mut self, head_bytes: u64) -> Self {
        self.head_bytes = Some(head_bytes);
        self
    }

    /// Sets what happens at the cap.
    #[must_use]
    pub fn mode(mut self, mode: CapMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets when what was written is made durable.
    #[must_use]
    pub fn sync(mut self, sync: SyncPolicy) -> Self {
        self.sync = sync;
        self
    }

    /// Sets the free space of the file system, in bytes, below which logging stops; 0 for none. It is asked for
    /// before the first byte and then every 256 KiB.
    #[must_use]
    pub fn free_space_floor_bytes(mut self, floor_bytes: u64) -> Self {
        self.free_space_floor_bytes = floor_bytes;
        self
    }

    /// Makes the log a part of `budget`.
    #[must_use]
    pub fn budget(mut self, budget: Arc<LogBudget>) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The cap that these options mean, in bytes.
    #[must_use]
    pub fn effective_cap_bytes(&self) -> u64 {
        self.cap_bytes.unwrap_or(DEFAULT_CAP_BYTES)
    }

    /// The head that these options mean, in bytes; the whole cap for [`CapMode::KeepHead`].
    #[must_use]
    pub fn effective_head_bytes(&self) -> u64 {
        match self.mode {
            CapMode::Rolling => self
                .head_bytes
                .unwrap_or_else(|| DEFAULT_HEAD_BYTES.min(self.effective_cap_bytes() / 8)),
            CapMode::KeepHead => self.effective_cap_bytes(),
        }
    }

    /// Says whether a log can be made with these options.
    ///
    /// # Errors
    /// [`OptionsError`] with the number that was asked for and the one that would do.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let cap_bytes = self.effective_cap_bytes();
        if cap_bytes < MIN_CAP_BYTES {
            return Err(OptionsError::CapTooSmall {
                cap_bytes,
                min_cap_bytes: MIN_CAP_BYTES,
            });
        }
        let max_head_bytes = cap_bytes / 4;
        match (self.mode, self.head_bytes) {
            (CapMode::Rolling, Some(head_bytes)) if head_bytes > max_head_bytes => {
                Err(OptionsError::HeadTooLarge {
                    head_bytes,
                    max_head_bytes,
                })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn cap_mode(&self) -> CapMode {
        self.mode
    }

    pub(crate) fn sync_policy(&self) -> SyncPolicy {
        self.sync
    }

    pub(crate) fn floor_bytes(&self) -> u64 {
        self.free_space_floor_bytes
    }

    pub(crate) fn shared_budget(&self) -> Option<&Arc<LogBudget>> {
        self.budget.as_ref()
    }
}

/// Why no log can be made with given options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The cap leaves no room for head, tail and index.
    #[error("a cap of {cap_bytes} bytes is too small, at least {min_cap_bytes} are needed")]
    CapTooSmall {
        /// What was asked for.
        cap_bytes: u64,
        /// What is needed.
        min_cap_bytes: u64,
    },
    /// The head leaves no room for the tail.
    #[error("a head of {head_bytes} bytes is too large, this cap allows {max_head_bytes}")]
    HeadTooLarge {
        /// What was asked for.
        head_bytes: u64,
        /// What the cap allows.
        max_head_bytes: u64,
    },
}

/// How the cap of one log is divided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Division {
    /// For payload and index of all segments.
    segments_bytes: u64,
    mode: CapMode,
    head_bytes: u64,
}

impl Division {
    pub(crate) fn new(options: &LogOptions, header_bytes: u64) -> Self {
        let fixed = header_bytes.saturating_add(END_RESERVE_BYTES);
        let segments_bytes = options
            .effective_cap_bytes()
            .saturating_sub(fixed)
            .max(MIN_SEGMENTS_BYTES);
        Self {
            segments_bytes,
            mode: options.cap_mode(),
            head_bytes: options.effective_head_bytes(),
        }
    }

    /// What the head takes; `None` if there is none.
    pub(crate) fn head(&self) -> Option<SegmentLimit> {
        match self.mode {
            CapMode::KeepHead => Some(SegmentLimit {
                max_payload_bytes: u64::MAX,
                max_disk_bytes: self.segments_bytes,
            }),
            CapMode::Rolling if self.head_bytes == 0 => None,
            // The index of a head of many small runs must leave room for the tail.
            CapMode::Rolling => Some(SegmentLimit {
                max_payload_bytes: self.head_bytes,
                max_disk_bytes: self.segments_bytes / 2,
            }),
        }
    }

    /// What one segment of the tail takes beside a head of `head_disk_bytes`; `None` if there is no tail.
    pub(crate) fn tail_segment(&self, head_disk_bytes: u64) -> Option<SegmentLimit> {
        let tail_bytes = self.segments_bytes.saturating_sub(head_disk_bytes);
        match self.mode {
            CapMode::KeepHead => None,
            CapMode::Rolling => {
                let max_disk_bytes = tail_bytes / TAIL_SEGMENTS;
                let whole_writes = max_disk_bytes.saturating_sub(INDEX_OF_LARGE_ENTRIES_BYTES) / WRITE_BYTES;
                // Large writes then begin at whole pages of the file cache in every segment.
                let max_payload_bytes = if whole_writes >= 8 {
                    whole_writes * WRITE_BYTES
                } else {
                    max_disk_bytes
                };
                Some(SegmentLimit {
                    max_payload_bytes,
                    max_disk_bytes,
                })
            }
        }
    }
}

/// What a segment takes at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentLimit {
    pub(crate) max_payload_bytes: u64,
    /// Payload and index together.
    pub(crate) max_disk_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &LogOptions, expected: &Result<u64, OptionsError>) {
        assert_eq!(
            &options.validate().map(|()| options.effective_head_bytes()),
            expected
        );
    }

    #[test]
    fn options_are_checked_and_the_default_head_scales_with_the_cap() {
        check(&LogOptions::new(), &Ok(4 * MIB));
        check(&LogOptions::new().cap_bytes(64 * KIB), &Ok(8 * KIB));
        check(&LogOptions::new().cap_bytes(MIN_CAP_BYTES), &Ok(2 * KIB));
        check(&LogOptions::new().cap_bytes(u64::MAX), &Ok(4 * MIB));
        check(&LogOptions::new().cap_bytes(64 * KIB).head_bytes(0), &Ok(0));
        check(
            &LogOptions::new().mode(CapMode::KeepHead).cap_bytes(64 * KIB),
            &Ok(64 * KIB),
        );
        let min_cap_bytes = MIN_CAP_BYTES;
        check(
            &LogOptions::new().cap_bytes(MIN_CAP_BYTES - 1),
            &Err(OptionsError::CapTooSmall {
                cap_bytes: MIN_CAP_BYTES - 1,
                min_cap_bytes,
            }),
        );
        check(
            &LogOptions::new().cap_bytes(64 * KIB).head_bytes(16 * KIB + 1),
            &Err(OptionsError::HeadTooLarge {
                head_bytes: 16 * KIB + 1,
                max_head_bytes: 16 * KIB,
            }),
        );
    }

    #[test]
    fn head_and_tail_fit_the_cap_beside_header_and_end_record() {
        for (cap_bytes, header_bytes) in [
            (MIN_CAP_BYTES, 40),
            (64 * KIB, 500),
            (MIB, 41 * KIB),
            (32 * MIB, 41 * KIB),
        ] {
            let division = Division::new(&LogOptions::new().cap_bytes(cap_bytes), header_bytes);
            let head = division.head().unwrap().max_disk_bytes;
            let tail = division.tail_segment(head).unwrap().max_disk_bytes;
            assert!(tail > 512, "{tail}");
            assert!(header_bytes + head + TAIL_SEGMENTS * tail + END_RESERVE_BYTES <= cap_bytes);
        }
    }
}
