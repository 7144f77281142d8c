//! Sessions by the thousand, one after another: what a host and its guard hold before and behind.

use std::{path::Path, sync::Arc, time::Duration};

use procession_actors::{
    Client, System, new_scope,
    report::{Condition, Ladder},
};
use procession_core::{Cause, Field, Owner, SessionSpec, Shell, spec::Terminal};
use procession_process::{GuardOptions, GuardPort};
use tempfile::TempDir;

use crate::{Failure, processes, say};

const HOST_MEMORY: &str = "the host's memory, KiB";

/// How long any of them may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Run before the first look, so that pools and tables have their size.
const WARM_UP: u32 = 300;

/// By how much the memory of a process may have grown; allocators do not give all of it back.
const SLACK_KIB: u64 = 4096;

/// What the host remembers of a session that is gone, in KiB, and of how many: the policy's records, and the ids that
/// are told as gone. Behind these its memory grows no more.
const REMEMBERED_KIB: u64 = 8;
const REMEMBERED: u64 = 4096;

/// Leaves two processes behind that hold no output, so that nothing is waited for before they are swept.
const LEAVES_TWO: &str = "exec >/dev/null 2>&1; sleep 1000 & setsid sleep 1000 & exit 0";

/// Runs sessions of all kinds, and compares.
///
/// # Errors
/// When a session does not end as its kind does.
pub(crate) fn run(count: &str) -> Result<bool, Failure> {
    let count: u32 = count.parse()?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(compare(count))
}

async fn compare(count: u32) -> Result<bool, Failure> {
    let folder = TempDir::new()?;
    let port = GuardPort::start(GuardOptions::default())?;
    let guard = port.guard_pid();
    let system = System::builder(Arc::new(port))
        .log_dir(folder.path())
        .start()
        .await?;
    let client = system.client(Owner::new("reliability", "sessions", new_scope()?));
    for number in 0..WARM_UP {
        one(&client, number).await?;
    }
    let before = Held::look(guard, folder.path()).await;
    for number in 0..count {
        one(&client, number).await?;
    }
    let after = Held::look(guard, folder.path()).await;
    say(&format!("{count} sessions, behind {WARM_UP} to warm up"))?;
    say("| what | before | after |")?;
    say("| --- | --- | --- |")?;
    let rows = before.rows().into_iter().zip(after.rows());
    let mut held = true;
    for ((what, slack, before), (_, _, after)) in rows {
        let slack = if what == HOST_MEMORY {
            slack + REMEMBERED_KIB * u64::from(count).min(REMEMBERED)
        } else {
            slack
        };
        say(&format!("| {what} | {before} | {after} |"))?;
        held &= after <= before.saturating_add(slack);
    }
    system.shutdown(None, PATIENCE).await;
    Ok(held)
}

/// One session: an exit, output, a tree that is swept, a stop, a terminal, a start that fails.
async fn one(client: &Client, number: u32) -> Result<(), Failure> {
    let (command, expected) = match number % 6 {
        0 => ("exit 3", Cause::Exit),
        1 => ("seq 1 1000; echo err >&2", Cause::Exit),
        2 => (LEAVES_TWO, Cause::Exit),
        3 => ("echo up; sleep 1000", Cause::Stop),
        4 => ("tty; stty size", Cause::Exit),
        _ => {
            let missing = SessionSpec::argv(["/no/such/program"]);
            return match client.start(missing).await {
                Ok(_) => Err("a program ran that is not there".into()),
                Err(_) => Ok(()),
            };
        }
    };
    // Gone as soon as its end was told, as for a host that keeps nothing.
    let mut spec = SessionSpec::shell(Shell::Sh, command).limit(Field::Retention, 0_u64);
    if number % 6 == 4 {
        spec.terminal = Some(Terminal::default());
    }
    let session = client.start(spec).await?.session;
    let told = if expected == Cause::Stop {
        client.stop(session, Ladder::Ask.into()).await?.outcome
    } else {
        match client.wait(session, Condition::Ended, PATIENCE).await {
            Ok(report) => report.outcome,
            // Its retention of nothing was over sooner.
            Err(_) => return Ok(()),
        }
    };
    let outcome = told.ok_or("it did not end in time")?;
    if outcome.cause != expected || !outcome.residual_pids.is_empty() {
        return Err(format!("`{command}` ended with {outcome:?}").into());
    }
    Ok(())
}

/// What is held at one moment.
struct Held {
    guard: u32,
    logs: usize,
}

impl Held {
    /// Looks once nothing is being cleared away any more.
    async fn look(guard: u32, logs: &Path) -> Looked {
        let mut last = Self::now(guard, logs);
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let next = Self::now(guard, logs);
            if next.counts() == last.counts() {
                return next;
            }
            last = next;
        }
    }

    fn now(guard: u32, logs: &Path) -> Looked {
        let held = Self {
            guard,
            logs: std::fs::read_dir(logs).map_or(0, Iterator::count),
        };
        let host = std::process::id();
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Looked([
            ("the host's descriptors", 0, count(processes::descriptors(host))),
            ("the host's threads", 2, processes::status(host, "Threads")),
            ("the host's children", 0, count(processes::children(host))),
            ("folders of logs", 1, count(held.logs)),
            (
                "the guard's descriptors",
                0,
                count(processes::descriptors(held.guard)),
            ),
            ("the guard's children", 1, count(processes::children(held.guard))),
            (
                "the guard's memory, KiB",
                SLACK_KIB,
                processes::status(held.guard, "VmRSS"),
            ),
            (HOST_MEMORY, SLACK_KIB, processes::status(host, "VmRSS")),
        ])
    }
}

/// Name, slack and figure of each row.
struct Looked([(&'static str, u64, u64); 8]);

impl Looked {
    fn rows(&self) -> [(&'static str, u64, u64); 8] {
        self.0
    }

    /// All but the memory.
    fn counts(&self) -> Vec<u64> {
        self.0.iter().take(6).map(|(_, _, figure)| *figure).collect()
    }
}
