use bytes::Bytes;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::preview::read_text;

const STDOUT: StreamId = StreamId::Stdout;

fn captured(bytes: &[u8]) -> Capture {
    let mut capture = Capture::new(1 << 20);
    capture.push(STDOUT, Bytes::copy_from_slice(bytes));
    capture
}

fn closed(bytes: &[u8]) -> Capture {
    let mut capture = captured(bytes);
    close(&mut capture);
    capture
}

fn close(capture: &mut Capture) {
    for stream in StreamId::ALL {
        capture.close(stream);
    }
}

fn at(stdout: usize) -> ReadPosition {
    ReadPosition {
        stdout: stdout as u64,
        stderr: 0,
    }
}

fn whole(bytes: &[u8]) -> String {
    let reading = read_plain(&closed(bytes), ReadPosition::START, OutputBudget::MAX);
    assert_eq!(reading.next, at(bytes.len()));
    reading.stdout
}

/// Text with sequences of every kind, some of them broken.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => "[a-z ]{1,8}".prop_map(String::into_bytes),
        3 => Just(b"\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\x08".to_vec()),
        1 => Just(b"\t".to_vec()),
        1 => (0..60_u16, proptest::sample::select(b"KJCDGP@XAHm".to_vec()))
            .prop_map(|(count, action)| [format!("\x1b[{count}").as_bytes(), &[action]].concat()),
        1 => Just(b"\x1b]0;title\x07".to_vec()),
        1 => Just("漢字e\u{301}é".into()),
        1 => Just(vec![0xff, 0xe2, 0x82]),
    ];
    vec(part, 0..60).prop_map(|parts| parts.concat())
}

#[test]
fn what_happens_within_a_line_is_resolved() {
    let check = |bytes: &[u8], expected: &str| assert_eq!(whole(bytes), expected, "{bytes:?}");
    check(b"", "");
    check(b"plain\n", "plain\n");
    check(b"\x1b[31mred\x1b[0m\r\nx\n", "red\nx\n");
    check(b"\r 50%\r100%\nok\n", "100%\nok\n");
    check(b"long line\rshort\n", "shortline\n");
    check(b"long line\r\x1b[Kshort\n", "short\n");
    check(b"n\x08nn\x08n _\x08u\n", "nn u\n");
    check(b"abc\x1b[2Dx\x1b[5Gy\n", "axc y\n");
    check(b"abcdef\r\x1b[2P\x1b[3@x\n", "x  cdef\n");
    check(b"abcdef\x1b[3D\x1b[1Kx\n", "   xef\n");
    check(b"abcdef\r\x1b[2Xx\n", "x cdef\n");
    check(b"a\tb\n", "a\tb\n");
    check(b"0123456789\r\tx\n", "01234567x9\n");
    check("漢字\rab\n".as_bytes(), "ab字\n");
    check("漢字\ra\n".as_bytes(), "a 字\n");
    check("e\u{301}x\re\n".as_bytes(), "ex\n");
    check(b"a\0b\xff\xfec\x07\n", "ab\u{fffd}\u{fffd}c\n");
    check(b"a\xe2\x82", "a\u{fffd}");
    check(b"\x1b]0;title\x07a\x1b]0;more\x1b\\b\n", "ab\n");
    check(b"one\x1b[Atwo\x1b[2J\n", "one\n\n");
    check(b"never ended \x1b[3", "never ended ");
}

#[test]
fn few_bytes_do_not_become_much_text() {
    for sequence in ["\x1b[999Cx\n", "\x1b[999Gx\n", "a\r\x1b[999@\n", "\x1b[999G\t\n"] {
        let bytes = sequence.repeat(20_000);
        let text = render(&[], bytes.as_bytes(), TextEnd::Closed).text;
        assert!(
            text.len() <= 2 * bytes.len() + 8192,
            "{sequence:?}: {}",
            text.len()
        );
    }
}

