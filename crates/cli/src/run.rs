//! `procession run`: one session in this terminal.
//!
//! Both output streams carry the session's bytes and nothing else, but for `--explain` before them, `--report -` behind
//! them, and the one line that says why there is no session.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use procession_actors::{Client, System, error::StartError, report::Started};
use procession_core::{
    Field, Leftovers, Outcome, Owner, SessionId, SessionSpec, Shell, Value,
    environment::Preset,
    spec::{Pace, StdinMode, StreamMode, Terminal, TerminalSize},
    time::whole_millis,
};
use procession_policy::{Decision, HostPolicy, PolicyRequest, decide, explain_decision};
use procession_process::ProcessPort;
use tokio::{runtime, sync::mpsc, task::JoinSet, time::Instant};

use crate::{
    cli::{ReportTarget, RunOptions},
    config::{Configuration, HostEnvironment},
    error::{CommandError, tell, tell_line},
    host::HostSetup,
    port,
};

pub(crate) mod exit_code;
mod report;
pub(crate) mod signals;
mod stdin;
mod stream;

use signals::{Received, Signals};
use stdin::Passing;
use stream::{StreamEnd, WriteFailure};

/// How long a stopped session's output may stand still in our own output before it is given up.
const STUCK_OUTPUT: Duration = Duration::from_secs(2);
/// Memory for each stream's capture where nothing else is said, in bytes.
const CAPTURE_BYTES: u64 = 8 << 20;
/// How long everything may take to be put away at the end, beyond the session's own grace.
const SHUTDOWN_BOUND: Duration = Duration::from_secs(5);

/// Runs one session and says with which code to exit.
///
/// # Errors
/// [`CommandError`] when nothing could be started at all; why a session was not started is told here, and has its code.
pub(crate) fn run(
    options: RunOptions,
    configuration: &Configuration,
    environment: HostEnvironment<'_>,
) -> Result<u8, CommandError> {
    let mut setup = HostSetup::new(configuration, None, Preset::None, environment)?;
    setup.policy = policy_of_a_terminal(&setup.policy)?;
    if let Some(ReportTarget::File(file)) = &options.report {
        report::check(file)?;
    }
    let spec = spec_of(&options, &setup)?;
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| CommandError::Runtime { source })?;
    let code = runtime.block_on(Run { options, setup }.session(spec));
    // A thread of ours may be in the middle of a read or a write that nobody answers.
    runtime.shutdown_background();
    code
}

/// The policy with this command's own defaults, where the configuration has none.
///
/// A terminal has somebody before it who sees how long it takes: a session runs as long as any may. Its output is to come
/// out whole, so the capture has room for what the session may write before a slow reader of ours stops it.
fn policy_of_a_terminal(policy: &HostPolicy) -> Result<HostPolicy, CommandError> {
    let mut settings = policy.settings().clone();
    let ceiling = |field| {
        policy
            .ceiling_of(field)
            .and_then(|value| value.as_number())
            .unwrap_or(u64::MAX)
    };
    settings
        .defaults
        .entry(Field::WallTime)
        .or_insert(Value::Number(ceiling(Field::WallTime)));
    let capture_bytes = CAPTURE_BYTES.min(ceiling(Field::Capture));
    settings
        .defaults
        .entry(Field::Capture)
        .or_insert(Value::Number(capture_bytes));
    Ok(HostPolicy::new(settings)?)
}

