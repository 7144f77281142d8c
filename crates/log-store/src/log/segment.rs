//! The segment that is being written.

use std::io;
use std::path::Path;

use crate::cap::SegmentLimit;
use crate::format::{
    self, FRAME_BYTES, PayloadFile, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind, frame_position,
    index_name, payload_name,
};
use crate::offset::{bytes_u64, bytes_usize};
use crate::record::{Portion, Room};
use crate::storage::{Access, Storage, StorageFile, write_all_at};

/// Pieces from this size on are written as they are; smaller ones are copied together first.
const DIRECT_PIECE_BYTES: usize = 16 * 1024;

/// How much is copied together.
const STAGED_BYTES: usize = 64 * 1024;

/// What becomes of the files of a dropped segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// They are removed.
    Removed,
    /// The next segment takes them over: neither pages nor inodes are given back and asked for again.
    TakenOver,
}

/// The files of the segment that is being written.
#[derive(Debug)]
pub(super) struct WrittenSegment {
    payload: Box<dyn StorageFile>,
    index: Box<dyn StorageFile>,
    header: SegmentHeader,
    limit: SegmentLimit,
    written_bytes: u64,
    entries: u64,
    /// The size of the payload file: more than `written_bytes` while it still holds bytes of the segment before.
    payload_file_bytes: u64,
}

impl WrittenSegment {
    /// Creates the files, or opens those that were taken over, with a payload file of `payload_file_bytes`.
    pub(super) fn create(
        storage: &dyn Storage,
        folder: &Path,
        header: SegmentHeader,
        limit: SegmentLimit,
        payload_file_bytes: u64,
    ) -> io::Result<Self> {
        let file = |name: &str| match header.payload_file {
            PayloadFile::New => storage.create(folder, name),
            PayloadFile::TakenOver => storage.open(folder, name, Access::ReadWrite),
        };
        let payload = file(&payload_name(header.start))?;
        let index = file(&index_name(header.start))?;
        if header.payload_file == PayloadFile::TakenOver {
            // Not to nothing: some file systems take that for a file about to be replaced and write it out on close.
            index.truncate(SEGMENT_HEADER_BYTES)?;
        }
        let encoded = format::encode_segment_header(&header);
        if let (_, Some(error)) = write_all_at(index.as_ref(), 0, &encoded) {
            return Err(error);
        }
        Ok(Self {
            payload,
            index,
            header,
            limit,
            written_bytes: 0,
            entries: 0,
            payload_file_bytes,
        })
    }

    pub(super) fn kind(&self) -> SegmentKind {
        self.header.kind
    }

