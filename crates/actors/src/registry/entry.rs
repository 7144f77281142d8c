//! One session, as the registry knows it.

use std::sync::Arc;

use procession_core::{Containment, Moment, Outcome, Phase, SessionId, SessionSpec};
use procession_policy::Decision;
use ractor::{DerivedActorRef, MessagingErr, RpcReplyPort};

use crate::{
    error::StartError,
    report::Started,
    session::{Gauge, MAX_WAITERS, SessionMessage},
};

/// One session.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) spec: Arc<SessionSpec>,
    pub(super) decision: Arc<Decision>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) admitted_at: Moment,
    pub(super) evicted: Vec<SessionId>,
    /// Callers that wait for the start; more than one where the same named start was asked for again.
    pub(super) starting: Vec<RpcReplyPort<Result<Started, StartError>>>,
    pub(super) process: Option<StartedProcess>,
    pub(super) actor: ActorPlace,
    pub(super) outcome: Option<Outcome>,
    /// Whether it has ended and kept processes that live on.
    pub(super) holds_processes: bool,
}

/// The process of a session that was started.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartedProcess {
    pub(super) pid: u32,
    pub(super) containment: Containment,
    pub(super) spawned_at: Moment,
}

/// Where a session's actor is.
#[derive(Debug)]
pub(super) enum ActorPlace {
    /// It is being started; what is asked meanwhile is passed on when it is there. Its process may run already: then
    /// the start is answered before it is known which actor serves it.
    Coming(Vec<SessionMessage>),
    /// It serves.
    Here(DerivedActorRef<SessionMessage>),
    /// It died; the registry answers in its place.
    Dead,
}

impl Entry {
    /// Passes a message on, or keeps it for the actor that is being started; what cannot be passed on comes back.
    pub(super) fn pass_on(&mut self, message: SessionMessage) -> Option<SessionMessage> {
        match &mut self.actor {
            ActorPlace::Here(actor) => match actor.cast(message) {
                Err(MessagingErr::SendErr(message)) => Some(message),
                Ok(()) | Err(_) => None,
            },
            ActorPlace::Coming(waiting) if waiting.len() < MAX_WAITERS => {
                waiting.push(message);
                None
            }
            ActorPlace::Coming(_) | ActorPlace::Dead => Some(message),
        }
    }

    pub(super) fn started(&self, session: SessionId) -> Option<Started> {
        self.process.map(|process| Started {
            session,
            pid: process.pid,
            decision: Arc::clone(&self.decision),
            containment: process.containment,
            evicted: self.evicted.clone(),
        })
    }

    pub(super) fn phase(&self) -> Phase {
        if self.outcome.is_some() {
            Phase::Ended
        } else {
            self.gauge.phase()
        }
    }

    /// Tells all that wait for the start.
    pub(super) fn answer_start(&mut self, answer: &Result<Started, StartError>) {
        for reply in self.starting.drain(..) {
            let _ = reply.send(answer.clone());
        }
    }
}
