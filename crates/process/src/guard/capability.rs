//! What can be enforced with a guard, and what a reader has to know about it.

use procession_core::{
    Field,
    containment::{KillPromise, Mechanism},
};
use procession_policy::{Capabilities, Capability, Channel, Level};

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
    let dies = if is_sure {
        Capability::new(Level::Native, channel).with_note("the whole tree")
    } else {
        Capability::new(Level::Advisory, channel)
            .with_note("the guard ends whom it finds; who forks and ends all the time may escape")
    };
    inherited
        .with(
            Field::Leftovers,
            Capability::new(Level::Native, channel).with_note(reach(mechanism)),
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
