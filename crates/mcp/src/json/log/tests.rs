use procession_actors::report::LogGap;
use proptest::prelude::*;

use super::*;

const MANY: u64 = 1 << 20;

fn run(offset: u64, stream: StreamId, bytes: &[u8]) -> LogRun {
    LogRun {
        offset,
        stream,
        time_ms: offset,
        bytes: bytes.to_vec().into(),
    }
}

fn page(runs: Vec<LogRun>, at_end: bool) -> LogPage {
    let next_offset = runs.last().map_or(0, |run| run.offset + run.bytes.len() as u64);
    let total_bytes = if at_end { next_offset } else { next_offset + 100 };
    LogPage {
        runs,
        next_offset,
        total_bytes,
        at_end,
        gap: None,
        beyond_end: false,
    }
}

fn texts(value: &Value) -> Vec<(u64, String, String)> {
    let run = |run: &Value| {
        let text = |key: &str| run[key].as_str().expect("text").to_owned();
        (
            run["offset"].as_u64().expect("offset"),
            text("stream"),
            text("text"),
        )
    };
    value["runs"].as_array().expect("runs").iter().map(run).collect()
}

fn check(
    page: &LogPage,
    end: TextEnd,
    expected: &[(u64, &str, &str)],
    next_offset: u64,
    at_end: bool,
) -> bool {
    let found = log_page_text(page, MANY, end);
    let expected: Vec<_> = expected
        .iter()
        .map(|(offset, stream, text)| (*offset, (*stream).to_owned(), (*text).to_owned()))
        .collect();
    assert_eq!(texts(&found.value), expected);
    assert_eq!(found.value["next_offset"], next_offset);
    assert_eq!(found.value["at_end"], at_end);
    found.is_held_back
}

#[test]
fn whole_characters_are_given_as_they_are() {
    let page = page(
        vec![
            run(0, StreamId::Stdout, "aé".as_bytes()),
            run(3, StreamId::Stderr, b"\xff"),
        ],
        true,
    );
    assert!(!check(
        &page,
        TextEnd::Open,
        &[(0, "stdout", "aé"), (3, "stderr", "\u{fffd}")],
        4,
        true
    ));
}

#[test]
fn a_character_that_the_page_splits_is_left_to_the_next() {
    let page = page(vec![run(0, StreamId::Stdout, b"ab\xc3")], false);
    assert!(!check(&page, TextEnd::Closed, &[(0, "stdout", "ab")], 2, false));
}

#[test]
fn a_character_that_is_not_complete_yet_waits_for_its_rest() {
    let page = page(vec![run(0, StreamId::Stdout, b"ab\xe2\x82")], true);
    assert!(check(&page, TextEnd::Open, &[(0, "stdout", "ab")], 2, true));
    assert!(!check(
        &page,
        TextEnd::Closed,
        &[(0, "stdout", "ab"), (2, "stdout", "\u{fffd}")],
        4,
        true
    ));
}

#[test]
fn a_lone_beginning_is_an_empty_page_until_nothing_follows() {
    let page = page(vec![run(0, StreamId::Stdout, b"\xe2\x82")], true);
    assert!(check(&page, TextEnd::Open, &[], 0, true));
    assert!(!check(
        &page,
        TextEnd::Closed,
        &[(0, "stdout", "\u{fffd}")],
        2,
        true
    ));
}

#[test]
fn a_page_gets_on_although_its_first_character_is_never_completed() {
    let page = page(
        vec![
            run(0, StreamId::Stdout, b"\xe2\x82"),
            run(2, StreamId::Stderr, b"ee"),
        ],
        false,
    );
    let expected = [(2, "stderr", "ee"), (0, "stdout", "\u{fffd}")];
    assert!(!check(&page, TextEnd::Open, &expected, 4, false));
}

#[test]
fn a_character_in_two_runs_of_one_stream_is_one() {
    let runs = vec![
        run(0, StreamId::Stdout, b"a\xc3"),
        run(2, StreamId::Stderr, b"e"),
        run(3, StreamId::Stdout, b"\xa9b"),
    ];
    let expected = [(0, "stdout", "a"), (2, "stderr", "e"), (1, "stdout", "éb")];
    assert!(!check(&page(runs, true), TextEnd::Open, &expected, 5, true));
}

