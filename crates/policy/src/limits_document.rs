//! The document of all limits, from the table of fields.

use std::fmt::Write;

use procession_core::{
    Field, Value,
    field::{Kind, Unit},
};

use crate::host::OnExcess;

/// A bound that is no field of a session: a host's budget, a tool's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Its name, as in the configuration or the code.
    pub name: &'static str,
    /// In what it is counted.
    pub unit: Unit,
    /// What holds when nothing is said.
    pub default: String,
    /// The most that can be set; empty when there is no ceiling.
    pub ceiling: String,
    /// What it means, in one line.
    pub about: &'static str,
}

const INTRODUCTION: &str = "\
# Limits

Generated from the table of fields and compared with it by a test; not to be edited by hand.

## Of a session

A host changes default, ceiling and what an excess does under `[defaults]`, `[ceilings]` and `[on_excess]`, by these
names. All bounds are inclusive. A ceiling is the most freedom that can be had:

- of a number it is the largest; of `nice` and `oom_score_adj`, where less is more, the smallest;
- of a word it is the last that can be had, in the order given here; of a flag it withholds what the flag would give,
  which for `dies_with_host` is `false`;
- of a list it is a count, or a list of all that may be named;
- of `terminal_size` it bounds rows and columns each, of `umask` it names the bits that have to be set, of `cwd_root` it
  is the only value.

A ceiling that a host, a principal or an owner sets also holds for a session that asks for nothing; the tightest counts.
Where nothing on a machine enforces a field, a request for it is refused, and so is a session whose host sets a default
or a ceiling for it, unless `[on_excess]` says `clamp` or `advise`: then what is inherited holds, on record.

";

/// The document in Markdown: the fields, then these bounds, where there are any.
#[must_use]
pub fn limits_markdown(bounds: &[Bound]) -> String {
    let mut document = INTRODUCTION.to_owned();
    document.push_str("| field | unit | values | default | ceiling | an excess is | meaning |\n");
    document.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for field in Field::ALL.iter().copied() {
        let spec = field.spec();
        let cells = [
            format!("`{}`", spec.name),
            spec.unit.name().to_owned(),
            values(field),
            cell(spec.default.value().as_ref()),
            cell(spec.ceiling.value().as_ref()),
            excess(field).to_owned(),
            spec.about.to_owned(),
        ];
        push_row(&mut document, &cells);
    }
    if bounds.is_empty() {
        return document;
    }
    document.push_str("\n## Of everything else\n\n");
    document.push_str("| bound | unit | default | ceiling | meaning |\n| --- | --- | --- | --- | --- |\n");
    for bound in bounds {
        let cells = [
            format!("`{}`", bound.name),
            bound.unit.name().to_owned(),
            bound.default.clone(),
            bound.ceiling.clone(),
            bound.about.to_owned(),
        ];
        push_row(&mut document, &cells);
    }
    document
}

fn values(field: Field) -> String {
    match field.spec().kind {
        Kind::Number { least } => format!("{least} and more"),
        Kind::Integer { least, most } => format!("{least} to {most}"),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Word(words) => {
            let mut words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            // For the log, to keep more is more.
            if field == Field::LogMode {
                words.reverse();
            }
            words.join(", ")
        }
        Kind::Size => "`ROWSxCOLS`".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::List => "list".to_owned(),
    }
}

const fn excess(field: Field) -> &'static str {
    match OnExcess::usual(field) {
        OnExcess::Clamp => "clamped",
        OnExcess::Refuse => "refused",
        OnExcess::Advise => "advised",
    }
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None => "none".to_owned(),
        Some(Value::List(entries)) if entries.is_empty() => "empty".to_owned(),
        Some(value) => value.to_string(),
    }
}

fn push_row(document: &mut String, cells: &[String]) {
    let cells: Vec<_> = cells
        .iter()
        .map(|cell| cell.replace('|', "\\|").replace('\n', " "))
        .collect();
    // Writing to a string cannot fail.
    let _ = writeln!(document, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_and_every_bound_has_one_row() {
        let bound = Bound {
            name: "max_sessions",
            unit: Unit::Count,
            default: "64".to_owned(),
            ceiling: "4096".to_owned(),
            about: "Sessions | of a host.",
        };
        let document = limits_markdown(&[bound]);
        for field in Field::ALL {
            let rows = document
                .lines()
                .filter(|line| line.starts_with(&format!("| `{field}` |")))
                .count();
            assert_eq!(rows, 1, "{field}");
        }
        assert!(
            document.ends_with("| `max_sessions` | count | 64 | 4096 | Sessions \\| of a host. |\n"),
            "{document}"
        );
        assert!(document.contains(
            "| `wall_time_ms` | ms | 1 and more | 600000 | 86400000 | clamped | Time from the spawn after which the \
             session is ended. |\n"
        ));
    }

    #[test]
    fn without_further_bounds_there_is_one_table() {
        assert!(!limits_markdown(&[]).contains("## Of everything else"));
    }
}
