//! Finding text in a log, bounded in bytes and in memory, and resumable.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use regex::bytes::{Regex, RegexBuilder};

use crate::log::WriteEnd;
use crate::offset::{Offset, bytes_u64, bytes_usize};
use crate::reader::{LogReader, MAX_PAGE_BYTES, ReadError};
use crate::record::{PageRun, StreamTag};

/// The longest match that is sure to be found: 64 KiB, counted in the merged output from its first byte to its last.
pub const MAX_MATCH_BYTES: usize = 64 * 1024;

/// The most bytes of context on either side of a match: 4 KiB.
pub const MAX_CONTEXT_BYTES: usize = 4 * 1024;

/// The most matches of one call.
pub const MAX_MATCHES: usize = 1000;

/// How much is searched at once, apart from what is read before and behind it: little at first, so that a call that
/// soon has its matches reads little, then twice as much each time.
const FIRST_ROUND_BYTES: u64 = 64 * 1024;
const MAX_ROUND_BYTES: u64 = 512 * 1024;

/// How much in front of a round is read for its first context and for what looks back, at least.
const LOOK_BACK_BYTES: u64 = 256;

/// The most bytes of text of one call.
const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// The most memory that a compiled expression may take.
const MAX_REGEX_BYTES: usize = 1024 * 1024;

/// What to search for.
#[derive(Debug, Clone)]
pub struct SearchPattern {
    regex: Regex,
    literal: Option<Vec<u8>>,
}

impl SearchPattern {
    /// These very bytes.
    ///
    /// # Errors
    /// [`SearchError::EmptyPattern`], [`SearchError::PatternTooLong`].
    pub fn literal(bytes: &[u8]) -> Result<Self, SearchError> {
        if bytes.is_empty() {
            return Err(SearchError::EmptyPattern);
        }
        if bytes.len() > MAX_CONTEXT_BYTES {
            let (pattern_bytes, max_bytes) = (bytes.len(), MAX_CONTEXT_BYTES);
            return Err(SearchError::PatternTooLong {
                pattern_bytes,
                max_bytes,
            });
        }
        let mut escaped = String::from("(?-u)");
        for byte in bytes {
            // Every byte as its number: the pattern need not be text.
            escaped.push_str("\\x");
            for nibble in [byte >> 4, byte & 15] {
                escaped.extend(char::from_digit(nibble.into(), 16));
            }
        }
        let regex = build(&escaped)?;
        Ok(Self {
            regex,
            literal: Some(bytes.to_vec()),
        })
    }

    /// A regular expression in the syntax of the `regex` crate, on bytes. `^` and `$` match at lines.
    ///
    /// Matches of nothing are not reported.
    ///
    /// # Errors
    /// [`SearchError::BadPattern`], [`SearchError::EmptyPattern`], [`SearchError::PatternTooLong`].
    pub fn regex(pattern: &str) -> Result<Self, SearchError> {
        if pattern.is_empty() {
            return Err(SearchError::EmptyPattern);
        }
        if pattern.len() > MAX_CONTEXT_BYTES {
            let (pattern_bytes, max_bytes) = (pattern.len(), MAX_CONTEXT_BYTES);
            return Err(SearchError::PatternTooLong {
                pattern_bytes,
                max_bytes,
            });
        }
        Ok(Self {
            regex: build(pattern)?,
            literal: None,
        })
    }
}

/// How far one call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchLimits {
    /// The most matches, at most [`MAX_MATCHES`].
    pub max_matches: usize,
    /// Bytes of the same stream around each match, on either side, at most [`MAX_CONTEXT_BYTES`].
    pub context_bytes: usize,
    /// The most bytes of the log that are searched; at least one byte is, so that searching goes on.
    pub max_scan_bytes: u64,
}

impl Default for SearchLimits {
    /// 100 matches, 80 bytes of context, 64 MiB.
    fn default() -> Self {
        Self {
            max_matches: 100,
            context_bytes: 80,
            max_scan_bytes: 64 * 1024 * 1024,
        }
    }
}

/// One match.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Match {
    /// Where its first byte stands in the merged output.
    pub offset: Offset,
    /// The stream that it is in.
    pub stream: StreamTag,
    /// The match with the bytes of the same stream around it.
    pub text: Bytes,
    /// Which bytes of `text` are the match.
    pub range: Range<usize>,
}

/// What one call found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchPage {
    /// In the order of their offsets. All that begin in front of `next_offset` and behind where the call began.
    pub matches: Vec<Match>,
    /// Where to search next.
    pub next_offset: Offset,
    /// Whether everything that is there now was searched. `next_offset` may still lie in front of the total of an open
    /// log: from there on, what follows could make a match whole.
    pub at_end: bool,
    /// How many bytes were searched.
    pub scanned_bytes: u64,
}

