//! The writer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::budget::BudgetShare;
use crate::cap::{Division, LogOptions, OptionsError, SyncPolicy, TAIL_SEGMENTS};
use crate::format::{
    self, EndRecord, FORMAT_VERSION, FRAME_BYTES, HEADER_NAME, LogHeader, MAX_END_APPLICATION_BYTES,
    MAX_HEADER_APPLICATION_BYTES, PayloadFile, SegmentKind,
};
use crate::offset::{Offset, bytes_u64};
use crate::reader::LogReader;
use crate::record::{Batch, Portion, Run};
use crate::storage::{Access, Storage, write_all_at};

mod finished;
mod segment;
pub(crate) mod state;
mod status;

pub use finished::{FinishError, FinishedLog};
use segment::{Fate, WrittenSegment};
pub(crate) use state::{Shared, Source, State};
pub use status::{Gap, GapCause, LogStatus, StopReason, WriteEnd};

/// How many bytes are written between two looks at the free space of the file system, if there is a floor.
const FLOOR_CHECK_BYTES: u64 = 256 * 1024;

/// The same if there is none: the look then only finds out whether the folder is still there.
const FOLDER_CHECK_BYTES: u64 = 4 * 1024 * 1024;

/// From this size on a batch counts as a flood: the file of the dropped segment is taken over rather than removed,
/// which saves giving pages of the file cache back and asking for them again.
const FLOOD_BATCH_BYTES: u64 = 64 * 1024;

/// The one writer of a log.
///
/// Its calls may wait for the disk and belong on a thread that may. None panics, and none fails once the log was
/// created: what goes wrong ends the *logging*, on record in [`LogWriter::status`], while offsets go on.
///
/// Dropped without [`LogWriter::finish`], the log stays on disk like that of a writer that died: everything that was
/// appended can be read, and there is no end record.
#[derive(Debug)]
pub struct LogWriter {
    shared: Arc<Shared>,
    options: LogOptions,
    division: Division,
    header_bytes: u64,
    segment: Option<WrittenSegment>,
    head_disk_bytes: u64,
    share: Option<BudgetShare>,
    disk_bytes: u64,
    unchecked_bytes: u64,
}

impl LogWriter {
    /// Creates the folder of a log and its header.
    ///
    /// `folder` must not be there, its parent must. `application` is kept in the header as it is. The first files of
    /// the payload are created with the first byte.
    ///
    /// # Errors
    /// [`CreateError`]. Nothing is left behind then.
    pub fn create(
        storage: Arc<dyn Storage>,
        folder: impl Into<PathBuf>,
        application: &[u8],
        options: LogOptions,
    ) -> Result<Self, CreateError> {
        options.validate()?;
        if application.len() > MAX_HEADER_APPLICATION_BYTES {
            return Err(CreateError::HeaderTooLarge {
                application_bytes: application.len(),
                max_bytes: MAX_HEADER_APPLICATION_BYTES,
            });
        }
        let folder = folder.into();
        let header = LogHeader {
            version: FORMAT_VERSION,
            mode: options.cap_mode(),
            cap_bytes: options.effective_cap_bytes(),
            head_bytes: options.effective_head_bytes(),
            application: application.to_vec(),
        };
        let encoded = format::encode_header(&header);
        let header_bytes = bytes_u64(encoded.len());
        let share = match options.shared_budget() {
            None => None,
            Some(budget) => Some(budget.reserve(header_bytes).ok_or(CreateError::BudgetExhausted {
                max_bytes: budget.max_bytes(),
            })?),
        };
        create_folder(storage.as_ref(), &folder, &encoded)?;
        let division = Division::new(&options, header_bytes);
        Ok(Self {
            shared: Arc::new(Shared::new(
                storage,
                folder,
                header,
                Source::Live,
                State::new(WriteEnd::Open),
            )),
            options,
            division,
            header_bytes,
            segment: None,
            head_disk_bytes: 0,
            share,
            disk_bytes: header_bytes,
            // So that the first append looks at the free space.
            unchecked_bytes: FOLDER_CHECK_BYTES,
        })
    }

