//! A disk with faults.

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use procession_log_store::{Access, Listed, MemoryStorage, Storage, StorageFile};
use tokio::sync::Notify;

use crate::patience::expect;

/// What a log asks of its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A folder or a file is made.
    Create,
    /// A file is opened that is there.
    Open,
    /// A file is written.
    Write,
    /// A file is read.
    Read,
    /// A file or a folder is removed.
    Remove,
}

/// A storage around another one, whose operations fail, stand still or do half as the test says; clones are the same.
///
/// ```
/// use std::{io, sync::Arc};
/// use procession_testkit::{FaultyStorage, Harness, fixture};
///
/// # fn main() { tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let storage = FaultyStorage::in_memory();
/// let harness = Harness::builder().storage(storage.clone()).start().await;
/// let session = harness.start_session(fixture::spec()).await;
/// storage.fail_writes_from(0, io::ErrorKind::StorageFull);
/// session.process.emit(procession_core::StreamId::Stdout, "lost\n");
/// session.process.exit(0);
/// assert!(!session.until_ended().await.log.is_complete());
/// # }) }
/// ```
#[derive(Clone)]
pub struct FaultyStorage {
    inner: Arc<dyn Storage>,
    faults: Arc<Faults>,
}

impl fmt::Debug for FaultyStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStorage")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Faults {
    state: Mutex<State>,
    released: Condvar,
    reached: Notify,
}

#[derive(Debug, Default)]
struct State {
    writes: u64,
    written_bytes: u64,
    failures: Vec<Failure>,
    max_write_bytes: Option<usize>,
    capacity_bytes: Option<u64>,
    held: Vec<HeldOperation>,
    next_hold: u64,
}

#[derive(Debug, Clone, Copy)]
struct Failure {
    operation: Operation,
    /// The writes from the first to the last of these, both inclusive; all for other operations.
    writes: (u64, u64),
    kind: io::ErrorKind,
}

#[derive(Debug)]
struct HeldOperation {
    id: u64,
    operation: Operation,
    waiting: usize,
}

/// Operations that stand still; dropping it lets them go on.
#[derive(Debug)]
#[must_use = "dropping it lets the operations go on"]
pub struct Hold {
    faults: Arc<Faults>,
    id: u64,
}

impl FaultyStorage {
    /// A disk without faults as yet, over this one.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self {
            inner,
            faults: Arc::default(),
        }
    }

    /// A disk in memory without faults as yet.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(Arc::new(MemoryStorage::new()))
    }

    /// How many writes were asked for.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.faults.state().writes
    }

    /// Has the write with this number fail, counted from 0 from the beginning on.
    pub fn fail_write(&self, number: u64, kind: io::ErrorKind) {
        self.add(Failure {
            operation: Operation::Write,
            writes: (number, number),
            kind,
        });
    }

    /// Has all writes fail from the one with this number on.
    pub fn fail_writes_from(&self, number: u64, kind: io::ErrorKind) {
        self.add(Failure {
            operation: Operation::Write,
            writes: (number, u64::MAX),
            kind,
        });
    }

    /// Has all operations of a kind fail from now on.
    pub fn fail(&self, operation: Operation, kind: io::ErrorKind) {
        self.add(Failure {
            operation,
            writes: (0, u64::MAX),
            kind,
        });
    }

    /// Takes all failures back; what is held stays held.
    pub fn heal(&self) {
        let mut state = self.faults.state();
        state.failures.clear();
        state.max_write_bytes = None;
        state.capacity_bytes = None;
    }

    /// Has a single write take this many bytes at most.
    pub fn short_writes(&self, max_bytes: usize) {
        self.faults.state().max_write_bytes = Some(max_bytes.max(1));
    }

    /// Has the disk be full once this many bytes were written in all, from the beginning on.
    pub fn full_from(&self, capacity_bytes: u64) {
        self.faults.state().capacity_bytes = Some(capacity_bytes);
    }

    /// Has operations of a kind stand still, until the hold is dropped.
    ///
    /// The paused clock stands still too while one waits: let time pass with [`crate::Harness::jump`].
    pub fn hold(&self, operation: Operation) -> Hold {
        let mut state = self.faults.state();
        let id = state.next_hold;
        state.next_hold += 1;
        state.held.push(HeldOperation {
            id,
            operation,
            waiting: 0,
        });
        Hold {
            faults: Arc::clone(&self.faults),
            id,
        }
    }

    fn add(&self, failure: Failure) {
        self.faults.state().failures.push(failure);
    }
}

