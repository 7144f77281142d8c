//! Searching, in one go and in many.

use std::sync::Arc;

use procession_log_store::{
    LogOptions, LogReader, LogWriter, MAX_MATCH_BYTES, MemoryStorage, Offset, SearchError, SearchLimits,
    SearchPattern,
};
use proptest::prelude::*;

use crate::support::{FOLDER, run};

fn writer() -> LogWriter {
    LogWriter::create(Arc::new(MemoryStorage::new()), FOLDER, b"", LogOptions::new()).unwrap()
}

fn limits(max_matches: usize, context_bytes: usize) -> SearchLimits {
    SearchLimits {
        max_matches,
        context_bytes,
        ..SearchLimits::default()
    }
}

/// Offset, stream and text of all matches, found in calls of `max_matches`.
fn all(reader: &LogReader, pattern: &SearchPattern, limits: SearchLimits) -> Vec<(u64, u8, String)> {
    let mut found = Vec::new();
    let mut from = Offset::ZERO;
    loop {
        let page = reader.search(pattern, from, limits, || true).unwrap();
        for found_match in page.matches {
            assert!(
                found_match.offset >= from
                    && found_match.offset < page.next_offset.max(from.saturating_add(1))
            );
            let text = found_match.text.slice(found_match.range);
            let text = String::from_utf8_lossy(&text).into_owned();
            found.push((found_match.offset.get(), found_match.stream.get(), text));
        }
        if page.at_end {
            return found;
        }
        assert!(page.next_offset > from);
        from = page.next_offset;
    }
}

#[test]
fn matches_across_runs_of_a_stream_are_found_with_their_context() {
    let mut writer = writer();
    writer.append(&[
        run(1, 0, b"one nee"),
        run(2, 0, b"needle?"),
        run(1, 50, b"dle two"),
    ]);
    let reader = writer.reader();
    let pattern = SearchPattern::literal(b"needle").unwrap();
    let page = reader
        .search(&pattern, Offset::ZERO, limits(10, 3), || true)
        .unwrap();
    let texts: Vec<_> = page
        .matches
        .iter()
        .map(|found| (found.offset.get(), found.text.clone()))
        .collect();
    assert_eq!(texts, [(4, "ne needle tw".into()), (7, "needle?".into())]);
    assert_eq!(page.matches[0].range, 3..9);
    assert!(page.at_end);
    assert_eq!(
        all(&reader, &pattern, limits(1, 0)),
        all(&reader, &pattern, limits(10, 0))
    );
}

#[test]
fn a_match_that_is_not_yet_whole_is_found_once_it_is() {
    let mut writer = writer();
    let reader = writer.reader();
    let pattern = SearchPattern::literal(b"needle").unwrap();
    writer.append(&[run(1, 0, b"hay nee")]);
    let first = reader
        .search(&pattern, Offset::ZERO, limits(10, 0), || true)
        .unwrap();
    assert_eq!(
        (first.matches.len(), first.next_offset.get(), first.at_end),
        (0, 4, true)
    );
    writer.append(&[run(1, 0, b"dle")]);
    let second = reader
        .search(&pattern, first.next_offset, limits(10, 0), || true)
        .unwrap();
    assert_eq!((second.matches.len(), second.matches[0].offset.get()), (1, 4));
    drop(writer.finish(b""));
    let end = reader
        .search(&pattern, Offset::new(7), limits(10, 0), || true)
        .unwrap();
    assert_eq!((end.next_offset.get(), end.at_end), (10, true));
}

#[test]
fn matches_are_found_across_segments_and_rounds_but_not_across_the_gap() {
    let storage = Arc::new(MemoryStorage::new());
    let options = LogOptions::new().cap_bytes(4 << 20).head_bytes(1000);
    let mut writer = LogWriter::create(storage, FOLDER, b"", options).unwrap();
    let line = b"0123456789 needle 0123456789 abcdefg\n";
    let mut text = line.repeat(10_000);
    text.truncate(300_000);
    for _ in 0..20 {
        writer.append(&[run(1, 0, &text)]);
    }
    let gap = writer.status().gap.unwrap();
    let whole: Vec<u8> = text.repeat(20);
    let needles = whole
        .windows(6)
        .enumerate()
        .filter(|(_, bytes)| *bytes == b"needle");
    let expected: Vec<u64> = needles
        .map(|(at, _)| u64::try_from(at).unwrap())
        .filter(|at| at + 6 <= gap.from.get() || *at >= gap.to.get())
        .collect();
    let reader = writer.reader();
    for pattern in [
        SearchPattern::literal(b"needle").unwrap(),
        SearchPattern::regex("n[e]+dle").unwrap(),
    ] {
        for max_matches in [300, 1000] {
            let found = all(&reader, &pattern, limits(max_matches, 10));
            let offsets: Vec<_> = found.iter().map(|(offset, ..)| *offset).collect();
            assert!(offsets == expected);
        }
    }
}

