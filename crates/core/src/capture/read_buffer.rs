//! Where a stream's bytes are read into.

use std::mem;

use bytes::{Bytes, BytesMut};

use super::KEEP_FROM;

/// Size of the block for a stream that says little, in bytes.
const SMALL_BLOCK: usize = 4 * 1024;
/// Size of the block for a stream that filled the small one, in bytes: as much as a pipe holds.
const LARGE_BLOCK: usize = 64 * 1024;

/// Memory to read one stream into, which is then passed on without copying it.
///
/// A turn is: [`room`](Self::room), read into it, [`take`](Self::take), and again until the read would block, then
/// [`release`](Self::release).
///
/// | what | size |
/// | --- | --- |
/// | block at first, and again after a turn with no more than that | 4 KiB |
/// | block after a read that filled the room | 64 KiB |
/// | room that is offered | at least 4 KiB |
/// | pieces that are part of the block | from 4 KiB |
/// | pieces with memory of their own, of just their size | below 4 KiB |
///
/// So one byte never holds a block of 64 KiB, here, in a capture or in the queue of a log, and a block that is passed
/// on is used to all but a sixteenth.
#[derive(Debug)]
pub struct ReadBuffer {
    block: BytesMut,
    /// Capacity of the whole block; more than what `block` has where a part of it was passed on.
    block_bytes: usize,
    /// Capacity of the next one.
    next_block_bytes: usize,
    /// What was taken since the last release.
    turn_bytes: usize,
}

impl ReadBuffer {
    /// Makes one that has no memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            block: BytesMut::new(),
            block_bytes: 0,
            next_block_bytes: SMALL_BLOCK,
            turn_bytes: 0,
        }
    }

    /// Room to read into: the spare capacity, 4 KiB at least.
    ///
    /// Several reads may fill it before they are taken, each into what a call of this offers. Bytes that were not
    /// taken stay in front; they are moved, and copied for that, only when the room behind them gets short.
    pub fn room(&mut self) -> &mut BytesMut {
        if self.block.capacity() - self.block.len() < KEEP_FROM {
            let mut next = BytesMut::with_capacity(self.block.len() + self.next_block_bytes);
            next.extend_from_slice(&self.block);
            self.block_bytes = next.capacity();
            self.block = next;
        }
        &mut self.block
    }

    /// Takes everything that was read since the last call; empty if nothing was.
    pub fn take(&mut self) -> Bytes {
        let filled = self.block.len();
        self.turn_bytes = self.turn_bytes.saturating_add(filled);
        if filled < KEEP_FROM {
            let piece = Bytes::copy_from_slice(&self.block);
            self.block.clear();
            return piece;
        }
        if filled < self.block.capacity() {
            return self.block.split().freeze();
        }
        self.next_block_bytes = LARGE_BLOCK;
        mem::take(&mut self.block).freeze()
    }

    /// Gives memory back; to be called when the next read would have to wait.
    ///
    /// The rest of a block of which a piece was passed on is kept, for the piece holds its memory anyway. Bytes that
    /// were not taken are kept too.
    pub fn release(&mut self) {
        if mem::take(&mut self.turn_bytes) <= SMALL_BLOCK {
            self.next_block_bytes = SMALL_BLOCK;
        }
        if self.block.is_empty() && self.block.capacity() == self.block_bytes {
            self.block = BytesMut::new();
        }
    }

    /// How much memory is held to read into, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.block.capacity()
    }
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Reads `wanted` bytes, or as many as there is room for, and takes them.
    fn read(buffer: &mut ReadBuffer, wanted: usize) -> Bytes {
        let room = buffer.room();
        let count = wanted.min(room.capacity() - room.len());
        room.resize(room.len() + count, b'x');
        buffer.take()
    }

    #[test]
    fn a_new_one_has_no_memory() {
        assert_eq!(ReadBuffer::new().memory_bytes(), 0);
        assert_eq!(ReadBuffer::new().take(), Bytes::new());
    }

    #[test]
    fn the_block_grows_when_a_read_fills_it_and_shrinks_after_a_quiet_turn() {
        let mut buffer = ReadBuffer::new();
        assert_eq!(read(&mut buffer, usize::MAX).len(), SMALL_BLOCK);
        assert_eq!(read(&mut buffer, usize::MAX).len(), LARGE_BLOCK);
        buffer.release();
        assert_eq!(
            read(&mut buffer, usize::MAX).len(),
            LARGE_BLOCK,
            "after a busy turn"
        );
        buffer.release();
        assert_eq!(read(&mut buffer, 1).len(), 1);
        buffer.release();
        assert_eq!(
            read(&mut buffer, usize::MAX).len(),
            SMALL_BLOCK,
            "after a quiet turn"
        );
    }

    #[test]
    fn a_waiting_one_has_no_memory() {
        let mut buffer = ReadBuffer::new();
        read(&mut buffer, 10);
        assert_eq!(buffer.memory_bytes(), SMALL_BLOCK);
        buffer.release();
        assert_eq!(buffer.memory_bytes(), 0);
    }

    #[test]
    fn a_small_piece_leaves_the_block_as_it_was() {
        let mut buffer = ReadBuffer::new();
        let block = buffer.room().as_ptr();
        let small = read(&mut buffer, KEEP_FROM - 1);
        assert_ne!(small.as_ptr(), block);
        assert_eq!(buffer.room().capacity(), SMALL_BLOCK);
        let whole = read(&mut buffer, KEEP_FROM);
        assert_eq!(whole.as_ptr(), block, "it was handed on without a copy");
    }

    #[test]
    fn several_reads_can_be_taken_at_once() {
        let mut buffer = ReadBuffer::new();
        for _ in 0..1000 {
            buffer.room().extend_from_slice(b"0123456789");
        }
        assert_eq!(buffer.take(), b"0123456789".repeat(1000));
    }

    #[test]
    fn what_was_not_taken_survives_a_release() {
        let mut buffer = ReadBuffer::new();
        buffer.room().extend_from_slice(b"kept");
        buffer.release();
        assert_eq!(buffer.take(), &b"kept"[..]);
    }

    proptest! {
        #[test]
        fn a_block_that_is_passed_on_is_used_to_all_but_a_sixteenth(
            reads in vec((prop_oneof![0..5_000_usize, 4_000..70_000_usize], any::<bool>()), 0..60),
        ) {
            let mut buffer = ReadBuffer::new();
            for (wanted, release) in reads {
                let (block_bytes, spare) = (buffer.block_bytes, buffer.block.capacity());
                buffer.room();
                let passed_on = spare < block_bytes;
                if passed_on && buffer.block.capacity() != spare {
                    prop_assert!(spare * 16 < block_bytes, "{spare} of {block_bytes} bytes were left");
                }
                let piece = read(&mut buffer, wanted);
                prop_assert!(piece.len() <= wanted && piece.iter().all(|byte| *byte == b'x'));
                if release {
                    buffer.release();
                }
            }
        }
    }
}
