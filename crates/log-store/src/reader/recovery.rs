//! Opening a log from its files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::{ReadError, lock_look, scan};
use crate::format::{
    self, END_BYTES, EndRecord, HEADER_BYTES, HEADER_NAME, HeaderFault, LogHeader, MAX_END_APPLICATION_BYTES,
    MAX_HEADER_APPLICATION_BYTES, MAX_REASON_BYTES, SegmentFile, payload_name,
};
use crate::log::state::Segment;
use crate::log::{Shared, Source, State, WriteEnd};
use crate::offset::{Offset, bytes_usize};
use crate::storage::{Access, ListedKind, Storage, read_full_at};

/// The most files in the folder of a log; one of ours has at most 15.
const MAX_FOLDER_FILES: usize = 256;

const MAX_HEADER_FILE_BYTES: usize =
    HEADER_BYTES + MAX_HEADER_APPLICATION_BYTES + END_BYTES + MAX_REASON_BYTES + MAX_END_APPLICATION_BYTES;

/// What opening a log found, and what it cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Segments with a good header.
    pub segments: u64,
    /// Good entries.
    pub records: u64,
    /// Payload bytes that the good entries stand for; all were compared with their checksums.
    pub verified_bytes: u64,
    /// Bytes of index files behind the last good frame: a torn tail, or damage.
    pub cut_index_bytes: u64,
    /// Payload behind the last good entry of the last segment.
    pub unverified: Option<Unverified>,
    /// What is wrong in front of the last segment's end, in the order of the offsets.
    pub damage: Vec<Damage>,
    /// Whether the log has an end record.
    pub end_record: EndRecordState,
    /// Bytes that the end record calls kept and that were not found.
    pub missing_bytes: u64,
    /// Entries of the folder that are no part of the log, and payload files without an index.
    pub ignored_files: u64,
}

impl Recovery {
    /// Whether the log is as its writer left it: finished, nothing cut, nothing missing.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.cut_index_bytes == 0
            && self.unverified.is_none()
            && self.damage.is_empty()
            && self.missing_bytes == 0
            && self.end_record == EndRecordState::Present
    }
}

/// Payload that nothing vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unverified {
    /// Where it begins: the end of what was verified.
    pub offset: Offset,
    /// How much there is. Where the writer had taken over an older file, bytes that it did not come to write are older
    /// output.
    pub bytes: u64,
}

/// Something wrong in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Where the segment begins, as its name says.
    pub segment: Offset,
    /// The first byte that could not be verified.
    pub at: Offset,
}

/// Whether a log has an end record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndRecordState {
    /// There is none: the writer did not come to it.
    #[default]
    Absent,
    /// There is.
    Present,
    /// Bytes stand in its place that are none.
    Damaged,
}

