//! Starting.

use std::time::Duration;

use procession_actors::{
    Client,
    report::{Condition, PollQuery},
};
use serde_json::{Value, json};

use crate::{
    arguments::{Ground, Reader, StartArguments},
    failure::Failure,
    json::{notable_value, poll_value},
};

/// How long a start in the background waits, so that a command that fails at once is told at once.
const SETTLE: Duration = Duration::from_millis(50);

pub(super) async fn start(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let StartArguments { spec, ground } = StartArguments::read(&mut reader)?;
    let started = client.start(spec).await?;
    let wait = match ground {
        Ground::Fore => started.decision.effective_limits().yield_time,
        Ground::Back => SETTLE,
    };
    if !wait.is_zero() {
        // Should the wait fail, the session is there all the same: its caller has to learn its id.
        let _ = client.wait(started.session, Condition::Ended, wait).await;
    }
    let report = client
        .poll(started.session, PollQuery::now())
        .await
        .map_err(|error| Failure::from(error).with("session_id", started.session.to_string()))?;
    let mut answer = poll_value(&report);
    answer["policy"] = notable_value(&started.decision);
    if !started.evicted.is_empty() {
        answer["evicted"] = json!(
            started
                .evicted
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        );
    }
    Ok(answer)
}