#[test]
fn an_unfinished_line_is_left_to_the_next_reading_behind_a_whole_one() {
    let check = |bytes: &[u8], expected: &str, next: usize| {
        let capture = captured(bytes);
        let reading = read_plain(&capture, ReadPosition::START, OutputBudget::DEFAULT);
        assert_eq!(
            (reading.stdout.as_str(), reading.next),
            (expected, at(next)),
            "{bytes:?}"
        );
        assert_eq!(reading.omitted, []);
    };
    check(b"a\nb", "a\n", 2);
    check(b"a\n\r 10%", "a\n", 2);
    // Alone it is seen, for it may be a prompt; half a character is not.
    check(b"name: ", "name: ", 6);
    check(b"\x1b[1mname: \x1b[0", "name: ", 13);
    check(b"na\xe2\x82", "na", 2);
    check(b"", "", 0);
    let mut long = vec![b'x'; OutputBudget::DEFAULT.bytes() + 1];
    long.splice(0..0, *b"a\n");
    let reading = read_plain(&captured(&long), ReadPosition::START, OutputBudget::DEFAULT);
    assert_eq!(reading.next, at(long.len()));
    assert!(reading.stdout.starts_with("a\nxx") && reading.stdout.ends_with("xx"));
}

#[test]
fn a_line_that_was_told_in_part_goes_on_or_comes_anew() {
    let check = |pieces: &[&[u8]], expected: &[&str]| {
        let mut capture = Capture::new(1 << 20);
        let mut position = ReadPosition::START;
        let mut told = Vec::new();
        for piece in pieces {
            capture.push(STDOUT, Bytes::copy_from_slice(piece));
            let reading = read_plain(&capture, position, OutputBudget::DEFAULT);
            position = reading.next;
            told.push(reading.stdout);
        }
        assert_eq!(told, expected, "{pieces:?}");
    };
    check(&[b"na", b"me: ", b"x\n"], &["na", "me: ", "x\n"]);
    check(
        &[b"\x1b[3", b"1mred\x1b[0", b"m\r", b"\nx\n"],
        &["", "red", "", "\nx\n"],
    );
    check(&[b"\r 10%", b"\r 20%", b"\n"], &[" 10%", "\n 20%", "\n"]);
    check(&[b"abc", b"\x08\x08", b"d\n"], &["abc", "", "\nadc\n"]);
    check(&[b"abc", b"\rabc", b"d\n"], &["abc", "", "d\n"]);
}

#[test]
fn a_cut_is_told_in_bytes_as_they_were_written() {
    let line = "\x1b[1m0123456789\x1b[0m\r\n";
    let bytes = line.repeat(1000);
    let capture = closed(bytes.as_bytes());
    let budget = OutputBudget::new(300);
    let reading = read_plain(&capture, ReadPosition::START, budget);
    assert!(reading.stdout.len() <= 300, "{}", reading.stdout.len());
    assert_eq!(reading.next, at(bytes.len()));
    let [omitted] = reading.omitted[..] else {
        panic!("one cut: {:?}", reading.omitted);
    };
    let marker = marker(omitted.bytes());
    let (head, tail) = reading.stdout.split_once(&marker).expect("a marker");
    let before = usize::try_from(omitted.from).expect("small");
    let behind = usize::try_from(omitted.to).expect("small");
    // Head and tail are what the bytes on both sides of the cut give.
    assert_eq!(
        render(&[], &bytes.as_bytes()[..before], TextEnd::Closed).text,
        head
    );
    let rest = &bytes.as_bytes()[behind..];
    assert!(tail.ends_with(&render(&[], rest, TextEnd::Closed).text));
}

#[test]
fn what_the_capture_dropped_is_within_the_cut() {
    let mut capture = Capture::new(4096);
    for number in 0..2000 {
        capture.push(STDOUT, Bytes::from(format!("line {number}\r\n")));
    }
    let gap = capture.gap(STDOUT).expect("more than the cap");
    let reading = read_plain(&capture, ReadPosition::START, OutputBudget::DEFAULT);
    let [omitted] = reading.omitted[..] else {
        panic!("one cut: {:?}", reading.omitted);
    };
    assert!(omitted.from <= gap.start && gap.end <= omitted.to);
    assert!(reading.stdout.starts_with("line 0\nline 1\n"));
    assert!(reading.stdout.ends_with("\nline 1999\n"), "{}", reading.stdout);
    assert!(reading.stdout.contains(" …\nline "), "the tail begins at a line");
}

#[test]
fn it_is_time_to_read_when_a_line_is_whole_or_nothing_follows() {
    let check = |capture: &Capture, position: usize, expected: bool| {
        assert_eq!(
            has_plain(capture, at(position), OutputBudget::DEFAULT),
            expected,
            "{capture:?} {position}"
        );
    };
    check(&captured(b"a"), 0, false);
    check(&captured(b"\r 10%\r 20%"), 0, false);
    check(&captured(b"a\nb"), 0, true);
    check(&captured(b"a\nb"), 2, false);
    check(&captured(&b"x".repeat(40_000)), 0, true);
    check(&closed(b"a"), 0, true);
    check(&closed(b"a"), 1, false);
}

