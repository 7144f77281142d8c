//! The output streams of a session.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One of a session's output streams.
///
/// A session on a terminal and one with merged output have one stream only, which is [`Stdout`](Self::Stdout).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamId {
    /// Standard output, or all output where the streams are merged.
    Stdout,
    /// Standard error.
    Stderr,
}

impl StreamId {
    /// Both streams, in the order of their tags.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// The stream as a byte, as formats write it: 0 is stdout, 1 is stderr.
    #[must_use]
    pub const fn tag(self) -> u8 {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }

    /// The stream's name in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<StreamId> for u8 {
    fn from(stream: StreamId) -> Self {
        stream.tag()
    }
}

impl TryFrom<u8> for StreamId {
    type Error = UnknownStream;

    fn try_from(tag: u8) -> Result<Self, UnknownStream> {
        Self::ALL
            .into_iter()
            .find(|stream| stream.tag() == tag)
            .ok_or(UnknownStream { tag })
    }
}

/// A byte that stands for no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no stream with tag {tag}")]
pub struct UnknownStream {
    /// The byte that was given.
    pub tag: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_lead_back_to_their_streams() {
        for (stream, tag, name) in [(StreamId::Stdout, 0, "stdout"), (StreamId::Stderr, 1, "stderr")] {
            assert_eq!((stream.tag(), stream.as_str()), (tag, name));
            assert_eq!(StreamId::try_from(tag), Ok(stream));
            assert_eq!(stream.to_string(), name);
        }
    }

    #[test]
    fn every_other_tag_is_refused() {
        for tag in 2..=u8::MAX {
            assert_eq!(StreamId::try_from(tag), Err(UnknownStream { tag }));
        }
    }
}
