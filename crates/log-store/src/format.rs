//! The bytes on disk, version 1.
//!
//! A log is a folder of its own. All numbers are little-endian; all checksums are CRC-32 (IEEE).
//!
//! | file | content |
//! | --- | --- |
//! | `header` | the header, and behind it the end record once the log was finished |
//! | `NNNNNNNNNNNNNNNNNNNN.log` | payload of the segment that begins at that offset (20 decimal digits): exactly the bytes of the streams |
//! | `NNNNNNNNNNNNNNNNNNNN.idx` | index of that segment: a segment header, then one frame per entry |
//!
//! The first segment is the head. `cat *.log` prints all that was kept, in order.
//!
//! # Header
//!
//! | at | bytes | content |
//! | --- | --- | --- |
//! | 0 | 8 | magic `89 43 4c 4f 47 0d 0a 1a` |
//! | 8 | 2 | version: 1 |
//! | 10 | 1 | mode: 0 rolling, 1 keep head |
//! | 11 | 1 | 0 |
//! | 12 | 4 | length of the application's bytes, at most 40 KiB |
//! | 16 | 8 | cap in bytes |
//! | 24 | 8 | head in bytes |
//! | 32 | 4 | checksum of bytes 0 to 31 and of the application's bytes |
//! | 36 | 4 | 0 |
//! | 40 | n | the application's bytes |
//!
//! # End record
//!
//! Right behind the header.
//!
//! | at | bytes | content |
//! | --- | --- | --- |
//! | 0 | 4 | magic `CEND` |
//! | 4 | 4 | length of the application's bytes, at most 16 KiB |
//! | 8 | 8 | total payload bytes appended |
//! | 16 | 8 | of these, bytes kept |
//! | 24 | 8 | offset at which logging stopped; all ones if it did not |
//! | 32 | 8 | time of the first byte that was not written; all ones if there is none |
//! | 40 | 8 | time of the last byte appended; all ones if there is none |
//! | 48 | 8 | number that belongs to the reason: the budget's limit or the floor in bytes |
//! | 56 | 8 | second number that belongs to the reason: the free space in bytes |
//! | 64 | 1 | reason: 0 none, 1 cap, 2 budget, 3 free-space floor, 4 write failed, 5 stalled, 6 the owner's |
//! | 65 | 1 | kind of the failed write, see below |
//! | 66 | 2 | length of the reason's text, at most 512 |
//! | 68 | 4 | checksum of bytes 0 to 67, of the text and of the application's bytes |
//! | 72 | n | the reason's text, UTF-8, then the application's bytes |
//!
//! Kinds of failed writes, as `std::io::ErrorKind` calls them: 0 another, 1 `NotFound`, 2 `PermissionDenied`,
//! 3 `AlreadyExists`, 4 `WriteZero`, 5 `StorageFull`, 6 `QuotaExceeded`, 7 `FileTooLarge`, 8 `ReadOnlyFilesystem`,
//! 9 `NotADirectory`, 10 `InvalidInput`, 11 `TimedOut`, 12 `Interrupted`, 13 `OutOfMemory`,
//! 14 `StaleNetworkFileHandle`, 15 `ResourceBusy`, 16 `Unsupported`, 17 `BrokenPipe`.
//!
//! # Segment header
//!
//! | at | bytes | content |
//! | --- | --- | --- |
//! | 0 | 8 | magic `89 43 49 44 58 0d 0a 1a` |
//! | 8 | 2 | version: 1 |
//! | 10 | 1 | 0 head, 1 tail |
//! | 11 | 1 | 1 if the files were taken over from a dropped segment: the payload file may hold its bytes behind the written ones |
//! | 12 | 4 | 0 |
//! | 16 | 8 | offset of the first byte; as in the file's name |
//! | 24 | 8 | time of the byte before that; all ones if there is none |
//! | 32 | 8 | time of the first byte behind the head; all ones if not known |
//! | 40 | 20 | 0 |
//! | 60 | 4 | checksum of bytes 0 to 59 |
//!
//! # Frame
//!
//! | at | bytes | content |
//! | --- | --- | --- |
//! | 0 | 4 | checksum of bytes 4 to 31 |
//! | 4 | 4 | checksum of the payload |
//! | 8 | 8 | offset of the first byte |
//! | 16 | 8 | time in ms |
//! | 24 | 4 | length of the payload, 1 to 65536; in an intent 1 to 2^32 - 1 |
//! | 28 | 1 | stream |
//! | 29 | 1 | 1 entry, 2 intent |
//! | 30 | 2 | 0 |
//!
//! Frames follow one another without a hole in the offsets. Payload is written first, its frames after. Before
//! payload is written into a file that was taken over, an **intent** is written where the next frame will stand: it
//! says how many bytes from its offset on may be fresh. The frames then replace it. Wherever the log is cut, then,
//! the frames in front of the cut are right, and payload behind the last of them is known to be unverified.

