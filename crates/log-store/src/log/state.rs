//! What the writer and its readers share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::{EndRecord, LogHeader, PayloadFile, SegmentHeader, SegmentKind};
use crate::index::SparseIndex;
use crate::log::{Gap, GapCause, LogStatus, StopReason, WriteEnd};
use crate::offset::Offset;
use crate::reader::Recovery;
use crate::record::Portion;
use crate::storage::Storage;

/// One log, for its writer and its readers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) folder: PathBuf,
    pub(crate) header: LogHeader,
    pub(crate) source: Source,
    state: Mutex<State>,
}

/// Where the state comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A writer in this process keeps it.
    Live,
    /// It is read from the files; one look at a time.
    Disk(Mutex<()>),
}

impl Shared {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        folder: PathBuf,
        header: LogHeader,
        source: Source,
        state: State,
    ) -> Self {
        Self {
            storage,
            folder,
            header,
            source,
            state: Mutex::new(state),
        }
    }

    /// Held for moments only, never while a file is read or written.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> LogStatus {
        self.state().status()
    }
}

/// What of a log is where.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// In the order of their offsets; they do not overlap.
    pub(crate) segments: Vec<Segment>,
    pub(crate) total: u64,
    pub(crate) write_end: WriteEnd,
    pub(crate) first_tail_time_ms: Option<u64>,
    pub(crate) stopped_time_ms: Option<u64>,
    pub(crate) last_time_ms: Option<u64>,
    /// The folder was removed.
    pub(crate) gone: bool,
    /// Once the log is finished.
    pub(crate) end_record: Option<EndRecord>,
    /// What was found when the log was opened; nothing for a log that is written here.
    pub(crate) recovery: Recovery,
}

/// One segment, as far as it is written.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) len: u64,
    pub(crate) entries: u64,
    pub(crate) index: SparseIndex,
    /// The time of the last entry.
    pub(crate) last_time_ms: Option<u64>,
    /// Opening the log found bytes behind the last good entry.
    pub(crate) is_cut: bool,
}

impl Segment {
    pub(crate) fn new(header: SegmentHeader) -> Self {
        Self {
            header,
            len: 0,
            entries: 0,
            index: SparseIndex::new(),
            last_time_ms: None,
            is_cut: false,
        }
    }

    pub(crate) fn start(&self) -> u64 {
        self.header.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.header.start.saturating_add(self.len)
    }
}

/// Where an offset leads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// To bytes that are there, perhaps behind a gap.
    Bytes {
        at: u64,
        segment: SegmentView,
        gap: Option<Gap>,
    },
    /// To the end, perhaps through a gap.
    End { gap: Option<Gap> },
    /// Past the end.
    Beyond,
}

/// What a reader needs of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentView {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The entries among which the offset's is.
    pub(crate) first_entry: u64,
    pub(crate) end_entry: u64,
}

impl State {
    pub(crate) fn new(write_end: WriteEnd) -> Self {
        Self {
            segments: Vec::new(),
            total: 0,
            write_end,
            first_tail_time_ms: None,
            stopped_time_ms: None,
            last_time_ms: None,
            gone: false,
            end_record: None,
            recovery: Recovery::default(),
        }
    }

    /// Where `offset` leads.
    pub(crate) fn place(&self, offset: u64) -> Place {
        if offset > self.total {
            return Place::Beyond;
        }
        let held = self
            .segments
            .iter()
            .position(|segment| segment.len > 0 && segment.end() > offset);
        let Some((number, segment)) = held.and_then(|number| Some((number, self.segments.get(number)?)))
        else {
            return Place::End {
                gap: self.gap_before(self.segments.len(), self.total),
            };
        };
        let at = offset.max(segment.start());
        let gap = if at > offset {
            self.gap_before(number, segment.start())
        } else {
            None
        };
        let (first_entry, end_entry) = segment.index.locate(at);
        let segment = SegmentView {
            start: segment.start(),
            end: segment.end(),
            first_entry,
            end_entry,
        };
        Place::Bytes { at, segment, gap }
    }

    pub(crate) fn has_segment(&self, start: u64) -> bool {
        self.segments.iter().any(|segment| segment.start() == start)
    }

