//! How output is shown: as it was written, line by line, or as a terminal's grid.

use std::time::Duration;

use procession_core::{
    Moment,
    preview::{OutputBudget, Reading, has_plain, read_plain, read_text},
    render::{MAX_SCREEN_CELLS, Render, Screen},
    text::ReadPosition,
};

use super::{Turn, parked::ParkedPoll};
use crate::{
    error::PollError,
    report::{PollQuery, budget_or},
    sync::lock,
};

/// How long output has to pause before a poll for lines shows the one that is not ended: it may be a prompt.
pub const PROMPT_PAUSE: Duration = Duration::from_millis(300);

impl Turn<'_> {
    /// Why the session cannot be shown like this, if it cannot.
    pub(super) fn check_render(&self, render: Render) -> Result<(), PollError> {
        match (render, &self.state.screen) {
            (Render::Raw | Render::Plain, _) | (Render::Screen, Some(_)) => Ok(()),
            (Render::Screen, None) if self.state.arguments.decision.terminal().is_some() => {
                Err(PollError::ScreenTooLarge {
                    max_cells: MAX_SCREEN_CELLS,
                })
            }
            (Render::Screen, None) => Err(PollError::NoTerminal),
        }
    }

    pub(super) fn poll_budget(&self, query: &PollQuery) -> OutputBudget {
        budget_or(
            query.max_output_bytes,
            self.state.arguments.limits.output_budget_bytes,
        )
    }

    /// Whether lines can be shown without waiting for more.
    pub(super) fn has_lines(&self, query: &PollQuery, position: ReadPosition) -> bool {
        has_plain(&self.state.capture, position, self.poll_budget(query))
    }

    /// What a poll shows.
    pub(super) fn show(&self, query: &PollQuery, position: ReadPosition) -> (Reading, Option<Screen>) {
        let (capture, budget) = (&self.state.capture, self.poll_budget(query));
        match (query.render, &self.state.screen) {
            (Render::Plain, _) => (read_plain(capture, position, budget), None),
            (Render::Screen, Some(screen)) => {
                let reading = Reading {
                    stdout: String::new(),
                    stderr: String::new(),
                    next: ReadPosition::at_end(capture),
                    omitted: Vec::new(),
                };
                (reading, Some(screen.screen(budget)))
            }
            (Render::Raw | Render::Screen, _) => (read_text(capture, position, budget), None),
        }
    }

    /// Until when a poll waits for more than what is there: with an unfinished line before it until the output pauses.
    pub(super) fn patience(&self, query: &PollQuery, latest: Moment) -> Moment {
        let position = query.cursor.unwrap_or(self.state.drained);
        if query.render == Render::Plain && position.unread_bytes(&self.state.capture) > 0 {
            latest.min(self.state.now().saturating_add(PROMPT_PAUSE))
        } else {
            latest
        }
    }

    /// Output came: polls that have no whole line yet wait for its next pause.
    pub(super) fn renew_patience(&self) {
        for poll in &mut lock(&self.actor.parked).polls {
            poll.until = self.patience(&poll.query, poll.latest);
        }
    }

    /// Takes those polls out of `due` for which the output paused only, and that would be shown nothing: they wait on.
    pub(super) fn park_again(&self, due: &mut Vec<ParkedPoll>, now: Moment) {
        let waits = due.extract_if(.., |poll| {
            let position = poll.query.cursor.unwrap_or(self.state.drained);
            poll.latest > now && self.show(&poll.query, position).0.is_empty()
        });
        lock(&self.actor.parked)
            .polls
            .extend(waits.map(|poll| ParkedPoll {
                until: poll.latest,
                ..poll
            }));
    }
}
