//! What the tables of a configuration file say.

use std::collections::BTreeMap;

use procession_core::{
    Field, Value,
    admission::{BudgetError, HostBudgets},
    environment::{Literal, Preset},
};
use procession_policy::{HostPolicy, OnExcess};
use toml::de::DeTable;

use super::{
    Configuration, ConfiguredValue, ContainmentChoice, SandboxMode,
    error::{ConfigError, Place},
    parse::{Entry, Shape, Text, entries, nearest},
};

/// The tables, in the order in which they are shown.
const TABLES: [&str; 10] = [
    "host",
    "defaults",
    "ceilings",
    "on_excess",
    "env",
    "env_policy",
    "secrets",
    "sandbox",
    "containment",
    "state",
];
const HOST_KEYS: [&str; 7] = [
    "max_sessions",
    "max_sessions_per_principal",
    "max_sessions_per_owner",
    "max_log_bytes_total",
    "min_free_disk_bytes",
    "retention_ms",
    "shutdown_grace_ms",
];
const ENV_POLICY_KEYS: [&str; 3] = ["allow", "literal", "preset"];
const SANDBOX_KEYS: [&str; 4] = ["mode", "readable", "writable", "network"];

/// How long a name of `[env]`, of `[secrets]` or of the allow-list may be, in bytes, inclusive.
const MAX_NAME_BYTES: usize = 256;

/// Reads a configuration.
///
/// # Errors
/// [`ConfigError`] for the first fault in the order of the tables.
pub(super) fn read(text: Text<'_>) -> Result<Configuration, ConfigError> {
    let document = text.parse()?;
    let mut reading = Reading {
        configuration: Configuration {
            file: Some(text.file.to_path_buf()),
            ..Configuration::default()
        },
        budgets: HostBudgets::default(),
    };
    reading.tables(text, document.get_ref())?;
    reading.settle()
}

struct Reading {
    configuration: Configuration,
    budgets: HostBudgets,
}

