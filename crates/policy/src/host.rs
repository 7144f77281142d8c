//! What a host allows: defaults, ceilings, and what an excess does.

use std::collections::BTreeMap;

use procession_core::{Field, Value, field::Kind};
use serde::{Deserialize, Serialize};

use crate::{
    decide::text_fits,
    freedom::{bounded, check_ceiling, check_value},
};

/// What happens to a request that is above its ceiling, or that nothing enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExcess {
    /// It becomes the most that can be had; what nothing enforces is left as it is, on record.
    Clamp,
    /// The session is not started.
    Refuse,
    /// It is passed on, ceiling or not, on record; what nothing enforces is left as it is.
    Advise,
}

impl OnExcess {
    /// The word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Clamp => "clamp",
            Self::Refuse => "refuse",
            Self::Advise => "advise",
        }
    }

    /// The rule of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Clamp, Self::Refuse, Self::Advise]
            .into_iter()
            .find(|rule| rule.as_str() == name)
    }

    /// What an excess of this field does when the host says nothing.
    ///
    /// What is granted whole or not at all is refused: flags, lists, standard input. A command with half of its
    /// variables, or without the terminal that it asked for, is another command. All else is clamped.
    #[must_use]
    pub const fn usual(field: Field) -> Self {
        match field.spec().kind {
            Kind::Flag | Kind::List => Self::Refuse,
            _ if matches!(field, Field::Stdin) => Self::Refuse,
            _ => Self::Clamp,
        }
    }
}

/// What a host sets about its sessions' limits; what it does not name is as in the table of fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPolicySettings {
    /// What holds when nothing is requested.
    pub defaults: BTreeMap<Field, Value>,
    /// The most that can be had, inclusive.
    ///
    /// "The most" is the most freedom, so a permission is withheld by its ceiling: `stdin` at `null`, `tty` at
    /// `false`, `env_literal` at 0 (a list's ceiling is a count, or a list of all that may be named), `leftovers` at
    /// `sweep`, `network` at `false`, `dies_with_host` at `true`, `containment` at the weakest means that will do.
    /// `nice` and `oom_score_adj` are bounded from below, `umask` by the bits that have to be set.
    ///
    /// A ceiling set here, other than one of the table, also holds for a session that asks for nothing.
    pub ceilings: BTreeMap<Field, Value>,
    /// What an excess does, and a request that nothing enforces; [`OnExcess::usual`] and a refusal otherwise.
    pub on_excess: BTreeMap<Field, OnExcess>,
    /// The folder that every working directory has to lie in, as it goes on record: default and ceiling of
    /// `cwd_root`.
    pub cwd_root: Option<String>,
}

impl HostPolicySettings {
    /// The same, with what holds when nothing is requested.
    #[must_use]
    pub fn default_value(mut self, field: Field, value: impl Into<Value>) -> Self {
        self.defaults.insert(field, value.into());
        self
    }

    /// The same, with the most that can be had.
    #[must_use]
    pub fn ceiling(mut self, field: Field, value: impl Into<Value>) -> Self {
        self.ceilings.insert(field, value.into());
        self
    }

    /// The same, with what an excess does.
    #[must_use]
    pub fn on_excess(mut self, field: Field, rule: OnExcess) -> Self {
        self.on_excess.insert(field, rule);
        self
    }

    /// The same, with the folder that working directories lie in.
    #[must_use]
    pub fn cwd_root(mut self, root: impl Into<String>) -> Self {
        self.cwd_root = Some(root.into());
        self
    }
}

/// Settings that cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostPolicyError {
    /// A default does not fit its field.
    #[error("the default of `{field}` cannot be `{given}`: {expected}")]
    UnfitDefault {
        /// The field.
        field: Field,
        /// What was given, cut to 64 characters.
        given: String,
        /// What fits, in words.
        expected: &'static str,
    },
    /// A ceiling does not fit its field.
    #[error("the ceiling of `{field}` cannot be `{given}`: {expected}")]
    UnfitCeiling {
        /// The field.
        field: Field,
        /// What was given, cut to 64 characters.
        given: String,
        /// What fits, in words.
        expected: &'static str,
    },
    /// A default is above the ceiling that is set for it, or above that of the table.
    #[error("the default of `{field}` is above its ceiling: `{default}`, the ceiling is `{ceiling}`")]
    DefaultAboveCeiling {
        /// The field.
        field: Field,
        /// The default.
        default: Value,
        /// The ceiling.
        ceiling: Value,
    },
    /// The root of working directories is set in two places.
    #[error("`cwd_root` is set twice: as the host's root, and as a default or a ceiling")]
    CwdRootTwice,
}

