//! What can be enforced here, and what a session inherits.

use procession_core::{Containment, Field, Value, spec::ExecLimits};
use procession_policy::{Capabilities, Capability, Channel, Level};
use rustix::process::Resource;

use super::{process_table::ProcessTable, signal};
use crate::terminal;

/// The pages that one string of arguments or environment may take.
const STRING_PAGES: u64 = 32;
/// What the system grants to all strings however small the stack, and however large.
const LEAST_STRINGS_BYTES: u64 = 128 << 10;
const MOST_STRINGS_BYTES: u64 = 6 << 20;

/// What the port does, and what the host passes on: read anew each time, since a host may change its own limits.
pub(crate) fn capabilities(table: &ProcessTable) -> Capabilities {
    let mechanism = Containment::PROCESS_GROUP.mechanism.as_str();
    let mut reach = if table.is_readable() {
        "the leader's process group and session; who starts a session of its own is not seen".to_owned()
    } else {
        "the leader's process group alone: /proc is not the one of this process's own pid namespace"
            .to_owned()
    };
    if signal::is_sigchld_ignored() {
        reach.push_str("; SIGCHLD is ignored, so that no exit status can be seen");
    }
    let supervised = || Capability::new(Level::Native, Channel::Supervisor).with_note(reach.clone());
    let fixed = || Capability::new(Level::Unsupported, Channel::None);
    let mut capabilities = Capabilities::supervision()
        .with(Field::Leftovers, supervised())
        .with(
            Field::Containment,
            supervised()
                .supporting(&["auto", mechanism])
                .inheriting(mechanism),
        )
        .with(
            Field::DiesWithHost,
            fixed()
                .inheriting(false)
                .with_note("nothing ends the tree when the host dies"),
        );
    let terminals = if table.is_readable() {
        terminal::capabilities()
    } else {
        terminal::unsupported("a child takes its terminal by way of /proc, which is not this process's own")
    };
    for (field, capability) in terminals {
        capabilities = capabilities.with(field, capability);
    }
    for (field, value) in inherited(table) {
        let capability = fixed().with_note("the host's own");
        capabilities = capabilities.with(
            field,
            match value {
                Some(value) => capability.inheriting(value),
                None => capability,
            },
        );
    }
    capabilities
}

/// What a session inherits; none where there is no limit, or it cannot be read.
fn inherited(table: &ProcessTable) -> Vec<(Field, Option<Value>)> {
    let limit = |resource| rustix::process::getrlimit(resource).current;
    let number = |number: Option<u64>| number.map(Value::Number);
    let nice = rustix::process::getpriority_process(None)
        .ok()
        .map(|nice| Value::Integer(nice.into()));
    let oom = table
        .own_file("oom_score_adj")
        .and_then(|score| score.trim().parse().ok());
    vec![
        (
            Field::CpuTime,
            number(limit(Resource::Cpu).map(|seconds| seconds.saturating_mul(1000))),
        ),
        (Field::AddressSpace, number(limit(Resource::As))),
        (Field::OpenFiles, number(limit(Resource::Nofile))),
        (Field::FileSize, number(limit(Resource::Fsize))),
        (Field::Processes, number(limit(Resource::Nproc))),
        (Field::Core, number(limit(Resource::Core))),
        (Field::Nice, nice),
        (Field::OomScoreAdj, oom.map(Value::Integer)),
        // To ask for the umask is to set it, for all threads; the table shows it without.
        (Field::Umask, table.own_status("Umask").map(Value::Text)),
    ]
}

/// What the system takes as arguments and environment: a quarter of the stack for all strings, within bounds.
pub(crate) fn exec_limits() -> ExecLimits {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let stack = rustix::process::getrlimit(Resource::Stack)
        .current
        .unwrap_or(u64::MAX);
    ExecLimits {
        string_bytes: page.saturating_mul(STRING_PAGES).saturating_sub(1),
        total_bytes: (stack / 4).clamp(LEAST_STRINGS_BYTES, MOST_STRINGS_BYTES),
    }
}
