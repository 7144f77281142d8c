//! The log actor: one per system, keeper of all logs; it appends and reads off the sessions' threads.
//!
//! It never waits for a disk: every piece of work on a storage is a job on a blocking thread, one at a time for each log
//! that is written, a few at a time for the whole system, and its result comes back as a message. A session that wants
//! to write puts bytes into its [`LogFeed`]; a reader gets positioned reads on handles of its own.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use procession_core::{LogMode, SessionId};
use procession_log_store::{
    CapMode, FileStorage, LogBudget, LogOptions, LogReader, LogWriter, MemoryStorage, Storage, remove_log,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::Semaphore;

mod entry;
mod feed;
mod message;
mod page;
mod question;

pub use feed::{BATCH_BYTES, FEED_BYTES, FeedRun, LogFeed, Wake};
pub use message::{LogMessage, LogSpec, OpenLogError, OpenedLog};

use crate::report::{LogIncomplete, LogSummary};
use entry::{Entry, Job, Writing};
use question::Question;

/// How many jobs on storages run at a time.
pub const LOG_JOBS: usize = 4;
/// How long a few bytes wait for more before they are written.
pub const BATCH_DELAY: Duration = Duration::from_millis(5);
/// How much of a log one search looks through, in bytes.
pub const SEARCH_BYTES: u64 = 16 << 20;
/// How long one search takes at the most, but for the step that it is in, which looks through 512 KiB.
pub const SEARCH_BOUND: Duration = Duration::from_secs(1);
/// Memory for logs where there is no folder for them, all together, in bytes.
pub const MEMORY_LOG_BYTES: u64 = 256 << 20;

/// Where logs lie, and what bounds them all together.
#[derive(Debug, Clone)]
pub struct LogArguments {
    /// The storage.
    pub storage: Arc<dyn Storage>,
    /// The folder that gets one folder for each session; it is made by whoever starts the system.
    pub dir: PathBuf,
    /// Whether the folders' paths mean something to a reader.
    pub visibility: Visibility,
    /// What all logs may take together, in bytes.
    pub max_log_bytes_total: Option<u64>,
    /// What has to stay free on the file system, in bytes.
    pub min_free_disk_bytes: Option<u64>,
}

/// Whether a log can be found by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// It can.
    Path,
    /// It lies where no path leads.
    Hidden,
}

impl LogArguments {
    /// Logs in memory, bounded by [`MEMORY_LOG_BYTES`].
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            storage: Arc::new(MemoryStorage::with_capacity_bytes(MEMORY_LOG_BYTES)),
            dir: PathBuf::from("/"),
            visibility: Visibility::Hidden,
            max_log_bytes_total: None,
            min_free_disk_bytes: None,
        }
    }

    /// Logs in this folder.
    #[must_use]
    pub fn in_folder(dir: impl Into<PathBuf>) -> Self {
        Self {
            storage: Arc::new(FileStorage::new()),
            dir: dir.into(),
            visibility: Visibility::Path,
            max_log_bytes_total: None,
            min_free_disk_bytes: None,
        }
    }
}

/// The log actor.
#[derive(Debug, Default)]
pub struct LogActor;

/// What the log actor knows.
#[derive(Debug)]
pub struct LogState {
    arguments: LogArguments,
    budget: Option<Arc<LogBudget>>,
    jobs: Arc<Semaphore>,
    entries: BTreeMap<SessionId, Entry>,
    /// Logs that are being made or removed.
    coming_and_going: usize,
    settling: Vec<RpcReplyPort<()>>,
}

/// From the actor's own jobs; only this module can make one.
#[derive(Debug)]
pub struct Internal(Event);

#[derive(Debug)]
enum Event {
    Opened {
        session: SessionId,
        result: Result<Box<LogWriter>, OpenLogError>,
        reply: RpcReplyPort<Result<OpenedLog, OpenLogError>>,
    },
    /// Found on the disk, although nobody here made it: by an actor before this one.
    Found {
        question: Question,
        reader: Option<LogReader>,
    },
    Removed,
    Delayed(SessionId),
    Done {
        session: SessionId,
        job: Job,
    },
}

