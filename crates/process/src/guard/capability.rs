//! What can be enforced with a guard, and what a reader has to know about it.

use procession_core::{
    Field, Value,
    containment::{KillPromise, Mechanism},
};
use procession_policy::{Capabilities, Capability, Channel, Level};
use rustix::process::Resource;

use super::{held, wire::Readiness};

/// With this guard: what is inherited stays what it was.
pub(super) fn of_guard(inherited: Capabilities, readiness: &Readiness, mechanism: Mechanism) -> Capabilities {
    let channel = match mechanism {
        Mechanism::Cgroup => Channel::Cgroup,
        Mechanism::PidNamespace => Channel::Namespace,
        Mechanism::PgidLock => Channel::Seccomp,
        _ => Channel::Supervisor,
    };
    let word = mechanism.as_str();
    let is_sure = held::containment(mechanism).kill == KillPromise::Sure;
    let lacking: Vec<String> = readiness
        .rungs
        .iter()
        .filter_map(|found| {
            Some(format!(
                "no `{}`: {}",
                found.mechanism.as_str(),
                found.lacks.as_ref()?
            ))
        })
        .collect();
    let mut note = reach(mechanism).to_owned();
    if !lacking.is_empty() {
        note.push_str("; ");
        note.push_str(&lacking.join("; "));
    }
    let level = if is_sure { Level::Native } else { Level::Advisory };
    let dies = Capability::new(level, channel).with_note(dies_with_host(mechanism));
    per_process(inherited)
        .with(
            Field::Leftovers,
            Capability::new(Level::Native, channel).with_note(format!(
                "{}; what is kept ends with the host, unless that leaves it at its orderly end",
                reach(mechanism)
            )),
        )
        .with(
            Field::Containment,
            Capability::new(Level::Native, channel)
                .supporting(&["auto", word])
                .inheriting(word)
                .with_note(note),
        )
        .with(Field::DiesWithHost, dies.supporting(&["true"]).inheriting(true))
}

/// Up to where a value may be asked for.
#[derive(Debug, Clone, Copy)]
enum Most {
    /// To the hard limit.
    Hard(Option<u64>),
    /// To what is inherited: what a process without privileges can only raise, where less is more.
    Inherited,
    /// To the field's own end.
    Any,
}

/// What is set in each process before its program runs.
fn per_process(inherited: Capabilities) -> Capabilities {
    let limit = |level, note: Option<&str>| {
        let capability = Capability::new(level, Channel::Rlimit);
        match note {
            Some(note) => capability.with_note(note),
            None => capability,
        }
    };
    let enforced = |note| limit(Level::PerProcess, note);
    let advisory = |note| limit(Level::Advisory, Some(note));
    let hard = |resource| rustix::process::getrlimit(resource).maximum;
    let processes = if rustix::process::getuid().is_root() {
        let none = Capability::new(Level::Unsupported, Channel::None);
        (none.with_note("root's are not limited"), Most::Any)
    } else {
        let all = advisory("all processes of the user count, whatever session they are in");
        (all, Most::Hard(hard(Resource::Nproc)))
    };
    let entries = [
        (
            Field::CpuTime,
            enforced(Some(
                "counted in whole seconds; who ignores SIGXCPU is killed a second later",
            )),
            Most::Hard(hard(Resource::Cpu).map(|seconds| seconds.saturating_mul(1000))),
        ),
        (
            Field::AddressSpace,
            advisory("what is reserved counts, used or not"),
            Most::Hard(hard(Resource::As)),
        ),
        (
            Field::OpenFiles,
            enforced(None),
            Most::Hard(hard(Resource::Nofile)),
        ),
        (Field::FileSize, enforced(None), Most::Hard(hard(Resource::Fsize))),
        (Field::Processes, processes.0, processes.1),
        (Field::Core, enforced(None), Most::Hard(hard(Resource::Core))),
        (
            Field::Nice,
            enforced(Some("not below the host's")),
            Most::Inherited,
        ),
        (
            Field::OomScoreAdj,
            enforced(Some(
                "not below the host's, down to which a program may set it back",
            )),
            Most::Inherited,
        ),
        (Field::Umask, advisory("a program may set its own"), Most::Any),
    ];
    entries
        .into_iter()
        .fold(inherited, |all, (field, mut capability, most)| {
            let value = all.get(field).and_then(|found| found.inherited.clone());
            capability.most = match most {
                Most::Hard(hard) => hard.map(Value::Number),
                // Where it cannot be read it cannot be set either.
                Most::Inherited if value.is_none() => return all,
                Most::Inherited => value.clone(),
                Most::Any => None,
            };
            capability.inherited = value;
            all.with(field, capability)
        })
}

