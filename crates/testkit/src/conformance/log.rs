//! What is promised by a log.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use procession_actors::{
    LogArguments, LogMessage, SpawnActor,
    error::ReadLogError,
    log::{BATCH_BYTES, FeedRun, LogSpec, OpenedLog, Visibility, Wake},
    report::{LogPage, LogQuery, LogSummary},
};
use procession_core::{LogMode, SessionId, StreamId};

use super::{UnderTest, at_once};
use crate::{FaultyStorage, Operation, fixture, patience::expect};

/// All claims, one after the other.
///
/// # Panics
/// At the first promise that is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn all(service: &impl SpawnActor<LogArguments, LogMessage>) {
    what_was_appended_is_read_from_every_offset(service).await;
    what_waits_is_read_as_if_it_were_written(service).await;
    one_stream_can_be_read_alone(service).await;
    the_feed_is_emptied_in_small_and_in_large(service).await;
    kept_and_dropped_make_the_total_across_the_cap(service).await;
    a_closed_log_can_be_read_and_is_closed_once(service).await;
    what_was_asked_for_is_settled(service).await;
    a_removed_log_is_gone(service).await;
    a_log_that_was_never_made_is_none(service).await;
    one_log_whose_disk_stands_still_stops_no_other(service).await;
    a_disk_that_fails_is_told_and_never_waited_for(service).await;
}

async fn start(
    service: &impl SpawnActor<LogArguments, LogMessage>,
) -> (UnderTest<LogMessage>, FaultyStorage) {
    let storage = FaultyStorage::in_memory();
    let arguments = LogArguments {
        storage: Arc::new(storage.clone()),
        dir: "/logs".into(),
        visibility: Visibility::Hidden,
        max_log_bytes_total: None,
        min_free_disk_bytes: None,
    };
    (UnderTest::start(service, arguments).await, storage)
}

impl UnderTest<LogMessage> {
    async fn open(&self, session: SessionId, cap_bytes: u64, mode: LogMode) -> OpenedLog {
        let spec = Box::new(LogSpec {
            session,
            cap_bytes,
            mode,
            header: b"header".to_vec(),
        });
        match self.ask("a log", |reply| LogMessage::Open { spec, reply }).await {
            Ok(opened) => opened,
            Err(error) => panic!("the log was not made: {error}"),
        }
    }

    async fn open_large(&self, session: SessionId) -> OpenedLog {
        self.open(session, 32 << 20, LogMode::Rolling).await
    }

    /// As a session does: into the feed, and a word where one is needed.
    fn push(&self, session: SessionId, log: &OpenedLog, stream: StreamId, bytes: impl Into<Bytes>) {
        if log.feed.push(FeedRun {
            stream,
            time_ms: 1,
            bytes: bytes.into(),
        }) == Wake::Needed
        {
            self.tell(LogMessage::Ready { session });
        }
    }

    async fn read(&self, session: SessionId, query: LogQuery) -> Result<LogPage, ReadLogError> {
        self.ask("a page", |reply| LogMessage::Read {
            session,
            query,
            reply,
        })
        .await
    }

    async fn page(&self, session: SessionId, offset: u64, max_bytes: u64) -> LogPage {
        match self.read(session, fixture::log_page(offset, max_bytes)).await {
            Ok(page) => page,
            Err(error) => panic!("the log cannot be read at {offset}: {error}"),
        }
    }

    /// Everything that is kept, and how much is missing.
    async fn read_all(&self, session: SessionId) -> (Vec<u8>, u64) {
        let (mut offset, mut bytes, mut missing) = (0, Vec::new(), 0);
        loop {
            let page = self.page(session, offset, 1 << 20).await;
            if let Some(gap) = page.gap {
                missing += gap.to - gap.from;
            }
            bytes.extend(text(&page));
            if page.at_end {
                return (bytes, missing);
            }
            assert!(
                page.next_offset > offset,
                "a read that makes no progress at {offset}"
            );
            offset = page.next_offset;
        }
    }

