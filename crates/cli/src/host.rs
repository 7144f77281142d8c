//! What `run` and `mcp` have in common: a session system out of a configuration, and its place in the state directory.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use procession_actors::{System, SystemBuilder};
use procession_core::{
    EnvironmentRules, Field, Owner, Value, admission::HostBudgets, environment::Preset, redact::Secret,
};
use procession_policy::{HostPolicy, HostPolicySettings};
use procession_process::ProcessPort;

use crate::{
    config::{Configuration, ContainmentChoice, HostEnvironment},
    error::CommandError,
    state::{self, Instance},
};

/// All that a session system is built from.
#[derive(Debug)]
pub(crate) struct HostSetup {
    /// Defaults, ceilings and what an excess does.
    pub(crate) policy: HostPolicy,
    /// The grace of the ladders at a shutdown; each session's own when there is none.
    pub(crate) shutdown_grace: Option<Duration>,
    /// The folder that working directories have to lie in; anywhere when there is none.
    pub(crate) root: Option<PathBuf>,
    /// By what means sessions are to be held.
    pub(crate) containment: ContainmentChoice,
    budgets: HostBudgets,
    environment: EnvironmentRules,
    secrets: Vec<Secret>,
    min_free_disk_bytes: Option<u64>,
    state: Option<PathBuf>,
    retention: Duration,
    instance: Mutex<Option<Instance>>,
}

impl HostSetup {
    /// Takes what the configuration says, `root` being the command line's word on working directories.
    ///
    /// # Errors
    /// When the configuration asks for what this version cannot honour, or contradicts the command line.
    pub(crate) fn new(
        configuration: &Configuration,
        root: Option<&Path>,
        preset: Preset,
        environment: HostEnvironment<'_>,
    ) -> Result<Self, CommandError> {
        configuration.check_honoured()?;
        let mut settings = configuration.policy.clone();
        let root = settle_root(&mut settings, root)?;
        let policy = HostPolicy::new(settings)?;
        let retention = policy
            .default_of(Field::Retention)
            .and_then(|value| value.as_number());
        Ok(Self {
            policy,
            shutdown_grace: configuration.shutdown_grace_ms.map(Duration::from_millis),
            root,
            containment: configuration.containment,
            budgets: configuration.budgets,
            environment: configuration.environment_rules(preset, environment)?,
            secrets: configuration.secrets(environment)?,
            min_free_disk_bytes: configuration.min_free_disk_bytes,
            state: state::locate(configuration, environment),
            retention: Duration::from_millis(retention.unwrap_or_default()),
            instance: Mutex::new(None),
        })
    }

    /// A system of sessions on this port, with its logs in the state directory.
    ///
    /// Where that cannot be made, sessions run all the same, and each record says why it has no log.
    pub(crate) fn builder(&self, port: Arc<dyn ProcessPort>) -> SystemBuilder {
        let created = self.state.as_deref().map(Instance::create);
        let logs = match created {
            Some(Ok(instance)) => {
                let logs = instance.logs();
                *self.instance.lock().unwrap_or_else(PoisonError::into_inner) = Some(instance);
                logs
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "the state directory cannot be used: sessions have no logs");
                state::unavailable_logs(self.state.as_deref())
            }
            None => state::unavailable_logs(None),
        };
        let mut builder = System::builder(port)
            .budgets(self.budgets)
            .policy(self.policy.clone())
            .environment(self.environment.clone())
            .secrets(self.secrets.clone())
            .log_dir(logs)
            .log_bounds(self.budgets.max_log_bytes_total, self.min_free_disk_bytes);
        if let Some(root) = &self.root {
            builder = builder.root(root);
        }
        builder
    }

    /// An owner that nobody else can be.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub(crate) fn owner(agent: &str) -> Result<Owner, CommandError> {
        let scope = procession_actors::new_scope().map_err(|_| CommandError::NoRandomBytes)?;
        Ok(Owner::new("local", agent, scope))
    }

    /// Begins to remove what dead hosts left in the state directory; nobody waits for it.
    pub(crate) fn sweep_in_background(&self) {
        let Some(state) = self.state.clone() else { return };
        let retention = self.retention;
        // Without a thread for it, it is left to the next program.
        let _ = thread::Builder::new()
            .name("sweep".to_owned())
            .spawn(move || state::sweep(&state, retention));
    }

    /// Gives up the place in the state directory with all that is in it, where no session was started: its log may still
    /// be on its way out.
    pub(crate) fn discard(&self) {
        if let Some(instance) = self
            .instance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            instance.discard();
        }
    }

    /// Gives up the place in the state directory; logs stay there for their retention.
    pub(crate) fn retire(&self) {
        if let Some(instance) = self
            .instance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            instance.retire();
        }
    }
}

/// Brings all that is said about the root of working directories into one place.
///
/// The command line goes before a default of the configuration; a ceiling of the configuration goes before all.
fn settle_root(
    settings: &mut HostPolicySettings,
    named: Option<&Path>,
) -> Result<Option<PathBuf>, CommandError> {
    let default = settings.defaults.remove(&Field::CwdRoot);
    let ceiling = settings.ceilings.remove(&Field::CwdRoot);
    if ceiling.is_some() && named.is_some() {
        return Err(CommandError::Conflict {
            given: "`--root`",
            reason: "the configuration has a ceiling for `cwd_root`",
        });
    }
    let configured = ceiling.or(default).and_then(|value| match value {
        Value::Text(path) => Some(PathBuf::from(path)),
        _ => None,
    });
    let Some(root) = named.map(Path::to_path_buf).or(configured) else {
        return Ok(None);
    };
    let purpose = "the root of working directories";
    let unusable = |source| CommandError::Path {
        path: root.clone(),
        purpose,
        source,
    };
    let real = root.canonicalize().map_err(unusable)?;
    if !real.is_dir() {
        return Err(unusable(std::io::ErrorKind::NotADirectory.into()));
    }
    settings.cwd_root = Some(real.to_string_lossy().into_owned());
    Ok(Some(real))
}