/// Why a search is not possible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// There is nothing to look for.
    #[error("the pattern is empty")]
    EmptyPattern,
    /// The pattern is too long.
    #[error("a pattern of {pattern_bytes} bytes is too long, at most {max_bytes} are taken")]
    PatternTooLong {
        /// Its length.
        pattern_bytes: usize,
        /// What is taken.
        max_bytes: usize,
    },
    /// The pattern is no regular expression, or one that takes too much memory.
    #[error("the pattern is not usable")]
    BadPattern {
        /// What is wrong with it.
        #[source]
        source: regex::Error,
    },
    /// The log cannot be read.
    #[error("the log cannot be searched")]
    Read {
        /// Why.
        #[source]
        source: ReadError,
    },
}

impl LogReader {
    /// Searches from `from` on for matches that begin there or later.
    ///
    /// A match lies within one stream, whatever stands between its bytes in the merged output, and may cross runs
    /// and segments, but no gap. `goes_on` is asked between rounds of at most 512 KiB whether to go on: it bounds the time.
    /// Continue at `next_offset`; a match that begins there or later is then found as if the search had not stopped,
    /// except that it may overlap the last one of its own stream where other streams lie between.
    ///
    /// # Errors
    /// [`SearchError::Read`].
    pub fn search(
        &self,
        pattern: &SearchPattern,
        from: Offset,
        limits: SearchLimits,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<SearchPage, SearchError> {
        let max_matches = limits.max_matches.min(MAX_MATCHES);
        let context_bytes = limits.context_bytes.min(MAX_CONTEXT_BYTES);
        let mut page = SearchPage {
            matches: Vec::new(),
            next_offset: from,
            at_end: false,
            scanned_bytes: 0,
        };
        let mut text_bytes = 0;
        let mut round_bytes = FIRST_ROUND_BYTES;
        loop {
            let left = limits.max_scan_bytes.max(1).saturating_sub(page.scanned_bytes);
            if left == 0 || max_matches == 0 {
                return Ok(page);
            }
            let round = self
                .round(page.next_offset, left.min(round_bytes), context_bytes)
                .map_err(|source| SearchError::Read { source })?;
            round_bytes = round_bytes.saturating_mul(2).min(MAX_ROUND_BYTES);
            let room = max_matches.saturating_sub(page.matches.len());
            let found = round.search(pattern, context_bytes, room.saturating_add(1));
            page.scanned_bytes = page
                .scanned_bytes
                .saturating_add(round.end.saturating_sub(round.begin))
                .max(1);
            for (number, found) in found.matches.iter().enumerate() {
                let is_full = page.matches.len() >= max_matches
                    || (number > 0 || !page.matches.is_empty())
                        && text_bytes + found.text.len() > MAX_TEXT_BYTES;
                if is_full {
                    page.next_offset = found.offset;
                    return Ok(page);
                }
                text_bytes += found.text.len();
                page.matches.push(found.clone());
            }
            page.next_offset = Offset::new(found.next);
            page.at_end = round.is_last;
            if page.at_end || !goes_on() {
                return Ok(page);
            }
        }
    }

    /// Reads what one round needs: the bytes to search, some in front, and a match's length behind.
    fn round(&self, from: Offset, max_bytes: u64, context_bytes: usize) -> Result<Round, ReadError> {
        let first = self.read_page(from, 0, None)?;
        let begin = first.next_offset.get();
        let mut round = Round {
            runs: Vec::new(),
            begin,
            end: begin,
            is_last: first.at_end,
            is_closed: !matches!(self.status().write_end, WriteEnd::Open | WriteEnd::NotRecorded),
        };
        if first.at_end {
            return Ok(round);
        }
        let look_back = bytes_u64(context_bytes).max(LOOK_BACK_BYTES);
        // Only what joins on: bytes in front of a gap are no context.
        if first.gap.is_none() {
            let mut at = Offset::new(begin.saturating_sub(look_back));
            while at.get() < begin {
                let page = self.read_page(at, bytes_usize(begin - at.get()), None)?;
                if page.gap.is_some() {
                    round.runs.clear();
                }
                at = page.next_offset;
                round.runs.extend(page.runs);
                if at.get() > begin {
                    round.runs.clear();
                }
            }
        }
        let end = begin.saturating_add(max_bytes);
        let look_ahead = end.saturating_add(bytes_u64(MAX_MATCH_BYTES.max(context_bytes)));
        let mut at = Offset::new(begin);
        loop {
            let room = bytes_usize(look_ahead.saturating_sub(at.get())).min(MAX_PAGE_BYTES);
            let page = self.read_page(at, room, None)?;
            if page.gap.is_some() || page.next_offset <= at || room == 0 {
                break;
            }
            at = page.next_offset;
            round.runs.extend(page.runs);
            if page.at_end {
                round.is_last = at.get() <= end;
                break;
            }
        }
        round.end = end.min(at.get()).max(begin);
        round.is_last = round.end == at.get() && self.read_page(at, 0, None)?.at_end;
        Ok(round)
    }
}

/// A part of the log to be searched at once.
#[derive(Debug)]
struct Round {
    /// Consecutive runs.
    runs: Vec<PageRun>,
    /// Matches that begin from here on are of this round.
    begin: u64,
    /// Matches that begin from here on are of the next.
    end: u64,
    is_last: bool,
    /// Nothing follows for ever.
    is_closed: bool,
}

/// What one round found.
#[derive(Debug)]
struct Found {
    /// In the order of their offsets, none at or behind `next`.
    matches: Vec<Match>,
    next: u64,
}

/// The bytes of one stream, in one piece.
#[derive(Debug, Default)]
struct Lane {
    bytes: Vec<u8>,
    /// For each run: where it begins in `bytes`, and its offset.
    places: Vec<(usize, u64)>,
}

impl Lane {
    /// The offset in the merged output of a byte of this lane.
    fn offset(&self, at: usize) -> u64 {
        let run = self
            .places
            .partition_point(|(begin, _)| *begin <= at)
            .saturating_sub(1);
        self.places
            .get(run)
            .map_or(0, |(begin, offset)| offset.saturating_add(bytes_u64(at - begin)))
    }