    /// Appends a batch: the runs in order, as one.
    ///
    /// Payload is written in pieces as large as possible, the index after it. Consecutive runs of one stream within
    /// [`MERGE_WINDOW_MS`](crate::MERGE_WINDOW_MS) share an entry. What a batch larger than the tail would drop again
    /// is not written at all. An error ends the logging, never the call; whether that happened is in the answer.
    pub fn append(&mut self, runs: &[Run<'_>]) -> Appended {
        let mut batch = Batch::new(runs);
        let from = self.shared.state().total;
        let to = from.saturating_add(batch.left_bytes());
        let batch_bytes = to - from;
        let first_time_ms = batch.next_time_ms();
        let mut stop = None;
        if batch_bytes > 0 && self.shared.state().write_end == WriteEnd::Open {
            stop = self.write_batch(&mut batch, batch_bytes).err();
        }
        if let Some(reason) = stop {
            self.stop(reason);
        }
        let mut state = self.shared.state();
        if state.total < to {
            let lost_from = state.total - from;
            let lost_time_ms = if lost_from == 0 {
                first_time_ms
            } else {
                time_at(runs, lost_from)
            };
            state.stopped_time_ms = state.stopped_time_ms.or(lost_time_ms);
            state.last_time_ms = time_at(runs, batch_bytes.saturating_sub(1)).or(state.last_time_ms);
            state.total = to;
        }
        let logging = match &state.write_end {
            WriteEnd::Stopped { at, .. } => Logging::Stopped { at: *at },
            _ => Logging::On,
        };
        Appended {
            from: Offset::new(from),
            to: Offset::new(to),
            logging,
        }
    }

    /// Ends logging for a reason of the owner's; bytes appended from now on are counted, not kept.
    ///
    /// Of two reasons the first stays.
    pub fn stop(&mut self, reason: StopReason) {
        self.shared.state().stop(reason.bounded());
        self.trim();
    }

    /// Cuts what a file taken over from a dropped segment still holds of that segment, so that `cat` on the files
    /// shows the log and nothing else. Done by itself with the next small batch and on finish; of use when a flood
    /// pauses.
    pub fn settle(&mut self) {
        if let Err(reason) = self.try_trim() {
            self.stop(reason);
        }
    }

    /// How the log stands.
    #[must_use]
    pub fn status(&self) -> LogStatus {
        self.shared.status()
    }

    /// Makes a reader of this log; any number may exist, before and after the end.
    #[must_use]
    pub fn reader(&self) -> LogReader {
        LogReader::of(self.shared.clone())
    }

    /// The folder of the log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Ends the log: settles it, writes the end record with the `application`'s bytes, syncs as the options say.
    ///
    /// The log is ended whatever goes wrong; what went wrong is in [`FinishedLog::warning`].
    #[must_use]
    pub fn finish(mut self, application: &[u8]) -> FinishedLog {
        self.settle();
        self.segment = None;
        let mut warning = None;
        let kept = if application.len() > MAX_END_APPLICATION_BYTES {
            warning = Some(FinishError::EndTooLarge {
                application_bytes: application.len(),
                max_bytes: MAX_END_APPLICATION_BYTES,
            });
            &[][..]
        } else {
            application
        };
        let record = self.shared.state().finish(kept);
        if let Err(source) = self.write_end(&record) {
            warning = Some(FinishError::Io { source });
        }
        FinishedLog {
            shared: self.shared,
            share: self.share,
            disk_bytes: self.disk_bytes,
            warning,
        }
    }

    fn write_end(&mut self, record: &EndRecord) -> io::Result<()> {
        let storage = &self.shared.storage;
        let folder = &self.shared.folder;
        let file = storage.open(folder, HEADER_NAME, Access::ReadWrite)?;
        let encoded = format::encode_end(record);
        if let (_, Some(error)) = write_all_at(file.as_ref(), self.header_bytes, &encoded) {
            // A torn end record is none, and its room may be needed.
            let _ = file.truncate(self.header_bytes);
            return Err(error);
        }
        self.disk_bytes = self.disk_bytes.saturating_add(bytes_u64(encoded.len()));
        if let Some(share) = &mut self.share {
            // A log at the limit needs its end record more than any other.
            share.resize(self.disk_bytes);
        }
        if self.options.sync_policy() != SyncPolicy::Never {
            let kept = self.shared.state().starts();
            for start in kept {
                for name in [format::payload_name(start), format::index_name(start)] {
                    storage.open(folder, &name, Access::Read)?.sync()?;
                }
            }
            file.sync()?;
            storage.sync_folder(folder)?;
        }
        Ok(())
    }

    /// Writes the batch; on an error the state says up to where that went well.
    fn write_batch(&mut self, batch: &mut Batch<'_>, batch_bytes: u64) -> Result<(), StopReason> {
        while batch.left_bytes() > 0 {
            self.check_free_space()?;
            if self.segment.as_ref().is_some_and(WrittenSegment::is_full) {
                self.close_segment()?;
            }
            self.skip_what_would_be_dropped(batch)?;
            let segment = self.open_segment(batch, batch_bytes)?;
            let room = segment.room();
            let mut portion = batch.take(segment.end(), FRAME_BYTES, room);
            if portion.bytes == 0 {
                self.close_segment()?;
                continue;
            }
            let index_bytes = FRAME_BYTES.saturating_mul(bytes_u64(portion.entries.len()));
            if batch_bytes < FLOOD_BATCH_BYTES || !segment.fits_untrimmed(portion.bytes, index_bytes) {
                self.try_trim()?;
            }
            self.write_portion(&mut portion, index_bytes)?;
        }
        Ok(())
    }

    fn write_portion(&mut self, portion: &mut Portion<'_>, index_bytes: u64) -> Result<(), StopReason> {
        let Some(segment) = &mut self.segment else {
            return Ok(());
        };
        let before = segment.disk_bytes();
        let after = segment.disk_bytes_with(portion.bytes, index_bytes);
        let grown = self.disk_bytes.saturating_sub(before).saturating_add(after);
        resize(self.share.as_mut(), grown)?;
        let sync = self.options.sync_policy() == SyncPolicy::EachRecord;
        let written = segment.write(portion, sync);
        self.disk_bytes = self
            .disk_bytes
            .saturating_sub(before)
            .saturating_add(segment.disk_bytes());
        self.unchecked_bytes = self.unchecked_bytes.saturating_add(portion.bytes);
        self.shared.state().publish(portion);
        if let Some(error) = written {
            let _ = resize(self.share.as_mut(), self.disk_bytes);
            return Err(StopReason::from_io(&error));
        }
        Ok(())
    }

    fn check_free_space(&mut self) -> Result<(), StopReason> {
        let floor_bytes = self.options.floor_bytes();
        let check_bytes = if floor_bytes > 0 {
            FLOOR_CHECK_BYTES
        } else {
            FOLDER_CHECK_BYTES
        };
        if self.unchecked_bytes < check_bytes {
            return Ok(());
        }
        self.unchecked_bytes = 0;
        match self.shared.storage.free_space(&self.shared.folder) {
            Ok(free_bytes) if free_bytes < floor_bytes => Err(StopReason::FreeSpaceFloor {
                floor_bytes,
                free_bytes,
            }),
            // Files that are open can still be written when their folder is gone, to nobody's use.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StopReason::from_io(&error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Passes over what a batch larger than the whole tail would drop again.
    fn skip_what_would_be_dropped(&mut self, batch: &mut Batch<'_>) -> Result<(), StopReason> {
        if self.next_kind() != SegmentKind::Tail {
            return Ok(());
        }
        let Some(limit) = self.division.tail_segment(self.head_disk_bytes) else {
            return Ok(());
        };
        let tail_bytes = limit.max_disk_bytes.saturating_mul(TAIL_SEGMENTS);
        let Some(skip) = batch
            .left_bytes()
            .checked_sub(tail_bytes)
            .filter(|skip| *skip > 0)
        else {
            return Ok(());
        };
        if self
            .segment
            .as_ref()
            .is_some_and(|segment| segment.kind() == SegmentKind::Tail)
        {
            self.close_segment()?;
        }
        let dropped = self.shared.state().tail_starts();
        for start in dropped {
            self.drop_segment(start, Fate::Removed)?;
        }
        let first_time_ms = batch.next_time_ms();
        let last_time_ms = batch.skip(skip);
        self.shared.state().skip(skip, first_time_ms, last_time_ms);
        Ok(())
    }

    /// The segment that takes the next byte, created if need be.
    fn open_segment(
        &mut self,
        batch: &Batch<'_>,
        batch_bytes: u64,
    ) -> Result<&mut WrittenSegment, StopReason> {
        if self.segment.is_none() {
            let segment = self.create_segment(batch, batch_bytes)?;
            self.segment = Some(segment);
        }
        // Set just above.
        self.segment.as_mut().ok_or(StopReason::CapReached)
    }

    fn create_segment(&mut self, batch: &Batch<'_>, batch_bytes: u64) -> Result<WrittenSegment, StopReason> {
        let kind = self.next_kind();
        let limit = match kind {
            SegmentKind::Head => self.division.head(),
            SegmentKind::Tail => self.division.tail_segment(self.head_disk_bytes),
        };
        let limit = limit.ok_or(StopReason::CapReached)?;
        let mut taken_over_bytes = None;
        let tail = self.shared.state().tail_starts();
        if let Some(oldest) = tail.first().filter(|_| bytes_u64(tail.len()) >= TAIL_SEGMENTS) {
            let fate = if batch_bytes < FLOOD_BATCH_BYTES {
                Fate::Removed
            } else {
                Fate::TakenOver
            };
            taken_over_bytes = self.drop_segment(*oldest, fate)?;
        }
        let payload_file = taken_over_bytes.map_or(PayloadFile::New, |_| PayloadFile::TakenOver);
        let header = self
            .shared
            .state()
            .next_header(kind, batch.next_time_ms(), payload_file);
        let grown = self.disk_bytes.saturating_add(format::SEGMENT_HEADER_BYTES);
        let shared = &self.shared;
        let created = resize(self.share.as_mut(), grown).and_then(|()| {
            WrittenSegment::create(
                shared.storage.as_ref(),
                &shared.folder,
                header,
                limit,
                taken_over_bytes.unwrap_or(0),
            )
            .map_err(|error| StopReason::from_io(&error))
        });
        match created {
            Ok(segment) => {
                self.disk_bytes = grown;
                self.shared.state().open_segment(header);
                Ok(segment)
            }
            Err(reason) => {
                // What is left would only take space; opening a log copes with it.
                let _ = shared
                    .storage
                    .remove(&shared.folder, &format::index_name(header.start));
                let _ = shared
                    .storage
                    .remove(&shared.folder, &format::payload_name(header.start));
                self.disk_bytes = self.disk_bytes.saturating_sub(taken_over_bytes.unwrap_or(0));
                let _ = resize(self.share.as_mut(), self.disk_bytes);
                Err(reason)
            }
        }
    }

    /// Ends the current segment; the next byte begins another.
    fn close_segment(&mut self) -> Result<(), StopReason> {
        self.try_trim()?;
        if let Some(segment) = self.segment.take()
            && segment.kind() == SegmentKind::Head
        {
            self.head_disk_bytes = segment.disk_bytes();
        }
        Ok(())
    }

    /// Drops a segment that is not being written; says the size of its payload file if the next one takes that over.
    fn drop_segment(&mut self, start: u64, fate: Fate) -> Result<Option<u64>, StopReason> {
        // Readers look once more after each read whether the segment is still there, so it goes from the state first.
        let Some(dropped) = self.shared.state().drop_segment(start) else {
            return Ok(None);
        };
        let storage = &self.shared.storage;
        let folder = &self.shared.folder;
        let payload = format::payload_name(start);
        let index = format::index_name(start);
        let next = self.shared.state().total;
        let first = match fate {
            Fate::Removed => storage.remove(folder, &index),
            // Payload first: whoever finds the index changed then finds the payload gone.
            Fate::TakenOver => storage.rename(folder, &payload, &format::payload_name(next)),
        };
        if let Err(error) = first {
            // Nothing was changed yet, so the bytes are still there.
            self.shared.state().restore_segment(dropped);
            return Err(StopReason::from_io(&error));
        }
        let second = match fate {
            Fate::Removed => storage.remove(folder, &payload),
            Fate::TakenOver => storage.rename(folder, &index, &format::index_name(next)),
        };
        second.map_err(|error| StopReason::from_io(&error))?;
        let index_bytes = format::frame_position(dropped.entries);
        let (taken_over_bytes, freed) = match fate {
            Fate::TakenOver => (Some(dropped.len), index_bytes),
            Fate::Removed => (None, index_bytes.saturating_add(dropped.len)),
        };
        self.disk_bytes = self.disk_bytes.saturating_sub(freed);
        resize(self.share.as_mut(), self.disk_bytes)?;
        Ok(taken_over_bytes)
    }

    fn next_kind(&self) -> SegmentKind {
        match &self.segment {
            Some(segment) => segment.kind(),
            None if self.shared.state().is_empty() && self.division.head().is_some() => SegmentKind::Head,
            None => SegmentKind::Tail,
        }
    }

    fn try_trim(&mut self) -> Result<(), StopReason> {
        let Some(segment) = &mut self.segment else {
            return Ok(());
        };
        let before = segment.disk_bytes();
        let trimmed = segment.trim();
        self.disk_bytes = self
            .disk_bytes
            .saturating_sub(before)
            .saturating_add(segment.disk_bytes());
        resize(self.share.as_mut(), self.disk_bytes)?;
        trimmed.map_err(|error| StopReason::from_io(&error))
    }

    /// Trims where nothing depends on whether it works.
    fn trim(&mut self) {
        let _ = self.try_trim();
    }
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The offset of the batch's first byte.
    pub from: Offset,
    /// The offset behind its last byte: the new total.
    pub to: Offset,
    /// Whether logging goes on.
    pub logging: Logging,
}

/// Whether a log still keeps what is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logging {
    /// It does.
    On,
    /// It stopped; bytes from `at` on are counted only. Why is in the status.
    Stopped {
        /// The first byte that was not kept.
        at: Offset,
    },
}

/// Why a log was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// No log can be made with these options.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The application's bytes are too many for the header.
    #[error("{application_bytes} bytes do not fit the header, which takes {max_bytes}")]
    HeaderTooLarge {
        /// What was given.
        application_bytes: usize,
        /// What fits.
        max_bytes: usize,
    },
    /// All logs together are at their limit.
    #[error("the budget of {max_bytes} bytes over all logs is used up")]
    BudgetExhausted {
        /// The limit.
        max_bytes: u64,
    },
    /// The folder or the header could not be made.
    #[error("the log's folder `{}` could not be made", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

fn create_folder(storage: &dyn Storage, folder: &Path, header: &[u8]) -> Result<(), CreateError> {
    let io_error = |source| CreateError::Io {
        folder: folder.to_path_buf(),
        source,
    };
    storage.create_folder(folder).map_err(io_error)?;
    let written = storage
        .create(folder, HEADER_NAME)
        .and_then(|file| write_all_at(file.as_ref(), 0, header).1.map_or(Ok(()), Err));
    written.map_err(|source| {
        // The first error is the one to tell; what cannot be removed now is swept later.
        let _ = storage.remove(folder, HEADER_NAME);
        let _ = storage.remove_folder(folder);
        io_error(source)
    })
}

fn resize(share: Option<&mut BudgetShare>, disk_bytes: u64) -> Result<(), StopReason> {
    let Some(share) = share else { return Ok(()) };
    if share.try_resize(disk_bytes) {
        return Ok(());
    }
    Err(StopReason::BudgetExhausted {
        max_bytes: share.budget().max_bytes(),
    })
}

/// The time of the byte that has `bytes_before` bytes of the batch before it.
fn time_at(runs: &[Run<'_>], bytes_before: u64) -> Option<u64> {
    let mut batch = Batch::new(runs);
    batch.skip(bytes_before);
    batch.next_time_ms()
}