/// What is asked for, out of the options.
fn spec_of(options: &RunOptions, setup: &HostSetup) -> Result<SessionSpec, CommandError> {
    let mut spec = match &options.command {
        Some(command) => SessionSpec::shell(options.shell.map(Shell::from).unwrap_or_default(), command),
        None => SessionSpec::argv(&options.program),
    };
    spec.pace = Pace::Reader;
    // Where there is a root, that would be where a session starts that names no folder.
    let here = setup.root.as_ref().map(|_| Path::new("."));
    spec.cwd = options.cwd.as_deref().or(here).map(absolute).transpose()?;
    spec.env = options
        .env
        .iter()
        .map(|variable| (variable.name.clone(), variable.value.clone()))
        .collect();
    spec.env_keys.clone_from(&options.env_key);
    spec.label.clone_from(&options.label);
    if options.merge_stderr {
        spec.streams = StreamMode::Merged;
    }
    if options.keep {
        spec.leftovers = Some(Leftovers::Keep);
    }
    if options.tty {
        let size = stream::terminal_size().map(|(rows, cols)| TerminalSize { rows, cols });
        spec.terminal = Some(Terminal { size, term: None });
    }
    let host_allows = setup.policy.ceiling_of(Field::Stdin) != Some(Value::from("null"));
    if options.stdin || (host_allows && stdin::is_given()) {
        spec.stdin = StdinMode::Piped;
    }
    let sandbox: Result<Vec<String>, CommandError> = options
        .sandbox
        .iter()
        .map(|path| Ok(absolute(Path::new(path))?.to_string_lossy().into_owned()))
        .collect();
    let sandbox = Some(sandbox?).filter(|roots| !roots.is_empty()).map(Value::List);
    let time = |duration: Option<Duration>| duration.map(|duration| Value::Number(whole_millis(duration)));
    let asked = [
        (Field::WallTime, time(options.timeout)),
        (Field::IdleTime, time(options.idle_timeout)),
        (Field::Grace, time(options.grace)),
        (Field::LogBytes, options.log_bytes.map(Value::Number)),
        (Field::TreeMemory, options.memory.map(Value::Number)),
        (Field::CpuTime, time(options.cpu)),
        (Field::OpenFiles, options.open_files.map(Value::Number)),
        (Field::Processes, options.processes.map(Value::Number)),
        (Field::WritableRoots, sandbox),
        (Field::Network, options.no_network.then_some(Value::Flag(false))),
    ];
    spec.limits.extend(
        asked
            .into_iter()
            .filter_map(|(field, value)| Some((field, value?))),
    );
    Ok(spec)
}

fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(|source| CommandError::Path {
        path: path.to_path_buf(),
        purpose: "a folder",
        source,
    })
}

/// One session on its way through the program.
struct Run {
    options: RunOptions,
    setup: HostSetup,
}

impl Run {
    async fn session(self, spec: SessionSpec) -> Result<u8, CommandError> {
        let mut signals = Signals::listen().map_err(|source| CommandError::Runtime { source })?;
        let port = port::start(self.setup.containment)?;
        let owner = HostSetup::owner("run")?;
        let mut decision = None;
        if self.options.explain || self.options.report.is_some() {
            let foreseen = self.foresee(&spec, &owner, port.as_ref());
            if self.options.explain {
                tell_line(explain_decision(&foreseen).trim_end());
            }
            decision = Some(foreseen);
        }
        let system = self.setup.builder(port).start().await?;
        let client = system.client(owner);
        let has_stdin = spec.stdin == StdinMode::Piped;
        let started = tokio::select! {
            started = client.start(spec) => started,
            received = signals.next() => {
                self.put_away(system).await;
                self.setup.retire();
                return Ok(exit_code::of_signal(received.number));
            }
        };
        let code = match started {
            Ok(started) => {
                let end = self.started(&client, &started, has_stdin, &mut signals).await;
                end.map(|end| end.code)
            }
            Err(error) => {
                let code = self.not_started(&error, decision.as_ref());
                self.put_away(system).await;
                self.setup.discard();
                return code;
            }
        };
        self.put_away(system).await;
        self.setup.retire();
        code
    }

    /// The decision that the policy will come to: a function of the same values, without a session yet.
    fn foresee(&self, spec: &SessionSpec, owner: &Owner, port: &dyn ProcessPort) -> Decision {
        let session = SessionId::from_random([0; procession_core::id::SESSION_ID_BYTES]);
        let request = PolicyRequest::new(session, owner.clone(), spec.requested(), port.containment());
        decide(&request, &self.setup.policy, &port.capabilities())
    }

    fn not_started(&self, error: &StartError, decision: Option<&Decision>) -> Result<u8, CommandError> {
        tell(error);
        if let Some(target) = &self.options.report {
            report::write(target, &report::of_start_error(error, decision))?;
        }
        Ok(exit_code::of_start_error(error))
    }

    async fn started(
        &self,
        client: &Client,
        started: &Started,
        has_stdin: bool,
        signals: &mut Signals,
    ) -> Result<SessionEnd, CommandError> {
        let session = started.session;
        self.setup.sweep_in_background();
        if has_stdin {
            let most_bytes = started.decision.effective_limits().write_bytes;
            Passing {
                client: client.clone(),
                session,
                most_bytes,
            }
            .begin()?;
        }
        let end = Streaming {
            client: client.clone(),
            session,
        }
        .finish(signals)
        .await?;
        let inspection = match &self.options.report {
            Some(_) => client.inspect(session).await.ok(),
            None => None,
        };
        if let Some(target) = &self.options.report {
            let outcome = end.outcome.as_ref();
            report::write(target, &report::of_session(started, outcome, inspection.as_ref()))?;
        }
        Ok(end)
    }