    async fn close(&self, session: SessionId) -> LogSummary {
        let end_record = b"end".to_vec();
        self.ask("the end of a log", |reply| LogMessage::Close {
            session,
            end_record,
            reply,
        })
        .await
    }
}

fn text(page: &LogPage) -> Vec<u8> {
    page.runs.iter().flat_map(|run| run.bytes.to_vec()).collect()
}

fn pattern(from: u64, bytes: u64) -> Vec<u8> {
    (from..from + bytes)
        .map(|offset| u8::try_from(offset % 251).unwrap_or_default())
        .collect()
}

/// What was appended is read back from every offset, byte for byte, with its stream, and the offsets go on.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn what_was_appended_is_read_from_every_offset(
    service: &impl SpawnActor<LogArguments, LogMessage>,
) {
    let (log, _storage) = start(service).await;
    let session = fixture::session_id(1);
    let opened = log.open_large(session).await;
    let all = pattern(0, 600);
    for (number, piece) in all.chunks(100).enumerate() {
        log.push(session, &opened, StreamId::ALL[number % 2], piece.to_vec());
    }
    for offset in 0..600_usize {
        let page = log.page(session, offset as u64, 150).await;
        let read = text(&page);
        assert!(
            !read.is_empty() && all[offset..].starts_with(&read),
            "at {offset}"
        );
        assert_eq!(page.next_offset, (offset + read.len()) as u64);
        assert_eq!((page.total_bytes, page.gap, page.beyond_end), (600, None, false));
        assert_eq!(page.at_end, page.next_offset == 600);
        for run in &page.runs {
            let number = usize::try_from(run.offset / 100).unwrap_or_default();
            assert_eq!(
                run.stream,
                StreamId::ALL[number % 2],
                "the stream at {}",
                run.offset
            );
        }
    }
    let page = log.page(session, 600, 10).await;
    assert!(page.runs.is_empty() && page.at_end && !page.beyond_end);
    let page = log.page(session, 601, 10).await;
    assert!(page.runs.is_empty() && page.beyond_end);
}

/// A page that reaches into what still waits has it, without waiting for the writer's own time.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn what_waits_is_read_as_if_it_were_written(service: &impl SpawnActor<LogArguments, LogMessage>) {
    let (log, _storage) = start(service).await;
    let session = fixture::session_id(1);
    let opened = log.open_large(session).await;
    for round in 0..50_u64 {
        log.push(session, &opened, StreamId::Stdout, pattern(round * 10, 10));
        let page = log.page(session, round * 10, 10).await;
        assert_eq!(text(&page), pattern(round * 10, 10), "round {round}");
    }
}

/// A query for one stream gets its bytes alone.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn one_stream_can_be_read_alone(service: &impl SpawnActor<LogArguments, LogMessage>) {
    let (log, _storage) = start(service).await;
    let session = fixture::session_id(1);
    let opened = log.open_large(session).await;
    for _ in 0..3 {
        log.push(session, &opened, StreamId::Stdout, "out");
        log.push(session, &opened, StreamId::Stderr, "error");
    }
    for (stream, expected) in [
        (StreamId::Stdout, "outoutout"),
        (StreamId::Stderr, "errorerrorerror"),
    ] {
        let query = LogQuery {
            offset: 0,
            max_bytes: 1_000,
            stream: Some(stream),
        };
        let page = log.read(session, query).await.map(|page| text(&page));
        assert_eq!(page.as_deref(), Ok(expected.as_bytes()), "{stream}");
    }
}

/// The feed is emptied without anybody reading, whether much waits or little.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn the_feed_is_emptied_in_small_and_in_large(service: &impl SpawnActor<LogArguments, LogMessage>) {
    let (log, _storage) = start(service).await;
    let session = fixture::session_id(1);
    let opened = log.open_large(session).await;
    for bytes in [1, 100, BATCH_BYTES, 5 * BATCH_BYTES, 1] {
        log.push(session, &opened, StreamId::Stdout, vec![b'x'; bytes]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            opened.feed.waiting_bytes(),
            0,
            "{bytes} bytes still wait a second later"
        );
    }
    let status = opened.feed.status();
    assert_eq!((status.kept_bytes, status.dropped_bytes), (status.total_bytes, 0));
}

