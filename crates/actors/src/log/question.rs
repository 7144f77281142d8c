//! What is asked about a log's content, answered by a job on a blocking thread.

use procession_core::StreamId;
use procession_log_store::{LogReader, Offset, SearchError, SearchLimits, SearchPattern};
use ractor::RpcReplyPort;

use super::{SEARCH_BOUND, SEARCH_BYTES, page, with_sources};
use crate::{
    clock::Stopwatch,
    error::{ReadLogError, SearchLogError},
    report::{LogMatch, LogMatches, LogPage, LogPattern, LogQuery, LogSearch},
};

/// A question with its reply.
#[derive(Debug)]
pub(super) enum Question {
    Read {
        query: LogQuery,
        reply: RpcReplyPort<Result<LogPage, ReadLogError>>,
    },
    Search {
        search: LogSearch,
        reply: RpcReplyPort<Result<LogMatches, SearchLogError>>,
    },
}

impl Question {
    /// The first offset that does not matter for the answer.
    pub(super) const fn end(&self) -> u64 {
        match self {
            Self::Read { query, .. } => query.offset.saturating_add(query.max_bytes),
            Self::Search { .. } => u64::MAX,
        }
    }

    /// Answers it; takes its time.
    pub(super) fn answer(self, reader: &LogReader) {
        // A caller that gave up is nobody's failure.
        match self {
            Self::Read { query, reply } => drop(reply.send(page::read(reader, query))),
            Self::Search { search, reply } => {
                if !reply.is_closed() {
                    drop(reply.send(self::search(reader, &search)));
                }
            }
        }
    }

    pub(super) fn refuse_without_log(self) {
        match self {
            Self::Read { reply, .. } => drop(reply.send(Err(ReadLogError::NoLog))),
            Self::Search { reply, .. } => drop(reply.send(Err(SearchLogError::NoLog))),
        }
    }
}

fn search(reader: &LogReader, search: &LogSearch) -> Result<LogMatches, SearchLogError> {
    let pattern = match &search.pattern {
        LogPattern::Literal(text) => SearchPattern::literal(text.as_bytes()),
        LogPattern::Regex(pattern) => SearchPattern::regex(pattern),
    }
    .map_err(refused)?;
    let limits = SearchLimits {
        // None would not get on.
        max_matches: usize::try_from(search.max_matches).unwrap_or(usize::MAX).max(1),
        context_bytes: usize::try_from(search.context_bytes).unwrap_or(usize::MAX),
        max_scan_bytes: SEARCH_BYTES,
    };
    let stopwatch = Stopwatch::start();
    let page = reader
        .search(&pattern, Offset::new(search.from_offset), limits, || {
            stopwatch.elapsed() < SEARCH_BOUND
        })
        .map_err(refused)?;
    Ok(LogMatches {
        matches: page
            .matches
            .into_iter()
            .map(|found| LogMatch {
                offset: found.offset.get(),
                stream: StreamId::try_from(found.stream.get()).unwrap_or(StreamId::Stdout),
                text: found.text,
                range: found.range,
            })
            .collect(),
        next_offset: page.next_offset.get(),
        at_end: page.at_end,
    })
}

fn refused(error: SearchError) -> SearchLogError {
    match error {
        SearchError::Read { source } => SearchLogError::Failed {
            reason: with_sources(&source),
        },
        SearchError::BadPattern { source } => SearchLogError::BadPattern {
            // The last line says what is wrong, those before it show where.
            reason: source
                .to_string()
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned(),
        },
        other => SearchLogError::BadPattern {
            reason: other.to_string(),
        },
    }
}