impl Reading {
    fn tables<'d>(&mut self, text: Text<'d>, document: &'d DeTable<'d>) -> Result<(), ConfigError> {
        let mut found: Vec<Entry<'d>> = entries(text, "", document).collect();
        if let Some(unknown) = found.iter().find(|entry| !TABLES.contains(&entry.key)) {
            return Err(ConfigError::UnknownTable {
                place: unknown.place(),
                name: unknown.key.chars().take(64).collect(),
                nearest: nearest(unknown.key, TABLES),
            });
        }
        // In the order of the list, so that the first fault does not depend on names.
        found.sort_by_key(|entry| TABLES.iter().position(|name| *name == entry.key));
        for table in found {
            match table.key {
                "host" => self.each(&table, "host", Self::host)?,
                "defaults" => self.each(&table, "defaults", Self::default_value)?,
                "ceilings" => self.each(&table, "ceilings", Self::ceiling)?,
                "on_excess" => self.each(&table, "on_excess", Self::on_excess)?,
                "env" => self.each(&table, "env", Self::env)?,
                "env_policy" => self.each(&table, "env_policy", Self::env_policy)?,
                "secrets" => self.each(&table, "secrets", Self::secret)?,
                "sandbox" => self.each(&table, "sandbox", Self::sandbox)?,
                "containment" => self.each(&table, "containment", Self::containment)?,
                _ => self.each(&table, "state", Self::state)?,
            }
        }
        Ok(())
    }

    fn each<'d>(
        &mut self,
        table: &Entry<'d>,
        name: &'static str,
        read: fn(&mut Self, &Entry<'d>) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        for entry in table.table(name)? {
            read(self, &entry)?;
            self.configuration.places.insert(entry.path(), entry.place());
        }
        Ok(())
    }

    fn host(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        match entry.key {
            "max_sessions" => self.budgets.max_sessions = entry.number()?,
            "max_sessions_per_principal" => self.budgets.max_sessions_per_principal = Some(entry.number()?),
            "max_sessions_per_owner" => self.budgets.max_sessions_per_owner = entry.number()?,
            "max_log_bytes_total" => self.budgets.max_log_bytes_total = Some(entry.number()?),
            "min_free_disk_bytes" => self.configuration.min_free_disk_bytes = Some(entry.number()?),
            "retention_ms" => self.configuration.retention_ms = Some(entry.number()?),
            "shutdown_grace_ms" => self.configuration.shutdown_grace_ms = Some(entry.number()?),
            _ => return Err(entry.unknown_key(HOST_KEYS)),
        }
        Ok(())
    }

    fn default_value(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        self.configuration
            .policy
            .defaults
            .insert(field(entry)?, entry.field_value()?);
        Ok(())
    }

    fn ceiling(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        self.configuration
            .policy
            .ceilings
            .insert(field(entry)?, entry.field_value()?);
        Ok(())
    }

    fn on_excess(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        let rules = [OnExcess::Clamp, OnExcess::Refuse, OnExcess::Advise].map(|rule| (rule.as_str(), rule));
        self.configuration
            .policy
            .on_excess
            .insert(field(entry)?, entry.word(&rules)?);
        Ok(())
    }

    fn env(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        check_name(entry, entry.key)?;
        self.configuration
            .env
            .insert(entry.key.to_owned(), configured_value(entry)?);
        Ok(())
    }

    fn env_policy(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        let policy = &mut self.configuration.env_policy;
        match entry.key {
            "allow" => {
                let names = entry.texts()?;
                names.iter().try_for_each(|name| check_name(entry, name))?;
                policy.allow = Some(names);
            }
            "literal" => {
                policy.literal = if entry.flag()? {
                    Literal::Allowed
                } else {
                    Literal::Refused
                }
            }
            "preset" => {
                policy.preset = Some(entry.word(&[("agent", Preset::Agent), ("none", Preset::None)])?);
            }
            _ => return Err(entry.unknown_key(ENV_POLICY_KEYS)),
        }
        Ok(())
    }

    fn secret(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        check_name(entry, entry.key)?;
        self.configuration
            .secrets
            .insert(entry.key.to_owned(), configured_value(entry)?);
        Ok(())
    }

    fn sandbox(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        let sandbox = &mut self.configuration.sandbox;
        match entry.key {
            "mode" => sandbox.mode = entry.word(&SandboxMode::ALL.map(|mode| (mode.as_str(), mode)))?,
            "readable" => sandbox.readable = entry.texts()?,
            "writable" => sandbox.writable = entry.texts()?,
            "network" => sandbox.network = entry.flag()?,
            _ => return Err(entry.unknown_key(SANDBOX_KEYS)),
        }
        Ok(())
    }

    fn containment(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        if entry.key != "prefer" {
            return Err(entry.unknown_key(["prefer"]));
        }
        let words = ContainmentChoice::ALL.map(|choice| (choice.as_str(), choice));
        self.configuration.containment = entry.word(&words)?;
        Ok(())
    }

    fn state(&mut self, entry: &Entry<'_>) -> Result<(), ConfigError> {
        if entry.key != "dir" {
            return Err(entry.unknown_key(["dir"]));
        }
        let dir = std::path::PathBuf::from(entry.text()?);
        if !dir.is_absolute() {
            return Err(entry.unfit("it is an absolute path"));
        }
        self.configuration.state_dir = Some(dir);
        Ok(())
    }

    /// Checks what only shows when all tables are read, and moves what two tables can say into one place.
    fn settle(mut self) -> Result<Configuration, ConfigError> {
        self.configuration.budgets = self
            .budgets
            .effective()
            .map_err(|error| self.budget_error(&error))?;
        self.settle_default(
            Field::Retention,
            "host.retention_ms",
            self.configuration.retention_ms.map(Value::Number),
        )?;
        let containment = Some(self.configuration.containment)
            .filter(|choice| *choice != ContainmentChoice::Auto)
            .map(|choice| Value::from(choice.as_str()));
        self.settle_default(Field::Containment, "containment.prefer", containment)?;
        if let Err(source) = HostPolicy::new(self.configuration.policy.clone()) {
            let name = source.field().name();
            let said = ["ceilings", "defaults"].map(|table| format!("{table}.{name}"));
            let aliases = ["host.retention_ms".to_owned(), "containment.prefer".to_owned()];
            let is_ceiling = matches!(source, procession_policy::HostPolicyError::UnfitCeiling { .. });
            let mut places = said
                .iter()
                .rev()
                .skip(usize::from(is_ceiling))
                .chain(&said)
                .chain(&aliases);
            let place = places.find_map(|key| self.configuration.places.get(key).cloned());
            return Err(ConfigError::Policy {
                place: place.unwrap_or_else(|| self.top()),
                source,
            });
        }
        Ok(self.configuration)
    }

    fn settle_default(
        &mut self,
        field: Field,
        key: &'static str,
        value: Option<Value>,
    ) -> Result<(), ConfigError> {
        let Some(value) = value else { return Ok(()) };
        let other = format!("defaults.{}", field.name());
        if let Some(place) = self.configuration.places.get(&other) {
            return Err(ConfigError::Twice {
                place: place.clone(),
                key: other,
                other: key,
            });
        }
        self.configuration.policy.defaults.insert(field, value);
        Ok(())
    }

    fn budget_error(&self, error: &BudgetError) -> ConfigError {
        let key = match error {
            BudgetError::Zero { key } | BudgetError::AboveCeiling { key, .. } => format!("host.{key}"),
            _ => "host".to_owned(),
        };
        let place = self
            .configuration
            .places
            .get(&key)
            .cloned()
            .unwrap_or_else(|| self.top());
        ConfigError::Unfit {
            place,
            key,
            expected: error.to_string(),
        }
    }

    fn top(&self) -> Place {
        Place {
            file: self.configuration.file.clone().unwrap_or_default(),
            line: 1,
        }
    }
}

