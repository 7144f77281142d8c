//! What was decided about one session, field by field; made once, never changed.

use std::{fmt, time::Duration};

use procession_core::{
    Containment, EffectiveLimits, Field, Leftovers, LogMode, SessionId, Value,
    field::parse_size,
    spec::{StdinMode, TerminalSize},
};
use serde::{Deserialize, Serialize};

use crate::{
    capability::{Channel, Level},
    decide::{MAX_LIST_BYTES, MAX_TEXT_BYTES},
    freedom::check_value,
};

/// How a field's effective value stands to the request.
///
/// On record by its place in this list: new ones go to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    /// Nothing was requested: the host's default holds, or what the machine gives.
    Defaulted,
    /// What was requested holds.
    AsRequested,
    /// Something else holds than was requested, or than would hold for another owner.
    Clamped,
    /// It is passed on, not enforced.
    Advisory,
    /// Nothing enforces it; what holds anyway is effective.
    Unsupported,
    /// The session may not start.
    Refused,
}

impl Status {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Defaulted => "defaulted",
            Self::AsRequested => "as_requested",
            Self::Clamped => "clamped",
            Self::Advisory => "advisory",
            Self::Unsupported => "unsupported",
            Self::Refused => "refused",
        }
    }
}

/// Who set a field's effective value, or refused it.
///
/// On record by its place in this list: new ones go to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SetBy {
    /// The request.
    Caller,
    /// The host, by its settings or the table of fields.
    Host,
    /// A ceiling of the principal's.
    Principal,
    /// A ceiling of the owner's.
    Owner,
    /// The machine, or what has a use at all.
    Platform,
}

impl SetBy {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Host => "host",
            Self::Principal => "principal",
            Self::Owner => "owner",
            Self::Platform => "platform",
        }
    }
}

/// What was decided about one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDecision {
    /// The field.
    pub field: Field,
    /// What was requested, as it was given; none when nothing was.
    pub requested: Option<Value>,
    /// The ceiling that counted: the tightest of host, principal, owner and machine; none when there is none.
    pub ceiling: Option<Value>,
    /// What holds; none when nothing does, and for a refusal.
    pub effective: Option<Value>,
    /// How that stands to the request.
    pub status: Status,
    /// Who set it.
    pub set_by: SetBy,
    /// How well it is enforced.
    pub level: Level,
    /// By what.
    pub channel: Channel,
    /// What a reader has to know, in one line.
    pub note: Option<String>,
    /// Why it was refused; there exactly when the status is [`Status::Refused`].
    pub refusal: Option<RefusalReason>,
}

/// Why a field was refused.
///
/// On record by its place in this list: new ones go to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RefusalReason {
    /// It is above the ceiling.
    AboveCeiling,
    /// Nothing here enforces it.
    Unenforceable,
    /// The value does not fit the field.
    Unfit,
    /// The text is longer than [`MAX_TEXT_BYTES`], or the list longer than [`MAX_LIST_BYTES`].
    TooLong,
}

impl RefusalReason {
    /// The word on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AboveCeiling => "above_ceiling",
            Self::Unenforceable => "unenforceable",
            Self::Unfit => "unfit",
            Self::TooLong => "too_long",
        }
    }
}

