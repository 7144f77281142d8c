//! How a page is filled.

use std::io;

use bytes::Bytes;

use super::{BeyondEnd, MAX_PAGE_RUNS, MAX_READ_ATTEMPTS, Page, ReadError, is_written_elsewhere, recovery};
use crate::format::{self, FRAME_BYTES, Frame, frame_position, index_name, payload_name};
use crate::index::BLOCK_ENTRIES;
use crate::log::Shared;
use crate::log::state::{Place, SegmentView};
use crate::offset::{Offset, bytes_u64, bytes_usize};
use crate::record::{Entry, PageRun, StreamTag};
use crate::storage::{Access, StorageFile, read_full_at};

/// How many entries of other streams one call passes over.
const MAX_PASSED_ENTRIES: usize = 16 * 1024;

/// The open files of one segment and the block of its index that was read last.
#[derive(Debug)]
pub(super) struct Handles {
    start: u64,
    payload: Box<dyn StorageFile>,
    index: Box<dyn StorageFile>,
    block: Option<Block>,
}

/// Consecutive entries of an index.
#[derive(Debug)]
struct Block {
    first_entry: u64,
    frames: Vec<u8>,
}

/// One read of one page.
#[derive(Debug)]
pub(super) struct Fill<'a> {
    shared: &'a Shared,
    max_bytes: usize,
    stream: Option<StreamTag>,
    buffer: Vec<u8>,
    runs: Vec<FilledRun>,
    passed_entries: usize,
}

/// A run whose bytes are in the buffer.
#[derive(Debug)]
struct FilledRun {
    offset: u64,
    stream: StreamTag,
    time_ms: u64,
    at: usize,
    len: usize,
}

/// Why a segment gave no bytes.
#[derive(Debug)]
enum Miss {
    /// It was dropped meanwhile.
    Dropped,
    Failed(ReadError),
}

impl<'a> Fill<'a> {
    pub(super) fn new(shared: &'a Shared, max_bytes: usize, stream: Option<StreamTag>) -> Self {
        Self {
            shared,
            max_bytes,
            stream,
            buffer: Vec::new(),
            runs: Vec::new(),
            passed_entries: 0,
        }
    }

    pub(super) fn page(mut self, offset: u64, handles: &mut Option<Handles>) -> Result<Page, ReadError> {
        let mut attempts = 0;
        loop {
            let (place, total, gone) = {
                let state = self.shared.state();
                (state.place(offset), state.total, state.gone)
            };
            if gone {
                *handles = None;
                return Err(ReadError::Gone);
            }
            let (at, segment, gap) = match place {
                Place::Beyond => {
                    return Ok(Page {
                        beyond_end: Some(BeyondEnd { total }),
                        ..self.into_page(total, total)
                    });
                }
                Place::End { gap } => {
                    return Ok(Page {
                        gap,
                        ..self.into_page(total, total)
                    });
                }
                Place::Bytes { at, segment, gap } => (at, segment, gap),
            };
            attempts += 1;
            match self.fill(at, segment, total, handles) {
                Ok(next) => {
                    // The total may have grown since; a page must not claim the end of an older one.
                    let total = self.shared.state().total.max(next);
                    return Ok(Page {
                        gap,
                        ..self.into_page(next, total)
                    });
                }
                Err(Miss::Dropped) if attempts < MAX_READ_ATTEMPTS => {}
                Err(Miss::Dropped) => {
                    return Ok(Page {
                        gap,
                        ..self.into_page(at, total)
                    });
                }
                Err(Miss::Failed(error)) => return Err(error),
            }
        }
    }

    /// Fills the buffer from `at` on; says where the next page begins. Misses only with nothing read.
    fn fill(
        &mut self,
        at: u64,
        segment: SegmentView,
        total: u64,
        handles: &mut Option<Handles>,
    ) -> Result<u64, Miss> {
        let expected = bytes_usize(total.saturating_sub(at)).min(self.max_bytes);
        if self.stream.is_none() && self.buffer.capacity() < expected {
            self.buffer.reserve_exact(expected);
        }
        let mut next = at;
        let mut segment = segment;
        while self.has_room() {
            match self.take_from(next, &segment, handles) {
                Ok(end) if end > next => next = end,
                Ok(_) => break,
                Err(_) if next > at => break,
                Err(miss) => return Err(miss),
            }
            match self.shared.state().place(next) {
                Place::Bytes {
                    at,
                    segment: same_or_next,
                    gap: None,
                } if at == next => segment = same_or_next,
                _ => break,
            }
        }
        Ok(next)
    }

