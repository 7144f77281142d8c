//! A whole system on fakes.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use procession_actors::{
    Client, LogArguments, LogMessage, PolicyArguments, PolicyMessage, SessionArguments, SessionMessage, Slot,
    SpawnActor, System, SystemBuilder, actor,
    report::{Condition, Inspection, Ladder, PollQuery, PollReport, Started, StopReport},
};
use procession_core::{
    EnvironmentRules, Outcome, SessionId, SessionSpec, admission::HostBudgets, redact::Secret,
};
use procession_policy::HostPolicy;
use procession_process::BoxFuture;
use ractor::{ActorCell, DerivedActorRef, Message, SpawnErr};

use crate::{FaultyStorage, PATIENCE, ScriptedPort, ScriptedProcess, fixture};

/// A system with a port whose processes are played, under a paused clock.
///
/// ```
/// use std::time::Duration;
/// use procession_core::Cause;
/// use procession_testkit::{Harness, fixture};
///
/// # fn main() { tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let harness = Harness::start().await;
/// let session = harness.start_session(fixture::spec().wall_time(Duration::from_secs(60))).await;
/// harness.advance(Duration::from_secs(60)).await;
/// assert_eq!(session.outcome().await.cause, Cause::WallTimeout);
/// # }) }
/// ```
#[derive(Debug)]
pub struct Harness {
    system: System,
    port: ScriptedPort,
    actors: Actors,
}

/// The actors that were started, by what they serve.
#[derive(Debug, Clone, Default)]
struct Actors {
    policies: Arc<Mutex<Vec<ActorCell>>>,
    logs: Arc<Mutex<Vec<ActorCell>>>,
    sessions: Arc<Mutex<BTreeMap<SessionId, ActorCell>>>,
}

/// Builds a [`Harness`]; every setting has the system's default.
#[must_use]
pub struct HarnessBuilder {
    system: SystemBuilder,
    port: ScriptedPort,
    policy_slot: Slot<PolicyArguments, PolicyMessage>,
    log_slot: Slot<LogArguments, LogMessage>,
    session_slot: Arc<dyn SpawnActor<SessionArguments, SessionMessage>>,
    actors: Actors,
}

impl fmt::Debug for HarnessBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HarnessBuilder")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// A session that was started in a harness.
#[derive(Debug, Clone)]
pub struct HarnessSession {
    /// Its id.
    pub id: SessionId,
    /// The answer to its start.
    pub started: Started,
    /// The test's hand on its process.
    pub process: ScriptedProcess,
    /// Its owner's client.
    pub client: Client,
}

impl Harness {
    /// A system with everything at its default.
    ///
    /// # Panics
    /// When it does not come up.
    ///
    /// # Cancel safety
    /// When dropped, nothing is left.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// A builder.
    pub fn builder() -> HarnessBuilder {
        let port = ScriptedPort::new();
        HarnessBuilder::on(port)
    }

    /// The system.
    #[must_use]
    pub const fn system(&self) -> &System {
        &self.system
    }

    /// Gives the system away, for example to shut it down.
    #[must_use]
    pub fn into_system(self) -> System {
        self.system
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> &ScriptedPort {
        &self.port
    }

    /// A client of the owner of this name; see [`fixture::owner`].
    #[must_use]
    pub fn client(&self, name: &str) -> Client {
        self.system.client(fixture::owner(name))
    }

    /// Starts a session of the owner `alice`.
    ///
    /// # Panics
    /// When it is refused.
    ///
    /// # Cancel safety
    /// When dropped, the session may run.
    pub async fn start_session(&self, spec: SessionSpec) -> HarnessSession {
        self.start_session_as("alice", spec).await
    }

    /// Starts a session of the owner of this name.
    ///
    /// # Panics
    /// When it is refused.
    ///
    /// # Cancel safety
    /// When dropped, the session may run.
    pub async fn start_session_as(&self, name: &str, spec: SessionSpec) -> HarnessSession {
        let client = self.client(name);
        match client.start(spec).await {
            Ok(started) => self.session(client, started),
            Err(error) => panic!("the session was not started: {error}"),
        }
    }

    /// A session that a client started by itself.
    ///
    /// # Panics
    /// When its process is not one of the port's.
    #[must_use]
    pub fn session(&self, client: Client, started: Started) -> HarnessSession {
        let process = self
            .port
            .processes()
            .into_iter()
            .find(|process| process.pid() == started.pid);
        match process {
            Some(process) => HarnessSession {
                id: started.session,
                process,
                client,
                started,
            },
            None => panic!("no process of this port has the pid {}", started.pid),
        }
    }

    /// Lets this much time pass, timer after timer, and what is due at its end happen.
    ///
    /// # Cancel safety
    /// When dropped, less time has passed.
    pub async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.settle().await;
    }