/// Without one.
pub(super) fn without_guard(capabilities: Capabilities, reason: &str) -> Capabilities {
    let mut capabilities = capabilities;
    for field in [Field::Containment, Field::DiesWithHost] {
        let Some(mut capability) = capabilities.get(field).cloned() else {
            continue;
        };
        let note = capability
            .note
            .take()
            .map(|note| format!("; {note}"))
            .unwrap_or_default();
        capability.note = Some(format!("no guard: {reason}{note}"));
        capabilities = capabilities.with(field, capability);
    }
    capabilities
}

const fn reach(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Cgroup => "all that the session starts, whatever group and session they are in",
        Mechanism::PidNamespace => {
            "all that the session starts, whatever group and session they are in; it sees no other processes"
        }
        Mechanism::PgidLock => {
            "all that the session starts: none can leave its group; no job control, no gain of privileges"
        }
        Mechanism::Subreaper => "all whom a look at the process table finds below the session",
        _ => "the leader's process group and session; who starts a session of its own is not seen",
    }
}

/// What ends with the host, and what does not where its guard is killed at the same moment.
const fn dies_with_host(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Cgroup => {
            "the whole tree; where host and guard are killed together, the leader, and the rest at the next start of a \
             host"
        }
        Mechanism::PidNamespace => {
            "the whole tree, by the kernel, also where host and guard are killed together"
        }
        Mechanism::PgidLock => {
            "the whole tree; where host and guard are killed together, the leader alone, and the rest lives on"
        }
        Mechanism::Subreaper => {
            "whom the guard finds, or the session's init where the guard is killed too; who forks and ends all the time \
             may escape"
        }
        _ => {
            "whom the guard finds in the leader's group and session; where host and guard are killed together, the \
             leader alone"
        }
    }
}

#[cfg(test)]
mod tests {
    use procession_core::Value;

    use super::{super::wire::RungFound, *};

    #[test]
    fn what_is_not_sure_is_not_called_enforced() {
        let readiness = Readiness {
            rungs: vec![
                RungFound {
                    mechanism: Mechanism::Cgroup,
                    lacks: Some("read-only".to_owned()),
                },
                RungFound {
                    mechanism: Mechanism::Subreaper,
                    lacks: None,
                },
            ],
            cgroup: None,
            has_cgroup_kill: false,
        };
        for (mechanism, level) in [
            (Mechanism::Cgroup, Level::Native),
            (Mechanism::PidNamespace, Level::Native),
            (Mechanism::PgidLock, Level::Native),
            (Mechanism::Subreaper, Level::Advisory),
            (Mechanism::ProcessGroup, Level::Advisory),
        ] {
            let capabilities = of_guard(Capabilities::supervision(), &readiness, mechanism);
            let dies = capabilities.get(Field::DiesWithHost).unwrap();
            assert_eq!(
                (dies.level, dies.inherited.clone()),
                (level, Some(Value::Flag(true)))
            );
            let containment = capabilities.get(Field::Containment).unwrap();
            assert_eq!(containment.inherited, Some(Value::from(mechanism.as_str())));
            assert!(
                containment
                    .note
                    .as_ref()
                    .unwrap()
                    .contains("no `cgroup`: read-only")
            );
        }
    }

    #[test]
    fn why_there_is_no_guard_is_said() {
        let capabilities = Capabilities::supervision().with(
            Field::DiesWithHost,
            Capability::new(Level::Unsupported, Channel::None).with_note("old"),
        );
        let found = without_guard(capabilities, "it is forbidden");
        assert_eq!(
            found.get(Field::DiesWithHost).unwrap().note.as_deref(),
            Some("no guard: it is forbidden; old")
        );
        assert_eq!(found.get(Field::Containment), None);
    }
}