/// Header and end record of a log, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogRecord {
    /// The header.
    pub header: LogHeader,
    /// The end record; `None` if there is no good one.
    pub end: Option<EndRecord>,
    /// Whether there is one.
    pub end_state: EndRecordState,
}

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no log in that folder.
    #[error("`{}` is no log", folder.display())]
    NotALog {
        /// The folder.
        folder: PathBuf,
    },
    /// The log was written in a format that this crate does not read.
    #[error("the log has format version {version}, this program reads {supported}")]
    UnsupportedVersion {
        /// The version found.
        version: u16,
        /// The version that is read.
        supported: u16,
    },
    /// The header is torn or damaged.
    #[error("the header of the log in `{}` is damaged", folder.display())]
    DamagedHeader {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds more than a log can.
    #[error("the folder of the log holds more than {max_files} files")]
    TooManyFiles {
        /// How many a log may have.
        max_files: usize,
    },
    /// The files could not be read.
    #[error("the log in `{}` cannot be read", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// Reads header and end record of a log and nothing else; cheap, however large the log is.
///
/// # Errors
/// [`OpenError`].
pub fn read_log_record(storage: &dyn Storage, folder: &Path) -> Result<LogRecord, OpenError> {
    let io_error = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => OpenError::NotALog {
            folder: folder.to_path_buf(),
        },
        _ => OpenError::Io {
            folder: folder.to_path_buf(),
            source,
        },
    };
    let file = storage
        .open(folder, HEADER_NAME, Access::Read)
        .map_err(io_error)?;
    let mut bytes = Vec::new();
    read_full_at(file.as_ref(), 0, MAX_HEADER_FILE_BYTES, &mut bytes).map_err(io_error)?;
    let header = format::decode_header(&bytes).map_err(|fault| match fault {
        HeaderFault::NoLog => OpenError::NotALog {
            folder: folder.to_path_buf(),
        },
        HeaderFault::Version(version) => OpenError::UnsupportedVersion {
            version,
            supported: format::FORMAT_VERSION,
        },
        HeaderFault::Damaged => OpenError::DamagedHeader {
            folder: folder.to_path_buf(),
        },
    })?;
    let rest = bytes
        .get(HEADER_BYTES + header.application.len()..)
        .unwrap_or_default();
    let end = format::decode_end(rest);
    let end_state = match &end {
        Some(_) => EndRecordState::Present,
        None if rest.is_empty() => EndRecordState::Absent,
        None => EndRecordState::Damaged,
    };
    Ok(LogRecord {
        header,
        end,
        end_state,
    })
}

pub(super) fn open(storage: Arc<dyn Storage>, folder: &Path) -> Result<Shared, OpenError> {
    let record = read_log_record(storage.as_ref(), folder)?;
    let header = record.header.clone();
    let state = look(storage.as_ref(), folder, record, &[])?;
    Ok(Shared::new(
        storage,
        folder.to_path_buf(),
        header,
        Source::Disk(Mutex::new(())),
        state,
    ))
}

pub(super) fn refresh(shared: &Shared) -> Result<(), OpenError> {
    let Source::Disk(one_look) = &shared.source else {
        return Ok(());
    };
    let _one_look = lock_look(one_look);
    let (known, total) = {
        let state = shared.state();
        if state.end_record.is_some() {
            return Ok(());
        }
        (state.segments.clone(), state.total)
    };
    let record = read_log_record(shared.storage.as_ref(), &shared.folder)?;
    let mut state = look(shared.storage.as_ref(), &shared.folder, record, &known)?;
    // Between dropping a segment and creating the next one the files show less than was there before.
    state.total = state.total.max(total);
    *shared.state() = state;
    Ok(())
}

pub(super) fn read_unverified(shared: &Shared, max_bytes: usize) -> Result<Bytes, ReadError> {
    let (tail, start) = {
        let state = shared.state();
        (
            state.recovery.unverified,
            state.segments.last().map(Segment::start),
        )
    };
    let (Some(tail), Some(start)) = (tail, start) else {
        return Ok(Bytes::new());
    };
    let mut bytes = Vec::new();
    let max_bytes = bytes_usize(tail.bytes).min(max_bytes);
    let position = tail.offset.bytes_since(Offset::new(start));
    shared
        .storage
        .open(&shared.folder, &payload_name(start), Access::Read)
        .and_then(|file| read_full_at(file.as_ref(), position, max_bytes, &mut bytes))
        .map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ReadError::Gone,
            _ => ReadError::Io {
                offset: tail.offset,
                source,
            },
        })?;
    Ok(Bytes::from(bytes))
}