#[test]
fn work_is_bounded_by_bytes_and_by_whoever_asked() {
    let mut writer = writer();
    writer.append(&[run(1, 0, &vec![b'x'; 3 << 20])]);
    let reader = writer.reader();
    let pattern = SearchPattern::literal(b"y").unwrap();
    let few = SearchLimits {
        max_scan_bytes: 1000,
        ..SearchLimits::default()
    };
    let page = reader.search(&pattern, Offset::ZERO, few, || true).unwrap();
    assert_eq!(
        (page.next_offset.get(), page.scanned_bytes, page.at_end),
        (1000, 1000, false)
    );
    let page = reader
        .search(&pattern, Offset::ZERO, SearchLimits::default(), || false)
        .unwrap();
    assert_eq!((page.next_offset.get(), page.at_end), (64 * 1024, false));
    let none = SearchLimits {
        max_matches: 0,
        max_scan_bytes: 0,
        ..SearchLimits::default()
    };
    assert!(
        reader
            .search(&pattern, Offset::new(u64::MAX), none, || true)
            .unwrap()
            .matches
            .is_empty()
    );
    let page = reader
        .search(&pattern, Offset::new(u64::MAX), SearchLimits::default(), || true)
        .unwrap();
    assert_eq!((page.next_offset.get(), page.at_end), (3 << 20, true));
}

#[test]
fn long_matches_lines_and_empty_matches() {
    let mut writer = writer();
    let long = [
        b"<".to_vec(),
        vec![b'-'; MAX_MATCH_BYTES - 2],
        b">\nerror: one\nan error: two\n".to_vec(),
    ]
    .concat();
    writer.append(&[run(1, 0, &vec![b' '; 500_000]), run(1, 0, &long)]);
    let reader = writer.reader();
    let check = |pattern: &str, expected: &[u64]| {
        let found = all(&reader, &SearchPattern::regex(pattern).unwrap(), limits(2, 0));
        assert_eq!(
            found.iter().map(|(offset, ..)| *offset).collect::<Vec<_>>(),
            expected,
            "{pattern}"
        );
    };
    check("<-*>", &[500_000]);
    check("^error", &[565_537]);
    check("q*", &[]);
    check("(?i)ERROR: (one|two)$", &[565_537, 565_551]);
}

#[test]
fn patterns_that_cannot_be_searched_for_are_refused() {
    assert!(matches!(
        SearchPattern::literal(b""),
        Err(SearchError::EmptyPattern)
    ));
    assert!(matches!(
        SearchPattern::regex("("),
        Err(SearchError::BadPattern { .. })
    ));
    assert!(matches!(
        SearchPattern::regex("(a{1000}){1000}"),
        Err(SearchError::BadPattern { .. })
    ));
    let long = "a".repeat(5000);
    assert!(matches!(
        SearchPattern::literal(long.as_bytes()),
        Err(SearchError::PatternTooLong {
            pattern_bytes: 5000,
            max_bytes: 4096
        })
    ));
}

proptest! {
    #[test]
    fn a_search_in_steps_finds_what_one_search_finds(
        runs in prop::collection::vec((0..3_u8, "[ab]{0,12}"), 0..40),
        max_matches in 1..4_usize,
        max_scan_bytes in 1..50_u64,
    ) {
        let mut writer = writer();
        let mut lanes = [const { Vec::new() }; 3];
        let mut total = 0;
        for (stream, text) in &runs {
            writer.append(&[run(*stream, total, text.as_bytes())]);
            lanes[usize::from(*stream)].extend(text.bytes().zip(total..));
            total += u64::try_from(text.len()).unwrap();
        }
        let reader = writer.reader();
        drop(writer.finish(b""));
        let pattern = SearchPattern::literal(b"aab").unwrap();
        let mut expected = Vec::new();
        for (stream, lane) in (0_u8..).zip(&lanes) {
            let found = lane.windows(3).filter(|part| part.iter().map(|(byte, _)| *byte).eq(*b"aab"));
            expected.extend(found.map(|part| (part[0].1, stream, "aab".to_owned())));
        }
        expected.sort();
        prop_assert_eq!(&all(&reader, &pattern, limits(1000, 5)), &expected);
        let small = SearchLimits { max_matches, context_bytes: 2, max_scan_bytes };
        prop_assert_eq!(&all(&reader, &pattern, small), &expected);
    }
}
