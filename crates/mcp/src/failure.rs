//! A call that could not be done: its code, what was at fault, and the numbers.

use procession_actors::error::{
    CallError, CloseStdinError, InspectError, OwnerError, PollError, ReadLogError, ResizeError,
    SearchLogError, SignalError, StartError, StopError, WaitError, WriteError,
};
use procession_core::{EnvironmentError, Outcome, SpecError, StartFailure, admission::LimitReached};
use serde_json::{Map, Value, json};

use crate::json::{field_value, outcome_value};

/// A call that could not be done, as the structured content of its answer tells it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    code: Code,
    message: String,
    field: Option<String>,
    more: Vec<(&'static str, Value)>,
}

macro_rules! codes {
    ($( $variant:ident, $name:literal, $about:literal; )*) => {
        /// What kind of failure it is; the words are part of the interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Code {
            $( #[doc = $about] $variant, )*
        }

        impl Code {
            /// All codes with what they mean, in the order of the table.
            pub(crate) const ALL: &'static [(Self, &'static str)] = &[ $( (Self::$variant, $about), )* ];

            /// The word on every surface.
            pub(crate) const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

codes! {
    InvalidArgument, "invalid_argument", "An argument is missing, unknown, of the wrong type or out of range; `field` names it.";
    TooLong, "too_long", "Something is longer than it may be; `bytes` and `limit_bytes` tell by how much.";
    NotFound, "not_found", "There is no session of this id, or it is somebody else's.";
    Gone, "gone", "The session has ended and its retention is over.";
    LimitReached, "limit_reached", "A budget is used up; `limit`, `scope`, `configured`, `in_use`, `requested` and `retry_when` tell which.";
    Refused, "refused", "The host's policy refused what `field` names.";
    PolicyUnavailable, "policy_unavailable", "The host's policy did not answer, so nothing was started.";
    FailedToStart, "failed_to_start", "The process could not be started; `kind` tells why. Nothing is left of it.";
    SessionEnded, "session_ended", "The session has ended; `outcome` tells how.";
    NotStarted, "not_started", "The session has no process yet.";
    StdinClosed, "stdin_closed", "Standard input was closed by an earlier call.";
    ReaderClosed, "reader_closed", "The process closed its standard input, or nobody is left who could read it.";
    NoStdin, "no_stdin", "The session was started without `stdin`.";
    LineTooLong, "line_too_long", "The terminal would cut a line of the input, so nothing was written; `bytes` and `limit_bytes` tell by how much. Break the line, or start the session with `stdin` instead of `tty`.";
    TerminalRaw, "terminal_raw", "The terminal is in raw mode and has no end of file; write what its program takes for one.";
    NoTerminal, "no_terminal", "The session was started without `tty`.";
    NoLog, "no_log", "The session has no log.";
    LogUnavailable, "log_unavailable", "The log could not be read.";
    Failed, "failed", "The system refused; `os_error` is its error number.";
    Unsupported, "unsupported", "This server cannot do what `field` asks for.";
    SessionLost, "session_lost", "The session was lost before it answered; its processes were killed.";
    ShuttingDown, "shutting_down", "The server is ending and takes no more calls.";
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            field: None,
            more: Vec::new(),
        }
    }

    /// An argument is at fault.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message).at(field)
    }

    /// An argument asks for what is not there yet.
    pub(crate) fn unsupported(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::Unsupported, message).at(field)
    }

    /// The answer to an id that is nobody's, or does not even have the form of one: always the same bytes.
    pub(crate) fn not_found() -> Self {
        CallError::NotFound.into()
    }

    /// The same, naming the argument that is at fault.
    pub(crate) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same, with one more value.
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((key, value.into()));
        self
    }

    #[cfg(test)]
    pub(crate) const fn code(&self) -> Code {
        self.code
    }

    #[cfg(test)]
    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// `{ "error": { "code", "message", … } }`.
    pub(crate) fn into_value(self) -> Value {
        let mut error = Map::new();
        error.insert("code".to_owned(), self.code.as_str().into());
        error.insert("message".to_owned(), self.message.into());
        if let Some(field) = self.field {
            error.insert("field".to_owned(), field.into());
        }
        error.extend(self.more.into_iter().map(|(key, value)| (key.to_owned(), value)));
        json!({ "error": error })
    }

    fn ended(message: String, outcome: &Outcome) -> Self {
        Self::new(Code::SessionEnded, message).with("outcome", outcome_value(outcome))
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match error {
            CallError::NotFound => Self::new(Code::NotFound, message).at("session_id"),
            CallError::Gone => Self::new(Code::Gone, message).at("session_id"),
            CallError::SessionLost => Self::new(Code::SessionLost, message),
            CallError::Stopped => Self::new(Code::ShuttingDown, message),
            CallError::TooManyWaiters { waiting, limit } => Self::new(Code::LimitReached, message)
                .with("limit", "waiting_calls")
                .with("configured", limit)
                .with("in_use", waiting)
                .with("requested", 1),
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        let message = error.to_string();
        let place = error.place().to_owned();
        match error {
            SpecError::TooLong {
                bytes, limit_bytes, ..
            } => Self::new(Code::TooLong, message)
                .with("bytes", bytes)
                .with("limit_bytes", limit_bytes),
            SpecError::TooMany { count, limit, .. } => Self::new(Code::InvalidArgument, message)
                .with("count", count)
                .with("limit", limit),
            _ => Self::new(Code::InvalidArgument, message),
        }
        .at(place)
    }
}

