//! The same jobs by sessions, and what both sides measure with.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use procession_actors::{
    Client, System, new_scope,
    report::{Condition, Ladder, ListFilter, PollQuery, StopRequest, WaitResult, WriteRequest},
};
use procession_core::{Field, Owner, SessionId, SessionSpec, admission::HostBudgets, spec::StdinMode};
use procession_process::ProcessPort;

const PATIENCE: Duration = Duration::from_secs(120);

/// How long a command took from before its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartTimes {
    /// Until its exit was known.
    pub(crate) exited: Duration,
    /// Until all of its output was read, and what else belongs to the end.
    pub(crate) ended: Duration,
}

/// Whether a session has a log on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// It has none.
    Off,
    /// With this cap in bytes.
    Capped(u64),
}

/// A system and a client of it.
#[derive(Debug)]
pub(crate) struct Sessions {
    client: Client,
    system: System,
}

impl Sessions {
    pub(crate) async fn start(port: Arc<dyn ProcessPort>, log_dir: &Path, max_sessions: u64) -> Self {
        let budgets = HostBudgets {
            max_sessions,
            max_sessions_per_owner: max_sessions,
            ..HostBudgets::default()
        };
        let builder = System::builder(port).budgets(budgets).log_dir(log_dir);
        let system = builder.start().await.expect("a system");
        let scope = new_scope().expect("random bytes");
        Self {
            client: system.client(Owner::new("bench", "sessions", scope)),
            system,
        }
    }

    pub(crate) async fn shutdown(self) {
        self.system.shutdown(Some(Duration::ZERO), PATIENCE).await;
    }

    pub(crate) async fn start_to_end(&self, argv: &[&str], log: Log) -> StartTimes {
        let spec = spec(argv, log);
        let begun = Instant::now();
        let session = self.client.start(spec).await.expect("a session").session;
        self.wait(session, Condition::Exited).await;
        let exited = begun.elapsed();
        self.wait(session, Condition::Ended).await;
        StartTimes {
            exited,
            ended: begun.elapsed(),
        }
    }

    /// Runs a command to its end; answers how much it wrote.
    pub(crate) async fn flood(&self, argv: &[&str], log: Log) -> u64 {
        let session = self.hold(spec(argv, log)).await;
        self.wait(session, Condition::Ended).await
    }

    /// Starts a command that waits for a line.
    pub(crate) async fn start_waiting(&self, argv: &[&str]) -> SessionId {
        let mut spec = spec(argv, Log::Off);
        spec.stdin = StdinMode::Piped;
        self.hold(spec).await
    }

    /// Lets it go, and reads it to its end; answers how much it wrote.
    pub(crate) async fn let_go(&self, session: SessionId) -> u64 {
        self.write(session, "go\n").await;
        self.wait(session, Condition::Ended).await
    }

    /// How long after it was printed each line of a command is polled.
    pub(crate) async fn lateness(&self, argv: &[&str]) -> Vec<Duration> {
        let session = self.hold(spec(argv, Log::Off)).await;
        let mut late = Vec::new();
        loop {
            let query = PollQuery::wait(PATIENCE);
            let report = self.client.poll(session, query).await.expect("output");
            if report.stdout.is_empty() {
                break;
            }
            late.push(since_printed(&report.stdout));
        }
        late
    }

    pub(crate) async fn exchange(&self, session: SessionId, line: &str) -> Duration {
        let begun = Instant::now();
        self.write(session, line).await;
        let mut back_bytes = 0;
        while back_bytes < line.len() {
            let query = PollQuery::wait(PATIENCE);
            let report = self.client.poll(session, query).await.expect("output");
            back_bytes += report.stdout.len();
        }
        begun.elapsed()
    }

    pub(crate) async fn inspect(&self, session: SessionId) -> Duration {
        let begun = Instant::now();
        self.client.inspect(session).await.expect("a session");
        begun.elapsed()
    }

    pub(crate) async fn list(&self) -> Duration {
        let begun = Instant::now();
        self.client.list(ListFilter::All).await.expect("a list");
        begun.elapsed()
    }

    /// From stopping a command that has said that it is up, to the report that its tree is gone.
    pub(crate) async fn stop(&self, argv: &[&str]) -> Duration {
        let session = self.hold(spec(argv, Log::Off)).await;
        let query = PollQuery::wait(PATIENCE);
        let up = self.client.poll(session, query).await.expect("output");
        assert!(!up.stdout.is_empty(), "it did not come up");
        let request = StopRequest {
            ladder: Ladder::Force,
            request_id: None,
        };
        let begun = Instant::now();
        let report = self.client.stop(session, request).await.expect("an end");
        let taken = begun.elapsed();
        assert!(report.outcome.is_some() && report.residual_pids.is_empty());
        taken
    }

    /// Starts a session and leaves it.
    pub(crate) async fn hold(&self, spec: SessionSpec) -> SessionId {
        self.client.start(spec).await.expect("a session").session
    }

    async fn write(&self, session: SessionId, line: &str) {
        let request = WriteRequest {
            input: Bytes::copy_from_slice(line.as_bytes()),
            wait: PATIENCE,
            request_id: None,
        };
        self.client.write(session, request).await.expect("written");
    }

    async fn wait(&self, session: SessionId, until: Condition) -> u64 {
        let waited = self.client.wait(session, until, PATIENCE).await;
        let report = waited.expect("a report");
        assert_eq!(report.result, WaitResult::Fired, "{until:?}");
        report.outcome.map_or(0, |outcome| outcome.output_bytes)
    }
}

/// A session of this command, with the defaults but for the log.
pub(crate) fn spec(argv: &[&str], log: Log) -> SessionSpec {
    let spec = SessionSpec::argv(argv.iter().copied());
    match log {
        Log::Off => spec.limit(Field::LogMode, "off"),
        Log::Capped(cap_bytes) => spec.limit(Field::LogBytes, cap_bytes),
    }
}

/// The time since the last of these lines, each the time of its printing in seconds, was printed.
pub(crate) fn since_printed(lines: &str) -> Duration {
    let seconds = lines.lines().last().and_then(|line| line.parse::<f64>().ok());
    let printed = UNIX_EPOCH + Duration::from_secs_f64(seconds.expect("a time"));
    // The clock that prints rounds to microseconds, so that a line may seem to come from the future.
    SystemTime::now().duration_since(printed).unwrap_or_default()
}

/// CPU time that the threads of this process that live have taken.
pub(crate) fn cpu_time() -> Duration {
    let threads = fs::read_dir("/proc/self/task").expect("threads");
    let nanos = threads.filter_map(|thread| {
        let path = thread.ok()?.path().join("schedstat");
        let text = fs::read_to_string(path).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// A size of this process from the system's own account, in bytes.
pub(crate) fn status_bytes(name: &str) -> u64 {
    kibibytes("/proc/self/status", name) << 10
}

/// What can still be allocated on this machine, in bytes.
pub(crate) fn available_bytes() -> u64 {
    kibibytes("/proc/meminfo", "MemAvailable:") << 10
}

/// Forgets the peak of the resident memory, so that the next is that of what follows; answers what is resident.
pub(crate) fn forget_peak() -> u64 {
    fs::write("/proc/self/clear_refs", "5").expect("forgotten");
    status_bytes("VmRSS:")
}

fn kibibytes(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).expect("an account");
    let line = text.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.expect("a number")
}
