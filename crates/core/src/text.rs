//! Places in a session's output, and its bytes as text.

mod position;
#[cfg(test)]
mod tests;

pub use self::position::{ParsePositionError, ReadPosition};

/// What comes behind a run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEnd {
    /// More bytes may follow: a character that is incomplete at the end is held back.
    Open,
    /// Nothing follows: it becomes one U+FFFD.
    Closed,
}

/// Bytes as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The text; what is not valid UTF-8 is U+FFFD.
    pub text: String,
    /// How many of the bytes the text stands for: all, or up to three fewer where a character is held back.
    pub consumed_bytes: usize,
}

/// Decodes `bytes`, which begin at the edge of a character.
///
/// The texts of successive calls, each from where the one before stopped, are together what
/// [`String::from_utf8_lossy`] makes of all the bytes, wherever they were cut.
#[must_use]
pub fn decode(bytes: &[u8], end: TextEnd) -> Decoded {
    let held_back = match end {
        TextEnd::Open => held_back(bytes),
        TextEnd::Closed => 0,
    };
    let consumed_bytes = bytes.len() - held_back;
    let bytes = &bytes[..consumed_bytes];
    // Text that is valid as a whole is found to be so several times faster than it is replaced.
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    };
    Decoded { text, consumed_bytes }
}

/// The length of the incomplete character at the end of `bytes`, 0 to 3; only the last three bytes matter.
pub(crate) fn held_back(bytes: &[u8]) -> usize {
    let Some(lead) = bytes
        .iter()
        .rev()
        .take(3)
        .position(|byte| !is_continuation(*byte))
    else {
        return 0;
    };
    let last = &bytes[bytes.len() - 1 - lead..];
    match std::str::from_utf8(last) {
        // An error without a length is an end that came too early.
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

/// How many bytes at the front of `bytes`, which may begin anywhere in a stream, may belong to a character that began
/// before them: 0 to 3. Behind these a character begins for certain.
pub(crate) fn resync(bytes: &[u8]) -> usize {
    // No character has more than three bytes behind its first, so a fourth stands alone.
    bytes
        .iter()
        .take(3)
        .take_while(|byte| is_continuation(**byte))
        .count()
}

/// How many of `bytes` the first `at` bytes of `text`, which is what they decode to, stand for.
pub(crate) fn bytes_of_text(bytes: &[u8], text: &str, at: usize) -> usize {
    // No replacement is shorter than what it stands for, so at the same length none is longer either.
    if bytes.len() == text.len() {
        return at;
    }
    let (mut of_bytes, mut of_text) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().len();
        if at <= of_text + valid {
            return of_bytes + at.saturating_sub(of_text);
        }
        of_bytes += valid + chunk.invalid().len();
        of_text += valid + char::REPLACEMENT_CHARACTER.len_utf8();
    }
    of_bytes
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}
