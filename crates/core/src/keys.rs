//! Keys of a keyboard, as a terminal sends them to its program.
//!
//! A terminal session takes bytes, and nothing is made of them on the way. Who wants to press a key says so by name.
//!
//! ```
//! use procession_core::keys::Key;
//!
//! assert_eq!(Key::ENTER.bytes(), b"\r");
//! assert_eq!("ctrl-c".parse(), Ok(Key::CTRL_C));
//! ```

use std::{fmt, str::FromStr};

/// A key, by its name and by what an xterm sends for it.
///
/// | keys | bytes |
/// | --- | --- |
/// | `enter` | carriage return; a terminal that passes on lines makes a line end of it |
/// | `backspace` | DEL, 127 |
/// | `ctrl-a` … `ctrl-z` and `ctrl-space`, `ctrl-backslash`, `ctrl-right-bracket`, `ctrl-caret`, `ctrl-underscore` | the control characters |
/// | `up`, `down`, `right`, `left`, `home`, `end` | `ESC [` and a letter, as outside of the application mode of the cursor keys |
/// | the others | `ESC [`, or `ESC O` for `f1` … `f4`, and what follows |
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(&'static (&'static str, &'static [u8]));

macro_rules! keys {
    ($( $constant:ident, $name:literal, $bytes:literal, $about:literal; )*) => {
        impl Key {
            $(
                #[doc = $about]
                pub const $constant: Self = Self(&($name, $bytes));
            )*

            /// All keys, in no order that means anything.
            pub const ALL: &'static [Self] = &[ $( Self::$constant, )* ];
        }
    };
}

keys! {
    ENTER, "enter", b"\r", "Enter, also called return.";
    TAB, "tab", b"\t", "Tab.";
    SHIFT_TAB, "shift-tab", b"\x1b[Z", "Tab, backwards.";
    ESCAPE, "escape", b"\x1b", "Escape.";
    SPACE, "space", b" ", "The space bar.";
    BACKSPACE, "backspace", b"\x7f", "Erases what is before the cursor.";
    DELETE, "delete", b"\x1b[3~", "Erases what is at the cursor.";
    INSERT, "insert", b"\x1b[2~", "Insert.";
    UP, "up", b"\x1b[A", "Cursor up.";
    DOWN, "down", b"\x1b[B", "Cursor down.";
    RIGHT, "right", b"\x1b[C", "Cursor right.";
    LEFT, "left", b"\x1b[D", "Cursor left.";
    HOME, "home", b"\x1b[H", "To the beginning.";
    END, "end", b"\x1b[F", "To the end.";
    PAGE_UP, "page-up", b"\x1b[5~", "A page up.";
    PAGE_DOWN, "page-down", b"\x1b[6~", "A page down.";
    F1, "f1", b"\x1bOP", "F1.";
    F2, "f2", b"\x1bOQ", "F2.";
    F3, "f3", b"\x1bOR", "F3.";
    F4, "f4", b"\x1bOS", "F4.";
    F5, "f5", b"\x1b[15~", "F5.";
    F6, "f6", b"\x1b[17~", "F6.";
    F7, "f7", b"\x1b[18~", "F7.";
    F8, "f8", b"\x1b[19~", "F8.";
    F9, "f9", b"\x1b[20~", "F9.";
    F10, "f10", b"\x1b[21~", "F10.";
    F11, "f11", b"\x1b[23~", "F11.";
    F12, "f12", b"\x1b[24~", "F12.";
    CTRL_SPACE, "ctrl-space", b"\x00", "Control and space, which is NUL.";
    CTRL_A, "ctrl-a", b"\x01", "Control and A.";
    CTRL_B, "ctrl-b", b"\x02", "Control and B.";
    CTRL_C, "ctrl-c", b"\x03", "Control and C: interrupts, where the terminal makes signals.";
    CTRL_D, "ctrl-d", b"\x04", "Control and D: end of file, where the terminal passes on lines.";
    CTRL_E, "ctrl-e", b"\x05", "Control and E.";
    CTRL_F, "ctrl-f", b"\x06", "Control and F.";
    CTRL_G, "ctrl-g", b"\x07", "Control and G.";
    CTRL_H, "ctrl-h", b"\x08", "Control and H.";
    CTRL_I, "ctrl-i", b"\x09", "Control and I, which is a tab.";
    CTRL_J, "ctrl-j", b"\x0a", "Control and J, which is a line feed.";
    CTRL_K, "ctrl-k", b"\x0b", "Control and K.";
    CTRL_L, "ctrl-l", b"\x0c", "Control and L.";
    CTRL_M, "ctrl-m", b"\x0d", "Control and M, which is a carriage return.";
    CTRL_N, "ctrl-n", b"\x0e", "Control and N.";
    CTRL_O, "ctrl-o", b"\x0f", "Control and O.";
    CTRL_P, "ctrl-p", b"\x10", "Control and P.";
    CTRL_Q, "ctrl-q", b"\x11", "Control and Q: goes on, where the terminal controls the flow.";
    CTRL_R, "ctrl-r", b"\x12", "Control and R.";
    CTRL_S, "ctrl-s", b"\x13", "Control and S: holds the output, where the terminal controls the flow.";
    CTRL_T, "ctrl-t", b"\x14", "Control and T.";
    CTRL_U, "ctrl-u", b"\x15", "Control and U: erases the line.";
    CTRL_V, "ctrl-v", b"\x16", "Control and V: takes the next byte as it is.";
    CTRL_W, "ctrl-w", b"\x17", "Control and W: erases a word.";
    CTRL_X, "ctrl-x", b"\x18", "Control and X.";
    CTRL_Y, "ctrl-y", b"\x19", "Control and Y.";
    CTRL_Z, "ctrl-z", b"\x1a", "Control and Z: suspends, where the terminal makes signals.";
    CTRL_BACKSLASH, "ctrl-backslash", b"\x1c", "Control and backslash: quits, where the terminal makes signals.";
    CTRL_RIGHT_BRACKET, "ctrl-right-bracket", b"\x1d", "Control and the closing bracket.";
    CTRL_CARET, "ctrl-caret", b"\x1e", "Control and the caret.";
    CTRL_UNDERSCORE, "ctrl-underscore", b"\x1f", "Control and the underscore.";
}

/// Further names of keys.
const ALIASES: &[(&str, Key)] = &[
    ("return", Key::ENTER),
    ("esc", Key::ESCAPE),
    ("del", Key::DELETE),
    ("ins", Key::INSERT),
    ("pageup", Key::PAGE_UP),
    ("pgup", Key::PAGE_UP),
    ("pagedown", Key::PAGE_DOWN),
    ("pgdn", Key::PAGE_DOWN),
    ("ctrl-\\", Key::CTRL_BACKSLASH),
    ("ctrl-]", Key::CTRL_RIGHT_BRACKET),
    ("ctrl-^", Key::CTRL_CARET),
    ("ctrl-_", Key::CTRL_UNDERSCORE),
    ("ctrl-@", Key::CTRL_SPACE),
];

impl Key {
    /// The key's name, lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.0
    }

    /// What a terminal sends when the key is pressed.
    #[must_use]
    pub const fn bytes(self) -> &'static [u8] {
        self.0.1
    }
}

