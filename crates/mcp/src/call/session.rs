//! Calls about one session that is there: reading, writing, signalling, ending.

use procession_actors::{
    Client,
    report::{StopRequest, WriteEnd, WriteRequest, Written},
};
use serde_json::{Value, json};

use super::with_clamps;
use crate::{
    arguments::{PollArguments, Reader, ResizeArguments, SignalArguments, StopArguments, WriteArguments},
    failure::Failure,
    json::poll_value,
};

pub(super) async fn poll(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let PollArguments { session, query } = PollArguments::read(&mut reader)?;
    let report = client.poll(session, query).await?;
    Ok(with_clamps(poll_value(&report), reader))
}

pub(super) async fn write(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let WriteArguments {
        session,
        input,
        wait,
        request_id,
        query,
    } = WriteArguments::read(&mut reader)?;
    let written = if input.is_empty() {
        Written {
            accepted_bytes: 0,
            end: WriteEnd::Complete,
        }
    } else {
        client
            .write(
                session,
                WriteRequest {
                    input: input.into(),
                    wait,
                    request_id,
                },
            )
            .await?
    };
    let report = client
        .poll(session, query)
        .await
        .map_err(|error| Failure::from(error).with("accepted_bytes", written.accepted_bytes))?;
    let mut answer = poll_value(&report);
    answer["accepted_bytes"] = written.accepted_bytes.into();
    if written.end == WriteEnd::TimedOut {
        answer["timed_out"] = true.into();
    }
    Ok(with_clamps(answer, reader))
}

pub(super) async fn close_stdin(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let session = reader.session()?;
    client.close_stdin(session).await?;
    Ok(json!({ "session_id": session.to_string(), "stdin": "closed" }))
}

pub(super) async fn signal(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let SignalArguments { session, signal } = SignalArguments::read(&mut reader)?;
    client.signal(session, signal).await?;
    Ok(json!({ "session_id": session.to_string(), "signal": signal.number(), "signal_name": signal.name() }))
}

pub(super) async fn resize(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let ResizeArguments { session, size } = ResizeArguments::read(&mut reader)?;
    client.resize(session, size).await?;
    Ok(json!({ "session_id": session.to_string(), "rows": size.rows, "cols": size.cols }))
}

pub(super) async fn stop(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let StopArguments {
        session,
        ladder,
        query,
    } = StopArguments::read(&mut reader)?;
    client
        .stop(
            session,
            StopRequest {
                ladder,
                request_id: None,
            },
        )
        .await?;
    let report = client.poll(session, query).await?;
    Ok(with_clamps(poll_value(&report), reader))
}
