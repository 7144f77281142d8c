//! Locks that outlive a panic, and tasks that end with their handle.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;

/// Locks, also after somebody panicked with the lock held: what is behind our locks is always whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task that is aborted when this is dropped.
#[derive(Debug)]
pub(crate) struct Watcher(JoinHandle<()>);

impl Watcher {
    /// Starts the task.
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.abort();
    }
}
