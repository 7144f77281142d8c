//! Actors of an embedder's in our slots: with messages of their own, and with manners of their own.
#![cfg(test)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use procession_actors::{
    LogArguments, LogMessage, PolicyArguments, PolicyMessage, SessionActor, SessionArguments, SessionMessage,
    Slot, actor,
    error::{CallError, PollError, ReadLogError, SearchLogError, StartError},
    log::{LogFeed, OpenedLog},
    registry::POLICY_BOUND,
    report::{ListFilter, LogGap, LogIncomplete, LogPage, LogQuery, LogRun, LogSummary, PollQuery},
    session::LOG_OPEN_BOUND,
};
use procession_core::{Field, LogMode, Owner, SessionId, StreamId};
use procession_policy::{BookBounds, PolicyBook, decide};
use procession_testkit::{Harness, Intercepted, Probe, Verdict, conformance, fixture};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::time::Instant;

/// A policy with messages of its own: it counts what it decided, and lets nobody called mallory in.
struct CountingPolicy(Arc<AtomicUsize>);

#[derive(Debug)]
enum CountingMessage {
    Ours(PolicyMessage),
    #[expect(dead_code, reason = "a message that only the embedder sends")]
    Forget,
}

procession_actors::local_message!(CountingMessage);

impl From<PolicyMessage> for CountingMessage {
    fn from(message: PolicyMessage) -> Self {
        Self::Ours(message)
    }
}

impl TryFrom<CountingMessage> for PolicyMessage {
    type Error = ();

    fn try_from(message: CountingMessage) -> Result<Self, ()> {
        match message {
            CountingMessage::Ours(message) => Ok(message),
            CountingMessage::Forget => Err(()),
        }
    }
}

impl Actor for CountingPolicy {
    type Msg = CountingMessage;
    type State = (PolicyArguments, PolicyBook);
    type Arguments = PolicyArguments;

    async fn pre_start(
        &self,
        _: ActorRef<CountingMessage>,
        arguments: PolicyArguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok((arguments, PolicyBook::new(BookBounds::default())))
    }