    pub(crate) fn status(&self) -> LogStatus {
        let kept_bytes = self.kept_bytes();
        LogStatus {
            total_bytes: self.total,
            kept_bytes,
            dropped_bytes: self.total.saturating_sub(kept_bytes),
            gap: self.cap_gap(),
            write_end: self.write_end.clone(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn starts(&self) -> Vec<u64> {
        self.segments.iter().map(Segment::start).collect()
    }

    pub(crate) fn tail_starts(&self) -> Vec<u64> {
        let tail = self
            .segments
            .iter()
            .filter(|segment| segment.header.kind == SegmentKind::Tail);
        tail.map(Segment::start).collect()
    }

    /// The header of the segment that begins at the total.
    pub(crate) fn next_header(
        &mut self,
        kind: SegmentKind,
        time_ms: Option<u64>,
        payload_file: PayloadFile,
    ) -> SegmentHeader {
        if kind == SegmentKind::Tail {
            self.first_tail_time_ms = self.first_tail_time_ms.or(time_ms);
        }
        SegmentHeader {
            kind,
            payload_file,
            start: self.total,
            previous_time_ms: self.last_time_ms,
            first_tail_time_ms: self.first_tail_time_ms,
        }
    }

    pub(crate) fn open_segment(&mut self, header: SegmentHeader) {
        self.segments.push(Segment::new(header));
    }

    pub(crate) fn drop_segment(&mut self, start: u64) -> Option<Segment> {
        let number = self
            .segments
            .iter()
            .position(|segment| segment.start() == start)?;
        Some(self.segments.remove(number))
    }

    pub(crate) fn restore_segment(&mut self, segment: Segment) {
        let number = self
            .segments
            .partition_point(|other| other.start() < segment.start());
        self.segments.insert(number, segment);
    }

    /// Makes what was written readable.
    pub(crate) fn publish(&mut self, portion: &Portion<'_>) {
        let Some(segment) = self.segments.last_mut().filter(|_| portion.bytes > 0) else {
            return;
        };
        for entry in &portion.entries {
            segment.index.push(entry.offset);
        }
        segment.entries = segment.index.entries();
        segment.len = segment.len.saturating_add(portion.bytes);
        segment.last_time_ms = portion.entries.last().map(|entry| entry.time_ms);
        self.total = segment.end();
        self.last_time_ms = Some(portion.last_time_ms);
    }

    /// Counts bytes that a rolling log drops without having written them.
    pub(crate) fn skip(&mut self, bytes: u64, first_time_ms: Option<u64>, last_time_ms: Option<u64>) {
        self.first_tail_time_ms = self.first_tail_time_ms.or(first_time_ms);
        self.last_time_ms = last_time_ms.or(self.last_time_ms);
        self.total = self.total.saturating_add(bytes);
    }

    /// Ends logging, unless it has ended.
    pub(crate) fn stop(&mut self, reason: StopReason) {
        if self.write_end == WriteEnd::Open {
            self.write_end = WriteEnd::Stopped {
                at: Offset::new(self.total),
                reason,
            };
        }
    }

    /// Ends the log and says what to record.
    pub(crate) fn finish(&mut self, application: &[u8]) -> EndRecord {
        if self.write_end == WriteEnd::Open {
            self.write_end = WriteEnd::Finished;
        }
        let record = EndRecord {
            total_bytes: self.total,
            kept_bytes: self.kept_bytes(),
            write_end: self.write_end.clone(),
            stopped_time_ms: self.stopped_time_ms,
            last_time_ms: self.last_time_ms,
            application: application.to_vec(),
        };
        self.end_record = Some(record.clone());
        record
    }

    fn kept_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// The gap that ends at `to`, in front of the segment of that number or, past the last, of the end.
    fn gap_before(&self, number: usize, to: u64) -> Option<Gap> {
        let before = self
            .segments
            .iter()
            .take(number)
            .rev()
            .find(|segment| segment.len > 0);
        let from = before.map_or(0, Segment::end);
        if from >= to {
            return None;
        }
        let after = self.segments.get(number);
        let cut = before.is_some_and(|segment| segment.is_cut);
        let behind_head = before.is_none_or(|segment| segment.header.kind == SegmentKind::Head);
        let cause = match (after, &self.write_end) {
            (None, WriteEnd::Stopped { at, .. }) if at.get() == from => GapCause::NotWritten,
            _ if cut => GapCause::Damage,
            (Some(_), _) | (None, WriteEnd::Open | WriteEnd::NotRecorded) if behind_head => GapCause::Cap,
            (None, WriteEnd::Stopped { .. }) => GapCause::NotWritten,
            _ => GapCause::Damage,
        };
        let (first_time_ms, last_time_ms) = match (cause, after) {
            (GapCause::Cap, Some(segment)) => {
                (segment.header.first_tail_time_ms, segment.header.previous_time_ms)
            }
            (GapCause::Cap, None) => (self.first_tail_time_ms, self.last_time_ms),
            (GapCause::NotWritten, _) => (self.stopped_time_ms, self.last_time_ms),
            (GapCause::Damage, _) => (None, None),
        };
        Some(Gap {
            from: Offset::new(from),
            to: Offset::new(to),
            first_time_ms,
            last_time_ms,
            cause,
        })
    }

    /// The gap between head and tail.
    fn cap_gap(&self) -> Option<Gap> {
        let held = self
            .segments
            .iter()
            .enumerate()
            .filter(|(_, segment)| segment.len > 0);
        let mut gaps = held.filter_map(|(number, segment)| self.gap_before(number, segment.start()));
        let trailing = || self.gap_before(self.segments.len(), self.total);
        gaps.find(|gap| gap.cause == GapCause::Cap)
            .or_else(|| trailing().filter(|gap| gap.cause == GapCause::Cap))
    }
}