/// Across the cap, what is kept and what is dropped are exactly what was written, and gaps say so.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn kept_and_dropped_make_the_total_across_the_cap(
    service: &impl SpawnActor<LogArguments, LogMessage>,
) {
    for (number, mode) in [LogMode::Rolling, LogMode::KeepHead].into_iter().enumerate() {
        let (log, _storage) = start(service).await;
        let session = fixture::session_id(number as u64);
        let opened = log.open(session, 256 << 10, mode).await;
        let total = 1 << 20;
        for from in (0..total).step_by(16 << 10) {
            log.push(session, &opened, StreamId::Stdout, pattern(from, 16 << 10));
        }
        let summary = log.close(session).await;
        assert_eq!(summary.total_bytes, total, "{mode:?}");
        assert_eq!(summary.kept_bytes + summary.dropped_bytes, total, "{mode:?}");
        assert!(
            summary.kept_bytes > 0 && summary.kept_bytes <= 256 << 10,
            "{mode:?}: {summary:?}"
        );
        assert!(summary.incomplete.is_some(), "{mode:?}");
        let (bytes, _) = log.read_all(session).await;
        assert_eq!(
            bytes.len() as u64,
            summary.kept_bytes,
            "{mode:?}: what is called kept can be read"
        );
        let page = log.page(session, 0, 1_000).await;
        assert_eq!(
            text(&page),
            pattern(0, 1_000),
            "{mode:?}: the head is kept for ever"
        );
        for offset in (0..total).step_by(10_007) {
            let page = log.page(session, offset, 10).await;
            match (page.runs.first(), page.gap) {
                (Some(run), gap) => {
                    let start = gap.map_or(offset, |gap| gap.to);
                    assert_eq!(run.offset, start, "{mode:?}");
                    assert!(
                        pattern(run.offset, 10).starts_with(&run.bytes),
                        "{mode:?} at {offset}"
                    );
                }
                (None, Some(gap)) => assert!(
                    gap.from <= offset && offset < gap.to,
                    "{mode:?}: {gap:?} at {offset}"
                ),
                (None, None) => assert!(page.at_end, "{mode:?}: nothing at {offset}, and no word why"),
            }
        }
        if mode == LogMode::Rolling {
            let page = log.page(session, total - 100, 100).await;
            assert_eq!(text(&page), pattern(total - 100, 100), "the end is kept");
        }
    }
}

/// A closed log can be read; closing it again answers the same.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_closed_log_can_be_read_and_is_closed_once(
    service: &impl SpawnActor<LogArguments, LogMessage>,
) {
    let (log, _storage) = start(service).await;
    let session = fixture::session_id(1);
    let opened = log.open_large(session).await;
    log.push(session, &opened, StreamId::Stdout, "all of it");
    let summary = log.close(session).await;
    assert!(summary.is_complete());
    assert_eq!(
        (summary.total_bytes, summary.kept_bytes),
        (9, 9),
        "what waited was written first"
    );
    assert_eq!(log.close(session).await, summary);
    assert_eq!(text(&log.page(session, 0, 100).await), b"all of it");
}

/// Who asks for all to be settled is answered, after a close that was asked for before and not before it is done.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn what_was_asked_for_is_settled(service: &impl SpawnActor<LogArguments, LogMessage>) {
    let (log, _storage) = start(service).await;
    log.ask("nothing to settle", |reply| LogMessage::Settle { reply })
        .await;
    let session = fixture::session_id(1);
    let opened = log.open_large(session).await;
    log.push(session, &opened, StreamId::Stdout, "settled");
    let (reply, closed) = tokio::sync::oneshot::channel();
    log.tell(LogMessage::Close {
        session,
        end_record: b"end".to_vec(),
        reply: reply.into(),
    });
    log.ask("all to be settled", |reply| LogMessage::Settle { reply })
        .await;
    let summary = at_once("the end of the log", closed).await;
    assert!(
        summary.is_ok_and(|summary| summary.is_complete()),
        "settled before it was closed"
    );
}