proptest! {
    #[test]
    fn readings_of_whole_lines_make_up_the_whole(bytes in output(), cuts in vec(0..20_usize, 0..60)) {
        let mut capture = Capture::new(1 << 20);
        let (mut text, mut position, mut rest) = (String::new(), ReadPosition::START, bytes.as_slice());
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            capture.push(STDOUT, Bytes::copy_from_slice(piece));
            rest = behind;
            if has_plain(&capture, position, OutputBudget::MAX) {
                let reading = read_plain(&capture, position, OutputBudget::MAX);
                prop_assert!(reading.next.stdout > position.stdout);
                position = reading.next;
                text.push_str(&reading.stdout);
            }
        }
        capture.push(STDOUT, Bytes::copy_from_slice(rest));
        close(&mut capture);
        let reading = read_plain(&capture, position, OutputBudget::MAX);
        text.push_str(&reading.stdout);
        prop_assert_eq!(reading.next, at(bytes.len()));
        prop_assert_eq!(text, whole(&bytes));
    }

    #[test]
    fn lines_that_only_grow_make_up_the_whole_at_any_readings(
        lines in vec("[a-z]{0,6}|\x1b\\[[0-9]{1,2}m|漢|\n|\r\n", 0..40),
        cuts in vec(0..6_usize, 0..60),
    ) {
        let bytes = lines.concat();
        let mut capture = Capture::new(1 << 20);
        let (mut text, mut position, mut rest) = (String::new(), ReadPosition::START, bytes.as_bytes());
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            capture.push(STDOUT, Bytes::copy_from_slice(piece));
            rest = behind;
            let reading = read_plain(&capture, position, OutputBudget::MAX);
            position = reading.next;
            text.push_str(&reading.stdout);
        }
        capture.push(STDOUT, Bytes::copy_from_slice(rest));
        close(&mut capture);
        text.push_str(&read_plain(&capture, position, OutputBudget::MAX).stdout);
        prop_assert_eq!(text, whole(bytes.as_bytes()));
    }

    #[test]
    fn any_bytes_at_any_place_are_answered_within_the_budget(
        bytes in prop_oneof![vec(any::<u8>(), 0..3000), output(), vec(any::<u8>(), 0..60).prop_map(|part| part.repeat(50))],
        cap in 64..4000_usize,
        pieces in 1..200_usize,
        budget in 0..600_u64,
        position in any::<prop::sample::Index>(),
        is_closed: bool,
    ) {
        let mut capture = Capture::new(cap);
        for piece in bytes.chunks(pieces) {
            capture.push(STDOUT, Bytes::copy_from_slice(piece));
            capture.push(StreamId::Stderr, Bytes::copy_from_slice(&piece[piece.len() / 2..]));
        }
        if is_closed {
            close(&mut capture);
        }
        let from = position.index(bytes.len() + 5);
        let position = ReadPosition { stdout: from as u64, stderr: from as u64 / 2 };
        let budget = OutputBudget::new(budget);
        let reading = read_plain(&capture, position, budget);
        prop_assert!(reading.stdout.len() + reading.stderr.len() <= budget.bytes());
        for stream in StreamId::ALL {
            let (total, from) = (capture.total(stream), position.offset(stream).min(capture.total(stream)));
            let next = reading.next.offset(stream);
            prop_assert!(from <= next && next <= total);
            if is_closed {
                prop_assert_eq!(next, total);
            }
            for omitted in reading.omitted.iter().filter(|omitted| omitted.stream == stream) {
                prop_assert!(from <= omitted.from && omitted.from < omitted.to && omitted.to <= next, "{omitted:?}");
            }
        }
        // The same place gives the same answer, to anybody.
        prop_assert_eq!(reading, read_plain(&capture, position, budget));
    }

    #[test]
    fn text_without_controls_is_what_it_is(text in "[a-zA-Z0-9 漢é\n]{0,200}") {
        let capture = closed(text.as_bytes());
        let plain = read_plain(&capture, ReadPosition::START, OutputBudget::MAX);
        prop_assert_eq!(plain, read_text(&capture, ReadPosition::START, OutputBudget::MAX));
    }
}
