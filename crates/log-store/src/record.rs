//! Runs of bytes, and how a batch of them becomes payload and entries.

use std::fmt;

use bytes::Bytes;

use crate::offset::{Offset, bytes_u64, bytes_usize};

/// The most payload bytes that one entry of the index stands for; longer runs get several entries.
pub const MAX_ENTRY_BYTES: usize = 64 * 1024;

/// Runs of one stream whose times differ by at most this share an entry, so that many one-byte writes do not make
/// the index larger than the payload.
pub const MERGE_WINDOW_MS: u64 = 10;

/// The most pieces of a batch that are written at once.
const MAX_PORTION_PIECES: usize = 4096;

/// Which stream a run came from. The log gives the numbers no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamTag(u8);

impl StreamTag {
    /// The stream of that number.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number of the stream.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for StreamTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes to append: what one read of a stream gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    /// The stream that the bytes came from.
    pub stream: StreamTag,
    /// When they were read, in milliseconds of the owner's choice of epoch.
    pub time_ms: u64,
    /// The bytes; none is allowed and leaves no trace.
    pub bytes: &'a [u8],
}

/// Bytes of a page: consecutive bytes of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRun {
    /// Where the first byte stands in the merged output.
    pub offset: Offset,
    /// The stream that the bytes came from.
    pub stream: StreamTag,
    /// When the first byte of the entry was read, in the milliseconds of the appended runs. Later bytes are at most
    /// [`MERGE_WINDOW_MS`] away.
    pub time_ms: u64,
    /// The bytes; never empty. All runs of a page share one allocation.
    pub bytes: Bytes,
}

impl PageRun {
    /// The offset right behind the last byte.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.offset.saturating_add(bytes_u64(self.bytes.len()))
    }
}

/// What the index keeps of one piece of payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) stream: StreamTag,
    pub(crate) time_ms: u64,
    pub(crate) payload_crc: u32,
}

impl Entry {
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }
}

/// What a segment still takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Payload bytes.
    pub(crate) payload_bytes: u64,
    /// Payload and index bytes together.
    pub(crate) disk_bytes: u64,
}

/// A walk through the runs of a batch. Stands on a byte, or at the end: never on an empty rest of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch<'a> {
    runs: &'a [Run<'a>],
    next: usize,
    taken: usize,
    left: u64,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(runs: &'a [Run<'a>]) -> Self {
        let left = runs
            .iter()
            .map(|run| bytes_u64(run.bytes.len()))
            .fold(0, u64::saturating_add);
        let mut batch = Self {
            runs,
            next: 0,
            taken: 0,
            left,
        };
        batch.advance(0);
        batch
    }

    /// Bytes not yet taken.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.left
    }

    /// The time of the next byte.
    pub(crate) fn next_time_ms(&self) -> Option<u64> {
        self.runs.get(self.next).map(|run| run.time_ms)
    }

    /// Passes over `bytes` and says the time of the last of them.
    pub(crate) fn skip(&mut self, bytes: u64) -> Option<u64> {
        let mut left = bytes_usize(bytes);
        let mut last_time_ms = None;
        while left > 0
            && let Some(run) = self.runs.get(self.next)
        {
            last_time_ms = Some(run.time_ms);
            let count = run.bytes.len().saturating_sub(self.taken).min(left);
            self.advance(count);
            left -= count;
        }
        last_time_ms
    }

    /// Takes what fits `room`, as entries from `offset` on, each `entry_bytes` large in the index.
    pub(crate) fn take(&mut self, offset: u64, entry_bytes: u64, room: Room) -> Portion<'a> {
        let mut portion = Portion::default();
        let mut open_crc = crc32fast::Hasher::new();
        let mut room = room;
        while let Some(run) = self.runs.get(self.next) {
            let open_room = portion.open_room(run);
            let overhead = if open_room.is_some() { 0 } else { entry_bytes };
            let fits = room.payload_bytes.min(room.disk_bytes.saturating_sub(overhead));
            let rest = run.bytes.get(self.taken..).unwrap_or_default();
            let count = rest
                .len()
                .min(open_room.unwrap_or(MAX_ENTRY_BYTES))
                .min(bytes_usize(fits));
            let joins = self.taken > 0 && !portion.pieces.is_empty();
            if count == 0 || (!joins && portion.pieces.len() >= MAX_PORTION_PIECES) {
                break;
            }
            if open_room.is_none() {
                portion.seal(&mut open_crc);
                portion.entries.push(Entry {
                    offset: offset.saturating_add(portion.bytes),
                    len: 0,
                    stream: run.stream,
                    time_ms: run.time_ms,
                    payload_crc: 0,
                });
            }
            open_crc.update(rest.get(..count).unwrap_or_default());
            if let Some(entry) = portion.entries.last_mut() {
                entry.len = entry.len.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            }
            // Where a run goes on behind the last piece, the two are one piece and so one write.
            let joined = if joins {
                portion.pieces.pop().map_or(0, <[u8]>::len)
            } else {
                0
            };
            let end = self.taken + count;
            portion.pieces.push(
                run.bytes
                    .get(self.taken.saturating_sub(joined)..end)
                    .unwrap_or_default(),
            );
            portion.bytes += bytes_u64(count);
            room.payload_bytes = room.payload_bytes.saturating_sub(bytes_u64(count));
            room.disk_bytes = room.disk_bytes.saturating_sub(overhead + bytes_u64(count));
            portion.last_time_ms = run.time_ms;
            self.advance(count);
        }
        portion.seal(&mut open_crc);
        portion
    }

    fn advance(&mut self, count: usize) {
        self.taken += count;
        self.left = self.left.saturating_sub(bytes_u64(count));
        while self
            .runs
            .get(self.next)
            .is_some_and(|run| self.taken >= run.bytes.len())
        {
            self.next += 1;
            self.taken = 0;
        }
    }
}

