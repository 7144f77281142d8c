//! A session's output as text within a budget.

mod boundary;
mod excerpt;
mod plain;
#[cfg(test)]
mod tests;

use self::excerpt::{Excerpt, Unread};
pub use self::plain::{has_plain, read_plain};
use crate::capture::Capture;
use crate::stream::StreamId;
use crate::text::ReadPosition;

/// How much text one answer may hold: bytes of UTF-8, both streams and the markers counted.
///
/// At least 128, at most 256 KiB, 32 KiB by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputBudget(usize);

impl OutputBudget {
    /// The least that counts.
    pub const MIN: Self = Self(128);
    /// What holds where nothing was asked for.
    pub const DEFAULT: Self = Self(32 * 1024);
    /// The most that counts.
    pub const MAX: Self = Self(256 * 1024);

    /// The nearest budget to a number of bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(usize::try_from(bytes).unwrap_or(usize::MAX)).clamp(Self::MIN, Self::MAX)
    }

    /// The nearest budget to a number of tokens, four bytes each.
    #[must_use]
    pub fn from_tokens(tokens: u64) -> Self {
        Self::new(tokens.saturating_mul(4))
    }

    /// The budget in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl Default for OutputBudget {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a reader gets: the text since its place, and its next place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Text of stdout, with one marker where a part is left out.
    pub stdout: String,
    /// Text of stderr, likewise.
    pub stderr: String,
    /// The place behind everything that was read or left out; before a character that is not complete yet.
    pub next: ReadPosition,
    /// What was left out, at most one part of each stream, in the order of the streams.
    pub omitted: Vec<Omission>,
}

impl Reading {
    /// How many bytes were left out of both streams together.
    #[must_use]
    pub fn omitted_bytes(&self) -> u64 {
        self.omitted
            .iter()
            .map(Omission::bytes)
            .fold(0, u64::saturating_add)
    }

    /// Whether there is no text, of either stream.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty()
    }
}

/// A part of a stream that a reading left out; the log may still have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Omission {
    /// The stream.
    pub stream: StreamId,
    /// Offset of its first byte in the stream.
    pub from: u64,
    /// Offset of the first byte behind it, exclusive.
    pub to: u64,
}

impl Omission {
    /// Its size in bytes, never 0 in a [`Reading`].
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// Reads everything since `position` as text within `budget`.
///
/// - Text that is too long for its share keeps its head and its tail, cut between characters as people see them
///   (grapheme clusters), with a marker between them that names the number of bytes left out. What the capture dropped
///   is always inside this one cut. Bytes of head, left out, and of tail are exactly what came since `position`.
/// - A stream that needs less than half of the budget leaves the rest of its half to the other one.
/// - While a stream is open, a character that is incomplete at its end is held back for the next reading; after the
///   end it is U+FFFD. Bytes that are not UTF-8 are U+FFFD as in [`String::from_utf8_lossy`]; successive readings
///   that leave nothing out make up the same text as one of the whole.
/// - A place behind the end counts as the end.
///
/// The cost depends on the budget and not on what came or is kept. A cut looks for its place in 4 KiB of text; if that
/// has none, which takes an endless cluster or a long row of flags, that side of the marker stays empty.
#[must_use]
pub fn read_text(capture: &Capture, position: ReadPosition, budget: OutputBudget) -> Reading {
    let unread = StreamId::ALL.map(|stream| Unread::new(capture, stream, position.offset(stream)));
    let [stdout, stderr] = fit(&unread, budget.bytes());
    let [next_stdout, next_stderr] = unread.map(|unread| unread.end());
    Reading {
        next: ReadPosition {
            stdout: next_stdout,
            stderr: next_stderr,
        },
        omitted: [stdout.omitted, stderr.omitted].into_iter().flatten().collect(),
        stdout: stdout.text,
        stderr: stderr.text,
    }
}

/// Each stream as if it were alone, then those again that take more than their share.
fn fit(unread: &[Unread<'_>; 2], budget: usize) -> [Excerpt; 2] {
    let [stdout, stderr] = unread.each_ref().map(|unread| unread.excerpt(budget));
    let (stdout_share, stderr_share) = share(budget, stdout.text.len(), stderr.text.len());
    let within = |share: usize, whole: Excerpt, unread: &Unread<'_>| {
        if whole.text.len() <= share {
            whole
        } else {
            unread.excerpt(share)
        }
    };
    [
        within(stdout_share, stdout, &unread[0]),
        within(stderr_share, stderr, &unread[1]),
    ]
}

/// Divides `room` between two that need so much: each gets half, and what one does not need goes to the other.
fn share(room: usize, first_needs: usize, second_needs: usize) -> (usize, usize) {
    let half = room / 2;
    if second_needs <= half {
        (room - second_needs, second_needs)
    } else if first_needs <= half {
        (first_needs, room - first_needs)
    } else {
        (half, room - half)
    }
}
