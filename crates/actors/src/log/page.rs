//! A page of the store as a page of the façade.

use procession_core::StreamId;
use procession_log_store::{LogReader, Offset, Page, StreamTag};

use super::with_sources;
use crate::{
    error::ReadLogError,
    report::{LogGap, LogPage, LogQuery, LogRun},
};

pub(super) fn read(reader: &LogReader, query: LogQuery) -> Result<LogPage, ReadLogError> {
    let offset = Offset::new(query.offset);
    let max_bytes = usize::try_from(query.max_bytes).unwrap_or(usize::MAX);
    let page = match query.stream {
        Some(stream) => reader.read_stream(offset, max_bytes, StreamTag::new(stream.tag())),
        None => reader.read(offset, max_bytes),
    };
    page.map(to_page).map_err(|error| ReadLogError::Failed {
        reason: with_sources(&error),
    })
}

fn to_page(page: Page) -> LogPage {
    LogPage {
        runs: page
            .runs
            .into_iter()
            .map(|run| LogRun {
                offset: run.offset.get(),
                // A tag that is none of ours can only stand in a log that others wrote.
                stream: StreamId::try_from(run.stream.get()).unwrap_or(StreamId::Stdout),
                time_ms: run.time_ms,
                bytes: run.bytes,
            })
            .collect(),
        next_offset: page.next_offset.get(),
        total_bytes: page.total_bytes,
        at_end: page.at_end,
        gap: page.gap.map(|gap| LogGap {
            from: gap.from.get(),
            to: gap.to.get(),
        }),
        beyond_end: page.beyond_end.is_some(),
    }
}
