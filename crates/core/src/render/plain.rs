//! Bytes as the lines that a terminal would show.

use std::ops::Range;

use vte::{Params, Parser, Perform};

use super::line::Line;
use crate::text::TextEnd;

/// Bytes as lines.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// The lines, each with `\n` behind it but for the last, which is not ended.
    pub(crate) text: String,
    /// For each character of the text where it came from, in the order of the text.
    pub(crate) spans: Vec<Span>,
    /// How many of the bytes belong to lines that are ended.
    pub(crate) whole_bytes: usize,
    /// How much of the text and of the spans they are.
    whole_text: (usize, usize),
}

/// Where a character of rendered text came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Where it stands in the text.
    pub(crate) text_at: u32,
    /// The first of the bytes.
    pub(crate) from: u32,
    /// The first behind them.
    pub(crate) to: u32,
}

impl Plain {
    /// Takes the line that is not ended away.
    pub(crate) fn hold_unfinished(&mut self) {
        self.text.truncate(self.whole_text.0);
        self.spans.truncate(self.whole_text.1);
    }
}

/// Renders `bytes`, of which a reader has seen `before`, the beginning of the line that they go on with.
///
/// What is new of that line comes first; where it is no longer a continuation of what was seen, because it was written
/// over, it comes anew on a line of its own. With [`TextEnd::Closed`] an incomplete character at the end is U+FFFD.
///
/// Sequences that move to other lines end the line that they leave; only a [`super::ScreenTracker`] resolves those.
/// There is at most one character for each byte, and as many blanks that nobody wrote, and 4 KiB of those.
pub(crate) fn render(before: &[u8], bytes: &[u8], end: TextEnd) -> Plain {
    let mut parser = Parser::new();
    let mut renderer = Renderer {
        at: 0,
        line: Line::default(),
        seen: None,
        blanks_left: bytes.len().saturating_add(4096),
        plain: Plain::default(),
    };
    parser.advance(&mut renderer, before);
    renderer.begin();
    for (at, byte) in bytes.iter().enumerate() {
        // The parser tells of characters, not of bytes: it gets them one by one.
        renderer.at = u32::try_from(at).unwrap_or(u32::MAX);
        parser.advance(&mut renderer, std::slice::from_ref(byte));
    }
    if end == TextEnd::Closed {
        // A byte that shows nothing and ends a character that will not be completed.
        parser.advance(&mut renderer, &[0]);
    }
    renderer.tell_line();
    renderer.plain
}

struct Renderer {
    /// The byte that is looked at.
    at: u32,
    line: Line,
    /// What the reader has seen of the line.
    seen: Option<String>,
    /// How many blanks may still be filled in.
    blanks_left: usize,
    plain: Plain,
}

impl Renderer {
    /// What came up to here was seen.
    fn begin(&mut self) {
        self.seen = Some(self.line.characters().map(|(character, _)| character).collect());
        self.plain = Plain::default();
    }

    /// Where too many blanks were filled in, none are: few bytes must not become much text.
    const fn bound_blanks(&mut self) {
        if self.blanks_left == 0 {
            self.line.move_to_end_at_most();
        }
    }

    fn here(&self) -> Range<u32> {
        self.at..self.at.saturating_add(1)
    }

    fn push(&mut self, character: char, bytes: Range<u32>) {
        let text_at = u32::try_from(self.plain.text.len()).unwrap_or(u32::MAX);
        self.plain.text.push(character);
        self.plain.spans.push(Span {
            text_at,
            from: bytes.start,
            to: bytes.end,
        });
    }

    /// Tells what is new of the line.
    fn tell_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let seen = self.seen.take().unwrap_or_default();
        let seen_characters = seen.chars().count();
        let goes_on = line
            .characters()
            .map(|(character, _)| character)
            .take(seen_characters)
            .eq(seen.chars());
        let told = if goes_on {
            seen_characters
        } else {
            self.push('\n', 0..0);
            0
        };
        for (character, bytes) in line.characters().skip(told) {
            self.push(character, bytes);
        }
        self.line = line;
    }

    fn end_line(&mut self) {
        self.tell_line();
        self.push('\n', self.here());
        self.line.clear();
    }

    /// The cursor goes to another line.
    fn leave_line(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.line.clear();
    }
}

impl Perform for Renderer {
    fn print(&mut self, character: char) {
        if character == '\u{7f}' {
            return;
        }
        let length = match character {
            // It mostly stands for one byte.
            char::REPLACEMENT_CHARACTER => 1,
            _ => u32::try_from(character.len_utf8()).unwrap_or(1),
        };
        let end = self.at.saturating_add(1);
        self.bound_blanks();
        let filled = self.line.put(character, end.saturating_sub(length)..end);
        self.blanks_left = self.blanks_left.saturating_sub(filled);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.line.move_to(0),
            0x08 => self.line.left(1),
            b'\t' => {
                self.bound_blanks();
                let filled = self.line.tab(self.here());
                self.blanks_left = self.blanks_left.saturating_sub(filled);
            }
            // A line feed, and what terminals take for one.
            b'\n' | 0x0b | 0x0c => {
                self.end_line();
                self.plain.whole_bytes = usize::try_from(self.at).unwrap_or(usize::MAX).saturating_add(1);
                self.plain.whole_text = (self.plain.text.len(), self.plain.spans.len());
            }
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _ignore: bool, action: char) {
        if !intermediates.is_empty() {
            return;
        }
        let first = params
            .iter()
            .next()
            .and_then(|param| param.first().copied())
            .unwrap_or(0);
        let count = usize::from(first.max(1));
        match (action, first) {
            ('K' | 'J', 0) => self.line.erase_right(),
            ('K' | 'J', 1) => self.line.erase_left(),
            ('K' | 'J', 2 | 3) => self.line.erase_all(),
            ('C' | 'a', _) => self.line.right(count),
            ('D', _) => self.line.left(count),
            ('G' | '`', _) => self.line.move_to(count - 1),
            ('P', _) => self.line.delete(count),
            ('@', _) => {
                let filled = self.line.insert(count.min(self.blanks_left));
                self.blanks_left = self.blanks_left.saturating_sub(filled);
            }
            ('X', _) => self.line.erase_columns(count),
            ('A' | 'B' | 'E' | 'F' | 'H' | 'd' | 'e' | 'f', _) => self.leave_line(),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        // The next line, the one below, the one above, and all anew.
        if let ([], b'E' | b'D' | b'M' | b'c') = (intermediates, byte) {
            self.leave_line();
        }
    }
}
