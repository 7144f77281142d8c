//! Logs that were left behind.

use std::io;
use std::path::{Path, PathBuf};

use crate::format::{HEADER_NAME, segment_start};
use crate::storage::{ListedKind, Storage};

/// How many entries of a folder are looked at before it is called no log's folder.
const MAX_FOLDER_ENTRIES: usize = 4096;

/// A folder that looks like that of a log. [`read_log_record`](crate::read_log_record) says whose.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogFolder {
    /// The folder.
    pub folder: PathBuf,
    /// What the files of the log take, in bytes.
    pub disk_bytes: u64,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// How many files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the folder went too.
    pub folder: RemovedFolder,
}

/// Whether the folder went with the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemovedFolder {
    /// It did, or it was not there.
    Gone,
    /// It holds what is no part of a log, and stays with that.
    HoldsOthers {
        /// How many entries it still holds.
        entries: u64,
    },
}

/// Why a log was not removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// The operating system refused.
    #[error("the log in `{}` could not be removed", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// Lists the folders in `parent` that hold a log or the rest of one, by name, at most `max_entries` of all entries
/// looked at. An empty folder counts as the rest of one. No link is followed.
///
/// Whether a log still has a writer is not for this crate to know: call it under the lock that keeps writers out.
///
/// # Errors
/// Whatever the operating system says about `parent`; a folder in it that cannot be read is left out.
pub fn list_logs(storage: &dyn Storage, parent: &Path, max_entries: usize) -> io::Result<Vec<LogFolder>> {
    let mut logs = Vec::new();
    for entry in storage.list(parent, max_entries)? {
        if entry.kind != ListedKind::Folder {
            continue;
        }
        let folder = parent.join(&entry.name);
        let Ok(listed) = storage.list(&folder, MAX_FOLDER_ENTRIES) else {
            continue;
        };
        let is_log = listed.iter().any(|entry| entry.name == HEADER_NAME)
            || listed
                .iter()
                .all(|entry| entry.name.to_str().is_some_and(is_part_of_a_log));
        if is_log {
            let parts = listed
                .iter()
                .filter(|entry| entry.name.to_str().is_some_and(is_part_of_a_log));
            let disk_bytes = parts.map(|entry| entry.bytes).fold(0, u64::saturating_add);
            logs.push(LogFolder { folder, disk_bytes });
        }
    }
    logs.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(logs)
}

/// Removes the files of a log, and the folder if it then is empty. No link is followed, and nothing is touched that
/// is no part of a log. A log that is not there counts as removed.
///
/// # Errors
/// [`RemoveError`]; calling again goes on.
pub fn remove_log(storage: &dyn Storage, folder: &Path) -> Result<Removed, RemoveError> {
    remove_files(storage, folder).map_err(|source| RemoveError::Io {
        folder: folder.to_path_buf(),
        source,
    })
}

fn remove_files(storage: &dyn Storage, folder: &Path) -> io::Result<Removed> {
    let mut removed = Removed {
        files: 0,
        bytes: 0,
        folder: RemovedFolder::Gone,
    };
    loop {
        let listed = match storage.list(folder, MAX_FOLDER_ENTRIES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(removed),
            listed => listed?,
        };
        let mut others = 0;
        let before = removed.files;
        // The header last: with it the folder is known as a log's, should this be interrupted.
        let (header, rest): (Vec<_>, Vec<_>) = listed.iter().partition(|entry| entry.name == HEADER_NAME);
        for entry in rest.into_iter().chain(header) {
            let name = entry.name.to_str().filter(|name| is_part_of_a_log(name));
            let Some(name) = name.filter(|_| entry.kind != ListedKind::Folder) else {
                others += 1;
                continue;
            };
            match storage.remove(folder, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
            removed.files += 1;
            removed.bytes = removed.bytes.saturating_add(entry.bytes);
        }
        if others > 0 {
            removed.folder = RemovedFolder::HoldsOthers { entries: others };
            return Ok(removed);
        }
        match storage.remove_folder(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(removed),
            // More files than were listed at once.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && removed.files > before => {}
            done => return done.map(|()| removed),
        }
    }
}

fn is_part_of_a_log(name: &str) -> bool {
    name == HEADER_NAME || segment_start(name).is_some()
}
