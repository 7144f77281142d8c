//! How a session comes to life: its log and its process, made side by side by a task.

use std::time::Duration;

use procession_core::{Field, LogMode, StartFailure, Value};
use procession_policy::{Decision, Level, Record, SetBy, Status, encode_record};
use procession_process::{ProcessLimits, SpawnRequest, Spawned};
use ractor::ActorRef;

use super::{Event, Internal, SessionArguments, SessionMessage};
use crate::{
    log::{LogMessage, LogSpec, OpenedLog},
    report::LogIncomplete,
};

/// How long a log may take to be made before the session goes on without one.
pub const LOG_OPEN_BOUND: Duration = Duration::from_secs(1);

/// What came of it.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) spawned: Result<Spawned, StartFailure>,
    pub(crate) log: Result<OpenedLog, Option<LogIncomplete>>,
}

/// Makes log and process, and tells the session.
///
/// When the session dies in between, what was spawned is dropped with the message and dies by its guard.
pub(super) async fn launch(arguments: SessionArguments, myself: ActorRef<SessionMessage>) {
    let spec = &arguments.spec;
    let request = SpawnRequest {
        session: arguments.session,
        argv: spec.program.to_argv(),
        environment: arguments.environment.clone(),
        cwd: spec.cwd.clone(),
        root: arguments.root.clone(),
        stdin: arguments.decision.stdin(),
        streams: spec.streams,
        terminal: arguments.decision.terminal(),
        limits: process_limits(&arguments.decision),
    };
    let (spawned, log) = tokio::join!(arguments.port.spawn(request), open_log(&arguments));
    let launched = Launched { spawned, log };
    // When the session is gone, so is what was made for it.
    let _ = myself.cast(SessionMessage::Internal(Internal(Event::Launched(Box::new(
        launched,
    )))));
}

/// What is set in each process: all that was decided and is not inherited anyway.
fn process_limits(decision: &Decision) -> ProcessLimits {
    let effective = |field: Field| {
        let found = decision.get(field)?;
        let is_inherited = found.status == Status::Defaulted && found.set_by == SetBy::Platform;
        let is_granted = !is_inherited
            && found.level != Level::Unsupported
            && !matches!(found.status, Status::Refused | Status::Unsupported);
        found.effective.as_ref().filter(|_| is_granted)
    };
    let number = |field: Field| effective(field).and_then(Value::as_number);
    let integer = |field: Field| match effective(field)? {
        Value::Integer(value) => i32::try_from(*value).ok(),
        Value::Number(value) => i32::try_from(*value).ok(),
        _ => None,
    };
    ProcessLimits {
        cpu_time: number(Field::CpuTime).map(Duration::from_millis),
        address_space_bytes: number(Field::AddressSpace),
        open_files: number(Field::OpenFiles),
        file_size_bytes: number(Field::FileSize),
        processes: number(Field::Processes),
        core_bytes: number(Field::Core),
        nice: integer(Field::Nice),
        oom_score_adj: integer(Field::OomScoreAdj),
        umask: effective(Field::Umask)
            .and_then(Value::as_text)
            .and_then(|umask| u32::from_str_radix(umask, 8).ok()),
    }
}

async fn open_log(arguments: &SessionArguments) -> Result<OpenedLog, Option<LogIncomplete>> {
    let incomplete = |reason: &str| {
        Some(LogIncomplete {
            from_offset: 0,
            reason: reason.to_owned(),
        })
    };
    let Some(log) = arguments
        .log
        .as_ref()
        .filter(|_| arguments.limits.log_mode != LogMode::Off)
    else {
        return Err(None);
    };
    let header = encode_record(&Record::Decision((*arguments.decision).clone())).unwrap_or_default();
    let spec = Box::new(LogSpec {
        session: arguments.session,
        cap_bytes: arguments.limits.log_bytes,
        mode: arguments.limits.log_mode,
        header,
    });
    let bound = LOG_OPEN_BOUND;
    let asked = log
        .call(|reply| LogMessage::Open { spec, reply }, Some(bound))
        .await;
    match asked {
        Ok(ractor::rpc::CallResult::Success(Ok(opened))) => Ok(opened),
        Ok(ractor::rpc::CallResult::Success(Err(error))) => Err(incomplete(&error.reason)),
        Ok(ractor::rpc::CallResult::Timeout) => Err(incomplete("the log was not made in time")),
        Ok(ractor::rpc::CallResult::SenderError) | Err(_) => Err(incomplete("nobody makes logs")),
    }
}
