//! A session's output as the lines that a terminal would show, within a budget.

#[cfg(test)]
mod tests;

use super::excerpt::{Excerpt, bytes, marker};
use super::{Omission, OutputBudget, Reading, boundary, share};
use crate::capture::{Capture, Piece};
use crate::render::{Plain, Span, render};
use crate::stream::StreamId;
use crate::text::{ReadPosition, TextEnd, held_back, resync};

/// How far back the beginning of a line is looked for, in bytes.
const LOOK_BACK_BYTES: u64 = 64 << 10;
/// How many times the budget is rendered at the most: what is written over leaves less text than bytes.
const RENDERED_BUDGETS: u64 = 4;
/// How much behind a cut is left out to begin at a line, in bytes.
const ALIGN_BYTES: usize = 4 << 10;

/// Reads everything since `position` within `budget`, as [`super::read_text`] does, with carriage returns, backspace
/// and escape sequences resolved.
///
/// - It is a function of the bytes and the place alone, so any number of readers can go on at any place. The bytes in
///   front of the place back to the beginning of its line, 64 KiB at the most, tell in which state a terminal is there.
/// - Where there is a whole line since the place, the line behind it that is not ended yet is left to the next
///   reading, as an incomplete character is. Where there is none, what can be seen of the unfinished line is told and
///   the place moves on, so that a prompt is seen; see [`has_plain`] for when to ask. A line that is written over after
///   it was told is told anew on a line of its own.
/// - A cut leaves out the bytes from the first that an omitted character came from to the last: head, left out, and
///   tail are exactly the bytes since `position`. Beside what does not fit the budget, bytes further than twice the
///   budget from both ends of a long reading are left out although their text might have fitted.
/// - Sequences that move to another line end the line that they leave.
#[must_use]
pub fn read_plain(capture: &Capture, position: ReadPosition, budget: OutputBudget) -> Reading {
    let is_whole = has_plain(capture, position, budget);
    let unread = StreamId::ALL
        .map(|stream| Unread::new(capture, stream, position.offset(stream), budget.bytes(), is_whole));
    let [stdout_room, stderr_room] = {
        let [stdout, stderr] = unread
            .each_ref()
            .map(|unread| unread.excerpt(budget.bytes()).text.len());
        let (stdout, stderr) = share(budget.bytes(), stdout, stderr);
        [stdout, stderr]
    };
    let [stdout, stderr] = &unread;
    let next = ReadPosition {
        stdout: stdout.next,
        stderr: stderr.next,
    };
    let (stdout, stderr) = (stdout.excerpt(stdout_room), stderr.excerpt(stderr_room));
    Reading {
        next,
        omitted: [stdout.omitted, stderr.omitted].into_iter().flatten().collect(),
        stdout: stdout.text,
        stderr: stderr.text,
    }
}

/// Whether [`read_plain`] has more to tell than an unfinished line: a line is whole, a stream is at its end, or there is
/// as much as the budget.
///
/// While it is not so, somebody who can wait should, until the output pauses or the time is up.
#[must_use]
pub fn has_plain(capture: &Capture, position: ReadPosition, budget: OutputBudget) -> bool {
    StreamId::ALL.into_iter().any(|stream| {
        let from = position.offset(stream);
        let unread_bytes = capture.total(stream).saturating_sub(from);
        let has_line = || {
            capture
                .range(stream, from)
                .any(|piece| matches!(piece, Piece::Bytes { bytes, .. } if bytes.contains(&b'\n')))
        };
        unread_bytes > 0 && (capture.is_closed(stream) || unread_bytes >= budget.bytes() as u64 || has_line())
    })
}

/// What is new in a stream since a reader's place, rendered.
#[derive(Debug)]
struct Unread {
    stream: StreamId,
    from: u64,
    head: Part,
    /// Where it is too long, or a part was dropped: what is behind the cut.
    tail: Option<Part>,
    /// The reader's next place.
    next: u64,
}

/// Consecutive bytes, rendered.
#[derive(Debug)]
struct Part {
    base: u64,
    end: u64,
    plain: Plain,
    start: PartStart,
}

/// Where a part begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartStart {
    OfALine,
    Anywhere,
}

impl Unread {
    fn new(capture: &Capture, stream: StreamId, position: u64, budget: usize, is_whole: bool) -> Self {
        let total = capture.total(stream);
        let from = position.min(total);
        let is_closed = capture.is_closed(stream);
        let last = total.saturating_sub(3).max(from)..total;
        let incomplete = if is_closed {
            0
        } else {
            held_back(&bytes(capture, stream, last))
        };
        let end = total.saturating_sub(incomplete as u64);
        let text_end = if is_closed { TextEnd::Closed } else { TextEnd::Open };

        let half = (budget as u64).saturating_mul(RENDERED_BUDGETS) / 2;
        let gap = capture.gap(stream).filter(|gap| from < gap.end);
        let cut = match gap {
            Some(gap) => {
                let start = gap.start.max(from);
                Some((
                    start.min(from.saturating_add(half)),
                    gap.end.max(end.saturating_sub(half)),
                ))
            }
            None if end - from > half.saturating_mul(2) => {
                Some((from.saturating_add(half), end.saturating_sub(half)))
            }
            None => None,
        };
        let before = line_before(capture, stream, from);
        let head_end = cut.map_or(end, |(head_end, _)| head_end);
        let head_bytes = bytes(capture, stream, from..head_end);
        // A character that the cut splits is not the end of the stream.
        let head_text_end = if cut.is_some() { TextEnd::Open } else { text_end };
        let mut unread = Self {
            stream,
            from,
            head: Part {
                base: from,
                end: head_end,
                plain: render(&before, &head_bytes, head_text_end),
                start: PartStart::OfALine,
            },
            tail: cut.map(|(_, tail_from)| Part::tail(capture, stream, tail_from, end, text_end)),
            next: end,
        };
        if is_whole && !is_closed {
            unread.hold_unfinished(budget as u64);
        }
        unread
    }

