//! Files with any bytes.

use std::path::Path;
use std::sync::Arc;

use procession_log_store::{
    LogOptions, LogReader, LogWriter, MAX_PAGE_BYTES, MemoryStorage, Offset, SearchLimits, SearchPattern,
    Storage, StreamTag, format, read_log_record, verify,
};
use proptest::prelude::*;

use crate::support::{FOLDER, run};

fn valid_log() -> MemoryStorage {
    let storage = MemoryStorage::new();
    let options = LogOptions::new().cap_bytes(16 * 1024);
    let mut writer = LogWriter::create(Arc::new(storage.clone()), FOLDER, b"app", options).unwrap();
    for step in 0..40 {
        writer.append(&[run(1, step * 20, &[b'a'; 500]), run(2, step * 20, b"err")]);
    }
    let log = writer.finish(b"end");
    drop(log);
    storage
}

/// Asks all there is to ask; whatever is answered is bounded.
fn ask_everything(storage: &MemoryStorage) {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let _ = read_log_record(storage.as_ref(), Path::new(FOLDER));
    let _ = verify(storage.clone(), FOLDER);
    let Ok(reader) = LogReader::open(storage, FOLDER) else {
        return;
    };
    let status = reader.status();
    assert_eq!(status.kept_bytes + status.dropped_bytes, status.total_bytes);
    for offset in [
        0,
        1,
        700,
        9000,
        status.total_bytes,
        status.total_bytes.wrapping_sub(1),
        u64::MAX,
    ] {
        for max_bytes in [0, 1, 5000, usize::MAX] {
            if let Ok(page) = reader.read(Offset::new(offset), max_bytes) {
                assert!(page.payload_bytes() <= u64::try_from(max_bytes.min(MAX_PAGE_BYTES)).unwrap());
                assert!(page.next_offset.get() <= page.total_bytes);
            }
        }
        let _ = reader.read_stream(Offset::new(offset), 100, StreamTag::new(2));
    }
    let _ = reader.read_unverified(usize::MAX);
    let pattern = SearchPattern::literal(b"err").unwrap();
    let _ = reader.search(&pattern, Offset::ZERO, SearchLimits::default(), || true);
    let _ = reader.refresh();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn files_of_random_bytes_are_answered(
        header in prop::collection::vec(any::<u8>(), 0..200),
        index in prop::collection::vec(any::<u8>(), 0..400),
        payload in prop::collection::vec(any::<u8>(), 0..400),
        keeps_header in any::<bool>(),
    ) {
        let storage = valid_log();
        let folder = Path::new(FOLDER);
        if !keeps_header {
            storage.set_content(folder, "header", &header);
        }
        storage.set_content(folder, "00000000000000000000.idx", &index);
        storage.set_content(folder, "00000000000000000000.log", &payload);
        storage.set_content(folder, "18446744073709551615.idx", &index);
        storage.set_content(folder, "18446744073709551615.log", &payload);
        storage.set_content(folder, "99999999999999999999.log", &payload);
        ask_everything(&storage);
    }

    #[test]
    fn valid_files_with_changed_bytes_are_answered(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>())),
    ) {
        let storage = valid_log();
        let folder = Path::new(FOLDER);
        let names: Vec<_> = storage.list(folder, 100).unwrap().into_iter().map(|entry| entry.name.into_string().unwrap()).collect();
        for (file, at, byte) in &changes {
            let name = file.get(&names);
            let mut content = storage.content(folder, name).unwrap();
            if !content.is_empty() {
                let at = at.index(content.len());
                content[at] = *byte;
                storage.set_content(folder, name, &content);
            }
        }
        if let Some((file, at)) = &cut {
            let name = file.get(&names);
            let mut content = storage.content(folder, name).unwrap();
            content.truncate(at.index(content.len() + 1));
            storage.set_content(folder, name, &content);
        }
        ask_everything(&storage);
    }
}

/// A frame as its layout says, with a right checksum.
fn frame(offset: u64, len: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut rest = crc32fast::hash(payload).to_le_bytes().to_vec();
    rest.extend(offset.to_le_bytes());
    rest.extend(7_u64.to_le_bytes());
    rest.extend(len.to_le_bytes());
    rest.extend([1, kind, 0, 0]);
    [crc32fast::hash(&rest).to_le_bytes().to_vec(), rest].concat()
}

fn segment_header(start: u64) -> Vec<u8> {
    let mut bytes = b"\x89CIDX\r\n\x1a".to_vec();
    bytes.extend(format_version().to_le_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0]);
    bytes.extend(start.to_le_bytes());
    bytes.extend([0xff; 16]);
    bytes.extend([0; 20]);
    let crc = crc32fast::hash(&bytes);
    [bytes, crc.to_le_bytes().to_vec()].concat()
}

fn format_version() -> u16 {
    format::FORMAT_VERSION
}

#[test]
fn well_formed_lies_are_not_believed() {
    let folder = Path::new(FOLDER);
    let payload = vec![b'p'; 4000];
    let last = u64::MAX - 2;
    for (start, frames) in [
        (
            20_000,
            vec![frame(20_000, 4000, 1, &payload), frame(20_000, 1, 1, b"p")],
        ),
        (20_000, vec![frame(20_000, 4001, 1, &payload)]),
        (20_000, vec![frame(20_000, u32::MAX, 1, &payload)]),
        (20_000, vec![frame(20_000, u32::MAX, 2, b"")]),
        (20_000, vec![frame(0, 100, 1, &payload[..100])]),
        (last, vec![frame(last, 4000, 1, &payload)]),
        (last, vec![frame(last, 2, 1, b"pp"), frame(u64::MAX, 1, 1, b"p")]),
        (1, vec![frame(1, 4000, 1, &payload)]),
    ] {
        let storage = valid_log();
        let index = [vec![segment_header(start)], frames].concat().concat();
        storage.set_content(folder, &format!("{start:020}.idx"), &index);
        storage.set_content(folder, &format!("{start:020}.log"), &payload);
        ask_everything(&storage);
        let reader = LogReader::open(Arc::new(storage), FOLDER).unwrap();
        assert!(!reader.recovery().is_clean(), "{start}");
    }
}

#[test]
fn a_folder_of_too_many_files_is_refused() {
    let storage = valid_log();
    for number in 0..300 {
        storage.set_content(Path::new(FOLDER), &format!("{number:020}.log"), b"");
    }
    assert!(LogReader::open(Arc::new(storage), FOLDER).is_err());
}
