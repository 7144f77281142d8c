use proptest::{collection::vec, prelude::*};

use super::*;

fn set(secrets: &[&str]) -> SecretSet {
    let secrets: Vec<_> = secrets
        .iter()
        .map(|secret| Secret::new(*secret).expect("long enough"))
        .collect();
    SecretSet::new(&secrets).expect("few")
}

/// Pushes the pieces one after the other and flushes: the text, and how many secrets were replaced.
fn redact(set: &SecretSet, pieces: &[&[u8]]) -> (String, u64) {
    let mut redactor = set.redactor().expect("there are secrets");
    let mut text = Vec::new();
    for piece in pieces {
        text.extend_from_slice(&redactor.push(&Bytes::copy_from_slice(piece)));
    }
    text.extend_from_slice(&redactor.flush());
    assert_eq!(redactor.held_bytes(), 0);
    (
        String::from_utf8_lossy(&text).into_owned(),
        redactor.replacements(),
    )
}

/// From left to right, at each place the longest.
fn model(secrets: &[&str], text: &[u8]) -> (Vec<u8>, u64) {
    let (mut redacted, mut count, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let here = secrets
            .iter()
            .filter(|secret| text[at..].starts_with(secret.as_bytes()))
            .map(|secret| secret.len())
            .max();
        if let Some(length) = here {
            redacted.extend_from_slice(REPLACEMENT);
            count += 1;
            at += length;
        } else {
            redacted.push(text[at]);
            at += 1;
        }
    }
    (redacted, count)
}

#[test]
fn secrets_are_replaced_wherever_the_text_was_cut() {
    let check = |secrets: &[&str], text: &str, expected: &str, count: u64| {
        let set = set(secrets);
        let expected = (expected.to_owned(), count);
        assert_eq!(redact(&set, &[text.as_bytes()]), expected, "{text:?} at once");
        let single: Vec<_> = text.as_bytes().chunks(1).collect();
        assert_eq!(redact(&set, &single), expected, "{text:?} byte by byte");
        for cut in 0..=text.len() {
            let (first, second) = text.as_bytes().split_at(cut);
            assert_eq!(redact(&set, &[first, second]), expected, "{text:?} cut at {cut}");
        }
    };
    check(&["sk-abcdef1234"], "tok=sk-abcdef1234\nok\n", "tok=***\nok\n", 1);
    check(
        &["sk-abcdef1234"],
        "sk-abcdef123 sk-abcdef",
        "sk-abcdef123 sk-abcdef",
        0,
    );
    check(&["abcabcabd"], "abcabcabcabd", "abc***", 1);
    check(&["aaaaaaaa"], &"a".repeat(17), "******a", 2);
    // One is the beginning of another: the longest that is whole is taken.
    check(
        &["password", "password-1234"],
        "password-1234 password-12",
        "*** ***-12",
        2,
    );
    // Two that overlap: the one that begins first is taken.
    check(
        &["first-second", "second-third"],
        "first-second-third",
        "***-third",
        1,
    );
    // The one that begins first comes to nothing, the one within it does not.
    check(&["aaaabbbbccccX", "bbbbcccc"], "aaaabbbbccccY", "aaaa***Y", 1);
    check(
        &["secret-1", "secret-2"],
        "secret-1secret-2secret-3",
        "******secret-3",
        2,
    );
}

#[test]
fn no_more_is_held_back_than_the_beginning_of_a_secret() {
    let set = set(&["> secret", "hunter2-hunter2"]);
    let mut redactor = set.redactor().expect("there are secrets");
    let mut check = |piece: &'static str, out: &str, held: usize| {
        assert_eq!(redactor.push(&Bytes::from_static(piece.as_bytes())), out);
        assert_eq!(redactor.held_bytes(), held, "{piece:?}");
    };
    check("name: ", "name: ", 0);
    check("login> ", "login", 2);
    check("sec", "", 5);
    check("ond hunter", "> second ", 6);
    check("2-hunter3", "hunter2-hunter3", 0);
}

