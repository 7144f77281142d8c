//! Which of two values gives a session more freedom, and what a ceiling makes of a value.

use procession_core::{
    Field, Value,
    field::{Fixed, Kind, parse_size},
};

use crate::decide::{LEAST_OUTPUT_BUDGET_BYTES, MAX_TERMINAL_SIDE};

const SECOND_MS: u64 = 1000;

/// What a value becomes under a ceiling; none when it is within it.
///
/// | kind | a value is within the ceiling when |
/// | --- | --- |
/// | number | it is not larger |
/// | number that may be negative (`nice`, `oom_score_adj`) | it is not smaller: there, less is more |
/// | flag | it is the ceiling, or the freedom that the flag gives is not taken |
/// | word | it stands not behind the ceiling in the order of freedom |
/// | size | it has not more rows and not more columns |
/// | `umask` | it has at least the ceiling's bits |
/// | `cwd_root` | it is the ceiling: what lies below could be a link that leads out |
/// | list | it has not more entries than a number, or only entries of a list |
pub(crate) fn bounded(field: Field, value: &Value, ceiling: &Value) -> Option<Value> {
    match (field.spec().kind, value, ceiling) {
        (Kind::Number { .. }, value, ceiling) => {
            let most = ceiling.as_number()?;
            (value.as_number()? > most).then_some(Value::Number(most))
        }
        (Kind::Integer { .. }, value, ceiling) => {
            let least = as_integer(ceiling)?;
            (as_integer(value)? < least).then(|| ceiling.clone())
        }
        (Kind::Flag, Value::Flag(value), Value::Flag(ceiling)) => {
            let taken = *value == generous_flag(field);
            (taken && value != ceiling).then_some(Value::Flag(*ceiling))
        }
        (Kind::Word(words), Value::Text(value), Value::Text(most)) => {
            let beyond = rank(field, words, value)? > rank(field, words, most)?;
            beyond.then(|| ceiling.clone())
        }
        (Kind::Size, Value::Text(value), Value::Text(ceiling)) => {
            let (rows, cols) = parse_size(value)?;
            let (most_rows, most_cols) = parse_size(ceiling)?;
            let within = rows <= most_rows && cols <= most_cols;
            (!within).then(|| size(rows.min(most_rows), cols.min(most_cols)))
        }
        (Kind::Text, Value::Text(value), Value::Text(ceiling)) if field == Field::Umask => {
            let (given, needed) = (parse_umask(value)?, parse_umask(ceiling)?);
            (given & needed != needed).then(|| Value::Text(format!("{:04o}", given | needed)))
        }
        (Kind::Text, value, ceiling) => (value != ceiling).then(|| ceiling.clone()),
        (Kind::List, Value::List(entries), Value::List(allowed)) => {
            let kept: Vec<_> = entries
                .iter()
                .filter(|entry| allowed.contains(entry))
                .cloned()
                .collect();
            (kept.len() < entries.len()).then_some(Value::List(kept))
        }
        (Kind::List, Value::List(entries), ceiling) => {
            let most = usize::try_from(ceiling.as_number()?).unwrap_or(usize::MAX);
            (entries.len() > most).then(|| Value::List(entries.iter().take(most).cloned().collect()))
        }
        _ => None,
    }
}

/// Whether two values are one and the same: numbers by what they count, all else by form.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (as_integer(one), as_integer(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// Whether a session without a value of this field has more freedom than with any.
pub(crate) const fn is_free_without(field: Field) -> bool {
    matches!(field.spec().default, Fixed::None)
        || matches!(
            field,
            Field::WallTime | Field::Leftovers | Field::DiesWithHost | Field::Containment
        )
}

/// Whether the value fits the field, told by what would.
pub(crate) fn check_value(field: Field, value: &Value) -> Result<(), &'static str> {
    field.check(value).map_err(|unfit| unfit.expected)?;
    match (field, value) {
        (Field::Umask, Value::Text(text)) if parse_umask(text).is_none() => {
            Err("it is three or four octal digits, at most `0777`")
        }
        _ => Ok(()),
    }
}

