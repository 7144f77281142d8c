//! Which known name was probably meant.

/// The known name that is nearest to what was given, if one is near enough to be meant.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long names cost, and are no slips of the pen.
    if given.len() > 64 {
        return None;
    }
    let given = given.to_lowercase();
    known
        .into_iter()
        .map(|name| (distance(&given, name), name))
        .filter(|(distance, name)| *distance <= (name.chars().count() / 3).max(1))
        .min()
        .map(|(_, name)| name)
}

/// How many characters have to be put in, taken out or replaced.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, character) in from.chars().enumerate() {
        let mut diagonal = index;
        row[0] = index + 1;
        for (place, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognized() {
        let known = ["command", "cwd", "timeout_ms", "idle_timeout_ms"];
        for (given, expected) in [
            ("comand", Some("command")),
            ("Command", Some("command")),
            ("timeout", Some("timeout_ms")),
            ("cmwd", Some("cwd")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, known), expected, "{given}");
        }
        assert_eq!(nearest(&"c".repeat(1000), known), None);
    }
}