    /// The offset behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.header.start.saturating_add(self.written_bytes)
    }

    pub(super) fn room(&self) -> Room {
        let used = frame_position(self.entries).saturating_add(self.written_bytes);
        Room {
            payload_bytes: self.limit.max_payload_bytes.saturating_sub(self.written_bytes),
            disk_bytes: self.limit.max_disk_bytes.saturating_sub(used),
        }
    }

    /// Whether not one more byte fits.
    pub(super) fn is_full(&self) -> bool {
        let room = self.room();
        room.payload_bytes == 0 || room.disk_bytes <= FRAME_BYTES
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        self.disk_bytes_with(0, 0)
    }

    /// What the files take with so much more in them.
    pub(super) fn disk_bytes_with(&self, payload_bytes: u64, index_bytes: u64) -> u64 {
        let payload_bytes = self
            .written_bytes
            .saturating_add(payload_bytes)
            .max(self.payload_file_bytes);
        payload_bytes
            .saturating_add(frame_position(self.entries))
            .saturating_add(index_bytes)
    }

    /// Whether so much more fits beside the old bytes that the payload file may still hold.
    pub(super) fn fits_untrimmed(&self, payload_bytes: u64, index_bytes: u64) -> bool {
        self.disk_bytes_with(payload_bytes, index_bytes) <= self.limit.max_disk_bytes
    }

    /// Cuts the bytes of the segment before.
    pub(super) fn trim(&mut self) -> io::Result<()> {
        if self.payload_file_bytes > self.written_bytes {
            self.payload.truncate(self.written_bytes)?;
            self.payload_file_bytes = self.written_bytes;
        }
        Ok(())
    }

    /// Writes payload, then frames. On an error the portion is cut to what was written whole.
    pub(super) fn write(&mut self, portion: &mut Portion<'_>, sync: bool) -> Option<io::Error> {
        if let Err(error) = self.write_intent(portion.bytes) {
            portion.cut(0);
            return Some(error);
        }
        let (payload_bytes, mut failed) = self.write_payload(&portion.pieces);
        if failed.is_none() && sync {
            failed = self.payload.sync().err();
        }
        if failed.is_some() {
            portion.cut(payload_bytes);
        }
        if let Err(error) = self.write_frames(portion) {
            failed = failed.or(Some(error));
        }
        if failed.is_none() && sync {
            failed = self.index.sync().err();
        }
        self.written_bytes = self.written_bytes.saturating_add(portion.bytes);
        self.entries = self.entries.saturating_add(bytes_u64(portion.entries.len()));
        self.payload_file_bytes = self.payload_file_bytes.max(self.written_bytes);
        if failed.is_some() {
            // The room may be needed for the end record. Opening a log copes with what can't be cut.
            let _ = self.index.truncate(frame_position(self.entries));
            let _ = self.payload.truncate(self.written_bytes);
            self.payload_file_bytes = self.written_bytes;
        }
        failed
    }

    /// Where the payload file was taken over, says in the index how far it may hold fresh bytes.
    fn write_intent(&self, payload_bytes: u64) -> io::Result<()> {
        if self.header.payload_file == PayloadFile::New {
            return Ok(());
        }
        let mut frame = Vec::new();
        format::encode_intent(self.end(), payload_bytes, &mut frame);
        write_all_at(self.index.as_ref(), frame_position(self.entries), &frame)
            .1
            .map_or(Ok(()), Err)
    }

    /// Says how many bytes were written, and why not the rest.
    fn write_payload(&self, pieces: &[&[u8]]) -> (u64, Option<io::Error>) {
        let mut written = 0;
        let mut put = |bytes: &[u8]| {
            let position = self.written_bytes.saturating_add(written);
            let (count, failed) = write_all_at(self.payload.as_ref(), position, bytes);
            written = written.saturating_add(bytes_u64(count));
            failed
        };
        let mut staged = Vec::new();
        let last = pieces.len().saturating_sub(1);
        for (number, piece) in pieces.iter().enumerate() {
            let direct = piece.len() >= DIRECT_PIECE_BYTES || (staged.is_empty() && number == last);
            if !staged.is_empty() && (direct || staged.len() + piece.len() > STAGED_BYTES) {
                if let Some(error) = put(&staged) {
                    return (written, Some(error));
                }
                staged.clear();
            }
            if direct {
                if let Some(error) = put(piece) {
                    return (written, Some(error));
                }
            } else {
                staged.extend_from_slice(piece);
            }
        }
        let failed = put(&staged);
        (written, failed)
    }

    /// Writes the frames; on an error the portion is cut to the entries whose frames are whole.
    fn write_frames(&self, portion: &mut Portion<'_>) -> io::Result<()> {
        let mut frames = Vec::with_capacity(portion.entries.len() * bytes_usize(FRAME_BYTES));
        for entry in &portion.entries {
            format::encode_entry(entry, &mut frames);
        }
        let (count, failed) = write_all_at(self.index.as_ref(), frame_position(self.entries), &frames);
        let Some(error) = failed else { return Ok(()) };
        let whole = bytes_u64(count) / FRAME_BYTES;
        let kept = portion.entries.get(..bytes_usize(whole)).unwrap_or_default();
        let bytes = kept.iter().map(|entry| u64::from(entry.len)).sum();
        portion.cut(bytes);
        Err(error)
    }
}

const _: () = assert!(SEGMENT_HEADER_BYTES.is_multiple_of(FRAME_BYTES));