/// What one segment takes of a batch at once.
#[derive(Debug, Default)]
pub(crate) struct Portion<'a> {
    pub(crate) entries: Vec<Entry>,
    /// The payload, in order.
    pub(crate) pieces: Vec<&'a [u8]>,
    pub(crate) bytes: u64,
    pub(crate) last_time_ms: u64,
}

impl Portion<'_> {
    /// Keeps the first `bytes` only: what a failing write still wrote.
    pub(crate) fn cut(&mut self, bytes: u64) {
        let Some(first) = self.entries.first().map(|entry| entry.offset) else {
            return;
        };
        let end = first.saturating_add(bytes);
        self.entries.retain(|entry| entry.offset < end);
        self.bytes = self.bytes.min(bytes);
        if let Some(last) = self.entries.last_mut().filter(|entry| entry.end() > end) {
            let skip = bytes_usize(last.offset - first);
            let len = bytes_usize(end - last.offset);
            let mut crc = crc32fast::Hasher::new();
            each_part(&self.pieces, skip, len, |part| crc.update(part));
            last.payload_crc = crc.finalize();
            last.len = u32::try_from(len).unwrap_or(u32::MAX);
        }
        if let Some(last) = self.entries.last() {
            self.last_time_ms = last.time_ms;
        }
    }

    /// How much of `run` the last entry still takes; `None` if it needs an entry of its own.
    fn open_room(&self, run: &Run<'_>) -> Option<usize> {
        let entry = self.entries.last()?;
        let room = MAX_ENTRY_BYTES.saturating_sub(bytes_usize(entry.len.into()));
        let merges = entry.stream == run.stream && entry.time_ms.abs_diff(run.time_ms) <= MERGE_WINDOW_MS;
        (merges && room > 0).then_some(room)
    }

    /// Puts the checksum into the last entry.
    fn seal(&mut self, open_crc: &mut crc32fast::Hasher) {
        if let Some(entry) = self.entries.last_mut() {
            entry.payload_crc = std::mem::take(open_crc).finalize();
        }
    }
}

