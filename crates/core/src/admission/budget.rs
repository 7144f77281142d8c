//! How much may be in use at once, and what is said when it is not enough.

use serde::{Deserialize, Serialize};

/// What a host gives out at most: to all, to each principal, to each owner.
///
/// The three are nested: a session is paid for by its owner, by its owner's principal and by the host, and has to fit
/// into all three. `None` is no bound of its own; the outer ones hold all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostBudgets {
    /// Sessions on the host, 1 to [`HostBudgets::MAX_SESSIONS_CEILING`]; 64 by default.
    pub max_sessions: u64,
    /// Sessions of one principal, at least 1.
    pub max_sessions_per_principal: Option<u64>,
    /// Sessions of one owner, at least 1; 16 by default, and never more than the outer two.
    pub max_sessions_per_owner: u64,
    /// Disk that the logs of all sessions may take, in bytes, at least 1.
    pub max_log_bytes_total: Option<u64>,
    /// Disk that the logs of one principal may take, in bytes, at least 1.
    pub max_log_bytes_per_principal: Option<u64>,
    /// Disk that the logs of one owner may take, in bytes, at least 1.
    pub max_log_bytes_per_owner: Option<u64>,
    /// Memory that the captures of all sessions may take, in bytes, at least 1.
    pub max_capture_bytes_total: Option<u64>,
    /// Memory that the captures of one principal may take, in bytes, at least 1.
    pub max_capture_bytes_per_principal: Option<u64>,
    /// Memory that the captures of one owner may take, in bytes, at least 1.
    pub max_capture_bytes_per_owner: Option<u64>,
}

/// What a session may hold at most, reserved before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Demand {
    /// Disk for its log, in bytes; 0 without a log.
    pub log_bytes: u64,
    /// Memory for its capture, both streams together, in bytes.
    pub capture_bytes: u64,
}

/// What is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// The number of sessions.
    MaxSessions,
    /// Disk for logs.
    MaxLogBytes,
    /// Memory for captures.
    MaxCaptureBytes,
}

/// For whom it is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For one owner.
    Owner,
    /// For all owners of one principal.
    Principal,
    /// For all.
    Host,
}

/// What has to happen before the same request can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryWhen {
    /// A session within the scope has to end.
    SessionEnds,
    /// The request has to be smaller: it would not fit if nothing else ran.
    RequestIsSmaller,
}

/// A session does not fit into a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "`{}` is {configured} {}: {in_use} in use, {requested} requested; retry when {}",
    limit.key(*scope),
    limit.unit(),
    retry_when.as_phrase()
)]
pub struct LimitReached {
    /// What is short.
    pub limit: LimitName,
    /// For whom; the innermost one, when several are short.
    pub scope: Scope,
    /// The budget, inclusive.
    pub configured: u64,
    /// What live sessions hold of it; ended ones would have made way.
    pub in_use: u64,
    /// What was asked for on top.
    pub requested: u64,
    /// What would help.
    pub retry_when: RetryWhen,
}

/// At least 80 % of a budget is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWarning {
    /// What runs short.
    pub limit: LimitName,
    /// For whom.
    pub scope: Scope,
    /// The budget, inclusive.
    pub configured: u64,
    /// What live sessions hold of it.
    pub in_use: u64,
}

/// A set of budgets makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// Nothing could ever be admitted.
    #[error("`{key}` must be at least 1")]
    Zero {
        /// The budget's name in the configuration.
        key: &'static str,
    },
    /// More than this implementation is made for.
    #[error("`{key}` is {requested}, the ceiling is {ceiling}")]
    AboveCeiling {
        /// The budget's name in the configuration.
        key: &'static str,
        /// What was asked for.
        requested: u64,
        /// The most that can be asked for, inclusive.
        ceiling: u64,
    },
}

impl HostBudgets {
    /// The most sessions that a host can have, inclusive.
    pub const MAX_SESSIONS_CEILING: u64 = 4096;

