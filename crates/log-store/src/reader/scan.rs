//! Checking one segment, entry by entry, in bounded memory.

use std::io;
use std::path::Path;

use crate::format::{
    self, FRAME_BYTES, Frame, PayloadFile, SEGMENT_HEADER_BYTES, frame_position, index_name, payload_name,
};
use crate::log::state::Segment;
use crate::offset::{bytes_u64, bytes_usize};
use crate::record::Entry;
use crate::storage::{Access, Storage, StorageFile, read_full_at};

/// How much of an index is read at once.
const INDEX_WINDOW_BYTES: usize = 64 * 1024;

/// How much payload is read at once.
const PAYLOAD_WINDOW_BYTES: usize = 256 * 1024;

/// What became of looking at a segment.
#[derive(Debug)]
pub(super) enum Scanned {
    Good(ScannedSegment),
    /// It is gone: a writer elsewhere dropped it.
    Dropped,
    /// Its files still have the content of a dropped segment: the writer died when it took them over.
    NotBegun,
    /// Its header is bad, or a file is no file.
    Unreadable,
}

/// A segment up to its last good entry.
#[derive(Debug)]
pub(super) struct ScannedSegment {
    pub(super) segment: Segment,
    pub(super) cut_index_bytes: u64,
    pub(super) unverified_bytes: u64,
}

/// Checks the segment that begins at `start`, from behind what is `known` of it.
pub(super) fn segment(
    storage: &dyn Storage,
    folder: &Path,
    start: u64,
    known: Option<&Segment>,
) -> io::Result<Scanned> {
    let open = |name: &str| match storage.open(folder, name, Access::Read) {
        Ok(file) => Ok(Ok(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Err(Scanned::Dropped)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(Err(Scanned::Unreadable)),
        Err(error) => Err(error),
    };
    let index = match open(&index_name(start))? {
        Ok(index) => index,
        Err(scanned) => return Ok(scanned),
    };
    let payload = match open(&payload_name(start))? {
        Ok(payload) => payload,
        Err(scanned) => return Ok(scanned),
    };
    let segment = if let Some(known) = known {
        known.clone()
    } else {
        let mut bytes = Vec::new();
        read_full_at(index.as_ref(), 0, bytes_usize(SEGMENT_HEADER_BYTES), &mut bytes)?;
        match format::decode_segment_header(&bytes) {
            Some(header) if header.start == start => Segment::new(header),
            Some(_) => return Ok(Scanned::NotBegun),
            None => {
                // A writer elsewhere may be taking the file over under another name.
                let gone = open(&index_name(start))?.err();
                return Ok(gone.unwrap_or(Scanned::Unreadable));
            }
        }
    };
    let mut scan = Scan {
        index: index.as_ref(),
        payload: Window {
            file: payload.as_ref(),
            position: 0,
            bytes: Vec::new(),
        },
        payload_bytes: payload.size()?,
        segment,
    };
    let scanned = scan.run()?;
    if scanned.segment.is_cut {
        // A writer elsewhere may have dropped the segment and taken over its file meanwhile.
        if let Err(gone) = open(&index_name(start))? {
            return Ok(gone);
        }
    }
    Ok(Scanned::Good(scanned))
}

struct Scan<'a> {
    index: &'a dyn StorageFile,
    payload: Window<'a>,
    payload_bytes: u64,
    segment: Segment,
}

impl Scan<'_> {
    fn run(&mut self) -> io::Result<ScannedSegment> {
        let mut intent_bytes = None;
        'index: loop {
            let mut frames = Vec::new();
            let position = frame_position(self.segment.entries);
            read_full_at(self.index, position, INDEX_WINDOW_BYTES, &mut frames)?;
            for frame in frames.chunks_exact(bytes_usize(FRAME_BYTES)) {
                match format::decode_frame(frame) {
                    Some(Frame::Entry(entry)) if self.is_good(&entry)? => self.take(&entry),
                    Some(Frame::Intent { offset, len }) if offset == self.segment.end() => {
                        intent_bytes = Some(u64::from(len));
                        break 'index;
                    }
                    _ => break 'index,
                }
            }
            if frames.len() < INDEX_WINDOW_BYTES {
                break;
            }
        }
        let good_bytes = frame_position(self.segment.entries) + intent_bytes.map_or(0, |_| FRAME_BYTES);
        let cut_index_bytes = self.index.size()?.saturating_sub(good_bytes);
        let behind = self.payload_bytes.saturating_sub(self.segment.len);
        let unverified_bytes = match self.segment.header.payload_file {
            PayloadFile::New => behind,
            PayloadFile::TakenOver => behind.min(intent_bytes.unwrap_or(0)),
        };
        self.segment.is_cut = cut_index_bytes > 0 || unverified_bytes > 0;
        Ok(ScannedSegment {
            segment: self.segment.clone(),
            cut_index_bytes,
            unverified_bytes,
        })
    }

    fn is_good(&mut self, entry: &Entry) -> io::Result<bool> {
        let from = self.segment.len;
        let to = from.saturating_add(entry.len.into());
        if entry.offset != self.segment.end() || to > self.payload_bytes {
            return Ok(false);
        }
        let payload = self.payload.get(from, bytes_usize(entry.len.into()))?;
        Ok(payload.is_some_and(|payload| crc32fast::hash(payload) == entry.payload_crc))
    }

    fn take(&mut self, entry: &Entry) {
        self.segment.index.push(entry.offset);
        self.segment.entries = self.segment.index.entries();
        self.segment.len = self.segment.len.saturating_add(entry.len.into());
        self.segment.last_time_ms = Some(entry.time_ms);
    }
}

/// A part of a file that moves forward.
struct Window<'a> {
    file: &'a dyn StorageFile,
    position: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// The `len` bytes at `position`; `None` if the file ends before.
    fn get(&mut self, position: u64, len: usize) -> io::Result<Option<&[u8]>> {
        let end = position.saturating_add(bytes_u64(len));
        let held_end = self.position.saturating_add(bytes_u64(self.bytes.len()));
        if position < self.position || end > held_end {
            self.bytes.clear();
            self.position = position;
            read_full_at(
                self.file,
                position,
                PAYLOAD_WINDOW_BYTES.max(len),
                &mut self.bytes,
            )?;
        }
        let from = bytes_usize(position - self.position);
        Ok(self.bytes.get(from..from.saturating_add(len)))
    }
}