use std::io;

use crate::cap::CapMode;
use crate::log::{StopReason, WriteEnd};
use crate::offset::{Offset, bytes_u64, bytes_usize};
use crate::record::{Entry, MAX_ENTRY_BYTES, StreamTag};

/// The version of the format that this crate writes, and the only one that it reads.
pub const FORMAT_VERSION: u16 = 1;

/// The most bytes of its own that the application may put in the header: 40 KiB.
pub const MAX_HEADER_APPLICATION_BYTES: usize = 40 * 1024;

/// The most bytes of its own that the application may put in the end record: 16 KiB.
pub const MAX_END_APPLICATION_BYTES: usize = 16 * 1024;

/// The most bytes of text that the record keeps of a reason.
pub(crate) const MAX_REASON_BYTES: usize = 512;

/// The name of the file with header and end record.
pub(crate) const HEADER_NAME: &str = "header";

pub(crate) const HEADER_BYTES: usize = 40;
pub(crate) const END_BYTES: usize = 72;
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 64;
pub(crate) const FRAME_BYTES: u64 = 32;
const FRAME_LEN: usize = 32;
const SEGMENT_HEADER_LEN: usize = 64;

const HEADER_MAGIC: &[u8; 8] = b"\x89CLOG\r\n\x1a";
const SEGMENT_MAGIC: &[u8; 8] = b"\x89CIDX\r\n\x1a";
const END_MAGIC: &[u8; 4] = b"CEND";
const NONE: u64 = u64::MAX;

/// The kinds of write errors that have a number in the end record, from 1. Only ever added to at the end.
const ERROR_KINDS: [io::ErrorKind; 17] = [
    io::ErrorKind::NotFound,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::AlreadyExists,
    io::ErrorKind::WriteZero,
    io::ErrorKind::StorageFull,
    io::ErrorKind::QuotaExceeded,
    io::ErrorKind::FileTooLarge,
    io::ErrorKind::ReadOnlyFilesystem,
    io::ErrorKind::NotADirectory,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::TimedOut,
    io::ErrorKind::Interrupted,
    io::ErrorKind::OutOfMemory,
    io::ErrorKind::StaleNetworkFileHandle,
    io::ErrorKind::ResourceBusy,
    io::ErrorKind::Unsupported,
    io::ErrorKind::BrokenPipe,
];

/// What the header of a log says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogHeader {
    /// The version of the format.
    pub version: u16,
    /// What happens at the cap.
    pub mode: CapMode,
    /// The cap in bytes.
    pub cap_bytes: u64,
    /// The head in bytes.
    pub head_bytes: u64,
    /// The application's own bytes, as it gave them.
    pub application: Vec<u8>,
}

/// What the end record of a finished log says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndRecord {
    /// All payload bytes that were appended, kept or not.
    pub total_bytes: u64,
    /// Of these, the bytes that were kept.
    pub kept_bytes: u64,
    /// How the writing ended: never [`WriteEnd::Open`].
    pub write_end: WriteEnd,
    /// The time of the first byte that was not written because logging had stopped.
    pub stopped_time_ms: Option<u64>,
    /// The time of the last byte that was appended, written or not.
    pub last_time_ms: Option<u64>,
    /// The application's own bytes, as it gave them.
    pub application: Vec<u8>,
}

/// Whether a segment is the head or belongs to the tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    Head,
    Tail,
}

/// Where the payload file of a segment came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadFile {
    New,
    TakenOver,
}

/// What the header of a segment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) kind: SegmentKind,
    pub(crate) payload_file: PayloadFile,
    pub(crate) start: u64,
    pub(crate) previous_time_ms: Option<u64>,
    pub(crate) first_tail_time_ms: Option<u64>,
}

