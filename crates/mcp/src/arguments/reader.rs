//! Reads a call's arguments one by one, strictly, and says what is wrong in the caller's own words.

use std::collections::BTreeMap;

use procession_core::SessionId;
use serde_json::{Map, Value, json};

use super::nearest::nearest;
use crate::{
    failure::Failure,
    tools::{Alias, Argument, Tool},
};

/// The arguments of one call, under the names of the tool's table.
#[derive(Debug)]
pub(crate) struct Reader {
    values: Map<String, Value>,
    /// Under which name an argument was given, where that was another one.
    given_as: BTreeMap<&'static str, &'static str>,
    clamps: Vec<Value>,
}

/// What a number may be before it is cut, and what it is when nobody says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The name on record.
    pub(crate) field: &'static str,
    /// Smaller ones count as this.
    pub(crate) least: u64,
    /// Larger ones count as this.
    pub(crate) most: u64,
}

impl Reader {
    /// Resolves other names and refuses what the tool does not know; `null` counts as not given.
    pub(crate) fn new(tool: &Tool, arguments: Map<String, Value>) -> Result<Self, Failure> {
        let mut reader = Self {
            values: Map::new(),
            given_as: BTreeMap::new(),
            clamps: Vec::new(),
        };
        let mut others = Vec::new();
        for (name, value) in arguments {
            if value.is_null() {
                continue;
            }
            if let Some(argument) = tool.arguments.iter().find(|argument| argument.name == name) {
                reader.values.insert(argument.name.to_owned(), value);
            } else if let Some((argument, alias)) = alias_of(tool, &name) {
                others.push((argument, alias, value));
            } else {
                return Err(unknown(tool, &name));
            }
        }
        for (argument, alias, value) in others {
            reader.take_alias(argument, alias, value)?;
        }
        Ok(reader)
    }

    fn take_alias(&mut self, argument: &Argument, alias: &Alias, value: Value) -> Result<(), Failure> {
        let value = match alias.factor {
            1 => value,
            factor => json!(whole(alias.name, &value)?.saturating_mul(factor)),
        };
        match self.values.get(argument.name) {
            Some(first) if *first != value => Err(Failure::invalid(
                alias.name,
                format!(
                    "`{}` and `{}` are one argument and say different things",
                    argument.name, alias.name
                ),
            )),
            Some(_) => Ok(()),
            None => {
                self.given_as.insert(argument.name, alias.name);
                self.values.insert(argument.name.to_owned(), value);
                Ok(())
            }
        }
    }

    /// The name under which the caller gave an argument.
    pub(crate) fn name<'a>(&self, name: &'a str) -> &'a str {
        self.given_as.get(name).copied().unwrap_or(name)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(self.name(name), "a text", &other)),
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(self.name(name), "`true` or `false`", &other)),
        }
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        self.take(name)
            .map(|value| whole(self.name(name), &value))
            .transpose()
    }

    /// A number that is cut to its bounds, which goes on record.
    pub(crate) fn clamped(&mut self, name: &str, bounds: Bounds) -> Result<Option<u64>, Failure> {
        let Some(requested) = self.number(name)? else {
            return Ok(None);
        };
        let effective = requested.clamp(bounds.least, bounds.most);
        if effective != requested {
            self.clamps.push(json!({
                "field": bounds.field, "requested": requested, "effective": effective, "status": "clamped",
                "set_by": "host", "level": "native", "channel": "supervisor",
            }));
        }
        Ok(Some(effective))
    }

    /// A number from 1 to 65535, as terminals have rows and columns.
    pub(crate) fn cells(&mut self, name: &str) -> Result<u16, Failure> {
        let value = self.take(name).ok_or_else(|| missing(name))?;
        cells(self.name(name), &value)
    }

    pub(crate) fn word(&mut self, name: &str, words: &[&str]) -> Result<Option<String>, Failure> {
        let Some(word) = self.text(name)? else {
            return Ok(None);
        };
        if words.contains(&word.as_str()) {
            return Ok(Some(word));
        }
        Err(not_one_of(self.name(name), &word, words))
    }

    pub(crate) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        self.take(name)
            .map(|value| texts(self.name(name), value))
            .transpose()
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(wrong(self.name(name), "an object", &other)),
        }
    }

    /// The session that the call is about.
    pub(crate) fn session(&mut self) -> Result<SessionId, Failure> {
        let text = self.text("session_id")?.ok_or_else(|| missing("session_id"))?;
        text.parse().map_err(|_| Failure::not_found())
    }

    /// What was cut, as entries of an answer's `policy`.
    pub(crate) fn into_clamps(self) -> Vec<Value> {
        self.clamps
    }
}

/// An argument that has to be there is not.
pub(crate) fn missing(name: &str) -> Failure {
    Failure::invalid(name, format!("`{name}` is missing"))
}

/// An argument is of the wrong type.
pub(crate) fn wrong(name: &str, expected: &str, given: &Value) -> Failure {
    let given = match given {
        Value::Null => "`null`".to_owned(),
        Value::Bool(flag) => format!("`{flag}`"),
        Value::Number(number) => format!("`{number}`"),
        Value::String(text) => format!("`{}`", text.chars().take(40).collect::<String>()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Failure::invalid(
        name,
        format!("invalid `{name}`: expected {expected}, given {given}"),
    )
}

/// A word is none of those that fit.
pub(crate) fn not_one_of(name: &str, given: &str, words: &[&str]) -> Failure {
    wrong(
        name,
        &format!("one of `{}`", words.join("`, `")),
        &Value::from(given),
    )
}

/// A whole number that is not negative, exactly, up to 2^64-1; a fraction of zero is none.
pub(crate) fn whole(name: &str, value: &Value) -> Result<u64, Failure> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let float = number
                .as_f64()
                .filter(|float| float.fract() == 0.0 && (0.0..=EXACT).contains(float))?;
            format!("{float:.0}").parse().ok()
        }),
        _ => None,
    };
    number.ok_or_else(|| wrong(name, "a whole number from 0 to 18446744073709551615", value))
}

