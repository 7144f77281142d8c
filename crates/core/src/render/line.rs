//! The line that a terminal's cursor is on.

use std::collections::BTreeMap;
use std::ops::Range;

use unicode_width::UnicodeWidthChar;

/// The longest line that can be edited in its middle, in columns, beyond what any terminal has. It bounds the cost of a
/// sequence of few bytes.
const EDIT_COLUMNS: usize = 1024;
/// How far behind its end a line can be continued at most, in columns, the gap filled with blanks.
const MAX_COLUMN: usize = 1024;
/// The second half of a character of two columns.
const SECOND_HALF: char = '\0';

/// One line, addressed by columns.
#[derive(Debug, Default)]
pub(super) struct Line {
    cells: Vec<Cell>,
    column: usize,
    /// What stands on a column besides its character: marks that have no width.
    marks: BTreeMap<usize, String>,
}

/// One column.
#[derive(Debug, Clone, Copy)]
struct Cell {
    glyph: char,
    from: u32,
    to: u32,
}

impl Line {
    pub(super) const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear();
        self.marks.clear();
        self.column = 0;
    }

    /// Its characters from left to right, each with the bytes that it came from.
    pub(super) fn characters(&self) -> impl Iterator<Item = (char, Range<u32>)> {
        let whole = self.cells.iter().enumerate();
        whole
            .filter(|(_, cell)| cell.glyph != SECOND_HALF)
            .flat_map(|(column, cell)| {
                let marks = self.marks.get(&column).map_or("", String::as_str);
                std::iter::once(cell.glyph)
                    .chain(marks.chars())
                    .map(|character| (character, cell.from..cell.to))
            })
    }

    /// Writes a character at the cursor over what is there; how many blanks had to be filled in.
    pub(super) fn put(&mut self, glyph: char, bytes: Range<u32>) -> usize {
        let width = glyph.width().unwrap_or(0).min(2);
        if width == 0 && self.mark(glyph, bytes.end) {
            return 0;
        }
        let filled = self.column.saturating_sub(self.cells.len());
        let blank = Cell {
            glyph: ' ',
            from: bytes.start,
            to: bytes.start,
        };
        let cell = Cell {
            glyph,
            from: bytes.start,
            to: bytes.end,
        };
        self.cells.resize(self.cells.len() + filled, blank);
        self.set(self.column, cell);
        if width == 2 {
            let glyph = SECOND_HALF;
            self.set(self.column + 1, Cell { glyph, ..cell });
        }
        self.column += width.max(1);
        filled
    }

    /// Puts a mark on the character in front of the cursor, if there is one.
    fn mark(&mut self, mark: char, to: u32) -> bool {
        let Some(column) = (0..self.column.min(self.cells.len()))
            .rev()
            .find(|column| self.cells[*column].glyph != SECOND_HALF)
        else {
            return false;
        };
        self.marks.entry(column).or_default().push(mark);
        self.cells[column].to = self.cells[column].to.max(to);
        true
    }

    fn set(&mut self, column: usize, cell: Cell) {
        self.split(column);
        self.split(column + 1);
        self.marks.remove(&column);
        match self.cells.get_mut(column) {
            Some(old) => *old = cell,
            None => self.cells.push(cell),
        }
    }

    /// Where a character of two columns stands on both sides of `column`, blanks take its place.
    fn split(&mut self, column: usize) {
        if self
            .cells
            .get(column)
            .is_some_and(|cell| cell.glyph == SECOND_HALF)
        {
            self.cells[column].glyph = ' ';
            if let Some(first) = column.checked_sub(1) {
                self.cells[first].glyph = ' ';
                self.marks.remove(&first);
            }
        }
    }

    pub(super) const fn move_to(&mut self, column: usize) {
        let most = if self.cells.len() > MAX_COLUMN {
            self.cells.len()
        } else {
            MAX_COLUMN
        };
        self.column = if column < most { column } else { most };
    }

    pub(super) const fn right(&mut self, columns: usize) {
        self.move_to(self.column.saturating_add(columns));
    }

    pub(super) const fn left(&mut self, columns: usize) {
        self.column = self.column.saturating_sub(columns);
    }

    /// Moves the cursor to its line's end, if it is behind it.
    pub(super) const fn move_to_end_at_most(&mut self) {
        if self.column > self.cells.len() {
            self.column = self.cells.len();
        }
    }

    /// A tabulator: kept as it is at the end of the line, elsewhere a move to the next stop; how many blanks had to be
    /// filled in.
    pub(super) fn tab(&mut self, bytes: Range<u32>) -> usize {
        if self.column < self.cells.len() {
            self.move_to((self.column / 8 + 1) * 8);
            return 0;
        }
        let filled = self.put(' ', bytes);
        if let Some(cell) = self.cells.last_mut() {
            cell.glyph = '\t';
        }
        filled
    }

    /// Erases from the cursor to the end.
    pub(super) fn erase_right(&mut self) {
        self.truncate(self.column);
    }

    /// Erases from the start up to the cursor, inclusive.
    pub(super) fn erase_left(&mut self) {
        self.erase(0..self.column.saturating_add(1));
    }

    /// Erases the whole line and leaves the cursor.
    pub(super) fn erase_all(&mut self) {
        self.truncate(0);
    }

    /// Erases this many columns from the cursor on.
    pub(super) fn erase_columns(&mut self, columns: usize) {
        self.erase(self.column..self.column.saturating_add(columns));
    }

    fn truncate(&mut self, column: usize) {
        self.split(column);
        self.cells.truncate(column);
        self.marks.split_off(&column);
    }

    fn erase(&mut self, columns: Range<usize>) {
        if columns.end >= self.cells.len() {
            self.truncate(columns.start);
            return;
        }
        if !self.can_edit() {
            return;
        }
        self.split(columns.start);
        self.split(columns.end);
        for column in columns {
            self.cells[column].glyph = ' ';
            self.marks.remove(&column);
        }
    }

    /// Takes this many columns away at the cursor.
    pub(super) fn delete(&mut self, columns: usize) {
        let (from, to) = (self.column, self.column.saturating_add(columns));
        if to >= self.cells.len() {
            self.truncate(from);
            return;
        }
        if self.can_edit() {
            self.split(from);
            self.split(to);
            self.cells.drain(from..to);
            let behind = self.marks.split_off(&from);
            let kept = behind.into_iter().filter(|(column, _)| *column >= to);
            self.marks
                .extend(kept.map(|(column, marks)| (column - (to - from), marks)));
        }
    }

    /// Puts this many blanks in at the cursor, or fewer where the line gets too long; how many.
    pub(super) fn insert(&mut self, columns: usize) -> usize {
        let at = self.column;
        let columns = columns.min(EDIT_COLUMNS.saturating_sub(self.cells.len()));
        if at < self.cells.len() && columns > 0 {
            self.split(at);
            let blank = Cell {
                glyph: ' ',
                ..self.cells[at]
            };
            self.cells.splice(at..at, std::iter::repeat_n(blank, columns));
            let behind = self.marks.split_off(&at);
            self.marks.extend(
                behind
                    .into_iter()
                    .map(|(column, marks)| (column + columns, marks)),
            );
            return columns;
        }
        0
    }

    const fn can_edit(&self) -> bool {
        self.cells.len() <= EDIT_COLUMNS
    }
}
