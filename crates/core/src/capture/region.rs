//! Bytes that follow on each other in a stream, appended at the back and dropped at the front.

use std::collections::VecDeque;
use std::mem;

use bytes::{Buf, Bytes, BytesMut};

use super::KEEP_FROM;

/// Sizes of the blocks that small pieces are copied into, in bytes: as large as what is there already, within these.
const MIN_BLOCK: usize = 256;
const MAX_BLOCK: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Region {
    /// Offset of the first byte that is there.
    start: u64,
    /// How many bytes are there, those in `open` counted.
    len: usize,
    /// In the order of their offsets, none empty.
    chunks: VecDeque<Chunk>,
    /// The newest small pieces, behind all chunks, in a block with room for more.
    open: BytesMut,
}

#[derive(Debug)]
struct Chunk {
    at: u64,
    bytes: Bytes,
}

impl Region {
    pub(super) fn starting_at(start: u64) -> Self {
        Self {
            start,
            len: 0,
            chunks: VecDeque::new(),
            open: BytesMut::new(),
        }
    }

    pub(super) const fn start(&self) -> u64 {
        self.start
    }

    /// Offset after the last byte, exclusive.
    pub(super) const fn end(&self) -> u64 {
        self.start.saturating_add(self.len as u64)
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn append(&mut self, piece: Bytes) {
        if piece.len() < KEEP_FROM {
            self.append_copy(&piece);
            return;
        }
        self.seal();
        let at = self.end();
        self.len += piece.len();
        self.push_chunk(at, piece);
    }

    pub(super) fn append_copy(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            if self.open_room() == 0 {
                self.seal();
                self.open = BytesMut::with_capacity(self.len.clamp(MIN_BLOCK, MAX_BLOCK));
            }
            let (fits, rest) = piece.split_at(self.open_room().min(piece.len()));
            self.open.extend_from_slice(fits);
            self.len += fits.len();
            piece = rest;
        }
    }

    /// Drops the first `count` bytes, or all.
    pub(super) fn drop_front(&mut self, count: usize) {
        let mut left = count.min(self.len);
        self.start = self.start.saturating_add(left as u64);
        self.len -= left;
        while left > 0 {
            let Some(front) = self.chunks.front_mut() else {
                self.open.advance(left);
                return;
            };
            if front.bytes.len() > left {
                front.bytes.advance(left);
                front.at = self.start;
                return;
            }
            left -= front.bytes.len();
            self.chunks.pop_front();
        }
    }

    /// The bytes from the offset `from` on with their offsets, none empty.
    pub(super) fn slices(&self, from: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self.chunks.partition_point(|chunk| chunk.end() <= from);
        let open = (self.open_at(), &self.open[..]);
        self.chunks
            .range(first..)
            .map(|chunk| (chunk.at, &chunk.bytes[..]))
            .chain(Some(open))
            .filter_map(move |(at, bytes)| {
                let skipped = usize::try_from(from.saturating_sub(at)).unwrap_or(usize::MAX);
                bytes
                    .get(skipped..)
                    .filter(|left| !left.is_empty())
                    .map(|left| (at.max(from), left))
            })
    }

    /// What is there, room to fill, and handles.
    pub(super) fn memory_bytes(&self) -> usize {
        self.len + self.open_room() + self.chunks.capacity() * size_of::<Chunk>()
    }

    fn open_room(&self) -> usize {
        self.open.capacity() - self.open.len()
    }

    /// Offset of the first byte in `open`.
    fn open_at(&self) -> u64 {
        self.end().saturating_sub(self.open.len() as u64)
    }

    /// Turns what `open` holds into a chunk and leaves the rest of its block to be filled.
    fn seal(&mut self) {
        let at = self.open_at();
        let filled = if self.open_room() == 0 {
            mem::take(&mut self.open)
        } else {
            self.open.split()
        };
        if !filled.is_empty() {
            self.push_chunk(at, filled.freeze());
        }
    }

    fn push_chunk(&mut self, at: u64, bytes: Bytes) {
        self.chunks.push_back(Chunk { at, bytes });
    }
}

impl Chunk {
    const fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes.len() as u64)
    }
}
