//! Calls about several sessions, and all about one.

use std::{collections::BTreeSet, time::Duration};

use procession_actors::{
    Client,
    error::WaitError,
    report::{Condition, ListFilter, WaitReport, WaitResult},
};
use procession_core::SessionId;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::with_clamps;
use crate::{
    arguments::{Mode, Reader, WaitArguments, condition_str, include_ended},
    failure::Failure,
    json::{inspection_value, summary_value},
};

pub(super) async fn list(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let filter = if include_ended(&mut reader)? {
        ListFilter::All
    } else {
        ListFilter::Live
    };
    let sessions = client.list(filter).await?;
    Ok(json!({ "sessions": sessions.iter().map(summary_value).collect::<Vec<_>>() }))
}

pub(super) async fn inspect(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let session = reader.session()?;
    Ok(inspection_value(&client.inspect(session).await?))
}

pub(super) async fn wait(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let arguments = WaitArguments::read(&mut reader)?;
    let answer = watch(client, &arguments).await?;
    Ok(with_clamps(answer, reader))
}

type Watched = (SessionId, Condition, Result<WaitReport, WaitError>);

/// Waits for every pair of session and condition at once, until enough of them hold or no more can.
async fn watch(client: &Client, arguments: &WaitArguments) -> Result<Value, Failure> {
    let mut watches = JoinSet::new();
    for session in &arguments.sessions {
        for condition in &arguments.until {
            watches.spawn(watch_one(client.clone(), *session, *condition, arguments.timeout));
        }
    }
    let mut fired = Vec::new();
    let mut impossible = Vec::new();
    let mut waiting: BTreeSet<SessionId> = arguments.sessions.clone();
    let mut is_timed_out = false;
    let mut next = watches.join_next().await;
    while let Some(watched) = next {
        // A watch ends without a result only when the runtime is going down.
        let Ok((session, condition, result)) = watched else {
            break;
        };
        let report = result?;
        match report.result {
            WaitResult::Fired => {
                waiting.remove(&session);
                fired.push(json!({
                    "session_id": session.to_string(),
                    "condition": condition_str(condition),
                    "cursor": report.cursor.to_string(),
                }));
            }
            WaitResult::TimedOut => is_timed_out = true,
            WaitResult::Impossible => impossible
                .push(json!({ "session_id": session.to_string(), "condition": condition_str(condition) })),
        }
        let is_enough = match arguments.mode {
            Mode::Any => !fired.is_empty(),
            Mode::All => waiting.is_empty(),
        };
        // What holds at the same moment is told with it.
        next = if is_enough {
            watches.try_join_next()
        } else {
            watches.join_next().await
        };
    }
    let is_enough = match arguments.mode {
        Mode::Any => !fired.is_empty(),
        Mode::All => waiting.is_empty(),
    };
    let mut answer = json!({ "fired": fired, "timed_out": is_timed_out && !is_enough });
    if !impossible.is_empty() {
        answer["impossible"] = impossible.into();
    }
    Ok(answer)
}

async fn watch_one(client: Client, session: SessionId, condition: Condition, timeout: Duration) -> Watched {
    let result = client.wait(session, condition, timeout).await;
    (session, condition, result)
}