    fn has_room(&self) -> bool {
        self.buffer.len() < self.max_bytes
            && self.runs.len() < MAX_PAGE_RUNS
            && self.passed_entries < MAX_PASSED_ENTRIES
    }

    /// Takes bytes from one block of a segment's entries; says up to where it went.
    fn take_from(
        &mut self,
        from: u64,
        segment: &SegmentView,
        handles: &mut Option<Handles>,
    ) -> Result<u64, Miss> {
        let before = (
            self.buffer.len(),
            self.runs.len(),
            self.runs.last().map(|run| run.len),
        );
        let taken = self.open(segment.start, from, handles).and_then(|handles| {
            handles
                .load_block(from, segment)
                .map_err(|fault| fault.at(from))?;
            self.take_from_block(from, segment, handles)
                .map_err(|fault| fault.at(from))
        });
        // A file that was taken over by a newer segment gives that one's bytes, or makes no sense; either way its
        // segment is gone from the state by now.
        let dropped = self.is_dropped(segment.start).map_err(Miss::Failed)?;
        if dropped || taken.is_err() {
            self.buffer.truncate(before.0);
            self.runs.truncate(before.1);
            if let (Some(last), Some(len)) = (self.runs.last_mut(), before.2) {
                last.len = len;
            }
            *handles = None;
        }
        if dropped { Err(Miss::Dropped) } else { taken }
    }

    fn open<'h>(
        &self,
        start: u64,
        from: u64,
        handles: &'h mut Option<Handles>,
    ) -> Result<&'h mut Handles, Miss> {
        let stale = handles.take_if(|handles| handles.start != start);
        drop(stale);
        if handles.is_none() {
            let storage = &self.shared.storage;
            let folder = &self.shared.folder;
            let opened = storage
                .open(folder, &index_name(start), Access::Read)
                .and_then(|index| Ok((index, storage.open(folder, &payload_name(start), Access::Read)?)));
            match opened {
                Ok((index, payload)) => {
                    *handles = Some(Handles {
                        start,
                        payload,
                        index,
                        block: None,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let dropped = self.is_dropped(start).map_err(Miss::Failed)?;
                    return Err(if dropped {
                        Miss::Dropped
                    } else {
                        Miss::Failed(ReadError::Gone)
                    });
                }
                Err(source) => {
                    return Err(Miss::Failed(ReadError::Io {
                        offset: Offset::new(from),
                        source,
                    }));
                }
            }
        }
        handles.as_mut().ok_or(Miss::Dropped)
    }

    /// Whether the segment was dropped since it was looked up.
    fn is_dropped(&self, start: u64) -> Result<bool, ReadError> {
        if is_written_elsewhere(self.shared) {
            let name = payload_name(start);
            match self.shared.storage.open(&self.shared.folder, &name, Access::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    recovery::refresh(self.shared).map_err(|_| ReadError::Gone)?;
                }
                _ => return Ok(false),
            }
        }
        let state = self.shared.state();
        if state.gone {
            Err(ReadError::Gone)
        } else {
            Ok(!state.has_segment(start))
        }
    }

    fn take_from_block(&mut self, from: u64, segment: &SegmentView, handles: &Handles) -> Result<u64, Fault> {
        let block = handles.block.as_ref().ok_or(Fault::Damaged)?;
        let number = block.find(from).ok_or(Fault::Damaged)?;
        let mut next = from;
        // Bytes that are wanted and not yet read.
        let mut pending = Extent { from, to: from };
        for number in number..block.len() {
            let room = bytes_u64(self.max_bytes.saturating_sub(self.buffer.len()))
                .saturating_sub(pending.to.saturating_sub(pending.from));
            if next >= segment.end || room == 0 || self.runs.len() >= MAX_PAGE_RUNS {
                break;
            }
            let entry = block.entry(number).ok_or(Fault::Damaged)?;
            if next < entry.offset || next >= entry.end() {
                return Err(Fault::Damaged);
            }
            let to = entry.end().min(segment.end);
            let wanted = self.stream.is_none_or(|stream| stream == entry.stream);
            if wanted {
                let to = to.min(next.saturating_add(room));
                if pending.to != next {
                    self.read_payload(pending, handles)?;
                    pending = Extent { from: next, to: next };
                }
                let at = self.buffer.len() + bytes_usize(pending.to - pending.from);
                self.push_run(next, to, &entry, at);
                pending.to = to;
                next = to;
            } else {
                self.passed_entries += 1;
                next = to;
            }
        }
        self.read_payload(pending, handles)?;
        Ok(next)
    }

    fn push_run(&mut self, from: u64, to: u64, entry: &Entry, at: usize) {
        let len = bytes_usize(to - from);
        if let Some(last) = self.runs.last_mut() {
            let end = last.offset.saturating_add(bytes_u64(last.len));
            if end == from && last.stream == entry.stream && last.time_ms == entry.time_ms {
                last.len += len;
                return;
            }
        }
        self.runs.push(FilledRun {
            offset: from,
            stream: entry.stream,
            time_ms: entry.time_ms,
            at,
            len,
        });
    }

    fn read_payload(&mut self, extent: Extent, handles: &Handles) -> Result<(), Fault> {
        let len = bytes_usize(extent.to - extent.from);
        let position = extent.from - handles.start;
        let read = read_full_at(handles.payload.as_ref(), position, len, &mut self.buffer)?;
        if read == len { Ok(()) } else { Err(Fault::Damaged) }
    }

    fn into_page(self, next: u64, total: u64) -> Page {
        let bytes = Bytes::from(self.buffer);
        let runs = self.runs.into_iter().map(|run| PageRun {
            offset: Offset::new(run.offset),
            stream: run.stream,
            time_ms: run.time_ms,
            bytes: bytes.slice(run.at..run.at + run.len),
        });
        Page {
            runs: runs.collect(),
            next_offset: Offset::new(next),
            at_end: next >= total,
            gap: None,
            total_bytes: total,
            beyond_end: None,
        }
    }
}