    async fn handle(
        &self,
        _: ActorRef<CountingMessage>,
        message: CountingMessage,
        (arguments, book): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let CountingMessage::Ours(message) = message else {
            return Ok(());
        };
        let now = arguments.clock.now();
        match message {
            PolicyMessage::Decide { mut request, reply } => {
                self.0.fetch_add(1, Ordering::Relaxed);
                if request.owner.principal == "mallory" {
                    request.limits.insert(Field::Network, false.into());
                }
                let decision = Arc::new(decide(&request, &arguments.host, &arguments.capabilities));
                book.record(&request.owner, Arc::clone(&decision), now);
                let _ = reply.send(decision);
            }
            PolicyMessage::Observe { session, receipt } => drop(book.record_end(session, *receipt, now)),
            PolicyMessage::Explain {
                owner,
                session,
                reply,
            } => drop(reply.send(book.get(&owner, session).cloned())),
            PolicyMessage::Capabilities { reply } => drop(reply.send(Arc::clone(&arguments.capabilities))),
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_with_messages_of_its_own_passes_the_suite() {
    let service = actor(|arguments| (CountingPolicy(Arc::default()), arguments));
    conformance::policy::all(&service).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_the_embedders_decides_about_every_start() {
    let decided = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&decided);
    let slot = Slot::supervised(actor(move |arguments| {
        (CountingPolicy(Arc::clone(&count)), arguments)
    }));
    let harness = Harness::builder().policy_slot(slot).start().await;
    harness.start_session(fixture::spec()).await;
    let refused = harness.client("mallory").start(fixture::spec()).await;
    assert!(matches!(refused, Err(StartError::Refused(refused)) if refused.field == Field::Network));
    assert_eq!((decided.load(Ordering::Relaxed), harness.port().asked()), (2, 1));
}

/// A log in plain memory: whole, never capped before the end of its own bound.
struct VectorLog;

#[derive(Default)]
struct VectorLogs(BTreeMap<SessionId, VectorEntry>);

struct VectorEntry {
    feed: LogFeed,
    cap_bytes: usize,
    runs: Vec<LogRun>,
    total_bytes: u64,
    kept_bytes: u64,
    is_closed: bool,
}

impl VectorEntry {
    fn take(&mut self) {
        loop {
            let runs = self.feed.take();
            if runs.is_empty() {
                break;
            }
            for run in runs {
                let room = self
                    .cap_bytes
                    .saturating_sub(usize::try_from(self.kept_bytes).unwrap());
                let kept = run.bytes.slice(..run.bytes.len().min(room));
                let offset = self.total_bytes;
                self.total_bytes += run.bytes.len() as u64;
                if !kept.is_empty() {
                    self.kept_bytes += kept.len() as u64;
                    self.runs.push(LogRun {
                        offset,
                        stream: run.stream,
                        time_ms: run.time_ms,
                        bytes: kept,
                    });
                }
            }
            self.feed.publish(self.summary());
        }
    }

    fn summary(&self) -> LogSummary {
        let dropped_bytes = self.total_bytes - self.kept_bytes;
        let reason = "the memory is full".to_owned();
        let incomplete = (dropped_bytes > 0).then_some(LogIncomplete {
            from_offset: self.kept_bytes,
            reason,
        });
        LogSummary {
            total_bytes: self.total_bytes,
            kept_bytes: self.kept_bytes,
            dropped_bytes,
            incomplete,
            path: None,
        }
    }

    fn page(&self, query: LogQuery) -> LogPage {
        let (mut offset, mut rest, mut runs) = (query.offset, query.max_bytes, Vec::new());
        for run in &self.runs {
            let end = run.offset + run.bytes.len() as u64;
            if end <= offset || rest == 0 {
                continue;
            }
            let skipped = usize::try_from(offset - run.offset).unwrap();
            let bytes = run.bytes.slice(skipped..);
            let bytes = bytes.slice(..bytes.len().min(usize::try_from(rest).unwrap_or(usize::MAX)));
            if query.stream.is_none_or(|stream| stream == run.stream) {
                rest -= bytes.len() as u64;
                runs.push(LogRun {
                    offset,
                    bytes: bytes.clone(),
                    ..run.clone()
                });
            }
            offset += bytes.len() as u64;
        }
        let in_gap = offset >= self.kept_bytes && offset < self.total_bytes && runs.is_empty();
        let gap = in_gap.then_some(LogGap {
            from: self.kept_bytes,
            to: self.total_bytes,
        });
        let next_offset = if in_gap { self.total_bytes } else { offset };
        LogPage {
            runs,
            next_offset,
            total_bytes: self.total_bytes,
            at_end: next_offset >= self.total_bytes,
            gap,
            beyond_end: query.offset > self.total_bytes,
        }
    }
}

impl Actor for VectorLog {
    type Msg = LogMessage;
    type State = VectorLogs;
    type Arguments = LogArguments;

    async fn pre_start(
        &self,
        _: ActorRef<LogMessage>,
        _: LogArguments,
    ) -> Result<VectorLogs, ActorProcessingErr> {
        Ok(VectorLogs::default())
    }

    async fn handle(
        &self,
        _: ActorRef<LogMessage>,
        message: LogMessage,
        VectorLogs(logs): &mut VectorLogs,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LogMessage::Open { spec, reply } => {
                assert_ne!(spec.mode, LogMode::Off);
                let feed = LogFeed::default();
                let cap_bytes = usize::try_from(spec.cap_bytes).unwrap();
                let entry = VectorEntry {
                    feed: feed.clone(),
                    cap_bytes,
                    runs: Vec::new(),
                    total_bytes: 0,
                    kept_bytes: 0,
                    is_closed: false,
                };
                logs.insert(spec.session, entry);
                let _ = reply.send(Ok(OpenedLog { feed, path: None }));
            }
            LogMessage::Ready { session } => {
                if let Some(entry) = logs.get_mut(&session) {
                    entry.take();
                }
            }
            LogMessage::Read {
                session,
                query,
                reply,
            } => {
                let page = logs.get_mut(&session).ok_or(ReadLogError::NoLog).map(|entry| {
                    entry.take();
                    entry.page(query)
                });
                let _ = reply.send(page);
            }
            LogMessage::Close { session, reply, .. } => {
                let summary = match logs.get_mut(&session) {
                    Some(entry) => {
                        entry.take();
                        entry.is_closed = true;
                        entry.summary()
                    }
                    None => LogSummary {
                        incomplete: Some(LogIncomplete {
                            from_offset: 0,
                            reason: "no such log".to_owned(),
                        }),
                        ..LogSummary::default()
                    },
                };
                let _ = reply.send(summary);
            }
            LogMessage::Remove { session } => {
                if let Some(entry) = logs.remove(&session)
                    && !entry.is_closed
                {
                    entry.feed.give_up("the log was removed");
                }
            }
            LogMessage::Settle { reply } => drop(reply.send(())),
            LogMessage::Search { reply, .. } => drop(reply.send(Err(SearchLogError::Unavailable))),
            LogMessage::Internal(_) => {}
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_of_the_embedders_keeps_the_promises_that_are_not_about_a_rolling_tail() {
    let service = actor(|arguments| (VectorLog, arguments));
    conformance::log::what_was_appended_is_read_from_every_offset(&service).await;
    conformance::log::what_waits_is_read_as_if_it_were_written(&service).await;
    conformance::log::one_stream_can_be_read_alone(&service).await;
    conformance::log::the_feed_is_emptied_in_small_and_in_large(&service).await;
    conformance::log::a_closed_log_can_be_read_and_is_closed_once(&service).await;
    conformance::log::what_was_asked_for_is_settled(&service).await;
    conformance::log::a_removed_log_is_gone(&service).await;
    conformance::log::a_log_that_was_never_made_is_none(&service).await;
    conformance::log::one_log_whose_disk_stands_still_stops_no_other(&service).await;
    conformance::log::a_disk_that_fails_is_told_and_never_waited_for(&service).await;
}

#[tokio::test(start_paused = true)]
async fn the_suite_finds_a_log_without_a_tail() {
    let service = actor(|arguments| (VectorLog, arguments));
    let found = tokio::spawn(async move {
        conformance::log::kept_and_dropped_make_the_total_across_the_cap(&service).await;
    });
    assert!(
        found.await.is_err_and(|error| error.is_panic()),
        "the suite cannot fail"
    );
}

#[tokio::test(start_paused = true)]
async fn sessions_log_into_a_log_of_the_embedders() {
    let slot = Slot::supervised(actor(|arguments| (VectorLog, arguments)));
    let harness = Harness::builder().log_slot(slot).start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(StreamId::Stdout, "logged elsewhere");
    session.process.exit(0);
    assert!(session.until_ended().await.log.is_complete());
    let page = session
        .client
        .read_log(session.id, fixture::log_page(7, 100))
        .await
        .unwrap();
    assert_eq!(&page.runs[0].bytes[..], b"elsewhere");
}

/// A session with messages of its own around one of ours.
struct DecoratedSession(SessionActor);

#[derive(Debug)]
enum DecoratedMessage {
    Ours(SessionMessage),
    #[expect(dead_code, reason = "a message that only the embedder sends")]
    Blink,
}

procession_actors::local_message!(DecoratedMessage);

impl From<SessionMessage> for DecoratedMessage {
    fn from(message: SessionMessage) -> Self {
        Self::Ours(message)
    }
}

impl TryFrom<DecoratedMessage> for SessionMessage {
    type Error = ();

    fn try_from(message: DecoratedMessage) -> Result<Self, ()> {
        match message {
            DecoratedMessage::Ours(message) => Ok(message),
            DecoratedMessage::Blink => Err(()),
        }
    }
}

/// The decorated session's own, and the actor of ours behind it.
struct Decorated {
    ours: ActorRef<SessionMessage>,
}

impl Actor for DecoratedSession {
    type Msg = DecoratedMessage;
    type State = Decorated;
    type Arguments = SessionArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<DecoratedMessage>,
        arguments: SessionArguments,
    ) -> Result<Decorated, ActorProcessingErr> {
        let _ = &self.0;
        let (ours, _) =
            Actor::spawn_linked(None, SessionActor::default(), arguments, myself.get_cell()).await?;
        Ok(Decorated { ours })
    }

    async fn handle(
        &self,
        _: ActorRef<DecoratedMessage>,
        message: DecoratedMessage,
        state: &mut Decorated,
    ) -> Result<(), ActorProcessingErr> {
        if let DecoratedMessage::Ours(message) = message {
            state.ours.cast(message)?;
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<DecoratedMessage>,
        event: SupervisionEvent,
        _: &mut Decorated,
    ) -> Result<(), ActorProcessingErr> {
        if !matches!(event, SupervisionEvent::ActorStarted(_)) {
            myself.stop(Some("the session behind it ended".to_owned()));
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_with_messages_of_its_own_passes_the_suite() {
    let service: conformance::session::Service = Arc::new(actor(|arguments| {
        (DecoratedSession(SessionActor::default()), arguments)
    }));
    conformance::session::all(&service).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_never_answers_is_one_refused_start_and_stops_nobody() {
    let policy = Probe::<PolicyMessage>::start().await;
    let harness = Harness::builder()
        .policy_slot(Slot::External(policy.derived()))
        .start()
        .await;
    let began = Instant::now();
    let start = tokio::spawn({
        let client = harness.client("alice");
        async move { client.start(fixture::spec()).await }
    });
    harness.settle().await;
    assert_eq!(
        harness.client("alice").list(ListFilter::All).await,
        Ok(Vec::new())
    );
    assert_eq!(
        began.elapsed(),
        Duration::ZERO,
        "the registry waited for the policy"
    );
    assert_eq!(
        start.await.unwrap(),
        Err(StartError::PolicyUnavailable { waited: POLICY_BOUND })
    );
    assert_eq!((began.elapsed(), harness.port().asked()), (POLICY_BOUND, 0));
}

#[tokio::test(start_paused = true)]
async fn an_external_policy_that_is_gone_refuses_starts_and_harms_no_session() {
    let scripted = Probe::<PolicyMessage>::scripted(|message| {
        if let PolicyMessage::Decide { request, reply } = message {
            let _ = reply.send(fixture::decision(request.session, &request.owner, request.limits));
        }
        None
    });
    let policy = scripted.await;
    let harness = Harness::builder()
        .policy_slot(Slot::External(policy.derived()))
        .start()
        .await;
    let session = harness.start_session(fixture::spec()).await;
    drop(policy);
    harness.settle().await;
    let refused = harness.client("alice").start(fixture::spec()).await;
    assert!(
        matches!(refused, Err(StartError::PolicyUnavailable { .. })),
        "{refused:?}"
    );
    session.process.exit(0);
    assert!(session.until_ended().await.outcome.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_decision_about_somebody_else_starts_nothing_under_their_name() {
    let other = fixture::owner("bob");
    let policy = Probe::<PolicyMessage>::scripted(move |message| {
        if let PolicyMessage::Decide { reply, .. } = message {
            let _ = reply.send(fixture::decision(fixture::session_id(1), &other, BTreeMap::new()));
        }
        None
    })
    .await;
    let harness = Harness::builder()
        .policy_slot(Slot::External(policy.derived()))
        .start()
        .await;
    let started = harness.client("alice").start(fixture::spec()).await;
    assert_eq!(harness.client("bob").list(ListFilter::All).await, Ok(Vec::new()));
    if let Ok(started) = started {
        assert_ne!(started.session, fixture::session_id(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_never_answers_costs_a_bound_and_nothing_else() {
    let log = Probe::<LogMessage>::start().await;
    let harness = Harness::builder()
        .log_slot(Slot::External(log.derived()))
        .start()
        .await;
    let began = Instant::now();
    let session = harness.start_session(fixture::spec()).await;
    assert_eq!(began.elapsed(), LOG_OPEN_BOUND);
    session.process.emit(StreamId::Stdout, "kept in memory");
    session.process.exit(0);
    let report = session.until_ended().await;
    assert_eq!(report.stdout, "kept in memory");
    assert!(report.log.incomplete.is_some() && !report.log.is_complete());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_opens_and_then_falls_silent_keeps_no_end_back() {
    let log = Probe::<LogMessage>::scripted(|message| match message {
        LogMessage::Open { reply, .. } => {
            let _ = reply.send(Ok(OpenedLog {
                feed: LogFeed::default(),
                path: None,
            }));
            None
        }
        message => Some(message),
    })
    .await;
    let harness = Harness::builder()
        .log_slot(Slot::External(log.derived()))
        .start()
        .await;
    let session = harness.start_session(fixture::spec()).await;
    let megabyte = vec![b'x'; 1 << 20];
    for _ in 0..5 {
        session.process.emit(StreamId::Stdout, megabyte.clone());
    }
    session.process.exit(0);
    let report = session.until_ended().await;
    assert_eq!(
        report.outcome.unwrap().output_bytes,
        5 << 20,
        "all of it was read"
    );
    assert!(!report.log.is_complete());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_drops_questions_or_never_answers_keeps_no_other_from_its_answers() {
    let harness = Harness::builder()
        .session_slot(actor(|arguments: SessionArguments| {
            let is_rude = arguments.owner == fixture::owner("rude");
            let session =
                Intercepted::new(
                    SessionActor::default(),
                    move |message: &SessionMessage| match message {
                        SessionMessage::Poll { .. } if is_rude => Verdict::Drop,
                        SessionMessage::Inspect { .. } if is_rude => {
                            Verdict::Hold(procession_testkit::Gate::closed())
                        }
                        _ => Verdict::Handle,
                    },
                );
            (session, arguments)
        }))
        .start()
        .await;
    let rude = harness.start_session_as("rude", fixture::spec()).await;
    let polite = harness.start_session(fixture::spec()).await;
    let dropped = rude.client.poll(rude.id, PollQuery::now()).await;
    assert_eq!(dropped, Err(PollError::Call(CallError::SessionLost)));
    let silent = tokio::spawn({
        let rude = rude.clone();
        async move { rude.client.inspect(rude.id).await }
    });
    harness.settle().await;
    let began = Instant::now();
    polite.process.emit(StreamId::Stdout, "x");
    assert_eq!(polite.poll(fixture::long_poll()).await.stdout, "x");
    assert_eq!(rude.client.list(ListFilter::All).await.unwrap().len(), 1);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(!silent.is_finished());
    // What never answers can be got rid of all the same.
    let Owner { .. } = fixture::owner("rude");
    harness.into_system().shutdown(None, Duration::from_secs(5)).await;
    rude.process.killed().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_actor_that_does_not_come_up_is_a_failed_start_and_a_free_place() {
    let harness = Harness::builder()
        .session_slot(|_: SessionArguments, _: ractor::ActorCell| async {
            Err(ractor::SpawnErr::StartupFailed("no room".into()))
        })
        .start()
        .await;
    let client = harness.client("alice");
    for _ in 0..100 {
        assert_eq!(
            client.start(fixture::spec()).await,
            Err(StartError::Call(CallError::SessionLost))
        );
    }
    assert_eq!(client.list(ListFilter::All).await, Ok(Vec::new()));
}
