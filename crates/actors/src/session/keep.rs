//! What was read on its way to memory, log and screen: the one place where output is written, and where secrets end.

use bytes::Bytes;
use procession_core::{
    Moment, StreamId,
    redact::{Redactor, SecretSet},
    render::ScreenTracker,
    spec::TerminalSize,
};

use super::{
    Turn,
    state::{LogHandle, SessionState},
};
use crate::log::{FeedRun, LogMessage, Wake};

/// The redactors of both streams.
#[derive(Debug)]
pub(super) struct Redactors {
    stdout: Redactor,
    stderr: Redactor,
}

impl Redactors {
    /// None where there is nothing to replace.
    pub(super) fn new(secrets: &SecretSet) -> Option<Self> {
        Some(Self {
            stdout: secrets.redactor()?,
            stderr: secrets.redactor()?,
        })
    }

    const fn of(&mut self, stream: StreamId) -> &mut Redactor {
        match stream {
            StreamId::Stdout => &mut self.stdout,
            StreamId::Stderr => &mut self.stderr,
        }
    }

    pub(super) const fn replacements(&self) -> u64 {
        self.stdout
            .replacements()
            .saturating_add(self.stderr.replacements())
    }
}

impl SessionState {
    /// Keeps what was read, for memory, log and screen alike, without secrets.
    pub(super) fn keep(&mut self, stream: StreamId, bytes: Bytes, now: Moment) -> Wake {
        // INVARIANT: bytes of the process go nowhere but through here.
        match &mut self.redactors {
            None => self.keep_decided(stream, bytes, now),
            Some(redactors) => {
                let bytes = redactors.of(stream).push(&bytes);
                self.keep_decided(stream, bytes, now)
            }
        }
    }

    /// Keeps what was held back because it could have become a secret; nothing follows any more.
    fn keep_rest(&mut self, stream: StreamId) -> Wake {
        let now = self.now();
        match &mut self.redactors {
            Some(redactors) => {
                let bytes = redactors.of(stream).flush();
                self.keep_decided(stream, bytes, now)
            }
            None => Wake::NotNeeded,
        }
    }

    fn keep_decided(&mut self, stream: StreamId, bytes: Bytes, now: Moment) -> Wake {
        if bytes.is_empty() {
            return Wake::NotNeeded;
        }
        if let Some(screen) = &mut self.screen {
            screen.push(&bytes);
        }
        let wake = match &self.log {
            LogHandle::Open { feed, .. } => {
                let time_ms = self.since_spawn_ms(now);
                feed.push(FeedRun {
                    stream,
                    time_ms,
                    bytes: bytes.clone(),
                })
            }
            _ => Wake::NotNeeded,
        };
        self.capture.push(stream, bytes);
        wake
    }

    /// How many secrets were replaced.
    pub(super) fn redactions(&self) -> u64 {
        self.redactors.as_ref().map_or(0, Redactors::replacements)
    }

    /// The terminal has another size.
    pub(super) fn screen_resized(&mut self, size: TerminalSize) {
        match &mut self.screen {
            Some(screen) => {
                if !screen.resize(size) {
                    self.screen = None;
                }
            }
            None => self.screen = ScreenTracker::new(size),
        }
    }
}

impl Turn<'_> {
    /// Nothing of a stream is read any more.
    pub(super) fn end_stream(&mut self, stream: StreamId) {
        if self.state.keep_rest(stream) == Wake::Needed {
            self.wake_log();
        }
        self.state.capture.close(stream);
    }

    /// Tells the log that something waits for it.
    pub(super) fn wake_log(&self) {
        let Some(log) = &self.state.arguments.log else {
            return;
        };
        let session = self.state.arguments.session;
        if log.cast(LogMessage::Ready { session }).is_err()
            && let LogHandle::Open { feed, .. } = &self.state.log
        {
            feed.give_up("the log's actor is gone");
        }
    }
}
