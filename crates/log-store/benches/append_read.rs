//! Appending past the cap and reading pages, each beside the plain calls that do the same job.
//!
//! Run with `cargo bench -p procession-log-store`. Ratios count: compare the two of a pair within one run.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use divan::Bencher;
use divan::counter::BytesCount;
use procession_log_store::{FileStorage, LogOptions, LogReader, LogWriter, Offset, Run, StreamTag};
use tempfile::TempDir;

const BATCH_BYTES: usize = 256 * 1024;
const APPENDED_BYTES: usize = 1 << 30;
const CAP_BYTES: u64 = 32 << 20;
const PAGE_BYTES: usize = 64 * 1024;
const READ_BYTES: u64 = 64 << 20;

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn append_1_gib_plain(bencher: Bencher<'_, '_>) {
    let batch = vec![7; BATCH_BYTES];
    bencher
        .counter(BytesCount::new(APPENDED_BYTES))
        .with_inputs(folder)
        .bench_values(|folder| {
            let file = create(&folder);
            for number in 0..APPENDED_BYTES / BATCH_BYTES {
                let at = u64::try_from(number * BATCH_BYTES).expect("small") % CAP_BYTES;
                file.write_all_at(&batch, at).expect("written");
            }
            folder
        });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn append_1_gib_log(bencher: Bencher<'_, '_>) {
    let batch = vec![7; BATCH_BYTES];
    bencher
        .counter(BytesCount::new(APPENDED_BYTES))
        .with_inputs(folder)
        .bench_values(|folder| {
            let mut writer = writer(&folder, CAP_BYTES);
            for _ in 0..APPENDED_BYTES / BATCH_BYTES {
                writer.append(&[run(&batch)]);
            }
            (writer, folder)
        });
}

#[divan::bench(sample_count = 20)]
fn read_64_mib_in_pages_plain(bencher: Bencher<'_, '_>) {
    let (_folder, log) = filled(READ_BYTES);
    let payload = log.folder().join("00000000000000000000.log");
    let file = File::open(payload).expect("there");
    let mut page = vec![0; PAGE_BYTES];
    bencher.counter(BytesCount::new(READ_BYTES)).bench_local(|| {
        let mut at = 0;
        while at < READ_BYTES {
            file.read_exact_at(&mut page, at).expect("read");
            at += u64::try_from(PAGE_BYTES).expect("small");
        }
    });
}

#[divan::bench(sample_count = 20)]
fn read_64_mib_in_pages_log(bencher: Bencher<'_, '_>) {
    let (_folder, log) = filled(READ_BYTES);
    bencher.counter(BytesCount::new(READ_BYTES)).bench_local(|| {
        let mut at = Offset::ZERO;
        while at.get() < READ_BYTES {
            at = log.read(at, PAGE_BYTES).expect("read").next_offset;
        }
    });
}

#[divan::bench(args = [1 << 20, 128 << 20], sample_count = 100, sample_size = 100)]
fn seek(bencher: Bencher<'_, '_>, log_bytes: u64) {
    let (_folder, log) = filled(log_bytes);
    let mut at = 0;
    bencher.bench_local(|| {
        at = (at + 7_919 * 4096) % log_bytes;
        log.read(Offset::new(at), 1)
    });
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn create(folder: &TempDir) -> File {
    let path = folder.path().join("plain");
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(path)
        .expect("created")
}

fn writer(folder: &TempDir, cap_bytes: u64) -> LogWriter {
    let options = LogOptions::new().cap_bytes(cap_bytes);
    LogWriter::create(
        Arc::new(FileStorage::new()),
        folder.path().join("log"),
        b"",
        options,
    )
    .expect("created")
}

/// A log that holds so many bytes in one segment, in entries of 4 KiB of two streams.
fn filled(bytes: u64) -> (TempDir, LogReader) {
    let folder = folder();
    let options = LogOptions::new().cap_bytes(bytes * 4).head_bytes(bytes);
    let storage = Arc::new(FileStorage::new());
    let mut writer = LogWriter::create(storage, folder.path().join("log"), b"", options).expect("created");
    let batch = vec![7; 4096];
    for number in 0..bytes / 4096 {
        let stream = StreamTag::new(u8::try_from(number % 2).expect("small"));
        writer.append(&[Run {
            stream,
            time_ms: number,
            bytes: &batch,
        }]);
    }
    (folder, writer.reader())
}

fn run(bytes: &[u8]) -> Run<'_> {
    Run {
        stream: StreamTag::new(1),
        time_ms: 0,
        bytes,
    }
}
