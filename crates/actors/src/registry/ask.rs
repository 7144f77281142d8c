//! Questions about sessions: the owner is checked, then they are passed on.

use procession_core::{Cause, Moment, Owner, SessionId, admission::Lookup, session::LadderKind};
use ractor::RpcReplyPort;

use super::{Turn, entry::ActorPlace, lost};
use crate::{
    error::{CallError, OwnerError, ReadLogError, SearchLogError},
    log::LogMessage,
    report::{ListFilter, LogMatches, LogPage, LogQuery, LogSearch, OwnerEnd, SessionSummary},
    session::SessionMessage,
};

impl Turn<'_> {
    /// Whether the session is this owner's: unknown and foreign ones are answered alike.
    fn access(&self, owner: &Owner, session: SessionId) -> Result<(), CallError> {
        match self.state.admission.lookup(owner, session) {
            Lookup::Running | Lookup::Ended => Ok(()),
            Lookup::Gone => Err(CallError::Gone),
            // One that is only starting has been told to nobody.
            Lookup::Starting | Lookup::Unknown => Err(CallError::NotFound),
        }
    }

    pub(super) fn forward(&mut self, owner: &Owner, session: SessionId, request: SessionMessage) {
        if let Err(error) = self.access(owner, session) {
            request.refuse(error);
            return;
        }
        if matches!(
            request,
            SessionMessage::End { .. } | SessionMessage::LetGo | SessionMessage::Internal(_)
        ) {
            return; // Not for callers.
        }
        let now = self.state.arguments.clock.now();
        let Some(entry) = self.state.entries.get_mut(&session) else {
            request.refuse(CallError::NotFound);
            return;
        };
        if matches!(entry.actor, ActorPlace::Dead) {
            lost::answer(session, entry, request);
            self.state.admission.seen(now, session);
            self.arm_prune_timer();
        } else if let Some(request) = entry.pass_on(request) {
            request.refuse(CallError::SessionLost);
        }
    }

    pub(super) fn read_log(
        &mut self,
        owner: &Owner,
        session: SessionId,
        query: LogQuery,
        reply: RpcReplyPort<Result<LogPage, ReadLogError>>,
    ) {
        if let Err(error) = self.access(owner, session) {
            let _ = reply.send(Err(error.into()));
            return;
        }
        let Some(log) = &self.state.log else {
            let _ = reply.send(Err(ReadLogError::Unavailable));
            return;
        };
        if let Err(ractor::MessagingErr::SendErr(LogMessage::Read { reply, .. })) =
            log.cast(LogMessage::Read {
                session,
                query,
                reply,
            })
        {
            let _ = reply.send(Err(ReadLogError::Unavailable));
        }
    }

    pub(super) fn search_log(
        &mut self,
        owner: &Owner,
        session: SessionId,
        search: LogSearch,
        reply: RpcReplyPort<Result<LogMatches, SearchLogError>>,
    ) {
        if let Err(error) = self.access(owner, session) {
            let _ = reply.send(Err(error.into()));
            return;
        }
        let Some(log) = &self.state.log else {
            let _ = reply.send(Err(SearchLogError::Unavailable));
            return;
        };
        if let Err(ractor::MessagingErr::SendErr(LogMessage::Search { reply, .. })) =
            log.cast(LogMessage::Search {
                session,
                search,
                reply,
            })
        {
            let _ = reply.send(Err(SearchLogError::Unavailable));
        }
    }

    pub(super) fn list(
        &mut self,
        owner: &Owner,
        filter: ListFilter,
        reply: RpcReplyPort<Result<Vec<SessionSummary>, CallError>>,
    ) {
        let now = self.state.arguments.clock.now();
        let sessions = self.state.admission.list(owner);
        let summaries = sessions.filter_map(|session| self.summary(session, now));
        let listed = match filter {
            ListFilter::All => summaries.collect(),
            ListFilter::Live => summaries.filter(|summary| summary.outcome.is_none()).collect(),
        };
        let _ = reply.send(Ok(listed));
    }

    fn summary(&self, session: SessionId, now: Moment) -> Option<SessionSummary> {
        let entry = self.state.entries.get(&session)?;
        let spawned_at = entry
            .process
            .map_or(entry.admitted_at, |process| process.spawned_at);
        let last_output_at = entry.gauge.last_output_at().max(spawned_at);
        Some(SessionSummary {
            session,
            label: entry.spec.label.clone(),
            phase: entry.phase(),
            outcome: entry.outcome.clone(),
            age: now.saturating_since(entry.admitted_at),
            idle: now.saturating_since(last_output_at),
            unread_bytes: entry.gauge.unread_bytes(),
        })
    }

    pub(super) fn end_owner(
        &mut self,
        owner: &Owner,
        end: OwnerEnd,
        reply: RpcReplyPort<Result<Vec<SessionId>, OwnerError>>,
    ) {
        let sessions: Vec<_> = self.state.admission.owned_by(owner).collect();
        for session in &sessions {
            self.end_session(*session, end.into(), LadderKind::Ask { grace: None });
        }
        let _ = reply.send(Ok(sessions));
    }

    /// Has a session end; one that has ended keeps its record, and what it kept goes.
    pub(super) fn end_session(&mut self, session: SessionId, cause: Cause, ladder: LadderKind) {
        if let Some(entry) = self.state.entries.get_mut(&session) {
            // One that is dead has ended.
            let _ = entry.pass_on(SessionMessage::End { cause, ladder });
        }
    }
}
