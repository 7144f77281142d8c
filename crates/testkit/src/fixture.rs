//! Values that tests need and that say nothing by themselves.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use procession_actors::report::{Ladder, LogQuery, PollQuery, ReadQuery, StopRequest, WriteRequest};
use procession_core::{
    Owner, RequestId, RequestedLimits, SessionId, SessionSpec, StartFailure, StartFailureKind,
    spec::StdinMode,
};
use procession_policy::{Decision, HostPolicy, PolicyRequest, decide};
use procession_process::ProcessPort;

use crate::ScriptedPort;

/// The owner of this name: another name is another principal, agent and scope.
#[must_use]
pub fn owner(name: &str) -> Owner {
    Owner::new(name, format!("agent of {name}"), format!("scope of {name}"))
}

/// A session with everything at its default.
#[must_use]
pub fn spec() -> SessionSpec {
    SessionSpec::argv(["played"])
}

/// A session whose input is a pipe.
#[must_use]
pub fn piped_spec() -> SessionSpec {
    SessionSpec {
        stdin: StdinMode::Piped,
        ..spec()
    }
}

/// The session id of this number.
#[must_use]
pub fn session_id(number: u64) -> SessionId {
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&number.to_be_bytes());
    SessionId::from_random(bytes)
}

/// The request id of this name.
///
/// # Panics
/// When the name cannot be one.
#[must_use]
pub fn request_id(name: &str) -> RequestId {
    match RequestId::try_from(name.to_owned()) {
        Ok(id) => id,
        Err(error) => panic!("{error}"),
    }
}

/// What a policy is asked for a session of this owner.
#[must_use]
pub fn policy_request(session: SessionId, owner: &Owner, limits: RequestedLimits) -> PolicyRequest {
    PolicyRequest::new(session, owner.clone(), limits, ScriptedPort::new().containment())
}

/// What our policy decides for a session of this owner, without rules of the host's.
#[must_use]
pub fn decision(session: SessionId, owner: &Owner, limits: RequestedLimits) -> Arc<Decision> {
    let request = policy_request(session, owner, limits);
    Arc::new(decide(
        &request,
        &HostPolicy::default(),
        &ScriptedPort::new().capabilities(),
    ))
}

/// A start that fails in this way.
#[must_use]
pub fn start_failure(kind: StartFailureKind) -> StartFailure {
    StartFailure {
        kind,
        place: "argv".to_owned(),
        subject: "played".to_owned(),
        errno: None,
    }
}

/// A write of these bytes that waits this long.
#[must_use]
pub fn write(input: impl Into<Bytes>, wait: Duration) -> WriteRequest {
    WriteRequest {
        input: input.into(),
        wait,
        request_id: None,
    }
}

/// A stop by this ladder.
#[must_use]
pub const fn stop(ladder: Ladder) -> StopRequest {
    StopRequest {
        ladder,
        request_id: None,
    }
}

/// A poll at the session's own cursor that waits for an hour.
#[must_use]
pub const fn long_poll() -> PollQuery {
    PollQuery::wait(Duration::from_secs(3_600))
}

/// A read of all bytes at the session's own cursor, without waiting.
#[must_use]
pub const fn read_all() -> ReadQuery {
    ReadQuery {
        cursor: None,
        wait: Duration::ZERO,
        max_bytes: u64::MAX,
    }
}

/// A page of a log, of all streams.
#[must_use]
pub const fn log_page(offset: u64, max_bytes: u64) -> LogQuery {
    LogQuery {
        offset,
        max_bytes,
        stream: None,
    }
}
