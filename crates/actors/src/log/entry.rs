//! One log in the actor's hands, and what its jobs do on blocking threads.

use std::path::{Path, PathBuf};

use procession_log_store::{
    FinishedLog, LogReader, LogStatus, LogWriter, Run, StopReason, StreamTag, WriteEnd,
};
use ractor::RpcReplyPort;

use super::{FeedRun, LogFeed, question::Question};
use crate::report::{LogIncomplete, LogSummary};

/// How much one job writes before others get their turn, in bytes.
const JOB_BYTES: u64 = 16 << 20;

/// One log.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) feed: LogFeed,
    pub(super) path: Option<PathBuf>,
    pub(super) reader: LogReader,
    pub(super) writing: Writing,
    /// Whether a write is due in a moment.
    pub(super) is_delayed: bool,
    /// Questions about what is not written yet.
    pub(super) questions: Vec<Question>,
    pub(super) closing: Option<(Vec<u8>, RpcReplyPort<LogSummary>)>,
}

/// Where the writer is.
#[derive(Debug)]
pub(super) enum Writing {
    Idle(Box<LogWriter>),
    /// A job has it.
    Busy,
    Finished(Box<FinishedLog>),
}

/// What a job came to.
#[derive(Debug)]
pub(super) enum Job {
    Written(Box<LogWriter>),
    Closed(Box<FinishedLog>),
}

impl Entry {
    pub(super) fn new(writer: Box<LogWriter>, feed: LogFeed, path: Option<PathBuf>) -> Self {
        Self {
            feed,
            path,
            reader: writer.reader(),
            writing: Writing::Idle(writer),
            is_delayed: false,
            questions: Vec::new(),
            closing: None,
        }
    }

    /// The writer, for a job; none while a job has it or it is done.
    pub(super) fn take_writer(&mut self) -> Option<Box<LogWriter>> {
        match std::mem::replace(&mut self.writing, Writing::Busy) {
            Writing::Idle(writer) => Some(writer),
            Writing::Busy => None,
            Writing::Finished(finished) => {
                self.writing = Writing::Finished(finished);
                None
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !matches!(self.writing, Writing::Finished(_)) {
            self.feed.give_up("the log's actor is gone");
        }
    }
}

/// Writes what waits in the feed, up to the bound of one job.
pub(super) fn write_what_waits(
    mut writer: Box<LogWriter>,
    feed: &LogFeed,
    path: Option<&Path>,
) -> Box<LogWriter> {
    let mut written_bytes = 0_u64;
    while written_bytes < JOB_BYTES {
        let runs = feed.take();
        if runs.is_empty() {
            break;
        }
        written_bytes += append(&mut writer, &runs);
        feed.publish(summary(&writer.status(), path));
    }
    writer
}

/// Writes all that waits and tells what became of it, then writes the end record, which may take its time.
pub(super) fn finish(
    mut writer: Box<LogWriter>,
    feed: &LogFeed,
    path: Option<&Path>,
    end_record: &[u8],
    reply: RpcReplyPort<LogSummary>,
) -> FinishedLog {
    loop {
        let runs = feed.take();
        if runs.is_empty() {
            break;
        }
        append(&mut writer, &runs);
    }
    if let Some(given_up) = feed.given_up() {
        writer.stop(StopReason::ByOwner {
            reason: given_up.reason,
        });
    }
    feed.publish(summary(&writer.status(), path));
    let path = path.map(Path::to_path_buf);
    // Nobody may wait any more.
    let _ = reply.send(LogSummary {
        path,
        ..feed.status()
    });
    writer.finish(end_record)
}

fn append(writer: &mut LogWriter, runs: &[FeedRun]) -> u64 {
    let runs: Vec<_> = runs
        .iter()
        .map(|run| Run {
            stream: StreamTag::new(run.stream.tag()),
            time_ms: run.time_ms,
            bytes: &run.bytes,
        })
        .collect();
    writer.append(&runs);
    runs.iter().map(|run| run.bytes.len() as u64).sum()
}

fn summary(status: &LogStatus, path: Option<&Path>) -> LogSummary {
    let incomplete = match (&status.write_end, &status.gap) {
        (WriteEnd::Stopped { at, reason }, _) => Some(LogIncomplete {
            from_offset: at.get(),
            reason: stop_reason(reason),
        }),
        (_, Some(gap)) => Some(LogIncomplete {
            from_offset: gap.from.get(),
            reason: "the cap was reached".to_owned(),
        }),
        _ => None,
    };
    LogSummary {
        total_bytes: status.total_bytes,
        kept_bytes: status.kept_bytes,
        dropped_bytes: status.dropped_bytes,
        incomplete,
        path: path.map(Path::to_path_buf),
    }
}

/// Why logging stopped, in one line.
fn stop_reason(reason: &StopReason) -> String {
    match reason {
        StopReason::CapReached => "the cap was reached and only the head is kept".to_owned(),
        StopReason::BudgetExhausted { max_bytes } => format!("all logs together may take {max_bytes} bytes"),
        StopReason::FreeSpaceFloor {
            floor_bytes,
            free_bytes,
        } => {
            format!("only {free_bytes} bytes of space are left on the disk, {floor_bytes} have to stay free")
        }
        StopReason::WriteFailed { message, .. } => format!("writing failed: {message}"),
        StopReason::Stalled => "the storage did not get on in time".to_owned(),
        StopReason::ByOwner { reason } => reason.clone(),
        other => format!("{other:?}"),
    }
}