/// Looks at the files; what is `known` of a segment is not checked again.
fn look(
    storage: &dyn Storage,
    folder: &Path,
    record: LogRecord,
    known: &[Segment],
) -> Result<State, OpenError> {
    let io_error = |source| OpenError::Io {
        folder: folder.to_path_buf(),
        source,
    };
    let listed = storage.list(folder, MAX_FOLDER_FILES + 1).map_err(io_error)?;
    if listed.len() > MAX_FOLDER_FILES {
        return Err(OpenError::TooManyFiles {
            max_files: MAX_FOLDER_FILES,
        });
    }
    let mut recovery = Recovery {
        end_record: record.end_state,
        ..Recovery::default()
    };
    let mut files: BTreeMap<u64, (bool, bool)> = BTreeMap::new();
    for entry in listed {
        let name = entry.name.to_str().filter(|_| entry.kind == ListedKind::File);
        match name.map(|name| (name, format::segment_start(name))) {
            Some((_, Some((start, SegmentFile::Index)))) => files.entry(start).or_default().0 = true,
            Some((_, Some((start, SegmentFile::Payload)))) => files.entry(start).or_default().1 = true,
            Some((HEADER_NAME, None)) => {}
            Some((_, None)) | None => recovery.ignored_files += 1,
        }
    }
    let mut state = State::new(WriteEnd::NotRecorded);
    let mut last_tail = None;
    for (start, (has_index, has_payload)) in files {
        if !(has_index && has_payload) {
            recovery.ignored_files += 1;
            continue;
        }
        let previous_end = state.segments.last().map_or(0, Segment::end);
        let known = known.iter().find(|segment| segment.start() == start);
        let scanned = scan::segment(storage, folder, start, known).map_err(io_error)?;
        match scanned {
            scan::Scanned::Dropped => {}
            scan::Scanned::NotBegun => recovery.ignored_files += 2,
            scan::Scanned::Unreadable => recovery.damage.push(damage(start, start)),
            scan::Scanned::Good(_) if start < previous_end => recovery.damage.push(damage(start, start)),
            scan::Scanned::Good(scanned) => {
                if let Some((segment, tail)) = last_tail.replace((start, scanned.unverified_bytes)) {
                    note_cut(&mut recovery, &state, segment, tail);
                }
                recovery.segments += 1;
                recovery.records = recovery.records.saturating_add(scanned.segment.entries);
                recovery.verified_bytes = recovery.verified_bytes.saturating_add(scanned.segment.len);
                recovery.cut_index_bytes = recovery.cut_index_bytes.saturating_add(scanned.cut_index_bytes);
                state.segments.push(scanned.segment);
            }
        }
    }
    if let Some((_, bytes)) = last_tail.filter(|(_, bytes)| *bytes > 0) {
        let offset = Offset::new(state.segments.last().map_or(0, Segment::end));
        recovery.unverified = Some(Unverified { offset, bytes });
    }
    settle_end(&mut state, &mut recovery, record.end);
    state.recovery = recovery;
    Ok(state)
}

/// A segment that is not the last has no business with bytes behind its last entry.
fn note_cut(recovery: &mut Recovery, state: &State, start: u64, unverified_bytes: u64) {
    let Some(segment) = state.segments.last() else {
        return;
    };
    if unverified_bytes > 0 || segment.is_cut {
        recovery.damage.push(damage(start, segment.end()));
    }
}

/// Takes total and end from the end record, if it agrees with what is there.
fn settle_end(state: &mut State, recovery: &mut Recovery, end: Option<EndRecord>) {
    let last_end = state.segments.last().map_or(0, Segment::end);
    state.total = last_end;
    state.last_time_ms = state.segments.last().and_then(|segment| segment.last_time_ms);
    let Some(end) = end else { return };
    if end.total_bytes < last_end || end.kept_bytes < recovery.verified_bytes {
        recovery.end_record = EndRecordState::Damaged;
        return;
    }
    state.total = end.total_bytes;
    state.write_end = end.write_end.clone();
    state.stopped_time_ms = end.stopped_time_ms;
    state.last_time_ms = end.last_time_ms;
    recovery.missing_bytes = end.kept_bytes.saturating_sub(recovery.verified_bytes);
    state.end_record = Some(end);
}

fn damage(segment: u64, at: u64) -> Damage {
    Damage {
        segment: Offset::new(segment),
        at: Offset::new(at),
    }
}
