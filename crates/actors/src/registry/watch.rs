//! Ends: sessions that end or die, retention, actors that are started again.

use std::time::Duration;

use procession_core::{
    Moment, Outcome, SessionId,
    outcome::{Fact, UnknownFact},
};
use procession_policy::{EndRecord, Observation, Receipt, Record, encode_record};
use ractor::{ActorId, DerivedActorRef, SpawnErr};

use super::{
    Child, Event, Internal, RegistryMessage, Turn,
    entry::{ActorPlace, Entry},
    slots,
};
use crate::{
    error::{CallError, StartError},
    log::LogMessage,
    policy::PolicyMessage,
    sync::Watcher,
};

/// How long a child that died just after it was started again stays away.
pub const RESTART_PAUSE: Duration = Duration::from_secs(1);

impl Turn<'_> {
    pub(super) fn session_ended(&mut self, session: SessionId, outcome: Outcome, now: Moment) {
        let Some(entry) = self.state.entries.get_mut(&session) else {
            return;
        };
        if entry.outcome.is_some() {
            return; // The first record stands.
        }
        let receipt = Receipt::new(&entry.decision, &outcome, &Observation::default());
        entry.holds_processes = outcome.quiescent == Fact::Unknown(UnknownFact::Kept);
        entry.outcome = Some(outcome);
        let retention = entry.decision.effective_limits().retention;
        self.state.admission.ended(now, session, retention);
        if let Some(policy) = &self.state.policy {
            // A policy that is being started again has no record of the session either.
            let _ = policy.cast(PolicyMessage::Observe {
                session,
                receipt: Box::new(receipt),
            });
        }
        self.arm_prune_timer();
        if self.state.closing.is_some() {
            self.end_for_shutdown(session); // What it kept, if it kept something.
        }
        self.shutdown_goes_on();
    }

    /// A child of the registry's has ended, by whatever way.
    pub(super) fn actor_ended(&mut self, actor: ActorId, reason: &str) {
        if self
            .state
            .policy
            .as_ref()
            .is_some_and(|policy| policy.get_id() == actor)
        {
            tracing::error!(reason, "the policy actor died and is started again");
            self.state.policy = None;
            self.refill_policy();
        } else if self.state.log.as_ref().is_some_and(|log| log.get_id() == actor) {
            tracing::error!(reason, "the log actor died and is started again");
            self.state.log = None;
            self.refill_log();
        } else if let Some(session) = self.state.by_actor.remove(&actor.pid()) {
            self.session_died(session, reason);
        } else if self
            .state
            .entries
            .values()
            .any(|entry| matches!(entry.actor, ActorPlace::Coming(_)))
        {
            self.state.early_deaths.push(actor);
        }
    }

    /// A session's actor is gone: its processes were killed by its guard, and the registry speaks for it.
    pub(super) fn session_died(&mut self, session: SessionId, reason: &str) {
        let now = self.state.arguments.clock.now();
        let Some(entry) = self.state.entries.get_mut(&session) else {
            return;
        };
        entry.actor = ActorPlace::Dead;
        entry.holds_processes = false; // Its guard killed them.
        if entry.process.is_none() {
            entry.answer_start(&Err(StartError::Call(CallError::SessionLost)));
            self.state.admission.release(session);
            if let Some(entry) = self.state.entries.remove(&session) {
                self.let_go(session, &entry);
            }
            return;
        }
        if entry.outcome.is_none() {
            tracing::error!(%session, reason, "a session actor died; its processes were killed");
            let spawned_at = entry.process.map(|process| process.spawned_at);
            let outcome = Outcome::lost(now, self.state.arguments.clock.wall(now), spawned_at);
            self.close_log_of(session, &outcome);
            self.session_ended(session, outcome, now);
        }
    }

    /// Closes the log of a session that can no longer do it.
    fn close_log_of(&self, session: SessionId, outcome: &Outcome) {
        let (Some(entry), Some(log)) = (self.state.entries.get(&session), &self.state.log) else {
            return;
        };
        let record = EndRecord {
            decision: (*entry.decision).clone(),
            outcome: outcome.clone(),
            receipt: Receipt::new(&entry.decision, outcome, &Observation::default()),
        };
        let end_record = encode_record(&Record::End(Box::new(record))).unwrap_or_default();
        // Nobody waits for it to be closed.
        let (reply, _) = ractor::concurrency::oneshot();
        let _ = log.cast(LogMessage::Close {
            session,
            end_record,
            reply: reply.into(),
        });
    }

    /// Removes what is due.
    pub(super) fn prune(&mut self) {
        let now = self.state.arguments.clock.now();
        for session in self.state.admission.prune(now) {
            self.forget(session);
        }
        self.arm_prune_timer();
    }

    pub(super) fn arm_prune_timer(&mut self) {
        self.state.prune_timer = self.state.admission.next_expiry().map(|due| {
            let (instant, myself) = (self.state.arguments.clock.instant(due), self.myself.clone());
            Watcher::spawn(async move {
                tokio::time::sleep_until(instant).await;
                let _ = myself.cast(RegistryMessage::Internal(Internal(Event::PruneDue)));
            })
        });
    }

    /// A session that admission no longer knows goes, with its log and whatever it kept.
    pub(super) fn forget(&mut self, session: SessionId) {
        if let Some(entry) = self.state.entries.remove(&session) {
            self.let_go(session, &entry);
        }
    }

    pub(super) fn let_go(&mut self, session: SessionId, entry: &Entry) {
        if let ActorPlace::Here(actor) = &entry.actor {
            self.state.by_actor.remove(&actor.get_id().pid());
            // Stopping drops the actor's guard, which kills what it kept.
            actor.stop(None);
        }
        if let Some(log) = &self.state.log {
            let _ = log.cast(LogMessage::Remove { session });
        }
    }

    /// When a child may be started again: at once, unless it was just now.
    fn restart_delay(&mut self, child: Child) -> Duration {
        let now = self.state.arguments.clock.now();
        let delay = match self.state.restarts.insert(child, now) {
            Some(last) if now.saturating_since(last) < RESTART_PAUSE => RESTART_PAUSE,
            _ => return Duration::ZERO,
        };
        self.state.restarts.insert(child, now.saturating_add(delay));
        delay
    }

    fn refill_policy(&mut self) {
        let delay = self.restart_delay(Child::Policy);
        let arguments = slots::policy_arguments(&self.state.arguments, &self.state.capabilities);
        let filled = slots::fill(&self.state.arguments.policy_slot, arguments, self.myself);
        let myself = self.myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let result = filled.await;
            let _ = myself.cast(RegistryMessage::Internal(Internal(Event::PolicySpawned(result))));
        });
    }

    pub(super) fn policy_spawned(&mut self, result: Result<DerivedActorRef<PolicyMessage>, SpawnErr>) {
        match result {
            Ok(policy) => self.state.policy = Some(policy),
            Err(error) => {
                tracing::error!(%error, "the policy actor did not come up: starts are refused until it does");
                self.refill_policy();
            }
        }
    }

    fn refill_log(&mut self) {
        let delay = self.restart_delay(Child::Log);
        let arguments = self.state.arguments.log.clone();
        let filled = slots::fill(&self.state.arguments.log_slot, arguments, self.myself);
        let myself = self.myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let result = filled.await;
            let _ = myself.cast(RegistryMessage::Internal(Internal(Event::LogSpawned(result))));
        });
    }

    pub(super) fn log_spawned(&mut self, result: Result<DerivedActorRef<LogMessage>, SpawnErr>) {
        match result {
            Ok(log) => self.state.log = Some(log),
            Err(error) => {
                tracing::error!(%error, "the log actor did not come up: sessions go on without logs until it does");
                self.refill_log();
            }
        }
    }
}
