//! The file system as a parameter.
//!
//! The log asks its storage for little: files are created new, written and read at positions, renamed, removed and
//! listed. [`FileStorage`] does it on disk, [`MemoryStorage`] in memory; a test wraps either to make the n-th write
//! fail. Nothing here keeps a cursor, so readers and the writer never disturb one another.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;

mod file;
mod memory;

pub use file::FileStorage;
pub use memory::MemoryStorage;

/// A place that holds folders of files.
///
/// A file is named by its folder and a plain name without separators. Calls may come from several threads at once.
/// Errors are those of the operating system: the log looks at [`io::Error::kind`] only, and asks `NotFound` to mean
/// that the file or its folder is not there.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Creates a folder that nobody else may enter. The parent must exist.
    ///
    /// # Errors
    /// `AlreadyExists` if there is anything of that name, a link included.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Creates a file that nobody else may read, open for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists` if there is anything of that name, a link included.
    fn create(&self, folder: &Path, name: &str) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a regular file. No link is followed, and opening never waits.
    ///
    /// # Errors
    /// `NotFound` if it is not there; any other kind if it is no regular file.
    fn open(&self, folder: &Path, name: &str, access: Access) -> io::Result<Box<dyn StorageFile>>;

    /// Gives a file another name in the same folder. Open files stay open. The log never asks for a name in use.
    ///
    /// # Errors
    /// `NotFound` if it is not there.
    fn rename(&self, folder: &Path, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Files that are open can still be read.
    ///
    /// # Errors
    /// `NotFound` if it is not there.
    fn remove(&self, folder: &Path, name: &str) -> io::Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// `DirectoryNotEmpty` if it holds anything.
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// What the folder holds, in no order, at most `max_entries` of it. Nothing is followed.
    ///
    /// # Errors
    /// `NotFound` if the folder is not there.
    fn list(&self, folder: &Path, max_entries: usize) -> io::Result<Vec<Listed>>;

    /// Makes the names in the folder durable.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The bytes that an ordinary user may still write to the file system of `folder`.
    ///
    /// # Errors
    /// `Unsupported` if it is not known; `NotFound` if the folder is not there.
    fn free_space(&self, folder: &Path) -> io::Result<u64>;
}

/// A file, read and written at positions.
pub trait StorageFile: fmt::Debug + Send + Sync {
    /// Reads at most `max_bytes` from `position` on, appends them to `into`, and says how many; 0 at or past the end.
    ///
    /// # Errors
    /// Whatever the operating system says; `into` is then as before.
    fn read_at(&self, position: u64, max_bytes: usize, into: &mut Vec<u8>) -> io::Result<usize>;

    /// Writes some of `bytes` at `position` and says how many; the caller asks again for the rest.
    ///
    /// # Errors
    /// Whatever the operating system says; nothing was written by this call then.
    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Cuts the file to `bytes`, or fills it up with zeros.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn truncate(&self, bytes: u64) -> io::Result<()>;

    /// The size of the file in bytes.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn size(&self) -> io::Result<u64>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn sync(&self) -> io::Result<()>;
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name in the folder.
    pub name: OsString,
    /// What it is; a link is [`ListedKind::Other`].
    pub kind: ListedKind,
    /// Its size in bytes; 0 for what is no file.
    pub bytes: u64,
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, a socket, a device.
    Other,
}

/// Writes all of `bytes`; says how many were written, and why not the rest.
pub(crate) fn write_all_at(
    file: &dyn StorageFile,
    position: u64,
    bytes: &[u8],
) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write_at(position.saturating_add(crate::offset::bytes_u64(written)), rest) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written = written.saturating_add(count).min(bytes.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

/// Appends up to `max_bytes` from `position` on to `into`; fewer only at the end of the file.
pub(crate) fn read_full_at(
    file: &dyn StorageFile,
    position: u64,
    max_bytes: usize,
    into: &mut Vec<u8>,
) -> io::Result<usize> {
    let mut read = 0;
    while read < max_bytes {
        match file.read_at(
            position.saturating_add(crate::offset::bytes_u64(read)),
            max_bytes - read,
            into,
        ) {
            Ok(0) => break,
            Ok(count) => read = read.saturating_add(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
