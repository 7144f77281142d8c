//! The tables of a TOML text, each key and value with its line.

use std::{ops::Range, path::Path};

use procession_core::Value;
use toml::{
    Spanned,
    de::{DeInteger, DeTable, DeValue},
};

use super::error::{ConfigError, Place};

/// A text and the file that it is from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'d> {
    pub(super) file: &'d Path,
    pub(super) text: &'d str,
}

impl<'d> Text<'d> {
    /// Reads the text as TOML.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`], with the line's number and never with the line, which might hold a secret.
    pub(super) fn parse(self) -> Result<Spanned<DeTable<'d>>, ConfigError> {
        DeTable::parse(self.text).map_err(|error| ConfigError::Syntax {
            place: self.place(&error.span().unwrap_or_default()),
            message: error
                .message()
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(200)
                .collect(),
        })
    }

    /// The line that the bytes stand in.
    pub(super) fn place(self, span: &Range<usize>) -> Place {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = before.split(|byte| *byte == b'\n').count();
        Place {
            file: self.file.to_path_buf(),
            line,
        }
    }
}

/// A key of a table with its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'d> {
    pub(super) text: Text<'d>,
    pub(super) table: &'static str,
    pub(super) key: &'d str,
    key_at: usize,
    value: &'d Spanned<DeValue<'d>>,
}

/// The entries of a table, in the order of their keys.
pub(super) fn entries<'d>(
    text: Text<'d>,
    table: &'static str,
    value: &'d DeTable<'d>,
) -> impl Iterator<Item = Entry<'d>> {
    value.iter().map(move |(key, value)| Entry {
        text,
        table,
        key: key.get_ref(),
        key_at: key.span().start,
        value,
    })
}

impl<'d> Entry<'d> {
    /// The key with its table.
    pub(super) fn path(&self) -> String {
        if self.table.is_empty() {
            self.key.to_owned()
        } else {
            format!("{}.{}", self.table, self.key)
        }
    }

    /// Where the key stands.
    pub(super) fn place(&self) -> Place {
        self.text.place(&(self.key_at..self.key_at))
    }

    /// A whole number that is not negative.
    pub(super) fn number(&self) -> Result<u64, ConfigError> {
        match self.value.get_ref() {
            DeValue::Integer(integer) => match whole(integer) {
                Some(Value::Number(number)) => Ok(number),
                Some(_) => Err(self.unfit("it is not negative")),
                None => Err(self.unfit("it is below 2^64")),
            },
            _ => Err(self.wrong_type("a whole number")),
        }
    }

    /// Yes or no.
    pub(super) fn flag(&self) -> Result<bool, ConfigError> {
        self.value
            .get_ref()
            .as_bool()
            .ok_or_else(|| self.wrong_type("`true` or `false`"))
    }

