//! The bounded way of output from a session to its log.
//!
//! Output does not travel in messages: mailboxes are unbounded. It waits here, by reference, and the log's actor takes it
//! when it gets to it. When the feed is full the session stops reading, so that the process is slowed by its own pipe;
//! when the log does not get on for too long, the session gives it up and goes on without it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use procession_core::StreamId;
use tokio::sync::Notify;

use crate::{
    report::{LogIncomplete, LogSummary},
    sync::lock,
};

/// How much may wait in a feed before the session stops reading, in bytes.
pub const FEED_BYTES: usize = 1 << 20;

/// Bytes that one stream wrote, on their way to the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedRun {
    /// Of which stream.
    pub stream: StreamId,
    /// When they were read, in milliseconds since the session's spawn.
    pub time_ms: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// How much has to wait before it is written at once, in bytes; less waits a moment for more.
pub const BATCH_BYTES: usize = 64 << 10;

/// Whether the log's actor has to be told that something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// It has to be told.
    Needed,
    /// It knows, or nobody takes any more.
    NotNeeded,
}

/// The two ends of the way of one session's output to its log.
#[derive(Debug, Clone, Default)]
pub struct LogFeed(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    runs: VecDeque<FeedRun>,
    waiting_bytes: usize,
    pushed_bytes: u64,
    told: Told,
    status: LogSummary,
    given_up: Option<LogIncomplete>,
}

/// What the log's actor was told since it last found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Told {
    #[default]
    Nothing,
    OfSome,
    OfABatch,
}

impl LogFeed {
    /// Puts bytes at the end, for the log.
    #[must_use]
    pub fn push(&self, run: FeedRun) -> Wake {
        let mut state = lock(&self.0.state);
        state.pushed_bytes = state.pushed_bytes.saturating_add(run.bytes.len() as u64);
        if state.given_up.is_some() || run.bytes.is_empty() {
            return Wake::NotNeeded;
        }
        state.waiting_bytes = state.waiting_bytes.saturating_add(run.bytes.len());
        state.runs.push_back(run);
        let is_batch = state.waiting_bytes >= BATCH_BYTES;
        let told = if is_batch { Told::OfABatch } else { Told::OfSome };
        if state.told >= told {
            return Wake::NotNeeded;
        }
        state.told = told;
        Wake::Needed
    }

    /// Whether as much waits as may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let state = lock(&self.0.state);
        state.given_up.is_none() && state.waiting_bytes >= FEED_BYTES
    }

    /// Whether all that was put in is written, or given up.
    #[must_use]
    pub fn is_written(&self) -> bool {
        let state = lock(&self.0.state);
        state.given_up.is_some() || state.pushed_bytes == state.status.total_bytes
    }

    /// How much waits, in bytes.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        lock(&self.0.state).waiting_bytes
    }

    /// Waits until the feed is not full.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn room(&self) {
        loop {
            let notified = self.0.room.notified();
            if !self.is_full() {
                return;
            }
            notified.await;
        }
    }

    /// Takes all that waits; an empty answer means that the next push will tell again.
    #[must_use]
    pub fn take(&self) -> Vec<FeedRun> {
        let mut state = lock(&self.0.state);
        state.told = if state.runs.is_empty() {
            Told::Nothing
        } else {
            Told::OfABatch
        };
        state.waiting_bytes = 0;
        let runs = state.runs.drain(..).collect();
        drop(state);
        self.0.room.notify_waiters();
        runs
    }

    /// What the log's actor last told of the log.
    #[must_use]
    pub fn status(&self) -> LogSummary {
        let state = lock(&self.0.state);
        let mut status = state.status.clone();
        // What waits counts as kept: it will be, or the log will say why not.
        let behind = state.pushed_bytes.saturating_sub(status.total_bytes);
        status.total_bytes = state.pushed_bytes.max(status.total_bytes);
        match &state.given_up {
            None => status.kept_bytes = status.kept_bytes.saturating_add(behind),
            Some(given_up) => {
                status.dropped_bytes = status.dropped_bytes.saturating_add(behind);
                status.incomplete.get_or_insert_with(|| given_up.clone());
            }
        }
        status
    }

    /// Tells what became of the log so far.
    pub fn publish(&self, status: LogSummary) {
        lock(&self.0.state).status = status;
    }

    /// Ends logging: what waits and what comes is dropped, for this reason.
    pub fn give_up(&self, reason: impl Into<String>) {
        let mut state = lock(&self.0.state);
        if state.given_up.is_none() {
            let from_offset = state.pushed_bytes.saturating_sub(state.waiting_bytes as u64);
            state.given_up = Some(LogIncomplete {
                from_offset,
                reason: reason.into(),
            });
        }
        state.runs.clear();
        state.waiting_bytes = 0;
        drop(state);
        self.0.room.notify_waiters();
    }

    /// Why logging was given up, if it was.
    #[must_use]
    pub fn given_up(&self) -> Option<LogIncomplete> {
        lock(&self.0.state).given_up.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: usize) -> FeedRun {
        FeedRun {
            stream: StreamId::Stdout,
            time_ms: 0,
            bytes: Bytes::from(vec![0; bytes]),
        }
    }

    #[test]
    fn the_log_is_told_once_until_it_found_nothing() {
        let feed = LogFeed::default();
        assert_eq!(feed.push(run(1)), Wake::Needed);
        assert_eq!(feed.push(run(1)), Wake::NotNeeded);
        assert_eq!(feed.take().len(), 2);
        assert_eq!(feed.push(run(1)), Wake::NotNeeded, "it will look once more");
        assert_eq!(feed.take().len(), 1);
        assert_eq!(feed.take().len(), 0);
        assert_eq!(feed.push(run(1)), Wake::Needed);
    }

    #[test]
    fn the_log_is_told_once_more_when_a_batch_is_there() {
        let feed = LogFeed::default();
        assert_eq!(feed.push(run(1)), Wake::Needed);
        assert_eq!(feed.push(run(BATCH_BYTES)), Wake::Needed);
        assert_eq!(feed.push(run(BATCH_BYTES)), Wake::NotNeeded);
    }

    #[test]
    fn a_full_feed_has_room_once_it_is_taken_or_given_up() {
        let feed = LogFeed::default();
        let _ = feed.push(run(FEED_BYTES));
        assert!(feed.is_full());
        assert_eq!(feed.take().len(), 1);
        assert!(!feed.is_full());
        let _ = feed.push(run(FEED_BYTES));
        feed.give_up("stalled");
        assert!(!feed.is_full());
        let _ = feed.push(run(FEED_BYTES));
        assert!(!feed.is_full(), "what comes after is dropped");
        let expected = LogIncomplete {
            from_offset: FEED_BYTES as u64,
            reason: "stalled".to_owned(),
        };
        assert_eq!(feed.given_up(), Some(expected));
    }

    #[test]
    fn kept_and_dropped_make_the_total() {
        let feed = LogFeed::default();
        let _ = feed.push(run(10));
        feed.publish(LogSummary {
            total_bytes: 4,
            kept_bytes: 3,
            dropped_bytes: 1,
            ..LogSummary::default()
        });
        let status = feed.status();
        assert_eq!(
            (status.total_bytes, status.kept_bytes, status.dropped_bytes),
            (10, 9, 1)
        );
        feed.give_up("gone");
        let status = feed.status();
        assert_eq!(
            (status.total_bytes, status.kept_bytes, status.dropped_bytes),
            (10, 3, 7)
        );
        assert!(!status.is_complete());
    }
}