impl Actor for LogActor {
    type Msg = LogMessage;
    type State = LogState;
    type Arguments = LogArguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<LogMessage>,
        arguments: LogArguments,
    ) -> Result<LogState, ActorProcessingErr> {
        let budget = arguments.max_log_bytes_total.map(LogBudget::new);
        Ok(LogState {
            arguments,
            budget,
            jobs: Arc::new(Semaphore::new(LOG_JOBS)),
            entries: BTreeMap::new(),
            coming_and_going: 0,
            settling: Vec::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<LogMessage>,
        message: LogMessage,
        state: &mut LogState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LogMessage::Open { spec, reply } => state.open(&myself, *spec, reply),
            LogMessage::Ready { session } => state.ready(&myself, session),
            LogMessage::Read {
                session,
                query,
                reply,
            } => state.ask(&myself, session, Question::Read { query, reply }),
            LogMessage::Search {
                session,
                search,
                reply,
            } => state.ask(&myself, session, Question::Search { search, reply }),
            LogMessage::Close {
                session,
                end_record,
                reply,
            } => state.close(&myself, session, end_record, reply),
            LogMessage::Remove { session } => state.remove(&myself, session),
            LogMessage::Settle { reply } => {
                state.settling.push(reply);
                state.answer_settled();
            }
            LogMessage::Internal(Internal(event)) => match event {
                Event::Opened {
                    session,
                    result,
                    reply,
                } => state.opened(&myself, session, result, reply),
                Event::Found { question, reader } => match reader {
                    Some(reader) => state.answer(reader, question),
                    None => question.refuse_without_log(),
                },
                Event::Removed => state.went(),
                Event::Delayed(session) => state.write_now(&myself, session),
                Event::Done { session, job } => state.done(&myself, session, job),
            },
        }
        Ok(())
    }
}

impl LogState {
    fn folder(&self, session: SessionId) -> PathBuf {
        self.arguments.dir.join(session.to_string())
    }

    fn visible_folder(&self, session: SessionId) -> Option<PathBuf> {
        (self.arguments.visibility == Visibility::Path).then(|| self.folder(session))
    }

    fn open(
        &mut self,
        myself: &ActorRef<LogMessage>,
        spec: LogSpec,
        reply: RpcReplyPort<Result<OpenedLog, OpenLogError>>,
    ) {
        let mode = match spec.mode {
            LogMode::Rolling => CapMode::Rolling,
            LogMode::KeepHead => CapMode::KeepHead,
            LogMode::Off => {
                let _ = reply.send(Err(OpenLogError {
                    reason: "the session is to have no log".to_owned(),
                }));
                return;
            }
        };
        let mut options = LogOptions::new().cap_bytes(spec.cap_bytes).mode(mode);
        if let Some(bytes) = self.arguments.min_free_disk_bytes {
            options = options.free_space_floor_bytes(bytes);
        }
        if let Some(budget) = &self.budget {
            options = options.budget(Arc::clone(budget));
        }
        let (storage, folder, session) = (
            Arc::clone(&self.arguments.storage),
            self.folder(spec.session),
            spec.session,
        );
        self.coming_and_going = self.coming_and_going.saturating_add(1);
        self.run(
            myself,
            move || {
                LogWriter::create(storage, folder, &spec.header, options)
                    .map(Box::new)
                    .map_err(|error| OpenLogError {
                        reason: with_sources(&error),
                    })
            },
            move |result| Event::Opened {
                session,
                result,
                reply,
            },
        );
    }

