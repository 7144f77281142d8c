//! What a child's environment is made of: nothing, then what the host allows, then what was asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
};

use crate::{
    id::SessionId,
    spec::{EnvValue, SessionSpec},
};

/// The variables copied from the host when nothing else is configured.
pub const DEFAULT_ALLOWED: [&str; 9] = [
    "PATH", "HOME", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "USER", "SHELL", "TMPDIR",
];

/// What keeps programs from waiting for a person: no pager, no colour, no prompt.
pub const AGENT_PRESET: [(&str, &str); 8] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", ""),
    ("NO_COLOR", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// The variable that tells a child which session it is.
pub const SESSION_VARIABLE: &str = "PROCESSION_SESSION_ID";

/// The search path when the host has none.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Which variables are set for every session, besides what is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// None.
    #[default]
    None,
    /// [`AGENT_PRESET`].
    Agent,
}

/// Whether a caller may give variables of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Literal {
    /// It may.
    #[default]
    Allowed,
    /// It may not.
    Refused,
}

/// The host's rules for the environment of its sessions.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentRules {
    /// What is copied from the host, already looked up: the core reads no environment.
    pub base: BTreeMap<OsString, EnvValue>,
    /// What a caller may ask for by key.
    pub configured: BTreeMap<String, EnvValue>,
    /// Whether a caller may give variables of its own.
    pub literal: Literal,
    /// What is set for every session.
    pub preset: Preset,
}

/// A child's whole environment; the values are hidden from `Debug`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// The variables, by name.
    pub variables: BTreeMap<OsString, EnvValue>,
}

impl Environment {
    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(EnvValue::reveal)
    }

    /// The names, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.variables
            .keys()
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }
}

/// An environment that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A key is not among the configured ones.
    #[error("`env_keys` names `{key}`, which the host did not configure")]
    UnknownKey {
        /// The key, cut to 64 characters.
        key: String,
    },
    /// The host lets no caller give variables of its own.
    #[error("`env` is refused: this host lets no caller give variables of its own")]
    LiteralRefused,
}

impl EnvironmentError {
    /// The part of the spec that is at fault.
    #[must_use]
    pub const fn place(&self) -> &'static str {
        match self {
            Self::UnknownKey { .. } => "env_keys",
            Self::LiteralRefused => "env",
        }
    }
}

impl EnvironmentRules {
    /// Whether what the spec asks for can be had.
    ///
    /// # Errors
    /// [`EnvironmentError::UnknownKey`] for a key that is not configured, [`EnvironmentError::LiteralRefused`] for
    /// literal variables where the host allows none.
    pub fn check(&self, spec: &SessionSpec) -> Result<(), EnvironmentError> {
        if self.literal == Literal::Refused && !spec.env.is_empty() {
            return Err(EnvironmentError::LiteralRefused);
        }
        let unknown = spec
            .env_keys
            .iter()
            .find(|key| !self.configured.contains_key(*key));
        match unknown {
            Some(key) => Err(EnvironmentError::UnknownKey {
                key: key.chars().take(64).collect(),
            }),
            None => Ok(()),
        }
    }

    /// The environment of one session: base, preset, configured by key, the caller's own, in the order of rising
    /// precedence, and the session's id above all.
    ///
    /// # Errors
    /// As [`EnvironmentRules::check`].
    pub fn compose(&self, spec: &SessionSpec, session: SessionId) -> Result<Environment, EnvironmentError> {
        self.check(spec)?;
        let mut variables = self.base.clone();
        variables
            .entry("PATH".into())
            .or_insert_with(|| DEFAULT_PATH.into());
        if self.preset == Preset::Agent {
            variables.extend(AGENT_PRESET.map(|(name, value)| (name.into(), value.into())));
        }
        if let Some(terminal) = &spec.terminal {
            let term = terminal.term.as_deref().unwrap_or("xterm-256color");
            variables.insert("TERM".into(), term.into());
        }
        for key in spec.env_keys.iter().collect::<BTreeSet<_>>() {
            if let Some(value) = self.configured.get(key) {
                variables.insert(key.into(), value.clone());
            }
        }
        variables.extend(spec.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        variables.insert(SESSION_VARIABLE.into(), session.to_string().into());
        Ok(Environment { variables })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> EnvironmentRules {
        EnvironmentRules {
            base: BTreeMap::from([("HOME".into(), "/home/x".into()), ("PATH".into(), "/bin".into())]),
            configured: BTreeMap::from([
                ("TOKEN".to_owned(), "zz-top".into()),
                ("OTHER".to_owned(), "o".into()),
            ]),
            literal: Literal::Allowed,
            preset: Preset::Agent,
        }
    }

    fn compose(rules: &EnvironmentRules, spec: &SessionSpec) -> Result<Environment, EnvironmentError> {
        rules.compose(spec, SessionId::from_random([7; 10]))
    }

    #[test]
    fn only_what_was_asked_for_by_key_is_there() {
        let mut spec = SessionSpec::argv(["true"]);
        spec.env_keys = vec!["TOKEN".to_owned()];
        let environment = compose(&rules(), &spec).expect("known key");
        assert_eq!(environment.get("TOKEN"), Some(OsStr::new("zz-top")));
        assert_eq!(environment.get("OTHER"), None);
        assert_eq!(
            environment.get(SESSION_VARIABLE),
            Some(OsStr::new("ps_0w3ge1r70w3ge1r7"))
        );
        assert!(!format!("{environment:?}").contains("zz-top"));
    }

    #[test]
    fn a_key_that_is_not_configured_is_refused() {
        let mut spec = SessionSpec::argv(["true"]);
        spec.env_keys = vec!["NO_SUCH".to_owned()];
        let expected = EnvironmentError::UnknownKey {
            key: "NO_SUCH".to_owned(),
        };
        assert_eq!(compose(&rules(), &spec), Err(expected));
    }

    #[test]
    fn the_callers_own_value_wins_over_the_preset() {
        let mut spec = SessionSpec::argv(["true"]);
        spec.env.insert("PAGER".into(), "less".into());
        let environment = compose(&rules(), &spec).expect("literal allowed");
        assert_eq!(environment.get("PAGER"), Some(OsStr::new("less")));
        assert_eq!(environment.get("GIT_PAGER"), Some(OsStr::new("cat")));
    }

    #[test]
    fn literal_variables_can_be_refused() {
        let mut spec = SessionSpec::argv(["true"]);
        spec.env.insert("A".into(), "b".into());
        let rules = EnvironmentRules {
            literal: Literal::Refused,
            ..rules()
        };
        assert_eq!(compose(&rules, &spec), Err(EnvironmentError::LiteralRefused));
    }

    #[test]
    fn there_is_always_a_search_path() {
        let environment = compose(&EnvironmentRules::default(), &SessionSpec::argv(["true"])).expect("plain");
        assert_eq!(environment.get("PATH"), Some(OsStr::new(DEFAULT_PATH)));
    }
}
