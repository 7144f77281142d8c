//! What one read returns.

use crate::log::Gap;
use crate::offset::{Offset, bytes_u64};
use crate::record::PageRun;
use crate::text::incomplete_utf8_suffix;

/// What one read returns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The bytes, in order. Without a stream asked for, each run begins where the one before ends.
    pub runs: Vec<PageRun>,
    /// Where to read next; never above `total_bytes`.
    pub next_offset: Offset,
    /// Whether there is nothing to read at `next_offset` now. More may come while the log is open.
    pub at_end: bool,
    /// The gap that the offset lies in; the runs then begin at the first kept byte behind it.
    pub gap: Option<Gap>,
    /// All payload bytes appended so far.
    pub total_bytes: u64,
    /// Set if the offset lies past the end.
    pub beyond_end: Option<BeyondEnd>,
}

/// The offset asked for lies past the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BeyondEnd {
    /// All payload bytes appended so far.
    pub total: u64,
}

impl Page {
    /// The number of payload bytes in the page.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.runs.iter().map(|run| bytes_u64(run.bytes.len())).sum()
    }

    /// All payload of the page in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.runs
            .iter()
            .flat_map(|run| run.bytes.iter().copied())
            .collect()
    }

    /// Takes back the start of a UTF-8 character that the page's end cuts, so that the next page begins with it.
    ///
    /// A page that holds nothing but that fragment stays as it is, so that reading goes on; so does one whose end
    /// cuts no character.
    #[must_use]
    pub fn ending_at_character(mut self) -> Self {
        let alone = self.runs.len() == 1;
        let Some(last) = self.runs.last_mut() else {
            return self;
        };
        let cut = incomplete_utf8_suffix(&last.bytes);
        if cut == 0 || (alone && cut == last.bytes.len()) {
            return self;
        }
        last.bytes.truncate(last.bytes.len() - cut);
        let end = last.end();
        if last.bytes.is_empty() {
            self.runs.pop();
        }
        self.next_offset = end;
        self.at_end = false;
        self
    }
}
