//! The registry actor: one per system, owner of the map of sessions, the reservations and the budgets.
//!
//! It admits, evicts and prunes, checks the owner on every question, and supervises the sessions, the policy and the log.
//! It never waits, not for a policy, a spawn or a file: what takes time is done by a task, whose result comes back as a
//! message. Nobody supervises the registry: when it dies, all sessions die with it, processes included.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use procession_core::{
    EnvironmentRules, Moment, Owner, SessionId, SessionSpec,
    admission::{Admission, HostBudgets},
    redact::SecretSet,
};
use procession_policy::{Capabilities, Decision, HostPolicy};
use procession_process::ProcessPort;
use ractor::{
    Actor, ActorId, ActorProcessingErr, ActorRef, DerivedActorRef, RpcReplyPort, SpawnErr, SupervisionEvent,
};

mod ask;
mod entry;
mod lost;
mod message;
mod shutdown;
mod slots;
mod start;
mod watch;

pub use shutdown::LOG_SETTLE_BOUND;
pub use watch::RESTART_PAUSE;

pub use message::RegistryMessage;

use crate::{
    clock::SystemClock,
    error::StartError,
    log::{LogArguments, LogMessage},
    policy::{PolicyArguments, PolicyMessage},
    report::Started,
    session::{SessionArguments, SessionMessage},
    slot::{Slot, SpawnActor},
    sync::Watcher,
};
use entry::Entry;
use shutdown::Closing;

/// How long a policy may take to decide before the start is refused.
pub const POLICY_BOUND: Duration = Duration::from_secs(60);

/// What a registry is made of.
#[derive(Clone)]
pub struct RegistryArguments {
    /// The system's clock.
    pub clock: SystemClock,
    /// What starts processes.
    pub port: Arc<dyn ProcessPort>,
    /// How many sessions there may be, and how much they may take.
    pub budgets: HostBudgets,
    /// The host's rules for limits.
    pub policy: Arc<HostPolicy>,
    /// The host's rules for environments.
    pub environment: Arc<EnvironmentRules>,
    /// What is replaced in all output.
    pub secrets: SecretSet,
    /// The folder that working directories have to lie in.
    pub root: Option<PathBuf>,
    /// Where logs lie.
    pub log: LogArguments,
    /// The policy actor's slot.
    pub policy_slot: Slot<PolicyArguments, PolicyMessage>,
    /// The log actor's slot.
    pub log_slot: Slot<LogArguments, LogMessage>,
    /// What starts session actors.
    pub session_slot: Arc<dyn SpawnActor<SessionArguments, SessionMessage>>,
}

impl std::fmt::Debug for RegistryArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryArguments")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// The registry actor.
#[derive(Debug, Default)]
pub struct RegistryActor;

/// What the registry knows.
#[derive(Debug)]
pub struct RegistryState {
    arguments: RegistryArguments,
    capabilities: Arc<Capabilities>,
    admission: Admission,
    entries: BTreeMap<SessionId, Entry>,
    by_actor: BTreeMap<u64, SessionId>,
    /// Actors that died before it was known which session they serve.
    early_deaths: Vec<ActorId>,
    policy: Option<DerivedActorRef<PolicyMessage>>,
    log: Option<DerivedActorRef<LogMessage>>,
    prune_timer: Option<Watcher>,
    /// When a child was last started again.
    restarts: BTreeMap<Child, Moment>,
    closing: Option<Closing>,
}

/// The registry's own children besides the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Child {
    Policy,
    Log,
}

/// From the registry's own tasks and timers; only this module can make one.
#[derive(Debug)]
pub struct Internal(Event);

#[derive(Debug)]
enum Event {
    Decided {
        start: Box<PendingStart>,
        decision: Result<Arc<Decision>, StartError>,
    },
    SessionSpawned {
        session: SessionId,
        result: Result<DerivedActorRef<SessionMessage>, SpawnErr>,
    },
    PolicySpawned(Result<DerivedActorRef<PolicyMessage>, SpawnErr>),
    LogSpawned(Result<DerivedActorRef<LogMessage>, SpawnErr>),
    PruneDue,
    ShutdownDue,
}

