//! Readers beside a writer that floods.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use procession_log_store::{
    FileStorage, LogOptions, LogReader, LogWriter, MemoryStorage, Offset, ReadError, Storage, WriteEnd,
};

use crate::support::{FOLDER, byte_at, bytes_at, run};

/// Reads on from `offset`; every byte must be the one of its offset, whatever is dropped meanwhile.
fn read_on(reader: &LogReader, offset: Offset) -> Result<Offset, ReadError> {
    let page = reader.read(offset, 50_000)?;
    if page.beyond_end.is_some() {
        assert!(page.runs.is_empty() && page.next_offset < offset);
        return Ok(page.next_offset);
    }
    let mut expected = page.gap.map_or(offset, |gap| gap.to);
    for run in &page.runs {
        assert_eq!(run.offset, expected);
        for (offset, byte) in (run.offset.get()..).zip(&run.bytes) {
            assert_eq!(*byte, byte_at(offset), "at {offset}");
        }
        expected = run.end();
    }
    assert_eq!(page.next_offset, expected);
    Ok(page.next_offset)
}

fn flood(writer: &mut LogWriter, total_bytes: u64, batch_bytes: usize) {
    let mut total = 0;
    while total < total_bytes {
        total = writer
            .append(&[run(1, total, &bytes_at(total, batch_bytes))])
            .to
            .get();
    }
}

fn readers_of_a_flooding_writer(storage: Arc<dyn Storage>, folder: &std::path::Path, batch_bytes: usize) {
    let total_bytes = 12_000_000;
    let options = LogOptions::new().cap_bytes(512 * 1024).head_bytes(1000);
    let mut writer = LogWriter::create(storage.clone(), folder, b"", options).unwrap();
    let done = AtomicBool::new(false);
    let reader = writer.reader();
    let opened = LogReader::open(storage, folder).unwrap();
    std::thread::scope(|scope| {
        for start in [0, 500, 100_000] {
            let (reader, done) = (reader.clone(), &done);
            scope.spawn(move || {
                let mut offset = Offset::new(start);
                while !(done.load(Ordering::Acquire) && offset.get() >= total_bytes) {
                    offset = read_on(&reader, offset).unwrap();
                    if offset.get().is_multiple_of(7) && !done.load(Ordering::Acquire) {
                        offset = Offset::new(offset.get() / 2);
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut offset = Offset::ZERO;
            while !done.load(Ordering::Acquire) {
                opened.refresh().unwrap();
                offset = read_on(&opened, offset).unwrap();
            }
        });
        flood(&mut writer, total_bytes, batch_bytes);
        done.store(true, Ordering::Release);
    });
    assert_eq!(writer.status().write_end, WriteEnd::Open);
    let log = writer.finish(b"end");
    opened.refresh().unwrap();
    assert_eq!(opened.status(), log.status());
    assert_eq!(
        crate::support::check_all(&opened, 40_000),
        log.status().kept_bytes
    );
}

#[test]
fn readers_see_right_bytes_or_a_gap_while_files_are_taken_over() {
    let parent = tempfile::tempdir().unwrap();
    readers_of_a_flooding_writer(Arc::new(FileStorage::new()), &parent.path().join("log"), 100_000);
}

#[test]
fn readers_see_right_bytes_or_a_gap_while_files_are_removed() {
    let parent = tempfile::tempdir().unwrap();
    readers_of_a_flooding_writer(Arc::new(FileStorage::new()), &parent.path().join("log"), 30_000);
}

#[test]
fn readers_see_right_bytes_or_a_gap_in_memory_and_past_skipped_middles() {
    readers_of_a_flooding_writer(Arc::new(MemoryStorage::new()), FOLDER.as_ref(), 1_000_000);
}

#[test]
fn a_follower_gets_later_bytes_exactly_once() {
    let storage = Arc::new(MemoryStorage::new());
    let mut writer = LogWriter::create(storage, FOLDER, b"", LogOptions::new()).unwrap();
    let reader = writer.reader();
    let (mut offset, mut seen) = (Offset::ZERO, Vec::new());
    for step in 0..300_u64 {
        let bytes = bytes_at(writer.status().total_bytes, usize::try_from(step % 40).unwrap());
        writer.append(&[run(u8::try_from(step % 3).unwrap(), step, &bytes)]);
        if step % 4 == 0 {
            let page = reader.read(offset, usize::MAX).unwrap();
            assert!(page.at_end);
            seen.extend(page.to_vec());
            offset = page.next_offset;
        }
    }
    seen.extend(reader.read(offset, usize::MAX).unwrap().to_vec());
    assert_eq!(
        seen,
        bytes_at(0, usize::try_from(writer.status().total_bytes).unwrap())
    );
}

#[test]
fn a_follower_of_another_process_reads_on_after_a_refresh() {
    let storage = Arc::new(MemoryStorage::new());
    let mut writer = LogWriter::create(storage.clone(), FOLDER, b"", LogOptions::new()).unwrap();
    let reader = LogReader::open(storage, FOLDER).unwrap();
    assert_eq!(reader.read(Offset::ZERO, 10).unwrap().total_bytes, 0);
    for total in [0, 100, 200_u64] {
        writer.append(&[run(1, total, &bytes_at(total, 100))]);
        assert!(reader.read(Offset::new(total), 1000).unwrap().at_end);
        reader.refresh().unwrap();
        assert_eq!(
            reader.read(Offset::new(total), 1000).unwrap().to_vec(),
            bytes_at(total, 100)
        );
    }
    let log = writer.finish(b"how it ended");
    assert_eq!(reader.status().write_end, WriteEnd::NotRecorded);
    reader.refresh().unwrap();
    assert_eq!(reader.end_record().unwrap().application, b"how it ended");
    log.remove().unwrap();
    let gone = LogReader::open(Arc::new(MemoryStorage::new()), FOLDER).unwrap_err();
    assert_eq!(gone.to_string(), "`/logs/one` is no log");
}

#[test]
fn pages_of_text_end_at_characters_and_a_lone_fragment_is_still_returned() {
    let storage = Arc::new(MemoryStorage::new());
    let mut writer = LogWriter::create(storage, FOLDER, b"", LogOptions::new()).unwrap();
    let text = "a\u{e9}\u{20ac}\u{1f600}".repeat(20);
    writer.append(&[run(1, 0, text.as_bytes())]);
    let reader = writer.reader();
    for max_bytes in 1..12 {
        let (mut offset, mut bytes) = (Offset::ZERO, Vec::new());
        loop {
            let page = reader.read(offset, max_bytes).unwrap().ending_at_character();
            let part = page.to_vec();
            assert!(max_bytes < 4 || std::str::from_utf8(&part).is_ok());
            assert!(page.next_offset > offset);
            bytes.extend(part);
            offset = page.next_offset;
            if page.at_end {
                break;
            }
        }
        assert_eq!(bytes, text.as_bytes());
    }
}
