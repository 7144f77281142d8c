//! What the program's own exit code says about a session.

use std::process::ExitCode;

use procession_actors::error::StartError;
use procession_core::{Outcome, StartFailure, StartFailureKind, Status};

/// The session's time was up.
pub(crate) const TIMED_OUT: u8 = 124;
/// The failure is this program's, not the session's.
pub(crate) const OWN_FAILURE: u8 = 125;
/// The program is there and cannot be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The program is not there.
pub(crate) const NOT_FOUND: u8 = 127;
/// Nobody reads our output any more: what a program that SIGPIPE ended is seen with.
pub(crate) const BROKEN_PIPE: u8 = 128 + 13;

/// The exit code of a session that ended.
///
/// A time-out is 124 whatever the status; else a code is itself and a signal 128 and its number, as shells fold them. A
/// status that is not known is 125, never success.
pub(crate) fn of_outcome(outcome: &Outcome) -> u8 {
    if outcome.cause.is_timeout() {
        return TIMED_OUT;
    }
    match &outcome.status {
        Status::Exited { code } => u8::try_from(*code).unwrap_or(OWN_FAILURE),
        Status::Signaled { signal, .. } => of_signal(signal.number()),
        Status::Unknown { .. } => OWN_FAILURE,
    }
}

/// The exit code of a program that this signal ended.
pub(crate) fn of_signal(number: i32) -> u8 {
    u8::try_from(number)
        .ok()
        .and_then(|number| number.checked_add(128))
        .unwrap_or(OWN_FAILURE)
}

/// The exit code of a session that was not started.
pub(crate) fn of_start_error(error: &StartError) -> u8 {
    match error {
        StartError::Failed(failure) => of_start_failure(failure),
        _ => OWN_FAILURE,
    }
}

/// 126 and 127 are said of the program alone, as shells do: a working directory that is missing is 125.
fn of_start_failure(failure: &StartFailure) -> u8 {
    match failure.kind {
        _ if failure.place != "argv" => OWN_FAILURE,
        StartFailureKind::NotFound => NOT_FOUND,
        StartFailureKind::PermissionDenied | StartFailureKind::NotExecutable => NOT_EXECUTABLE,
        _ => OWN_FAILURE,
    }
}

/// The program's exit code out of a number.
pub(crate) fn exit(code: u8) -> ExitCode {
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use procession_core::{Cause, Moment, Signal, WallTime, outcome::UnknownStatus};

    use super::*;

    fn check(cause: Cause, status: Status, expected: u8) {
        let mut outcome = Outcome::lost(Moment::ZERO, WallTime::default(), None);
        outcome.cause = cause;
        outcome.status = status;
        assert_eq!(of_outcome(&outcome), expected, "{outcome:?}");
    }

    fn signaled(number: i32) -> Status {
        Status::Signaled {
            signal: Signal::from_number(number).expect("a signal"),
            core_dumped: false,
        }
    }

    #[test]
    fn an_outcome_is_folded_as_shells_do() {
        check(Cause::Exit, Status::Exited { code: 0 }, 0);
        check(Cause::Exit, Status::Exited { code: 255 }, 255);
        check(Cause::Exit, Status::Exited { code: 137 }, 137);
        check(Cause::Exit, signaled(9), 137);
        check(Cause::Stop, signaled(15), 143);
        check(Cause::Stop, Status::Exited { code: 3 }, 3);
        check(Cause::Exit, signaled(64), 192);
    }

    #[test]
    fn a_time_out_is_124_whatever_the_status() {
        check(Cause::WallTimeout, signaled(15), 124);
        check(Cause::IdleTimeout, Status::Exited { code: 0 }, 124);
    }

    #[test]
    fn what_is_not_known_is_never_success() {
        check(
            Cause::Lost,
            Status::Unknown {
                reason: UnknownStatus::SupervisorDied,
            },
            125,
        );
        check(
            Cause::Exit,
            Status::Unknown {
                reason: UnknownStatus::TakenElsewhere,
            },
            125,
        );
        check(Cause::Exit, Status::Exited { code: -1 }, 125);
        check(Cause::Exit, Status::Exited { code: 256 }, 125);
    }

    #[test]
    fn a_failed_start_is_126_or_127_for_the_program_alone() {
        for (kind, place, expected) in [
            (StartFailureKind::NotFound, "argv", 127),
            (StartFailureKind::PermissionDenied, "argv", 126),
            (StartFailureKind::NotExecutable, "argv", 126),
            (StartFailureKind::Busy, "argv", 125),
            (StartFailureKind::NotFound, "cwd", 125),
            (StartFailureKind::PermissionDenied, "cwd", 125),
            (StartFailureKind::Exhausted, "host", 125),
        ] {
            let failure = StartFailure {
                kind,
                place: place.into(),
                subject: "x".into(),
                errno: None,
            };
            assert_eq!(
                of_start_error(&StartError::Failed(failure)),
                expected,
                "{kind:?} {place}"
            );
        }
        assert_eq!(of_start_error(&StartError::ShuttingDown), 125);
    }
}