/// What was given is not the name of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a key: `enter`, `up`, `f1` and `ctrl-c` are")]
pub struct UnknownKey {
    /// What was given, cut to 40 characters.
    pub name: String,
}

impl FromStr for Key {
    type Err = UnknownKey;

    /// Takes the name in any case, `return`, `esc` and the like, `^C` and `control-c` for `ctrl-c`, and underscores for
    /// hyphens.
    fn from_str(text: &str) -> Result<Self, UnknownKey> {
        let lower = text.to_ascii_lowercase();
        let find = |name: &str| {
            let own = Self::ALL.iter().find(|key| key.name() == name).copied();
            own.or_else(|| {
                ALIASES
                    .iter()
                    .find(|(alias, _)| *alias == name)
                    .map(|(_, key)| *key)
            })
        };
        let control = lower
            .strip_prefix('^')
            .or_else(|| lower.strip_prefix("control-"))
            .map(|rest| format!("ctrl-{rest}"));
        let name = control.as_deref().unwrap_or(&lower);
        find(name)
            .or_else(|| find(&name.replace('_', "-")))
            .ok_or_else(|| UnknownKey {
                name: text.chars().take(40).collect(),
            })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_is_found_by_its_own_name_and_by_no_other() {
        let names: BTreeSet<_> = Key::ALL.iter().map(|key| key.name()).collect();
        assert_eq!(names.len(), Key::ALL.len());
        for key in Key::ALL {
            assert_eq!(key.name().parse(), Ok(*key));
            assert_eq!(key.name().to_ascii_uppercase().parse(), Ok(*key));
            assert_eq!(key.name().replace('-', "_").parse(), Ok(*key));
            assert!(!ALIASES.iter().any(|(alias, _)| *alias == key.name()), "{key}");
        }
        for (alias, key) in ALIASES {
            assert_eq!(alias.parse(), Ok(*key));
        }
    }

    #[test]
    fn a_letter_with_control_is_its_place_in_the_alphabet() {
        for (letter, byte) in ('a'..='z').zip(1..) {
            let check = |name: String| assert_eq!(name.parse().map(Key::bytes), Ok(&[byte][..]), "{name}");
            check(format!("ctrl-{letter}"));
            check(format!("control-{letter}"));
            check(format!("^{}", letter.to_ascii_uppercase()));
        }
    }

    #[test]
    fn what_is_no_key_is_told() {
        for given in [
            "", "ctrl-", "ctrl-ä", "^", "f13", "f0", "enter ", "a", "ctrl-cc", "\r",
        ] {
            let name = given.to_owned();
            assert_eq!(given.parse::<Key>(), Err(UnknownKey { name }));
        }
        let long = "x".repeat(100);
        assert_eq!(long.parse::<Key>().map_err(|error| error.name.len()), Err(40));
    }
}
