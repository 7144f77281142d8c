//! The directory that a session starts in.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use procession_core::{StartFailure, StartFailureKind};
use rustix::fs::{Mode, OFlags};

use super::{
    descriptor::above_stdio,
    failure::{of, of_cwd},
};

/// A directory that can be entered.
#[derive(Debug)]
pub(crate) struct Cwd {
    /// The directory itself, which a renaming or a link in its path does not change.
    pub(crate) directory: OwnedFd,
    /// Its path without links.
    pub(crate) path: PathBuf,
}

/// The directory that was asked for, links followed: relative to the root, else to the host's own; the default is
/// the root, else the host's own.
///
/// # Errors
/// [`StartFailure`] with place `cwd`. A root that is gone is reported only where it is needed to find the directory:
/// an absolute one elsewhere is outside of it either way.
pub(crate) fn resolve(cwd: Option<&Path>, root: Option<&Path>) -> Result<Cwd, StartFailure> {
    let asked = match (cwd, root) {
        (Some(cwd), Some(root)) => root.join(cwd),
        (Some(cwd), None) => cwd.to_owned(),
        (None, Some(root)) => root.to_owned(),
        (None, None) => PathBuf::from("."),
    };
    let path = asked.canonicalize().map_err(|error| of_cwd(&error, &asked))?;
    if let Some(root) = root {
        let is_inside = root.canonicalize().is_ok_and(|root| path.starts_with(root));
        if !is_inside {
            return Err(of(StartFailureKind::OutsideRoot, "cwd", asked.to_string_lossy()));
        }
    }
    let directory = enter(&path).map_err(|error| of_cwd(&error, &asked))?;
    Ok(Cwd { directory, path })
}

/// Opens a directory in a way that fails where entering it would.
fn enter(path: &Path) -> io::Result<OwnedFd> {
    // To look up `.` in a directory takes the same permission as to enter it, and what is no directory has none.
    let entered = rustix::fs::open(
        path.join("."),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    above_stdio(entered)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn kind(cwd: Option<&Path>, root: Option<&Path>) -> Result<PathBuf, StartFailureKind> {
        match resolve(cwd, root) {
            Ok(cwd) => Ok(cwd.path),
            Err(failure) => {
                assert_eq!(failure.place, "cwd");
                Err(failure.kind)
            }
        }
    }

    #[test]
    fn links_are_followed_before_the_root_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (root, outside) = (folder.join("root"), folder.join("outside"));
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(root.join("file"), "").unwrap();
        symlink(&outside, root.join("out")).unwrap();
        symlink(&root, folder.join("alias")).unwrap();
        symlink("sub", root.join("in")).unwrap();
        symlink("loop", root.join("loop")).unwrap();

        let check = |cwd: &str, expected: Result<PathBuf, StartFailureKind>| {
            assert_eq!(kind(Some(Path::new(cwd)), Some(&root)), expected, "{cwd}");
            assert_eq!(
                kind(Some(Path::new(cwd)), Some(&folder.join("alias"))),
                expected,
                "{cwd} by an alias"
            );
        };
        check("sub", Ok(root.join("sub")));
        check("in", Ok(root.join("sub")));
        check(".", Ok(root.clone()));
        check("sub/..", Ok(root.clone()));
        check(root.join("sub").to_str().unwrap(), Ok(root.join("sub")));
        check("out", Err(StartFailureKind::OutsideRoot));
        check("..", Err(StartFailureKind::OutsideRoot));
        check("in/../../outside", Err(StartFailureKind::OutsideRoot));
        check("/", Err(StartFailureKind::OutsideRoot));
        check("missing", Err(StartFailureKind::NotFound));
        check("file", Err(StartFailureKind::NotADirectory));
        check("file/sub", Err(StartFailureKind::NotADirectory));
        check("loop", Err(StartFailureKind::Other));
        assert_eq!(kind(None, Some(&root)), Ok(root));
    }

    #[test]
    fn a_root_that_only_begins_alike_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::create_dir(folder.path().join("root2")).unwrap();
        let (cwd, root) = (folder.path().join("root2"), folder.path().join("root"));
        assert_eq!(kind(Some(&cwd), Some(&root)), Err(StartFailureKind::OutsideRoot));
    }

    #[test]
    fn a_root_that_is_gone_is_told_where_it_is_needed() {
        let gone = Path::new("/no/such/root");
        assert_eq!(kind(None, Some(gone)), Err(StartFailureKind::NotFound));
        assert_eq!(
            kind(Some(Path::new("sub")), Some(gone)),
            Err(StartFailureKind::NotFound)
        );
        assert_eq!(
            kind(Some(Path::new("/")), Some(gone)),
            Err(StartFailureKind::OutsideRoot)
        );
    }

    #[test]
    fn without_a_root_the_hosts_own_directory_is_the_default() {
        assert_eq!(
            kind(None, None),
            Ok(std::env::current_dir().unwrap().canonicalize().unwrap())
        );
    }
}