fn field(entry: &Entry<'_>) -> Result<Field, ConfigError> {
    entry
        .key
        .parse()
        .map_err(|_| entry.unknown_key(Field::ALL.iter().map(|field| field.name())))
}

/// A value that stands in the file, or the name of the host's variable that holds it.
fn configured_value(entry: &Entry<'_>) -> Result<ConfiguredValue, ConfigError> {
    const EXPECTED: &str = "a text or `{ from_env = \"NAME\" }`";
    match entry.shape() {
        Shape::Text => {
            let value = entry.text()?;
            if value.contains('\0') {
                return Err(entry.unfit("it holds no NUL character"));
            }
            Ok(ConfiguredValue::Literal(value.into()))
        }
        Shape::Table => {
            let mut variable = None;
            for inner in entry.table(entry.table)? {
                if inner.key != "from_env" {
                    return Err(inner.unknown_key(["from_env"]));
                }
                let name = inner.text()?;
                check_name(&inner, name)?;
                variable = Some(name.to_owned());
            }
            variable
                .map(ConfiguredValue::FromEnvironment)
                .ok_or_else(|| entry.wrong_type(EXPECTED))
        }
        Shape::Other => Err(entry.wrong_type(EXPECTED)),
    }
}

fn check_name(entry: &Entry<'_>, name: &str) -> Result<(), ConfigError> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(['=', '\0']) {
        let expected = format!("a variable's name has 1 to {MAX_NAME_BYTES} bytes, no `=` and no NUL");
        return Err(entry.unfit(expected));
    }
    Ok(())
}

/// All keys of `[host]` with what holds.
pub(super) fn host_values(configuration: &Configuration) -> BTreeMap<&'static str, Option<u64>> {
    let budgets = &configuration.budgets;
    BTreeMap::from([
        ("max_sessions", Some(budgets.max_sessions)),
        ("max_sessions_per_principal", budgets.max_sessions_per_principal),
        ("max_sessions_per_owner", Some(budgets.max_sessions_per_owner)),
        ("max_log_bytes_total", budgets.max_log_bytes_total),
        ("min_free_disk_bytes", configuration.min_free_disk_bytes),
        ("shutdown_grace_ms", configuration.shutdown_grace_ms),
    ])
}