/// One frame of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Entry(Entry),
    Intent { offset: u64, len: u32 },
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    NoLog,
    Version(u16),
    Damaged,
}

pub(crate) fn payload_name(start: u64) -> String {
    format!("{start:020}.log")
}

pub(crate) fn index_name(start: u64) -> String {
    format!("{start:020}.idx")
}

/// The start of the segment whose payload or index has that name.
pub(crate) fn segment_start(name: &str) -> Option<(u64, SegmentFile)> {
    let (number, file) = match name.split_once('.')? {
        (number, "log") => (number, SegmentFile::Payload),
        (number, "idx") => (number, SegmentFile::Index),
        _ => return None,
    };
    if number.len() != 20 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((number.parse().ok()?, file))
}

/// Which of a segment's two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentFile {
    Payload,
    Index,
}

pub(crate) fn encode_header(header: &LogHeader) -> Vec<u8> {
    let mode = match header.mode {
        CapMode::Rolling => 0,
        CapMode::KeepHead => 1,
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + header.application.len());
    bytes.extend_from_slice(HEADER_MAGIC);
    bytes.extend_from_slice(&header.version.to_le_bytes());
    bytes.extend_from_slice(&[mode, 0]);
    bytes.extend_from_slice(&len_u32(&header.application).to_le_bytes());
    bytes.extend_from_slice(&header.cap_bytes.to_le_bytes());
    bytes.extend_from_slice(&header.head_bytes.to_le_bytes());
    let crc = crc_of(&[&bytes, &header.application]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&header.application);
    bytes
}

/// The header at the start of `bytes`.
pub(crate) fn decode_header(bytes: &[u8]) -> Result<LogHeader, HeaderFault> {
    let magic = bytes.get(..8).ok_or(HeaderFault::Damaged)?;
    if magic != HEADER_MAGIC {
        return Err(HeaderFault::NoLog);
    }
    let mut fields = Fields(bytes.get(8..).unwrap_or_default());
    let version = fields.u16().ok_or(HeaderFault::Damaged)?;
    if version != FORMAT_VERSION {
        return Err(HeaderFault::Version(version));
    }
    decode_header_fields(&mut fields, bytes, version).ok_or(HeaderFault::Damaged)
}

fn decode_header_fields(fields: &mut Fields<'_>, bytes: &[u8], version: u16) -> Option<LogHeader> {
    let mode = match fields.u8()? {
        0 => CapMode::Rolling,
        1 => CapMode::KeepHead,
        _ => return None,
    };
    fields.zeros(1)?;
    let application_bytes = bytes_usize(fields.u32()?.into());
    let cap_bytes = fields.u64()?;
    let head_bytes = fields.u64()?;
    let crc = fields.u32()?;
    fields.zeros(4)?;
    if application_bytes > MAX_HEADER_APPLICATION_BYTES {
        return None;
    }
    let application = fields.take(application_bytes)?;
    if crc_of(&[bytes.get(..32)?, application]) != crc {
        return None;
    }
    Some(LogHeader {
        version,
        mode,
        cap_bytes,
        head_bytes,
        application: application.to_vec(),
    })
}

