//! The façade: one short method a message, for callers that are not actors.

use std::time::Duration;

use procession_core::{Owner, SessionId, SessionSpec, Signal, spec::TerminalSize};
use ractor::{ActorRef, MessagingErr, RactorErr, RpcReplyPort};

use crate::{
    error::{
        CallError, CloseStdinError, InspectError, OwnerError, PollError, ReadLogError, ResizeError,
        SearchLogError, SignalError, StartError, StopError, WaitError, WriteError,
    },
    registry::RegistryMessage,
    report::{
        Condition, Inspection, KeptProcesses, ListFilter, LogMatches, LogPage, LogQuery, LogSearch, OwnerEnd,
        PollQuery, PollReport, RawOutput, ReadQuery, SessionSummary, ShutdownReport, Started, StopReport,
        StopRequest, WaitReport, WriteRequest, Written,
    },
    session::SessionMessage,
};

/// A caller's way to the sessions of one owner.
///
/// Cheap to clone; dropping it changes nothing for any session.
///
/// # Cancel safety
/// All methods: dropping the future ends the wait and nothing else. What the call asked for may have been done: a start
/// that is dropped leaves a session that is listed, or none.
#[derive(Debug, Clone)]
pub struct Client {
    registry: ActorRef<RegistryMessage>,
    owner: Owner,
}

impl Client {
    /// A client of this registry, acting as this owner.
    #[must_use]
    pub const fn new(registry: ActorRef<RegistryMessage>, owner: Owner) -> Self {
        Self { registry, owner }
    }

    /// As whom it acts.
    #[must_use]
    pub const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Starts a session; answers when its process runs.
    ///
    /// # Errors
    /// [`StartError`], and then nothing of the session is left.
    ///
    /// # Cancel safety
    /// When dropped, the session is in the owner's list or does not exist.
    pub async fn start(&self, spec: SessionSpec) -> Result<Started, StartError> {
        let (owner, spec) = (self.owner.clone(), Box::new(spec));
        self.ask(|reply| RegistryMessage::Start { owner, spec, reply })
            .await?
    }

    /// Reads text, waiting as long as the query says for output or the end.
    ///
    /// # Errors
    /// [`PollError`] when there is no such session.
    ///
    /// # Cancel safety
    /// When dropped, the session's own cursor may have moved.
    pub async fn poll(&self, session: SessionId, query: PollQuery) -> Result<PollReport, PollError> {
        self.forward(session, |reply| SessionMessage::Poll { query, reply })
            .await?
    }

    /// Reads bytes, exactly as the process wrote them.
    ///
    /// # Errors
    /// [`PollError`] when there is no such session.
    ///
    /// # Cancel safety
    /// When dropped, the session's own cursor may have moved.
    pub async fn read_output(&self, session: SessionId, query: ReadQuery) -> Result<RawOutput, PollError> {
        self.forward(session, |reply| SessionMessage::ReadOutput { query, reply })
            .await?
    }

    /// Writes input and tells how much was accepted.
    ///
    /// # Errors
    /// [`WriteError`]: the session ended, we closed its input, or the reader did, each with the bytes accepted.
    ///
    /// # Cancel safety
    /// When dropped, a part may have been written; with a request id the same write can be asked again.
    pub async fn write(&self, session: SessionId, request: WriteRequest) -> Result<Written, WriteError> {
        self.forward(session, |reply| SessionMessage::Write { request, reply })
            .await?
    }

    /// Closes the input behind everything that was written before. Twice is fine.
    ///
    /// # Errors
    /// [`CloseStdinError`] when there is no such session, or it has no input.
    ///
    /// # Cancel safety
    /// When dropped, the input is closed all the same.
    pub async fn close_stdin(&self, session: SessionId) -> Result<(), CloseStdinError> {
        self.forward(session, |reply| SessionMessage::CloseStdin { reply })
            .await?
    }

    /// Sends a signal to the foreground group of the session's terminal, else to its group.
    ///
    /// # Errors
    /// [`SignalError`] when there is no such session, or no process to signal.
    ///
    /// # Cancel safety
    /// When dropped, the signal may have been sent.
    pub async fn signal(&self, session: SessionId, signal: Signal) -> Result<(), SignalError> {
        self.forward(session, |reply| SessionMessage::Signal { signal, reply })
            .await?
    }

    /// Sets the terminal's size.
    ///
    /// # Errors
    /// [`ResizeError`] when there is no such session or terminal.
    ///
    /// # Cancel safety
    /// When dropped, the size may have been set.
    pub async fn resize(&self, session: SessionId, size: TerminalSize) -> Result<(), ResizeError> {
        self.forward(session, |reply| SessionMessage::Resize { size, reply })
            .await?
    }

