//! Where a byte stands in the log.

use std::fmt;

/// The number of payload bytes before a byte in the merged output, from 0; for ever the same.
///
/// Every `u64` is a valid offset to ask for: one past the total is answered, not refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

impl Offset {
    /// The first byte of every log.
    pub const ZERO: Self = Self(0);

    /// The offset of the byte that has `bytes_before` payload bytes before it.
    #[must_use]
    pub const fn new(bytes_before: u64) -> Self {
        Self(bytes_before)
    }

    /// The number of payload bytes before this offset.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The offset `bytes` further on, at most `u64::MAX`.
    #[must_use]
    pub const fn saturating_add(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// How many bytes lie between `earlier` and this offset; 0 if `earlier` is not before it.
    #[must_use]
    pub const fn bytes_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<u64> for Offset {
    fn from(bytes_before: u64) -> Self {
        Self(bytes_before)
    }
}

impl From<Offset> for u64 {
    fn from(offset: Offset) -> Self {
        offset.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A length in memory as a length on disk.
pub(crate) fn bytes_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A length on disk as a length in memory, at most `usize::MAX`.
pub(crate) fn bytes_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
