//! What the system's error numbers mean for a start.

use std::{io, path::Path};

use procession_core::{StartFailure, StartFailureKind};
use rustix::io::Errno;

/// A failure for which the system gave no number.
pub(crate) fn of(kind: StartFailureKind, place: &str, subject: impl Into<String>) -> StartFailure {
    StartFailure {
        kind,
        place: place.to_owned(),
        subject: subject.into(),
        errno: None,
    }
}

/// A program that cannot be executed.
pub(crate) fn of_program(errno: Errno, program: &Path) -> StartFailure {
    let kind = exec_kind(errno);
    let place = if kind == StartFailureKind::Exhausted {
        "host"
    } else {
        "argv"
    };
    StartFailure {
        errno: Some(errno.raw_os_error()),
        ..of(kind, place, program.to_string_lossy())
    }
}

/// A working directory that cannot be entered.
pub(crate) fn of_cwd(error: &io::Error, cwd: &Path) -> StartFailure {
    let kind = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NAMETOOLONG) => StartFailureKind::NotFound,
        Some(Errno::NOTDIR) => StartFailureKind::NotADirectory,
        Some(Errno::ACCESS | Errno::PERM) => StartFailureKind::PermissionDenied,
        Some(errno) => resource_kind(errno),
        None => StartFailureKind::Other,
    };
    let place = if kind == StartFailureKind::Exhausted {
        "host"
    } else {
        "cwd"
    };
    StartFailure {
        errno: error.raw_os_error(),
        ..of(kind, place, cwd.to_string_lossy())
    }
}

/// Something of the host's own that cannot be had.
pub(crate) fn of_host(error: &io::Error, what: &str) -> StartFailure {
    let kind = error.raw_os_error().map_or(StartFailureKind::Other, |errno| {
        resource_kind(Errno::from_raw_os_error(errno))
    });
    StartFailure {
        errno: error.raw_os_error(),
        ..of(kind, "host", what)
    }
}

fn exec_kind(errno: Errno) -> StartFailureKind {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => StartFailureKind::NotFound,
        Errno::ACCESS | Errno::PERM => StartFailureKind::PermissionDenied,
        Errno::NOEXEC | Errno::LIBBAD | Errno::ISDIR | Errno::INVAL => StartFailureKind::NotExecutable,
        Errno::TOOBIG => StartFailureKind::TooLong,
        Errno::TXTBSY => StartFailureKind::Busy,
        errno => resource_kind(errno),
    }
}

fn resource_kind(errno: Errno) -> StartFailureKind {
    match errno {
        Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOSPC => {
            StartFailureKind::Exhausted
        }
        // A kernel or a filter that does not know the call.
        Errno::NOSYS => StartFailureKind::Unsupported,
        _ => StartFailureKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_number_of_an_exec_has_its_kind_and_place() {
        let check = |errno: Errno, kind: StartFailureKind, place: &str| {
            let failure = of_program(errno, Path::new("prog"));
            assert_eq!((failure.kind, failure.place.as_str()), (kind, place), "{errno}");
            assert_eq!(failure.errno, Some(errno.raw_os_error()));
        };
        check(Errno::NOENT, StartFailureKind::NotFound, "argv");
        check(Errno::NOTDIR, StartFailureKind::NotFound, "argv");
        check(Errno::ACCESS, StartFailureKind::PermissionDenied, "argv");
        check(Errno::NOEXEC, StartFailureKind::NotExecutable, "argv");
        check(Errno::TOOBIG, StartFailureKind::TooLong, "argv");
        check(Errno::TXTBSY, StartFailureKind::Busy, "argv");
        check(Errno::AGAIN, StartFailureKind::Exhausted, "host");
        check(Errno::NOMEM, StartFailureKind::Exhausted, "host");
        check(Errno::MFILE, StartFailureKind::Exhausted, "host");
        check(Errno::IO, StartFailureKind::Other, "argv");
    }
}
