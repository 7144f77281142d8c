//! What a session tells the registry of itself.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

use procession_core::{Containment, Moment, Outcome, Phase, SessionId, StartFailure, time::whole_millis};
use ractor::ActorRef;

use crate::registry::RegistryMessage;

/// What a session tells the registry.
#[derive(Debug)]
pub struct SessionNotice {
    pub(crate) session: SessionId,
    pub(crate) news: News,
}

#[derive(Debug)]
pub(crate) enum News {
    Started { pid: u32, containment: Containment },
    StartFailed(StartFailure),
    Ended(Box<Outcome>),
    EndSeen,
    Released,
}

/// A session's way to tell the registry of itself, and of nobody else.
#[derive(Debug, Clone)]
pub struct SessionReporter {
    session: SessionId,
    registry: ActorRef<RegistryMessage>,
    gauge: Arc<Gauge>,
}

impl SessionReporter {
    pub(crate) fn new(session: SessionId, registry: ActorRef<RegistryMessage>) -> Self {
        Self {
            session,
            registry,
            gauge: Arc::default(),
        }
    }

    pub(crate) fn gauge(&self) -> Arc<Gauge> {
        Arc::clone(&self.gauge)
    }

    /// The process runs: the start is answered.
    pub fn started(&self, pid: u32, containment: Containment) {
        self.gauge.set_phase(Phase::Running);
        self.tell(News::Started { pid, containment });
    }

    /// The process could not be started: the start is refused and the session forgotten.
    pub fn start_failed(&self, failure: StartFailure) {
        self.tell(News::StartFailed(failure));
    }

    /// The session has ended: its slot is free.
    pub fn ended(&self, outcome: Outcome) {
        self.gauge.set_phase(Phase::Ended);
        self.tell(News::Ended(Box::new(outcome)));
    }

    /// The owner was told of the end.
    pub fn end_seen(&self) {
        self.tell(News::EndSeen);
    }

    /// Nothing of the session is left, also of what was kept.
    pub fn released(&self) {
        self.tell(News::Released);
    }

    /// What a list shows of the session, kept up to date so that a list waits for nobody.
    pub fn publish(&self, phase: Phase, last_output_at: Moment, unread_bytes: u64) {
        self.gauge.set_phase(phase);
        self.gauge
            .last_output_ms
            .store(whole_millis(last_output_at.since_start()), Ordering::Relaxed);
        self.gauge.unread_bytes.store(unread_bytes, Ordering::Relaxed);
    }

    fn tell(&self, news: News) {
        // Without a registry there is nobody left to tell.
        let _ = self.registry.cast(RegistryMessage::Notice(SessionNotice {
            session: self.session,
            news,
        }));
    }
}

/// What a session publishes of itself: written by the session alone, read by the registry.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    phase: AtomicU8,
    last_output_ms: AtomicU64,
    unread_bytes: AtomicU64,
}

impl Gauge {
    fn set_phase(&self, phase: Phase) {
        let code = match phase {
            Phase::Starting => 0,
            Phase::Running => 1,
            Phase::Terminating => 2,
            Phase::Ended => 3,
        };
        self.phase.store(code, Ordering::Relaxed);
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Running,
            2 => Phase::Terminating,
            _ => Phase::Ended,
        }
    }

    pub(crate) fn last_output_at(&self) -> Moment {
        Moment::from_millis(self.last_output_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn unread_bytes(&self) -> u64 {
        self.unread_bytes.load(Ordering::Relaxed)
    }
}
