//! Answers for a session whose actor died: what is known is told, the rest is not made up.

use std::sync::Arc;

use procession_core::{Outcome, Phase, SessionId, text::ReadPosition};
use procession_policy::{Observation, Receipt};

use super::entry::Entry;
use crate::{
    error::{ResizeError, SignalError, WriteError},
    report::{
        Condition, Inspection, LogIncomplete, LogSummary, OutputBytes, PollReport, RawOutput, StopReport,
        WaitReport, WaitResult,
    },
    session::SessionMessage,
};

/// Answers a question in the place of the actor that died.
pub(super) fn answer(session: SessionId, entry: &Entry, request: SessionMessage) {
    let Some(outcome) = entry.outcome.clone() else {
        request.refuse(crate::error::CallError::SessionLost);
        return;
    };
    match request {
        SessionMessage::Poll { reply, query } => {
            let cursor = query.cursor.unwrap_or(ReadPosition::START);
            let _ = reply.send(Ok(poll_report(session, entry, outcome, cursor)));
        }
        SessionMessage::ReadOutput { reply, query } => {
            let cursor = query.cursor.unwrap_or(ReadPosition::START);
            let output = RawOutput {
                phase: Phase::Ended,
                outcome: Some(outcome),
                pieces: Vec::new(),
                cursor,
            };
            let _ = reply.send(Ok(output));
        }
        SessionMessage::Write { reply, .. } => {
            let _ = reply.send(Err(WriteError::SessionEnded {
                outcome: Box::new(outcome),
                accepted_bytes: 0,
            }));
        }
        SessionMessage::CloseStdin { reply } => drop(reply.send(Ok(()))),
        SessionMessage::Signal { reply, .. } => {
            let _ = reply.send(Err(SignalError::SessionEnded {
                outcome: Box::new(outcome),
            }));
        }
        SessionMessage::Resize { reply, .. } => {
            let _ = reply.send(Err(ResizeError::SessionEnded {
                outcome: Box::new(outcome),
            }));
        }
        SessionMessage::Stop { reply, .. } => {
            let residual_pids = outcome.residual_pids.clone();
            let _ = reply.send(Ok(StopReport {
                phase: Phase::Ended,
                outcome: Some(outcome),
                residual_pids,
            }));
        }
        SessionMessage::Wait { reply, until, .. } => {
            let result = if until == Condition::Ended {
                WaitResult::Fired
            } else {
                WaitResult::Impossible
            };
            let cursor = ReadPosition::START;
            let _ = reply.send(Ok(WaitReport {
                result,
                phase: Phase::Ended,
                outcome: Some(outcome),
                cursor,
            }));
        }
        SessionMessage::Inspect { reply } => {
            let _ = reply.send(Ok(inspection(session, entry, outcome)));
        }
        SessionMessage::End { .. } | SessionMessage::LetGo | SessionMessage::Internal(_) => {}
    }
}

fn poll_report(session: SessionId, entry: &Entry, outcome: Outcome, cursor: ReadPosition) -> PollReport {
    PollReport {
        session,
        phase: Phase::Ended,
        pid: entry.process.map(|process| process.pid),
        residual_pids: outcome.residual_pids.clone(),
        outcome: Some(outcome),
        stdout: String::new(),
        stderr: String::new(),
        cursor,
        omitted: Vec::new(),
        screen: None,
        log: lost_log(),
    }
}

fn inspection(session: SessionId, entry: &Entry, outcome: Outcome) -> Inspection {
    let receipt = Receipt::new(&entry.decision, &outcome, &Observation::default());
    Inspection {
        session,
        label: entry.spec.label.clone(),
        phase: Phase::Ended,
        pid: entry.process.map(|process| process.pid),
        residual_pids: outcome.residual_pids.clone(),
        outcome: Some(outcome),
        decision: Arc::clone(&entry.decision),
        receipt: Some(receipt),
        containment: entry
            .process
            .map_or_else(|| entry.decision.containment(), |process| process.containment),
        environment_names: Arc::default(),
        output_bytes: OutputBytes::default(),
        redactions: 0,
        log: lost_log(),
    }
}

/// How much was written died with the actor; what was logged can still be read.
fn lost_log() -> LogSummary {
    let reason = "the session's actor died".to_owned();
    LogSummary {
        incomplete: Some(LogIncomplete {
            from_offset: 0,
            reason,
        }),
        ..LogSummary::default()
    }
}
