//! What a terminal makes of what is typed, before a program reads it.
//!
//! A terminal that passes on lines keeps the one that is being typed to itself, so that it can be edited: a program
//! sees none of it before its end. To tell a program that the input is over, one has to know whether such a line has
//! begun; and a line that is too long for the terminal is cut without a word. Both can be known by following what was
//! typed, which is what [`PendingLine`] does.

use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// The longest line that a terminal keeps, in bytes, inclusive, its end not counted; it cuts off the rest.
pub const MAX_LINE_BYTES: u64 = 4095;

/// How a terminal passes on what is typed, at one moment: its program may change it at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalMode {
    /// Whole lines, which can be edited until they end.
    Lines(LineRules),
    /// Every byte as it comes.
    Raw,
}

/// What a byte does to the line that is being typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRole {
    /// It ends the line, which is passed on with it.
    EndsLine,
    /// It passes on what there is of the line, without itself; at the beginning of a line that is the end of file.
    EndsFile,
    /// It takes away the last character.
    ErasesCharacter,
    /// It takes away the last word.
    ErasesWord,
    /// It takes away the whole line.
    ErasesLine,
    /// It makes the next byte an ordinary one.
    Quotes,
    /// It does something else, and is no part of the line.
    Vanishes,
}

/// The bytes that are not simply a part of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRules {
    roles: BTreeMap<u8, ByteRole>,
}

impl LineRules {
    /// Rules under which every byte is an ordinary one.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            roles: BTreeMap::new(),
        }
    }

    /// The same, with a role for a byte instead of the one that it had.
    #[must_use]
    pub fn with(mut self, byte: u8, role: ByteRole) -> Self {
        self.roles.insert(byte, role);
        self
    }

    /// What a byte does; none where it is an ordinary one.
    #[must_use]
    pub fn role(&self, byte: u8) -> Option<ByteRole> {
        self.roles.get(&byte).copied()
    }

    /// The byte that means end of file; none where no byte does.
    #[must_use]
    pub fn end_of_file(&self) -> Option<u8> {
        self.roles
            .iter()
            .find(|(_, role)| **role == ByteRole::EndsFile)
            .map(|(byte, _)| *byte)
    }
}

impl Default for LineRules {
    /// Those of a new terminal on Linux.
    fn default() -> Self {
        [
            (b'\n', ByteRole::EndsLine),
            (b'\r', ByteRole::EndsLine),
            (0x04, ByteRole::EndsFile),
            (0x7f, ByteRole::ErasesCharacter),
            (0x17, ByteRole::ErasesWord),
            (0x15, ByteRole::ErasesLine),
            (0x03, ByteRole::ErasesLine),
            (0x1a, ByteRole::ErasesLine),
            (0x1c, ByteRole::ErasesLine),
            (0x16, ByteRole::Quotes),
            (0x12, ByteRole::Vanishes),
            (0x11, ByteRole::Vanishes),
            (0x13, ByteRole::Vanishes),
        ]
        .into_iter()
        .fold(Self::none(), |rules, (byte, role)| rules.with(byte, role))
    }
}

/// The line that is being typed, as far as its terminal has not passed it on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PendingLine {
    /// What there is of it, up to the longest that a terminal keeps.
    kept: Vec<u8>,
    /// How much the terminal cut off, in bytes.
    cut_bytes: u64,
    is_quoting: bool,
}

impl PendingLine {
    /// How long it is, in bytes, with what the terminal cut off.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.cut_bytes.saturating_add(self.kept.len() as u64)
    }

    /// Takes notice of what is typed.
    pub fn follow(&mut self, typed: &[u8], rules: &LineRules) {
        for byte in typed {
            self.follow_byte(*byte, rules);
        }
    }

    /// Forgets the line: the terminal has passed it on or thrown it away.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// How long the longest line would be that typing this makes, in bytes, its end not counted.
    #[must_use]
    pub fn longest_with(&self, typed: &[u8], rules: &LineRules) -> u64 {
        let mut line = self.clone();
        let mut longest = line.bytes();
        for byte in typed {
            line.follow_byte(*byte, rules);
            longest = longest.max(line.bytes());
        }
        longest
    }

    /// How often the end-of-file byte has to be typed until a program sees the end of file: once at the beginning of a
    /// line, once more where there is a line to be passed on first, and once more where the first is taken for a byte
    /// of it.
    #[must_use]
    pub fn ends_of_file_needed(&self) -> usize {
        match (self.is_quoting, self.bytes()) {
            (true, _) => 3,
            (false, 0) => 1,
            (false, _) => 2,
        }
    }

    fn follow_byte(&mut self, byte: u8, rules: &LineRules) {
        if std::mem::take(&mut self.is_quoting) {
            self.push(byte);
            return;
        }
        match rules.role(byte) {
            None => self.push(byte),
            Some(ByteRole::EndsLine | ByteRole::EndsFile | ByteRole::ErasesLine) => self.clear(),
            Some(ByteRole::ErasesCharacter) => {
                self.pop_character();
            }
            Some(ByteRole::ErasesWord) => self.pop_word(),
            Some(ByteRole::Quotes) => self.is_quoting = true,
            Some(ByteRole::Vanishes) => {}
        }
    }

    fn push(&mut self, byte: u8) {
        if self.bytes() < MAX_LINE_BYTES {
            self.kept.push(byte);
        } else {
            self.cut_bytes = self.cut_bytes.saturating_add(1);
        }
    }

    /// Takes away a character of one or more bytes; what was cut off is not there to be taken away.
    fn pop_character(&mut self) -> Option<u8> {
        loop {
            let byte = self.kept.pop()?;
            if !is_continuation(byte) {
                return Some(byte);
            }
        }
    }

    /// Takes away what is no word, and the word before it.
    fn pop_word(&mut self) {
        let mut is_in_word = false;
        while let Some(byte) = self.last_character() {
            let is_of_word = byte.is_ascii_alphanumeric() || byte == b'_';
            if is_in_word && !is_of_word {
                return;
            }
            is_in_word |= is_of_word;
            self.pop_character();
        }
    }

    /// The first byte of the last character.
    fn last_character(&self) -> Option<u8> {
        self.kept
            .iter()
            .rev()
            .find(|byte| !is_continuation(**byte))
            .copied()
    }
}

/// Whether a byte goes on with a character of UTF-8.
const fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}
