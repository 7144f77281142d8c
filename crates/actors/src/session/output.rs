//! Reading: a watcher tells that a stream can be read, the actor reads, within a budget, straight into its capture.

use std::{io, sync::Arc, time::Duration};

use procession_core::{StreamId, capture::ReadBuffer, session::Input, spec::Pace};
use tokio::sync::Notify;

use super::{
    Event, Internal, SessionMessage, Turn,
    state::{LogHandle, Pause, Reader},
};
use crate::{
    log::Wake,
    sync::{Watcher, lock},
};

/// How much is read of one stream before other messages get their turn, in bytes.
const TURN_BYTES: usize = 256 << 10;
/// How much of a terminal is read after the leader's exit, in bytes: it does not tell how much waits, and its kernel side
/// holds about 20 KiB at the most.
const TERMINAL_TAIL_BYTES: u64 = 128 << 10;
/// What stays free of the tail for a reader who sets the pace: one read beyond the budget, and a pipe, in bytes.
const PACE_RESERVE_BYTES: u64 = (64 << 10) + (64 << 10) + (64 << 10);
/// How long the log may keep a session from reading before it is given up.
pub const LOG_STALL_BOUND: Duration = Duration::from_secs(2);

/// What a read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadEnd {
    /// There may be more.
    Budget,
    /// There is nothing more for now.
    Empty,
    /// The stream is at its end.
    Closed,
    /// The stream cannot be read any more.
    Failed,
}

