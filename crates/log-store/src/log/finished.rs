//! A log after its end.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::budget::BudgetShare;
use crate::log::{LogStatus, Shared};
use crate::reader::LogReader;
use crate::sweep;

/// A log that has ended. The files stay until they are removed.
///
/// It holds the log's part of the budget: keep it as long as the files are there.
#[derive(Debug)]
pub struct FinishedLog {
    pub(super) shared: Arc<Shared>,
    pub(super) share: Option<BudgetShare>,
    pub(super) disk_bytes: u64,
    pub(super) warning: Option<FinishError>,
}

impl FinishedLog {
    /// How the log ended.
    #[must_use]
    pub fn status(&self) -> LogStatus {
        self.shared.status()
    }

    /// What went wrong when the log was ended: there may be no end record, or it may not be durable.
    #[must_use]
    pub fn warning(&self) -> Option<&FinishError> {
        self.warning.as_ref()
    }

    /// Makes a reader.
    #[must_use]
    pub fn reader(&self) -> LogReader {
        LogReader::of(self.shared.clone())
    }

    /// The folder of the log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// What all files of the log take, in bytes.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// Removes the files and the folder, and gives the budget back. Readers are told that the log is gone.
    ///
    /// # Errors
    /// [`RemoveError`](sweep::RemoveError); the budget is given back all the same.
    pub fn remove(self) -> Result<sweep::Removed, sweep::RemoveError> {
        self.shared.state().gone = true;
        drop(self.share);
        sweep::remove_log(self.shared.storage.as_ref(), &self.shared.folder)
    }
}

/// What went wrong when a log was ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The application's bytes are too many; the end record was written without them.
    #[error("{application_bytes} bytes do not fit the end record, which takes {max_bytes}")]
    EndTooLarge {
        /// What was given.
        application_bytes: usize,
        /// What fits.
        max_bytes: usize,
    },
    /// The end record could not be written or made durable.
    #[error("the end record could not be written")]
    Io {
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}
