//! A start on its way: validated, decided, admitted, handed to a session actor, answered.

use std::{sync::Arc, time::Duration};

use procession_core::{
    Moment, Owner, SessionId, SessionSpec,
    admission::{AdmitError, Demand, RequestStart},
    id::SESSION_ID_BYTES,
    limits::LogMode,
};
use procession_policy::{Decision, PolicyRequest};
use ractor::{DerivedActorRef, RpcReplyPort, SpawnErr, rpc::CallResult};

use super::{
    Event, Internal, POLICY_BOUND, PendingStart, RegistryMessage, Turn,
    entry::{ActorPlace, Entry, StartedProcess},
};
use crate::{
    error::{CallError, Refused, StartError},
    policy::PolicyMessage,
    report::Started,
    session::{News, SessionArguments, SessionMessage, SessionNotice, SessionReporter},
};

impl Turn<'_> {
    pub(super) fn start(
        &mut self,
        owner: Owner,
        spec: SessionSpec,
        reply: RpcReplyPort<Result<Started, StartError>>,
    ) {
        if let Some(id) = spec
            .request_id
            .as_ref()
            .and_then(|request| self.state.admission.request(&owner, request))
        {
            self.join_start(id, reply);
            return;
        }
        if let Err(error) = self.check(&spec) {
            let _ = reply.send(Err(error));
            return;
        }
        let Some(session) = random_id() else {
            let _ = reply.send(Err(CallError::Stopped.into()));
            return;
        };
        self.ask_policy(PendingStart {
            session,
            owner,
            spec: Arc::new(spec),
            reply,
        });
    }

    /// The same named start: the same session.
    fn join_start(&mut self, session: SessionId, reply: RpcReplyPort<Result<Started, StartError>>) {
        match self.state.entries.get_mut(&session) {
            None => drop(reply.send(Err(CallError::Gone.into()))),
            Some(entry) => match entry.started(session) {
                Some(started) => drop(reply.send(Ok(started))),
                None => entry.starting.push(reply),
            },
        }
    }

    fn check(&self, spec: &SessionSpec) -> Result<(), StartError> {
        if self.state.closing.is_some() {
            return Err(StartError::ShuttingDown);
        }
        spec.check(self.state.arguments.port.exec_limits())?;
        self.state.arguments.environment.check(spec)?;
        Ok(())
    }

    /// Asks the policy in a task; the decision comes back as a message.
    fn ask_policy(&self, start: PendingStart) {
        let limits = start.spec.requested();
        let containment = self.state.arguments.port.containment();
        let request = Box::new(PolicyRequest::new(
            start.session,
            start.owner.clone(),
            limits,
            containment,
        ));
        let (policy, myself) = (self.state.policy.clone(), self.myself.clone());
        tokio::spawn(async move {
            let decision = match policy {
                Some(policy) => decide(&policy, request).await,
                None => Err(StartError::PolicyUnavailable {
                    waited: Duration::ZERO,
                }),
            };
            let event = Event::Decided {
                start: Box::new(start),
                decision,
            };
            // Without a registry nobody waits for the start.
            let _ = myself.cast(RegistryMessage::Internal(Internal(event)));
        });
    }

    pub(super) fn decided(&mut self, start: PendingStart, decision: Result<Arc<Decision>, StartError>) {
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => {
                let _ = start.reply.send(Err(error));
                return;
            }
        };
        if let Some(refusal) = decision.refusal() {
            let refused = Refused {
                field: refusal.field,
                requested: refusal.requested.clone(),
                reason: refusal.to_string(),
            };
            let _ = start.reply.send(Err(StartError::Refused(refused)));
            return;
        }
        if self.state.closing.is_some() {
            let _ = start.reply.send(Err(StartError::ShuttingDown));
            return;
        }
        if start.reply.is_closed() {
            return; // The caller went away before anything had happened: nothing happens.
        }
        self.admit(start, decision);
    }

    fn admit(&mut self, start: PendingStart, decision: Arc<Decision>) {
        let now = self.state.arguments.clock.now();
        let limits = decision.effective_limits();
        let demand = Demand {
            log_bytes: if limits.log_mode == LogMode::Off {
                0
            } else {
                limits.log_bytes
            },
            capture_bytes: limits.capture_bytes.saturating_mul(2),
        };
        let admitted = match self
            .state
            .admission
            .admit(now, &start.owner, start.session, demand)
        {
            Ok(admitted) => admitted,
            Err(AdmitError::LimitReached(limit)) => {
                let _ = start.reply.send(Err(StartError::LimitReached(limit)));
                return;
            }
            Err(AdmitError::TakenId { .. }) => {
                // One chance in 2⁸⁰: another id is another decision.
                let PendingStart {
                    owner, spec, reply, ..
                } = start;
                self.start(owner, SessionSpec::clone(&spec), reply);
                return;
            }
            Err(_) => {
                let _ = start.reply.send(Err(CallError::Stopped.into()));
                return;
            }
        };
        for warning in &admitted.warnings {
            tracing::warn!(
                limit = warning.limit.as_str(),
                scope = warning.scope.as_str(),
                configured = warning.configured,
                in_use = warning.in_use,
                "a budget is nearly used up"
            );
        }
        let evicted: Vec<_> = admitted.evicted_of(&start.owner).collect();
        let gone: Vec<_> = admitted
            .pruned
            .iter()
            .copied()
            .chain(admitted.evicted.iter().map(|evicted| evicted.id))
            .collect();
        for session in gone {
            self.forget(session);
        }
        if let Some(request) = start.spec.request_id.clone()
            && let RequestStart::Same(session) =
                self.state
                    .admission
                    .start_request(&start.owner, request, start.session)
        {
            self.state.admission.release(start.session);
            self.join_start(session, start.reply);
            return;
        }
        self.spawn_session(start, decision, evicted, now);
    }

    fn spawn_session(
        &mut self,
        start: PendingStart,
        decision: Arc<Decision>,
        evicted: Vec<SessionId>,
        now: Moment,
    ) {
        let PendingStart {
            session,
            owner,
            spec,
            reply,
        } = start;
        let environment = match self.state.arguments.environment.compose(&spec, session) {
            Ok(environment) => environment,
            Err(error) => {
                self.state.admission.release(session);
                let _ = reply.send(Err(error.into()));
                return;
            }
        };
        let reporter = SessionReporter::new(session, self.myself.clone());
        let entry = Entry {
            spec: Arc::clone(&spec),
            decision: Arc::clone(&decision),
            gauge: reporter.gauge(),
            admitted_at: now,
            evicted,
            starting: vec![reply],
            process: None,
            actor: ActorPlace::Coming(Vec::new()),
            outcome: None,
            holds_processes: false,
        };
        self.state.entries.insert(session, entry);
        let arguments = SessionArguments {
            session,
            owner,
            limits: decision.effective_limits(),
            spec,
            decision,
            environment,
            root: self.state.arguments.root.clone(),
            secrets: self.state.arguments.secrets.clone(),
            clock: self.state.arguments.clock,
            port: Arc::clone(&self.state.arguments.port),
            log: self.state.log.clone(),
            reporter,
        };
        let spawn = self
            .state
            .arguments
            .session_slot
            .spawn(arguments, self.myself.get_cell());
        let myself = self.myself.clone();
        tokio::spawn(async move {
            let result = spawn.await;
            let _ = myself.cast(RegistryMessage::Internal(Internal(Event::SessionSpawned {
                session,
                result,
            })));
        });
    }

    pub(super) fn session_spawned(
        &mut self,
        session: SessionId,
        result: Result<DerivedActorRef<SessionMessage>, SpawnErr>,
    ) {
        match result {
            Ok(actor) => {
                let id = actor.get_id();
                let Some(entry) = self.state.entries.get_mut(&session) else {
                    actor.stop(None);
                    return;
                };
                let waiting = std::mem::replace(&mut entry.actor, ActorPlace::Here(actor));
                if let ActorPlace::Coming(messages) = waiting {
                    for message in messages {
                        if let Some(message) = entry.pass_on(message) {
                            message.refuse(CallError::SessionLost);
                        }
                    }
                }
                self.state.by_actor.insert(id.pid(), session);
                if let Some(index) = self.state.early_deaths.iter().position(|dead| *dead == id) {
                    self.state.early_deaths.swap_remove(index);
                    self.session_died(session, "it died as soon as it was started");
                } else if self.state.closing.is_some() {
                    self.end_for_shutdown(session);
                }
            }
            Err(error) => {
                tracing::error!(%session, %error, "a session actor did not come up");
                self.abandon_start(session, &StartError::Call(CallError::SessionLost));
            }
        }
    }

    /// A start failed: nothing of the session is left.
    fn abandon_start(&mut self, session: SessionId, error: &StartError) {
        self.state.admission.release(session);
        if let Some(mut entry) = self.state.entries.remove(&session) {
            entry.answer_start(&Err(error.clone()));
            self.let_go(session, &entry);
        }
    }

    /// A session tells of itself.
    pub(super) fn notice(&mut self, notice: SessionNotice) {
        let SessionNotice { session, news } = notice;
        let now = self.state.arguments.clock.now();
        match news {
            News::Started { pid, containment } => {
                self.state.admission.started(session);
                if let Some(entry) = self.state.entries.get_mut(&session) {
                    entry.process = Some(StartedProcess {
                        pid,
                        containment,
                        spawned_at: now,
                    });
                    if let Some(started) = entry.started(session) {
                        entry.answer_start(&Ok(started));
                    }
                }
            }
            News::StartFailed(failure) => self.abandon_start(session, &StartError::Failed(failure)),
            News::Ended(outcome) => self.session_ended(session, *outcome, now),
            News::EndSeen => {
                self.state.admission.seen(now, session);
                self.arm_prune_timer();
            }
            News::Released => {
                if let Some(entry) = self.state.entries.get_mut(&session) {
                    entry.holds_processes = false;
                }
                self.shutdown_goes_on();
            }
        }
    }
}

async fn decide(
    policy: &DerivedActorRef<PolicyMessage>,
    request: Box<PolicyRequest>,
) -> Result<Arc<Decision>, StartError> {
    let asked = policy
        .call(
            |reply| PolicyMessage::Decide { request, reply },
            Some(POLICY_BOUND),
        )
        .await;
    match asked {
        Ok(CallResult::Success(decision)) => Ok(decision),
        Ok(CallResult::Timeout) => Err(StartError::PolicyUnavailable { waited: POLICY_BOUND }),
        Ok(CallResult::SenderError) | Err(_) => Err(StartError::PolicyUnavailable {
            waited: Duration::ZERO,
        }),
    }
}

fn random_id() -> Option<SessionId> {
    let mut bytes = [0; SESSION_ID_BYTES];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Some(SessionId::from_random(bytes)),
        Err(error) => {
            tracing::error!(%error, "the system gives no random bytes");
            None
        }
    }
}