impl Turn<'_> {
    /// Takes up a stream.
    pub(super) fn watch_output(
        &mut self,
        stream: StreamId,
        source: Arc<dyn procession_process::OutputSource>,
    ) {
        let rearm = Arc::new(Notify::new());
        let watcher = {
            let (source, rearm, myself) = (Arc::clone(&source), Arc::clone(&rearm), self.myself.clone());
            Watcher::spawn(async move {
                loop {
                    // An error shows at the read that follows.
                    let _ = source.readable().await;
                    if myself
                        .cast(SessionMessage::Internal(Internal(Event::Readable(stream))))
                        .is_err()
                    {
                        return;
                    }
                    rearm.notified().await;
                }
            })
        };
        lock(&self.actor.watchers).outputs.push((stream, watcher));
        self.state.readers.insert(
            stream,
            Reader {
                source,
                buffer: ReadBuffer::new(),
                rearm,
                pause: Pause::No,
            },
        );
    }

    /// A stream can be read.
    pub(super) fn readable(&mut self, stream: StreamId) {
        if self.pause(stream) {
            return;
        }
        let (read_bytes, end) = self.read(stream, TURN_BYTES.min(self.room_for_reader(stream)));
        self.took(read_bytes);
        match end {
            ReadEnd::Closed => self.close_stream(stream, Input::StreamClosed { stream }),
            ReadEnd::Failed => self.close_stream(stream, Input::ReadFailed { stream }),
            ReadEnd::Empty => {
                if let Some(reader) = self.state.readers.get(&stream) {
                    reader.rearm.notify_one();
                }
            }
            ReadEnd::Budget => {
                // Through the mailbox, so that callers get in between.
                let _ = self
                    .myself
                    .cast(SessionMessage::Internal(Internal(Event::Readable(stream))));
            }
        }
    }

    fn took(&mut self, read_bytes: u64) {
        if read_bytes > 0 {
            self.advance(Input::Output { bytes: read_bytes });
            self.answer_readers();
        }
    }

    /// Whether the stream is not to be read now; then it is taken up again when that is over.
    fn pause(&mut self, stream: StreamId) -> bool {
        let log_is_full = matches!(&self.state.log, LogHandle::Open { feed, .. } if feed.is_full());
        let pause = if log_is_full {
            Pause::ForLog
        } else if self.room_for_reader(stream) == 0 {
            Pause::ForReader
        } else {
            Pause::No
        };
        if pause == Pause::ForLog && self.state.log_stalled_until.is_none() {
            self.state.log_stalled_until = Some(self.state.now().saturating_add(LOG_STALL_BOUND));
            if let LogHandle::Open { feed, .. } = &self.state.log {
                let (feed, myself) = (feed.clone(), self.myself.clone());
                lock(&self.actor.watchers).log = Some(Watcher::spawn(async move {
                    feed.room().await;
                    let _ = myself.cast(SessionMessage::Internal(Internal(Event::LogRoom)));
                }));
            }
        }
        if let Some(reader) = self.state.readers.get_mut(&stream) {
            reader.pause = pause;
        }
        pause != Pause::No
    }

    /// How much can be read of a stream so that all of it is kept until the reader who sets the pace has got it.
    fn room_for_reader(&self, stream: StreamId) -> usize {
        if self.state.arguments.spec.pace == Pace::Free {
            return usize::MAX;
        }
        // Half of the capture is its rolling tail, which has to hold what the reader has not got yet, and besides what is
        // read beyond a budget and what a pipe still holds when the leader exits.
        let tail_bytes = self.state.arguments.limits.capture_bytes / 2;
        let unread_bytes = self
            .state
            .capture
            .total(stream)
            .saturating_sub(self.state.drained.offset(stream));
        let room_bytes = tail_bytes
            .saturating_sub(PACE_RESERVE_BYTES)
            .saturating_sub(unread_bytes);
        usize::try_from(room_bytes).unwrap_or(usize::MAX)
    }

    /// Takes up again what waited for the log or the reader.
    pub(super) fn resume(&mut self, waited: Pause) {
        let streams: Vec<_> = self
            .state
            .readers
            .iter()
            .filter(|(_, reader)| reader.pause == waited)
            .map(|(stream, _)| *stream)
            .collect();
        for stream in streams {
            if let Some(reader) = self.state.readers.get_mut(&stream) {
                reader.pause = Pause::No;
            }
            let _ = self
                .myself
                .cast(SessionMessage::Internal(Internal(Event::Readable(stream))));
        }
    }

    /// The log has room again.
    pub(super) fn log_has_room(&mut self) {
        self.state.log_stalled_until = None;
        self.resume(Pause::ForLog);
    }

    /// The log did not get on for too long: the session goes on without it.
    pub(super) fn give_log_up(&mut self) {
        if let LogHandle::Open { feed, .. } = &self.state.log {
            feed.give_up("the storage did not get on in time");
        }
        self.log_has_room();
    }

    /// Reads up to about `most` bytes of a stream into capture and log.
    fn read(&mut self, stream: StreamId, most: usize) -> (u64, ReadEnd) {
        let now = self.state.now();
        let (mut read_bytes, mut wake) = (0_usize, Wake::NotNeeded);
        let end = loop {
            let Some(reader) = self.state.readers.get_mut(&stream) else {
                break ReadEnd::Empty;
            };
            if read_bytes >= most {
                break ReadEnd::Budget;
            }
            match reader.source.try_read(reader.buffer.room()) {
                Ok(0) => break ReadEnd::Closed,
                Ok(bytes) => {
                    read_bytes += bytes;
                    let piece = reader.buffer.take();
                    if self.state.keep(stream, piece, now) == Wake::Needed {
                        wake = Wake::Needed;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    reader.buffer.release();
                    break ReadEnd::Empty;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(session = %self.state.arguments.session, %stream, %error, "reading output failed");
                    break ReadEnd::Failed;
                }
            }
        };
        if wake == Wake::Needed {
            self.wake_log();
        }
        (read_bytes as u64, end)
    }

    /// Reads what is there this moment and not more, whoever may go on writing.
    pub(super) fn read_what_waits(&mut self) {
        let streams: Vec<_> = self.state.readers.keys().copied().collect();
        for stream in streams {
            let Some(reader) = self.state.readers.get(&stream) else {
                continue;
            };
            let waiting = reader.source.waiting_bytes().unwrap_or(TERMINAL_TAIL_BYTES);
            let mut rest = usize::try_from(waiting).unwrap_or(usize::MAX);
            let mut total_bytes = 0;
            let end = loop {
                let (read_bytes, end) = self.read(stream, rest);
                total_bytes += read_bytes;
                rest = rest.saturating_sub(usize::try_from(read_bytes).unwrap_or(usize::MAX));
                if end != ReadEnd::Budget || rest == 0 {
                    break end;
                }
            };
            // One more look, for the end of the stream: most commands close it with their exit.
            let end = if end == ReadEnd::Budget {
                let (read_bytes, end) = self.read(stream, 1);
                total_bytes += read_bytes;
                end
            } else {
                end
            };
            if total_bytes > 0 {
                self.advance(Input::Output { bytes: total_bytes });
            }
            match end {
                ReadEnd::Closed => self.close_stream(stream, Input::StreamClosed { stream }),
                ReadEnd::Failed => self.close_stream(stream, Input::ReadFailed { stream }),
                ReadEnd::Budget | ReadEnd::Empty => {}
            }
        }
    }

    /// A stream is at its end, or as good as.
    fn close_stream(&mut self, stream: StreamId, input: Input) {
        self.state.readers.remove(&stream);
        lock(&self.actor.watchers)
            .outputs
            .retain(|(watched, _)| *watched != stream);
        self.end_stream(stream);
        self.advance(input);
        self.answer_readers();
    }

    /// Stops reading: whatever comes now is not part of the session.
    pub(super) fn release_output(&mut self) {
        self.state.readers.clear();
        lock(&self.actor.watchers).outputs.clear();
        for stream in StreamId::ALL {
            self.end_stream(stream);
        }
    }
}
