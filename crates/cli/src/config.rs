//! The configuration: one TOML file, checked before anything runs.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use procession_core::{
    EnvironmentRules,
    admission::HostBudgets,
    environment::{DEFAULT_ALLOWED, Literal, Preset},
    redact::Secret,
    spec::EnvValue,
};
use procession_policy::HostPolicySettings;

mod error;
mod file;
mod parse;
pub(crate) mod show;
mod source;
#[cfg(test)]
mod tests;

use self::parse::Text;
pub(crate) use self::{
    error::{ConfigError, Place},
    source::{HostEnvironment, user_directory},
};

/// All that a configuration file can say, with what holds where it says nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Configuration {
    /// The file; none when there is none.
    pub(crate) file: Option<PathBuf>,
    /// What may be in use at once.
    pub(crate) budgets: HostBudgets,
    /// Below this much free disk no log is written, in bytes.
    pub(crate) min_free_disk_bytes: Option<u64>,
    /// For how long an ended session is kept, in milliseconds.
    pub(crate) retention_ms: Option<u64>,
    /// The grace of the ladders at a shutdown, in milliseconds; each session's own when not said.
    pub(crate) shutdown_grace_ms: Option<u64>,
    /// Defaults, ceilings and what an excess does.
    pub(crate) policy: HostPolicySettings,
    /// Variables that a caller may name.
    pub(crate) env: BTreeMap<String, ConfiguredValue>,
    /// What else the environment of a session is made of.
    pub(crate) env_policy: EnvPolicy,
    /// What has to be replaced in all output.
    pub(crate) secrets: BTreeMap<String, ConfiguredValue>,
    /// Around every session.
    pub(crate) sandbox: Sandbox,
    /// By what means trees are held.
    pub(crate) containment: ContainmentChoice,
    /// Where state lives.
    pub(crate) state_dir: Option<PathBuf>,
    places: BTreeMap<String, Place>,
}

/// A value that is never shown.
#[derive(Clone)]
pub(crate) enum ConfiguredValue {
    /// It stands in the file.
    Literal(EnvValue),
    /// A variable of the host of this name holds it.
    FromEnvironment(String),
}

impl fmt::Debug for ConfiguredValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("[hidden]"),
            Self::FromEnvironment(name) => write!(f, "from_env {name}"),
        }
    }
}

/// What the environment of a session is made of, besides what was asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct EnvPolicy {
    /// Names that are copied from the host; the usual ones when not said.
    pub(crate) allow: Option<Vec<String>>,
    /// Whether a caller may give variables of its own.
    pub(crate) literal: Literal,
    /// Which further variables are set; what the command prefers when not said.
    pub(crate) preset: Option<Preset>,
}

/// What is around every session.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox {
    /// By what.
    pub(crate) mode: SandboxMode,
    /// What can be read.
    pub(crate) readable: Vec<String>,
    /// What can be written to.
    pub(crate) writable: Vec<String>,
    /// Whether the network can be used.
    pub(crate) network: bool,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            mode: SandboxMode::Off,
            readable: Vec::new(),
            writable: Vec::new(),
            network: true,
        }
    }
}

/// By what a sandbox is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SandboxMode {
    /// There is none.
    Off,
    /// By Landlock and a filter of system calls.
    Landlock,
    /// By bubblewrap.
    Bubblewrap,
}

impl SandboxMode {
    const ALL: [Self; 3] = [Self::Off, Self::Landlock, Self::Bubblewrap];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Landlock => "landlock",
            Self::Bubblewrap => "bubblewrap",
        }
    }
}

/// By what means trees are to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ContainmentChoice {
    /// The best that there is.
    #[default]
    Auto,
    /// A control group.
    Cgroup,
    /// A process namespace.
    PidNamespace,
    /// A filter under which no process can leave its group.
    PgidLock,
    /// A subreaper.
    Subreaper,
    /// The process group alone.
    ProcessGroup,
}

impl ContainmentChoice {
    const ALL: [Self; 6] = [
        Self::Auto,
        Self::Cgroup,
        Self::PidNamespace,
        Self::PgidLock,
        Self::Subreaper,
        Self::ProcessGroup,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cgroup => "cgroup",
            Self::PidNamespace => "pid_namespace",
            Self::PgidLock => "pgid_lock",
            Self::Subreaper => "subreaper",
            Self::ProcessGroup => "process_group",
        }
    }
}

