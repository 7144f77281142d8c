//! One stream's unread text within its share.

use std::ops::Range;

use super::{Omission, boundary, share};
use crate::capture::Capture;
use crate::stream::StreamId;
use crate::text::{Decoded, TextEnd, bytes_of_text, decode, held_back, resync};

/// More than the bytes of any character, and than what a search for its edge skips.
const LONGEST_CHARACTER: usize = 4;

/// What is new in a stream since a reader's place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unread<'a> {
    capture: &'a Capture,
    stream: StreamId,
    from: u64,
    /// Offset behind the last complete character, exclusive.
    end: u64,
}

/// The text of one stream in a reading.
#[derive(Debug)]
pub(super) struct Excerpt {
    pub(super) text: String,
    pub(super) omitted: Option<Omission>,
}

impl<'a> Unread<'a> {
    pub(super) fn new(capture: &'a Capture, stream: StreamId, position: u64) -> Self {
        let total = capture.total(stream);
        let from = position.min(total);
        let mut end = total;
        if !capture.is_closed(stream) {
            // INVARIANT: the smallest tail is longer than a character, so its start is here.
            let last = total.saturating_sub(3).max(from)..total;
            end = total.saturating_sub(held_back(&bytes(capture, stream, last)) as u64);
        }
        Self {
            capture,
            stream,
            from,
            end,
        }
    }

    /// The reader's next place.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// As much of the text as fits into `limit` bytes, which have to be enough for a marker.
    pub(super) fn excerpt(&self, limit: usize) -> Excerpt {
        let gap = self.capture.gap(self.stream).filter(|gap| self.from < gap.end);
        if gap.is_none() && self.unread_bytes() <= limit as u64 {
            let text = decode(&self.bytes(self.from..self.end), TextEnd::Closed).text;
            if text.len() <= limit {
                return Excerpt { text, omitted: None };
            }
        }
        self.cut(limit, gap)
    }

    /// Head, marker and tail.
    fn cut(&self, limit: usize, gap: Option<Range<u64>>) -> Excerpt {
        let room = limit.saturating_sub(marker(self.unread_bytes()).len());
        // Beside a gap, one side can be so short that the other gets nearly all of the room.
        let side_room = if gap.is_some() { room } else { room.div_ceil(2) };
        let reach = side_room.saturating_add(2 * LONGEST_CHARACTER) as u64;
        let gap = gap.map_or(self.end..self.from, |gap| gap.start.max(self.from)..gap.end);

        let mut head_bytes = self.bytes(self.from..gap.start.min(self.from.saturating_add(reach)));
        let Decoded {
            text: head,
            consumed_bytes,
        } = decode(&head_bytes, TextEnd::Open);
        head_bytes.truncate(consumed_bytes);

        let tail_from = gap.end.max(self.end.saturating_sub(reach));
        let tail_bytes = self.bytes(tail_from..self.end);
        let skipped = resync(&tail_bytes);
        let tail_from = tail_from.saturating_add(skipped as u64);
        let tail_bytes = &tail_bytes[skipped..];
        let tail = decode(tail_bytes, TextEnd::Closed).text;

        let (head_share, tail_share) = share(room, head.len(), tail.len());
        let head_end = boundary::cut_at_most(&head, head_share);
        let tail_start = boundary::cut_at_least(&tail, tail.len().saturating_sub(tail_share));
        let omitted = Omission {
            stream: self.stream,
            from: self
                .from
                .saturating_add(bytes_of_text(&head_bytes, &head, head_end) as u64),
            to: tail_from.saturating_add(bytes_of_text(tail_bytes, &tail, tail_start) as u64),
        };
        let mut text = head;
        text.truncate(head_end);
        text.push_str(&marker(omitted.bytes()));
        text.push_str(&tail[tail_start..]);
        Excerpt {
            text,
            omitted: Some(omitted),
        }
    }

    const fn unread_bytes(&self) -> u64 {
        self.end.saturating_sub(self.from)
    }

    fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        bytes(self.capture, self.stream, range)
    }
}

pub(super) fn bytes(capture: &Capture, stream: StreamId, range: Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    capture.copy_to(stream, range, &mut bytes);
    bytes
}

pub(super) fn marker(omitted_bytes: u64) -> String {
    format!("\n… [{omitted_bytes} bytes omitted] …\n")
}
