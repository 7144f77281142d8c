//! A terminal's modes, as far as they decide what becomes of input.

use procession_core::terminal::{ByteRole, LineRules, TerminalMode};
use rustix::termios::{InputModes, LocalModes, SpecialCodeIndex, Termios};

/// What a code is set to that stands for no byte.
const DISABLED: u8 = 0;

/// How a terminal in these modes passes on what is typed.
pub(super) fn of(modes: &Termios) -> TerminalMode {
    if !modes.local_modes.contains(LocalModes::ICANON) {
        return TerminalMode::Raw;
    }
    TerminalMode::Lines(rules(modes))
}

/// The system asks these questions of a byte one after the other, and the first that it answers to decides. So they
/// are noted from the last to the first.
fn rules(modes: &Termios) -> LineRules {
    let (input, local) = (modes.input_modes, modes.local_modes);
    let is_extended = local.contains(LocalModes::IEXTEN);
    let is_flushed = !local.contains(LocalModes::NOFLSH);
    let signal = if is_flushed {
        ByteRole::ErasesLine
    } else {
        ByteRole::Vanishes
    };
    let codes = [
        (SpecialCodeIndex::VEOL2, ByteRole::EndsLine, is_extended),
        (SpecialCodeIndex::VEOL, ByteRole::EndsLine, true),
        (SpecialCodeIndex::VEOF, ByteRole::EndsFile, true),
        (
            SpecialCodeIndex::VREPRINT,
            ByteRole::Vanishes,
            is_extended && local.contains(LocalModes::ECHO),
        ),
        (SpecialCodeIndex::VLNEXT, ByteRole::Quotes, is_extended),
        (SpecialCodeIndex::VWERASE, ByteRole::ErasesWord, is_extended),
        (SpecialCodeIndex::VKILL, ByteRole::ErasesLine, true),
        (SpecialCodeIndex::VERASE, ByteRole::ErasesCharacter, true),
        (SpecialCodeIndex::VSUSP, signal, local.contains(LocalModes::ISIG)),
        (SpecialCodeIndex::VQUIT, signal, local.contains(LocalModes::ISIG)),
        (SpecialCodeIndex::VINTR, signal, local.contains(LocalModes::ISIG)),
        (
            SpecialCodeIndex::VSTOP,
            ByteRole::Vanishes,
            input.contains(InputModes::IXON),
        ),
        (
            SpecialCodeIndex::VSTART,
            ByteRole::Vanishes,
            input.contains(InputModes::IXON),
        ),
    ];
    let mut rules = LineRules::none();
    if !input.contains(InputModes::INLCR) {
        rules = rules.with(b'\n', ByteRole::EndsLine);
    }
    if input.contains(InputModes::IGNCR) {
        rules = rules.with(b'\r', ByteRole::Vanishes);
    } else if input.contains(InputModes::ICRNL) {
        rules = rules.with(b'\r', ByteRole::EndsLine);
    }
    codes
        .into_iter()
        .map(|(code, role, is_on)| (modes.special_codes[code], role, is_on))
        .filter(|(byte, _, is_on)| *is_on && *byte != DISABLED)
        .fold(rules, |rules, (byte, role, _)| rules.with(byte, role))
}

#[cfg(test)]
mod tests {
    use procession_core::spec::TerminalSize;

    use super::*;
    use crate::terminal::TerminalPair;

    fn modes() -> Termios {
        let pair = TerminalPair::open(TerminalSize { rows: 24, cols: 80 }).unwrap();
        rustix::termios::tcgetattr(pair.slave()).unwrap()
    }

    fn lines(modes: &Termios) -> LineRules {
        match of(modes) {
            TerminalMode::Lines(rules) => rules,
            TerminalMode::Raw => panic!("raw"),
        }
    }

    #[test]
    fn a_new_terminal_passes_on_lines_by_the_usual_rules() {
        assert_eq!(of(&modes()), TerminalMode::Lines(LineRules::default()));
    }

    #[test]
    fn a_raw_terminal_is_raw() {
        let mut modes = modes();
        modes.make_raw();
        assert_eq!(of(&modes), TerminalMode::Raw);
    }

    #[test]
    fn a_byte_has_the_role_that_the_modes_give_it() {
        let role = |byte: u8, set: fn(&mut Termios)| {
            let mut modes = modes();
            set(&mut modes);
            lines(&modes).role(byte)
        };
        let off = |modes: &mut Termios| modes.local_modes -= LocalModes::ISIG | LocalModes::IEXTEN;
        assert_eq!(role(0x03, off), None);
        assert_eq!(role(0x16, off), None);
        assert_eq!(
            role(0x03, |modes| modes.local_modes |= LocalModes::NOFLSH),
            Some(ByteRole::Vanishes)
        );
        assert_eq!(role(b'\r', |modes| modes.input_modes -= InputModes::ICRNL), None);
        assert_eq!(
            role(b'\r', |modes| modes.input_modes |= InputModes::IGNCR),
            Some(ByteRole::Vanishes)
        );
        assert_eq!(role(b'\n', |modes| modes.input_modes |= InputModes::INLCR), None);
        assert_eq!(role(0x13, |modes| modes.input_modes -= InputModes::IXON), None);
        assert_eq!(
            role(b';', |modes| modes.special_codes[SpecialCodeIndex::VEOL] = b';'),
            Some(ByteRole::EndsLine)
        );
        // Of two meanings of one byte the first that the system asks for counts.
        assert_eq!(
            role(0x03, |modes| modes.special_codes[SpecialCodeIndex::VEOF] = 3),
            Some(ByteRole::ErasesLine)
        );
    }

    #[test]
    fn a_terminal_may_have_no_end_of_file() {
        let mut modes = modes();
        modes.special_codes[SpecialCodeIndex::VEOF] = DISABLED;
        assert_eq!(lines(&modes).end_of_file(), None);
    }
}