/// A start on its way.
#[derive(Debug)]
struct PendingStart {
    session: SessionId,
    owner: Owner,
    spec: Arc<SessionSpec>,
    reply: RpcReplyPort<Result<Started, StartError>>,
}

/// One message being handled: the way to oneself and the state.
struct Turn<'a> {
    myself: &'a ActorRef<RegistryMessage>,
    state: &'a mut RegistryState,
}

impl Actor for RegistryActor {
    type Msg = RegistryMessage;
    type State = RegistryState;
    type Arguments = RegistryArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<RegistryMessage>,
        arguments: RegistryArguments,
    ) -> Result<RegistryState, ActorProcessingErr> {
        let capabilities = Arc::new(arguments.port.capabilities());
        let admission = Admission::new(arguments.budgets)?;
        let policy = slots::fill(
            &arguments.policy_slot,
            slots::policy_arguments(&arguments, &capabilities),
            &myself,
        );
        let log = slots::fill(&arguments.log_slot, arguments.log.clone(), &myself);
        let (policy, log) = (policy.await?, log.await?);
        Ok(RegistryState {
            arguments,
            capabilities,
            admission,
            entries: BTreeMap::new(),
            by_actor: BTreeMap::new(),
            early_deaths: Vec::new(),
            policy: Some(policy),
            log: Some(log),
            prune_timer: None,
            restarts: BTreeMap::new(),
            closing: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<RegistryMessage>,
        message: RegistryMessage,
        state: &mut RegistryState,
    ) -> Result<(), ActorProcessingErr> {
        let mut turn = Turn {
            myself: &myself,
            state,
        };
        match message {
            RegistryMessage::Start { owner, spec, reply } => turn.start(owner, *spec, reply),
            RegistryMessage::Forward {
                owner,
                session,
                request,
            } => turn.forward(&owner, session, request),
            RegistryMessage::ReadLog {
                owner,
                session,
                query,
                reply,
            } => turn.read_log(&owner, session, query, reply),
            RegistryMessage::SearchLog {
                owner,
                session,
                search,
                reply,
            } => turn.search_log(&owner, session, search, reply),
            RegistryMessage::List { owner, filter, reply } => turn.list(&owner, filter, reply),
            RegistryMessage::EndOwner { owner, end, reply } => turn.end_owner(&owner, end, reply),
            RegistryMessage::Shutdown {
                grace,
                bound,
                kept,
                reply,
            } => turn.shutdown(grace, bound, kept, reply),
            RegistryMessage::Capabilities { reply } => drop(reply.send(Arc::clone(&turn.state.capabilities))),
            RegistryMessage::Notice(notice) => turn.notice(notice),
            RegistryMessage::Internal(Internal(event)) => match event {
                Event::Decided { start, decision } => turn.decided(*start, decision),
                Event::SessionSpawned { session, result } => turn.session_spawned(session, result),
                Event::PolicySpawned(result) => turn.policy_spawned(result),
                Event::LogSpawned(result) => turn.log_spawned(result),
                Event::PruneDue => turn.prune(),
                Event::ShutdownDue => turn.shutdown_due(),
            },
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<RegistryMessage>,
        event: SupervisionEvent,
        state: &mut RegistryState,
    ) -> Result<(), ActorProcessingErr> {
        let mut turn = Turn {
            myself: &myself,
            state,
        };
        match event {
            SupervisionEvent::ActorTerminated(actor, _, reason) => {
                turn.actor_ended(actor.get_id(), reason.as_deref().unwrap_or("it stopped"));
            }
            SupervisionEvent::ActorFailed(actor, error) => {
                turn.actor_ended(actor.get_id(), &error.to_string());
            }
            // Starts are seen where they are asked for; the engine's features may add events that are not ours.
            _ => {}
        }
        Ok(())
    }
}
