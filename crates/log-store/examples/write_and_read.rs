//! A log that rolls: what is kept, what is a gap, and how a reader goes through it.
//!
//! Run with a folder that is not there yet: `cargo run --example write_and_read -- some-folder`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;

use procession_log_store::{
    FileStorage, LogOptions, LogWriter, Offset, Run, SearchLimits, SearchPattern, StreamTag,
};

const STDOUT: StreamTag = StreamTag::new(1);

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("give the folder of the log")?;
    let options = LogOptions::new().cap_bytes(64 * 1024);
    let mut writer = LogWriter::create(Arc::new(FileStorage::new()), folder, b"an example", options)?;
    for line in 0..10_000_u64 {
        let text = format!("line {line}\n");
        writer.append(&[Run {
            stream: STDOUT,
            time_ms: line,
            bytes: text.as_bytes(),
        }]);
    }
    let log = writer.finish(b"done");

    let mut out = io::stdout().lock();
    let status = log.status();
    writeln!(
        out,
        "{} bytes written, {} kept",
        status.total_bytes, status.kept_bytes
    )?;
    let reader = log.reader();
    let mut offset = Offset::ZERO;
    loop {
        let page = reader.read(offset, 32 * 1024)?.ending_at_character();
        if let Some(gap) = page.gap {
            writeln!(out, "gap from {} to {}: {} bytes", gap.from, gap.to, gap.bytes())?;
        }
        writeln!(
            out,
            "page of {} bytes up to {}",
            page.payload_bytes(),
            page.next_offset
        )?;
        offset = page.next_offset;
        if page.at_end {
            break;
        }
    }
    let pattern = SearchPattern::regex("^line 999[0-9]$")?;
    let found = reader.search(&pattern, Offset::ZERO, SearchLimits::default(), || true)?;
    writeln!(out, "{} matches", found.matches.len())?;
    Ok(())
}