/// Why a session may not start: the first field that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The field.
    pub field: Field,
    /// What was requested; none when the host's own setting could not be enforced.
    pub requested: Option<Value>,
    /// The ceiling that counted.
    pub ceiling: Option<Value>,
    /// Why.
    pub reason: RefusalReason,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            requested,
            ceiling,
            reason,
        } = self;
        match requested {
            Some(requested) => {
                let shown: String = requested.to_string().chars().take(64).collect();
                write!(f, "`{field}` cannot be `{shown}`: ")?;
            }
            None => write!(f, "the host's rule for `{field}` cannot be kept: ")?,
        }
        match (reason, ceiling, requested) {
            (RefusalReason::AboveCeiling, Some(ceiling), _) => {
                let shown: String = ceiling.to_string().chars().take(64).collect();
                write!(f, "the ceiling is `{shown}`")
            }
            (RefusalReason::AboveCeiling, None, _) => f.write_str("it is above the ceiling"),
            (RefusalReason::Unenforceable, _, _) => f.write_str("nothing on this host enforces it"),
            (RefusalReason::Unfit, _, Some(requested)) => f.write_str(
                check_value(*field, requested)
                    .err()
                    .unwrap_or("it does not fit the field"),
            ),
            (RefusalReason::Unfit, _, None) => f.write_str("it does not fit the field"),
            (RefusalReason::TooLong, _, _) => {
                write!(
                    f,
                    "a text has at most {MAX_TEXT_BYTES} bytes and a list {MAX_LIST_BYTES}"
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// What was decided about one session: one [`FieldDecision`] for each field, in the order of the table.
///
/// The owner's scope is not in it, so that it can be shown and written down. Decoding one that another version wrote
/// may give fewer fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    session: SessionId,
    principal: String,
    agent: String,
    containment: Containment,
    fields: Vec<FieldDecision>,
}

impl Decision {
    pub(crate) const fn new(
        session: SessionId,
        principal: String,
        agent: String,
        containment: Containment,
        fields: Vec<FieldDecision>,
    ) -> Self {
        Self {
            session,
            principal,
            agent,
            containment,
            fields,
        }
    }

    /// The session that it is about.
    #[must_use]
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// On whose behalf the session runs.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Which agent of the principal's asked for it.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// By what means the session's tree is held, with what that promises.
    #[must_use]
    pub const fn containment(&self) -> Containment {
        self.containment
    }

    /// All fields, in the order of the table.
    #[must_use]
    pub fn fields(&self) -> &[FieldDecision] {
        &self.fields
    }

    /// What was decided about a field; none only in a record of a version that did not know it.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&FieldDecision> {
        self.fields.iter().find(|decision| decision.field == field)
    }

    /// What holds for a field; none when nothing does.
    #[must_use]
    pub fn effective(&self, field: Field) -> Option<&Value> {
        self.get(field)?.effective.as_ref()
    }

    /// All that are no plain defaults, in the order of the table.
    pub fn notable(&self) -> impl Iterator<Item = &FieldDecision> {
        self.fields
            .iter()
            .filter(|decision| decision.status != Status::Defaulted)
    }

    /// Why the session may not start; none when it may.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        self.fields.iter().find_map(|decision| {
            decision.refusal.map(|reason| Refusal {
                field: decision.field,
                requested: decision.requested.clone(),
                ceiling: decision.ceiling.clone(),
                reason,
            })
        })
    }

    /// What holds, as the session needs it.
    ///
    /// A number without which a session cannot be run, and that nothing enforces, is the table's default. Of a refused
    /// decision this says nothing.
    #[must_use]
    pub fn effective_limits(&self) -> EffectiveLimits {
        let usual = EffectiveLimits::default();
        let number = |field: Field| self.effective(field).and_then(Value::as_number);
        let time = |field: Field| number(field).map(Duration::from_millis);
        EffectiveLimits {
            wall_time: time(Field::WallTime),
            idle_time: time(Field::IdleTime),
            grace: time(Field::Grace).unwrap_or(usual.grace),
            drain_grace: time(Field::DrainGrace).unwrap_or(usual.drain_grace),
            yield_time: time(Field::YieldTime).unwrap_or(usual.yield_time),
            output_budget_bytes: number(Field::OutputBudget).unwrap_or(usual.output_budget_bytes),
            capture_bytes: number(Field::Capture).unwrap_or(usual.capture_bytes),
            log_bytes: number(Field::LogBytes).unwrap_or(usual.log_bytes),
            log_mode: match self.word(Field::LogMode) {
                Some("off") => LogMode::Off,
                Some("keep_head") => LogMode::KeepHead,
                Some("rolling") => LogMode::Rolling,
                _ => usual.log_mode,
            },
            write_bytes: number(Field::WriteBytes).unwrap_or(usual.write_bytes),
            leftovers: match self.word(Field::Leftovers) {
                Some("keep") => Leftovers::Keep,
                _ => Leftovers::Sweep,
            },
            retention: time(Field::Retention).unwrap_or(usual.retention),
        }
    }

    /// Where standard input comes from.
    #[must_use]
    pub fn stdin(&self) -> StdinMode {
        if self.word(Field::Stdin) == Some("piped") {
            StdinMode::Piped
        } else {
            StdinMode::Null
        }
    }

    /// The terminal's size; none when the session has no terminal.
    #[must_use]
    pub fn terminal(&self) -> Option<TerminalSize> {
        if self.effective(Field::Tty) != Some(&Value::Flag(true)) {
            return None;
        }
        let (rows, cols) = self
            .word(Field::TerminalSize)
            .and_then(parse_size)
            .unwrap_or((24, 120));
        Some(TerminalSize { rows, cols })
    }

    /// The folder that the working directory has to lie in; none when it may lie anywhere.
    #[must_use]
    pub fn cwd_root(&self) -> Option<&str> {
        self.word(Field::CwdRoot)
    }

    fn word(&self, field: Field) -> Option<&str> {
        self.effective(field).and_then(Value::as_text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Capabilities, HostPolicy, HostPolicySettings, decide,
        samples::{capabilities, request},
    };

    #[test]
    fn the_effective_limits_of_an_empty_request_are_the_defaults() {
        let decision = decide(&request([]), &HostPolicy::default(), &capabilities());
        assert_eq!(decision.effective_limits(), EffectiveLimits::default());
        assert_eq!(decision.stdin(), StdinMode::Null);
        assert_eq!(decision.terminal(), None);
        assert_eq!(decision.notable().count(), 0);
        assert_eq!(decision.refusal(), None);
    }

    #[test]
    fn the_effective_limits_are_those_that_were_decided() {
        let request = request([
            (Field::WallTime, Value::Number(u64::MAX)),
            (Field::IdleTime, Value::Number(5)),
            (Field::LogMode, "keep_head".into()),
            (Field::Leftovers, "keep".into()),
            (Field::Stdin, "piped".into()),
            (Field::Tty, true.into()),
            (Field::TerminalSize, "0x80".into()),
        ]);
        let host = HostPolicy::new(HostPolicySettings::default().cwd_root("/srv")).unwrap();
        let decision = decide(&request, &host, &capabilities());
        let limits = decision.effective_limits();
        assert_eq!(limits.wall_time, Some(Duration::from_secs(86_400)));
        assert_eq!(limits.idle_time, Some(Duration::from_millis(5)));
        assert_eq!(limits.log_mode, LogMode::KeepHead);
        assert_eq!(limits.leftovers, Leftovers::Keep);
        assert_eq!(decision.stdin(), StdinMode::Piped);
        assert_eq!(decision.terminal(), Some(TerminalSize { rows: 24, cols: 80 }));
        assert_eq!(decision.cwd_root(), Some("/srv"));
        assert_eq!(decision.notable().count(), 7);
    }

    #[test]
    fn a_refusal_names_field_value_and_reason() {
        let check = |field: Field, value: Value, host: HostPolicySettings, expected: &str| {
            let host = HostPolicy::new(host).unwrap();
            let decision = decide(&request([(field, value)]), &host, &capabilities());
            assert_eq!(
                decision.refusal().map(|refusal| refusal.to_string()).as_deref(),
                Some(expected)
            );
        };
        let open = HostPolicySettings::default;
        check(
            Field::Tty,
            true.into(),
            open().ceiling(Field::Tty, false),
            "`tty` cannot be `true`: the ceiling is `false`",
        );
        check(
            Field::WallTime,
            Value::Number(0),
            open(),
            "`wall_time_ms` cannot be `0`: zero has no meaning here",
        );
        check(
            Field::TreeMemory,
            Value::Number(1 << 30),
            open(),
            "`tree_memory_bytes` cannot be `1073741824`: nothing on this host enforces it",
        );
        check(
            Field::Umask,
            Value::Text("7".repeat(MAX_TEXT_BYTES + 1)),
            open(),
            &format!(
                "`umask` cannot be `{}`: a text has at most 4096 bytes and a list 65536",
                "7".repeat(64)
            ),
        );
        let host = HostPolicy::new(open().default_value(Field::Network, false)).unwrap();
        assert_eq!(
            decide(&request([]), &host, &Capabilities::supervision())
                .refusal()
                .map(|refusal| refusal.to_string())
                .as_deref(),
            Some("the host's rule for `network` cannot be kept: nothing on this host enforces it"),
        );
    }
}
