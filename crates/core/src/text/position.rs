//! A reader's own place.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::capture::Capture;
use crate::stream::StreamId;

const VERSION: &str = "c1";
const RADIX: u32 = 36;
/// More than any place takes: two numbers of 13 digits, the version and two dots are 30.
const MAX_TEXT_BYTES: usize = 32;

/// How far a reader has come in a session's output: an offset in each stream.
///
/// The place belongs to the reader, and nothing is taken away by reading, so any number of readers get everything.
/// Its text form is for storing and passing on, not for reading:
///
/// | part | form |
/// | --- | --- |
/// | version | `c1` |
/// | offset in stdout | `.`, then base 36 in lower case, no zeros in front |
/// | offset in stderr | the same |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReadPosition {
    /// Offset of the next byte of stdout.
    pub stdout: u64,
    /// Offset of the next byte of stderr.
    pub stderr: u64,
}

impl ReadPosition {
    /// Before the first byte of both streams.
    pub const START: Self = Self { stdout: 0, stderr: 0 };

    /// Behind everything that came so far.
    #[must_use]
    pub fn at_end(capture: &Capture) -> Self {
        Self {
            stdout: capture.total(StreamId::Stdout),
            stderr: capture.total(StreamId::Stderr),
        }
    }

    /// The offset in `stream`.
    #[must_use]
    pub const fn offset(self, stream: StreamId) -> u64 {
        match stream {
            StreamId::Stdout => self.stdout,
            StreamId::Stderr => self.stderr,
        }
    }

    /// How many bytes of both streams came behind this place, kept or not.
    #[must_use]
    pub fn unread_bytes(self, capture: &Capture) -> u64 {
        StreamId::ALL
            .into_iter()
            .map(|stream| capture.total(stream).saturating_sub(self.offset(stream)))
            .fold(0, u64::saturating_add)
    }
}

impl fmt::Display for ReadPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}.{}.{}", encode(self.stdout), encode(self.stderr))
    }
}

impl From<ReadPosition> for String {
    fn from(position: ReadPosition) -> Self {
        position.to_string()
    }
}

impl FromStr for ReadPosition {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, ParsePositionError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(ParsePositionError::TooLong {
                bytes: text.len(),
                max_bytes: MAX_TEXT_BYTES,
            });
        }
        let mut parts = text.split('.');
        let (Some(version), Some(stdout), Some(stderr), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(ParsePositionError::Malformed);
        };
        if version != VERSION {
            return Err(ParsePositionError::UnknownVersion);
        }
        let number = |digits, stream| parse(digits).ok_or(ParsePositionError::NotAnOffset { stream });
        Ok(Self {
            stdout: number(stdout, StreamId::Stdout)?,
            stderr: number(stderr, StreamId::Stderr)?,
        })
    }
}

impl TryFrom<String> for ReadPosition {
    type Error = ParsePositionError;

    fn try_from(text: String) -> Result<Self, ParsePositionError> {
        text.parse()
    }
}

/// Why a text is not a [`ReadPosition`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParsePositionError {
    /// No place has such a long text.
    #[error("a cursor has at most {max_bytes} bytes, this has {bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest that is looked at, inclusive.
        max_bytes: usize,
    },
    /// It does not have the three parts of a place.
    #[error("not a cursor that this product gave out")]
    Malformed,
    /// It is of a form that is not known here.
    #[error("a cursor of an unknown version")]
    UnknownVersion,
    /// A part is no number, is written in another way than ours, or is too large.
    #[error("the cursor's offset in {stream} is not valid")]
    NotAnOffset {
        /// The stream whose part it is.
        stream: StreamId,
    },
}

fn encode(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        // A remainder by 36 fits and is a digit.
        let digit = u32::try_from(number % u64::from(RADIX)).unwrap_or_default();
        digits.extend(char::from_digit(digit, RADIX));
        number /= u64::from(RADIX);
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// Reads what [`encode`] writes and nothing else: no sign, no upper case, no zeros in front.
fn parse(digits: &str) -> Option<u64> {
    let number = u64::from_str_radix(digits, RADIX).ok()?;
    (encode(number) == digits).then_some(number)
}