    /// The budgets as they hold: checked, and no inner one larger than the one around it.
    ///
    /// # Errors
    ///
    /// [`BudgetError::Zero`] for a budget of 0, [`BudgetError::AboveCeiling`] for more sessions on the host than
    /// [`HostBudgets::MAX_SESSIONS_CEILING`]. A larger number for an inner budget is no error, it is capped.
    pub fn effective(self) -> Result<Self, BudgetError> {
        for limit in LimitName::ALL {
            for scope in Scope::ALL {
                if self.bound(limit, scope) == Some(0) {
                    return Err(BudgetError::Zero {
                        key: limit.key(scope),
                    });
                }
            }
        }
        if self.max_sessions > Self::MAX_SESSIONS_CEILING {
            return Err(BudgetError::AboveCeiling {
                key: LimitName::MaxSessions.key(Scope::Host),
                requested: self.max_sessions,
                ceiling: Self::MAX_SESSIONS_CEILING,
            });
        }
        let principal = |limit| {
            capped(
                self.bound(limit, Scope::Principal),
                self.bound(limit, Scope::Host),
            )
        };
        let owner = |limit| {
            capped(
                self.bound(limit, Scope::Owner),
                principal(limit).or(self.bound(limit, Scope::Host)),
            )
        };
        Ok(Self {
            max_sessions: self.max_sessions,
            max_sessions_per_principal: principal(LimitName::MaxSessions),
            max_sessions_per_owner: owner(LimitName::MaxSessions).unwrap_or(self.max_sessions_per_owner),
            max_log_bytes_total: self.max_log_bytes_total,
            max_log_bytes_per_principal: principal(LimitName::MaxLogBytes),
            max_log_bytes_per_owner: owner(LimitName::MaxLogBytes),
            max_capture_bytes_total: self.max_capture_bytes_total,
            max_capture_bytes_per_principal: principal(LimitName::MaxCaptureBytes),
            max_capture_bytes_per_owner: owner(LimitName::MaxCaptureBytes),
        })
    }

    /// One of the budgets, inclusive.
    #[must_use]
    pub const fn bound(&self, limit: LimitName, scope: Scope) -> Option<u64> {
        match (limit, scope) {
            (LimitName::MaxSessions, Scope::Host) => Some(self.max_sessions),
            (LimitName::MaxSessions, Scope::Principal) => self.max_sessions_per_principal,
            (LimitName::MaxSessions, Scope::Owner) => Some(self.max_sessions_per_owner),
            (LimitName::MaxLogBytes, Scope::Host) => self.max_log_bytes_total,
            (LimitName::MaxLogBytes, Scope::Principal) => self.max_log_bytes_per_principal,
            (LimitName::MaxLogBytes, Scope::Owner) => self.max_log_bytes_per_owner,
            (LimitName::MaxCaptureBytes, Scope::Host) => self.max_capture_bytes_total,
            (LimitName::MaxCaptureBytes, Scope::Principal) => self.max_capture_bytes_per_principal,
            (LimitName::MaxCaptureBytes, Scope::Owner) => self.max_capture_bytes_per_owner,
        }
    }
}

impl Default for HostBudgets {
    /// 64 sessions, 16 an owner, nothing else bounded.
    fn default() -> Self {
        Self {
            max_sessions: 64,
            max_sessions_per_principal: None,
            max_sessions_per_owner: 16,
            max_log_bytes_total: None,
            max_log_bytes_per_principal: None,
            max_log_bytes_per_owner: None,
            max_capture_bytes_total: None,
            max_capture_bytes_per_principal: None,
            max_capture_bytes_per_owner: None,
        }
    }
}

impl Demand {
    /// How much of what a limit bounds.
    #[must_use]
    pub const fn amount(self, limit: LimitName) -> u64 {
        match limit {
            LimitName::MaxSessions => 1,
            LimitName::MaxLogBytes => self.log_bytes,
            LimitName::MaxCaptureBytes => self.capture_bytes,
        }
    }

    /// The smaller of the two, for each thing on its own.
    pub(super) fn at_most(self, most: Self) -> Self {
        Self {
            log_bytes: self.log_bytes.min(most.log_bytes),
            capture_bytes: self.capture_bytes.min(most.capture_bytes),
        }
    }
}

impl LimitName {
    /// All of them, in the order in which they are checked.
    pub const ALL: [Self; 3] = [Self::MaxSessions, Self::MaxLogBytes, Self::MaxCaptureBytes];

    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxSessions => "max_sessions",
            Self::MaxLogBytes => "max_log_bytes",
            Self::MaxCaptureBytes => "max_capture_bytes",
        }
    }

    /// What is counted.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::MaxSessions => "sessions",
            Self::MaxLogBytes | Self::MaxCaptureBytes => "bytes",
        }
    }

    /// The budget's name in the configuration.
    #[must_use]
    pub const fn key(self, scope: Scope) -> &'static str {
        match (self, scope) {
            (Self::MaxSessions, Scope::Host) => "max_sessions",
            (Self::MaxSessions, Scope::Principal) => "max_sessions_per_principal",
            (Self::MaxSessions, Scope::Owner) => "max_sessions_per_owner",
            (Self::MaxLogBytes, Scope::Host) => "max_log_bytes_total",
            (Self::MaxLogBytes, Scope::Principal) => "max_log_bytes_per_principal",
            (Self::MaxLogBytes, Scope::Owner) => "max_log_bytes_per_owner",
            (Self::MaxCaptureBytes, Scope::Host) => "max_capture_bytes_total",
            (Self::MaxCaptureBytes, Scope::Principal) => "max_capture_bytes_per_principal",
            (Self::MaxCaptureBytes, Scope::Owner) => "max_capture_bytes_per_owner",
        }
    }
}