pub(crate) fn encode_end(end: &EndRecord) -> Vec<u8> {
    let (stopped_at, code, kind, numbers, text) = match &end.write_end {
        WriteEnd::Open | WriteEnd::Finished | WriteEnd::NotRecorded => (NONE, 0, 0, (0, 0), ""),
        WriteEnd::Stopped { at, reason } => {
            let (code, kind, numbers, text) = reason_fields(reason);
            (at.get(), code, kind, numbers, text)
        }
    };
    let text = cut_text(text, MAX_REASON_BYTES);
    let mut bytes = Vec::with_capacity(END_BYTES + text.len() + end.application.len());
    bytes.extend_from_slice(END_MAGIC);
    bytes.extend_from_slice(&len_u32(&end.application).to_le_bytes());
    for number in [
        end.total_bytes,
        end.kept_bytes,
        stopped_at,
        end.stopped_time_ms.unwrap_or(NONE),
        end.last_time_ms.unwrap_or(NONE),
        numbers.0,
        numbers.1,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&[code, kind]);
    bytes.extend_from_slice(&u16::try_from(text.len()).unwrap_or(0).to_le_bytes());
    let crc = crc_of(&[&bytes, text.as_bytes(), &end.application]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend_from_slice(&end.application);
    bytes
}

/// The end record that `bytes` are; `None` if they are none.
pub(crate) fn decode_end(bytes: &[u8]) -> Option<EndRecord> {
    let mut fields = Fields(bytes);
    if fields.take(4)? != END_MAGIC {
        return None;
    }
    let application_bytes = bytes_usize(fields.u32()?.into());
    let total_bytes = fields.u64()?;
    let kept_bytes = fields.u64()?;
    let stopped_at = fields.u64()?;
    let stopped_time_ms = some_time(fields.u64()?);
    let last_time_ms = some_time(fields.u64()?);
    let numbers = (fields.u64()?, fields.u64()?);
    let code = fields.u8()?;
    let kind = fields.u8()?;
    let text_bytes = usize::from(fields.u16()?);
    let crc = fields.u32()?;
    if application_bytes > MAX_END_APPLICATION_BYTES || text_bytes > MAX_REASON_BYTES {
        return None;
    }
    let text = fields.take(text_bytes)?;
    let application = fields.take(application_bytes)?;
    if crc_of(&[bytes.get(..68)?, text, application]) != crc || kept_bytes > total_bytes {
        return None;
    }
    let write_end = if code == 0 {
        WriteEnd::Finished
    } else {
        let text = std::str::from_utf8(text).ok()?;
        let reason = reason_of(code, kind, numbers, text)?;
        if stopped_at > total_bytes {
            return None;
        }
        WriteEnd::Stopped {
            at: Offset::new(stopped_at),
            reason,
        }
    };
    let application = application.to_vec();
    Some(EndRecord {
        total_bytes,
        kept_bytes,
        write_end,
        stopped_time_ms,
        last_time_ms,
        application,
    })
}

pub(crate) fn encode_segment_header(header: &SegmentHeader) -> Vec<u8> {
    let kind = match header.kind {
        SegmentKind::Head => 0,
        SegmentKind::Tail => 1,
    };
    let payload_file = match header.payload_file {
        PayloadFile::New => 0,
        PayloadFile::TakenOver => 1,
    };
    let mut bytes = Vec::with_capacity(SEGMENT_HEADER_LEN);
    bytes.extend_from_slice(SEGMENT_MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[kind, payload_file, 0, 0, 0, 0]);
    bytes.extend_from_slice(&header.start.to_le_bytes());
    bytes.extend_from_slice(&header.previous_time_ms.unwrap_or(NONE).to_le_bytes());
    bytes.extend_from_slice(&header.first_tail_time_ms.unwrap_or(NONE).to_le_bytes());
    bytes.extend_from_slice(&[0; 20]);
    let crc = crc_of(&[&bytes]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

pub(crate) fn decode_segment_header(bytes: &[u8]) -> Option<SegmentHeader> {
    let mut fields = Fields(bytes.get(..SEGMENT_HEADER_LEN)?);
    if fields.take(8)? != SEGMENT_MAGIC || fields.u16()? != FORMAT_VERSION {
        return None;
    }
    let kind = match fields.u8()? {
        0 => SegmentKind::Head,
        1 => SegmentKind::Tail,
        _ => return None,
    };
    let payload_file = match fields.u8()? {
        0 => PayloadFile::New,
        1 => PayloadFile::TakenOver,
        _ => return None,
    };
    fields.zeros(4)?;
    let start = fields.u64()?;
    let previous_time_ms = some_time(fields.u64()?);
    let first_tail_time_ms = some_time(fields.u64()?);
    fields.zeros(20)?;
    (fields.u32()? == crc_of(&[bytes.get(..60)?])).then_some(SegmentHeader {
        kind,
        payload_file,
        start,
        previous_time_ms,
        first_tail_time_ms,
    })
}

/// Appends the frame of an entry.
pub(crate) fn encode_entry(entry: &Entry, into: &mut Vec<u8>) {
    encode_frame(entry, 1, into);
}

/// Appends an intent to write `len` bytes from `offset` on.
pub(crate) fn encode_intent(offset: u64, len: u64, into: &mut Vec<u8>) {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let entry = Entry {
        offset,
        len,
        stream: StreamTag::new(0),
        time_ms: 0,
        payload_crc: 0,
    };
    encode_frame(&entry, 2, into);
}

fn encode_frame(entry: &Entry, kind: u8, into: &mut Vec<u8>) {
    let mut frame = [0; FRAME_LEN];
    let mut at = 4;
    let mut put = |bytes: &[u8]| {
        if let Some(field) = frame.get_mut(at..at + bytes.len()) {
            field.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    put(&entry.payload_crc.to_le_bytes());
    put(&entry.offset.to_le_bytes());
    put(&entry.time_ms.to_le_bytes());
    put(&entry.len.to_le_bytes());
    put(&[entry.stream.get(), kind, 0, 0]);
    let (crc, rest) = frame.split_at_mut(4);
    crc.copy_from_slice(&crc_of(&[rest]).to_le_bytes());
    into.extend_from_slice(&frame);
}

/// The frame that `bytes` are; `None` if they are none.
pub(crate) fn decode_frame(bytes: &[u8]) -> Option<Frame> {
    let mut fields = Fields(bytes.get(..FRAME_LEN)?);
    let crc = fields.u32()?;
    let payload_crc = fields.u32()?;
    let offset = fields.u64()?;
    let time_ms = fields.u64()?;
    let len = fields.u32()?;
    let stream = StreamTag::new(fields.u8()?);
    let kind = fields.u8()?;
    fields.zeros(2)?;
    if len == 0 || crc_of(&[bytes.get(4..FRAME_LEN)?]) != crc || offset.checked_add(len.into()).is_none() {
        return None;
    }
    match kind {
        1 if bytes_usize(len.into()) <= MAX_ENTRY_BYTES => Some(Frame::Entry(Entry {
            offset,
            len,
            stream,
            time_ms,
            payload_crc,
        })),
        2 => Some(Frame::Intent { offset, len }),
        _ => None,
    }
}

/// Where the frame of the n-th entry begins.
pub(crate) fn frame_position(entry: u64) -> u64 {
    entry
        .saturating_mul(FRAME_BYTES)
        .saturating_add(SEGMENT_HEADER_BYTES)
}

/// The longest start of `text` that has at most `max_bytes`.
pub(crate) fn cut_text(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn reason_fields(reason: &StopReason) -> (u8, u8, (u64, u64), &str) {
    match reason {
        StopReason::CapReached => (1, 0, (0, 0), ""),
        StopReason::BudgetExhausted { max_bytes } => (2, 0, (*max_bytes, 0), ""),
        StopReason::FreeSpaceFloor {
            floor_bytes,
            free_bytes,
        } => (3, 0, (*floor_bytes, *free_bytes), ""),
        StopReason::WriteFailed { kind, message } => {
            let place = ERROR_KINDS
                .iter()
                .position(|known| known == kind)
                .map_or(0, |place| place + 1);
            (4, u8::try_from(place).unwrap_or(0), (0, 0), message)
        }
        StopReason::Stalled => (5, 0, (0, 0), ""),
        StopReason::ByOwner { reason } => (6, 0, (0, 0), reason),
    }
}

fn reason_of(code: u8, kind: u8, numbers: (u64, u64), text: &str) -> Option<StopReason> {
    Some(match code {
        1 => StopReason::CapReached,
        2 => StopReason::BudgetExhausted { max_bytes: numbers.0 },
        3 => StopReason::FreeSpaceFloor {
            floor_bytes: numbers.0,
            free_bytes: numbers.1,
        },
        4 => {
            let known = usize::from(kind)
                .checked_sub(1)
                .and_then(|place| ERROR_KINDS.get(place));
            StopReason::WriteFailed {
                kind: known.copied().unwrap_or(io::ErrorKind::Other),
                message: text.to_owned(),
            }
        }
        5 => StopReason::Stalled,
        6 => StopReason::ByOwner {
            reason: text.to_owned(),
        },
        _ => return None,
    })
}

/// What is left to decode.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn zeros(&mut self, len: usize) -> Option<()> {
        self.take(len)?.iter().all(|byte| *byte == 0).then_some(())
    }
}

fn some_time(time_ms: u64) -> Option<u64> {
    (time_ms != NONE).then_some(time_ms)
}

fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes_u64(bytes.len())).unwrap_or(u32::MAX)
}

fn crc_of(parts: &[&[u8]]) -> u32 {
    if let [part] = parts {
        return crc32fast::hash(part);
    }
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}
