//! One timer for all that a session waits for.

use procession_core::{Moment, session::Input};

use super::{Event, Internal, SessionMessage, Turn, state::Pause};
use crate::{
    report::{WaitResult, WriteEnd, Written},
    sync::{Watcher, lock},
};

impl Turn<'_> {
    /// Time may have passed: what is over is answered, the machine looks at its deadlines.
    pub(super) fn timer_elapsed(&mut self) {
        self.state.timer_at = None;
        let now = self.state.now();
        self.expire(now);
        if self.state.log_stalled_until.is_some_and(|until| until <= now) {
            self.give_log_up();
        }
        if self
            .state
            .readers
            .values()
            .any(|reader| reader.pause != Pause::No)
        {
            self.advance(Input::ReadingHeld);
        }
        self.advance(Input::Tick);
    }

    fn expire(&mut self, now: Moment) {
        let mut parked = lock(&self.actor.parked);
        let mut polls: Vec<_> = parked
            .polls
            .extract_if(.., |parked| parked.until <= now)
            .collect();
        let reads: Vec<_> = parked
            .reads
            .extract_if(.., |parked| parked.until <= now)
            .collect();
        let waits: Vec<_> = parked
            .waits
            .extract_if(.., |parked| parked.until <= now)
            .collect();
        let mut index = 0;
        while index < parked.writes.len() {
            if parked.writes[index].until <= now
                && let Some(write) = parked.writes.remove(index)
            {
                let written = Written {
                    accepted_bytes: write.accepted_bytes,
                    end: WriteEnd::TimedOut,
                };
                parked.answer(write, &Ok(written));
            } else {
                index += 1;
            }
        }
        drop(parked);
        self.park_again(&mut polls, now);
        for poll in polls {
            self.answer_poll(&poll.query, poll.reply);
        }
        for read in reads {
            self.answer_read(&read.query, read.reply);
        }
        for wait in waits {
            let report = self.wait_report(WaitResult::TimedOut);
            let _ = wait.reply.send(Ok(report));
        }
        self.after_writes();
    }

    /// Sets the timer where the next deadline lies before the one it is set for.
    ///
    /// A deadline that moved away leaves the timer alone: it fires, finds nothing due, and is set again. That is cheaper
    /// than to set it anew with every piece of output.
    pub(super) fn arm_timer(&mut self) {
        let parked = lock(&self.actor.parked).next_deadline();
        let due = [
            self.state.machine.next_deadline(),
            parked,
            self.state.log_stalled_until,
        ]
        .into_iter()
        .flatten()
        .min();
        let Some(due) = due else { return };
        if self.state.timer_at.is_some_and(|timer_at| timer_at <= due) {
            return;
        }
        self.state.timer_at = Some(due);
        let (instant, myself) = (self.state.arguments.clock.instant(due), self.myself.clone());
        lock(&self.actor.watchers).timer = Some(Watcher::spawn(async move {
            tokio::time::sleep_until(instant).await;
            let _ = myself.cast(SessionMessage::Internal(Internal(Event::TimerElapsed)));
        }));
    }
}