impl HostPolicyError {
    /// The field at fault.
    #[must_use]
    pub const fn field(&self) -> Field {
        match self {
            Self::UnfitDefault { field, .. }
            | Self::UnfitCeiling { field, .. }
            | Self::DefaultAboveCeiling { field, .. } => *field,
            Self::CwdRootTwice => Field::CwdRoot,
        }
    }
}

/// A host's settings that were checked, over the table of fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPolicy {
    settings: HostPolicySettings,
}

impl HostPolicy {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first fault in the order ceilings, defaults, each by field.
    pub fn new(settings: HostPolicySettings) -> Result<Self, HostPolicyError> {
        let twice = settings.defaults.contains_key(&Field::CwdRoot)
            || settings.ceilings.contains_key(&Field::CwdRoot);
        if settings.cwd_root.is_some() && twice {
            return Err(HostPolicyError::CwdRootTwice);
        }
        let policy = Self { settings };
        for (field, ceiling) in &policy.settings.ceilings {
            check_bound(*field, ceiling)?;
        }
        for field in Field::ALL.iter().copied() {
            if let Some(default) = policy.configured_default(field) {
                policy.check_default(field, default)?;
            }
        }
        Ok(policy)
    }

    /// What was set.
    #[must_use]
    pub const fn settings(&self) -> &HostPolicySettings {
        &self.settings
    }

    /// What holds when nothing is requested: as set, else as in the table, but never above the ceiling.
    #[must_use]
    pub fn default_of(&self, field: Field) -> Option<Value> {
        let default = self
            .configured_default(field)
            .or_else(|| field.spec().default.value())?;
        let bound = self
            .ceiling_of(field)
            .and_then(|ceiling| bounded(field, &default, &ceiling));
        Some(bound.unwrap_or(default))
    }

    /// The most that can be had: as set, else as in the table.
    #[must_use]
    pub fn ceiling_of(&self, field: Field) -> Option<Value> {
        self.configured_ceiling(field)
            .or_else(|| field.spec().ceiling.value())
    }

    /// What an excess does: as set, else as is usual.
    #[must_use]
    pub fn rule_of(&self, field: Field) -> OnExcess {
        self.configured_rule(field).unwrap_or(OnExcess::usual(field))
    }

    pub(crate) fn configured_default(&self, field: Field) -> Option<Value> {
        self.settings
            .defaults
            .get(&field)
            .cloned()
            .or_else(|| self.root_of(field))
    }

    pub(crate) fn configured_ceiling(&self, field: Field) -> Option<Value> {
        self.settings
            .ceilings
            .get(&field)
            .cloned()
            .or_else(|| self.root_of(field))
    }

    pub(crate) fn configured_rule(&self, field: Field) -> Option<OnExcess> {
        self.settings.on_excess.get(&field).copied()
    }

    fn root_of(&self, field: Field) -> Option<Value> {
        self.settings
            .cwd_root
            .clone()
            .filter(|_| field == Field::CwdRoot)
            .map(Value::Text)
    }

    fn check_default(&self, field: Field, default: Value) -> Result<(), HostPolicyError> {
        let fits = if text_fits(&default) {
            check_value(field, &default)
        } else {
            Err(TOO_LONG)
        };
        if let Err(expected) = fits {
            return Err(HostPolicyError::UnfitDefault {
                field,
                given: cut(&default),
                expected,
            });
        }
        match self.ceiling_of(field) {
            Some(ceiling) if bounded(field, &default, &ceiling).is_some() => {
                Err(HostPolicyError::DefaultAboveCeiling {
                    field,
                    default,
                    ceiling,
                })
            }
            _ => Ok(()),
        }
    }
}

/// The most that a principal or an owner can have, within what the host allows; checked.
///
/// What is not named has no ceiling of its own. The meaning of a ceiling is as in [`HostPolicySettings::ceilings`].
/// `cwd_root` is the host's alone: of two folders neither need be the tighter bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ceilings {
    by_field: BTreeMap<Field, Value>,
}

impl Ceilings {
    /// Checks the ceilings.
    ///
    /// # Errors
    /// [`HostPolicyError::UnfitCeiling`] for the first that does not fit its field.
    pub fn new(by_field: BTreeMap<Field, Value>) -> Result<Self, HostPolicyError> {
        for (field, ceiling) in &by_field {
            check_bound(*field, ceiling)?;
            if *field == Field::CwdRoot {
                let expected = "only the host sets it";
                return Err(HostPolicyError::UnfitCeiling {
                    field: *field,
                    given: cut(ceiling),
                    expected,
                });
            }
        }
        Ok(Self { by_field })
    }

    /// The field's ceiling; none when there is none of its own.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&Value> {
        self.by_field.get(&field)
    }
}

