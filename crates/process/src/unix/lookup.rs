//! Where a program is found: in the child's search path, seen from the child's directory.

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::BorrowedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
};

use procession_core::{StartFailure, environment::DEFAULT_PATH};
use rustix::{
    fs::{Access, AtFlags, FileType},
    io::Errno,
};

use super::failure::of_program;

/// The program to execute.
///
/// A name with a slash is used as it is, from the working directory. Any other is looked for in the entries of the
/// search path in order, an empty entry being the working directory, and what is no file that may be executed is
/// passed over.
///
/// # Errors
/// `not_found` where no entry holds the name; `permission_denied` where one does, but none that may be executed.
pub(super) fn find(
    name: &OsStr,
    search_path: Option<&OsStr>,
    cwd: BorrowedFd<'_>,
) -> Result<PathBuf, StartFailure> {
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let mut errno = Errno::NOENT;
    if !name.is_empty() {
        let entries = search_path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes();
        for entry in entries.split(|byte| *byte == b':') {
            let candidate = join(entry, name);
            match check(&candidate, cwd) {
                Ok(()) => return Ok(candidate),
                Err(Errno::ACCESS | Errno::PERM) => errno = Errno::ACCESS,
                Err(_) => {}
            }
        }
    }
    Err(of_program(errno, Path::new(name)))
}

fn join(entry: &[u8], name: &OsStr) -> PathBuf {
    let mut path = if entry.is_empty() {
        b".".to_vec()
    } else {
        entry.to_vec()
    };
    path.push(b'/');
    path.extend_from_slice(name.as_bytes());
    PathBuf::from(OsString::from_vec(path))
}

fn check(candidate: &Path, cwd: BorrowedFd<'_>) -> Result<(), Errno> {
    let found = rustix::fs::statat(cwd, candidate, AtFlags::empty())?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    // What counts is who we act as. The call that can tell is newer and filtered in some containers, so it is asked
    // only where it makes a difference.
    let is_same = rustix::process::getuid() == rustix::process::geteuid()
        && rustix::process::getgid() == rustix::process::getegid();
    let flags = if is_same {
        AtFlags::empty()
    } else {
        AtFlags::EACCESS
    };
    rustix::fs::accessat(cwd, candidate, Access::EXEC_OK, flags)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::{fd::AsFd, unix::fs::PermissionsExt},
    };

    use procession_core::StartFailureKind;

    use super::{super::cwd, *};

    #[test]
    fn the_first_entry_with_a_file_that_may_be_executed_wins() {
        let folder = tempfile::tempdir().unwrap();
        for (path, mode) in [
            ("a/tool", 0o644),
            ("b/tool", 0o755),
            ("c/tool", 0o755),
            ("a/closed", 0o600),
            ("here", 0o755),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(folder.path().join("a/dir")).unwrap();
        let cwd = cwd::resolve(Some(folder.path()), None).unwrap();
        let check = |name: &str, search: Option<&str>, expected: Result<&str, StartFailureKind>| {
            let found = find(OsStr::new(name), search.map(OsStr::new), cwd.directory.as_fd());
            let found = found.map_err(|failure| failure.kind);
            assert_eq!(found, expected.map(PathBuf::from), "{name} in {search:?}");
        };
        let absolute = folder.path().join("c");
        let absolute = absolute.to_str().unwrap();
        check("tool", Some("a:b:c"), Ok("b/tool"));
        check("tool", Some("c:b"), Ok("c/tool"));
        check("tool", Some(absolute), Ok(&format!("{absolute}/tool")));
        check("tool", Some("/no/such:b"), Ok("b/tool"));
        check("here", Some("a::b"), Ok("./here"));
        check("here", Some(""), Ok("./here"));
        check("here", Some("a:b"), Err(StartFailureKind::NotFound));
        check("closed", Some("a:b"), Err(StartFailureKind::PermissionDenied));
        check("dir", Some("a"), Err(StartFailureKind::PermissionDenied));
        check("", Some("a"), Err(StartFailureKind::NotFound));
        check("./anything", Some("a"), Ok("./anything"));
        check("/no/such", None, Ok("/no/such"));
        check(
            "sh",
            None,
            find(OsStr::new("sh"), None, cwd.directory.as_fd())
                .as_deref()
                .map(|path| path.to_str().unwrap())
                .map_err(|failure| failure.kind),
        );
    }
}
