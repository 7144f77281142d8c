use proptest::prelude::*;

use super::*;

fn after(typed: &[u8]) -> PendingLine {
    let mut line = PendingLine::default();
    line.follow(typed, &LineRules::default());
    line
}

#[test]
fn the_end_of_file_is_typed_until_a_program_sees_it() {
    for (typed, expected) in [
        (&b""[..], 1),
        (b"a\n", 1),
        (b"a\r", 1),
        (b"a", 2),
        (b"a\nb", 2),
        // What was typed was passed on by the first end of file already.
        (b"a\x04", 1),
        (b"a\x04b", 2),
        // What was erased is not there any more.
        (b"ab\x7f", 2),
        (b"ab\x7f\x7f\x7f", 1),
        ("ä\u{7f}".as_bytes(), 1),
        ("aä\u{7f}".as_bytes(), 2),
        (b"a b\x17", 2),
        (b"a b\x17\x17", 1),
        (b"word...\x17", 1),
        (b"a_b \x17", 1),
        (b"abc\x15", 1),
        (b"abc\x03", 1),
        (b"abc\x1a", 1),
        // What controls the flow is no part of the line.
        (b"\x13\x11\x12", 1),
        // The next byte is an ordinary one, whatever it is.
        (b"\x16", 3),
        (b"a\x16", 3),
        (b"\x16\x04", 2),
        (b"\x16\n", 2),
        (b"\x16\x7f\x7f", 1),
    ] {
        assert_eq!(after(typed).ends_of_file_needed(), expected, "{typed:?}");
    }
}

#[test]
fn the_longest_line_counts_what_was_typed_before() {
    let rules = LineRules::default();
    for (before, typed, expected) in [
        (&b""[..], &b""[..], 0),
        (b"", b"abc\nde", 3),
        (b"ab", b"c\ndefg\n", 4),
        (b"abcde", b"f", 6),
        (b"abcde", b"\nf", 5),
        (b"x\n", b"\n\n", 0),
        (b"abc", b"\x7f\x7fd", 3),
    ] {
        assert_eq!(
            after(before).longest_with(typed, &rules),
            expected,
            "{before:?} {typed:?}"
        );
    }
}

#[test]
fn what_a_terminal_cuts_off_is_counted_and_not_kept() {
    let line = after(&vec![b'x'; 100_000]);
    assert_eq!((line.bytes(), line.kept.len()), (100_000, 4095));
    assert_eq!(after(&vec![b'x'; 4095]).cut_bytes, 0);
}

#[test]
fn rules_may_lack_an_end_of_file() {
    assert_eq!(LineRules::none().end_of_file(), None);
    assert_eq!(LineRules::default().end_of_file(), Some(4));
    let rules = LineRules::none().with(7, ByteRole::EndsFile);
    assert_eq!(rules.end_of_file(), Some(7));
    let mut line = PendingLine::default();
    line.follow(b"a\x04\n", &rules);
    assert_eq!(line.bytes(), 3);
}

proptest! {
    /// Against the definition: without erasing and quoting, the line is what follows the last end.
    #[test]
    fn a_line_is_what_follows_the_last_end(typed in prop::collection::vec(prop::sample::select(b"ab\n\r\x04\x15 ".to_vec()), 0..40)) {
        let is_end = |byte: &u8| b"\n\r\x04\x15".contains(byte);
        let rest = typed.rsplit(is_end).next().unwrap_or_default();
        prop_assert_eq!(after(&typed).kept, rest);
        let longest = typed.split(is_end).map(<[u8]>::len).max().unwrap_or_default();
        prop_assert_eq!(PendingLine::default().longest_with(&typed, &LineRules::default()), longest as u64);
    }

    /// How it is cut into pieces makes no difference.
    #[test]
    fn a_line_may_come_in_pieces(typed in prop::collection::vec(any::<u8>(), 0..60), at in 0_usize..60) {
        let at = at.min(typed.len());
        let mut line = after(&typed[..at]);
        line.follow(&typed[at..], &LineRules::default());
        prop_assert_eq!(line, after(&typed));
    }
}
