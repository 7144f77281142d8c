//! Random appends and reads against a list of bytes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use procession_log_store::{
    CapMode, LogOptions, LogReader, LogWriter, MERGE_WINDOW_MS, MemoryStorage, Offset, Page, ReadError, Run,
    Storage, StreamTag, SyncPolicy, WriteEnd,
};
use proptest::prelude::*;

use crate::support::{FOLDER, Watched, byte_at, bytes_at, check_all};

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<(u8, u64, usize)>),
    Read {
        offset: u64,
        max_bytes: usize,
        stream: Option<u8>,
    },
    Settle,
}

/// All that was appended: stream and time of each byte; the bytes follow from their offsets.
#[derive(Debug, Default)]
struct Model {
    bytes: Vec<(u8, u64)>,
    now_ms: u64,
}

impl Model {
    fn append(&mut self, writer: &mut LogWriter, batch: &[(u8, u64, usize)]) {
        let mut runs = Vec::new();
        let from = self.total();
        for (stream, pause_ms, len) in batch {
            self.now_ms += pause_ms;
            runs.push((*stream, self.now_ms, bytes_at(self.total(), *len)));
            self.bytes
                .extend(std::iter::repeat_n((*stream, self.now_ms), *len));
        }
        let runs: Vec<_> = runs
            .iter()
            .map(|(stream, time_ms, bytes)| Run {
                stream: StreamTag::new(*stream),
                time_ms: *time_ms,
                bytes,
            })
            .collect();
        let appended = writer.append(&runs);
        assert_eq!((appended.from.get(), appended.to.get()), (from, self.total()));
    }

    fn total(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap()
    }

    fn check(&self, page: &Page, offset: u64, max_bytes: usize, stream: Option<u8>) {
        let total = self.total();
        assert_eq!(page.total_bytes, total);
        assert_eq!(
            page.beyond_end.map(|beyond| beyond.total),
            (offset > total).then_some(total)
        );
        assert!(page.next_offset.get() <= total);
        assert_eq!(page.at_end, page.next_offset.get() == total);
        assert!(page.payload_bytes() <= u64::try_from(max_bytes).unwrap_or(u64::MAX));
        let mut expected = offset.min(total);
        if let Some(gap) = page.gap {
            assert!(gap.from.get() <= offset && offset < gap.to.get());
            expected = gap.to.get();
            let time_at = |at: u64| self.bytes[usize::try_from(at).unwrap()].1;
            if let Some(time_ms) = gap.first_time_ms {
                assert!(time_at(gap.from.get()).abs_diff(time_ms) <= MERGE_WINDOW_MS);
            }
            assert_eq!(gap.last_time_ms, Some(time_at(gap.to.get() - 1)));
        }
        for run in &page.runs {
            if stream.is_none() {
                assert_eq!(run.offset.get(), expected);
            }
            assert!(run.offset.get() >= expected);
            for (offset, byte) in (run.offset.get()..).zip(&run.bytes) {
                let (stream_at, time_ms) = self.bytes[usize::try_from(offset).unwrap()];
                assert_eq!((*byte, run.stream.get()), (byte_at(offset), stream_at));
                assert!(time_ms.abs_diff(run.time_ms) <= MERGE_WINDOW_MS);
            }
            if let Some(stream) = stream {
                let passed = usize::try_from(expected).unwrap()..usize::try_from(run.offset.get()).unwrap();
                assert!(self.bytes[passed].iter().all(|(other, _)| *other != stream));
            }
            expected = run.end().get();
        }
        match stream {
            None => assert_eq!(page.next_offset.get(), expected),
            Some(_) => assert!(page.next_offset.get() >= expected),
        }
        let moves_on = page.next_offset.get() > offset || page.at_end || max_bytes == 0;
        assert!(moves_on);
    }
}

