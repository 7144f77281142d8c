use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::stream::StreamId;

/// Bytes that are often, not always, UTF-8.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        any::<char>().prop_map(|character| character.to_string().into_bytes()),
        Just("\u{1f600}".into()),
        Just("é".into()),
        Just(vec![0]),
        (0x80..=0xff_u8).prop_map(|byte| vec![byte]),
        Just(vec![0xf0, 0x9f, 0x98]),
        Just(vec![0xe2, 0x82]),
        Just(vec![0xed, 0xa0, 0x80]),
        Just(vec![0xc0, 0x80]),
    ];
    vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// The edges of what becomes one character each, the plain way: from the start, one by one.
fn edges(bytes: &[u8]) -> Vec<usize> {
    let mut edges = vec![0];
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            at += character.len_utf8();
            edges.push(at);
        }
        if !chunk.invalid().is_empty() {
            at += chunk.invalid().len();
            edges.push(at);
        }
    }
    edges
}

#[test]
fn an_incomplete_character_is_held_back_while_more_may_come() {
    let check = |bytes: &[u8], open: (&str, usize), closed: &str| {
        let decoded = decode(bytes, TextEnd::Open);
        assert_eq!((decoded.text.as_str(), decoded.consumed_bytes), open, "{bytes:?}");
        let decoded = decode(bytes, TextEnd::Closed);
        assert_eq!(
            (decoded.text.as_str(), decoded.consumed_bytes),
            (closed, bytes.len()),
            "{bytes:?}"
        );
    };
    check(b"", ("", 0), "");
    check(b"a\0b", ("a\0b", 3), "a\0b");
    check(b"a\xe2\x82", ("a", 1), "a\u{fffd}");
    check(b"a\xf0\x9f\x98", ("a", 1), "a\u{fffd}");
    check("a😀".as_bytes(), ("a😀", 5), "a😀");
    check(b"\xff\xfec", ("\u{fffd}\u{fffd}c", 3), "\u{fffd}\u{fffd}c");
    check(
        b"\x80\x80\x80\x80",
        ("\u{fffd}\u{fffd}\u{fffd}\u{fffd}", 4),
        "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
    );
    check(b"\xc3\xc3", ("\u{fffd}", 1), "\u{fffd}\u{fffd}");
    // The start of a surrogate can never become a character.
    check(b"\xed\xa0", ("\u{fffd}\u{fffd}", 2), "\u{fffd}\u{fffd}");
}

proptest! {
    #[test]
    fn texts_of_all_parts_are_the_text_of_the_whole(bytes in bytes(), cuts in vec(0..7_usize, 0..100)) {
        let (mut text, mut from, mut to) = (String::new(), 0, 0);
        for cut in cuts {
            to = (to + cut).min(bytes.len());
            let decoded = decode(&bytes[from..to], TextEnd::Open);
            from += decoded.consumed_bytes;
            prop_assert!(to - from <= 3);
            text.push_str(&decoded.text);
        }
        text.push_str(&decode(&bytes[from..], TextEnd::Closed).text);
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_resync_ends_at_the_edge_of_a_character(bytes in bytes(), at in any::<prop::sample::Index>()) {
        let at = at.index(bytes.len() + 1);
        let skipped = resync(&bytes[at..]);
        prop_assert!(skipped <= 3);
        let edges = edges(&bytes);
        prop_assert!(edges.contains(&(at + skipped)) || at + skipped == bytes.len());
    }

    #[test]
    fn text_is_traced_to_its_bytes(bytes in bytes()) {
        let text = String::from_utf8_lossy(&bytes);
        for edge in edges(&bytes) {
            let at = String::from_utf8_lossy(&bytes[..edge]).len();
            prop_assert_eq!(bytes_of_text(&bytes, &text, at), edge);
        }
    }

    #[test]
    fn a_position_survives_its_text_form(stdout: u64, stderr: u64) {
        let position = ReadPosition { stdout, stderr };
        prop_assert_eq!(position.to_string().parse(), Ok(position));
    }

    #[test]
    fn no_other_text_than_its_own_is_a_position(text in prop_oneof![".*", "c1\\.[0-9a-zA-Z+]{0,14}\\.[0-9a-z]{0,14}"]) {
        if let Ok(position) = text.parse::<ReadPosition>() {
            prop_assert_eq!(position.to_string(), text);
        }
    }
}

#[test]
fn positions_have_one_text_form() {
    let check = |position: ReadPosition, text: &str| {
        assert_eq!(position.to_string(), text);
        assert_eq!(text.parse(), Ok(position));
    };
    check(ReadPosition::START, "c1.0.0");
    check(
        ReadPosition {
            stdout: 35,
            stderr: 36,
        },
        "c1.z.10",
    );
    check(
        ReadPosition {
            stdout: u64::MAX,
            stderr: u64::MAX,
        },
        "c1.3w5e11264sgsf.3w5e11264sgsf",
    );
}

#[test]
fn a_text_that_is_no_position_is_refused_for_its_reason() {
    use ParsePositionError::{Malformed, NotAnOffset, TooLong, UnknownVersion};
    let check = |text: &str, expected: ParsePositionError| {
        assert_eq!(text.parse::<ReadPosition>(), Err(expected), "{text:?}");
    };
    check("", Malformed);
    check("c1", Malformed);
    check("c1.0", Malformed);
    check("c1.0.0.0", Malformed);
    check("c2.0.0", UnknownVersion);
    check(".0.0", UnknownVersion);
    let (stdout, stderr) = (StreamId::Stdout, StreamId::Stderr);
    check("c1..0", NotAnOffset { stream: stdout });
    check("c1.0.", NotAnOffset { stream: stderr });
    check("c1.+1.0", NotAnOffset { stream: stdout });
    check("c1.0.-1", NotAnOffset { stream: stderr });
    check("c1.A.0", NotAnOffset { stream: stdout });
    check("c1.00.0", NotAnOffset { stream: stdout });
    check("c1.3w5e11264sgsg.0", NotAnOffset { stream: stdout });
    check(
        &"0".repeat(1000),
        TooLong {
            bytes: 1000,
            max_bytes: 32,
        },
    );
}
