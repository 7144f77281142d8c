//! What a log actor can be asked.

use std::path::PathBuf;

use procession_core::{LogMode, SessionId};
use ractor::RpcReplyPort;

use super::{Internal, LogFeed};
use crate::{
    error::{ReadLogError, SearchLogError},
    report::{LogMatches, LogPage, LogQuery, LogSearch, LogSummary},
};

/// The log that a session wants.
#[derive(Debug, Clone)]
pub struct LogSpec {
    /// For which session.
    pub session: SessionId,
    /// The cap, in bytes on disk.
    pub cap_bytes: u64,
    /// What is kept at the cap.
    pub mode: LogMode,
    /// What stands in its header: the policy's record.
    pub header: Vec<u8>,
}

/// A log that was opened.
#[derive(Debug, Clone)]
pub struct OpenedLog {
    /// Where output goes.
    pub feed: LogFeed,
    /// Where it lies.
    pub path: Option<PathBuf>,
}

/// Why there is no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no log can be made: {reason}")]
pub struct OpenLogError {
    /// What the storage said.
    pub reason: String,
}

/// What a log actor can be asked.
///
/// Output does not travel in messages: it waits in the session's [`LogFeed`], which is bounded, and `Ready` says that
/// there is some.
#[derive(Debug)]
pub enum LogMessage {
    /// Make a log.
    Open {
        /// Which.
        spec: Box<LogSpec>,
        /// The answer.
        reply: RpcReplyPort<Result<OpenedLog, OpenLogError>>,
    },
    /// Output waits in the session's feed. No answer.
    Ready {
        /// Whose.
        session: SessionId,
    },
    /// Read a page; what waits in the feed is written first where the page needs it.
    Read {
        /// Whose.
        session: SessionId,
        /// What.
        query: LogQuery,
        /// The answer.
        reply: RpcReplyPort<Result<LogPage, ReadLogError>>,
    },
    /// Look for a pattern; what waits in the feed is written first. Bounded by [`super::SEARCH_BYTES`] and
    /// [`super::SEARCH_BOUND`].
    Search {
        /// Whose.
        session: SessionId,
        /// For what.
        search: LogSearch,
        /// The answer.
        reply: RpcReplyPort<Result<LogMatches, SearchLogError>>,
    },
    /// Write what waits, then the end record, and close; answered when what waited is written, before the end record
    /// is on the disk for sure.
    Close {
        /// Whose.
        session: SessionId,
        /// The end record.
        end_record: Vec<u8>,
        /// The answer.
        reply: RpcReplyPort<LogSummary>,
    },
    /// Answered when all that was asked for before is on the storage, end records included, and what was to be removed
    /// is not.
    Settle {
        /// The answer.
        reply: RpcReplyPort<()>,
    },
    /// Remove the log from the disk. No answer.
    Remove {
        /// Whose.
        session: SessionId,
    },
    /// From the actor's own tasks; only its own module can make one.
    Internal(Internal),
}

crate::local_message!(LogMessage);
