//! Storage on disk: folders 0700, files 0600, created new, no link followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

use super::{Access, Listed, ListedKind, Storage, StorageFile};

/// How much more than asked for is read when that saves filling the buffer with zeros.
const SPARE_SLACK_BYTES: usize = 4096;

/// Files on disk.
///
/// A folder is opened without following a link in its last part, and a file by its name in that opened folder, so
/// nobody can turn a name of the log into a way out of its folder. Modes do not depend on the umask.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileStorage;

impl FileStorage {
    /// Storage in the file system of this machine.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Storage for FileStorage {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        rustix::fs::mkdirat(CWD, folder, Mode::RWXU)?;
        rustix::fs::fchmod(open_folder(folder)?, Mode::RWXU)?;
        Ok(())
    }

    fn create(&self, folder: &Path, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let private = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(open_folder(folder)?, plain(name)?, flags, private)?;
        // A umask can only have taken bits away.
        rustix::fs::fchmod(&file, private)?;
        Ok(Box::new(DiskFile(File::from(file))))
    }

    fn open(&self, folder: &Path, name: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let access = match access {
            Access::Read => OFlags::RDONLY,
            Access::ReadWrite => OFlags::RDWR,
        };
        // Without NONBLOCK a named pipe put in the file's place would make the call wait for a writer.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(open_folder(folder)?, plain(name)?, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Box::new(DiskFile(File::from(file))))
    }

    fn rename(&self, folder: &Path, from: &str, to: &str) -> io::Result<()> {
        let folder = open_folder(folder)?;
        rustix::fs::renameat(&folder, plain(from)?, &folder, plain(to)?)?;
        Ok(())
    }

    fn remove(&self, folder: &Path, name: &str) -> io::Result<()> {
        rustix::fs::unlinkat(open_folder(folder)?, plain(name)?, AtFlags::empty())?;
        Ok(())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        rustix::fs::unlinkat(CWD, folder, AtFlags::REMOVEDIR)?;
        Ok(())
    }

    fn list(&self, folder: &Path, max_entries: usize) -> io::Result<Vec<Listed>> {
        let folder = open_folder(folder)?;
        let mut listed = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if listed.len() >= max_entries {
                break;
            }
            let stat = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // Removed since the folder was read.
                Err(rustix::io::Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => ListedKind::File,
                FileType::Directory => ListedKind::Folder,
                _ => ListedKind::Other,
            };
            let bytes = match kind {
                ListedKind::File => u64::try_from(stat.st_size).unwrap_or(0),
                ListedKind::Folder | ListedKind::Other => 0,
            };
            listed.push(Listed {
                name: os_string(name.to_bytes()),
                kind,
                bytes,
            });
        }
        Ok(listed)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        rustix::fs::fsync(open_folder(folder)?)?;
        Ok(())
    }

    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// An open file; never moves its cursor.
#[derive(Debug)]
struct DiskFile(File);

impl StorageFile for DiskFile {
    fn read_at(&self, position: u64, max_bytes: usize, into: &mut Vec<u8>) -> io::Result<usize> {
        if max_bytes == 0 {
            return Ok(0);
        }
        into.try_reserve(max_bytes)?;
        let before = into.len();
        if into.capacity().saturating_sub(before) <= max_bytes.saturating_add(SPARE_SLACK_BYTES) {
            // Straight into the spare capacity: filling it with zeros first would cost a third of the read.
            let read = rustix::io::pread(&self.0, rustix::buffer::spare_capacity(into), position)?;
            into.truncate(before.saturating_add(max_bytes));
            return Ok(read.min(max_bytes));
        }
        into.resize(before.saturating_add(max_bytes), 0);
        let read = into
            .get_mut(before..)
            .map_or(Ok(0), |free| self.0.read_at(free, position));
        into.truncate(before.saturating_add(*read.as_ref().unwrap_or(&0)));
        read
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<usize> {
        FileExt::write_at(&self.0, bytes, position)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, folder, flags, Mode::empty())?)
}

/// A name that stays in its folder.
fn plain(name: &str) -> io::Result<&str> {
    if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(name)
}

fn os_string(name: &[u8]) -> OsString {
    OsStr::from_bytes(name).to_os_string()
}