/// A removed log is gone, also while it is written.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_removed_log_is_gone(service: &impl SpawnActor<LogArguments, LogMessage>) {
    let (log, _storage) = start(service).await;
    for (number, is_closed) in [true, false].into_iter().enumerate() {
        let session = fixture::session_id(number as u64);
        let opened = log.open_large(session).await;
        log.push(session, &opened, StreamId::Stdout, "soon gone");
        if is_closed {
            log.close(session).await;
        }
        log.tell(LogMessage::Remove { session });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            log.read(session, fixture::log_page(0, 10)).await,
            Err(ReadLogError::NoLog)
        );
        if !is_closed {
            assert!(
                opened.feed.given_up().is_some(),
                "the session's feed would fill up"
            );
        }
    }
}

/// A log that was never made is none, and the word that something waits in it harms nobody.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_log_that_was_never_made_is_none(service: &impl SpawnActor<LogArguments, LogMessage>) {
    let (log, _storage) = start(service).await;
    let session = fixture::session_id(1);
    log.tell(LogMessage::Ready { session });
    log.tell(LogMessage::Remove { session });
    assert_eq!(
        log.read(session, fixture::log_page(0, 10)).await,
        Err(ReadLogError::NoLog)
    );
    let summary = log.close(session).await;
    assert!(
        summary.incomplete.is_some() && summary.kept_bytes == 0,
        "{summary:?}"
    );
}

/// While the disk stands still under one log, others are made and read, and nothing waits but the one.
///
/// A log that has no disk of ours has nothing to show here.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn one_log_whose_disk_stands_still_stops_no_other(
    service: &impl SpawnActor<LogArguments, LogMessage>,
) {
    let (log, storage) = start(service).await;
    let (stuck, other) = (fixture::session_id(1), fixture::session_id(2));
    let opened = log.open_large(stuck).await;
    let others = log.open_large(other).await;
    log.push(other, &others, StreamId::Stdout, "readable");
    log.close(other).await;
    if storage.writes() == 0 {
        return;
    }
    let hold = storage.hold(Operation::Write);
    log.push(stuck, &opened, StreamId::Stdout, vec![b'x'; BATCH_BYTES]);
    hold.reached().await;
    assert_eq!(text(&log.page(other, 0, 100).await), b"readable");
    drop(hold);
    let summary = log.close(stuck).await;
    assert!(summary.is_complete(), "{summary:?}");
}

/// A disk that fails ends the log with a reason; the feed goes on being emptied, and what is kept can be read.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_disk_that_fails_is_told_and_never_waited_for(
    service: &impl SpawnActor<LogArguments, LogMessage>,
) {
    let (log, storage) = start(service).await;
    let session = fixture::session_id(1);
    let opened = log.open_large(session).await;
    log.push(session, &opened, StreamId::Stdout, pattern(0, 1_000));
    assert_eq!(text(&log.page(session, 0, 1_000).await), pattern(0, 1_000));
    if storage.writes() == 0 {
        return;
    }
    storage.fail_writes_from(0, std::io::ErrorKind::StorageFull);
    for from in (1_000..1_000_000).step_by(1_000) {
        log.push(session, &opened, StreamId::Stdout, pattern(from, 1_000));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(opened.feed.waiting_bytes(), 0, "nobody takes what waits");
    let summary = expect("the end", log.close(session)).await;
    assert_eq!(summary.kept_bytes + summary.dropped_bytes, summary.total_bytes);
    assert_eq!(summary.total_bytes, 1_000_000);
    let Some(incomplete) = &summary.incomplete else {
        panic!("no word of the failure")
    };
    assert!(incomplete.from_offset >= 1_000 && !incomplete.reason.is_empty());
    assert_eq!(text(&log.page(session, 0, 1_000).await), pattern(0, 1_000));
}
