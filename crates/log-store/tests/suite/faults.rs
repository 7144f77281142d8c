//! Every write fails once.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use procession_log_store::{
    CreateError, FileStorage, LogOptions, LogReader, LogWriter, Logging, MemoryStorage, StopReason, Storage,
    SyncPolicy, WriteEnd,
};

use crate::support::{FOLDER, Fault, Watched, bytes_at, check_all, run};

/// Appends 16 batches of two streams to a log that rolls; says the changes that this took.
fn write_log(storage: Watched, sync: SyncPolicy) -> (Option<LogWriter>, u64) {
    let watch = storage.watch();
    let options = LogOptions::new().cap_bytes(128 * 1024).sync(sync);
    let writer = match LogWriter::create(Arc::new(storage), FOLDER, b"app", options) {
        Ok(writer) => Some(writer),
        Err(CreateError::Io { source, .. }) => {
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
            None
        }
        Err(other) => panic!("{other}"),
    };
    let writer = writer.map(|mut writer| {
        let mut total = 0;
        for step in 0..16_u64 {
            let len = if step % 3 == 2 { 66_000 } else { 2000 };
            let bytes = bytes_at(total, len);
            let (one, two) = bytes.split_at(len / 3);
            let appended = writer.append(&[run(1, step * 7, one), run(2, step * 7 + 1, two)]);
            total += u64::try_from(len).unwrap();
            assert_eq!(appended.to.get(), total);
        }
        writer
    });
    (writer, watch.changes.load(Ordering::Relaxed))
}

#[test]
fn a_failing_write_ends_logging_with_its_reason_and_loses_nothing_that_was_said_to_be_kept() {
    let (_, changes) = write_log(Watched::new(MemoryStorage::new()), SyncPolicy::Never);
    assert!(changes > 100, "{changes}");
    for change in 0..changes {
        for fault in [Fault::Lasting, Fault::Once, Fault::Half] {
            let memory = MemoryStorage::new();
            let (writer, _) = write_log(
                Watched::failing_at(memory.clone(), change, fault),
                SyncPolicy::OnEnd,
            );
            let Some(writer) = writer else {
                assert!(memory.list(Path::new(FOLDER), 1).is_err() || fault == Fault::Lasting);
                continue;
            };
            let status = writer.status();
            assert_eq!(status.kept_bytes + status.dropped_bytes, status.total_bytes);
            assert_eq!(check_all(&writer.reader(), 10_000), status.kept_bytes);
            let stopped = match &status.write_end {
                WriteEnd::Stopped {
                    at,
                    reason: StopReason::WriteFailed { kind, .. },
                } => {
                    assert_eq!(*kind, io::ErrorKind::StorageFull);
                    assert!(at.get() <= status.total_bytes);
                    true
                }
                // A write that is half done is asked for again, and may have been the last.
                WriteEnd::Open => fault == Fault::Half,
                other => panic!("{other:?}"),
            };
            assert!(stopped, "change {change}, {fault:?}");

            let log = writer.finish(b"end");
            let opened = LogReader::open(Arc::new(memory), FOLDER).unwrap();
            assert_eq!(
                check_all(&opened, 10_000),
                status.kept_bytes,
                "change {change}, {fault:?}"
            );
            if log.warning().is_none() {
                assert_eq!(opened.status(), log.status());
            }
        }
    }
}

#[test]
fn a_full_disk_keeps_what_fits_and_the_next_log_logs_again() {
    let memory = MemoryStorage::with_capacity_bytes(64 * 1024);
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let mut writer = LogWriter::create(storage.clone(), FOLDER, b"app", LogOptions::new()).unwrap();
    let mut total = 0;
    for step in 0..20 {
        let bytes = bytes_at(total, 30_000);
        writer.append(&[run(1, step, &bytes)]);
        total += 30_000;
    }
    let status = writer.status();
    assert!(
        matches!(&status.write_end, WriteEnd::Stopped { at, reason: StopReason::WriteFailed { kind, .. } }
        if at.get() == status.kept_bytes && *kind == io::ErrorKind::StorageFull)
    );
    assert_eq!((status.total_bytes, status.kept_bytes), (600_000, 60_000));
    assert_eq!(check_all(&writer.reader(), 4096), status.kept_bytes);

    memory.set_capacity_bytes(10 << 20);
    let next = LogWriter::create(storage, "/logs/two", b"", LogOptions::new()).unwrap();
    let mut next = next;
    assert_eq!(next.append(&[run(1, 0, b"again")]).logging, Logging::On);
    assert!(writer.finish(b"").warning().is_none());
}

#[test]
fn a_removed_folder_ends_logging() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("log");
    let mut writer =
        LogWriter::create(Arc::new(FileStorage::new()), &folder, b"", LogOptions::new()).unwrap();
    writer.append(&[run(1, 0, b"before")]);
    std::fs::remove_dir_all(&folder).unwrap();
    let bytes = bytes_at(0, 300_000);
    for _ in 0..20 {
        writer.append(&[run(1, 0, &bytes)]);
    }
    assert!(matches!(
        writer.status().write_end,
        WriteEnd::Stopped {
            reason: StopReason::WriteFailed {
                kind: io::ErrorKind::NotFound,
                ..
            },
            ..
        }
    ));
    assert!(writer.finish(b"").warning().is_some());
}

#[test]
fn a_folder_that_cannot_be_made_is_a_typed_error() {
    let parent = tempfile::tempdir().unwrap();
    let create = |folder: &Path| {
        LogWriter::create(Arc::new(FileStorage::new()), folder, b"", LogOptions::new()).unwrap_err()
    };
    let missing = create(&parent.path().join("missing/log"));
    assert!(matches!(missing, CreateError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound));
    let taken = create(parent.path());
    assert!(matches!(taken, CreateError::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists));
}
