//! What scenarios with a guard need: ports on every rung, and what is asked of trees.

use std::sync::OnceLock;

use procession_core::{StreamId, containment::Mechanism, session::TreeReport};
use procession_process::{GuardError, GuardOptions, GuardPort, GuardProgram, Preference, Spawned};

#[path = "../unix/scenario.rs"]
mod scenario;

pub(crate) use scenario::*;

pub(crate) const RUNGS: [Mechanism; 5] = [
    Mechanism::Cgroup,
    Mechanism::PidNamespace,
    Mechanism::PgidLock,
    Mechanism::Subreaper,
    Mechanism::ProcessGroup,
];

/// The variable by which a process of our own is told what to hold sessions by.
pub(crate) const RUNG: &str = "PROCESSION_TEST_RUNG";

pub(crate) fn options() -> GuardOptions {
    GuardOptions::default().program(GuardProgram::Path(guard_program()))
}

/// A port on the rung that the environment names, else on the strongest.
pub(crate) fn port() -> GuardPort {
    let named = std::env::var(RUNG).ok();
    let rung = RUNGS
        .into_iter()
        .find(|rung| Some(rung.as_str()) == named.as_deref());
    let prefer = rung.map_or(Preference::Auto, Preference::Only);
    GuardPort::start(options().prefer(prefer)).expect("a guard")
}

/// A port on this rung; says so where the machine lacks it.
pub(crate) fn port_on(rung: Mechanism) -> Option<GuardPort> {
    match GuardPort::start(options().prefer(Preference::Only(rung))) {
        Ok(port) => Some(port),
        Err(GuardError::Unavailable { mechanism, reason }) => {
            assert_eq!(mechanism, rung);
            tell(&format!("skipped on `{}`: {reason}", rung.as_str()));
            None
        }
        Err(error) => panic!("{}: {error:?}", rung.as_str()),
    }
}

/// Ports on all rungs that this machine has.
pub(crate) fn ports() -> Vec<(Mechanism, GuardPort)> {
    RUNGS
        .into_iter()
        .filter_map(|rung| Some((rung, port_on(rung)?)))
        .collect()
}

/// Ports on those that promise a sure kill.
pub(crate) fn sure_ports() -> Vec<(Mechanism, GuardPort)> {
    RUNGS
        .into_iter()
        .take(3)
        .filter_map(|rung| Some((rung, port_on(rung)?)))
        .collect()
}

#[expect(clippy::print_stderr, reason = "what a machine cannot show is to be said")]
pub(crate) fn tell(what: &str) {
    eprintln!("{what}");
}

/// Whether a program is there; says so where it is not.
pub(crate) fn has(program: &str) -> bool {
    static SAID: OnceLock<()> = OnceLock::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        SAID.get_or_init(|| tell(&format!("skipped: there is no `{program}`")));
    }
    found
}

/// What is held on behalf of sessions: descriptors of this process, and processes.
pub(crate) fn held(port: &GuardPort) -> (usize, usize) {
    (own_pipes_and_pidfds(), children_of(port.guard_pid()).len())
}

pub(crate) async fn sweep(session: &Spawned) -> TreeReport {
    bounded("a sweep", session.tree.sweep()).await
}

/// Waits until nobody holds the output any more: all that the session ever started are gone.
pub(crate) async fn all_gone(session: &Spawned) {
    for (_, output) in &session.outputs {
        read_to_end(output.as_ref()).await;
    }
}

/// The pids that a session prints in one line.
pub(crate) async fn read_pids(session: &Spawned) -> Vec<u32> {
    let line = read_line(output(session, StreamId::Stdout)).await;
    let pids = line.split_whitespace().map(|pid| pid.parse().expect("a pid"));
    pids.collect()
}

/// How many descriptors a process has open.
pub(crate) fn descriptors_of(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("descriptors")
        .count()
}

pub(crate) fn send(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a pid");
    rustix::process::kill_process(pid, signal).expect("a process that is there");
}

pub(crate) fn sorted(mut pids: Vec<u32>) -> Vec<u32> {
    pids.sort_unstable();
    pids
}

/// Whether a process is `sleep` already, not the shell that becomes it.
pub(crate) fn is_sleeper(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name == "sleep\n")
}