impl Configuration {
    /// Reads the configuration: the file that was named, else the one of the environment, else the user's, else none.
    ///
    /// # Errors
    /// [`ConfigError`], with the line at fault.
    pub(crate) fn load(
        named: Option<&std::path::Path>,
        environment: HostEnvironment<'_>,
    ) -> Result<Self, ConfigError> {
        match source::read(named, environment)? {
            Some((file, text)) => file::read(Text {
                file: &file,
                text: &text,
            }),
            None => Ok(Self::default()),
        }
    }

    /// Refuses what this version cannot honour; sessions are not to run as if it held.
    ///
    /// # Errors
    /// [`ConfigError::CannotHonour`] for the first such key.
    pub(crate) fn check_honoured(&self) -> Result<(), ConfigError> {
        if self.sandbox.mode != SandboxMode::Off {
            return Err(self.cannot_honour("sandbox.mode".to_owned(), "it has no sandbox yet"));
        }
        let without_effect = [
            ("readable", !self.sandbox.readable.is_empty()),
            ("writable", !self.sandbox.writable.is_empty()),
            ("network", !self.sandbox.network),
        ];
        if let Some((key, _)) = without_effect.into_iter().find(|(_, is_asked)| *is_asked) {
            return Err(self.cannot_honour(
                format!("sandbox.{key}"),
                "it needs a sandbox, and `mode` is `off`",
            ));
        }
        Ok(())
    }

    /// What the environments of sessions are made of; `preset` is what holds when the file says nothing of it.
    ///
    /// # Errors
    /// [`ConfigError::NotSet`] when a configured value comes from a variable that is not there.
    pub(crate) fn environment_rules(
        &self,
        preset: Preset,
        environment: HostEnvironment<'_>,
    ) -> Result<EnvironmentRules, ConfigError> {
        let base = self
            .allowed()
            .iter()
            .filter_map(|name| Some((name.into(), environment(name)?.into())))
            .collect();
        let mut configured = BTreeMap::new();
        for (name, value) in &self.env {
            configured.insert(
                name.clone(),
                self.resolve(&format!("env.{name}"), value, environment)?,
            );
        }
        let preset = self.env_policy.preset.unwrap_or(preset);
        Ok(EnvironmentRules {
            base,
            configured,
            literal: self.env_policy.literal,
            preset,
        })
    }

    /// What has to be replaced in all output.
    ///
    /// # Errors
    /// [`ConfigError::NotSet`] when a value comes from a variable that is not there, [`ConfigError::UnfitSecret`] when it
    /// is too short to be told from ordinary text, or too long.
    pub(crate) fn secrets(&self, environment: HostEnvironment<'_>) -> Result<Vec<Secret>, ConfigError> {
        let resolved = self.secrets.iter().map(|(name, value)| {
            let key = format!("secrets.{name}");
            let value = self.resolve(&key, value, environment)?;
            Secret::new(value.reveal().as_encoded_bytes()).map_err(|source| ConfigError::UnfitSecret {
                place: self.place(&key),
                key,
                source,
            })
        });
        resolved.collect()
    }

    /// Names that are copied from the host.
    pub(crate) fn allowed(&self) -> Vec<String> {
        let usual = || DEFAULT_ALLOWED.iter().map(|name| (*name).to_owned()).collect();
        self.env_policy.allow.clone().unwrap_or_else(usual)
    }

    fn resolve(
        &self,
        key: &str,
        value: &ConfiguredValue,
        environment: HostEnvironment<'_>,
    ) -> Result<EnvValue, ConfigError> {
        match value {
            ConfiguredValue::Literal(value) => Ok(value.clone()),
            ConfiguredValue::FromEnvironment(variable) => environment(variable)
                .map(EnvValue::from)
                .ok_or_else(|| ConfigError::NotSet {
                    place: self.place(key),
                    key: key.to_owned(),
                    variable: variable.clone(),
                }),
        }
    }

    fn cannot_honour(&self, key: String, reason: &'static str) -> ConfigError {
        ConfigError::CannotHonour {
            place: self.place(&key),
            key,
            reason,
        }
    }

    fn place(&self, key: &str) -> Place {
        let top = || Place {
            file: self.file.clone().unwrap_or_default(),
            line: 1,
        };
        self.places.get(key).cloned().unwrap_or_else(top)
    }
}
