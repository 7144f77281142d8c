#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod budget;
mod cap;
pub mod format;
mod index;
mod log;
mod offset;
mod reader;
mod record;
mod search;
mod storage;
mod sweep;
mod text;
mod verify;

pub use budget::{BudgetShare, LogBudget};
pub use cap::{
    CapMode, DEFAULT_CAP_BYTES, DEFAULT_HEAD_BYTES, LogOptions, MAX_EXCESS_BYTES, MIN_CAP_BYTES,
    OptionsError, SyncPolicy,
};
pub use format::{
    EndRecord, FORMAT_VERSION, LogHeader, MAX_END_APPLICATION_BYTES, MAX_HEADER_APPLICATION_BYTES,
};
pub use log::{
    Appended, CreateError, FinishError, FinishedLog, Gap, GapCause, LogStatus, LogWriter, Logging,
    StopReason, WriteEnd,
};
pub use offset::Offset;
pub use reader::{
    BeyondEnd, Damage, EndRecordState, LogReader, LogRecord, MAX_PAGE_BYTES, MAX_PAGE_RUNS, OpenError, Page,
    ReadError, Recovery, Unverified, read_log_record,
};
pub use record::{MAX_ENTRY_BYTES, MERGE_WINDOW_MS, PageRun, Run, StreamTag};
pub use search::{
    MAX_CONTEXT_BYTES, MAX_MATCH_BYTES, MAX_MATCHES, Match, SearchError, SearchLimits, SearchPage,
    SearchPattern,
};
pub use storage::{Access, FileStorage, Listed, ListedKind, MemoryStorage, Storage, StorageFile};
pub use sweep::{LogFolder, RemoveError, Removed, RemovedFolder, list_logs, remove_log};
pub use text::incomplete_utf8_suffix;
pub use verify::{VerifyReport, verify};
