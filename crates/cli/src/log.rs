//! `procession log`: reads, follows, searches and verifies a session's log from its files.

use std::{
    io::{self, Write},
    sync::Arc,
    thread,
    time::Duration,
};

use procession_actors::report::{LogGap, LogPage, LogRun};
use procession_core::{StreamId, text::TextEnd};
use procession_log_store::{
    FileStorage, LogReader, MAX_PAGE_BYTES, Match, Offset, Page, SearchLimits, SearchPattern, StreamTag,
    VerifyReport, WriteEnd, verify,
};
use procession_mcp::json::{log_page_base64, log_page_text};
use serde_json::{Value, json};

use crate::{
    cli::LogOptions,
    error::{CommandError, tell_line},
    output::{print, print_json},
    run::exit_code::BROKEN_PIPE,
    state::{self, Host},
};

/// How often a log that is followed is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The exit code when nothing was found, or not all is well.
const NO: u8 = 1;

/// Reads a log as the options say.
///
/// # Errors
/// When there is no log, or it cannot be read on.
pub(crate) fn log(options: &LogOptions) -> Result<u8, CommandError> {
    let failed = |source| CommandError::Log {
        path: options.file.clone(),
        source,
    };
    if options.verify {
        return verified(
            &verify(Arc::new(FileStorage::new()), &options.file).map_err(failed)?,
            options,
        );
    }
    let reader = LogReader::open(Arc::new(FileStorage::new()), &options.file).map_err(failed)?;
    let reading = Reading {
        reader,
        options,
        stream: options
            .stream
            .map(|stream| StreamTag::new(StreamId::from(stream).tag())),
    };
    match &options.search {
        Some(pattern) => reading.search(&SearchPattern::regex(pattern)?),
        None => reading.read(),
    }
}

struct Reading<'o> {
    reader: LogReader,
    options: &'o LogOptions,
    stream: Option<StreamTag>,
}

