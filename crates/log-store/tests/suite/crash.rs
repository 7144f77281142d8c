//! A small log cut at every byte of every file.

use std::path::Path;
use std::sync::Arc;

use procession_log_store::{
    EndRecordState, LogOptions, LogReader, LogWriter, MemoryStorage, Offset, OpenError, Storage, WriteEnd,
};

use crate::support::{FOLDER, bytes_at, check_all, run};

/// A log of head and rolled tail, whose writer died without an end record.
fn small_log() -> (MemoryStorage, u64) {
    let storage = MemoryStorage::new();
    let options = LogOptions::new().cap_bytes(16 * 1024).head_bytes(100);
    let mut writer = LogWriter::create(Arc::new(storage.clone()), FOLDER, b"app", options).unwrap();
    let mut total = 0;
    for step in 0..200_u64 {
        let bytes = bytes_at(total, 97);
        writer.append(&[run(u8::try_from(step % 2).unwrap(), step * 20, &bytes)]);
        total += 97;
    }
    assert!(writer.status().gap.is_some());
    (storage, total)
}

fn files(storage: &MemoryStorage) -> Vec<(String, Vec<u8>)> {
    let listed = storage.list(Path::new(FOLDER), 100).unwrap();
    let names = listed.into_iter().map(|entry| entry.name.into_string().unwrap());
    names
        .map(|name| (name.clone(), storage.content(Path::new(FOLDER), &name).unwrap()))
        .collect()
}

fn ends_in(name: &str, end: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == end)
}

fn with(files: &[(String, Vec<u8>)], name: &str, content: &[u8]) -> MemoryStorage {
    let storage = MemoryStorage::new();
    for (file, original) in files {
        let content = if file == name { content } else { original };
        storage.set_content(Path::new(FOLDER), file, content);
    }
    storage
}

fn open(storage: MemoryStorage) -> Result<LogReader, OpenError> {
    LogReader::open(Arc::new(storage), FOLDER)
}

#[test]
fn the_log_of_a_dead_writer_is_whole() {
    let (storage, total) = small_log();
    let reader = open(storage).unwrap();
    let recovery = reader.recovery();
    assert_eq!(
        (
            recovery.cut_index_bytes,
            recovery.unverified,
            recovery.damage.len()
        ),
        (0, None, 0)
    );
    assert_eq!(recovery.end_record, EndRecordState::Absent);
    assert_eq!(
        (reader.status().total_bytes, reader.status().write_end),
        (total, WriteEnd::NotRecorded)
    );
    assert_eq!(check_all(&reader, 1000), reader.status().kept_bytes);
}

#[test]
fn a_last_index_cut_anywhere_keeps_all_whole_entries_and_says_what_was_cut() {
    let (storage, total) = small_log();
    let files = files(&storage);
    let (name, index) = files.iter().rfind(|(name, _)| ends_in(name, "idx")).unwrap();
    let start: u64 = name[..20].parse().unwrap();
    for cut in 64..index.len() {
        let reader = open(with(&files, name, &index[..cut])).unwrap();
        let recovery = reader.recovery();
        let whole = u64::try_from((cut - 64) / 32).unwrap();
        let end = start + whole * 97;
        assert_eq!(recovery.cut_index_bytes, u64::try_from((cut - 64) % 32).unwrap());
        let unverified = recovery.unverified.unwrap();
        assert_eq!((unverified.offset.get(), unverified.bytes), (end, total - end));
        assert_eq!(
            reader.read_unverified(usize::MAX).unwrap(),
            bytes_at(end, usize::try_from(total - end).unwrap())
        );
        assert_eq!(reader.status().total_bytes, end);
        assert_eq!(check_all(&reader, 333), recovery.verified_bytes);
    }
}

#[test]
fn a_last_payload_cut_anywhere_keeps_all_whole_entries() {
    let (storage, _) = small_log();
    let files = files(&storage);
    let (name, payload) = files.iter().rfind(|(name, _)| ends_in(name, "log")).unwrap();
    let start: u64 = name[..20].parse().unwrap();
    for cut in 0..payload.len() {
        let reader = open(with(&files, name, &payload[..cut])).unwrap();
        let end = start + u64::try_from(cut / 97 * 97).unwrap();
        assert_eq!(reader.status().total_bytes, end);
        assert_eq!(
            reader.recovery().unverified.map_or(0, |tail| tail.bytes),
            u64::try_from(cut % 97).unwrap()
        );
        assert!(reader.recovery().cut_index_bytes > 0);
        assert_eq!(check_all(&reader, 333), reader.recovery().verified_bytes);
    }
}

#[test]
fn any_file_cut_or_changed_anywhere_never_gives_wrong_bytes() {
    let (storage, _) = small_log();
    let files = files(&storage);
    for (name, content) in &files {
        // Payload is long, and one place of it is like another.
        let step = if ends_in(name, "log") { 7 } else { 1 };
        for at in (0..content.len()).step_by(step) {
            let mut changed = content.clone();
            changed[at] ^= 0x41;
            for damaged in [&content[..at], &changed] {
                match open(with(&files, name, damaged)) {
                    Ok(reader) => {
                        assert_ne!(name, "header");
                        assert_eq!(check_all(&reader, 1000), reader.status().kept_bytes);
                        assert!(!reader.recovery().is_clean());
                    }
                    Err(error) => {
                        assert_eq!(name, "header");
                        let typed = matches!(
                            error,
                            OpenError::NotALog { .. }
                                | OpenError::DamagedHeader { .. }
                                | OpenError::UnsupportedVersion { .. }
                        );
                        assert!(typed, "{error:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_torn_end_record_is_none_and_the_rest_is_served() {
    let storage = MemoryStorage::new();
    let mut writer = LogWriter::create(Arc::new(storage.clone()), FOLDER, b"app", LogOptions::new()).unwrap();
    writer.append(&[run(1, 0, &bytes_at(0, 500))]);
    let before = storage.content(Path::new(FOLDER), "header").unwrap().len();
    let log = writer.finish(b"end");
    let files = files(&storage);
    let header = storage.content(Path::new(FOLDER), "header").unwrap();
    for cut in before..header.len() {
        let reader = open(with(&files, "header", &header[..cut])).unwrap();
        let state = if cut == before {
            EndRecordState::Absent
        } else {
            EndRecordState::Damaged
        };
        assert_eq!(reader.recovery().end_record, state);
        assert_eq!(
            (reader.status().write_end, reader.end_record()),
            (WriteEnd::NotRecorded, None)
        );
        assert_eq!(check_all(&reader, 100), 500);
    }
    assert_eq!(
        open(with(&files, "header", &header)).unwrap().status(),
        log.status()
    );
}

#[test]
fn a_missing_segment_is_a_gap_called_damage() {
    let (storage, total) = small_log();
    let mut files = files(&storage);
    let indexes: Vec<_> = files
        .iter()
        .map(|(name, _)| name.clone())
        .filter(|name| ends_in(name, "idx"))
        .collect();
    let lost = &indexes[indexes.len() - 2];
    files.retain(|(name, _)| name != lost);
    let reader = open(with(&files, "", &[])).unwrap();
    assert_eq!(reader.recovery().ignored_files, 1);
    let page = reader.read(Offset::new(lost[..20].parse().unwrap()), 10).unwrap();
    assert_eq!(page.gap.unwrap().cause, procession_log_store::GapCause::Damage);
    assert_eq!(page.total_bytes, total);
    check_all(&reader, 100);
}