impl From<EnvironmentError> for Failure {
    fn from(error: EnvironmentError) -> Self {
        let code = match error {
            EnvironmentError::LiteralRefused => Code::Refused,
            _ => Code::InvalidArgument,
        };
        Self::new(code, error.to_string()).at(error.place())
    }
}

impl From<LimitReached> for Failure {
    fn from(reached: LimitReached) -> Self {
        Self::new(Code::LimitReached, reached.to_string())
            .with("limit", reached.limit.as_str())
            .with("key", reached.limit.key(reached.scope))
            .with("unit", reached.limit.unit())
            .with("scope", reached.scope.as_str())
            .with("configured", reached.configured)
            .with("in_use", reached.in_use)
            .with("requested", reached.requested)
            .with("retry_when", reached.retry_when.as_str())
    }
}

impl From<StartFailure> for Failure {
    fn from(failure: StartFailure) -> Self {
        let told = Self::new(Code::FailedToStart, failure.to_string())
            .with("kind", failure.kind.as_str())
            .with("subject", failure.subject);
        let told = match failure.errno {
            Some(errno) => told.with("os_error", errno),
            None => told,
        };
        told.at(failure.place)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let message = error.to_string();
        match error {
            StartError::Invalid(error) => error.into(),
            StartError::Environment(error) => error.into(),
            StartError::Refused(refused) => Self::new(Code::Refused, message)
                .with(
                    "requested",
                    refused.requested.as_ref().map_or(Value::Null, field_value),
                )
                .with("reason", refused.reason)
                .at(refused.field.name()),
            StartError::PolicyUnavailable { waited } => Self::new(Code::PolicyUnavailable, message)
                .with("waited_ms", procession_core::time::whole_millis(waited)),
            StartError::LimitReached(reached) => reached.into(),
            StartError::Failed(failure) => failure.into(),
            StartError::ShuttingDown => Self::new(Code::ShuttingDown, message),
            StartError::Call(error) => error.into(),
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        let message = error.to_string();
        match error {
            WriteError::SessionEnded {
                outcome,
                accepted_bytes,
            } => Self::ended(message, &outcome).with("accepted_bytes", accepted_bytes),
            WriteError::StdinClosed { accepted_bytes } => {
                Self::new(Code::StdinClosed, message).with("accepted_bytes", accepted_bytes)
            }
            WriteError::ReaderClosed { accepted_bytes } => {
                Self::new(Code::ReaderClosed, message).with("accepted_bytes", accepted_bytes)
            }
            WriteError::NoStdin => Self::new(Code::NoStdin, message).with("accepted_bytes", 0),
            WriteError::TooLong { bytes, limit_bytes } => Self::new(Code::TooLong, message)
                .with("bytes", bytes)
                .with("limit_bytes", limit_bytes)
                .with("accepted_bytes", 0)
                .at("input"),
            WriteError::LineTooLong { bytes, limit_bytes } => Self::new(Code::LineTooLong, message)
                .with("bytes", bytes)
                .with("limit_bytes", limit_bytes)
                .with("accepted_bytes", 0)
                .at("input"),
            WriteError::Call(error) => error.into(),
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<CloseStdinError> for Failure {
    fn from(error: CloseStdinError) -> Self {
        let message = error.to_string();
        match error {
            CloseStdinError::NoStdin => Self::new(Code::NoStdin, message),
            CloseStdinError::TerminalRaw => Self::new(Code::TerminalRaw, message),
            CloseStdinError::Call(error) => error.into(),
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<SignalError> for Failure {
    fn from(error: SignalError) -> Self {
        let message = error.to_string();
        match error {
            SignalError::SessionEnded { outcome } => Self::ended(message, &outcome),
            SignalError::NotStarted => Self::new(Code::NotStarted, message),
            SignalError::Call(error) => error.into(),
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<ResizeError> for Failure {
    fn from(error: ResizeError) -> Self {
        let message = error.to_string();
        match error {
            ResizeError::NoTerminal => Self::new(Code::NoTerminal, message),
            ResizeError::SessionEnded { outcome } => Self::ended(message, &outcome),
            ResizeError::Failed { errno } => Self::new(Code::Failed, message).with("os_error", errno),
            ResizeError::Call(error) => error.into(),
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<ReadLogError> for Failure {
    fn from(error: ReadLogError) -> Self {
        let message = error.to_string();
        match error {
            ReadLogError::NoLog => Self::new(Code::NoLog, message),
            ReadLogError::Failed { .. } | ReadLogError::Unavailable => {
                Self::new(Code::LogUnavailable, message)
            }
            ReadLogError::Call(error) => error.into(),
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<SearchLogError> for Failure {
    fn from(error: SearchLogError) -> Self {
        let message = error.to_string();
        match error {
            SearchLogError::BadPattern { .. } => Self::invalid("pattern", message),
            SearchLogError::NoLog => Self::new(Code::NoLog, message),
            SearchLogError::Failed { .. } | SearchLogError::Unavailable => {
                Self::new(Code::LogUnavailable, message)
            }
            SearchLogError::Call(error) => error.into(),
            _ => Self::new(Code::Failed, message),
        }
    }
}

impl From<PollError> for Failure {
    fn from(error: PollError) -> Self {
        let message = error.to_string();
        match error {
            PollError::NoTerminal => Self::new(Code::NoTerminal, message).at("render"),
            PollError::ScreenTooLarge { max_cells } => {
                Self::unsupported("render", message).with("limit_cells", max_cells)
            }
            PollError::Call(error) => error.into(),
            _ => Self::new(Code::Failed, message),
        }
    }
}

/// Errors that say no more than that the call was not carried out.
macro_rules! call_errors {
    ($($error:ident),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                match error {
                    $error::Call(error) => error.into(),
                    error => Self::new(Code::Failed, error.to_string()),
                }
            }
        })*
    };
}

call_errors!(StopError, WaitError, InspectError, OwnerError);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use procession_core::admission::{LimitName, RetryWhen, Scope};

    use super::*;

    fn check(failure: impl Into<Failure>, expected: &Value) {
        assert_eq!(failure.into().into_value(), json!({ "error": expected }));
    }

    #[test]
    fn every_code_is_a_word_of_its_own() {
        let words: BTreeSet<_> = Code::ALL.iter().map(|(code, _)| code.as_str()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for word in words {
            assert!(
                word.chars()
                    .all(|character| character.is_ascii_lowercase() || character == '_'),
                "{word}"
            );
        }
    }

    #[test]
    fn a_limit_is_told_with_all_its_numbers() {
        let reached = LimitReached {
            limit: LimitName::MaxSessions,
            scope: Scope::Owner,
            configured: 16,
            in_use: 16,
            requested: 1,
            retry_when: RetryWhen::SessionEnds,
        };
        check(
            reached,
            &json!({
                "code": "limit_reached", "message": reached.to_string(), "limit": "max_sessions",
                "key": "max_sessions_per_owner", "unit": "sessions", "scope": "owner", "configured": 16,
                "in_use": 16, "requested": 1, "retry_when": "session_ends",
            }),
        );
    }

    #[test]
    fn a_spec_that_is_too_long_is_told_by_place_and_size() {
        check(
            SpecError::TooLong {
                place: "command".to_owned(),
                bytes: 131_072,
                limit_bytes: 131_071,
            },
            &json!({
                "code": "too_long", "field": "command", "bytes": 131_072, "limit_bytes": 131_071,
                "message": "`command` is too long: 131072 bytes, the limit is 131071",
            }),
        );
    }

    #[test]
    fn a_failed_start_tells_its_kind() {
        let failure = StartFailure {
            kind: procession_core::StartFailureKind::NotFound,
            place: "argv".to_owned(),
            subject: "nosuchcmd".to_owned(),
            errno: Some(2),
        };
        check(
            failure,
            &json!({
                "code": "failed_to_start", "kind": "not_found", "field": "argv", "subject": "nosuchcmd", "os_error": 2,
                "message": "argv `nosuchcmd` cannot be used: not_found (os error 2)",
            }),
        );
    }

    #[test]
    fn a_write_that_failed_tells_what_was_accepted() {
        let value = Failure::from(WriteError::ReaderClosed { accepted_bytes: 7 }).into_value();
        assert_eq!(value["error"]["code"], "reader_closed");
        assert_eq!(value["error"]["accepted_bytes"], 7);
    }

    #[test]
    fn what_a_terminal_does_not_take_is_told_with_its_reason() {
        let error = WriteError::LineTooLong {
            bytes: 5000,
            limit_bytes: 4095,
        };
        check(
            error.clone(),
            &json!({
                "code": "line_too_long", "message": error.to_string(), "field": "input", "bytes": 5000,
                "limit_bytes": 4095, "accepted_bytes": 0,
            }),
        );
        let error = CloseStdinError::TerminalRaw;
        check(
            error.clone(),
            &json!({ "code": "terminal_raw", "message": error.to_string() }),
        );
    }

    #[test]
    fn an_unknown_session_is_always_told_in_the_same_words() {
        let unknown = Failure::from(PollError::Call(CallError::NotFound));
        assert_eq!(unknown.into_value(), Failure::not_found().into_value());
    }
}