impl Reading<'_> {
    fn read(&self) -> Result<u8, CommandError> {
        let mut out = io::stdout().lock();
        let mut offset = Offset::new(self.options.offset);
        let mut left_bytes = self.options.limit.unwrap_or(u64::MAX);
        while left_bytes > 0 {
            let page_bytes = usize::try_from(left_bytes)
                .unwrap_or(MAX_PAGE_BYTES)
                .min(MAX_PAGE_BYTES);
            let mut page = match self.stream {
                Some(stream) => self.reader.read_stream(offset, page_bytes, stream)?,
                None => self.reader.read(offset, page_bytes)?,
            };
            if self.options.json {
                page = page.ending_at_character();
            }
            left_bytes = left_bytes.saturating_sub(page.payload_bytes());
            offset = page.next_offset;
            match self.write(&page, &mut out) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(BROKEN_PIPE),
                written => written.map_err(|source| CommandError::Output { source })?,
            }
            if page.at_end && !self.comes_more(offset)? {
                break;
            }
        }
        Ok(0)
    }

    fn write(&self, page: &Page, out: &mut impl Write) -> io::Result<()> {
        if self.options.json {
            let is_empty = page.runs.is_empty() && page.gap.is_none();
            // A page that says nothing is told at the end alone; while following, not at each look.
            if !is_empty || (page.at_end && !self.options.follow) {
                writeln!(out, "{}", page_value(page))?;
            }
            return out.flush();
        }
        if let Some(gap) = page.gap {
            tell_line(&format!(
                "procession: bytes {} to {} are not in the log",
                gap.from, gap.to
            ));
        }
        for run in &page.runs {
            out.write_all(&run.bytes)?;
        }
        out.flush()
    }

    /// Waits for more, where that is asked for and can come.
    fn comes_more(&self, offset: Offset) -> Result<bool, CommandError> {
        if !self.options.follow {
            return Ok(false);
        }
        loop {
            // Seen before the look: a host that was alive then may have written until then.
            let host = state::host_of_log(&self.options.file);
            self.reader.refresh().map_err(|source| CommandError::Log {
                path: self.options.file.clone(),
                source,
            })?;
            let status = self.reader.status();
            if status.total_bytes > offset.get() {
                return Ok(true);
            }
            let is_over = status.write_end != WriteEnd::NotRecorded && status.write_end != WriteEnd::Open;
            if is_over || host == Some(Host::Dead) {
                return Ok(false);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Prints the matches, one a line; the exit code tells whether there were any, as that of `grep` does.
    fn search(&self, pattern: &SearchPattern) -> Result<u8, CommandError> {
        let mut found = Vec::new();
        let mut from = Offset::new(self.options.offset);
        let end = self
            .options
            .limit
            .map_or(u64::MAX, |limit| self.options.offset.saturating_add(limit));
        let mut any = false;
        while from.get() < end {
            let page = self
                .reader
                .search(pattern, from, SearchLimits::default(), || true)?;
            let is_wanted = |found: &Match| {
                found.offset.get() < end && self.stream.is_none_or(|stream| stream == found.stream)
            };
            found.extend(page.matches.into_iter().filter(is_wanted));
            any |= !found.is_empty();
            let code = print(|out| {
                found
                    .drain(..)
                    .try_for_each(|found| self.write_match(&found, out))
            })?;
            if code != 0 {
                return Ok(code);
            }
            if page.at_end || page.next_offset <= from {
                break;
            }
            from = page.next_offset;
        }
        Ok(if any { 0 } else { NO })
    }

    fn write_match(&self, found: &Match, out: &mut impl Write) -> io::Result<()> {
        let stream = stream_name(found.stream);
        if self.options.json {
            let text = String::from_utf8_lossy(&found.text);
            let value = json!({ "offset": found.offset.get(), "stream": stream, "text": text });
            return writeln!(out, "{value}");
        }
        write!(out, "{}:{stream}:", found.offset)?;
        out.write_all(line_of(found))?;
        writeln!(out)
    }
}

/// The line that the match begins in, as far as it is in the text.
fn line_of(found: &Match) -> &[u8] {
    let (before, behind) = found.text.split_at(found.range.start.min(found.text.len()));
    let begin = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at.saturating_add(1));
    let end = behind
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(behind.len());
    found
        .text
        .get(begin..before.len().saturating_add(end))
        .unwrap_or_default()
}

fn stream_name(stream: StreamTag) -> String {
    StreamId::try_from(stream.get())
        .map_or_else(|unknown| format!("stream {}", unknown.tag), |id| id.to_string())
}

/// A page as `session_read_log` has it: as text where all of it is text, else in base 64.
fn page_value(page: &Page) -> Value {
    let runs = page.runs.iter().map(|run| LogRun {
        offset: run.offset.get(),
        stream: StreamId::try_from(run.stream.get()).unwrap_or(StreamId::Stdout),
        time_ms: run.time_ms,
        bytes: run.bytes.clone(),
    });
    let page = LogPage {
        runs: runs.collect(),
        next_offset: page.next_offset.get(),
        total_bytes: page.total_bytes,
        at_end: page.at_end,
        gap: page.gap.map(|gap| LogGap {
            from: gap.from.get(),
            to: gap.to.get(),
        }),
        beyond_end: page.beyond_end.is_some(),
    };
    if page
        .runs
        .iter()
        .all(|run| std::str::from_utf8(&run.bytes).is_ok())
    {
        return log_page_text(&page, u64::MAX, TextEnd::Closed).value;
    }
    log_page_base64(&page)
}

/// Prints what a check of every byte found; the exit code is 0 when the log is as its writer left it.
fn verified(report: &VerifyReport, options: &LogOptions) -> Result<u8, CommandError> {
    let (recovery, status) = (&report.recovery, &report.status);
    let unverified_bytes = recovery.unverified.map_or(0, |unverified| unverified.bytes);
    let damage: Vec<Value> = recovery
        .damage
        .iter()
        .map(|damage| json!({ "segment_offset": damage.segment.get(), "offset": damage.at.get() }))
        .collect();
    let has_end = matches!(recovery.end_record, procession_log_store::EndRecordState::Present);
    let code = if options.json {
        print_json(&json!({
            "clean": report.is_clean(),
            "format_version": report.header.version,
            "total_bytes": status.total_bytes,
            "kept_bytes": status.kept_bytes,
            "dropped_bytes": status.dropped_bytes,
            "verified_bytes": recovery.verified_bytes,
            "unverified_bytes": unverified_bytes,
            "missing_bytes": recovery.missing_bytes,
            "cut_index_bytes": recovery.cut_index_bytes,
            "records": recovery.records,
            "segments": recovery.segments,
            "end_record": has_end,
            "damage": damage,
        }))?
    } else {
        print(|out| {
            writeln!(out, "{}", if report.is_clean() { "clean" } else { "not clean" })?;
            writeln!(
                out,
                "written     {} bytes, {} kept",
                status.total_bytes, status.kept_bytes
            )?;
            writeln!(
                out,
                "verified    {} bytes in {} records",
                recovery.verified_bytes, recovery.records
            )?;
            writeln!(out, "end record  {}", if has_end { "there" } else { "none" })?;
            if unverified_bytes > 0 {
                writeln!(
                    out,
                    "unverified  {unverified_bytes} bytes behind the last good record"
                )?;
            }
            if recovery.cut_index_bytes > 0 {
                writeln!(out, "cut         {} bytes of the index", recovery.cut_index_bytes)?;
            }
            if recovery.missing_bytes > 0 {
                writeln!(out, "missing     {} bytes", recovery.missing_bytes)?;
            }
            for damage in &recovery.damage {
                writeln!(out, "damaged     from offset {}", damage.at)?;
            }
            Ok(())
        })?
    };
    Ok(if code == 0 && !report.is_clean() { NO } else { code })
}