    fn opened(
        &mut self,
        myself: &ActorRef<LogMessage>,
        session: SessionId,
        result: Result<Box<LogWriter>, OpenLogError>,
        reply: RpcReplyPort<Result<OpenedLog, OpenLogError>>,
    ) {
        match result {
            Ok(writer) => {
                let path = self.visible_folder(session);
                let feed = LogFeed::default();
                self.entries
                    .insert(session, Entry::new(writer, feed.clone(), path.clone()));
                if reply.send(Ok(OpenedLog { feed, path })).is_err() {
                    self.remove(myself, session); // Nobody waits for it any more.
                }
            }
            Err(error) => {
                tracing::warn!(%session, %error, "a session goes on without a log");
                let _ = reply.send(Err(error));
            }
        }
        self.went();
    }

    /// A log is made or removed.
    fn went(&mut self) {
        self.coming_and_going = self.coming_and_going.saturating_sub(1);
        self.answer_settled();
    }

    /// Output waits: a batch is written at once, less after a moment.
    fn ready(&mut self, myself: &ActorRef<LogMessage>, session: SessionId) {
        let Some(entry) = self.entries.get_mut(&session) else {
            return;
        };
        if entry.feed.waiting_bytes() >= BATCH_BYTES {
            self.write_now(myself, session);
        } else if !std::mem::replace(&mut entry.is_delayed, true) {
            let myself = myself.clone();
            tokio::spawn(async move {
                tokio::time::sleep(BATCH_DELAY).await;
                let _ = myself.cast(LogMessage::Internal(Internal(Event::Delayed(session))));
            });
        }
    }

    fn write_now(&mut self, myself: &ActorRef<LogMessage>, session: SessionId) {
        let Some(entry) = self.entries.get_mut(&session) else {
            return;
        };
        entry.is_delayed = false;
        let (feed, path) = (entry.feed.clone(), entry.path.clone());
        if let Some(writer) = entry.take_writer() {
            self.run(
                myself,
                move || Job::Written(entry::write_what_waits(writer, &feed, path.as_deref())),
                move |job| Event::Done { session, job },
            );
        }
    }

    fn close(
        &mut self,
        myself: &ActorRef<LogMessage>,
        session: SessionId,
        end_record: Vec<u8>,
        reply: RpcReplyPort<LogSummary>,
    ) {
        let Some(entry) = self.entries.get_mut(&session) else {
            let incomplete = Some(LogIncomplete {
                from_offset: 0,
                reason: "there is no such log".to_owned(),
            });
            let _ = reply.send(LogSummary {
                incomplete,
                ..LogSummary::default()
            });
            return;
        };
        entry.closing = Some((end_record, reply));
        self.close_now(myself, session);
    }

    fn close_now(&mut self, myself: &ActorRef<LogMessage>, session: SessionId) {
        let Some(entry) = self.entries.get_mut(&session) else {
            return;
        };
        if entry.closing.is_none() {
            return;
        }
        match std::mem::replace(&mut entry.writing, Writing::Busy) {
            Writing::Busy => {}
            Writing::Idle(writer) => {
                let Some((end_record, reply)) = entry.closing.take() else {
                    return;
                };
                let (feed, path) = (entry.feed.clone(), entry.path.clone());
                self.run(
                    myself,
                    move || {
                        let finished = entry::finish(writer, &feed, path.as_deref(), &end_record, reply);
                        Job::Closed(Box::new(finished))
                    },
                    move |job| Event::Done { session, job },
                );
            }
            Writing::Finished(finished) => {
                // Closed twice: the first end record stands.
                entry.writing = Writing::Finished(finished);
                if let Some((_, reply)) = entry.closing.take() {
                    let _ = reply.send(entry.feed.status());
                }
            }
        }
    }

    fn done(&mut self, myself: &ActorRef<LogMessage>, session: SessionId, job: Job) {
        let Some(entry) = self.entries.get_mut(&session) else {
            // Removed in the meantime: what came back goes, files and all. It has been going since it was removed.
            self.remove_files(myself, session);
            self.went();
            return;
        };
        match job {
            Job::Written(writer) => entry.writing = Writing::Idle(writer),
            Job::Closed(finished) => entry.writing = Writing::Finished(finished),
        }
        let questions = std::mem::take(&mut entry.questions);
        let goes_on = entry.feed.waiting_bytes() > 0;
        let reader = entry.reader.clone();
        for question in questions {
            self.answer(reader.clone(), question);
        }
        self.close_now(myself, session);
        if goes_on {
            self.ready(myself, session);
        }
        self.answer_settled();
    }