    /// A text.
    pub(super) fn text(&self) -> Result<&'d str, ConfigError> {
        self.value
            .get_ref()
            .as_str()
            .ok_or_else(|| self.wrong_type("a text"))
    }

    /// A list of texts.
    pub(super) fn texts(&self) -> Result<Vec<String>, ConfigError> {
        let list = self
            .value
            .get_ref()
            .as_array()
            .ok_or_else(|| self.wrong_type("a list of texts"))?;
        list.iter()
            .map(|entry| {
                entry
                    .get_ref()
                    .as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| self.wrong_type("a list of texts"))
            })
            .collect()
    }

    /// One of these words.
    pub(super) fn word<T: Copy>(&self, words: &[(&'static str, T)]) -> Result<T, ConfigError> {
        let given = self.text()?;
        words
            .iter()
            .find(|(word, _)| *word == given)
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| {
                let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                self.unfit(format!("it is one of {}", known.join(", ")))
            })
    }

    /// The entries of a table.
    pub(super) fn table(&self, name: &'static str) -> Result<impl Iterator<Item = Entry<'d>>, ConfigError> {
        let table = self
            .value
            .get_ref()
            .as_table()
            .ok_or_else(|| self.wrong_type("a table"))?;
        Ok(entries(self.text, name, table))
    }

    /// Any value that a policy field can have; whether it fits the field is the policy's to say.
    pub(super) fn field_value(&self) -> Result<Value, ConfigError> {
        match self.value.get_ref() {
            DeValue::Integer(integer) => whole(integer).ok_or_else(|| self.unfit("it is below 2^64")),
            DeValue::Boolean(flag) => Ok(Value::Flag(*flag)),
            DeValue::String(text) => Ok(Value::Text(text.to_string())),
            DeValue::Array(_) => self.texts().map(Value::List),
            _ => Err(self.wrong_type("a whole number, a text, `true`, `false` or a list of texts")),
        }
    }

    /// What the value is, where it is a table or a text.
    pub(super) fn shape(&self) -> Shape {
        match self.value.get_ref() {
            DeValue::String(_) => Shape::Text,
            DeValue::Table(_) => Shape::Table,
            _ => Shape::Other,
        }
    }

    /// The error that says that the value is of the wrong kind.
    pub(super) fn wrong_type(&self, expected: &'static str) -> ConfigError {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "`true` or `false`",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list of other things",
            DeValue::Table(_) => "a table",
        };
        ConfigError::WrongType {
            place: self.place(),
            key: self.path(),
            expected,
            found,
        }
    }

    /// The error that says that the value does not fit.
    pub(super) fn unfit(&self, expected: impl Into<String>) -> ConfigError {
        ConfigError::Unfit {
            place: self.place(),
            key: self.path(),
            expected: expected.into(),
        }
    }

    /// The error that says that the key is none of these.
    pub(super) fn unknown_key(&self, known: impl IntoIterator<Item = &'static str>) -> ConfigError {
        ConfigError::UnknownKey {
            place: self.place(),
            table: self.table,
            key: self.key.chars().take(64).collect(),
            nearest: nearest(self.key, known),
        }
    }
}

/// What a value is, as far as that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A text.
    Text,
    /// A table.
    Table,
    /// Anything else.
    Other,
}

fn whole(integer: &DeInteger<'_>) -> Option<Value> {
    let digits = integer.as_str();
    if let Ok(number) = u64::from_str_radix(digits, integer.radix()) {
        return Some(Value::Number(number));
    }
    i64::from_str_radix(digits, integer.radix())
        .ok()
        .map(Value::Integer)
}

/// The known name that is most like the given one; the first of several.
pub(super) fn nearest(given: &str, known: impl IntoIterator<Item = &'static str>) -> &'static str {
    let given: Vec<char> = given.chars().take(64).collect();
    known
        .into_iter()
        .min_by_key(|name| distance(&given, name))
        .unwrap_or_default()
}

/// How many characters have to be put in, taken out or exchanged.
fn distance(given: &[char], known: &str) -> usize {
    let mut row: Vec<usize> = (0..=given.len()).collect();
    for (line, wanted) in known.chars().enumerate() {
        let mut diagonal = line;
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
        for place in 1..row.len() {
            let above = row[place];
            let exchanged = diagonal + usize::from(given[place - 1] != wanted);
            row[place] = exchanged.min(above + 1).min(row[place - 1] + 1);
            diagonal = above;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_the_one_with_the_fewest_changes() {
        let known = ["max_sessions", "max_sessions_per_owner", "retention_ms"];
        for (given, expected) in [
            ("max_session", "max_sessions"),
            ("maxsessions", "max_sessions"),
            ("max_sessions_per_user", "max_sessions_per_owner"),
            ("retention", "retention_ms"),
            ("", "max_sessions"),
        ] {
            assert_eq!(nearest(given, known), expected, "{given}");
        }
    }

    #[test]
    fn a_distance_counts_changes() {
        let check = |given: &str, known: &str, expected: usize| {
            let given: Vec<char> = given.chars().collect();
            assert_eq!(distance(&given, known), expected, "{given:?} {known}");
        };
        check("", "", 0);
        check("abc", "abc", 0);
        check("abc", "", 3);
        check("", "abc", 3);
        check("kitten", "sitting", 3);
    }

    #[test]
    fn a_syntax_error_does_not_show_the_line() {
        let text = Text {
            file: Path::new("f.toml"),
            text: "[secrets]\ntoken = \"hunter2\n",
        };
        let error = text.parse().expect_err("no end of the text").to_string();
        assert!(error.starts_with("f.toml:2: "), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
