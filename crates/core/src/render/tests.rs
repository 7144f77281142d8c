use proptest::{collection::vec, prelude::*};

use super::*;
use crate::preview::OutputBudget;
use crate::spec::TerminalSize;

fn tracker(rows: u16, cols: u16) -> ScreenTracker {
    ScreenTracker::new(TerminalSize { rows, cols }).expect("not too large")
}

fn shown(tracker: &ScreenTracker) -> Screen {
    tracker.screen(OutputBudget::DEFAULT)
}

#[test]
fn the_grid_is_shown_with_its_cursor_and_title() {
    let mut tracker = tracker(3, 10);
    tracker.push(b"one\r\ntwo\r\nthree\r\nfour\x1b[2;3H\x1b[31m*\x1b]2;its title\x07");
    let expected = Screen {
        rows: 3,
        cols: 10,
        cursor_row: 1,
        cursor_col: 3,
        omitted_rows: 0,
        lines: vec!["two".to_owned(), "th*ee".to_owned(), "four".to_owned()],
        title: Some("its title".to_owned()),
    };
    assert_eq!(shown(&tracker), expected);
}

#[test]
fn a_program_that_takes_the_whole_screen_gives_it_back() {
    let mut tracker = tracker(2, 10);
    tracker.push(b"shell\x1b[?1049h\x1b[H\x1b[2Jeditor");
    assert_eq!(shown(&tracker).lines, ["editor", ""]);
    tracker.push(b"\x1b[?1049l");
    assert_eq!(shown(&tracker).lines, ["shell", ""]);
}

#[test]
fn a_resize_is_followed() {
    let mut tracker = tracker(2, 4);
    tracker.push("漢字".as_bytes());
    // Cuts a character of two columns in half.
    assert!(tracker.resize(TerminalSize { rows: 1, cols: 3 }));
    tracker.push(b"\r\x1b[Kabc");
    let screen = shown(&tracker);
    assert_eq!((screen.rows, screen.cols), (1, 3));
    assert_eq!(screen.lines, ["abc"]);
}

#[test]
fn a_screen_keeps_to_the_budget() {
    let mut tracker = tracker(200, 100);
    tracker.push("x".repeat(200 * 100).as_bytes());
    let screen = tracker.screen(OutputBudget::new(1000));
    assert_eq!((screen.lines.len(), screen.omitted_rows), (9, 191));
}

#[test]
fn a_terminal_can_be_too_large_to_follow() {
    assert!(ScreenTracker::new(TerminalSize { rows: 512, cols: 512 }).is_some());
    assert!(ScreenTracker::new(TerminalSize { rows: 513, cols: 512 }).is_none());
    assert!(!tracker(1, 1).resize(TerminalSize {
        rows: 4096,
        cols: 4096
    }));
}

#[derive(Debug, Clone)]
enum Step {
    Push(Vec<u8>),
    Resize(u16, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![
        vec(any::<u8>(), 0..40),
        Just("漢字😀e\u{301}".into()),
        (
            0..70_u16,
            0..70_u16,
            proptest::sample::select(b"ABCDEFGHJKLMPSTX@dr".to_vec())
        )
            .prop_map(|(first, second, action)| [
                format!("\x1b[{first};{second}").as_bytes(),
                &[action]
            ]
            .concat()),
        Just(b"\x1b[?1049h".to_vec()),
        Just(b"\x1b[?1049l".to_vec()),
        Just(b"\x1b[?6h\x1bM\x1b7\x1b8".to_vec()),
    ];
    prop_oneof![
        5 => bytes.prop_map(Step::Push),
        1 => (0..12_u16, 0..12_u16).prop_map(|(rows, cols)| Step::Resize(rows, cols)),
    ]
}

proptest! {
    #[test]
    fn nothing_that_a_program_writes_breaks_the_screen(rows in 0..12_u16, cols in 0..12_u16, steps in vec(step(), 0..60)) {
        let mut tracker = tracker(rows, cols);
        let mut size = (rows, cols);
        for step in steps {
            match step {
                Step::Push(bytes) => tracker.push(&bytes),
                Step::Resize(rows, cols) => {
                    let is_followed = tracker.resize(TerminalSize { rows, cols });
                    prop_assert!(is_followed);
                    size = (rows, cols);
                }
            }
            let screen = shown(&tracker);
            prop_assert_eq!((screen.rows, screen.cols), size);
            prop_assert_eq!(screen.lines.len(), usize::from(size.0));
        }
    }
}
