//! The orderly end of a system: no new starts, all ladders in parallel, bounded, a report of what was left.

use std::time::Duration;

use procession_core::{Cause, SessionId, session::LadderKind};
use ractor::RpcReplyPort;

use super::{Event, Internal, RegistryMessage, Turn};
use crate::{
    report::{LeftSession, ShutdownReport},
    sync::Watcher,
};

/// A shutdown under way.
#[derive(Debug)]
pub(super) struct Closing {
    ladder: LadderKind,
    replies: Vec<RpcReplyPort<ShutdownReport>>,
    live_at_start: usize,
    /// Answers when the bound is over.
    _timer: Watcher,
}

impl Turn<'_> {
    pub(super) fn shutdown(
        &mut self,
        grace: Option<Duration>,
        bound: Duration,
        reply: RpcReplyPort<ShutdownReport>,
    ) {
        if let Some(closing) = &mut self.state.closing {
            closing.replies.push(reply);
            self.shutdown_goes_on();
            return;
        }
        let sessions: Vec<_> = self.state.entries.keys().copied().collect();
        let myself = self.myself.clone();
        let timer = Watcher::spawn(async move {
            tokio::time::sleep(bound).await;
            let _ = myself.cast(RegistryMessage::Internal(Internal(Event::ShutdownDue)));
        });
        self.state.closing = Some(Closing {
            ladder: LadderKind::Ask { grace },
            replies: vec![reply],
            live_at_start: self.live().len(),
            _timer: timer,
        });
        for session in sessions {
            self.end_for_shutdown(session);
        }
        self.shutdown_goes_on();
    }

    pub(super) fn end_for_shutdown(&self, session: SessionId) {
        if let Some(closing) = &self.state.closing {
            self.end_session(session, Cause::HostShutdown, closing.ladder);
        }
    }

    fn live(&self) -> Vec<SessionId> {
        self.state.admission.live().collect()
    }

    /// Where a shutdown waits and nobody lives any more, it is done.
    pub(super) fn shutdown_goes_on(&mut self) {
        if self.state.closing.is_some() && self.live().is_empty() {
            self.answer_shutdown();
        }
    }

    /// The bound is over.
    pub(super) fn shutdown_due(&mut self) {
        self.answer_shutdown();
    }

    fn answer_shutdown(&mut self) {
        let live = self.live();
        let left: Vec<_> = live
            .iter()
            .map(|session| {
                let entry = self.state.entries.get(session);
                let pid = entry.and_then(|entry| entry.process).map(|process| process.pid);
                LeftSession {
                    session: *session,
                    pid,
                }
            })
            .collect();
        if let Some(closing) = &mut self.state.closing {
            let ended = closing.live_at_start.saturating_sub(left.len());
            for reply in closing.replies.drain(..) {
                let _ = reply.send(ShutdownReport {
                    ended,
                    left: left.clone(),
                });
            }
        }
    }
}
