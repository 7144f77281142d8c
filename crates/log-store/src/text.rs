//! Where text may be cut.

/// How many bytes at the end of `bytes` are the start of a UTF-8 character whose rest is missing: 0 to 3.
///
/// Bytes that can no longer become a character are not counted.
#[must_use]
pub fn incomplete_utf8_suffix(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    (1..=longest)
        .find(|len| {
            let suffix = bytes.get(bytes.len() - len..).unwrap_or_default();
            // "Ends too early" is the one error without a length.
            std::str::from_utf8(suffix)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: usize) {
        assert_eq!(incomplete_utf8_suffix(bytes), expected, "{bytes:02x?}");
    }

    #[test]
    fn only_a_character_that_may_still_become_whole_is_a_fragment() {
        check(b"", 0);
        check(b"abc", 0);
        check("a\u{e9}".as_bytes(), 0);
        check(b"a\xc3", 1);
        check(b"\xe2\x82", 2);
        check(b"a\xe2", 1);
        check("\u{20ac}".as_bytes(), 0);
        check(b"a\xf0\x9f\x98", 3);
        check(b"\xf0\x9f\x98\x80", 0);
        check(b"\x80\x80\x80", 0);
        check(b"\xff", 0);
        check(b"\xc3\xff", 0);
        check(b"\xe2\x28", 0);
        check(b"\xed\xa0", 0);
    }
}
