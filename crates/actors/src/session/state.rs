//! What a session actor knows.

use std::{collections::BTreeMap, sync::Arc};

use procession_core::{
    Containment, Moment, StreamId,
    capture::{Capture, ReadBuffer},
    render::ScreenTracker,
    session::Session,
    text::ReadPosition,
};
use procession_policy::Receipt;
use procession_process::{InputSink, Leader, OutputSource, Tree};
use tokio::sync::Notify;

use super::{SessionArguments, keep::Redactors, typed::Typed};
use crate::{
    log::LogFeed,
    report::{LogIncomplete, LogSummary},
};

/// What a session actor knows; changed by its handlers alone.
#[derive(Debug)]
pub struct SessionState {
    pub(super) arguments: SessionArguments,
    pub(super) machine: Session,
    /// What replaces secrets on the way into it; none where there are none.
    pub(super) redactors: Option<Redactors>,
    pub(super) capture: Capture,
    /// What the session's terminal shows; none without one, or with one too large.
    pub(super) screen: Option<ScreenTracker>,
    pub(super) readers: BTreeMap<StreamId, Reader>,
    pub(super) input: InputState,
    pub(super) typed: Typed,
    pub(super) process: Option<Process>,
    /// By what means its tree is held, or was; none before there was one.
    pub(super) containment: Option<Containment>,
    pub(super) log: LogHandle,
    /// Up to where the session's own cursor has read.
    pub(super) drained: ReadPosition,
    /// For when the timer is set.
    pub(super) timer_at: Option<Moment>,
    /// Until when the log may keep the session from reading.
    pub(super) log_stalled_until: Option<Moment>,
    /// An end that was asked for before there was a process.
    pub(super) receipt: Option<Receipt>,
    pub(super) largest_write_bytes: u64,
    /// Names of the environment, once somebody asked.
    pub(super) environment_names: Option<Arc<[String]>>,
    pub(super) end_seen: EndSeen,
}

/// Whether the owner was told of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndSeen {
    NotYet,
    Seen,
}

/// One stream that is read.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) source: Arc<dyn OutputSource>,
    pub(super) buffer: ReadBuffer,
    /// Tells the watcher to wait for the descriptor again.
    pub(super) rearm: Arc<Notify>,
    /// Why it is not read at the moment.
    pub(super) pause: Pause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    No,
    /// The log has to catch up first.
    ForLog,
    /// The reader at the session's own cursor has to catch up first.
    ForReader,
}

/// Where input goes.
#[derive(Debug)]
pub(super) enum InputState {
    /// There is none.
    None,
    /// It is open.
    Open(Arc<dyn InputSink>),
    /// It is closed once what waits is written; a terminal is open again behind the end of file.
    Closing(Arc<dyn InputSink>),
    /// We closed it.
    Closed,
    /// The reader closed it.
    ReaderClosed,
}

/// The process that runs, or has run and is not let go yet.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) leader: Arc<dyn Leader>,
    pub(super) tree: Arc<dyn Tree>,
}

/// The log, as the session sees it.
#[derive(Debug)]
pub(super) enum LogHandle {
    /// It is being made, or there is none, and why.
    None(Option<LogIncomplete>),
    /// Output goes there.
    Open {
        feed: LogFeed,
        path: Option<std::path::PathBuf>,
    },
    /// It is closed.
    Closed(LogSummary),
}

impl SessionState {
    pub(super) fn new(arguments: SessionArguments) -> Self {
        let machine = Session::new(arguments.limits.clone(), arguments.clock.wall_at_start());
        let capture_bytes = usize::try_from(arguments.limits.capture_bytes).unwrap_or(usize::MAX);
        Self {
            machine,
            redactors: Redactors::new(&arguments.secrets),
            capture: Capture::new(capture_bytes),
            screen: arguments.decision.terminal().and_then(ScreenTracker::new),
            readers: BTreeMap::new(),
            input: InputState::None,
            typed: Typed::default(),
            process: None,
            containment: None,
            log: LogHandle::None(None),
            drained: ReadPosition::START,
            timer_at: None,
            log_stalled_until: None,
            receipt: None,
            largest_write_bytes: 0,
            environment_names: None,
            end_seen: EndSeen::NotYet,
            arguments,
        }
    }

    pub(super) fn now(&self) -> Moment {
        self.arguments.clock.now()
    }

    /// Milliseconds since the spawn.
    pub(super) fn since_spawn_ms(&self, now: Moment) -> u64 {
        let spawned_at = self.machine.spawned_at().unwrap_or(now);
        procession_core::time::whole_millis(now.saturating_since(spawned_at))
    }

    pub(super) fn containment(&self) -> Containment {
        self.containment
            .unwrap_or_else(|| self.arguments.decision.containment())
    }

    pub(super) fn log_summary(&self) -> LogSummary {
        let total_bytes = self.capture.total_bytes();
        let mut summary = match &self.log {
            LogHandle::None(incomplete) => LogSummary {
                dropped_bytes: total_bytes,
                incomplete: incomplete.clone(),
                ..LogSummary::default()
            },
            LogHandle::Open { feed, path } => {
                let mut status = feed.status();
                if self.machine.is_released() && !feed.is_written() {
                    // The end did not wait for the log: what it has not taken yet is not known to be kept.
                    let from_offset = total_bytes.saturating_sub(feed.waiting_bytes() as u64);
                    let reason = "the log was not closed in time".to_owned();
                    status
                        .incomplete
                        .get_or_insert(LogIncomplete { from_offset, reason });
                }
                LogSummary {
                    path: path.clone(),
                    ..status
                }
            }
            LogHandle::Closed(summary) => summary.clone(),
        };
        summary.total_bytes = total_bytes.max(summary.total_bytes);
        summary
    }
}
