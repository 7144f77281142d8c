//! A whole system: the registry with its children, built from slots.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use procession_core::{
    EnvironmentRules, Owner,
    admission::HostBudgets,
    redact::{Secret, SecretError, SecretSet},
};
use procession_log_store::Storage;
use procession_policy::{Capabilities, HostPolicy};
use procession_process::ProcessPort;
use ractor::{Actor, ActorRef, SpawnErr};
use tokio::task::JoinHandle;

use crate::{
    client::{self, Client},
    clock::SystemClock,
    error::CallError,
    log::{LogActor, LogArguments, LogMessage, Visibility},
    policy::{PolicyActor, PolicyArguments, PolicyMessage},
    registry::{RegistryActor, RegistryArguments, RegistryMessage},
    report::{KeptProcesses, ShutdownReport},
    session::{SessionActor, SessionArguments, SessionMessage},
    slot::{Slot, SpawnActor, actor},
};

/// How long a registry may take to stop, once its sessions have ended.
const STOP_BOUND: Duration = Duration::from_secs(1);

/// A system of sessions that runs.
///
/// Dropping it ends all sessions at once, by force and without a report; [`System::shutdown`] is the orderly way.
#[derive(Debug)]
pub struct System {
    registry: ActorRef<RegistryMessage>,
    handle: Option<JoinHandle<()>>,
}

/// A system did not come up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// The registry, or one of its children, did not come up.
    #[error("the session system did not come up")]
    Startup(#[from] SpawnErr),
    /// The secrets cannot be replaced, so nothing is started.
    #[error("the secrets cannot be replaced in output")]
    Secrets(#[from] SecretError),
}

impl System {
    /// A builder of a system on this port.
    pub fn builder(port: Arc<dyn ProcessPort>) -> SystemBuilder {
        SystemBuilder::new(port)
    }

    /// A client that acts as this owner.
    #[must_use]
    pub fn client(&self, owner: Owner) -> Client {
        Client::new(self.registry.clone(), owner)
    }

    /// The registry, for callers that are actors.
    #[must_use]
    pub const fn registry(&self) -> &ActorRef<RegistryMessage> {
        &self.registry
    }

    /// What this machine can enforce.
    ///
    /// # Errors
    /// [`CallError::Stopped`] when the system has stopped.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn capabilities(&self) -> Result<Arc<Capabilities>, CallError> {
        client::ask(&self.registry, |reply| RegistryMessage::Capabilities { reply }).await
    }

    /// Ends the system: no new starts, all ladders in parallel with this grace (each session's own when not given), a
    /// report after `bound` at the latest.
    ///
    /// # Cancel safety
    /// When dropped, the system is dropped, which ends all sessions by force.
    pub async fn shutdown(self, grace: Option<Duration>, bound: Duration) -> ShutdownReport {
        self.shut_down(grace, bound, KeptProcesses::End).await
    }

    /// Ends the system as [`System::shutdown`] does, but lets processes that ended sessions kept live on.
    ///
    /// # Cancel safety
    /// When dropped, the system is dropped, which ends all sessions by force, and what they kept.
    pub async fn shutdown_leaving_kept(self, grace: Option<Duration>, bound: Duration) -> ShutdownReport {
        self.shut_down(grace, bound, KeptProcesses::Leave).await
    }

    async fn shut_down(
        mut self,
        grace: Option<Duration>,
        bound: Duration,
        kept: KeptProcesses,
    ) -> ShutdownReport {
        let report = client::shutdown(&self.registry, grace, bound, kept)
            .await
            .unwrap_or_default();
        self.registry.stop(None);
        if let Some(handle) = self.handle.take() {
            // What does not stop by itself is killed with the registry when this is dropped.
            let _ = tokio::time::timeout(STOP_BOUND, handle).await;
        }
        report
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.registry.kill();
    }
}

/// Builds a system; every setting has a default.
#[must_use]
pub struct SystemBuilder {
    port: Arc<dyn ProcessPort>,
    budgets: HostBudgets,
    policy: HostPolicy,
    environment: EnvironmentRules,
    secrets: Vec<Secret>,
    root: Option<PathBuf>,
    log: LogArguments,
    policy_slot: Slot<PolicyArguments, PolicyMessage>,
    log_slot: Slot<LogArguments, LogMessage>,
    session_slot: Arc<dyn SpawnActor<SessionArguments, SessionMessage>>,
}

