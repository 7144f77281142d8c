//! What happens when time passes.

use super::{Effect, LAST_LOOK_BOUND, MAX_SURVEY_INTERVAL, SURVEY_INTERVAL, Session, Stage, Strike, Survey};
use crate::{
    outcome::{Cause, Fact, IncompleteOutput, UnknownFact},
    session::LadderKind,
    time::Moment,
};

impl Session {
    /// When [`super::Input::Tick`] is due next; none when nothing is waited for.
    ///
    /// It may be given earlier or more often, which changes nothing.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        match self.stage {
            Stage::Starting | Stage::Reaping | Stage::Ended => None,
            Stage::Running => self.status_by.or_else(|| {
                [self.wall_deadline(), self.idle_deadline()]
                    .into_iter()
                    .flatten()
                    .min()
            }),
            Stage::Draining { idle_until, latest } => Some(idle_until.min(latest)),
            Stage::Terminating | Stage::Kept => {
                let survey = self.ladder.survey.map(|survey| survey.due_at);
                [
                    self.ladder.kill_at,
                    self.ladder.give_up_at,
                    self.ladder.answer_by,
                    survey,
                ]
                .into_iter()
                .flatten()
                .min()
            }
            Stage::Surveying { until }
            | Stage::Sweeping { until }
            | Stage::Freed { until }
            | Stage::Closing { until } => Some(until),
        }
    }

    pub(super) fn wall_deadline(&self) -> Option<Moment> {
        Some(self.spawned_at?.saturating_add(self.limits.wall_time?))
    }

    pub(super) fn idle_deadline(&self) -> Option<Moment> {
        Some(self.last_output_at.saturating_add(self.limits.idle_time?))
    }

    pub(super) fn survey_at(&mut self, now: Moment, interval: std::time::Duration) {
        self.ladder.survey = Some(Survey {
            due_at: now.saturating_add(interval),
            interval,
        });
    }

    pub(super) fn tick(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let is_over = |deadline: Option<Moment>| deadline.is_some_and(|deadline| deadline <= now);
        match self.stage {
            Stage::Starting | Stage::Reaping | Stage::Ended => {}
            // The leader is gone, and who holds it does not tell how it ended.
            Stage::Running if self.status_by.is_some() => {
                if is_over(self.status_by) {
                    self.observed(now, effects);
                }
            }
            Stage::Running => {
                let cause = if is_over(self.wall_deadline()) {
                    Cause::WallTimeout
                } else if is_over(self.idle_deadline()) {
                    Cause::IdleTimeout
                } else {
                    return;
                };
                self.strike.get_or_insert(Strike {
                    cause,
                    kind: LadderKind::Ask { grace: None },
                });
                effects.push(Effect::Observe);
            }
            Stage::Draining { idle_until, latest } => {
                if idle_until.min(latest) <= now {
                    self.cut_output();
                    self.leave_drain(now, effects);
                }
            }
            Stage::Terminating | Stage::Kept => self.tick_ladder(now, effects),
            Stage::Surveying { until } => {
                if until <= now {
                    self.sweep(now, effects);
                }
            }
            Stage::Sweeping { until } => {
                if until <= now {
                    // Nobody answered; the end is told without it.
                    self.quiescent = Fact::Unknown(UnknownFact::NoAnswer);
                    self.leave_sweep(now, effects);
                }
            }
            Stage::Freed { until } => {
                if until <= now {
                    self.incomplete.get_or_insert(IncompleteOutput::HeldOpen);
                    self.reap(effects);
                }
            }
            Stage::Closing { until } => {
                if until <= now {
                    self.log_closed(effects);
                }
            }
        }
    }

    fn tick_ladder(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let is_over = |deadline: Option<Moment>| deadline.is_some_and(|deadline| deadline <= now);
        if is_over(self.ladder.kill_at) {
            self.kill(now, effects);
            return;
        }
        if is_over(self.ladder.answer_by) {
            self.ladder.answer_by = None;
            effects.push(Effect::AnswerStops);
            return;
        }
        if is_over(self.ladder.give_up_at) {
            self.ladder.give_up_at = None;
            self.ladder.answer_by = Some(now.saturating_add(LAST_LOOK_BOUND));
            self.survey_at(now, SURVEY_INTERVAL);
            effects.push(Effect::Survey);
            return;
        }
        if let Some(survey) = self.ladder.survey.filter(|survey| survey.due_at <= now) {
            self.survey_at(now, survey.interval.saturating_mul(2).min(MAX_SURVEY_INTERVAL));
            effects.push(Effect::Survey);
        }
    }
}
