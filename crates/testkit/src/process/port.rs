//! A port whose processes are played.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use procession_core::{
    Containment, Field, StartFailure, StreamId,
    containment::{CrashPromise, EmptyPromise, KillPromise, Mechanism},
    spec::{ExecLimits, StdinMode, StreamMode},
    terminal::{LineRules, TerminalMode},
};
use procession_policy::{Capabilities, Capability, Channel, Level};
use procession_process::{
    BoxFuture, InputSink, KillGuard, Leader, OutputSource, ProcessPort, SpawnRequest, Spawned, Tree,
};
use tokio::sync::Notify;

use super::{
    Script, ScriptedProcess,
    parts::{PlayedInput, PlayedLeader, PlayedOutput, PlayedTree, Shared},
    state::State,
};
use crate::patience::expect;

/// The first pid that is given out; played descendants are best numbered elsewhere.
const FIRST_PID: u32 = 1_000;

/// Starts played processes; clones are the same port.
///
/// Starts take the scripts in the order in which they were put in; when there is none left, a process does nothing by
/// itself.
///
/// ```
/// use procession_core::{Outcome, Status};
/// use procession_testkit::{Harness, Script, Steps, fixture};
///
/// # fn main() { tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let harness = Harness::start().await;
/// harness.port().script(Script::new().steps(Steps::new().exit(7)));
/// let session = harness.start_session(fixture::spec()).await;
/// assert_eq!(session.outcome().await.status, Status::Exited { code: 7 });
/// # }) }
/// ```
#[derive(Debug, Clone)]
pub struct ScriptedPort(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    capabilities: Capabilities,
    containment: Containment,
    state: Mutex<PortState>,
    started: Notify,
}

#[derive(Debug)]
struct PortState {
    scripts: VecDeque<Script>,
    next_pid: u32,
    asked: usize,
    unclaimed: VecDeque<ScriptedProcess>,
    all: Vec<ScriptedProcess>,
}

impl Default for ScriptedPort {
    fn default() -> Self {
        Self::new()
    }
}

impl ScriptedPort {
    /// A port that can do everything that is played: supervision, terminals, leftovers.
    #[must_use]
    pub fn new() -> Self {
        let native = || Capability::new(Level::Native, Channel::Supervisor);
        let capabilities = Capabilities::supervision()
            .with(Field::Tty, native())
            .with(Field::TerminalSize, native())
            .with(Field::Leftovers, native());
        Self::with_capabilities(capabilities)
    }

    /// A port that says of itself that it can do this.
    #[must_use]
    pub fn with_capabilities(capabilities: Capabilities) -> Self {
        let containment = Containment {
            mechanism: Mechanism::Scripted,
            kill: KillPromise::Sure,
            empty: EmptyPromise::Exact,
            crash: CrashPromise::NextStart,
        };
        let state = PortState {
            scripts: VecDeque::new(),
            next_pid: FIRST_PID,
            asked: 0,
            unclaimed: VecDeque::new(),
            all: Vec::new(),
        };
        Self(Arc::new(Inner {
            capabilities,
            containment,
            state: Mutex::new(state),
            started: Notify::new(),
        }))
    }

    /// Puts in the script of a start to come.
    pub fn script(&self, script: Script) {
        self.0.with(|state| state.scripts.push_back(script));
    }

    /// The next process that was started and not asked for yet.
    ///
    /// # Panics
    /// When none is started within [`crate::PATIENCE`].
    ///
    /// # Cancel safety
    /// Cancel safe: no process is lost.
    pub async fn next_process(&self) -> ScriptedProcess {
        expect("a process", async {
            loop {
                let started = self.0.started.notified();
                if let Some(process) = self.0.with(|state| state.unclaimed.pop_front()) {
                    return process;
                }
                started.await;
            }
        })
        .await
    }

    /// All processes that were ever started, in the order of their starts.
    #[must_use]
    pub fn processes(&self) -> Vec<ScriptedProcess> {
        self.0.with(|state| state.all.clone())
    }

    /// How many starts were asked for, those that failed included.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.0.with(|state| state.asked)
    }

    /// The processes that run.
    #[must_use]
    pub fn running(&self) -> Vec<ScriptedProcess> {
        self.processes()
            .into_iter()
            .filter(ScriptedProcess::is_running)
            .collect()
    }
}

impl Inner {
    fn with<T>(&self, with: impl FnOnce(&mut PortState) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn start(&self, script: Script, request: SpawnRequest) -> Spawned {
        let streams: &[StreamId] = if request.terminal.is_some() || request.streams == StreamMode::Merged {
            &[StreamId::Stdout]
        } else {
            &StreamId::ALL
        };
        let mut state = State::new(streams);
        state.is_unkillable = script.is_unkillable;
        state.input.mode = request
            .terminal
            .map(|_| TerminalMode::Lines(LineRules::default()));
        state.reactions = script.reactions.into_iter().collect();
        for descendant in script.descendants {
            state.fork(descendant);
        }
        let has_input = request.stdin == StdinMode::Piped || request.terminal.is_some();
        let shared = self.with(|port| {
            let pid = port.next_pid;
            port.next_pid = pid.saturating_add(1);
            let shared = Arc::new(Shared::new(pid, request, state));
            port.unclaimed.push_back(ScriptedProcess(Arc::clone(&shared)));
            port.all.push(ScriptedProcess(Arc::clone(&shared)));
            shared
        });
        self.started.notify_waiters();
        Shared::play(&shared, script.steps);
        let output = |stream: &StreamId| {
            let source: Arc<dyn OutputSource> = Arc::new(PlayedOutput {
                shared: Arc::clone(&shared),
                stream: *stream,
            });
            (*stream, source)
        };
        let tree: Arc<dyn Tree> = Arc::new(PlayedTree(Arc::clone(&shared)));
        let input = || -> Arc<dyn InputSink> { Arc::new(PlayedInput(Arc::clone(&shared))) };
        let leader: Arc<dyn Leader> = Arc::new(PlayedLeader(Arc::clone(&shared)));
        Spawned {
            pid: shared.pid,
            outputs: streams.iter().map(output).collect(),
            input: has_input.then(input),
            leader,
            guard: KillGuard::new(Arc::clone(&tree)),
            tree,
            containment: self.containment,
        }
    }
}

impl ProcessPort for ScriptedPort {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities.clone()
    }

    fn containment(&self) -> Containment {
        self.0.containment
    }

    fn exec_limits(&self) -> ExecLimits {
        ExecLimits::default()
    }

    fn spawn(&self, request: SpawnRequest) -> BoxFuture<'static, Result<Spawned, StartFailure>> {
        let inner = Arc::clone(&self.0);
        let script = inner.with(|state| {
            state.asked += 1;
            state.scripts.pop_front().unwrap_or_default()
        });
        Box::pin(async move {
            if let Some(gate) = &script.gate {
                gate.pass().await;
            }
            match script.failure.clone() {
                Some(failure) => Err(failure),
                None => Ok(inner.start(script, request)),
            }
        })
    }
}