impl fmt::Debug for SystemBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemBuilder")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl SystemBuilder {
    fn new(port: Arc<dyn ProcessPort>) -> Self {
        Self {
            port,
            budgets: HostBudgets::default(),
            policy: HostPolicy::default(),
            environment: EnvironmentRules::default(),
            secrets: Vec::new(),
            root: None,
            log: LogArguments::in_memory(),
            policy_slot: Slot::supervised(actor(|arguments| (PolicyActor, arguments))),
            log_slot: Slot::supervised(actor(|arguments| (LogActor, arguments))),
            session_slot: Arc::new(actor(|arguments| (SessionActor::default(), arguments))),
        }
    }

    /// How many sessions there may be, and how much they may take.
    pub fn budgets(mut self, budgets: HostBudgets) -> Self {
        self.budgets = budgets;
        self
    }

    /// The host's rules for limits.
    pub fn policy(mut self, policy: HostPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The host's rules for environments.
    pub fn environment(mut self, environment: EnvironmentRules) -> Self {
        self.environment = environment;
        self
    }

    /// Values that no output may show: each is replaced by `***` before anything keeps or shows it, wherever the
    /// output was cut, in each stream of each session. Offsets and sizes are those of what is left.
    ///
    /// Only the very bytes are found, and a secret of several lines with a terminal's line ends: not what a program makes
    /// of them. See [`procession_core::redact::Redactor`] for what is held back, and for how long.
    pub fn secrets(mut self, secrets: Vec<Secret>) -> Self {
        self.secrets = secrets;
        self
    }

    /// The folder that working directories have to lie in, and start in.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// The folder that gets one folder for each session's log; without it, logs are kept in memory.
    pub fn log_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.log = LogArguments {
            dir: dir.into(),
            ..LogArguments::in_folder("")
        };
        self
    }

    /// A storage of one's own for the logs; its paths are shown to nobody.
    pub fn log_storage(mut self, storage: Arc<dyn Storage>, dir: impl Into<PathBuf>) -> Self {
        self.log.storage = storage;
        self.log.dir = dir.into();
        self.log.visibility = Visibility::Hidden;
        self
    }

    /// What all logs may take together, and what has to stay free on their file system, both in bytes.
    pub fn log_bounds(mut self, max_log_bytes_total: Option<u64>, min_free_disk_bytes: Option<u64>) -> Self {
        self.log.max_log_bytes_total = max_log_bytes_total;
        self.log.min_free_disk_bytes = min_free_disk_bytes;
        self
    }

    /// Puts a policy actor of one's own into its slot.
    pub fn policy_slot(mut self, slot: Slot<PolicyArguments, PolicyMessage>) -> Self {
        self.policy_slot = slot;
        self
    }

    /// Puts a log actor of one's own into its slot.
    pub fn log_slot(mut self, slot: Slot<LogArguments, LogMessage>) -> Self {
        self.log_slot = slot;
        self
    }

    /// Puts session actors of one's own into their slot.
    pub fn session_slot(mut self, service: impl SpawnActor<SessionArguments, SessionMessage>) -> Self {
        self.session_slot = Arc::new(service);
        self
    }

    /// Starts the system on the runtime that this is called in.
    ///
    /// # Errors
    /// [`SystemError`] when an actor did not come up, for example for budgets that contradict one another, or when there
    /// are too many secrets.
    ///
    /// # Cancel safety
    /// When dropped, nothing is left.
    pub async fn start(self) -> Result<System, SystemError> {
        let arguments = RegistryArguments {
            clock: SystemClock::start(),
            port: self.port,
            budgets: self.budgets,
            policy: Arc::new(self.policy),
            environment: Arc::new(self.environment),
            secrets: SecretSet::new(&self.secrets)?,
            root: self.root,
            log: self.log,
            policy_slot: self.policy_slot,
            log_slot: self.log_slot,
            session_slot: self.session_slot,
        };
        let (registry, handle) = Actor::spawn(None, RegistryActor, arguments).await?;
        Ok(System {
            registry,
            handle: Some(handle),
        })
    }
}

/// A scope for an [`Owner`]: 128 random bits as text.
///
/// # Errors
/// When the system gives no random bytes.
pub fn new_scope() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
