//! Where text can be cut without splitting a grapheme cluster.

use unicode_segmentation::UnicodeSegmentation;

/// How far a place to cut is looked for, in bytes of text.
const SEARCH_BYTES: usize = 4096;

/// Texts in front of a pair of characters on which it can depend whether a cluster ends between them: nothing, the
/// first part of an emoji, the first part of a conjunct.
const CONTEXTS: [&str; 3] = ["", "\u{2764}", "\u{915}\u{94d}"];

/// The largest place to cut `text` at or before `limit`; its start, if there is no other near enough.
///
/// The end of `text` counts only behind a line break, for what follows it is not known.
pub(super) fn cut_at_most(text: &str, limit: usize) -> usize {
    let nearest = floor(text, limit.min(text.len()));
    if nearest == text.len() && text.ends_with('\n') {
        return nearest;
    }
    let least = nearest.saturating_sub(SEARCH_BYTES);
    let before = text[..nearest].char_indices().rev().map(|(at, _)| at);
    [nearest]
        .into_iter()
        .chain(before)
        .take_while(|at| *at >= least)
        .find(|at| is_cut(text, *at))
        .unwrap_or(0)
}

/// The smallest place to cut `text` at or after `limit`; its end, if there is no other near enough.
///
/// The start of `text` does not count, for what precedes it is not known.
pub(super) fn cut_at_least(text: &str, limit: usize) -> usize {
    let nearest = ceil(text, limit.min(text.len()));
    let most = nearest.saturating_add(SEARCH_BYTES);
    text[nearest..]
        .char_indices()
        .map(|(at, _)| nearest + at)
        .take_while(|at| *at <= most)
        .find(|at| is_cut(text, *at))
        .unwrap_or(text.len())
}

/// Whether a cluster ends at `at`, whatever comes before and after `text`.
fn is_cut(text: &str, at: usize) -> bool {
    match (text[..at].chars().next_back(), text[at..].chars().next()) {
        (Some(before), Some(after)) => is_between_clusters(before, after),
        _ => false,
    }
}

/// Whether a cluster ends between the two characters in every text. Between two regional indicators it depends on how
/// many there are, so there the answer is no.
fn is_between_clusters(before: char, after: char) -> bool {
    if before.is_ascii() && after.is_ascii() {
        return (before, after) != ('\r', '\n');
    }
    CONTEXTS.into_iter().all(|context| {
        let text: String = context.chars().chain([before, after]).collect();
        text.graphemes(true)
            .next_back()
            .is_some_and(|last| last.len() == after.len_utf8())
    })
}

/// The largest edge of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The smallest edge of a character at or after `at`.
fn ceil(text: &str, at: usize) -> usize {
    (at..text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_come_between_clusters_only() {
        let check = |before: char, after: char, expected: bool| {
            assert_eq!(
                is_between_clusters(before, after),
                expected,
                "{before:?} {after:?}"
            );
        };
        check('a', 'b', true);
        check('\n', 'b', true);
        check('\r', '\n', false);
        check('\n', '\r', true);
        check('a', '\u{301}', false);
        check('\u{301}', 'a', true);
        check('漢', '字', true);
        check('\u{1f469}', '\u{200d}', false);
        check('\u{200d}', '\u{1f52c}', false);
        check('\u{200d}', 'a', true);
        check('\u{1f469}', '\u{1f3fd}', false);
        check('\u{1f3fd}', '\u{1f469}', true);
        check('\u{1f1e9}', '\u{1f1ea}', false);
        check('\u{1f1e9}', 'a', true);
        check('\u{94d}', '\u{915}', false);
        check('\u{1100}', '\u{1161}', false);
        check('\u{600}', 'a', false);
        check('\u{fffd}', '\u{fffd}', true);
    }

    #[test]
    fn a_cut_goes_inwards_to_the_next_place() {
        let check = |text: &str, limit: usize, at_most: usize, at_least: usize| {
            assert_eq!(
                (cut_at_most(text, limit), cut_at_least(text, limit)),
                (at_most, at_least),
                "{text:?} {limit}"
            );
        };
        check("", 0, 0, 0);
        check("", 9, 0, 0);
        check("abc", 0, 0, 1);
        check("abc", 2, 2, 2);
        check("abc", 3, 2, 3);
        check("abc\n", 9, 4, 4);
        check("ab\r\ncd", 3, 2, 4);
        check("ae\u{301}b", 2, 1, 4);
        check("a\u{1f469}\u{200d}\u{1f52c}b", 7, 1, 12);
        check("\u{1f1e9}\u{1f1ea}", 4, 0, 8);
    }

    #[test]
    fn a_search_without_end_is_given_up() {
        let text = format!("a{}b", "\u{301}".repeat(5000));
        assert_eq!(cut_at_most(&text, 9000), 0);
        assert_eq!(cut_at_least(&text, 1001), text.len());
    }
}
