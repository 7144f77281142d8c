//! What was measured, as one Markdown table.
#![expect(clippy::print_stdout, reason = "what was measured is to be seen")]

use std::time::Duration;

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    /// What the others are compared with.
    pub(crate) floor: f64,
    pub(crate) without_guard: Option<f64>,
    pub(crate) with_guard: Option<f64>,
    pub(crate) bound: Bound,
}

/// What a row must reach, inclusive.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// Nothing: it is there to explain others.
    None,
    /// A ratio of at most this.
    RatioAtMost(f64),
    /// A ratio of at least this.
    RatioAtLeast(f64),
    /// A figure of at most this, in the row's unit.
    FigureAtMost(f64),
}

impl Bound {
    fn text(self) -> String {
        match self {
            Self::None => "—".to_owned(),
            Self::RatioAtMost(most) => format!("≤ {most}"),
            Self::RatioAtLeast(least) => format!("≥ {least:.2}"),
            Self::FigureAtMost(most) => format!("figure ≤ {most}"),
        }
    }

    fn is_reached(self, figure: f64, floor: f64) -> bool {
        match self {
            Self::None => true,
            Self::RatioAtMost(most) => figure / floor <= most,
            Self::RatioAtLeast(least) => figure / floor >= least,
            Self::FigureAtMost(most) => figure <= most,
        }
    }
}

impl Row {
    fn cells(&self, figure: Option<f64>) -> String {
        let Some(figure) = figure else {
            return "— | —".to_owned();
        };
        let missed = if self.bound.is_reached(figure, self.floor) {
            ""
        } else {
            " ✗"
        };
        format!("{figure:.1} | {:.2}{missed}", figure / self.floor)
    }
}

/// Prints the heading.
pub(crate) fn begin() {
    println!("| row | unit | floor | ours | ratio | ours, guard | ratio | must reach |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
}

/// Prints rows; a cross marks what a row must reach and does not.
pub(crate) fn print(rows: &[Row]) {
    for row in rows {
        println!(
            "| {} | {} | {:.1} | {} | {} | {} |",
            row.what,
            row.unit,
            row.floor,
            row.cells(row.without_guard),
            row.cells(row.with_guard),
            row.bound.text()
        );
    }
}

/// The time below which this share of the times lies, in microseconds; 0 of none.
pub(crate) fn percentile_us(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    let time = times.get(last * percent / 100);
    time.map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// The median, in microseconds; 0 of none.
pub(crate) fn median_us(times: &mut [Duration]) -> f64 {
    percentile_us(times, 50)
}