    /// The first byte of this lane that stands at `offset` or behind it.
    fn position(&self, offset: u64) -> usize {
        let run = self
            .places
            .partition_point(|(_, begin)| *begin <= offset)
            .saturating_sub(1);
        let Some((begin, run_offset)) = self.places.get(run) else {
            return 0;
        };
        let next = self
            .places
            .get(run + 1)
            .map_or(self.bytes.len(), |(next, _)| *next);
        begin
            .saturating_add(bytes_usize(offset.saturating_sub(*run_offset)))
            .min(next)
    }
}

impl Round {
    /// Searches each stream, for at most `max_matches` in each: the first of all of them are then among these.
    fn search(&self, pattern: &SearchPattern, context_bytes: usize, max_matches: usize) -> Found {
        let lanes = self.lanes();
        let mut matches = Vec::new();
        let mut next = self.end;
        // Where the last match of a stream ends, if that is behind this round.
        let mut overhang = None;
        for (stream, lane) in &lanes {
            let mut at = lane.position(self.begin);
            let mut left = max_matches;
            while left > 0
                && let Some(found) = pattern.regex.find_at(&lane.bytes, at)
            {
                let offset = lane.offset(found.start());
                if offset >= self.end {
                    break;
                }
                if found.is_empty() {
                    at = found.end() + 1;
                    if at > lane.bytes.len() {
                        break;
                    }
                    continue;
                }
                at = found.end();
                left -= 1;
                let end = lane.offset(found.end() - 1).saturating_add(1);
                if end > self.end {
                    overhang = Some((*stream, end));
                }
                let from = found.start().saturating_sub(context_bytes);
                let to = found.end().saturating_add(context_bytes).min(lane.bytes.len());
                matches.push(Match {
                    offset: Offset::new(offset),
                    stream: *stream,
                    text: Bytes::copy_from_slice(lane.bytes.get(from..to).unwrap_or_default()),
                    range: found.start() - from..found.end() - from,
                });
            }
            if self.is_last
                && !self.is_closed
                && let Some(literal) = &pattern.literal
            {
                let partial = partial_suffix(lane.bytes.get(at..).unwrap_or_default(), literal);
                if partial > 0 {
                    next = next.min(lane.offset(lane.bytes.len() - partial)).max(self.begin);
                }
            }
        }
        if let Some((stream, end)) = overhang
            && self.is_all_of(stream, self.end..end)
        {
            next = end;
        }
        matches.retain(|found| found.offset.get() < next);
        matches.sort_by_key(|found| found.offset);
        Found { matches, next }
    }

    fn lanes(&self) -> BTreeMap<StreamTag, Lane> {
        let mut lanes: BTreeMap<StreamTag, Lane> = BTreeMap::new();
        for run in &self.runs {
            let lane = lanes.entry(run.stream).or_default();
            lane.places.push((lane.bytes.len(), run.offset.get()));
            lane.bytes.extend_from_slice(&run.bytes);
        }
        lanes
    }

    /// Whether all bytes in that range are of one stream, so that nothing of another is passed over with them.
    fn is_all_of(&self, stream: StreamTag, range: Range<u64>) -> bool {
        let mut runs = self.runs.iter();
        runs.all(|run| {
            run.stream == stream || run.end().get() <= range.start || run.offset.get() >= range.end
        })
    }
}

/// The length of the longest end of `bytes` that is a start of `literal`, but not all of it.
fn partial_suffix(bytes: &[u8], literal: &[u8]) -> usize {
    let longest = bytes.len().min(literal.len().saturating_sub(1));
    (1..=longest)
        .rev()
        .find(|len| {
            bytes
                .get(bytes.len() - len..)
                .is_some_and(|suffix| literal.starts_with(suffix))
        })
        .unwrap_or(0)
}

fn build(pattern: &str) -> Result<Regex, SearchError> {
    RegexBuilder::new(pattern)
        .multi_line(true)
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .build()
        .map_err(|source| SearchError::BadPattern { source })
}
