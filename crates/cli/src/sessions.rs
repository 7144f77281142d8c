//! `procession sessions`: what the logs in the state directory tell of sessions, also of those whose host died.

use std::{
    io::{self, Write},
    path::Path,
};

use procession_core::{Cause, Outcome, Phase, Status};
use procession_log_store::{FileStorage, LogRecord, read_log_record};
use procession_mcp::json::{outcome_value, rfc3339};
use procession_policy::{Decision, EndRecord, Record, decode_record};
use serde_json::{Value, json};

use crate::{
    cli::Format,
    error::CommandError,
    output::{print, print_json},
    state::{self, FoundLog, Host},
};

/// Why the status of a session is unknown whose host died: there was nobody to see it.
const HOST_DIED: &str = "host_died";

/// Lists all sessions that have a log.
///
/// # Errors
/// When standard output cannot be written; a log that cannot be read is listed as such.
pub(crate) fn sessions(format: Format, state: Option<&Path>) -> Result<u8, CommandError> {
    let mut found: Vec<Found> = state
        .map(state::logs)
        .unwrap_or_default()
        .into_iter()
        .map(Found::read)
        .collect();
    // In the order of their ends, those without one last.
    found.sort_by_cached_key(|found| {
        let ended = found
            .outcome
            .as_ref()
            .map_or(u64::MAX, |outcome| outcome.ended_wall.unix_millis());
        (ended, found.session_id())
    });
    if format.json {
        let sessions: Vec<Value> = found.iter().map(Found::to_json).collect();
        return print_json(&json!({ "sessions": sessions }));
    }
    print(|out| {
        if !found.is_empty() {
            writeln!(
                out,
                "{:<19}  {:<8}  {:<24}  {:<28}  LOG",
                "SESSION", "STATE", "ENDED", "OUTCOME"
            )?;
        }
        found.iter().try_for_each(|found| found.write_line(out))
    })
}

/// A log with what its records say.
struct Found {
    log: FoundLog,
    record: Option<LogRecord>,
    decision: Option<Decision>,
    outcome: Option<Outcome>,
}

/// What can be said of a session from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its host runs and it has not ended.
    Running,
    /// Its record says how it ended.
    Ended,
    /// Its host died before there was a record of the end.
    Lost,
    /// Its log cannot be read.
    Damaged,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => Phase::Ended.as_str(),
            Self::Lost => "lost",
            Self::Damaged => "damaged",
        }
    }
}

impl Found {
    fn read(log: FoundLog) -> Self {
        let record = read_log_record(&FileStorage::new(), &log.folder).ok();
        let header = record
            .as_ref()
            .and_then(|record| decode_record(&record.header.application).ok());
        let end = record.as_ref().and_then(|record| record.end.as_ref());
        let end = end.and_then(|end| decode_record(&end.application).ok());
        let mut decision = match header {
            Some(Record::Decision(decision)) => Some(decision),
            _ => None,
        };
        let mut outcome = None;
        if let Some(Record::End(end)) = end {
            let EndRecord {
                decision: decided,
                outcome: ended,
                ..
            } = *end;
            decision = decision.or(Some(decided));
            outcome = Some(ended);
        }
        Self {
            log,
            record,
            decision,
            outcome,
        }
    }

    fn state(&self) -> State {
        let has_end = self.record.as_ref().is_some_and(|record| record.end.is_some());
        match (&self.record, self.log.host) {
            (None, _) => State::Damaged,
            (Some(_), _) if has_end => State::Ended,
            (Some(_), Host::Alive) => State::Running,
            (Some(_), Host::Dead) => State::Lost,
        }
    }

    /// How it ended; a session that its host did not live to end is lost, and nobody knows its status.
    fn outcome_value(&self) -> Option<Value> {
        match (&self.outcome, self.state()) {
            (Some(outcome), _) => Some(outcome_value(outcome)),
            (None, State::Lost) => Some(json!({
                "cause": Cause::Lost.as_str(),
                "status": { "kind": "unknown", "reason": HOST_DIED },
                "output_complete": false,
            })),
            (None, _) => None,
        }
    }

    /// The id as the record has it, else as the folder is called.
    fn session_id(&self) -> String {
        let by_name = || {
            self.log
                .folder
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        self.decision
            .as_ref()
            .map_or_else(by_name, |decision| decision.session().to_string())
    }

    fn to_json(&self) -> Value {
        let end = self.record.as_ref().and_then(|record| record.end.as_ref());
        json!({
            "session_id": self.session_id(),
            "state": self.state().as_str(),
            "outcome": self.outcome_value(),
            "ended_at": self.outcome.as_ref().map(|outcome| rfc3339(outcome.ended_wall)),
            "agent": self.decision.as_ref().map(Decision::agent),
            "host": match self.log.host { Host::Alive => "alive", Host::Dead => "dead" },
            "log": {
                "path": self.log.folder.to_string_lossy(),
                "total_bytes": end.map(|end| end.total_bytes),
                "kept_bytes": end.map(|end| end.kept_bytes),
            },
        })
    }

    fn write_line(&self, out: &mut impl Write) -> io::Result<()> {
        let outcome = match (&self.outcome, self.state()) {
            (Some(outcome), _) => told(outcome),
            (None, State::Lost) => format!("{}, unknown: {HOST_DIED}", Cause::Lost.as_str()),
            (None, _) => "-".to_owned(),
        };
        let ended = self
            .outcome
            .as_ref()
            .map_or_else(|| "-".to_owned(), |outcome| rfc3339(outcome.ended_wall));
        writeln!(
            out,
            "{:<19}  {:<8}  {ended:<24}  {outcome:<28}  {}",
            self.session_id(),
            self.state().as_str(),
            self.log.folder.display()
        )
    }
}

/// Cause and status in a few words.
fn told(outcome: &Outcome) -> String {
    let cause = outcome.cause.as_str();
    match &outcome.status {
        Status::Exited { code } => format!("{cause}, exited {code}"),
        Status::Signaled { signal, .. } => format!("{cause}, {signal}"),
        Status::Unknown { reason } => format!("{cause}, unknown: {reason}"),
    }
}