/// Consecutive payload bytes.
#[derive(Debug, Clone, Copy)]
struct Extent {
    from: u64,
    to: u64,
}

impl Handles {
    /// Makes the block with the entry of `offset` the current one.
    fn load_block(&mut self, offset: u64, segment: &SegmentView) -> Result<(), Fault> {
        let mut first = segment.first_entry;
        let mut end = segment.end_entry;
        while end.saturating_sub(first) > BLOCK_ENTRIES {
            // Both stay multiples of a block, so that a block is read once for many pages.
            let blocks = (end - first).div_ceil(BLOCK_ENTRIES);
            let middle = first + (blocks / 2) * BLOCK_ENTRIES;
            if self.read_entry(middle)?.offset <= offset {
                first = middle;
            } else {
                end = middle;
            }
        }
        let needed = end.saturating_sub(first);
        let current = self.block.as_ref().filter(|block| block.first_entry == first);
        if current.is_some_and(|block| bytes_u64(block.len()) >= needed) {
            return Ok(());
        }
        let mut frames = self.block.take().map_or_else(Vec::new, |block| block.frames);
        frames.clear();
        let len = bytes_usize(needed.saturating_mul(FRAME_BYTES));
        let read = read_full_at(self.index.as_ref(), frame_position(first), len, &mut frames)?;
        if read < len {
            return Err(Fault::Damaged);
        }
        self.block = Some(Block {
            first_entry: first,
            frames,
        });
        Ok(())
    }

    fn read_entry(&self, number: u64) -> Result<Entry, Fault> {
        let mut frame = Vec::new();
        read_full_at(
            self.index.as_ref(),
            frame_position(number),
            bytes_usize(FRAME_BYTES),
            &mut frame,
        )?;
        match format::decode_frame(&frame) {
            Some(Frame::Entry(entry)) => Ok(entry),
            Some(Frame::Intent { .. }) | None => Err(Fault::Damaged),
        }
    }
}

impl Block {
    fn len(&self) -> usize {
        self.frames.len() / bytes_usize(FRAME_BYTES)
    }

    /// The n-th entry of the block; `None` also if its frame is bad.
    fn entry(&self, number: usize) -> Option<Entry> {
        let at = number.checked_mul(bytes_usize(FRAME_BYTES))?;
        match format::decode_frame(self.frames.get(at..)?)? {
            Frame::Entry(entry) => Some(entry),
            Frame::Intent { .. } => None,
        }
    }

    /// Which entry of the block holds `offset`.
    fn find(&self, offset: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.entry(middle)?.offset <= offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }
}

/// What is wrong with the files.
#[derive(Debug)]
enum Fault {
    Damaged,
    Io(io::Error),
}

impl Fault {
    fn at(self, offset: u64) -> Miss {
        let offset = Offset::new(offset);
        Miss::Failed(match self {
            Self::Damaged => ReadError::Damaged { offset },
            Self::Io(source) => ReadError::Io { offset, source },
        })
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
