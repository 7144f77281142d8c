//! The visible grid of a terminal.

use std::num::NonZeroU16;
use std::panic::{self, AssertUnwindSafe};

use serde::{Deserialize, Serialize};
use vt100::{Callbacks, Parser};

use crate::preview::OutputBudget;
use crate::spec::TerminalSize;

/// The largest grid that is kept, in cells, rows times columns: 512 by 512. A larger terminal has no screen to read.
pub const MAX_SCREEN_CELLS: u32 = 512 * 512;

/// The smallest side that the emulation can handle: a character of two columns has to fit.
const LEAST_SIDE: u16 = 2;
/// The longest title that is kept, in bytes.
const MAX_TITLE_BYTES: usize = 256;

/// What a terminal shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Screen {
    /// Rows of the terminal.
    pub rows: u16,
    /// Columns of the terminal.
    pub cols: u16,
    /// The row that the cursor is in, from 0.
    pub cursor_row: u16,
    /// The column that the cursor is in, from 0; the number of columns where it waits behind the last one.
    pub cursor_col: u16,
    /// How many rows at the top were left out because they did not fit the budget.
    pub omitted_rows: u16,
    /// The other rows from the top, without the blanks at their ends.
    pub lines: Vec<String>,
    /// The title that the program gave its window.
    pub title: Option<String>,
}

/// Follows what a terminal shows, from the first byte on.
///
/// Memory is that of the grid twice, for programs that take the whole screen have one of their own: some 32 bytes a
/// cell, 90 KiB for 24 by 120. Nothing that scrolled away is kept.
pub struct ScreenTracker {
    parser: Parser<Title>,
    size: TerminalSize,
}

#[derive(Debug, Default)]
struct Title(Option<String>);

impl Callbacks for Title {
    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        let title = String::from_utf8_lossy(&title[..title.len().min(MAX_TITLE_BYTES)]).into_owned();
        self.0 = Some(title).filter(|title| !title.is_empty());
    }
}

impl ScreenTracker {
    /// One for an empty screen of this size; none beyond [`MAX_SCREEN_CELLS`].
    #[must_use]
    pub fn new(size: TerminalSize) -> Option<Self> {
        (cells(size) <= MAX_SCREEN_CELLS).then(|| Self {
            parser: parser(size, Title::default()),
            size,
        })
    }

    /// Takes the next bytes of the output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.guarded(|parser| parser.process(bytes));
    }

    /// Changes the size; answers whether the screen can still be followed.
    pub fn resize(&mut self, size: TerminalSize) -> bool {
        if cells(size) > MAX_SCREEN_CELLS {
            return false;
        }
        self.size = size;
        self.guarded(|parser| parser.set_size(side(size.rows), side(size.cols)));
        true
    }

    /// What is shown; rows at the top are left out where all of them do not fit the budget, counted with a line end each.
    #[must_use]
    pub fn screen(&self, budget: OutputBudget) -> Screen {
        let screen = self.parser.screen();
        let (cursor_row, cursor_col) = screen.cursor_position();
        let mut lines: Vec<_> = screen
            .rows(0, self.size.cols)
            .take(self.size.rows.into())
            .map(|row| row.trim_end().to_owned())
            .collect();
        let mut left = budget.bytes();
        let fitting = lines
            .iter()
            .rev()
            .take_while(|line| match left.checked_sub(line.len() + 1) {
                Some(rest) => {
                    left = rest;
                    true
                }
                None => false,
            })
            .count();
        let omitted = lines.len() - fitting;
        lines.drain(..omitted);
        Screen {
            rows: self.size.rows,
            cols: self.size.cols,
            cursor_row,
            cursor_col,
            omitted_rows: u16::try_from(omitted).unwrap_or(u16::MAX),
            lines,
            title: self.parser.callbacks().0.clone(),
        }
    }

    /// Does something with the emulation; should it break down, an empty screen takes its place.
    ///
    /// It has done so before at sizes and sequences that nobody foresaw, and what a program writes must not end its
    /// session.
    fn guarded(&mut self, what: impl FnOnce(&mut Parser<Title>)) {
        let parser = &mut self.parser;
        if panic::catch_unwind(AssertUnwindSafe(|| what(parser))).is_err() {
            self.parser = self::parser(self.size, Title::default());
        }
    }
}

impl std::fmt::Debug for ScreenTracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScreenTracker")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

fn parser(size: TerminalSize, title: Title) -> Parser<Title> {
    Parser::new_with_callbacks(side(size.rows), side(size.cols), 0, title)
}

fn cells(size: TerminalSize) -> u32 {
    u32::from(size.rows) * u32::from(size.cols)
}

fn side(side: u16) -> NonZeroU16 {
    NonZeroU16::MIN.saturating_add(side.max(LEAST_SIDE) - 1)
}
