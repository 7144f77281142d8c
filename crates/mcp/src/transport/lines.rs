//! Lines of bounded length.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    /// It was longer than the limit, and dropped.
    TooLong {
        limit_bytes: usize,
    },
}

/// Reads lines; what is longer than the limit never takes more memory than that.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    state: State,
    max_line_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A line is being read.
    Reading,
    /// A line was given out and is to be cleared.
    Given,
    /// A line that is too long is being dropped.
    Dropping,
    Ended,
}

impl<R: AsyncRead> Lines<R> {
    pub(crate) fn new(input: R, max_line_bytes: usize) -> Self {
        Self {
            input: BufReader::with_capacity(64 << 10, input),
            line: Vec::new(),
            state: State::Reading,
            max_line_bytes,
        }
    }
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The next line; the last one need not have an end. None at the end of the input, and after an error.
    ///
    /// # Cancel safety
    /// Cancel safe: what was read of a line is kept.
    pub(crate) async fn next(&mut self) -> Option<Line<'_>> {
        if self.state == State::Given {
            // A single long line does not hold its memory for ever.
            self.line.clear();
            self.line.shrink_to(64 << 10);
            self.state = State::Reading;
        }
        loop {
            if self.state == State::Ended {
                return None;
            }
            match self.step().await {
                Ok(Step::More) => {}
                Ok(Step::Line) => {
                    self.state = State::Given;
                    return Some(Line::Whole(&self.line));
                }
                Ok(Step::TooLong) => {
                    return Some(Line::TooLong {
                        limit_bytes: self.max_line_bytes,
                    });
                }
                Ok(Step::End) => {
                    let is_rest = self.state == State::Reading && !self.line.is_empty();
                    self.state = State::Ended;
                    return is_rest.then_some(Line::Whole(&self.line));
                }
                Err(error) => {
                    tracing::warn!(%error, "the input cannot be read any more");
                    self.state = State::Ended;
                    return None;
                }
            }
        }
    }

    async fn step(&mut self) -> io::Result<Step> {
        let available = self.input.fill_buf().await?;
        if available.is_empty() {
            return Ok(Step::End);
        }
        // From here on nothing waits, so that no byte is consumed and forgotten.
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        let step = match self.state {
            State::Dropping if end.is_some() => {
                self.state = State::Reading;
                Step::More
            }
            State::Dropping => Step::More,
            _ if self.line.len().saturating_add(part.len()) > self.max_line_bytes => {
                self.line = Vec::new();
                self.state = if end.is_some() {
                    State::Reading
                } else {
                    State::Dropping
                };
                Step::TooLong
            }
            _ => {
                self.line.extend_from_slice(part);
                if end.is_some() { Step::Line } else { Step::More }
            }
        };
        let consumed = end.map_or(available.len(), |end| end + 1);
        self.input.consume(consumed);
        Ok(step)
    }
}

#[derive(Debug)]
enum Step {
    More,
    Line,
    TooLong,
    End,
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn check(input: &[u8], expected: &[Option<&str>]) {
        let mut lines = Lines::new(input, 5);
        for expected in expected {
            let expected = match expected {
                Some(text) => Line::Whole(text.as_bytes()),
                None => Line::TooLong { limit_bytes: 5 },
            };
            assert_eq!(lines.next().await, Some(expected));
        }
        assert_eq!(lines.next().await, None);
        assert_eq!(lines.next().await, None);
    }

    #[tokio::test]
    async fn lines_end_with_a_line_end_or_the_input() {
        check(b"", &[]).await;
        check(b"a\n\nbcdef\n", &[Some("a"), Some(""), Some("bcdef")]).await;
        check(b"a\nb", &[Some("a"), Some("b")]).await;
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_told_once_and_dropped() {
        check(b"abcdef\nx\n", &[None, Some("x")]).await;
        check(b"abcdef", &[None]).await;
        let long = [vec![b'a'; 300_000], b"\nx".to_vec()].concat();
        check(&long, &[None, Some("x")]).await;
    }

    #[tokio::test]
    async fn a_read_that_is_dropped_loses_nothing() {
        let (mut there, here) = tokio::io::duplex(64);
        let mut lines = Lines::new(here, 100);
        there.write_all(b"first ha").await.expect("room");
        let never = tokio::time::timeout(std::time::Duration::ZERO, lines.next()).await;
        assert!(never.is_err());
        there.write_all(b"lf\n").await.expect("room");
        assert_eq!(lines.next().await, Some(Line::Whole(b"first half")));
    }
}