    async fn put_away(&self, system: System) {
        let grace = self.setup.shutdown_grace;
        let bound = SHUTDOWN_BOUND.saturating_add(grace.unwrap_or_default());
        if self.options.keep {
            system.shutdown_leaving_kept(grace, bound).await;
        } else {
            system.shutdown(grace, bound).await;
        }
    }
}

/// What came of a session's output and end.
#[derive(Debug)]
struct SessionEnd {
    outcome: Option<Outcome>,
    code: u8,
}

/// A session that runs, whose output goes to ours.
struct Streaming {
    client: Client,
    session: SessionId,
}

impl Streaming {
    /// Waits until all output is out and the record of the end is there; carries out signals meanwhile.
    async fn finish(self, signals: &mut Signals) -> Result<SessionEnd, CommandError> {
        let (broken_sender, mut broken) = mpsc::channel(1);
        let mut stream = stream::begin(self.client.clone(), self.session, broken_sender)?;
        let mut stops = JoinSet::new();
        let mut stuck_since: Option<(Instant, u64)> = None;
        let (mut asked, mut last_signal) = (false, None);
        loop {
            let stuck_at = stuck_since.map(|(since, _)| since + STUCK_OUTPUT);
            tokio::select! {
                biased;
                end = &mut stream.end => return Ok(ended(end.unwrap_or_default(), last_signal)),
                received = signals.next() => {
                    last_signal = Some(received);
                    self.stop(&mut stops, asked || received.is_force);
                    asked = true;
                }
                // Sent once, and the sender may go without a word.
                Some(()) = broken.recv() => {
                    self.stop(&mut stops, false);
                    asked = true;
                }
                Some(_) = stops.join_next() => {
                    stuck_since = stuck_since.or_else(|| Some((Instant::now(), stream.written_bytes())));
                }
                () = sleep_until(stuck_at) => {
                    let written_bytes = stream.written_bytes();
                    if stuck_since.is_some_and(|(_, before)| before == written_bytes) {
                        return Ok(self.given_up(last_signal).await);
                    }
                    stuck_since = Some((Instant::now(), written_bytes));
                }
            }
        }
    }

    fn stop(&self, stops: &mut JoinSet<()>, is_force: bool) {
        use procession_actors::report::{Ladder, StopRequest};
        let ladder = if is_force { Ladder::Force } else { Ladder::Ask };
        let (client, session) = (self.client.clone(), self.session);
        stops.spawn(async move {
            // An error means that there is no session to stop any more.
            let _ = client
                .stop(
                    session,
                    StopRequest {
                        ladder,
                        request_id: None,
                    },
                )
                .await;
        });
    }

    /// Our own output takes no more: the session ended, and what it wrote last goes nowhere.
    async fn given_up(&self, last_signal: Option<Received>) -> SessionEnd {
        let outcome = self
            .client
            .inspect(self.session)
            .await
            .ok()
            .and_then(|inspection| inspection.outcome);
        let code = code_of(outcome.as_ref(), last_signal);
        SessionEnd { outcome, code }
    }
}

/// Tells what went wrong with the output, and what code that makes.
fn ended(end: StreamEnd, last_signal: Option<Received>) -> SessionEnd {
    if end.lost_bytes > 0 {
        tell_line(&format!(
            "procession: {} bytes of output were lost",
            end.lost_bytes
        ));
    }
    if let Some(error) = &end.unread {
        tell(error);
    }
    let code = match &end.failure {
        Some(WriteFailure::BrokenPipe) => exit_code::BROKEN_PIPE,
        Some(WriteFailure::Other(error)) => {
            tell(error);
            exit_code::OWN_FAILURE
        }
        None => code_of(end.outcome.as_ref(), last_signal),
    };
    SessionEnd {
        outcome: end.outcome,
        code,
    }
}

/// That of the outcome; without one that of the signal which was to end the session.
fn code_of(outcome: Option<&Outcome>, last_signal: Option<Received>) -> u8 {
    match (outcome, last_signal) {
        (Some(outcome), _) => exit_code::of_outcome(outcome),
        (None, Some(received)) => exit_code::of_signal(received.number),
        (None, None) => exit_code::OWN_FAILURE,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Starts a thread that may wait in the system for as long as it likes.
fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), CommandError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|source| CommandError::Runtime { source })
}
