//! What a terminal shows.

use procession_core::render::Screen;
use serde_json::{Value, json};

/// What a terminal shows: `rows`, `cols`, `cursor_row`, `cursor_col` (both from 0), `lines`, `omitted_rows` (at the top,
/// for want of room), `title`.
#[must_use]
pub(crate) fn screen_value(screen: &Screen) -> Value {
    json!({
        "rows": screen.rows,
        "cols": screen.cols,
        "cursor_row": screen.cursor_row,
        "cursor_col": screen.cursor_col,
        "omitted_rows": screen.omitted_rows,
        "lines": screen.lines,
        "title": screen.title,
    })
}