#[test]
fn a_piece_without_a_secret_is_passed_on_as_it_is() {
    let set = set(&["hunter2-hunter2"]);
    let mut redactor = set.redactor().expect("there are secrets");
    let piece = Bytes::from(vec![b'x'; 100_000]);
    assert_eq!(redactor.push(&piece).as_ptr(), piece.as_ptr());
}

#[test]
fn a_secret_of_several_lines_is_found_on_a_terminal_too() {
    let set = set(&["-----BEGIN\nabc\nEND-----\n"]);
    let text = "-----BEGIN\r\nabc\r\nEND-----\r\n-----BEGIN\nabc\nEND-----\n";
    assert_eq!(redact(&set, &[text.as_bytes()]), ("***\r\n***\n".to_owned(), 2));
}

#[test]
fn what_would_damage_ordinary_text_is_refused() {
    let check = |value: &str, expected: SecretError| assert_eq!(Secret::new(value), Err(expected));
    let (min_bytes, max_bytes) = (MIN_SECRET_BYTES, MAX_SECRET_BYTES);
    check("", SecretError::TooShort { bytes: 0, min_bytes });
    check("LIVE", SecretError::TooShort { bytes: 4, min_bytes });
    check("seven77\r\n\n", SecretError::TooShort { bytes: 7, min_bytes });
    let bytes = MAX_SECRET_BYTES + 1;
    check(&"x".repeat(bytes), SecretError::TooLong { bytes, max_bytes });
    assert_eq!(Secret::new("eight888").map(|secret| secret.bytes()), Ok(8));
}

#[test]
fn too_many_secrets_are_refused() {
    let secret = Secret::new("x".repeat(MAX_SECRET_BYTES)).expect("as long as may be");
    let many = vec![secret; MAX_SECRETS_BYTES_TOTAL / MAX_SECRET_BYTES + 1];
    let expected = SecretError::TooManyBytes {
        bytes: MAX_SECRETS_BYTES_TOTAL + MAX_SECRET_BYTES,
        max_bytes: MAX_SECRETS_BYTES_TOTAL,
    };
    assert_eq!(SecretSet::new(&many).map(|set| set.is_empty()), Err(expected));
}

#[test]
fn without_secrets_there_is_no_redactor() {
    let set = SecretSet::new(&[]).expect("none");
    assert!(set.is_empty() && set.redactor().is_none());
}

#[test]
fn nothing_shows_a_secret() {
    let secret = Secret::new("hunter2-hunter2").expect("long enough");
    let set = SecretSet::new(std::slice::from_ref(&secret)).expect("one");
    let mut redactor = set.redactor();
    let _ = redactor
        .as_mut()
        .map(|redactor| redactor.push(&Bytes::from_static(b"hunter2")));
    let shown = format!("{secret:?} {set:?} {redactor:?}");
    assert!(!shown.contains("hunter"), "{shown}");
    // Bytes as numbers would be no better.
    assert!(!shown.contains("104"), "{shown}");
}

proptest! {
    #[test]
    fn pieces_give_what_the_whole_gives(
        text in vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'c')], 0..400),
        inserted in vec((any::<prop::sample::Index>(), 0..6_usize), 0..8),
        cuts in vec(0..30_usize, 0..60),
    ) {
        let secrets = ["abababab", "ababababc", "babababab", "bcbcbcbcbcbc", "aaaaaaaab", "cabcabcab"];
        let mut text = text;
        for (at, which) in inserted {
            let at = at.index(text.len() + 1);
            text.splice(at..at, secrets[which].bytes());
        }
        let (expected, count) = model(&secrets, &text);
        let mut redactor = set(&secrets).redactor().expect("there are secrets");
        let (mut redacted, mut rest) = (Vec::new(), text.as_slice());
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            redacted.extend_from_slice(&redactor.push(&Bytes::copy_from_slice(piece)));
            prop_assert!(redactor.held_bytes() < 12);
            rest = behind;
        }
        redacted.extend_from_slice(&redactor.push(&Bytes::copy_from_slice(rest)));
        redacted.extend_from_slice(&redactor.flush());
        prop_assert_eq!(String::from_utf8_lossy(&redacted), String::from_utf8_lossy(&expected));
        prop_assert_eq!(redactor.replacements(), count);
    }
}
