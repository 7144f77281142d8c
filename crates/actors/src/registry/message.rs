//! What the registry can be asked.

use std::{sync::Arc, time::Duration};

use procession_core::{Owner, SessionId, SessionSpec};
use procession_policy::Capabilities;
use ractor::RpcReplyPort;

use super::Internal;
use crate::{
    error::{CallError, OwnerError, ReadLogError, SearchLogError, StartError},
    report::{
        KeptProcesses, ListFilter, LogMatches, LogPage, LogQuery, LogSearch, OwnerEnd, SessionSummary,
        ShutdownReport, Started,
    },
    session::{SessionMessage, SessionNotice},
};

/// What the registry can be asked.
///
/// It checks the owner on every question and never waits for anybody: what takes time is done by a task, whose result
/// comes back as a message.
#[derive(Debug)]
pub enum RegistryMessage {
    /// Start a session; answered when its process runs, or with the reason why none does.
    Start {
        /// For whom.
        owner: Owner,
        /// What.
        spec: Box<SessionSpec>,
        /// The answer.
        reply: RpcReplyPort<Result<Started, StartError>>,
    },
    /// Pass a question on to a session of this owner; who is not, is told that there is no such session.
    Forward {
        /// Who asks.
        owner: Owner,
        /// Which session.
        session: SessionId,
        /// The question, with its reply.
        request: SessionMessage,
    },
    /// Read a session's log.
    ReadLog {
        /// Who asks.
        owner: Owner,
        /// Which session.
        session: SessionId,
        /// What to read.
        query: LogQuery,
        /// The answer.
        reply: RpcReplyPort<Result<LogPage, ReadLogError>>,
    },
    /// Look for a pattern in a session's log.
    SearchLog {
        /// Who asks.
        owner: Owner,
        /// Which session.
        session: SessionId,
        /// For what to look.
        search: LogSearch,
        /// The answer.
        reply: RpcReplyPort<Result<LogMatches, SearchLogError>>,
    },
    /// List the owner's sessions in the order of their starts.
    List {
        /// Who asks.
        owner: Owner,
        /// Which.
        filter: ListFilter,
        /// The answer.
        reply: RpcReplyPort<Result<Vec<SessionSummary>, CallError>>,
    },
    /// End all sessions of exactly this owner; answered with their ids as soon as it is under way.
    EndOwner {
        /// Whose.
        owner: Owner,
        /// On what ground.
        end: OwnerEnd,
        /// The answer.
        reply: RpcReplyPort<Result<Vec<SessionId>, OwnerError>>,
    },
    /// Take no more sessions, end those that live, and tell what was left.
    Shutdown {
        /// The grace for every ladder; each session's own when not given.
        grace: Option<Duration>,
        /// When the report is given at the latest.
        bound: Duration,
        /// What becomes of processes that sessions kept.
        kept: KeptProcesses,
        /// The answer.
        reply: RpcReplyPort<ShutdownReport>,
    },
    /// Tell what this machine can enforce.
    Capabilities {
        /// The answer.
        reply: RpcReplyPort<Arc<Capabilities>>,
    },
    /// A session tells of itself; only its own reporter can make one.
    Notice(SessionNotice),
    /// From the registry's own tasks and timers; only its own module can make one.
    Internal(Internal),
}

crate::local_message!(RegistryMessage);
