//! A session's log: its summary, and its pages as text or as base 64.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use procession_actors::report::{LogPage, LogRun, LogSummary};
use procession_core::{
    StreamId,
    text::{TextEnd, decode},
};
use serde_json::{Value, json};

/// What became of a log: `total_bytes`, `kept_bytes`, `dropped_bytes`, `complete`, `path`, and where it is not
/// complete `reason` and `whole_until`, the offset up to which it is.
#[must_use]
pub fn log_value(log: &LogSummary) -> Value {
    let mut value = json!({
        "total_bytes": log.total_bytes,
        "kept_bytes": log.kept_bytes,
        "dropped_bytes": log.dropped_bytes,
        "complete": log.is_complete(),
        "path": log.path.as_ref().map(|path| path.to_string_lossy()),
    });
    if let Some(incomplete) = &log.incomplete {
        value["reason"] = incomplete.reason.as_str().into();
        value["whole_until"] = incomplete.from_offset.into();
    }
    value
}

/// A page of a log with its bytes in base 64, exactly as they were written.
///
/// `runs` of `offset`, `stream`, `time_ms`, `base64`; `next_offset`, `total_bytes`, `at_end`, `gap`, and `beyond_end`
/// where the offset lies there.
#[must_use]
pub fn log_page_base64(page: &LogPage) -> Value {
    let runs: Vec<_> = page
        .runs
        .iter()
        .map(|run| {
            run_value(
                run.offset,
                run.stream,
                run.time_ms,
                "base64",
                STANDARD.encode(&run.bytes),
            )
        })
        .collect();
    page_value(page, &runs, page.next_offset, page.at_end)
}

/// A page of a log as text.
#[derive(Debug, Clone, PartialEq)]
pub struct LogPageText {
    /// The page, as [`log_page_base64`] has it, with `text` in place of `base64`.
    pub value: Value,
    /// Whether the page stops before a character that is not complete at the end of what is there.
    ///
    /// It is for the caller to find out whether that will ever be completed; when not, the page with
    /// [`TextEnd::Closed`] has U+FFFD for it.
    pub is_held_back: bool,
}

/// A page of a log as text of at most `max_text_bytes`, but at least one character.
///
/// No character is split between runs or pages: one that is incomplete where the page ends is left to the next page,
/// unless the page would then be empty although there is more, or nothing follows (`end`). The texts of successive
/// pages from offset 0 are each stream's text, with U+FFFD for what is not UTF-8.
#[must_use]
pub fn log_page_text(page: &LogPage, max_text_bytes: u64, end: TextEnd) -> LogPageText {
    let whole: Vec<Piece> = page.runs.iter().map(Piece::from_run).collect();
    let limit = usize::try_from(max_text_bytes).unwrap_or(usize::MAX);
    let text_bytes = |text: &[TextRun]| text.iter().map(|run| run.text.len()).sum::<usize>();

    let mut cut = Cut {
        pieces: whole,
        at: None,
    };
    let mut end = if page.at_end { end } else { TextEnd::Open };
    if text_bytes(&decode_pieces(&cut.pieces, TextEnd::Closed).0) > limit {
        // One byte never becomes more than the three of U+FFFD.
        cut.keep_payload((limit / 3).max(4));
        if cut.at.is_some() {
            end = TextEnd::Open;
        }
    }
    // Each cut may split a character of the other stream anew; a few rounds settle what is not made to annoy.
    for _ in 0..8 {
        let (text, held) = decode_pieces(&cut.pieces, end);
        let Some(held_at) = held else {
            let (next_offset, at_end) = match cut.at {
                Some(at) => (at, false),
                None => (page.next_offset, page.at_end),
            };
            return LogPageText {
                value: text_value(page, &text, next_offset, at_end),
                is_held_back: false,
            };
        };
        if page.at_end && cut.at.is_none() && cut.payload_from(held_at) < 4 {
            // Nothing but the character's beginning is held back: it may be completed later.
            cut.at(held_at);
            let (text, _) = decode_pieces(&cut.pieces, TextEnd::Closed);
            return LogPageText {
                value: text_value(page, &text, held_at, true),
                is_held_back: true,
            };
        }
        if cut.starts_at(held_at) {
            break;
        }
        cut.at(held_at);
        end = TextEnd::Open;
    }
    let (text, _) = decode_pieces(&cut.pieces, TextEnd::Closed);
    let (next_offset, at_end) = match cut.at {
        Some(at) => (at, false),
        None => (page.next_offset, page.at_end),
    };
    LogPageText {
        value: text_value(page, &text, next_offset, at_end),
        is_held_back: false,
    }
}

/// A run, or its beginning.
#[derive(Debug, Clone)]
struct Piece<'a> {
    offset: u64,
    stream: StreamId,
    time_ms: u64,
    bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    fn from_run(run: &'a LogRun) -> Self {
        Self {
            offset: run.offset,
            stream: run.stream,
            time_ms: run.time_ms,
            bytes: &run.bytes,
        }
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64)
    }
}

