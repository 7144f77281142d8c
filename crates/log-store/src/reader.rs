//! Positioned reads.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use bytes::Bytes;

use crate::format::{EndRecord, LogHeader};
use crate::log::{LogStatus, Shared, Source};
use crate::offset::Offset;
use crate::record::StreamTag;
use crate::storage::Storage;

mod fill;
mod page;
mod recovery;
mod scan;

use fill::{Fill, Handles};
pub use page::{BeyondEnd, Page};
pub use recovery::{Damage, EndRecordState, LogRecord, OpenError, Recovery, Unverified, read_log_record};

/// The most payload bytes of one page: 1 MiB. Larger limits mean this one.
pub const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// The most runs of one page.
pub const MAX_PAGE_RUNS: usize = 4096;

/// How often a read starts again when what it reads is dropped under it. After that it answers with an empty page
/// and the gap, and the next read goes on behind that.
const MAX_READ_ATTEMPTS: u32 = 16;

/// Reads a log at any offset, while it is written or after.
///
/// Each reader has its own open files and no cursor: readers disturb neither the writer nor one another. A clone is
/// another reader. One reader may be used from several threads.
#[derive(Debug)]
pub struct LogReader {
    shared: Arc<Shared>,
    handles: Mutex<Option<Handles>>,
}

impl LogReader {
    /// Opens a log from its files: of a writer that finished, that died, or that still runs in another process.
    ///
    /// All entries and the payload that they stand for are checked once, in bounded memory; what is served later was
    /// checked. The first bad frame ends its segment; see [`LogReader::recovery`].
    ///
    /// # Errors
    /// [`OpenError`] if there is no log, or none of this version.
    pub fn open(storage: Arc<dyn Storage>, folder: impl AsRef<Path>) -> Result<Self, OpenError> {
        recovery::open(storage, folder.as_ref()).map(|shared| Self::of(Arc::new(shared)))
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            handles: Mutex::new(None),
        }
    }

    /// Reads from `offset` on, at most `max_bytes` and at most [`MAX_PAGE_BYTES`]; fewer only at the end, in front of
    /// a gap, or at [`MAX_PAGE_RUNS`] runs.
    ///
    /// Every offset and every limit is answered. With a limit of 0 the page says where the offset leads.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self, offset: Offset, max_bytes: usize) -> Result<Page, ReadError> {
        self.read_page(offset, max_bytes, None)
    }

    /// Reads the bytes of one stream from `offset` on, passing over the others; offsets stay those of the merged
    /// output.
    ///
    /// The work of one call is bounded, so a page may be empty though more follows: `next_offset` is always further on
    /// unless `at_end` holds or the limit is 0.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_stream(
        &self,
        offset: Offset,
        max_bytes: usize,
        stream: StreamTag,
    ) -> Result<Page, ReadError> {
        self.read_page(offset, max_bytes, Some(stream))
    }

    /// How the log stands: as its writer says if it is in this process, else as of the last look at the files.
    #[must_use]
    pub fn status(&self) -> LogStatus {
        self.shared.status()
    }

    /// Looks at the files again: more may have been written by another process, and segments may have been dropped.
    /// Does nothing for a log of this process and for a finished one.
    ///
    /// # Errors
    /// [`OpenError`]; what was known stays.
    pub fn refresh(&self) -> Result<(), OpenError> {
        recovery::refresh(&self.shared)
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &LogHeader {
        &self.shared.header
    }

    /// The end record, once the log is finished.
    #[must_use]
    pub fn end_record(&self) -> Option<EndRecord> {
        self.shared.state().end_record.clone()
    }

    /// What opening the log found, and what it cut. Empty for a log that is written in this process.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.shared.state().recovery.clone()
    }

    /// The payload behind the last good entry, at most `max_bytes` and at most [`MAX_PAGE_BYTES`] of it: what a writer
    /// that died had written but not entered. Nothing vouches for these bytes.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_unverified(&self, max_bytes: usize) -> Result<Bytes, ReadError> {
        recovery::read_unverified(&self.shared, max_bytes.min(MAX_PAGE_BYTES))
    }

    /// The folder of the log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    pub(crate) fn read_page(
        &self,
        offset: Offset,
        max_bytes: usize,
        stream: Option<StreamTag>,
    ) -> Result<Page, ReadError> {
        let fill = Fill::new(&self.shared, max_bytes.min(MAX_PAGE_BYTES), stream);
        match self.handles.try_lock() {
            Ok(mut handles) => fill.page(offset.get(), &mut handles),
            Err(TryLockError::Poisoned(poisoned)) => fill.page(offset.get(), &mut poisoned.into_inner()),
            // Another thread reads with these files: this call opens its own rather than wait.
            Err(TryLockError::WouldBlock) => fill.page(offset.get(), &mut None),
        }
    }
}

impl Clone for LogReader {
    fn clone(&self) -> Self {
        Self::of(self.shared.clone())
    }
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The log was removed.
    #[error("the log is gone")]
    Gone,
    /// The files no longer hold what they held.
    #[error("the log is damaged at offset {offset}")]
    Damaged {
        /// The first byte that cannot be read.
        offset: Offset,
    },
    /// The files could not be read.
    #[error("the log cannot be read at offset {offset}")]
    Io {
        /// Where.
        offset: Offset,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// Whether a segment may be dropped by a writer elsewhere while it is read.
fn is_written_elsewhere(shared: &Shared) -> bool {
    matches!(shared.source, Source::Disk(_)) && shared.state().end_record.is_none()
}

/// Waits for the one look at the files that is under way.
fn lock_look(look: &Mutex<()>) -> std::sync::MutexGuard<'_, ()> {
    look.lock().unwrap_or_else(PoisonError::into_inner)
}
