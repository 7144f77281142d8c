//! The orderly end of a system: no new starts, all ladders in parallel, logs on the storage, bounded, a report of what
//! was left.

use std::time::Duration;

use procession_core::{Cause, SessionId, session::LadderKind};
use ractor::RpcReplyPort;

use super::{Event, Internal, RegistryMessage, Turn};
use crate::{
    log::LogMessage,
    report::{KeptProcesses, LeftSession, ShutdownReport},
    session::SessionMessage,
    sync::Watcher,
};

/// How long the logs may take to be on the storage before the report is given without them.
pub const LOG_SETTLE_BOUND: Duration = Duration::from_secs(1);

/// A shutdown under way.
#[derive(Debug)]
pub(super) struct Closing {
    ladder: LadderKind,
    kept: KeptProcesses,
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
        kept: KeptProcesses,
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
            kept,
            replies: vec![reply],
            live_at_start: self.live().len(),
            _timer: timer,
        });
        for session in sessions {
            self.end_for_shutdown(session);
        }
        self.shutdown_goes_on();
    }

    pub(super) fn end_for_shutdown(&mut self, session: SessionId) {
        let (Some(closing), Some(entry)) = (&self.state.closing, self.state.entries.get_mut(&session)) else {
            return;
        };
        if entry.holds_processes && closing.kept == KeptProcesses::Leave {
            // One that is dead holds nothing any more.
            let _ = entry.pass_on(SessionMessage::LetGo);
        } else {
            let ladder = closing.ladder;
            self.end_session(session, Cause::HostShutdown, ladder);
        }
    }

    /// Sessions that live, and those whose kept processes do.
    fn live(&self) -> Vec<SessionId> {
        let kept = self
            .state
            .entries
            .iter()
            .filter(|(_, entry)| entry.holds_processes);
        self.state
            .admission
            .live()
            .chain(kept.map(|(session, _)| *session))
            .collect()
    }

    /// Where a shutdown waits and nobody lives any more, it is done once the logs are.
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
        let left: Vec<_> = self
            .live()
            .into_iter()
            .map(|session| {
                let entry = self.state.entries.get(&session);
                let pid = entry.and_then(|entry| entry.process).map(|process| process.pid);
                LeftSession { session, pid }
            })
            .collect();
        let Some(closing) = &mut self.state.closing else {
            return;
        };
        let ended = closing.live_at_start.saturating_sub(left.len());
        let replies: Vec<_> = closing.replies.drain(..).collect();
        if replies.is_empty() {
            return;
        }
        let (report, log) = (ShutdownReport { ended, left }, self.state.log.clone());
        tokio::spawn(async move {
            if let Some(log) = log {
                // A log actor that is gone, or does not get on, keeps nobody waiting.
                let _ = log
                    .call(|reply| LogMessage::Settle { reply }, Some(LOG_SETTLE_BOUND))
                    .await;
            }
            for reply in replies {
                let _ = reply.send(report.clone());
            }
        });
    }
}