impl Hold {
    /// Waits until an operation has come to it.
    ///
    /// # Panics
    /// When none comes within [`crate::PATIENCE`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn reached(&self) {
        expect("an operation on the disk", async {
            loop {
                let reached = self.faults.reached.notified();
                if self
                    .faults
                    .state()
                    .held
                    .iter()
                    .any(|held| held.id == self.id && held.waiting > 0)
                {
                    return;
                }
                reached.await;
            }
        })
        .await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.faults.state().held.retain(|held| held.id != self.id);
        self.faults.released.notify_all();
    }
}

impl Faults {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits where the operation is held, then fails where it is to fail.
    fn meet(&self, operation: Operation) -> io::Result<()> {
        let mut state = self.state();
        let number = state.writes;
        if operation == Operation::Write {
            state.writes += 1;
        }
        if let Some(held) = state.held.iter_mut().find(|held| held.operation == operation) {
            held.waiting += 1;
            self.reached.notify_waiters();
            while state.held.iter().any(|held| held.operation == operation) {
                state = self.released.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let is_met = |failure: &&Failure| {
            let (first, last) = failure.writes;
            failure.operation == operation
                && (operation != Operation::Write || (first..=last).contains(&number))
        };
        state
            .failures
            .iter()
            .find(is_met)
            .map_or(Ok(()), |failure| Err(failure.kind.into()))
    }

    /// How much of a write the disk takes.
    fn room(&self, bytes: usize) -> io::Result<usize> {
        let state = self.state();
        let left = state
            .capacity_bytes
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(state.written_bytes));
        let room = bytes
            .min(state.max_write_bytes.unwrap_or(usize::MAX))
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        if room == 0 && bytes > 0 {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(room)
        }
    }
}

impl Storage for FaultyStorage {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.faults.meet(Operation::Create)?;
        self.inner.create_folder(folder)
    }

    fn create(&self, folder: &Path, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.faults.meet(Operation::Create)?;
        let file = self.inner.create(folder, name)?;
        Ok(Box::new(FaultyFile {
            file,
            faults: Arc::clone(&self.faults),
        }))
    }

    fn open(&self, folder: &Path, name: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        self.faults.meet(Operation::Open)?;
        let file = self.inner.open(folder, name, access)?;
        Ok(Box::new(FaultyFile {
            file,
            faults: Arc::clone(&self.faults),
        }))
    }

    fn rename(&self, folder: &Path, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(folder, from, to)
    }

    fn remove(&self, folder: &Path, name: &str) -> io::Result<()> {
        self.faults.meet(Operation::Remove)?;
        self.inner.remove(folder, name)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        self.faults.meet(Operation::Remove)?;
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
struct FaultyFile {
    file: Box<dyn StorageFile>,
    faults: Arc<Faults>,
}

impl StorageFile for FaultyFile {
    fn read_at(&self, position: u64, max_bytes: usize, into: &mut Vec<u8>) -> io::Result<usize> {
        self.faults.meet(Operation::Read)?;
        self.file.read_at(position, max_bytes, into)
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<usize> {
        self.faults.meet(Operation::Write)?;
        let room = self.faults.room(bytes.len())?;
        let written = self.file.write_at(position, bytes.get(..room).unwrap_or(bytes))?;
        let mut state = self.faults.state();
        state.written_bytes = state.written_bytes.saturating_add(written as u64);
        Ok(written)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