    /// Answers who waits for everything to be on the storage, where it is.
    fn answer_settled(&mut self) {
        let is_busy = |entry: &Entry| matches!(entry.writing, Writing::Busy) || entry.closing.is_some();
        if self.coming_and_going > 0 || self.entries.values().any(is_busy) {
            return;
        }
        for reply in self.settling.drain(..) {
            let _ = reply.send(());
        }
    }

    fn ask(&mut self, myself: &ActorRef<LogMessage>, session: SessionId, question: Question) {
        let Some(entry) = self.entries.get_mut(&session) else {
            self.find(myself, session, question);
            return;
        };
        let written_bytes = entry.reader.status().total_bytes;
        let reaches_beyond = question.end() > written_bytes;
        let is_behind = entry.feed.status().total_bytes > written_bytes && entry.feed.given_up().is_none();
        if reaches_beyond && is_behind && !matches!(entry.writing, Writing::Finished(_)) {
            entry.questions.push(question);
            self.write_now(myself, session);
        } else {
            let reader = entry.reader.clone();
            self.answer(reader, question);
        }
    }

    fn answer(&self, reader: LogReader, question: Question) {
        let jobs = Arc::clone(&self.jobs);
        tokio::spawn(async move {
            let _permit = jobs.acquire().await;
            // Should it die, so does the reply, and whoever waits for it learns that nobody answers.
            if let Err(error) = tokio::task::spawn_blocking(move || question.answer(&reader)).await {
                tracing::error!(%error, "a job on a log died");
            }
        });
    }

    /// Looks for a log that an actor before this one wrote.
    fn find(&self, myself: &ActorRef<LogMessage>, session: SessionId, question: Question) {
        let (storage, folder) = (Arc::clone(&self.arguments.storage), self.folder(session));
        self.run(
            myself,
            move || LogReader::open(storage, folder).ok(),
            move |reader| Event::Found { question, reader },
        );
    }

    fn remove(&mut self, myself: &ActorRef<LogMessage>, session: SessionId) {
        if let Some(entry) = self.entries.remove(&session) {
            let is_busy = matches!(entry.writing, Writing::Busy);
            drop(entry);
            if is_busy {
                // The job's end removes the files.
                self.coming_and_going = self.coming_and_going.saturating_add(1);
                return;
            }
        }
        self.remove_files(myself, session);
    }

    fn remove_files(&mut self, myself: &ActorRef<LogMessage>, session: SessionId) {
        let (storage, folder) = (Arc::clone(&self.arguments.storage), self.folder(session));
        self.coming_and_going = self.coming_and_going.saturating_add(1);
        self.run(
            myself,
            move || remove_log(&*storage, &folder),
            move |removed| {
                if let Err(error) = removed {
                    tracing::debug!(%session, %error, "a log was not removed");
                }
                Event::Removed
            },
        );
    }

    /// Runs a job on a blocking thread; its result comes back as a message.
    fn run<T: Send + 'static>(
        &self,
        myself: &ActorRef<LogMessage>,
        job: impl FnOnce() -> T + Send + 'static,
        event: impl FnOnce(T) -> Event + Send + 'static,
    ) {
        let (jobs, myself) = (Arc::clone(&self.jobs), myself.clone());
        tokio::spawn(async move {
            let _permit = jobs.acquire().await;
            match tokio::task::spawn_blocking(job).await {
                Ok(result) => drop(myself.cast(LogMessage::Internal(Internal(event(result))))),
                Err(error) => tracing::error!(%error, "a job on a log died"),
            }
        });
    }
}

/// An error with all that it came from, in one line.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
