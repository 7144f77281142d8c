//! The effective configuration, each value with its source.

use std::{io, path::Path};

use procession_core::{
    Field, Value,
    environment::{Literal, Preset},
};
use procession_policy::HostPolicy;
use serde_json::{Map, Value as Json, json};

use super::{Configuration, ConfiguredValue, file};
use crate::{
    cli::Format,
    error::CommandError,
    output::{print as print_with, print_json},
};

/// Prints the effective configuration.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn print(
    format: Format,
    configuration: &Configuration,
    state: Option<&Path>,
) -> Result<u8, CommandError> {
    if format.json {
        print_json(&as_json(configuration, state))
    } else {
        print_with(|out| as_lines(configuration, state, out))
    }
}

/// A key with what holds and where that comes from.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    table: &'static str,
    key: String,
    value: Json,
    source: Source,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A line of the file, from 1.
    File(usize),
    /// The environment or the user's directories.
    Environment,
    /// Another key of the file bounds it.
    Ceiling,
    /// The program.
    BuiltIn,
}

/// Writes the configuration as TOML-like lines, each with its source.
///
/// # Errors
/// When `out` takes no more.
pub(crate) fn as_lines(
    configuration: &Configuration,
    state: Option<&Path>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    match &configuration.file {
        Some(file) => writeln!(out, "# file: {}", file.display())?,
        None => writeln!(out, "# file: none")?,
    }
    let mut table = "";
    for shown in all(configuration, state) {
        if shown.table != table {
            table = shown.table;
            writeln!(out, "\n[{table}]")?;
        }
        let source = match shown.source {
            Source::File(line) => format!("file, line {line}"),
            Source::Environment => "environment".to_owned(),
            Source::Ceiling => "ceiling".to_owned(),
            Source::BuiltIn => "built in".to_owned(),
        };
        let value = if shown.value.is_null() {
            "none".to_owned()
        } else {
            shown.value.to_string()
        };
        writeln!(out, "{} = {value}  # {source}", shown.key)?;
    }
    Ok(())
}

/// The configuration as JSON: `{ file, tables: { TABLE: { KEY: { value, source, line? } } } }`.
pub(crate) fn as_json(configuration: &Configuration, state: Option<&Path>) -> Json {
    let mut tables = Map::new();
    for shown in all(configuration, state) {
        let mut entry = json!({ "value": shown.value });
        entry["source"] = match shown.source {
            Source::File(line) => {
                entry["line"] = json!(line);
                json!("file")
            }
            Source::Environment => json!("environment"),
            Source::Ceiling => json!("ceiling"),
            Source::BuiltIn => json!("built_in"),
        };
        tables.entry(shown.table).or_insert_with(|| json!({}))[shown.key] = entry;
    }
    json!({ "file": configuration.file.as_ref().map(|file| file.to_string_lossy()), "tables": tables })
}

fn all(configuration: &Configuration, state: Option<&Path>) -> Vec<Shown> {
    let mut listing = Listing {
        configuration,
        shown: Vec::new(),
    };
    listing.host_and_policy();
    listing.environment();
    let Configuration {
        sandbox, containment, ..
    } = configuration;
    listing.add("sandbox", "mode", json!(sandbox.mode.as_str()), Source::BuiltIn);
    listing.add("sandbox", "readable", json!(sandbox.readable), Source::BuiltIn);
    listing.add("sandbox", "writable", json!(sandbox.writable), Source::BuiltIn);
    listing.add("sandbox", "network", json!(sandbox.network), Source::BuiltIn);
    listing.add(
        "containment",
        "prefer",
        json!(containment.as_str()),
        Source::BuiltIn,
    );
    listing.add(
        "state",
        "dir",
        json!(state.map(|dir| dir.to_string_lossy())),
        Source::Environment,
    );
    listing.shown
}

/// What is shown, table by table.
struct Listing<'c> {
    configuration: &'c Configuration,
    shown: Vec<Shown>,
}

impl Listing<'_> {
    /// Adds a key, from its line of the file or else from somewhere else.
    fn add(&mut self, table: &'static str, key: &str, value: Json, otherwise: Source) {
        let place = self.configuration.places.get(&format!("{table}.{key}"));
        let source = place.map_or(otherwise, |place| Source::File(place.line));
        self.shown.push(Shown {
            table,
            key: key.to_owned(),
            value,
            source,
        });
    }

    fn host_and_policy(&mut self) {
        for (key, value) in file::host_values(self.configuration) {
            self.add("host", key, json!(value), Source::BuiltIn);
        }
        // Checked when the file was read; the table of fields otherwise.
        let policy = HostPolicy::new(self.configuration.policy.clone()).unwrap_or_default();
        let shown = |value: Option<Value>| value.as_ref().map(json_value).unwrap_or_default();
        let said = self.configuration.places.get("defaults.retention_ms");
        let otherwise = said.map_or(Source::BuiltIn, |place| Source::File(place.line));
        self.add(
            "host",
            "retention_ms",
            shown(policy.default_of(Field::Retention)),
            otherwise,
        );
        for field in Field::ALL
            .iter()
            .copied()
            .filter(|field| *field != Field::Retention)
        {
            let value = policy.default_of(field);
            let is_bounded = value != field.spec().default.value();
            let otherwise = match field {
                Field::Containment if is_bounded => {
                    Source::File(self.configuration.place("containment.prefer").line)
                }
                _ if is_bounded => Source::Ceiling,
                _ => Source::BuiltIn,
            };
            self.add("defaults", field.name(), shown(value), otherwise);
        }
        for field in Field::ALL.iter().copied() {
            self.add(
                "ceilings",
                field.name(),
                shown(policy.ceiling_of(field)),
                Source::BuiltIn,
            );
        }
        for field in Field::ALL.iter().copied() {
            self.add(
                "on_excess",
                field.name(),
                json!(policy.rule_of(field).as_str()),
                Source::BuiltIn,
            );
        }
    }

    fn environment(&mut self) {
        let Configuration {
            env,
            env_policy,
            secrets,
            ..
        } = self.configuration;
        for (name, value) in env {
            self.add("env", name, hidden(value), Source::BuiltIn);
        }
        let preset = match env_policy.preset {
            Some(Preset::Agent) => "agent",
            Some(Preset::None) => "none",
            None => "agent for `mcp`, none for `run`",
        };
        self.add(
            "env_policy",
            "allow",
            json!(self.configuration.allowed()),
            Source::BuiltIn,
        );
        self.add(
            "env_policy",
            "literal",
            json!(env_policy.literal == Literal::Allowed),
            Source::BuiltIn,
        );
        self.add("env_policy", "preset", json!(preset), Source::BuiltIn);
        for (name, value) in secrets {
            self.add("secrets", name, hidden(value), Source::BuiltIn);
        }
    }
}

/// That there is a value and where it comes from, never the value.
fn hidden(value: &ConfiguredValue) -> Json {
    match value {
        ConfiguredValue::Literal(_) => json!("[hidden]"),
        ConfiguredValue::FromEnvironment(name) => json!({ "from_env": name }),
    }
}

fn json_value(value: &Value) -> Json {
    match value {
        Value::Number(number) => json!(number),
        Value::Integer(number) => json!(number),
        Value::Flag(flag) => json!(flag),
        Value::Text(text) => json!(text),
        Value::List(entries) => json!(entries),
    }
}
