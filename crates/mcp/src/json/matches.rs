//! What a search of a log found.

use procession_actors::report::{LogMatch, LogMatches};
use procession_core::text::{TextEnd, decode};
use serde_json::{Value, json};

/// What a search found: `matches` (each `offset`, `stream`, `text`), `next_offset`, `at_end`.
///
/// A character that the end of the context splits is left out of the text.
#[must_use]
pub fn log_matches_value(matches: &LogMatches) -> Value {
    let found: Vec<_> = matches
        .matches
        .iter()
        .map(|found| json!({ "offset": found.offset, "stream": found.stream.as_str(), "text": text(found) }))
        .collect();
    json!({ "matches": found, "next_offset": matches.next_offset, "at_end": matches.at_end })
}

fn text(found: &LogMatch) -> String {
    let before = found.text.get(..found.range.start).unwrap_or_default();
    let split = before
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000)
        .count();
    let bytes = found.text.get(split..).unwrap_or_default();
    let decoded = decode(bytes, TextEnd::Open);
    if split + decoded.consumed_bytes >= found.range.end {
        decoded.text
    } else {
        // It is the match itself that ends in the middle of a character.
        decode(bytes, TextEnd::Closed).text
    }
}

#[cfg(test)]
mod tests {
    use procession_core::StreamId;

    use super::*;

    #[test]
    fn a_match_is_told_with_whole_characters_around_it() {
        let check = |text: &'static [u8], range: std::ops::Range<usize>, expected: &str| {
            let matches = LogMatches {
                matches: vec![LogMatch {
                    offset: 7,
                    stream: StreamId::Stderr,
                    text: text.into(),
                    range,
                }],
                next_offset: 9,
                at_end: true,
            };
            let expected = json!({
                "matches": [{ "offset": 7, "stream": "stderr", "text": expected }], "next_offset": 9, "at_end": true,
            });
            assert_eq!(log_matches_value(&matches), expected);
        };
        check(b"an error here", 3..8, "an error here");
        check(b"\x82\xac error \xe2\x82", 3..8, " error ");
        check(b"\x82error\xe2", 0..7, "\u{fffd}error\u{fffd}");
    }
}