/// Whether the value can be a ceiling of the field, told by what could.
pub(crate) fn check_ceiling(field: Field, ceiling: &Value) -> Result<(), &'static str> {
    match (field.spec().kind, ceiling) {
        (Kind::List, Value::List(_)) => Ok(()),
        (Kind::List, count) if count.as_number().is_some() => Ok(()),
        (Kind::List, _) => Err("it is a count, or a list of what may be named"),
        _ if field == Field::Containment && ceiling.as_text() == Some("auto") => {
            Err("it is the weakest means that will do, not `auto`")
        }
        _ => {
            check_value(field, ceiling)?;
            match put_right(field, ceiling) {
                Some(_) if field == Field::CpuTime => Err("it is whole seconds, in milliseconds"),
                Some(_) => Err("it is outside of what can be had"),
                None => Ok(()),
            }
        }
    }
}

/// What a value becomes that has a form but no use: too small a budget, a terminal without rows, parts of a second
/// where whole ones are counted.
pub(crate) fn put_right(field: Field, value: &Value) -> Option<Value> {
    match field {
        Field::OutputBudget if value.as_number()? < LEAST_OUTPUT_BUDGET_BYTES => {
            Some(Value::Number(LEAST_OUTPUT_BUDGET_BYTES))
        }
        Field::CpuTime => {
            let given = value.as_number()?;
            // The last part of a second of all has no whole one behind it, and no end.
            let right = given.checked_next_multiple_of(SECOND_MS)?;
            (right != given).then_some(Value::Number(right))
        }
        Field::TerminalSize => {
            let given = parse_size(value.as_text()?)?;
            let usual = match field.spec().default {
                Fixed::Word(size) => parse_size(size)?,
                _ => return None,
            };
            let side = |given: u16, usual: u16| {
                if given == 0 {
                    usual
                } else {
                    given.min(MAX_TERMINAL_SIDE)
                }
            };
            let right = (side(given.0, usual.0), side(given.1, usual.1));
            (right != given).then(|| size(right.0, right.1))
        }
        _ => None,
    }
}

/// The value as a number, negative or not; what is beyond `i128` cannot be.
fn as_integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => Some(i128::from(*number)),
        Value::Integer(number) => Some(i128::from(*number)),
        _ => None,
    }
}

/// Which way the flag gives freedom.
const fn generous_flag(field: Field) -> bool {
    // To outlive the host is the freedom; a terminal and the network are.
    !matches!(field, Field::DiesWithHost)
}

/// The word's place in the order of freedom: that of the table, but for the log, where to keep more is more.
fn rank(field: Field, words: &[&str], word: &str) -> Option<usize> {
    let place = words.iter().position(|known| *known == word)?;
    if field == Field::LogMode {
        words.len().checked_sub(place)
    } else {
        Some(place)
    }
}

fn size(rows: u16, cols: u16) -> Value {
    Value::Text(format!("{rows}x{cols}"))
}