/// The beginning of a page.
#[derive(Debug)]
struct Cut<'a> {
    pieces: Vec<Piece<'a>>,
    /// Where the next page begins, if not where the page itself says.
    at: Option<u64>,
}

impl Cut<'_> {
    /// Leaves out everything from this offset on.
    fn at(&mut self, offset: u64) {
        self.pieces.retain(|piece| piece.offset < offset);
        if let Some(last) = self.pieces.last_mut() {
            let keep = usize::try_from(offset.saturating_sub(last.offset)).unwrap_or(usize::MAX);
            last.bytes = &last.bytes[..keep.min(last.bytes.len())];
        }
        self.at = Some(offset);
    }

    /// Leaves out everything behind so many bytes.
    fn keep_payload(&mut self, mut bytes: usize) {
        let crossing = self.pieces.iter().find_map(|piece| {
            if piece.bytes.len() > bytes {
                return Some(piece.offset.saturating_add(bytes as u64));
            }
            bytes -= piece.bytes.len();
            None
        });
        if let Some(offset) = crossing {
            self.at(offset);
        }
    }

    /// How many bytes there are from this offset on.
    fn payload_from(&self, offset: u64) -> u64 {
        self.pieces
            .iter()
            .map(|piece| piece.end().saturating_sub(piece.offset.max(offset)))
            .fold(0, u64::saturating_add)
    }

    fn starts_at(&self, offset: u64) -> bool {
        self.pieces.first().is_none_or(|piece| piece.offset >= offset)
    }
}

/// A run as text.
#[derive(Debug)]
struct TextRun {
    offset: u64,
    stream: StreamId,
    time_ms: u64,
    text: String,
}

/// The beginning of a character whose rest is still to come.
#[derive(Debug, Default)]
struct Held {
    at: u64,
    bytes: Vec<u8>,
}

/// The pieces as text, and the offset of the first character that is not complete.
fn decode_pieces(pieces: &[Piece<'_>], end: TextEnd) -> (Vec<TextRun>, Option<u64>) {
    let mut held: [Held; 2] = Default::default();
    let mut runs = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let held = &mut held[usize::from(piece.stream.tag())];
        let before = held.bytes.len();
        let offset = if before == 0 { piece.offset } else { held.at };
        let mut bytes = std::mem::take(&mut held.bytes);
        let bytes = if before == 0 {
            piece.bytes
        } else {
            bytes.extend_from_slice(piece.bytes);
            &bytes
        };
        let decoded = decode(bytes, TextEnd::Open);
        if decoded.consumed_bytes < bytes.len() {
            let rest = &bytes[decoded.consumed_bytes..];
            // All of the rest lies in this piece, or nothing was consumed and it begins where it began before.
            held.at = if decoded.consumed_bytes == 0 {
                offset
            } else {
                piece.end() - rest.len() as u64
            };
            held.bytes = rest.to_vec();
        }
        push(
            &mut runs,
            TextRun {
                offset,
                stream: piece.stream,
                time_ms: piece.time_ms,
                text: decoded.text,
            },
        );
    }
    let open: Vec<_> = StreamId::ALL
        .into_iter()
        .zip(held)
        .filter(|(_, held)| !held.bytes.is_empty())
        .collect();
    if end == TextEnd::Open {
        return (runs, open.iter().map(|(_, held)| held.at).min());
    }
    let time_ms = pieces.last().map_or(0, |piece| piece.time_ms);
    for (stream, held) in open {
        let text = decode(&held.bytes, TextEnd::Closed).text;
        push(
            &mut runs,
            TextRun {
                offset: held.at,
                stream,
                time_ms,
                text,
            },
        );
    }
    (runs, None)
}

fn push(runs: &mut Vec<TextRun>, run: TextRun) {
    if !run.text.is_empty() {
        runs.push(run);
    }
}

fn text_value(page: &LogPage, text: &[TextRun], next_offset: u64, at_end: bool) -> Value {
    let runs: Vec<_> = text
        .iter()
        .map(|run| run_value(run.offset, run.stream, run.time_ms, "text", run.text.clone()))
        .collect();
    page_value(page, &runs, next_offset, at_end)
}

fn run_value(offset: u64, stream: StreamId, time_ms: u64, form: &str, payload: String) -> Value {
    let mut value = json!({ "offset": offset, "stream": stream.as_str(), "time_ms": time_ms });
    value[form] = payload.into();
    value
}

fn page_value(page: &LogPage, runs: &[Value], next_offset: u64, at_end: bool) -> Value {
    let mut value = json!({
        "runs": runs,
        "next_offset": next_offset,
        "total_bytes": page.total_bytes,
        "at_end": at_end,
        "gap": page.gap.map(|gap| json!({ "from": gap.from, "to": gap.to })),
    });
    if page.beyond_end {
        value["runs"] = json!([]);
        value["next_offset"] = page.total_bytes.into();
        value["beyond_end"] = json!({ "total": page.total_bytes });
    }
    value
}

#[cfg(test)]
mod tests;
