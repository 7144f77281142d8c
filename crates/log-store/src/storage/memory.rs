//! Storage in memory, for tests and small hosts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Access, Listed, ListedKind, Storage, StorageFile};
use crate::offset::{bytes_u64, bytes_usize};

/// Files in memory; clones share them.
///
/// Any folder may be created, its parent need not exist.
#[derive(Debug, Clone, Default)]
pub struct MemoryStorage {
    disk: Arc<Mutex<Disk>>,
}

impl MemoryStorage {
    /// Storage without a limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Storage that holds `max_bytes` of file content; a write past that fails with `StorageFull`, after the part
    /// that still fits.
    #[must_use]
    pub fn with_capacity_bytes(max_bytes: u64) -> Self {
        let storage = Self::default();
        storage.set_capacity_bytes(max_bytes);
        storage
    }

    /// Changes what the storage holds at most. What is there stays.
    pub fn set_capacity_bytes(&self, max_bytes: u64) {
        self.disk().max_bytes = Some(max_bytes);
    }

    /// The content of a file; `None` if it is not there.
    #[must_use]
    pub fn content(&self, folder: &Path, name: &str) -> Option<Vec<u8>> {
        let content = self.disk().folders.get(folder)?.get(name)?.clone();
        Some(lock(&content).clone())
    }

    /// Puts a file there, in place of the one of that name, and creates its folder if need be.
    pub fn set_content(&self, folder: &Path, name: &str, content: &[u8]) {
        let mut disk = self.disk();
        let folder = disk.folders.entry(folder.to_path_buf()).or_default();
        folder.insert(name.to_owned(), Arc::new(Mutex::new(content.to_vec())));
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }
}

impl Storage for MemoryStorage {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.folders.contains_key(folder) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.folders.insert(folder.to_path_buf(), BTreeMap::new());
        Ok(())
    }

    fn create(&self, folder: &Path, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut disk = self.disk();
        let files = disk.folders.get_mut(folder).ok_or(io::ErrorKind::NotFound)?;
        if files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Content::default();
        files.insert(name.to_owned(), content.clone());
        drop(disk);
        Ok(Box::new(MemoryFile {
            content,
            access: Access::ReadWrite,
            disk: self.disk.clone(),
        }))
    }

    fn open(&self, folder: &Path, name: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let content = self
            .disk()
            .folders
            .get(folder)
            .and_then(|files| files.get(name))
            .ok_or(io::ErrorKind::NotFound)?
            .clone();
        Ok(Box::new(MemoryFile {
            content,
            access,
            disk: self.disk.clone(),
        }))
    }

    fn rename(&self, folder: &Path, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        let files = disk.folders.get_mut(folder).ok_or(io::ErrorKind::NotFound)?;
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, folder: &Path, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        let files = disk.folders.get_mut(folder).ok_or(io::ErrorKind::NotFound)?;
        files
            .remove(name)
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        match disk.folders.get(folder) {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(files) if !files.is_empty() => Err(io::ErrorKind::DirectoryNotEmpty.into()),
            Some(_) => {
                disk.folders.remove(folder);
                Ok(())
            }
        }
    }

    fn list(&self, folder: &Path, max_entries: usize) -> io::Result<Vec<Listed>> {
        let disk = self.disk();
        let files = disk.folders.get(folder);
        let folders = disk
            .folders
            .keys()
            .filter(|path| path.parent() == Some(folder))
            .filter_map(|path| path.file_name())
            .map(|name| Listed {
                name: name.to_os_string(),
                kind: ListedKind::Folder,
                bytes: 0,
            });
        let listed: Vec<_> = files
            .into_iter()
            .flatten()
            .map(|(name, content)| Listed {
                name: OsString::from(name),
                kind: ListedKind::File,
                bytes: bytes_u64(lock(content).len()),
            })
            .chain(folders)
            .take(max_entries)
            .collect();
        if files.is_none() && listed.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(listed)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk()
            .folders
            .get(folder)
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        let disk = self.disk();
        disk.folders.get(folder).ok_or(io::ErrorKind::NotFound)?;
        Ok(disk
            .max_bytes
            .map_or(u64::MAX, |max_bytes| max_bytes.saturating_sub(disk.used_bytes())))
    }
}

type Content = Arc<Mutex<Vec<u8>>>;

#[derive(Debug, Default)]
struct Disk {
    folders: BTreeMap<PathBuf, BTreeMap<String, Content>>,
    max_bytes: Option<u64>,
}

impl Disk {
    fn used_bytes(&self) -> u64 {
        self.folders
            .values()
            .flat_map(BTreeMap::values)
            .map(|content| bytes_u64(lock(content).len()))
            .sum()
    }
}

#[derive(Debug)]
struct MemoryFile {
    content: Content,
    access: Access,
    disk: Arc<Mutex<Disk>>,
}

impl MemoryFile {
    fn check_writable(&self) -> io::Result<()> {
        match self.access {
            Access::Read => Err(io::ErrorKind::PermissionDenied.into()),
            Access::ReadWrite => Ok(()),
        }
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, position: u64, max_bytes: usize, into: &mut Vec<u8>) -> io::Result<usize> {
        let content = lock(&self.content);
        let from = bytes_usize(position).min(content.len());
        let to = from.saturating_add(max_bytes).min(content.len());
        let read = content.get(from..to).unwrap_or_default();
        into.extend_from_slice(read);
        Ok(read.len())
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<usize> {
        self.check_writable()?;
        let disk = lock(&self.disk);
        let free = disk
            .max_bytes
            .map(|max_bytes| max_bytes.saturating_sub(disk.used_bytes()));
        let mut content = lock(&self.content);
        let from = bytes_usize(position);
        let growth = from.saturating_add(bytes.len()).saturating_sub(content.len());
        let fits = free.map_or(growth, |free| growth.min(bytes_usize(free)));
        let len = bytes.len().saturating_sub(growth.saturating_sub(fits));
        if len == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let to = from.saturating_add(len);
        if content.len() < to {
            content.resize(to, 0);
        }
        if let (Some(target), Some(source)) = (content.get_mut(from..to), bytes.get(..len)) {
            target.copy_from_slice(source);
        }
        Ok(len)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        lock(&self.content).resize(bytes_usize(bytes), 0);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(bytes_u64(lock(&self.content).len()))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// No method leaves a half-made change behind, so a panic elsewhere does not spoil what the lock guards.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
