use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::*;

/// Keeps everything.
#[derive(Default)]
struct Model {
    streams: [Vec<u8>; 2],
    closed: [bool; 2],
}

impl Model {
    /// Offset behind the last complete character.
    fn end(&self, stream: StreamId) -> usize {
        let index = usize::from(stream.tag());
        let bytes = &self.streams[index];
        let is_incomplete = |tail: &[u8]| {
            std::str::from_utf8(tail).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
        };
        let incomplete = (1..=bytes.len().min(3)).find(|back| is_incomplete(&bytes[bytes.len() - back..]));
        bytes.len() - incomplete.filter(|_| !self.closed[index]).unwrap_or(0)
    }

    fn lossy(&self, stream: StreamId, from: u64, to: u64) -> String {
        let range = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
        String::from_utf8_lossy(&self.streams[usize::from(stream.tag())][range]).into_owned()
    }
}

/// Checks one reading from a place that a reading gave, in every respect.
fn check(
    model: &Model,
    capture: &Capture,
    position: ReadPosition,
    budget: OutputBudget,
) -> Result<Reading, TestCaseError> {
    let reading = read_text(capture, position, budget);
    prop_assert!(reading.stdout.len() + reading.stderr.len() <= budget.bytes());
    let mut wholes = Vec::new();
    for (stream, text) in StreamId::ALL.into_iter().zip([&reading.stdout, &reading.stderr]) {
        let (from, end) = (position.offset(stream), reading.next.offset(stream));
        prop_assert_eq!(end, model.end(stream) as u64);
        let whole = model.lossy(stream, from, end);
        let gap = capture.gap(stream).filter(|gap| gap.end > from);
        let mut omissions = reading
            .omitted
            .iter()
            .filter(|omission| omission.stream == stream);
        if let Some(omission) = omissions.next() {
            prop_assert!(omissions.next().is_none());
            prop_assert!(from <= omission.from && omission.from < omission.to && omission.to <= end);
            if let Some(gap) = &gap {
                prop_assert!(omission.from <= gap.start.max(from) && gap.end <= omission.to);
            }
            let (head, tail) = (
                model.lossy(stream, from, omission.from),
                model.lossy(stream, omission.to, end),
            );
            prop_assert_eq!(
                text,
                &format!("{head}\n… [{} bytes omitted] …\n{tail}", omission.bytes())
            );
            prop_assert!(whole.starts_with(&head) && whole.ends_with(&tail));
            let edges: Vec<_> = whole
                .grapheme_indices(true)
                .map(|(at, _)| at)
                .chain([whole.len()])
                .collect();
            prop_assert!(
                head.is_empty() || edges.contains(&head.len()),
                "{:?} in {:?}",
                head,
                whole
            );
            prop_assert!(
                tail.is_empty() || edges.contains(&(whole.len() - tail.len())),
                "{:?} in {:?}",
                tail,
                whole
            );
        } else {
            prop_assert!(gap.is_none());
            prop_assert_eq!(text, &whole);
        }
        wholes.push((whole.len(), gap.is_some()));
    }
    if wholes.iter().all(|(_, gap)| !gap)
        && wholes.iter().map(|(len, _)| len).sum::<usize>() <= budget.bytes()
    {
        prop_assert_eq!(reading.omitted.len(), 0, "everything had room");
    }
    prop_assert_eq!(reading.omitted.is_sorted_by_key(|omission| omission.stream), true);
    Ok(reading)
}

fn stream() -> impl Strategy<Value = StreamId> {
    prop::sample::select(StreamId::ALL.to_vec())
}