/// Calls `with` for the parts of `len` bytes that begin `skip` bytes into `pieces`.
fn each_part(pieces: &[&[u8]], skip: usize, len: usize, mut with: impl FnMut(&[u8])) {
    let (mut skip, mut left) = (skip, len);
    for piece in pieces {
        let part = piece.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(piece.len());
        let part = part.get(..left.min(part.len())).unwrap_or_default();
        left -= part.len();
        with(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Room = Room {
        payload_bytes: u64::MAX,
        disk_bytes: u64::MAX,
    };

    fn run(stream: u8, time_ms: u64, bytes: &[u8]) -> Run<'_> {
        Run {
            stream: StreamTag::new(stream),
            time_ms,
            bytes,
        }
    }

    fn check(runs: &[Run<'_>], room: Room, expected: &[(u64, u32)]) {
        let mut batch = Batch::new(runs);
        let portion = batch.take(100, 32, room);
        let entries: Vec<_> = portion
            .entries
            .iter()
            .map(|entry| (entry.offset - 100, entry.len))
            .collect();
        assert_eq!(entries, expected);
        let payload = portion.pieces.concat();
        assert_eq!(bytes_u64(payload.len()), portion.bytes);
        for entry in &portion.entries {
            let from = bytes_usize(entry.offset - 100);
            let part = &payload[from..from + bytes_usize(entry.len.into())];
            assert_eq!(crc32fast::hash(part), entry.payload_crc);
        }
        let all: Vec<u8> = runs.iter().flat_map(|run| run.bytes).copied().collect();
        assert!(all.starts_with(&payload));
        assert_eq!(batch.left_bytes(), bytes_u64(all.len() - payload.len()));
    }

    #[test]
    fn runs_become_entries() {
        check(&[], ROOMY, &[]);
        check(&[run(1, 0, b"")], ROOMY, &[]);
        check(
            &[run(1, 0, b"ab"), run(1, 0, b""), run(1, 10, b"c")],
            ROOMY,
            &[(0, 3)],
        );
        check(&[run(1, 0, b"ab"), run(1, 11, b"c")], ROOMY, &[(0, 2), (2, 1)]);
        check(
            &[run(1, 0, b"ab"), run(2, 0, b"c"), run(1, 0, b"d")],
            ROOMY,
            &[(0, 2), (2, 1), (3, 1)],
        );
        check(
            &[run(1, 0, b"ab"), run(1, 0, b"cd")],
            Room {
                payload_bytes: 3,
                ..ROOMY
            },
            &[(0, 3)],
        );
        check(
            &[run(1, 0, b"ab"), run(2, 0, b"cd")],
            Room {
                disk_bytes: 66,
                ..ROOMY
            },
            &[(0, 2)],
        );
        check(
            &[run(1, 0, b"ab"), run(2, 0, b"cd")],
            Room {
                disk_bytes: 67,
                ..ROOMY
            },
            &[(0, 2), (2, 1)],
        );
        check(
            &[run(1, 0, b"ab")],
            Room {
                disk_bytes: 32,
                ..ROOMY
            },
            &[],
        );
        let long = vec![7; 2 * MAX_ENTRY_BYTES + 5];
        check(
            &[run(1, 0, &long)],
            ROOMY,
            &[(0, 65536), (65536, 65536), (131_072, 5)],
        );
    }

    #[test]
    fn a_long_run_is_one_piece_and_many_short_runs_are_bounded() {
        let long = vec![7; 3 * MAX_ENTRY_BYTES];
        assert_eq!(Batch::new(&[run(1, 0, &long)]).take(0, 32, ROOMY).pieces.len(), 1);
        let short = vec![run(1, 0, b"x"); MAX_PORTION_PIECES + 1];
        assert_eq!(
            Batch::new(&short).take(0, 32, ROOMY).bytes,
            bytes_u64(MAX_PORTION_PIECES)
        );
    }

    #[test]
    fn a_cut_portion_keeps_true_checksums() {
        let runs = [run(1, 0, b"abc"), run(1, 0, b"def"), run(2, 5, b"gh")];
        for bytes in 0..=8_u32 {
            let mut portion = Batch::new(&runs).take(0, 32, ROOMY);
            portion.cut(bytes.into());
            assert_eq!(portion.entries.last().map_or(0, Entry::end), bytes.into());
            for entry in &portion.entries {
                let part = &b"abcdefgh"[bytes_usize(entry.offset)..bytes_usize(entry.end())];
                assert_eq!(crc32fast::hash(part), entry.payload_crc);
            }
        }
    }

    #[test]
    fn skipping_says_the_time_of_the_last_byte_passed_over() {
        let runs = [run(1, 3, b"abc"), run(1, 4, b""), run(1, 9, b"def")];
        let mut batch = Batch::new(&runs);
        assert_eq!(batch.skip(0), None);
        assert_eq!(batch.skip(3), Some(3));
        assert_eq!((batch.next_time_ms(), batch.left_bytes()), (Some(9), 3));
        assert_eq!(batch.skip(9), Some(9));
        assert_eq!((batch.next_time_ms(), batch.left_bytes()), (None, 0));
    }
}
