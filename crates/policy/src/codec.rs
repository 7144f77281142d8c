//! Records as bytes, for the header and the end of a log.
//!
//! | bytes | content |
//! | --- | --- |
//! | 1 | the version, [`RECORD_VERSION`] |
//! | the rest | the [`Record`] in bincode 2's standard configuration: little endian, integers of variable length |
//!
//! Fields go by name, so that a table in another order reads the same records; all other choices go by their place
//! in their list, so that new ones come last. A record with a field that this version does not know is
//! [`CodecError::Malformed`]. Nothing outside of this module names the encoding.

use bincode::{config, error::DecodeError, serde as coding};
use procession_core::Outcome;
use serde::{Deserialize, Serialize};

use crate::{decision::Decision, receipt::Receipt};

#[cfg(test)]
mod tests;

/// The version byte of the records that are written.
pub const RECORD_VERSION: u8 = 1;
/// The largest record, in bytes, inclusive, its version byte counted.
pub const MAX_RECORD_BYTES: usize = 1 << 20;
/// What decoding may claim, in bytes: an integer of one byte counts as the eight that it may become.
const MAX_DECODED_BYTES: usize = 8 * MAX_RECORD_BYTES;

/// What is written down about a session's limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Before it started: what was decided.
    Decision(Decision),
    /// After its end: how it ended and what was observed.
    End(Box<EndRecord>),
}

/// What is written down at a session's end; whole in itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRecord {
    /// What was decided.
    pub decision: Decision,
    /// How it ended.
    pub outcome: Outcome,
    /// What was observed.
    pub receipt: Receipt,
}

/// A record that cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// There are no bytes.
    #[error("the record is empty")]
    Empty,
    /// Another version wrote it.
    #[error("the record has version {version}, this program reads version {RECORD_VERSION}")]
    UnknownVersion {
        /// Its version.
        version: u8,
    },
    /// It is larger than a record may be.
    #[error("the record has {bytes} bytes, the limit is {limit_bytes}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit, inclusive.
        limit_bytes: usize,
    },
    /// It goes on after its end.
    #[error("the record has {bytes} bytes after its end")]
    TrailingBytes {
        /// How many bytes follow.
        bytes: usize,
    },
    /// It is cut short.
    #[error("the record ends before its time")]
    CutShort,
    /// Its bytes are no record.
    #[error("the bytes are no record")]
    Malformed,
    /// It has no form as bytes.
    #[error("the record cannot be encoded")]
    Unencodable,
}

/// The record as bytes.
///
/// # Errors
/// [`CodecError::TooLarge`] above [`MAX_RECORD_BYTES`], which only an outcome with a great many processes can be.
pub fn encode_record(record: &Record) -> Result<Vec<u8>, CodecError> {
    let body = coding::encode_to_vec(record, config::standard()).map_err(|_| CodecError::Unencodable)?;
    let mut bytes = Vec::with_capacity(body.len().saturating_add(1));
    bytes.push(RECORD_VERSION);
    bytes.extend(body);
    check_size(&bytes)?;
    Ok(bytes)
}

/// The record that the bytes hold, all of them.
///
/// Takes any bytes: it does not panic, and never claims more memory for one text or list than eight times
/// [`MAX_RECORD_BYTES`].
///
/// # Errors
/// Every [`CodecError`] but [`CodecError::Unencodable`].
pub fn decode_record(bytes: &[u8]) -> Result<Record, CodecError> {
    check_size(bytes)?;
    let body = match bytes.split_first() {
        None => return Err(CodecError::Empty),
        Some((&RECORD_VERSION, body)) => body,
        Some((&version, _)) => return Err(CodecError::UnknownVersion { version }),
    };
    let limited = config::standard().with_limit::<MAX_DECODED_BYTES>();
    let (record, read) = coding::decode_from_slice(body, limited).map_err(|error| match error {
        DecodeError::UnexpectedEnd { .. } => CodecError::CutShort,
        _ => CodecError::Malformed,
    })?;
    match body.len().saturating_sub(read) {
        0 => Ok(record),
        trailing => Err(CodecError::TrailingBytes { bytes: trailing }),
    }
}

const fn check_size(bytes: &[u8]) -> Result<(), CodecError> {
    if bytes.len() > MAX_RECORD_BYTES {
        return Err(CodecError::TooLarge {
            bytes: bytes.len(),
            limit_bytes: MAX_RECORD_BYTES,
        });
    }
    Ok(())
}
