//! What a session's output leaves in memory: the head and a rolling tail of each stream.

mod read_buffer;
mod region;
#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::{Buf, Bytes};

pub use self::read_buffer::ReadBuffer;
use self::region::Region;
use crate::stream::StreamId;

/// Pieces from this size on are kept as they are, smaller ones are copied next to each other, in bytes.
const KEEP_FROM: usize = 4096;

/// The bounded capture of one session's output, without any IO.
///
/// Each stream has its own offsets, from 0 for its first byte, and its own cap. The first half of the cap keeps the
/// head of the stream and is never dropped. The rest keeps the newest bytes; what falls out between the two is a gap,
/// whose place and size stay exact: head + gap + tail is always the total.
///
/// # Memory
///
/// Nothing is allocated before the first byte. A piece of at least 4 KiB is kept by its reference count, the same
/// memory that the caller passes on to others. Smaller ones are copied into blocks that are filled to their last byte,
/// of 256 bytes at first and 16 KiB at most, so that neither a small piece keeps a large block alive nor a handle has
/// to be paid for each of them.
///
/// With pieces from a [`ReadBuffer`] a stream holds at most its cap, a sixteenth of it (ends of blocks that were too
/// short to read into), and 256 KiB: the blocks that the edges of head and tail share with bytes which are not kept,
/// and the handles. A piece from elsewhere holds whatever allocation it is a part of.
///
/// # Cost
///
/// A push costs O(1), or O(1) a byte where it copies; a seek is a binary search.
#[derive(Debug)]
pub struct Capture {
    stdout: Stream,
    stderr: Stream,
}

/// A part of a stream as [`Capture::range`] gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes that are there, never none.
    Bytes {
        /// Offset of the first one in the stream.
        at: u64,
        /// The bytes, exactly as the process wrote them.
        bytes: &'a [u8],
    },
    /// Bytes that were dropped.
    Gap {
        /// Offset of the first dropped byte, or where the range begins if that is later.
        from: u64,
        /// Offset of the first byte after them, exclusive.
        to: u64,
    },
}

impl Capture {
    /// The smallest cap of a stream in bytes; smaller ones count as this.
    pub const MIN_CAP_BYTES: usize = 64;

    /// Makes an empty capture that keeps up to `cap_bytes_per_stream` of each stream.
    #[must_use]
    pub fn new(cap_bytes_per_stream: usize) -> Self {
        let cap = cap_bytes_per_stream.max(Self::MIN_CAP_BYTES);
        Self {
            stdout: Stream::new(cap),
            stderr: Stream::new(cap),
        }
    }

    /// Appends what one read of `stream` gave.
    ///
    /// Bytes that come after [`close`](Self::close) are counted and kept like others.
    pub fn push(&mut self, stream: StreamId, piece: Bytes) {
        self.stream_mut(stream).push(piece);
    }

    /// Notes that no more bytes of `stream` will come; twice is fine.
    pub fn close(&mut self, stream: StreamId) {
        self.stream_mut(stream).closed = true;
    }

    /// Whether `stream` was closed.
    #[must_use]
    pub fn is_closed(&self, stream: StreamId) -> bool {
        self.stream(stream).closed
    }

    /// How many bytes of `stream` came so far, kept or not; also the offset of its next byte.
    #[must_use]
    pub fn total(&self, stream: StreamId) -> u64 {
        self.stream(stream).total()
    }

    /// How many bytes of both streams came so far, kept or not.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.stdout.total().saturating_add(self.stderr.total())
    }

    /// The offsets of `stream` that were dropped, if any were; never an empty range.
    #[must_use]
    pub fn gap(&self, stream: StreamId) -> Option<Range<u64>> {
        self.stream(stream).gap()
    }

    /// What is there of `stream` from the offset `from` on, in order, the gap in its place.
    ///
    /// The pieces follow on each other without a hole up to [`total`](Self::total). From the end on or behind it there
    /// is nothing.
    pub fn range(&self, stream: StreamId, from: u64) -> impl Iterator<Item = Piece<'_>> {
        let stream = self.stream(stream);
        let gap = stream.gap().filter(|gap| from < gap.end).map(|gap| Piece::Gap {
            from: from.max(gap.start),
            to: gap.end,
        });
        let head = stream.head.slices(from);
        let tail = stream.tail.slices(from);
        let bytes = |(at, bytes)| Piece::Bytes { at, bytes };
        head.map(bytes).chain(gap).chain(tail.map(bytes))
    }

    /// The cap of each stream in bytes.
    #[must_use]
    pub fn cap_bytes(&self) -> usize {
        self.stdout.head_cap + self.stdout.tail_cap
    }

    /// How much memory the capture takes: the bytes kept, room to fill, and handles.
    ///
    /// Bytes of a shared block that lie outside the kept pieces are not seen from here; see the bound above.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        [&self.stdout, &self.stderr]
            .into_iter()
            .flat_map(|stream| [&stream.head, &stream.tail])
            .map(Region::memory_bytes)
            .fold(size_of::<Self>(), usize::saturating_add)
    }

    /// Appends the bytes of `stream` at `wanted` to `into`, those of them that are there.
    pub(crate) fn copy_to(&self, stream: StreamId, wanted: Range<u64>, into: &mut Vec<u8>) {
        let stream = self.stream(stream);
        for (at, bytes) in stream
            .head
            .slices(wanted.start)
            .chain(stream.tail.slices(wanted.start))
        {
            let Some(left) = wanted.end.checked_sub(at).filter(|left| *left > 0) else {
                return;
            };
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            into.extend_from_slice(&bytes[..count]);
        }
    }

    const fn stream(&self, stream: StreamId) -> &Stream {
        match stream {
            StreamId::Stdout => &self.stdout,
            StreamId::Stderr => &self.stderr,
        }
    }

    const fn stream_mut(&mut self, stream: StreamId) -> &mut Stream {
        match stream {
            StreamId::Stdout => &mut self.stdout,
            StreamId::Stderr => &mut self.stderr,
        }
    }
}

#[derive(Debug)]
struct Stream {
    head: Region,
    /// Begins where a full head ends; empty before.
    tail: Region,
    head_cap: usize,
    tail_cap: usize,
    closed: bool,
}

impl Stream {
    fn new(cap: usize) -> Self {
        let head_cap = cap / 2;
        Self {
            head: Region::starting_at(0),
            tail: Region::starting_at(head_cap as u64),
            head_cap,
            tail_cap: cap - head_cap,
            closed: false,
        }
    }

    fn push(&mut self, mut piece: Bytes) {
        let room = self.head_cap - self.head.len();
        if piece.len() <= room {
            self.head.append(piece);
            return;
        }
        // Copied, so that the head, which is never dropped, does not hold the rest of this piece for good.
        self.head.append_copy(&piece[..room]);
        piece.advance(room);
        self.tail.append(piece);
        self.tail
            .drop_front(self.tail.len().saturating_sub(self.tail_cap));
    }

    fn total(&self) -> u64 {
        if self.tail.is_empty() {
            self.head.end()
        } else {
            self.tail.end()
        }
    }

    fn gap(&self) -> Option<Range<u64>> {
        let gap = self.head.end()..self.tail.start();
        (!self.tail.is_empty() && !gap.is_empty()).then_some(gap)
    }
}
