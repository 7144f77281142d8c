//! Requests, capabilities and outcomes that several tests use.

use std::time::Duration;

use procession_core::{
    Cause, Containment, Field, Moment, Outcome, Owner, SessionId, Status, Value, WallTime,
    outcome::{Fact, LadderAction, LadderStep, ObservedBy, StepEffect, Usage},
};

use crate::{Capabilities, Capability, Channel, Level, PolicyRequest};

pub(crate) fn owner() -> Owner {
    Owner::new("principal", "agent", "unguessable")
}

pub(crate) fn session(number: u8) -> SessionId {
    SessionId::from_random([number; 10])
}

pub(crate) fn request<const N: usize>(limits: [(Field, Value); N]) -> PolicyRequest {
    PolicyRequest::new(session(1), owner(), limits.into(), Containment::PROCESS_GROUP)
}

/// A machine with a terminal, resource limits and process groups, without control groups and sandbox.
pub(crate) fn capabilities() -> Capabilities {
    let rlimit = || Capability::new(Level::PerProcess, Channel::Rlimit);
    Capabilities::supervision()
        .with(Field::Tty, Capability::new(Level::Native, Channel::Supervisor))
        .with(
            Field::TerminalSize,
            Capability::new(Level::Native, Channel::Supervisor),
        )
        .with(
            Field::Leftovers,
            Capability::new(Level::Native, Channel::Supervisor),
        )
        .with(
            Field::Containment,
            Capability::new(Level::Native, Channel::Supervisor)
                .supporting(&["auto", "process_group"])
                .inheriting("process_group"),
        )
        .with(Field::OpenFiles, rlimit().inheriting(1024_u64).at_most(9999_u64))
        .with(Field::CpuTime, rlimit().with_note("counted in whole seconds"))
        .with(
            Field::Nice,
            Capability::new(Level::PerProcess, Channel::Rlimit).inheriting(0_u64),
        )
        .with(
            Field::AddressSpace,
            Capability::new(Level::Advisory, Channel::Rlimit).with_note("the system may not count all of it"),
        )
}

/// A session that ran for five seconds, was told to terminate for its wall time and did.
pub(crate) fn outcome() -> Outcome {
    let at = Moment::from_millis;
    Outcome {
        cause: Cause::WallTimeout,
        status: Status::Exited { code: 3 },
        observed_by: Some(ObservedBy::Pidfd),
        spawned_at: Some(at(1_000)),
        exited_at: Some(at(6_250)),
        closed_at: Some(at(6_300)),
        quiescent: Fact::At(at(6_310)),
        ended_at: at(6_320),
        ended_wall: WallTime::from_unix_millis(1_700_000_000_000),
        ladder: vec![LadderStep {
            action: LadderAction::Terminate,
            at: at(6_000),
            effect: StepEffect::Delivered,
        }],
        swept_pids: vec![],
        residual_pids: vec![],
        incomplete_output: None,
        output_bytes: 4_096,
        largest_idle_gap: Duration::from_millis(1_500),
        usage: Some(Usage {
            user_time: Duration::from_millis(120),
            system_time: Duration::from_millis(30),
            peak_memory_bytes: Some(2 << 20),
            minor_faults: 10,
            major_faults: 0,
            ..Usage::default()
        }),
    }
}