/// A number of rows or columns.
pub(crate) fn cells(name: &str, value: &Value) -> Result<u16, Failure> {
    match u16::try_from(whole(name, value)?) {
        Ok(cells) if cells > 0 => Ok(cells),
        _ => Err(wrong(name, "a number from 1 to 65535", value)),
    }
}

/// A list of texts.
pub(crate) fn texts(name: &str, value: Value) -> Result<Vec<String>, Failure> {
    let Value::Array(list) = value else {
        return Err(wrong(name, "a list of texts", &value));
    };
    let text = |(index, value)| match value {
        Value::String(text) => Ok(text),
        other => Err(wrong(&format!("{name}[{index}]"), "a text", &other)),
    };
    list.into_iter().enumerate().map(text).collect()
}

fn alias_of<'a>(tool: &'a Tool, name: &str) -> Option<(&'a Argument, &'a Alias)> {
    tool.arguments.iter().find_map(|argument| {
        argument
            .aliases
            .iter()
            .find(|alias| alias.name == name)
            .map(|alias| (argument, alias))
    })
}

fn unknown(tool: &Tool, name: &str) -> Failure {
    let known = || tool.arguments.iter().map(|argument| argument.name);
    let shown: String = name.chars().take(64).collect();
    let hint = match nearest(name, known()) {
        Some(near) => format!("the nearest known one is `{near}`"),
        None => format!("known ones are `{}`", known().collect::<Vec<_>>().join("`, `")),
    };
    Failure::invalid(
        shown.clone(),
        format!("`{}` has no argument `{shown}`: {hint}", tool.name),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tool;

    fn reader(name: &str, arguments: Value) -> Result<Reader, Failure> {
        let Value::Object(arguments) = arguments else {
            panic!("an object")
        };
        Reader::new(tool(name).expect("known"), arguments)
    }

    fn message(failure: Failure) -> String {
        failure.into_value()["error"]["message"]
            .as_str()
            .expect("text")
            .to_owned()
    }

    #[test]
    fn an_unknown_argument_is_named_with_the_nearest_known_one() {
        let failure = reader("session_poll", json!({ "session": "x" })).expect_err("unknown");
        assert_eq!(failure.field(), Some("session"));
        assert_eq!(
            message(failure),
            "`session_poll` has no argument `session`: the nearest known one is `session_id`"
        );
        let failure = reader("session_list", json!({ "zzz": 1 })).expect_err("unknown");
        assert_eq!(
            message(failure),
            "`session_list` has no argument `zzz`: known ones are `include_ended`"
        );
    }

    #[test]
    fn a_number_is_exact_or_refused() {
        for (given, expected) in [
            (json!(0), Some(0)),
            (json!(u64::MAX), Some(u64::MAX)),
            (json!(5000.0), Some(5000)),
            (json!(9_007_199_254_740_992.0_f64), Some(1 << 53)),
            (json!(-1), None),
            (json!(i64::MIN), None),
            (json!(0.5), None),
            (json!(1e19), None),
            (json!("5"), None),
            (json!("NaN"), None),
            (json!([1]), None),
            (json!(true), None),
        ] {
            assert_eq!(whole("n", &given).ok(), expected, "{given}");
        }
    }

    #[test]
    fn null_counts_as_not_given() {
        let mut reader = reader("session_poll", json!({ "session_id": null, "cursor": null })).expect("fine");
        assert_eq!(reader.text("cursor"), Ok(None));
        assert_eq!(
            message(reader.session().expect_err("missing")),
            "`session_id` is missing"
        );
    }

    #[test]
    fn another_name_is_the_same_argument() {
        let id = "ps_0123456789abcdef";
        let mut same =
            reader("session_poll", json!({ "task_id": id, "max_output_tokens": 100 })).expect("fine");
        assert_eq!(same.number("max_output_bytes"), Ok(Some(400)));
        assert_eq!(
            same.session().map(|session| session.to_string()),
            Ok(id.to_owned())
        );
        let agree = json!({ "max_output_tokens": 100, "max_output_bytes": 400 });
        assert!(reader("session_poll", agree).is_ok());
        let differ = json!({ "max_output_tokens": 100, "max_output_bytes": 100 });
        assert_eq!(
            reader("session_poll", differ).expect_err("differ").field(),
            Some("max_output_tokens")
        );
    }

    #[test]
    fn a_fault_is_told_under_the_name_that_was_given() {
        let mut reader = reader("session_start", json!({ "cmd": 5 })).expect("known");
        assert_eq!(reader.text("command").expect_err("a number").field(), Some("cmd"));
    }

    #[test]
    fn what_is_cut_goes_on_record() {
        let mut reader = reader("session_poll", json!({ "yield_time_ms": 99_000 })).expect("known");
        let bounds = Bounds {
            field: "yield_time_ms",
            least: 0,
            most: 30_000,
        };
        assert_eq!(reader.clamped("yield_time_ms", bounds), Ok(Some(30_000)));
        let clamps = reader.into_clamps();
        assert_eq!(
            (&clamps[0]["requested"], &clamps[0]["effective"]),
            (&json!(99_000), &json!(30_000))
        );
    }

    #[test]
    fn an_id_without_the_form_of_one_is_not_found() {
        for id in ["", "1", "ps_", "ps_0123456789abcdeF", "../etc"] {
            let mut reader = reader("session_poll", json!({ "session_id": id })).expect("known");
            assert_eq!(reader.session(), Err(Failure::not_found()), "{id}");
        }
    }
}