fn runs() -> impl Strategy<Value = Vec<(u8, u64, usize)>> {
    let len = prop_oneof![6 => 0..200_usize, 3 => 0..5000_usize, 1 => 60_000..200_000_usize];
    prop_oneof![
        8 => prop::collection::vec((0..3_u8, 0..25_u64, len), 0..12),
        2 => prop::collection::vec((0..2_u8, 0..2_u64, 0..3_usize), 0..2000),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let limit = prop_oneof![Just(0), Just(1), Just(usize::MAX), 0..100_000_usize];
    let offset = prop_oneof![Just(0), Just(u64::MAX), Just(1 << 40), 0..1_000_000_u64];
    let step = prop_oneof![
        5 => runs().prop_map(Step::Append),
        5 => (offset, limit, prop::option::of(0..4_u8))
            .prop_map(|(offset, max_bytes, stream)| Step::Read { offset, max_bytes, stream }),
        1 => Just(Step::Settle),
    ];
    prop::collection::vec(step, 1..40)
}

fn options() -> impl Strategy<Value = LogOptions> {
    let cap = prop_oneof![
        Just(16 * 1024_u64),
        Just(64 * 1024),
        Just(256 * 1024),
        Just(4 << 20)
    ];
    let head = prop_oneof![Just(None), Just(Some(0)), Just(Some(1000)), Just(Some(4096))];
    (cap, head, any::<bool>(), any::<bool>()).prop_map(|(cap, head, rolling, sync)| {
        let options = LogOptions::new().cap_bytes(cap);
        let options = if rolling {
            options
        } else {
            options.mode(CapMode::KeepHead)
        };
        let options = if sync {
            options.sync(SyncPolicy::EachRecord)
        } else {
            options
        };
        head.map_or(options.clone(), |head| options.head_bytes(head))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_log_serves_what_was_appended_and_never_passes_its_cap(options in options(), steps in steps()) {
        let memory = MemoryStorage::new();
        let storage = Arc::new(Watched::new(memory.clone()));
        let watch = storage.watch();
        let cap_bytes = options.effective_cap_bytes();
        let head_bytes = options.effective_head_bytes();
        let mut writer = LogWriter::create(storage, FOLDER, b"application", options).unwrap();
        let reader = writer.reader();
        let mut model = Model::default();
        for step in &steps {
            match step {
                Step::Append(batch) => model.append(&mut writer, batch),
                Step::Settle => writer.settle(),
                Step::Read { offset, max_bytes, stream } => {
                    let offset = if *offset < 1_000_000 && model.total() > 0 { offset % (model.total() + 2) } else { *offset };
                    let at = Offset::new(offset);
                    let page = match stream {
                        None => reader.read(at, *max_bytes),
                        Some(stream) => reader.read_stream(at, *max_bytes, StreamTag::new(*stream)),
                    };
                    model.check(&page.unwrap(), offset, *max_bytes, *stream);
                }
            }
            prop_assert!(watch.max_folder_bytes.load(Ordering::Relaxed) <= cap_bytes);
            let status = writer.status();
            prop_assert_eq!(status.total_bytes, model.total());
            prop_assert_eq!(status.kept_bytes + status.dropped_bytes, model.total());
        }
        let kept = check_all(&reader, 7000);
        prop_assert_eq!(kept, writer.status().kept_bytes);
        let rolling = matches!(writer.status().write_end, WriteEnd::Open);
        let log = writer.finish(b"the end");
        prop_assert!(log.warning().is_none());
        prop_assert_eq!(check_all(&log.reader(), usize::MAX), kept);
        prop_assert!(watch.max_folder_bytes.load(Ordering::Relaxed) <= cap_bytes);
        if rolling && log.status().dropped_bytes > 0 {
            // The head is whole unless many tiny entries filled its half of the cap.
            let gap = log.status().gap.unwrap();
            prop_assert!(gap.from.get() <= head_bytes);
            prop_assert_eq!(gap.bytes(), log.status().dropped_bytes);
        }

        let opened = LogReader::open(Arc::new(memory.clone()), FOLDER).unwrap();
        prop_assert!(opened.recovery().is_clean(), "{:?}", opened.recovery());
        prop_assert_eq!(opened.status(), log.status());
        prop_assert_eq!(opened.end_record(), log.reader().end_record());
        prop_assert_eq!(check_all(&opened, 7000), kept);
        prop_assert_eq!(&opened.header().application, b"application");
        for step in &steps {
            if let Step::Read { offset, max_bytes, .. } = step {
                let at = Offset::new(*offset);
                prop_assert_eq!(opened.read(at, *max_bytes).unwrap(), log.reader().read(at, *max_bytes).unwrap());
            }
        }
        log.remove().unwrap();
        prop_assert!(matches!(reader.read(Offset::ZERO, 1), Err(ReadError::Gone)));
        prop_assert!(memory.list(Path::new(FOLDER), 1).is_err());
    }
}
