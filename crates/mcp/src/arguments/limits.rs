//! Limits of a start: the map, and the arguments that are another name for one of its fields.

use procession_core::{Field, RequestedLimits, Value as FieldValue, field::Kind};
use serde_json::{Map, Value};

use super::{
    nearest::nearest,
    reader::{Reader, texts, whole, wrong},
};
use crate::{failure::Failure, json::field_value};

/// Arguments that are another name for a field, and are numbers in its unit.
const NUMBERS: [(&str, Field); 6] = [
    ("timeout_ms", Field::WallTime),
    ("idle_timeout_ms", Field::IdleTime),
    ("grace_ms", Field::Grace),
    ("yield_time_ms", Field::YieldTime),
    ("max_output_bytes", Field::OutputBudget),
    ("max_log_bytes", Field::LogBytes),
];

/// Everything that is asked for as a limit, whichever way.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    values: RequestedLimits,
}

impl Limits {
    /// Reads `limits` and its other names.
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let mut limits = Self::default();
        for (name, value) in reader.object("limits")?.unwrap_or_default() {
            if !value.is_null() {
                let field = field(&name)?;
                limits
                    .values
                    .insert(field, limit_value(&format!("limits.{name}"), field, value)?);
            }
        }
        for (name, field) in NUMBERS {
            if let Some(number) = reader.number(name)? {
                limits.set(reader.name(name), field, FieldValue::Number(number))?;
            }
        }
        if let Some(word) = reader.text("leftovers")? {
            limits.set("leftovers", Field::Leftovers, FieldValue::Text(word))?;
        }
        Ok(limits)
    }

    /// Asks for a field by an argument of another name.
    pub(crate) fn set(&mut self, name: &str, field: Field, value: FieldValue) -> Result<(), Failure> {
        check(name, field, &value)?;
        match self.values.get(&field) {
            Some(first) if *first != value => Err(Failure::invalid(
                name,
                format!(
                    "`{name}` and `limits.{field}` are one limit and say different things: `{value}` and `{first}`"
                ),
            )),
            _ => {
                self.values.insert(field, value);
                Ok(())
            }
        }
    }

    /// Takes out a field that the session's spec tells in another place.
    pub(crate) fn take(&mut self, field: Field) -> Option<FieldValue> {
        self.values.remove(&field)
    }

    pub(crate) fn into_requested(self) -> RequestedLimits {
        self.values
    }
}

/// The field of this name.
fn field(name: &str) -> Result<Field, Failure> {
    name.parse().map_err(|_| {
        let shown: String = name.chars().take(64).collect();
        let hint = match nearest(name, Field::ALL.iter().map(|field| field.name())) {
            Some(near) => format!("the nearest known one is `{near}`"),
            None => "see the schema of `limits` for those that there are".to_owned(),
        };
        Failure::invalid(
            format!("limits.{shown}"),
            format!("there is no limit `{shown}`: {hint}"),
        )
    })
}

/// A field's value from JSON, of the field's kind.
fn limit_value(name: &str, field: Field, value: Value) -> Result<FieldValue, Failure> {
    let value = match (field.spec().kind, value) {
        (Kind::Number { .. }, value) => FieldValue::Number(whole(name, &value)?),
        (Kind::Integer { .. }, Value::Number(number)) if number.is_i64() => {
            FieldValue::Integer(number.as_i64().unwrap_or_default())
        }
        (Kind::Flag, Value::Bool(flag)) => FieldValue::Flag(flag),
        (Kind::Word(_) | Kind::Size | Kind::Text, Value::String(text)) => FieldValue::Text(text),
        (Kind::List, value) => FieldValue::List(texts(name, value)?),
        (kind, value) => return Err(wrong(name, expected(kind), &value)),
    };
    check(name, field, &value)?;
    Ok(value)
}

fn check(name: &str, field: Field, value: &FieldValue) -> Result<(), Failure> {
    field.check(value).map_err(|unfit| {
        let given = field_value(value)
            .to_string()
            .chars()
            .take(64)
            .collect::<String>();
        Failure::invalid(
            name,
            format!("invalid `{name}`: it cannot be `{given}`, {}", unfit.expected),
        )
    })
}

const fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Number { .. } => "a whole number that is not negative",
        Kind::Integer { .. } => "a whole number",
        Kind::Flag => "`true` or `false`",
        Kind::Word(_) => "one of the field's words",
        Kind::Size => "a size such as `24x120`, rows first",
        Kind::Text => "a text",
        Kind::List => "a list of texts",
    }
}

/// The schema of the map.
pub(crate) fn limits_schema() -> Map<String, Value> {
    use serde_json::json;
    let property = |field: &Field| {
        let spec = field.spec();
        let mut schema = match spec.kind {
            Kind::Number { least } => json!({ "type": "integer", "minimum": least }),
            Kind::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Word(words) => json!({ "type": "string", "enum": words }),
            Kind::Size => json!({ "type": "string", "pattern": "^[0-9]+x[0-9]+$" }),
            Kind::Text => json!({ "type": "string" }),
            Kind::List => json!({ "type": "array", "items": { "type": "string" } }),
        };
        schema["description"] = spec.about.into();
        (spec.name.to_owned(), schema)
    };
    let properties: Map<String, Value> = Field::ALL.iter().map(property).collect();
    Map::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), properties.into()),
        ("additionalProperties".to_owned(), false.into()),
    ])
}
