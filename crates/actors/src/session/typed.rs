//! What was typed on the session's terminal, and its end of file.
//!
//! On a terminal nothing is closed: the end of file is typed, and what is typed behind it goes to whoever reads next.

use std::io;

use procession_core::terminal::{MAX_LINE_BYTES, PendingLine, TerminalMode};
use procession_process::InputSink;

use crate::error::WriteError;

/// What was typed, as far as it matters for what comes next.
#[derive(Debug, Default)]
pub(super) struct Typed {
    line: PendingLine,
    end: EndOfFile,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum EndOfFile {
    /// Something else was typed last, or nothing.
    #[default]
    NotTyped,
    /// It is being typed: so many bytes are left of it.
    Begun { rest: usize },
    /// It was typed last.
    Typed,
}

/// What became of an end of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndTyped {
    /// It was typed.
    Done,
    /// The terminal takes no more for now.
    Blocked,
    /// The terminal knows none.
    Raw,
    /// Nobody reads any more.
    ReaderGone,
}

impl Typed {
    /// Whether the terminal would pass on all of this.
    pub(super) fn check(&self, input: &[u8], mode: &TerminalMode) -> Result<(), WriteError> {
        let TerminalMode::Lines(rules) = mode else {
            return Ok(());
        };
        let bytes = self.line.longest_with(input, rules);
        if bytes <= MAX_LINE_BYTES {
            return Ok(());
        }
        Err(WriteError::LineTooLong {
            bytes,
            limit_bytes: MAX_LINE_BYTES,
        })
    }

    /// Takes notice of what the terminal took.
    pub(super) fn follow(&mut self, taken: &[u8], mode: &TerminalMode) {
        if taken.is_empty() {
            return;
        }
        self.end = EndOfFile::NotTyped;
        match mode {
            TerminalMode::Lines(rules) => self.line.follow(taken, rules),
            TerminalMode::Raw => self.line.clear(),
        }
    }

    /// Whether an end of file was typed last.
    pub(super) fn is_at_end(&self) -> bool {
        self.end == EndOfFile::Typed
    }

    /// Types an end of file so that a program sees it, as far as the terminal takes it; goes on with one that was
    /// begun.
    pub(super) fn type_end(&mut self, sink: &dyn InputSink, mode: &TerminalMode) -> EndTyped {
        let TerminalMode::Lines(rules) = mode else {
            return EndTyped::Raw;
        };
        let Some(byte) = rules.end_of_file() else {
            return EndTyped::Raw;
        };
        let mut rest = match self.end {
            EndOfFile::Begun { rest } => rest,
            EndOfFile::NotTyped | EndOfFile::Typed => self.line.ends_of_file_needed(),
        };
        while rest > 0 {
            self.end = EndOfFile::Begun { rest };
            match sink.try_write(&vec![byte; rest]) {
                Ok(taken) => rest = rest.saturating_sub(taken),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return EndTyped::Blocked,
                Err(_) => return EndTyped::ReaderGone,
            }
        }
        self.end = EndOfFile::Typed;
        self.line.clear();
        EndTyped::Done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use procession_core::terminal::LineRules;
    use procession_process::BoxFuture;

    use super::*;

    /// Takes so many bytes.
    #[derive(Debug)]
    struct Sink {
        room: Mutex<usize>,
        taken: Mutex<Vec<u8>>,
    }

    impl Sink {
        fn with_room(room: usize) -> Self {
            Self {
                room: Mutex::new(room),
                taken: Mutex::default(),
            }
        }

        fn taken(&self) -> Vec<u8> {
            self.taken.lock().unwrap().clone()
        }
    }

    impl InputSink for Sink {
        fn writable(&self) -> BoxFuture<'_, io::Result<()>> {
            Box::pin(std::future::pending())
        }

        fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
            let mut room = self.room.lock().unwrap();
            let taken = bytes.len().min(*room);
            if taken == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            *room -= taken;
            self.taken.lock().unwrap().extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }
    }

    fn lines() -> TerminalMode {
        TerminalMode::Lines(LineRules::default())
    }

    fn after(taken: &[u8]) -> Typed {
        let mut typed = Typed::default();
        typed.follow(taken, &lines());
        typed
    }

    #[test]
    fn an_end_of_file_passes_on_what_was_begun_first() {
        for (taken, expected) in [(&b""[..], 1), (b"a\n", 1), (b"a", 2)] {
            let (mut typed, sink) = (after(taken), Sink::with_room(10));
            assert_eq!(typed.type_end(&sink, &lines()), EndTyped::Done);
            assert_eq!(sink.taken(), vec![4; expected], "{taken:?}");
            assert!(typed.is_at_end());
        }
    }

    #[test]
    fn an_end_of_file_that_was_begun_goes_on_where_it_was() {
        let (mut typed, sink) = (after(b"a"), Sink::with_room(1));
        assert_eq!(typed.type_end(&sink, &lines()), EndTyped::Blocked);
        assert!(!typed.is_at_end());
        *sink.room.lock().unwrap() = 10;
        assert_eq!(typed.type_end(&sink, &lines()), EndTyped::Done);
        assert_eq!(sink.taken(), [4, 4]);
    }

    #[test]
    fn what_is_typed_behind_an_end_of_file_begins_anew() {
        let (mut typed, sink) = (after(b"a"), Sink::with_room(10));
        assert_eq!(typed.type_end(&sink, &lines()), EndTyped::Done);
        typed.follow(b"", &lines());
        assert!(typed.is_at_end());
        typed.follow(b"b\n", &lines());
        assert!(!typed.is_at_end());
        assert_eq!(typed.type_end(&sink, &lines()), EndTyped::Done);
        assert_eq!(sink.taken(), [4, 4, 4]);
    }

    #[test]
    fn a_terminal_without_an_end_of_file_is_told() {
        let (mut typed, sink) = (after(b"a"), Sink::with_room(10));
        for mode in [TerminalMode::Raw, TerminalMode::Lines(LineRules::none())] {
            assert_eq!(typed.type_end(&sink, &mode), EndTyped::Raw);
        }
        assert_eq!((sink.taken(), typed.is_at_end()), (Vec::new(), false));
    }

    #[test]
    fn a_line_is_too_long_with_what_was_typed_before() {
        let check = |taken: usize, input: &[u8], mode: &TerminalMode, expected: Result<(), u64>| {
            let typed = after(&vec![b'x'; taken]);
            let expected = expected.map_err(|bytes| WriteError::LineTooLong {
                bytes,
                limit_bytes: 4095,
            });
            assert_eq!(
                typed.check(input, mode),
                expected,
                "{taken} and {} more",
                input.len()
            );
        };
        check(0, &[b'x'; 4095], &lines(), Ok(()));
        check(0, &[b'x'; 4096], &lines(), Err(4096));
        check(4000, &[b'x'; 96], &lines(), Err(4096));
        check(4000, b"\nx", &lines(), Ok(()));
        check(4000, &[&[b'\n'][..], &[b'x'; 5000]].concat(), &lines(), Err(5000));
        check(0, &vec![b'x'; 100_000], &TerminalMode::Raw, Ok(()));
        // What was passed on raw is no beginning of a line.
        let mut typed = after(&[b'x'; 4000]);
        typed.follow(b"y", &TerminalMode::Raw);
        assert_eq!(typed.check(&[b'x'; 4095], &lines()), Ok(()));
    }
}