const TOO_LONG: &str = "it is longer than a record holds";

fn check_bound(field: Field, ceiling: &Value) -> Result<(), HostPolicyError> {
    let fits = if text_fits(ceiling) {
        check_ceiling(field, ceiling)
    } else {
        Err(TOO_LONG)
    };
    fits.map_err(|expected| HostPolicyError::UnfitCeiling {
        field,
        given: cut(ceiling),
        expected,
    })
}

fn cut(value: &Value) -> String {
    value.to_string().chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> HostPolicySettings {
        HostPolicySettings::default()
    }

    #[test]
    fn settings_that_cannot_hold_are_refused_with_their_field() {
        let check = |settings: HostPolicySettings, expected: Option<(Field, &str)>| {
            let found = HostPolicy::new(settings).err();
            let found = found.as_ref().map(|error| (error.field(), error.to_string()));
            assert_eq!(
                found.as_ref().map(|(field, text)| (*field, text.as_str())),
                expected
            );
        };
        check(settings(), None);
        check(settings().ceiling(Field::WallTime, 1_000_u64), None);
        check(
            settings()
                .ceiling(Field::WallTime, u64::MAX)
                .default_value(Field::WallTime, u64::MAX),
            None,
        );
        check(
            settings().default_value(Field::WallTime, u64::MAX),
            Some((
                Field::WallTime,
                "the default of `wall_time_ms` is above its ceiling: `18446744073709551615`, the ceiling is `86400000`",
            )),
        );
        check(
            settings().default_value(Field::WallTime, 0_u64),
            Some((
                Field::WallTime,
                "the default of `wall_time_ms` cannot be `0`: zero has no meaning here",
            )),
        );
        check(
            settings().ceiling(Field::Stdin, "none"),
            Some((
                Field::Stdin,
                "the ceiling of `stdin` cannot be `none`: it is none of the field's words",
            )),
        );
        check(
            settings().cwd_root("/a").ceiling(Field::CwdRoot, "/a"),
            Some((
                Field::CwdRoot,
                "`cwd_root` is set twice: as the host's root, and as a default or a ceiling",
            )),
        );
        check(
            settings().cwd_root("x".repeat(5_000)),
            Some((
                Field::CwdRoot,
                &format!(
                    "the default of `cwd_root` cannot be `{}`: it is longer than a record holds",
                    "x".repeat(64)
                ),
            )),
        );
    }

    #[test]
    fn a_ceiling_of_an_owner_that_cannot_hold_is_refused_with_its_field() {
        let check = |field: Field, ceiling: Value, expected: Option<Field>| {
            let found = Ceilings::new([(field, ceiling)].into()).err();
            assert_eq!(found.map(|error| error.field()), expected);
        };
        check(Field::WallTime, Value::Number(5), None);
        check(Field::WallTime, Value::Number(0), Some(Field::WallTime));
        check(Field::CwdRoot, "/srv".into(), Some(Field::CwdRoot));
    }

    #[test]
    fn what_a_host_does_not_say_is_as_in_the_table() {
        let policy = HostPolicy::default();
        for field in Field::ALL.iter().copied() {
            assert_eq!(policy.default_of(field), field.spec().default.value(), "{field}");
            assert_eq!(policy.ceiling_of(field), field.spec().ceiling.value(), "{field}");
        }
    }

    #[test]
    fn a_ceiling_below_the_default_of_the_table_bounds_it() {
        let policy = HostPolicy::new(settings().ceiling(Field::WallTime, 1_000_u64)).unwrap();
        assert_eq!(policy.default_of(Field::WallTime), Some(Value::Number(1_000)));
    }

    #[test]
    fn what_is_granted_whole_is_refused_and_the_rest_clamped() {
        let check = |field: Field, expected: OnExcess| {
            assert_eq!(HostPolicy::default().rule_of(field), expected, "{field}");
        };
        check(Field::WallTime, OnExcess::Clamp);
        check(Field::Leftovers, OnExcess::Clamp);
        check(Field::Stdin, OnExcess::Refuse);
        check(Field::Tty, OnExcess::Refuse);
        check(Field::EnvLiteral, OnExcess::Refuse);
        let policy = HostPolicy::new(settings().on_excess(Field::Tty, OnExcess::Clamp)).unwrap();
        assert_eq!(policy.rule_of(Field::Tty), OnExcess::Clamp);
        for rule in [OnExcess::Clamp, OnExcess::Refuse, OnExcess::Advise] {
            assert_eq!(OnExcess::from_name(rule.as_str()), Some(rule));
        }
        assert_eq!(OnExcess::from_name("ask"), None);
    }
}
