//! A storage that watches and fails, and bytes that say where they stand.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use procession_log_store::{
    Access, Listed, LogReader, MemoryStorage, Offset, Run, Storage, StorageFile, StreamTag,
};

pub(crate) const FOLDER: &str = "/logs/one";

/// The byte that every test writes at an offset.
pub(crate) fn byte_at(offset: u64) -> u8 {
    offset.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[5]
}

pub(crate) fn bytes_at(offset: u64, len: usize) -> Vec<u8> {
    (offset..).take(len).map(byte_at).collect()
}

pub(crate) fn run(stream: u8, time_ms: u64, bytes: &[u8]) -> Run<'_> {
    Run {
        stream: StreamTag::new(stream),
        time_ms,
        bytes,
    }
}

pub(crate) fn folder_bytes(storage: &dyn Storage, folder: &Path) -> u64 {
    storage
        .list(folder, 1000)
        .unwrap()
        .iter()
        .map(|entry| entry.bytes)
        .sum()
}

/// Reads all that is there, checks every byte and every gap, and says how many bytes were there.
pub(crate) fn check_all(reader: &LogReader, page_bytes: usize) -> u64 {
    let mut offset = Offset::ZERO;
    let mut kept = 0;
    loop {
        let page = reader.read(offset, page_bytes).unwrap();
        let mut expected = page.gap.map_or(offset, |gap| {
            assert!(gap.from <= offset && offset < gap.to, "{gap:?} at {offset}");
            gap.to
        });
        for run in &page.runs {
            assert_eq!(run.offset, expected);
            assert!(!run.bytes.is_empty());
            assert!(
                run.bytes == bytes_at(run.offset.get(), run.bytes.len()),
                "at {}",
                run.offset
            );
            expected = run.end();
        }
        assert_eq!(page.next_offset, expected);
        kept += page.payload_bytes();
        if page.at_end {
            assert_eq!(page.next_offset.get(), page.total_bytes);
            return kept;
        }
        assert!(page.next_offset > offset);
        offset = page.next_offset;
    }
}

/// Passes everything on; sums up the folder after each change, and fails the n-th write.
#[derive(Debug)]
pub(crate) struct Watched {
    inner: MemoryStorage,
    watch: Arc<Watch>,
}

#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) max_folder_bytes: AtomicU64,
    pub(crate) changes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    /// The number of the first change that fails, and how it fails.
    fault: Mutex<Option<(u64, Fault)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// That change and all after it.
    Lasting,
    /// That change only.
    Once,
    /// That change writes half of what it should, the next fails.
    Half,
}

impl Watched {
    pub(crate) fn new(inner: MemoryStorage) -> Self {
        Self {
            inner,
            watch: Arc::default(),
        }
    }

    pub(crate) fn failing_at(inner: MemoryStorage, change: u64, fault: Fault) -> Self {
        let watched = Self::new(inner);
        *watched.watch.fault.lock().unwrap() = Some((change, fault));
        watched
    }

    pub(crate) fn watch(&self) -> Arc<Watch> {
        self.watch.clone()
    }
}

impl Watch {
    /// Counts a change; says how much of it goes through.
    fn change(&self, len: usize) -> io::Result<usize> {
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        let full = Err(io::Error::from(io::ErrorKind::StorageFull));
        match *self.fault.lock().unwrap() {
            Some((at, Fault::Lasting)) if number >= at => full,
            Some((at, Fault::Once)) if number == at => full,
            Some((at, Fault::Half)) if number == at => Ok(len / 2),
            Some((at, Fault::Half)) if number == at + 1 => full,
            _ => Ok(len),
        }
    }

    fn note(&self, storage: &MemoryStorage) {
        if let Ok(listed) = storage.list(Path::new(FOLDER), 1000) {
            let bytes = listed.iter().map(|entry| entry.bytes).sum();
            self.max_folder_bytes.fetch_max(bytes, Ordering::Relaxed);
        }
    }
}

impl Storage for Watched {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.watch.change(0)?;
        self.inner.create_folder(folder)
    }

    fn create(&self, folder: &Path, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.watch.change(0)?;
        let inner = self.inner.create(folder, name)?;
        Ok(Box::new(WatchedFile {
            inner,
            storage: self.inner.clone(),
            watch: self.watch.clone(),
        }))
    }

    fn open(&self, folder: &Path, name: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let inner = self.inner.open(folder, name, access)?;
        Ok(Box::new(WatchedFile {
            inner,
            storage: self.inner.clone(),
            watch: self.watch.clone(),
        }))
    }

    fn rename(&self, folder: &Path, from: &str, to: &str) -> io::Result<()> {
        self.watch.change(0)?;
        self.inner.rename(folder, from, to)
    }

    fn remove(&self, folder: &Path, name: &str) -> io::Result<()> {
        self.watch.change(0)?;
        self.inner.remove(folder, name)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.remove_folder(folder)
    }

    fn list(&self, folder: &Path, max_entries: usize) -> io::Result<Vec<Listed>> {
        self.inner.list(folder, max_entries)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.sync_folder(folder)
    }

    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        self.inner.free_space(folder)
    }
}

#[derive(Debug)]
struct WatchedFile {
    inner: Box<dyn StorageFile>,
    storage: MemoryStorage,
    watch: Arc<Watch>,
}

impl StorageFile for WatchedFile {
    fn read_at(&self, position: u64, max_bytes: usize, into: &mut Vec<u8>) -> io::Result<usize> {
        // Short reads are allowed, so they must be coped with.
        self.inner.read_at(position, max_bytes.min(3000), into)
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<usize> {
        let len = self.watch.change(bytes.len())?;
        let written = self
            .inner
            .write_at(position, &bytes[..len.max(1).min(bytes.len())]);
        self.watch.note(&self.storage);
        self.watch
            .written_bytes
            .fetch_add(u64::try_from(len).unwrap(), Ordering::Relaxed);
        written
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.watch.change(0)?;
        self.inner.truncate(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}
