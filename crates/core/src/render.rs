//! What a session wrote as a terminal would show it.
//!
//! Nothing of this changes what was written: capture, log and offsets hold the bytes, and a reader chooses how it sees
//! them. [`crate::preview::read_plain`] resolves what happens within a line; [`ScreenTracker`] keeps the grid of a
//! session that runs on a terminal.

mod line;
mod plain;
mod screen;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub(crate) use self::plain::{Plain, Span, render};
pub use self::screen::{MAX_SCREEN_CELLS, Screen, ScreenTracker};

/// How output is shown to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Render {
    /// As it was written.
    #[default]
    Raw,
    /// With carriage returns, backspace and escape sequences resolved, line by line.
    Plain,
    /// The grid of the session's terminal, as it is now.
    Screen,
}
