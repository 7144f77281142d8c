//! Checking a log without reading from it.

use std::path::Path;
use std::sync::Arc;

use crate::format::LogHeader;
use crate::log::LogStatus;
use crate::reader::{LogReader, OpenError, Recovery};
use crate::storage::Storage;

/// What checking every byte of a log found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The header.
    pub header: LogHeader,
    /// What is there, what is cut, what is damaged.
    pub recovery: Recovery,
    /// What can be read.
    pub status: LogStatus,
}

impl VerifyReport {
    /// Whether the log is as its writer left it: finished, nothing cut, nothing missing.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.recovery.is_clean()
    }
}

/// Checks every entry of a log and the payload it stands for, in bounded memory. Changes nothing.
///
/// # Errors
/// [`OpenError`] if there is no log, or none of this version.
pub fn verify(storage: Arc<dyn Storage>, folder: impl AsRef<Path>) -> Result<VerifyReport, OpenError> {
    let reader = LogReader::open(storage, folder)?;
    Ok(VerifyReport {
        header: reader.header().clone(),
        recovery: reader.recovery(),
        status: reader.status(),
    })
}
