//! What is said about a log.

use std::io;

use crate::format::{MAX_REASON_BYTES, cut_text};
use crate::offset::Offset;

/// How a log stands. `kept_bytes + dropped_bytes == total_bytes`, always.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStatus {
    /// All payload bytes that were appended.
    pub total_bytes: u64,
    /// Of these, the bytes that can be read.
    pub kept_bytes: u64,
    /// Of these, the bytes that cannot: dropped at the cap, or not written after logging stopped.
    pub dropped_bytes: u64,
    /// What the cap dropped between head and tail. Bytes behind a stop are not in it.
    pub gap: Option<Gap>,
    /// Whether and how the writing ended.
    pub write_end: WriteEnd,
}

impl LogStatus {
    /// Whether every byte that was appended can be read.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.dropped_bytes == 0 && !matches!(self.write_end, WriteEnd::NotRecorded)
    }

    /// Whether what is missing, if anything, was dropped by a rolling cap alone: nothing failed and nothing stopped.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        matches!(self.write_end, WriteEnd::Open | WriteEnd::Finished)
    }
}

/// Bytes that cannot be read, all of them within `from..to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The first byte that is missing.
    pub from: Offset,
    /// The first byte behind the gap.
    pub to: Offset,
    /// When the first missing byte was read, in the milliseconds of the appended runs; `None` if not known.
    pub first_time_ms: Option<u64>,
    /// When the last missing byte was read; `None` if not known.
    pub last_time_ms: Option<u64>,
    /// Why they are missing.
    pub cause: GapCause,
}

impl Gap {
    /// How many bytes are missing.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.to.bytes_since(self.from)
    }
}

/// Why bytes are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GapCause {
    /// A rolling log dropped them at its cap.
    Cap,
    /// They came after logging had stopped.
    NotWritten,
    /// They were there, and the files of the log no longer hold them rightly.
    Damage,
}

/// Whether and how the writing of a log ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteEnd {
    /// The log is being written.
    Open,
    /// The owner finished the log, and all was written that was appended.
    Finished,
    /// Logging stopped before the end; bytes from `at` on were counted, not written.
    Stopped {
        /// The first byte that was not written.
        at: Offset,
        /// Why.
        reason: StopReason,
    },
    /// A log on disk without an end record: its writer is still at work, or died.
    NotRecorded,
}

/// Why logging stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The log was to keep its head and is full.
    CapReached,
    /// All logs together are at their limit.
    BudgetExhausted {
        /// The limit in bytes.
        max_bytes: u64,
    },
    /// The file system has less free space than was to stay free.
    FreeSpaceFloor {
        /// What was to stay free, in bytes.
        floor_bytes: u64,
        /// What was free, in bytes.
        free_bytes: u64,
    },
    /// The operating system refused.
    WriteFailed {
        /// The kind of refusal.
        kind: io::ErrorKind,
        /// Its words.
        message: String,
    },
    /// The disk did not keep up.
    Stalled,
    /// A reason of the owner's own.
    ByOwner {
        /// In words; at most 512 bytes are kept.
        reason: String,
    },
}

impl StopReason {
    pub(crate) fn from_io(error: &io::Error) -> Self {
        Self::WriteFailed {
            kind: error.kind(),
            message: error.to_string(),
        }
        .bounded()
    }

    /// The same with text that fits the record.
    pub(crate) fn bounded(mut self) -> Self {
        if let Self::WriteFailed { message: text, .. } | Self::ByOwner { reason: text } = &mut self {
            let len = cut_text(text, MAX_REASON_BYTES).len();
            text.truncate(len);
        }
        self
    }
}