fn parse_umask(text: &str) -> Option<u16> {
    let octal = (3..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let bits = u16::from_str_radix(text, 8).ok()?;
    (octal && bits <= 0o777).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Value {
        Value::List(entries.iter().map(|entry| (*entry).to_owned()).collect())
    }

    #[test]
    fn a_ceiling_takes_what_is_beyond_it_and_no_more() {
        let check = |field: Field, value: Value, ceiling: Value, expected: Option<Value>| {
            assert_eq!(
                bounded(field, &value, &ceiling),
                expected,
                "{field} = {value} under {ceiling}"
            );
        };
        let number = Value::Number;
        check(Field::WallTime, number(10), number(10), None);
        check(Field::WallTime, number(u64::MAX), number(10), Some(number(10)));
        check(Field::WallTime, number(11), Value::Integer(10), Some(number(10)));
        check(Field::Nice, Value::Integer(-5), number(0), Some(number(0)));
        check(Field::Nice, number(5), number(0), None);
        check(Field::Tty, true.into(), false.into(), Some(false.into()));
        check(Field::Tty, false.into(), true.into(), None);
        check(Field::DiesWithHost, false.into(), true.into(), Some(true.into()));
        check(Field::DiesWithHost, true.into(), false.into(), None);
        check(Field::Stdin, "piped".into(), "null".into(), Some("null".into()));
        check(Field::Stdin, "null".into(), "piped".into(), None);
        check(
            Field::LogMode,
            "rolling".into(),
            "keep_head".into(),
            Some("keep_head".into()),
        );
        check(Field::LogMode, "off".into(), "keep_head".into(), None);
        check(
            Field::LogMode,
            "keep_head".into(),
            "off".into(),
            Some("off".into()),
        );
        check(
            Field::Containment,
            "process_group".into(),
            "subreaper".into(),
            Some("subreaper".into()),
        );
        check(Field::Containment, "cgroup".into(), "subreaper".into(), None);
        check(Field::Containment, "scripted".into(), "subreaper".into(), None);
        check(
            Field::TerminalSize,
            "24x300".into(),
            "50x200".into(),
            Some("24x200".into()),
        );
        check(Field::Umask, "0002".into(), "022".into(), Some("0022".into()));
        check(Field::Umask, "077".into(), "022".into(), None);
        check(Field::CwdRoot, "/a/b".into(), "/a".into(), Some("/a".into()));
        check(Field::CwdRoot, "/a".into(), "/a".into(), None);
        check(Field::EnvKeys, list(&["A", "B"]), number(1), Some(list(&["A"])));
        check(Field::EnvKeys, list(&["A", "B"]), number(2), None);
        check(
            Field::WritableRoots,
            list(&["/a", "/b"]),
            list(&["/b"]),
            Some(list(&["/b"])),
        );
        check(Field::WritableRoots, list(&["/b"]), list(&["/b", "/c"]), None);
    }

    #[test]
    fn what_has_no_use_is_put_right() {
        let check = |field: Field, value: Value, expected: Option<Value>| {
            assert_eq!(put_right(field, &value), expected, "{field} = {value}");
        };
        check(Field::OutputBudget, Value::Number(0), Some(Value::Number(128)));
        check(Field::OutputBudget, Value::Number(127), Some(Value::Number(128)));
        check(Field::OutputBudget, Value::Number(128), None);
        check(Field::TerminalSize, "0x0".into(), Some("24x120".into()));
        check(Field::TerminalSize, "0x80".into(), Some("24x80".into()));
        check(
            Field::TerminalSize,
            "65535x65535".into(),
            Some("4096x4096".into()),
        );
        check(Field::TerminalSize, "1x4096".into(), None);
        check(Field::CpuTime, Value::Number(1), Some(Value::Number(1_000)));
        check(Field::CpuTime, Value::Number(1_001), Some(Value::Number(2_000)));
        check(Field::CpuTime, Value::Number(2_000), None);
        check(Field::CpuTime, Value::Number(u64::MAX), None);
        check(Field::WallTime, Value::Number(1), None);
    }

    #[test]
    fn a_ceiling_has_to_be_one() {
        let check = |field: Field, ceiling: Value, expected: bool| {
            assert_eq!(
                check_ceiling(field, &ceiling).is_ok(),
                expected,
                "{field} under {ceiling}"
            );
        };
        check(Field::CpuTime, Value::Number(2_000), true);
        check(Field::CpuTime, Value::Number(2_001), false);
        check(Field::EnvKeys, Value::Number(0), true);
        check(Field::EnvKeys, list(&["A"]), true);
        check(Field::EnvKeys, "A".into(), false);
        check(Field::OutputBudget, Value::Number(127), false);
        check(Field::OutputBudget, Value::Number(128), true);
        check(Field::TerminalSize, "0x10".into(), false);
        check(Field::TerminalSize, "50x200".into(), true);
        check(Field::Umask, "022".into(), true);
        check(Field::Umask, "0778".into(), false);
        check(Field::Umask, "+22".into(), false);
        check(Field::Umask, "1777".into(), false);
        check(Field::Tty, "no".into(), false);
        check(Field::Containment, "auto".into(), false);
        check(Field::Containment, "subreaper".into(), true);
        check(Field::LogBytes, Value::Number(1), false);
    }
}
