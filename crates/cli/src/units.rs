//! Durations and sizes as people write them.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DurationError {
    /// It is empty.
    #[error("it is empty: write a duration such as `10s`, `1m30s` or `500ms`")]
    Empty,
    /// A number has no unit.
    #[error("`{number}` has no unit: write `{number}s` for seconds or `{number}ms` for milliseconds")]
    NoUnit {
        /// The number.
        number: String,
    },
    /// There is no such unit.
    #[error("`{unit}` is no unit of time: there are `ms`, `s`, `m`, `h` and `d`")]
    UnknownUnit {
        /// What stands where the unit belongs.
        unit: String,
    },
    /// A unit stands without a number.
    #[error("`{unit}` has no number before it")]
    NoNumber {
        /// The unit.
        unit: String,
    },
    /// Units stand in another order than from the largest to the smallest, each once.
    #[error("`{unit}` is out of order: write the larger units first, each once, as in `1m30s`")]
    OutOfOrder {
        /// The unit.
        unit: String,
    },
}

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SizeError {
    /// It does not begin with a whole number.
    #[error("it begins with no whole number: write a size such as `4096` or `32MiB`")]
    NoNumber,
    /// There is no such unit.
    #[error(
        "`{unit}` is no unit of size: there are `B`, `KiB`, `MiB`, `GiB`, `TiB` and `KB`, `MB`, `GB`, `TB`"
    )]
    UnknownUnit {
        /// What stands where the unit belongs.
        unit: String,
    },
}

/// Units of time, from the largest, in milliseconds.
const TIME_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Units of size in bytes.
const SIZE_UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Reads a duration such as `10s`, `1m30s` or `500ms`.
///
/// What is too large to be told counts as the longest that can be.
///
/// # Errors
/// [`DurationError`] with the part that is at fault. A plain number is refused, since its unit could only be guessed.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut total_ms = 0_u64;
    let mut units = TIME_UNITS.iter();
    while !rest.is_empty() {
        let (number, behind) = split_number(rest);
        let unit_bytes = behind
            .find(|character: char| character.is_ascii_digit())
            .unwrap_or(behind.len());
        let (unit, next) = behind.split_at(unit_bytes);
        if number.is_empty() {
            return Err(DurationError::NoNumber { unit: cut(unit) });
        }
        if unit.is_empty() {
            return Err(DurationError::NoUnit { number: cut(number) });
        }
        let Some((_, unit_ms)) = units.find(|(name, _)| *name == unit) else {
            let known = TIME_UNITS.iter().any(|(name, _)| *name == unit);
            let unit = cut(unit);
            return Err(if known {
                DurationError::OutOfOrder { unit }
            } else {
                DurationError::UnknownUnit { unit }
            });
        };
        total_ms = total_ms.saturating_add(whole(number).saturating_mul(*unit_ms));
        rest = next;
    }
    Ok(Duration::from_millis(total_ms))
}

/// Reads a size such as `4096`, `32MiB` or `10MB`, in bytes; a plain number is bytes.
///
/// What is too large to be told counts as the largest that can be. Upper and lower case are the same.
///
/// # Errors
/// [`SizeError`] with the part that is at fault.
pub(crate) fn parse_size(text: &str) -> Result<u64, SizeError> {
    let (number, unit) = split_number(text.trim());
    if number.is_empty() {
        return Err(SizeError::NoNumber);
    }
    let unit = unit.trim_start();
    let known = SIZE_UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let (_, unit_bytes) = known.ok_or_else(|| SizeError::UnknownUnit { unit: cut(unit) })?;
    Ok(whole(number).saturating_mul(*unit_bytes))
}

/// The digits in front, and what is behind them.
fn split_number(text: &str) -> (&str, &str) {
    text.split_at(
        text.find(|character: char| !character.is_ascii_digit())
            .unwrap_or(text.len()),
    )
}

/// The number that these digits make, at most `u64::MAX`.
fn whole(digits: &str) -> u64 {
    digits.parse().unwrap_or(u64::MAX)
}

fn cut(text: &str) -> String {
    text.chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duration(text: &str, millis: u64) {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
    }

    fn no_duration(text: &str, error: &DurationError) {
        assert_eq!(parse_duration(text).as_ref(), Err(error), "{text}");
    }

    #[test]
    fn durations_are_numbers_with_units() {
        duration("10s", 10_000);
        duration("500ms", 500);
        duration("1m30s", 90_000);
        duration("2h", 7_200_000);
        duration("1d2h3m4s5ms", 93_784_005);
        duration("0s", 0);
        duration("007s", 7_000);
        duration("999999999999999999999999d", u64::MAX);
        duration("18446744073709551615ms", u64::MAX);
        duration("18446744073709551615h1ms", u64::MAX);
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_a_hint() {
        let error = parse_duration("10").expect_err("no unit");
        assert!(error.to_string().contains("`10s`"), "{error}");
        no_duration("1m30", &DurationError::NoUnit { number: "30".into() });
    }

    #[test]
    fn what_is_no_duration_is_told() {
        no_duration("", &DurationError::Empty);
        no_duration("  ", &DurationError::Empty);
        no_duration("s", &DurationError::NoNumber { unit: "s".into() });
        no_duration("-5s", &DurationError::NoNumber { unit: "-".into() });
        no_duration("5 s", &DurationError::UnknownUnit { unit: " s".into() });
        no_duration("1.5s", &DurationError::UnknownUnit { unit: ".".into() });
        no_duration("5min", &DurationError::UnknownUnit { unit: "min".into() });
        no_duration("1s2m", &DurationError::OutOfOrder { unit: "m".into() });
        no_duration("1s2s", &DurationError::OutOfOrder { unit: "s".into() });
        no_duration("٣s", &DurationError::NoNumber { unit: "٣s".into() });
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        for (text, bytes) in [
            ("4096", 4096),
            ("0", 0),
            ("32MiB", 32 << 20),
            ("1GiB", 1 << 30),
            ("10MB", 10_000_000),
            ("1kib", 1024),
            ("7 KB", 7_000),
            ("12B", 12),
            ("99999999999999999999", u64::MAX),
            ("18446744073709551615TiB", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "+1", " "] {
            assert_eq!(parse_size(text), Err(SizeError::NoNumber), "{text}");
        }
        for (text, unit) in [("32M", "M"), ("1.5GiB", ".5GiB"), ("1XB", "XB")] {
            assert_eq!(
                parse_size(text),
                Err(SizeError::UnknownUnit { unit: unit.into() }),
                "{text}"
            );
        }
    }
}