    /// Leaves the line that is not ended to the next reading, unless it is longer than a reading can be.
    fn hold_unfinished(&mut self, budget_bytes: u64) {
        let last = self.tail.as_mut().unwrap_or(&mut self.head);
        let whole_end = last.base.saturating_add(last.plain.whole_bytes as u64);
        if last.end.saturating_sub(whole_end) < budget_bytes {
            last.plain.hold_unfinished();
            last.end = whole_end;
            self.next = whole_end;
        }
    }

    /// As much of the text as fits into `limit` bytes.
    fn excerpt(&self, limit: usize) -> Excerpt {
        let text = &self.head.plain.text;
        if self.tail.is_none() && text.len() <= limit {
            return Excerpt {
                text: text.clone(),
                omitted: None,
            };
        }
        let room = limit.saturating_sub(marker(self.next.saturating_sub(self.from)).len());
        let tail = self.tail.as_ref().unwrap_or(&self.head);
        let (head_share, tail_share) = share(room, text.len(), tail.plain.text.len());
        let head_end = boundary::cut_at_most(text, head_share);
        let is_all =
            self.tail.is_some() && tail.start == PartStart::OfALine && tail.plain.text.len() <= tail_share;
        let tail_start = if is_all {
            0
        } else {
            let least = tail.plain.text.len().saturating_sub(tail_share);
            boundary::cut_at_least(&tail.plain.text, least)
        };
        let (from, to) = match &self.tail {
            None => self.head.bytes_of(head_end, tail_start).unwrap_or_default(),
            Some(tail) => (
                self.head
                    .bytes_of(head_end, text.len())
                    .map_or(self.head.end, |(from, _)| from),
                tail.bytes_of(0, tail_start).map_or(tail.base, |(_, to)| to),
            ),
        };
        let omitted = Omission {
            stream: self.stream,
            from,
            to,
        };
        let mut shown = text[..head_end].to_owned();
        shown.push_str(&marker(omitted.bytes()));
        shown.push_str(&tail.plain.text[tail_start..]);
        Excerpt {
            text: shown,
            omitted: Some(omitted),
        }
    }
}

impl Part {
    fn tail(capture: &Capture, stream: StreamId, from: u64, end: u64, text_end: TextEnd) -> Self {
        let mut bytes = bytes(capture, stream, from..end);
        let near = &bytes[..bytes.len().min(ALIGN_BYTES)];
        let line = near
            .iter()
            .position(|byte| *byte == b'\n')
            .or_else(|| near.iter().position(|byte| *byte == b'\r'))
            .map(|at| at + 1)
            .filter(|at| *at < bytes.len());
        let skipped = line.unwrap_or_else(|| resync(&bytes));
        bytes.drain(..skipped);
        Self {
            base: from.saturating_add(skipped as u64),
            end,
            plain: render(&[], &bytes, text_end),
            start: if line.is_some() {
                PartStart::OfALine
            } else {
                PartStart::Anywhere
            },
        }
    }

    /// The offsets of the bytes that a part of the text came from: the first, and the first behind them.
    fn bytes_of(&self, text_from: usize, text_to: usize) -> Option<(u64, u64)> {
        let spans = &self.plain.spans;
        let index = |at: usize| spans.partition_point(|span: &Span| (span.text_at as usize) < at);
        let spans = &spans[index(text_from)..index(text_to)];
        let from = spans.iter().map(|span| span.from).min()?;
        let to = spans.iter().map(|span| span.to).max()?.max(from + 1);
        Some((
            self.base.saturating_add(from.into()),
            self.base.saturating_add(to.into()).min(self.end),
        ))
    }
}

/// The bytes in front of `position` that are of the same line.
fn line_before(capture: &Capture, stream: StreamId, position: u64) -> Vec<u8> {
    let mut from = position.saturating_sub(LOOK_BACK_BYTES);
    if let Some(gap) = capture.gap(stream) {
        if (gap.start..gap.end).contains(&position) {
            return Vec::new(); // Nothing goes on here.
        }
        if position >= gap.end {
            from = from.max(gap.end);
        }
    }
    let mut bytes = bytes(capture, stream, from..position);
    if let Some(line_end) = bytes.iter().rposition(|byte| *byte == b'\n') {
        bytes.drain(..=line_end);
    }
    bytes
}
