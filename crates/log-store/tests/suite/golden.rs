//! Format version 1, byte by byte.

use std::path::Path;
use std::sync::Arc;

use procession_log_store::{
    FORMAT_VERSION, LogOptions, LogReader, LogWriter, MemoryStorage, Offset, StopReason, Storage, WriteEnd,
};

use crate::support::{FOLDER, run};

const HEADER: &[u8] = include_bytes!("golden/log-v1/header");
const HEAD_INDEX: &[u8] = include_bytes!("golden/log-v1/00000000000000000000.idx");
const HEAD_PAYLOAD: &[u8] = include_bytes!("golden/log-v1/00000000000000000000.log");
const TAIL_INDEX: &[u8] = include_bytes!("golden/log-v1/00000000000000000016.idx");
const TAIL_PAYLOAD: &[u8] = include_bytes!("golden/log-v1/00000000000000000016.log");

fn files() -> [(&'static str, &'static [u8]); 5] {
    [
        ("00000000000000000000.idx", HEAD_INDEX),
        ("00000000000000000000.log", HEAD_PAYLOAD),
        ("00000000000000000016.idx", TAIL_INDEX),
        ("00000000000000000016.log", TAIL_PAYLOAD),
        ("header", HEADER),
    ]
}

#[test]
fn a_log_is_written_as_version_1_says() {
    assert_eq!(
        FORMAT_VERSION, 1,
        "a new version needs golden files of its own; these stay"
    );
    let storage = MemoryStorage::new();
    let options = LogOptions::new().cap_bytes(16 * 1024).head_bytes(16);
    let mut writer = LogWriter::create(Arc::new(storage.clone()), FOLDER, b"what ran", options).unwrap();
    writer.append(&[
        run(1, 1000, b"first line\n"),
        run(2, 1002, b"an error\n"),
        run(1, 1003, b"more"),
    ]);
    writer.append(&[run(1, 2000, b" and more\n")]);
    writer.stop(StopReason::ByOwner {
        reason: "enough".to_owned(),
    });
    writer.append(&[run(1, 3000, b"not written")]);
    drop(writer.finish(b"how it ended"));
    let listed = storage.list(Path::new(FOLDER), 100).unwrap();
    assert_eq!(listed.len(), files().len());
    for (name, golden) in files() {
        assert_eq!(
            storage.content(Path::new(FOLDER), name).unwrap(),
            golden,
            "{name}"
        );
    }
}

#[test]
fn a_log_of_version_1_is_read() {
    let storage = MemoryStorage::new();
    for (name, golden) in files() {
        storage.set_content(Path::new(FOLDER), name, golden);
    }
    let reader = LogReader::open(Arc::new(storage), FOLDER).unwrap();
    assert!(reader.recovery().is_clean());
    assert_eq!(reader.header().application, b"what ran");
    assert_eq!(
        (reader.header().cap_bytes, reader.header().head_bytes),
        (16 * 1024, 16)
    );
    let page = reader.read(Offset::ZERO, 1000).unwrap();
    let runs: Vec<_> = page
        .runs
        .iter()
        .map(|run| (run.stream.get(), run.time_ms, run.bytes.to_vec()))
        .collect();
    let expected: [(u8, u64, &[u8]); 4] = [
        (1, 1000, b"first line\n"),
        (2, 1002, b"an error\n"),
        (1, 1003, b"more"),
        (1, 2000, b" and more\n"),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(stream, time, bytes)| (stream, time, bytes.to_vec()))
        .collect();
    assert_eq!(runs, expected);
    let end = reader.end_record().unwrap();
    assert_eq!((end.total_bytes, end.kept_bytes), (45, 34));
    assert_eq!((end.stopped_time_ms, end.last_time_ms), (Some(3000), Some(3000)));
    assert_eq!(end.application, b"how it ended");
    let reason = StopReason::ByOwner {
        reason: "enough".to_owned(),
    };
    assert_eq!(
        end.write_end,
        WriteEnd::Stopped {
            at: Offset::new(34),
            reason
        }
    );
}