#[test]
fn text_is_bounded_even_where_nothing_is_text() {
    let page = page(vec![run(0, StreamId::Stdout, &[0xff; 300])], true);
    let found = log_page_text(&page, 300, TextEnd::Closed);
    let text = &texts(&found.value)[0].2;
    assert_eq!(text.len(), 300);
    assert_eq!(found.value["next_offset"], 100);
    assert_eq!(found.value["at_end"], false);
}

#[test]
fn a_gap_and_an_offset_beyond_the_end_are_told() {
    let gap = LogPage {
        gap: Some(LogGap { from: 5, to: 9 }),
        ..page(vec![run(9, StreamId::Stdout, b"x")], true)
    };
    assert_eq!(log_page_base64(&gap)["gap"], json!({ "from": 5, "to": 9 }));
    assert_eq!(log_page_base64(&gap)["runs"][0]["base64"], "eA==");
    let beyond = LogPage {
        runs: Vec::new(),
        next_offset: 70,
        total_bytes: 7,
        at_end: true,
        gap: None,
        beyond_end: true,
    };
    let value = log_page_text(&beyond, MANY, TextEnd::Open).value;
    assert_eq!(
        value,
        json!({
            "runs": [], "next_offset": 7, "total_bytes": 7, "at_end": true, "gap": null, "beyond_end": { "total": 7 },
        })
    );
}

/// A log in memory that is read as the model says: whole runs, cut at offset and size.
fn read(log: &[LogRun], offset: u64, max_bytes: u64) -> LogPage {
    let total = log.last().map_or(0, |run| run.offset + run.bytes.len() as u64);
    let to = offset.saturating_add(max_bytes).min(total);
    let runs = log
        .iter()
        .filter_map(|run| {
            let from = run.offset.max(offset);
            let until = (run.offset + run.bytes.len() as u64).min(to);
            let index = |at: u64| usize::try_from(at - run.offset).expect("small");
            (from < until).then(|| LogRun {
                offset: from,
                bytes: run.bytes.slice(index(from)..index(until)),
                ..run.clone()
            })
        })
        .collect();
    LogPage {
        runs,
        next_offset: to,
        total_bytes: total,
        at_end: to == total,
        gap: None,
        beyond_end: false,
    }
}

proptest! {
    /// Pages of any size, one after the other, come to the end, none is too long, and one stream alone is what it is.
    #[test]
    fn pages_make_up_the_streams(
        parts in proptest::collection::vec((any::<bool>(), "[aé€😀]{0,4}", proptest::option::of(any::<u8>())), 0..12),
        two_streams: bool,
        max_bytes in 12_u64..40,
    ) {
        let mut log = Vec::new();
        let mut whole = Vec::new();
        let mut offset = 0;
        for (on_stderr, text, odd) in &parts {
            let stream = if *on_stderr && two_streams { StreamId::Stderr } else { StreamId::Stdout };
            let bytes: Vec<u8> = text.bytes().chain(*odd).collect();
            if !bytes.is_empty() {
                log.push(run(offset, stream, &bytes));
                offset += bytes.len() as u64;
                whole.extend(bytes);
            }
        }
        let mut found = String::new();
        let mut at = 0;
        loop {
            let value = log_page_text(&read(&log, at, max_bytes), max_bytes, TextEnd::Closed).value;
            let text: String = texts(&value).into_iter().map(|(_, _, text)| text).collect();
            prop_assert!(text.len() as u64 <= max_bytes, "{} of {}", text.len(), max_bytes);
            found.push_str(&text);
            let next = value["next_offset"].as_u64().expect("next");
            if value["at_end"] == true {
                at = next;
                break;
            }
            prop_assert!(next > at, "no progress at {}", at);
            at = next;
        }
        prop_assert_eq!(at, offset);
        if !two_streams {
            prop_assert_eq!(found, String::from_utf8_lossy(&whole).into_owned());
        }
    }
}