impl Scope {
    /// All of them, from the innermost outwards.
    pub const ALL: [Self; 3] = [Self::Owner, Self::Principal, Self::Host];

    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Principal => "principal",
            Self::Host => "host",
        }
    }
}

impl RetryWhen {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SessionEnds => "session_ends",
            Self::RequestIsSmaller => "request_is_smaller",
        }
    }

    const fn as_phrase(self) -> &'static str {
        match self {
            Self::SessionEnds => "a session has ended",
            Self::RequestIsSmaller => "less is requested",
        }
    }
}

/// The inner bound, where there is one, not above the outer one.
fn capped(inner: Option<u64>, outer: Option<u64>) -> Option<u64> {
    inner.map(|inner| outer.map_or(inner, |outer| inner.min(outer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_as_they_are() {
        assert_eq!(HostBudgets::default().effective(), Ok(HostBudgets::default()));
    }

    #[test]
    fn an_inner_budget_is_capped_by_the_nearest_one_around_it() {
        let budgets = HostBudgets {
            max_sessions: 8,
            max_sessions_per_principal: Some(9),
            max_log_bytes_total: Some(100),
            max_log_bytes_per_owner: Some(200),
            max_capture_bytes_total: Some(100),
            max_capture_bytes_per_principal: Some(50),
            max_capture_bytes_per_owner: Some(70),
            ..HostBudgets::default()
        };
        let effective = budgets.effective().unwrap();
        assert_eq!(
            effective,
            HostBudgets {
                max_sessions_per_principal: Some(8),
                max_sessions_per_owner: 8,
                max_log_bytes_per_owner: Some(100),
                max_capture_bytes_per_owner: Some(50),
                ..budgets
            }
        );
        assert_eq!(effective.effective(), Ok(effective));
    }

    #[test]
    fn what_can_admit_nothing_or_too_much_is_refused() {
        let default = HostBudgets::default();
        let zero = |key| Err(BudgetError::Zero { key });
        let above = |requested| {
            Err(BudgetError::AboveCeiling {
                key: "max_sessions",
                requested,
                ceiling: 4096,
            })
        };
        let table = [
            (
                HostBudgets {
                    max_sessions: 0,
                    ..default
                },
                zero("max_sessions"),
            ),
            (
                HostBudgets {
                    max_sessions_per_owner: 0,
                    ..default
                },
                zero("max_sessions_per_owner"),
            ),
            (
                HostBudgets {
                    max_sessions_per_principal: Some(0),
                    ..default
                },
                zero("max_sessions_per_principal"),
            ),
            (
                HostBudgets {
                    max_log_bytes_total: Some(0),
                    ..default
                },
                zero("max_log_bytes_total"),
            ),
            (
                HostBudgets {
                    max_capture_bytes_per_owner: Some(0),
                    ..default
                },
                zero("max_capture_bytes_per_owner"),
            ),
            (
                HostBudgets {
                    max_sessions: 4097,
                    ..default
                },
                above(4097),
            ),
            (
                HostBudgets {
                    max_sessions: u64::MAX,
                    ..default
                },
                above(u64::MAX),
            ),
        ];
        for (budgets, expected) in table {
            assert_eq!(budgets.effective(), expected, "{budgets:?}");
        }
        assert!(
            HostBudgets {
                max_sessions: 4096,
                ..default
            }
            .effective()
            .is_ok()
        );
    }

    #[test]
    fn a_refusal_tells_its_numbers_and_what_would_help() {
        let reached = LimitReached {
            limit: LimitName::MaxSessions,
            scope: Scope::Owner,
            configured: 16,
            in_use: 16,
            requested: 1,
            retry_when: RetryWhen::SessionEnds,
        };
        assert_eq!(
            reached.to_string(),
            "`max_sessions_per_owner` is 16 sessions: 16 in use, 1 requested; retry when a session has ended"
        );
    }
}