    /// Ends a session; answers when its tree is gone, or after a bound with what is left. Twice is fine.
    ///
    /// # Errors
    /// [`StopError`] when there is no such session.
    ///
    /// # Cancel safety
    /// When dropped, the session is ended all the same.
    pub async fn stop(&self, session: SessionId, request: StopRequest) -> Result<StopReport, StopError> {
        self.forward(session, |reply| SessionMessage::Stop { request, reply })
            .await?
    }

    /// Waits until a condition holds, can no longer hold, or the time is up, which is no error.
    ///
    /// # Errors
    /// [`WaitError`] when there is no such session.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait(
        &self,
        session: SessionId,
        until: Condition,
        timeout: Duration,
    ) -> Result<WaitReport, WaitError> {
        self.forward(session, |reply| SessionMessage::Wait {
            until,
            timeout,
            reply,
        })
        .await?
    }

    /// Tells all that is known of a session.
    ///
    /// # Errors
    /// [`InspectError`] when there is no such session.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn inspect(&self, session: SessionId) -> Result<Inspection, InspectError> {
        self.forward(session, |reply| SessionMessage::Inspect { reply })
            .await?
    }

    /// Reads a page of a session's log.
    ///
    /// # Errors
    /// [`ReadLogError`] when there is no such session, or its log cannot be read; an offset beyond the end is none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn read_log(&self, session: SessionId, query: LogQuery) -> Result<LogPage, ReadLogError> {
        let owner = self.owner.clone();
        match self
            .ask(|reply| RegistryMessage::ReadLog {
                owner,
                session,
                query,
                reply,
            })
            .await
        {
            Ok(answer) => answer,
            // The registry passed the question on and lives: it was the log that did not answer.
            Err(CallError::SessionLost) => Err(ReadLogError::Unavailable),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks for a pattern in a session's log, in 16 MiB and for a second at the most; go on at
    /// [`LogMatches::next_offset`].
    ///
    /// # Errors
    /// [`SearchLogError`] when there is no such session, the pattern is none, or the log cannot be read.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn search_log(
        &self,
        session: SessionId,
        search: LogSearch,
    ) -> Result<LogMatches, SearchLogError> {
        let owner = self.owner.clone();
        match self
            .ask(|reply| RegistryMessage::SearchLog {
                owner,
                session,
                search,
                reply,
            })
            .await
        {
            Ok(answer) => answer,
            // As above.
            Err(CallError::SessionLost) => Err(SearchLogError::Unavailable),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the owner's sessions in the order of their starts.
    ///
    /// # Errors
    /// [`CallError::Stopped`] when the system has stopped.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list(&self, filter: ListFilter) -> Result<Vec<SessionSummary>, CallError> {
        let owner = self.owner.clone();
        self.ask(|reply| RegistryMessage::List { owner, filter, reply })
            .await?
    }

    /// Ends all sessions of this owner and nobody else's; answers with their ids as soon as it is under way.
    ///
    /// # Errors
    /// [`OwnerError`] when the system has stopped.
    ///
    /// # Cancel safety
    /// When dropped, the sessions are ended all the same.
    pub async fn end_all(&self, end: OwnerEnd) -> Result<Vec<SessionId>, OwnerError> {
        let owner = self.owner.clone();
        self.ask(|reply| RegistryMessage::EndOwner { owner, end, reply })
            .await?
    }

    async fn forward<T: Send + 'static>(
        &self,
        session: SessionId,
        request: impl FnOnce(RpcReplyPort<T>) -> SessionMessage,
    ) -> Result<T, CallError> {
        let owner = self.owner.clone();
        self.ask(|reply| RegistryMessage::Forward {
            owner,
            session,
            request: request(reply),
        })
        .await
    }

    async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<T>) -> RegistryMessage,
    ) -> Result<T, CallError> {
        ask(&self.registry, message).await
    }
}

/// Asks the registry; a port that was dropped unanswered means that the session died, unless the registry did.
pub(crate) async fn ask<T: Send + 'static>(
    registry: &ActorRef<RegistryMessage>,
    message: impl FnOnce(RpcReplyPort<T>) -> RegistryMessage,
) -> Result<T, CallError> {
    match ractor::call!(registry, message) {
        Ok(answer) => Ok(answer),
        Err(RactorErr::Messaging(MessagingErr::ChannelClosed)) if is_running(registry) => {
            Err(CallError::SessionLost)
        }
        Err(_) => Err(CallError::Stopped),
    }
}

fn is_running(registry: &ActorRef<RegistryMessage>) -> bool {
    matches!(
        registry.get_status(),
        ractor::ActorStatus::Running | ractor::ActorStatus::Upgrading
    )
}

/// Ends all sessions of all owners; see [`crate::System::shutdown`].
pub(crate) async fn shutdown(
    registry: &ActorRef<RegistryMessage>,
    grace: Option<Duration>,
    bound: Duration,
    kept: KeptProcesses,
) -> Result<ShutdownReport, CallError> {
    ask(registry, |reply| RegistryMessage::Shutdown {
        grace,
        bound,
        kept,
        reply,
    })
    .await
}
