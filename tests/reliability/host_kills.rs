//! Hosts killed by SIGKILL at random moments: who of their sessions' trees lives on.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use procession_actors::{System, new_scope};
use procession_core::{Owner, SessionSpec, Shell, containment::Mechanism};
use procession_process::{GuardError, GuardOptions, GuardPort, Preference};

use crate::{Failure, processes, say};

/// The argument that makes this program a host.
pub(crate) const HOST: &str = "--host";

/// The latest moment of a kill behind the host's first start; every other round picks one within the first 3 ms.
const LATEST_KILL: Duration = Duration::from_millis(40);
const EARLY_KILL: Duration = Duration::from_millis(3);

/// How many sessions a host starts, one behind the other, unless it is killed before.
///
/// An owner may have no more by default.
const SESSIONS: usize = 16;

const RUNGS: [Mechanism; 5] = [
    Mechanism::Cgroup,
    Mechanism::PidNamespace,
    Mechanism::PgidLock,
    Mechanism::Subreaper,
    Mechanism::ProcessGroup,
];

/// A tree of which one is in the leader's group, one in a session of its own, and one nobody's child.
fn tree(rung: Mechanism, mark: &str) -> String {
    let plain = format!("sleep 1000.{mark} & (sleep 1000.{mark} &)");
    match rung {
        // It sees the group and the session, and promises no more.
        Mechanism::ProcessGroup => format!("{plain}; wait"),
        _ => format!("{plain}; setsid sleep 1000.{mark} & wait"),
    }
}

/// Kills hosts on each rung that runs here, and counts.
///
/// # Errors
/// When a host does not come up for another reason than that its rung is not to be had.
pub(crate) fn run(rounds: &str, seed: Option<&str>) -> Result<bool, Failure> {
    let rounds: u32 = rounds.parse()?;
    let seed = match seed {
        Some(seed) => seed.parse()?,
        None => u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() & 0xffff_ffff)?,
    };
    say(&format!("seed {seed}"))?;
    say(
        "| rung | hosts killed | killed before their first session ran | processes that lived on | guards that lived on |",
    )?;
    say("| --- | --- | --- | --- | --- |")?;
    let mut moments = Moments(seed);
    let mut held = true;
    for rung in RUNGS {
        let mut count = Count::default();
        for round in 0..rounds {
            // Digits alone: it is the fraction of a second.
            let mark = format!(
                "{:05}{:04}{:06}",
                std::process::id() % 100_000,
                rung as u32,
                round
            );
            match kill_a_host(rung, &mark, moments.next(round % 2 == 0))? {
                Some(end) => count.add(&end),
                None => break,
            }
        }
        if count.hosts == 0 {
            say(&format!("| `{}` | not to be had here | | | |", rung.as_str()))?;
            continue;
        }
        held &= count.survivors == 0 && count.guards == 0;
        say(&format!(
            "| `{}` | {} | {} | {} | {} |",
            rung.as_str(),
            count.hosts,
            count.before_any,
            count.survivors,
            count.guards
        ))?;
    }
    Ok(held)
}

#[derive(Default)]
struct Count {
    hosts: u32,
    before_any: u32,
    survivors: usize,
    guards: u32,
}

impl Count {
    fn add(&mut self, end: &End) {
        self.hosts += 1;
        self.before_any += u32::from(end.was_before_any);
        self.survivors += end.survivors;
        self.guards += u32::from(end.guard_lived_on);
    }
}

struct End {
    was_before_any: bool,
    survivors: usize,
    guard_lived_on: bool,
}

/// None where the rung is not to be had.
fn kill_a_host(rung: Mechanism, mark: &str, after: Duration) -> Result<Option<End>, Failure> {
    let mut host = Command::new(std::env::current_exe()?)
        .args([HOST, rung.as_str(), mark])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    let mut stdout = BufReader::new(host.stdout.take().ok_or("no pipe")?);
    stdout.read_line(&mut said)?;
    let Ok(guard) = said.trim().parse::<u32>() else {
        let status = host.wait()?;
        return match said.trim() {
            "unavailable" => Ok(None),
            said => Err(format!("a host said `{said}` and ended with {status}").into()),
        };
    };
    thread::sleep(after);
    // The host has its own mark among its arguments: it is told apart by its pid.
    let was_before_any = processes::marked(mark).iter().all(|pid| *pid == host.id());
    host.kill()?;
    host.wait()?;
    let left = processes::until_gone(|| processes::marked(mark));
    for pid in &left {
        // Ours by its mark, and told in the table.
        Command::new("kill").args(["-KILL", &pid.to_string()]).status()?;
    }
    let guard_left = processes::until_gone(|| {
        Some(guard)
            .filter(|pid| processes::is_alive(*pid))
            .into_iter()
            .collect()
    });
    Ok(Some(End {
        was_before_any,
        survivors: left.len(),
        guard_lived_on: !guard_left.is_empty(),
    }))
}

/// Starts sessions until it is killed.
///
/// # Errors
/// When the guard does not start.
pub(crate) fn be_host(rung: &str, mark: &str) -> Result<(), Failure> {
    let rung = RUNGS
        .into_iter()
        .find(|known| known.as_str() == rung)
        .ok_or("no such rung")?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(async {
            let options = GuardOptions::default().prefer(Preference::Only(rung));
            let port = match GuardPort::start(options) {
                Ok(port) => port,
                Err(GuardError::Unavailable { .. }) => {
                    say("unavailable")?;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            let guard = port.guard_pid();
            let system = System::builder(Arc::new(port)).start().await?;
            let client = system.client(Owner::new("reliability", "host-kills", new_scope()?));
            say(&guard.to_string())?;
            for _ in 0..SESSIONS {
                client
                    .start(SessionSpec::shell(Shell::Sh, tree(rung, mark)))
                    .await?;
            }
            std::future::pending().await
        })
}

/// Moments of kills, by a seed (`SplitMix64`).
struct Moments(u64);

impl Moments {
    fn next(&mut self, is_early: bool) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let latest = if is_early { EARLY_KILL } else { LATEST_KILL };
        Duration::from_micros(bits % u64::try_from(latest.as_micros()).unwrap_or(u64::MAX))
    }
}