    /// Lets this much time pass at once, as on a host that slept: all that is due by then becomes due together.
    ///
    /// # Cancel safety
    /// When dropped, the time has passed.
    pub async fn jump(&self, time: Duration) {
        tokio::time::advance(time).await;
        self.settle().await;
    }

    /// Lets everything happen that can without time passing; blocking jobs are not waited for.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn settle(&self) {
        // A message from client to process and back passes about ten tasks.
        for _ in 0..500 {
            tokio::task::yield_now().await;
        }
    }

    /// The registry's actor.
    #[must_use]
    pub fn registry_actor(&self) -> ActorCell {
        self.system.registry().get_cell()
    }

    /// The policy's actor that was started last.
    ///
    /// # Panics
    /// When none was, because its slot is filled from outside.
    #[must_use]
    pub fn policy_actor(&self) -> ActorCell {
        last(&self.actors.policies, "policy")
    }

    /// The log's actor that was started last.
    ///
    /// # Panics
    /// When none was, because its slot is filled from outside.
    #[must_use]
    pub fn log_actor(&self) -> ActorCell {
        last(&self.actors.logs, "log")
    }

    /// A session's actor.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn session_actor(&self, session: SessionId) -> ActorCell {
        let sessions = self
            .actors
            .sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match sessions.get(&session) {
            Some(actor) => actor.clone(),
            None => panic!("no actor was started for {session}"),
        }
    }

    /// All session actors that were ever started, also where the start has not been answered.
    #[must_use]
    pub fn session_actors(&self) -> Vec<(SessionId, ActorCell)> {
        let sessions = self
            .actors
            .sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sessions
            .iter()
            .map(|(session, actor)| (*session, actor.clone()))
            .collect()
    }
}

fn last(actors: &Mutex<Vec<ActorCell>>, what: &str) -> ActorCell {
    match actors.lock().unwrap_or_else(PoisonError::into_inner).last() {
        Some(actor) => actor.clone(),
        None => panic!("no {what} actor was started"),
    }
}

impl HarnessBuilder {
    fn on(port: ScriptedPort) -> Self {
        use procession_actors::{LogActor, PolicyActor, SessionActor};
        Self {
            system: System::builder(Arc::new(port.clone())),
            port,
            policy_slot: Slot::supervised(actor(|arguments| (PolicyActor, arguments))),
            log_slot: Slot::supervised(actor(|arguments| (LogActor, arguments))),
            session_slot: Arc::new(actor(|arguments| (SessionActor::default(), arguments))),
            actors: Actors::default(),
        }
    }

    /// The port, for example with other capabilities; to be called before the settings of the system.
    pub fn port(self, port: ScriptedPort) -> Self {
        Self {
            system: System::builder(Arc::new(port.clone())),
            port,
            ..self
        }
    }

    /// How many sessions there may be, and how much they may take.
    pub fn budgets(mut self, budgets: HostBudgets) -> Self {
        self.system = self.system.budgets(budgets);
        self
    }

    /// The host's rules for limits.
    pub fn policy(mut self, policy: HostPolicy) -> Self {
        self.system = self.system.policy(policy);
        self
    }

    /// The host's rules for environments.
    pub fn environment(mut self, environment: EnvironmentRules) -> Self {
        self.system = self.system.environment(environment);
        self
    }

    /// What is replaced in all output.
    pub fn secrets(mut self, secrets: Vec<Secret>) -> Self {
        self.system = self.system.secrets(secrets);
        self
    }

    /// The disk for logs.
    pub fn storage(mut self, storage: FaultyStorage) -> Self {
        self.system = self.system.log_storage(Arc::new(storage), PathBuf::from("/logs"));
        self
    }

    /// What all logs may take together, and what has to stay free, both in bytes.
    pub fn log_bounds(mut self, max_log_bytes_total: Option<u64>, min_free_disk_bytes: Option<u64>) -> Self {
        self.system = self.system.log_bounds(max_log_bytes_total, min_free_disk_bytes);
        self
    }