/// Text with all that can be split, bytes that are no text, and repetitions of one thing.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let texts = [
        "a",
        "some words ",
        "\n",
        "\r\n",
        "\r",
        "\0",
        "\u{1b}[31m",
        "é",
        "e\u{301}",
        "漢",
        "\u{1f600}",
        "\u{1f44d}\u{1f3fd}",
        "\u{1f469}\u{200d}\u{1f52c}",
        "\u{1f1e9}\u{1f1ea}",
        "\u{1f1e9}",
        "\u{200d}",
        "\u{301}",
        "\u{1112}\u{1161}\u{11ab}",
        "\u{915}\u{94d}\u{937}",
        "\u{94d}",
        "\u{600}",
        "\u{2028}",
        "\u{fffd}",
        "\u{fe0f}",
    ];
    let part = prop_oneof![
        8 => prop::sample::select(texts.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        1 => prop::sample::select(vec![&b"\xf0\x9f\x98"[..], b"\xe2\x82", b"\xc3", b"\x80\x80"]).prop_map(<[u8]>::to_vec),
    ];
    prop_oneof![
        3 => vec(part.clone(), 0..30).prop_map(|parts| parts.concat()),
        1 => (part, 0..400_usize).prop_map(|(part, times)| part.repeat(times)),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Push(StreamId, Vec<u8>, prop::sample::Index),
    Read(usize, u64),
    Close(StreamId),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (stream(), output(), any::<prop::sample::Index>()).prop_map(|(a, b, c)| Step::Push(a, b, c)),
        6 => (0..3_usize, 0..1500_u64).prop_map(|(reader, budget)| Step::Read(reader, budget)),
        1 => stream().prop_map(Step::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_reader_gets_everything_or_is_told_exactly_what_not(
        cap in prop_oneof![1..200_usize, 500..20_000_usize], steps in vec(step(), 0..40),
    ) {
        let (mut capture, mut model) = (Capture::new(cap), Model::default());
        let mut readers = [ReadPosition::START; 3];
        for step in steps {
            match step {
                Step::Push(stream, bytes, cut) => {
                    let index = usize::from(stream.tag());
                    if model.closed[index] {
                        continue;
                    }
                    model.streams[index].extend_from_slice(&bytes);
                    let mut first = Bytes::from(bytes);
                    let second = first.split_off(cut.index(first.len() + 1));
                    capture.push(stream, first);
                    capture.push(stream, second);
                }
                Step::Read(reader, budget) => {
                    let reading = check(&model, &capture, readers[reader], OutputBudget::new(budget))?;
                    readers[reader] = reading.next;
                }
                Step::Close(stream) => {
                    model.closed[usize::from(stream.tag())] = true;
                    capture.close(stream);
                }
            }
        }
        for reader in readers {
            check(&model, &capture, reader, OutputBudget::MIN)?;
            check(&model, &capture, reader, OutputBudget::MAX)?;
        }
    }

    #[test]
    fn fast_polling_gives_the_whole(pieces in vec((stream(), output()), 0..40)) {
        let (mut capture, mut wholes) = (Capture::new(1 << 20), [Vec::new(), Vec::new()]);
        let (mut texts, mut position) = ([String::new(), String::new()], ReadPosition::START);
        for (stream, bytes) in pieces {
            wholes[usize::from(stream.tag())].extend_from_slice(&bytes);
            for byte in bytes.chunks(3) {
                capture.push(stream, Bytes::copy_from_slice(byte));
                let reading = read_text(&capture, position, OutputBudget::default());
                prop_assert_eq!(reading.omitted_bytes(), 0);
                texts[0].push_str(&reading.stdout);
                texts[1].push_str(&reading.stderr);
                position = reading.next;
            }
        }
        capture.close(StreamId::Stdout);
        capture.close(StreamId::Stderr);
        let reading = read_text(&capture, position, OutputBudget::default());
        texts[0].push_str(&reading.stdout);
        texts[1].push_str(&reading.stderr);
        for (text, whole) in texts.iter().zip(&wholes) {
            prop_assert_eq!(text, &String::from_utf8_lossy(whole));
        }
        prop_assert_eq!(reading.next, ReadPosition::at_end(&capture));
        prop_assert_eq!(reading.next.unread_bytes(&capture), 0);
    }

    #[test]
    fn a_place_from_nowhere_does_no_harm(
        cap in 1..500_usize, bytes in output(), stdout in prop_oneof![0..2000_u64, any::<u64>()], stderr: u64, budget: u64,
    ) {
        let mut capture = Capture::new(cap);
        capture.push(StreamId::Stdout, bytes.into());
        let total = capture.total(StreamId::Stdout);
        let reading = read_text(&capture, ReadPosition { stdout, stderr }, OutputBudget::new(budget));
        prop_assert!(reading.stdout.len() <= OutputBudget::new(budget).bytes());
        prop_assert!(reading.omitted_bytes() <= total.saturating_sub(stdout));
        prop_assert!(reading.next.stdout <= total && reading.next.stdout + 3 >= total);
        prop_assert_eq!((reading.next.stderr, reading.stderr.len()), (0, 0));
    }
}

fn captured(stdout: &[u8], stderr: &[u8], cap: usize) -> Capture {
    let mut capture = Capture::new(cap);
    capture.push(StreamId::Stdout, Bytes::copy_from_slice(stdout));
    capture.push(StreamId::Stderr, Bytes::copy_from_slice(stderr));
    capture
}

#[test]
fn budgets_are_clamped() {
    let check = |bytes: u64, expected: usize| assert_eq!(OutputBudget::new(bytes).bytes(), expected);
    check(0, 128);
    check(127, 128);
    check(128, 128);
    check(10_000, 10_000);
    check(262_144, 262_144);
    check(u64::MAX, 262_144);
    assert_eq!(OutputBudget::from_tokens(100).bytes(), 400);
    assert_eq!(OutputBudget::from_tokens(u64::MAX), OutputBudget::MAX);
}

#[test]
fn a_long_text_is_cut_in_the_middle() {
    let text = "0123456789".repeat(100);
    let reading = read_text(
        &captured(text.as_bytes(), b"", 4096),
        ReadPosition::START,
        OutputBudget::MIN,
    );
    let omission = Omission {
        stream: StreamId::Stdout,
        from: 49,
        to: 951,
    };
    assert_eq!(reading.omitted, [omission]);
    assert_eq!(
        reading.stdout,
        "0123456789012345678901234567890123456789012345678\n… [902 bytes omitted] …\n1234567890123456789012345678901234567890123456789"
    );
    assert_eq!(
        reading.next,
        ReadPosition {
            stdout: 1000,
            stderr: 0
        }
    );
}

#[test]
fn what_the_capture_dropped_and_what_the_budget_cut_are_one_omission() {
    let text = "line\n".repeat(1000);
    for budget in [128, 1000, 2000, 4000] {
        let reading = read_text(
            &captured(text.as_bytes(), b"", 1000),
            ReadPosition::START,
            OutputBudget::new(budget),
        );
        assert_eq!(reading.stdout.matches("omitted").count(), 1);
        let [omission] = reading.omitted[..] else {
            panic!("{:?}", reading.omitted)
        };
        assert!(omission.from <= 500 && omission.to >= 4500, "{omission:?}");
        if budget > 1100 {
            assert!(omission.from >= 496 && omission.to <= 4504, "{omission:?}");
        }
    }
}

#[test]
fn an_unused_share_goes_to_the_other_stream() {
    let long = b"x".repeat(10_000);
    let check = |stdout: usize, stderr: usize, at_least: (usize, usize)| {
        let capture = captured(&long[..stdout], &long[..stderr], 1 << 20);
        let reading = read_text(&capture, ReadPosition::START, OutputBudget::new(1000));
        let lens = (reading.stdout.len(), reading.stderr.len());
        assert!(lens.0 + lens.1 <= 1000, "{lens:?}");
        assert!(
            lens.0 >= at_least.0 && lens.1 >= at_least.1,
            "{lens:?}, should be {at_least:?}"
        );
    };
    check(10_000, 0, (990, 0));
    check(0, 10_000, (0, 990));
    check(10_000, 100, (890, 100));
    check(100, 10_000, (100, 890));
    check(10_000, 10_000, (490, 490));
    check(500, 500, (500, 500));
    check(999, 1, (999, 1));
    check(600, 500, (490, 500));
}

#[test]
fn bytes_that_grow_as_text_keep_the_budget() {
    let reading = read_text(
        &captured(&[0xff; 1000], b"", 4096),
        ReadPosition::START,
        OutputBudget::new(1000),
    );
    assert!(
        (990..=1000).contains(&reading.stdout.len()),
        "{}",
        reading.stdout.len()
    );
}

#[test]
fn a_cluster_larger_than_the_budget_is_left_out_whole() {
    let text = format!("a{}", "\u{301}".repeat(10_000));
    let reading = read_text(
        &captured(text.as_bytes(), b"", 1 << 20),
        ReadPosition::START,
        OutputBudget::MIN,
    );
    assert_eq!(reading.stdout, "\n… [20001 bytes omitted] …\n");
}

#[test]
fn a_character_in_two_parts_is_delivered_once_complete() {
    let mut capture = Capture::new(4096);
    let mut position = ReadPosition::START;
    let mut check = |capture: &Capture, expected: &str, next: u64| {
        let reading = read_text(capture, position, OutputBudget::DEFAULT);
        position = reading.next;
        assert_eq!((reading.stdout.as_str(), position.stdout), (expected, next));
    };
    capture.push(StreamId::Stdout, Bytes::from_static(b"a\xe2"));
    check(&capture, "a", 1);
    capture.push(StreamId::Stdout, Bytes::from_static(b"\x82"));
    check(&capture, "", 1);
    capture.push(StreamId::Stdout, Bytes::from_static(b"\xac\xf0\x9f"));
    check(&capture, "€", 4);
    capture.close(StreamId::Stdout);
    check(&capture, "\u{fffd}", 6);
    check(&capture, "", 6);
}