    /// What decides.
    pub fn policy_slot(mut self, slot: Slot<PolicyArguments, PolicyMessage>) -> Self {
        self.policy_slot = slot;
        self
    }

    /// What logs.
    pub fn log_slot(mut self, slot: Slot<LogArguments, LogMessage>) -> Self {
        self.log_slot = slot;
        self
    }

    /// What holds sessions.
    pub fn session_slot(mut self, service: impl SpawnActor<SessionArguments, SessionMessage>) -> Self {
        self.session_slot = Arc::new(service);
        self
    }

    /// Starts the system.
    ///
    /// # Panics
    /// When it does not come up.
    ///
    /// # Cancel safety
    /// When dropped, nothing is left.
    pub async fn start(self) -> Harness {
        let Self {
            system,
            port,
            policy_slot,
            log_slot,
            session_slot,
            actors,
        } = self;
        let sessions = Arc::clone(&actors.sessions);
        let session_slot = move |arguments: SessionArguments, supervisor: ActorCell| {
            let (session, sessions) = (arguments.session, Arc::clone(&sessions));
            let spawn = session_slot.spawn(arguments, supervisor);
            async move {
                let actor = spawn.await?;
                sessions
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(session, actor.get_cell());
                Ok(actor)
            }
        };
        let system = system
            .policy_slot(recorded(policy_slot, &actors.policies))
            .log_slot(recorded(log_slot, &actors.logs))
            .session_slot(session_slot)
            .start()
            .await;
        match system {
            Ok(system) => Harness { system, port, actors },
            Err(error) => panic!("the system did not come up: {error:?}"),
        }
    }
}

/// The same slot, with its actors written down.
fn recorded<A: Send + 'static, M: Message>(
    slot: Slot<A, M>,
    actors: &Arc<Mutex<Vec<ActorCell>>>,
) -> Slot<A, M> {
    let Slot::Supervised(service) = slot else {
        return slot;
    };
    let actors = Arc::clone(actors);
    Slot::supervised(move |arguments: A, supervisor: ActorCell| {
        let spawn: BoxFuture<'static, Result<DerivedActorRef<M>, SpawnErr>> =
            service.spawn(arguments, supervisor);
        let actors = Arc::clone(&actors);
        async move {
            let actor = spawn.await?;
            actors
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(actor.get_cell());
            Ok(actor)
        }
    })
}

impl HarnessSession {
    /// Waits for the end and reads what was not read at the session's own cursor.
    ///
    /// # Panics
    /// When it does not come within [`crate::PATIENCE`], or the session is not there.
    ///
    /// # Cancel safety
    /// When dropped, the session's own cursor may have moved.
    pub async fn until_ended(&self) -> PollReport {
        let waited = self.client.wait(self.id, Condition::Ended, PATIENCE).await;
        let is_ended = waited.as_ref().is_ok_and(|report| report.outcome.is_some());
        assert!(is_ended, "the session did not end: {waited:?}");
        self.poll(PollQuery::now()).await
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// As [`HarnessSession::until_ended`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn outcome(&self) -> Outcome {
        let waited = self.client.wait(self.id, Condition::Ended, PATIENCE).await;
        match waited {
            Ok(report) => match report.outcome {
                Some(outcome) => outcome,
                None => panic!("the session did not end in time"),
            },
            Err(error) => panic!("the session's end cannot be waited for: {error}"),
        }
    }

    /// Polls.
    ///
    /// # Panics
    /// When the session is not there.
    ///
    /// # Cancel safety
    /// When dropped, the session's own cursor may have moved.
    pub async fn poll(&self, query: PollQuery) -> PollReport {
        match self.client.poll(self.id, query).await {
            Ok(report) => report,
            Err(error) => panic!("the session cannot be polled: {error}"),
        }
    }

    /// Stops the session.
    ///
    /// # Panics
    /// When the session is not there.
    ///
    /// # Cancel safety
    /// When dropped, the session is ended all the same.
    pub async fn stop(&self, ladder: Ladder) -> StopReport {
        match self.client.stop(self.id, fixture::stop(ladder)).await {
            Ok(report) => report,
            Err(error) => panic!("the session cannot be stopped: {error}"),
        }
    }

    /// Tells all that is known of the session.
    ///
    /// # Panics
    /// When the session is not there.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn inspect(&self) -> Inspection {
        match self.client.inspect(self.id).await {
            Ok(inspection) => inspection,
            Err(error) => panic!("the session cannot be inspected: {error}"),
        }
    }
}
