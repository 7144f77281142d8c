use std::time::Duration;

use super::*;
use crate::outcome::{ObservedBy, Status, UnknownStatus};

mod random;

/// A session and the time, driven step by step.
struct Life {
    session: Session,
    now: Moment,
    effects: Vec<Effect>,
}

fn exited(code: i32, at: Moment) -> Input {
    let observation = ExitObservation {
        status: Status::Exited { code },
        observed_by: ObservedBy::Script,
        at,
    };
    Input::Exited { observation }
}

fn killed_by(signal: Signal, at: Moment) -> Input {
    let status = Status::Signaled {
        signal,
        core_dumped: false,
    };
    Input::Exited {
        observation: ExitObservation {
            status,
            observed_by: ObservedBy::Script,
            at,
        },
    }
}

fn stop(ladder: LadderKind) -> Input {
    Input::End {
        cause: Cause::Stop,
        ladder,
    }
}

const ASK: LadderKind = LadderKind::Ask { grace: None };

impl Life {
    fn new(limits: EffectiveLimits) -> Self {
        Self {
            session: Session::new(limits, WallTime::from_unix_millis(1_000)),
            now: Moment::ZERO,
            effects: Vec::new(),
        }
    }

    /// One that runs, with one stream open.
    fn running(limits: EffectiveLimits) -> Self {
        let mut life = Self::new(limits);
        life.give(Input::Spawned {
            pid: 7,
            streams: vec![StreamId::Stdout],
        });
        life
    }

    fn give(&mut self, input: Input) -> &mut Self {
        self.effects = self.session.step(self.now, input);
        self
    }

    fn after(&mut self, millis: u64) -> &mut Self {
        self.now = self.now.saturating_add(Duration::from_millis(millis));
        self
    }

    fn tick_after(&mut self, millis: u64) -> &mut Self {
        self.after(millis).give(Input::Tick)
    }

    fn exit(&mut self, code: i32) -> &mut Self {
        let at = self.now;
        self.give(exited(code, at))
    }

    fn close(&mut self) -> &mut Self {
        self.give(Input::StreamClosed {
            stream: StreamId::Stdout,
        })
    }

    fn tree(&mut self, swept: &[u32], alive: &[u32]) -> &mut Self {
        let report = TreeReport {
            swept: swept.to_vec(),
            alive: alive.to_vec(),
            sight: Sight::Exact,
        };
        self.give(Input::TreeSeen(report))
    }

    /// From the reaping to the end.
    fn reap_and_close(&mut self) -> Outcome {
        assert_eq!(self.effects, [Effect::ReleaseOutput, Effect::Reap]);
        self.give(Input::Reaped { usage: None });
        assert!(
            matches!(self.effects.as_slice(), [Effect::CloseLog(_)]),
            "{:?}",
            self.effects
        );
        self.give(Input::LogClosed);
        let Some(Effect::Finish(outcome)) = self.effects.pop() else {
            panic!("no end: {:?}", self.effects)
        };
        assert_eq!(self.session.phase(), Phase::Ended);
        assert_eq!(self.session.outcome(), Some(&*outcome));
        assert!(self.session.is_released());
        *outcome
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.effects
            .iter()
            .map(|effect| match effect {
                Effect::Observe => "observe",
                Effect::SignalTree { signal, .. } => signal.name().unwrap_or("signal"),
                Effect::KillTree { .. } => "kill",
                Effect::Survey => "survey",
                Effect::Sweep => "sweep",
                Effect::ReleaseOutput => "release",
                Effect::Reap => "reap",
                Effect::CloseLog(_) => "close log",
                Effect::Finish(_) => "finish",
                Effect::AnswerStops => "answer stops",
                Effect::Released(_) => "released",
                Effect::LetGo(_) => "let go",
            })
            .collect()
    }
}

#[test]
fn a_plain_command_ends_without_waiting_for_any_grace() {
    let mut life = Life::running(EffectiveLimits::default());
    life.after(5).close().exit(3);
    assert_eq!(life.kinds(), ["sweep"]);
    life.tree(&[], &[]);
    let outcome = life.reap_and_close();
    assert_eq!(
        (outcome.cause, outcome.status),
        (Cause::Exit, Status::Exited { code: 3 })
    );
    assert_eq!(
        (outcome.exited_at, outcome.closed_at),
        (Some(life.now), Some(life.now))
    );
    assert_eq!(outcome.quiescent, Fact::At(life.now));
    assert_eq!(outcome.incomplete_output, None);
    assert_eq!(outcome.ladder, []);
    assert_eq!(outcome.ended_wall, WallTime::from_unix_millis(1_005));
}

#[test]
fn the_end_of_output_is_not_the_end_of_the_process() {
    let mut life = Life::running(EffectiveLimits::default());
    life.close();
    assert_eq!((life.effects.len(), life.session.phase()), (0, Phase::Running));
    life.after(1_000).exit(6).tree(&[], &[]);
    assert_eq!(life.reap_and_close().status, Status::Exited { code: 6 });
}

#[test]
fn output_that_is_held_open_is_drained_for_the_grace_and_then_cut() {
    let mut life = Life::running(EffectiveLimits::default());
    life.exit(0);
    assert_eq!(
        (life.effects.len(), life.session.next_deadline()),
        (0, Some(Moment::from_millis(1_000)))
    );
    life.tick_after(999);
    assert_eq!(life.effects, []);
    life.tick_after(1);
    assert_eq!(life.kinds(), ["sweep"]);
    life.tree(&[8], &[]);
    assert_eq!(life.effects, [], "what the sweep freed is read first");
    life.after(1).close();
    let outcome = life.reap_and_close();
    assert_eq!(outcome.incomplete_output, Some(IncompleteOutput::HeldOpen));
    assert_eq!(outcome.swept_pids, [8]);
    assert_eq!(
        outcome.ladder.iter().map(|step| step.action).collect::<Vec<_>>(),
        [LadderAction::Sweep]
    );
}

#[test]
fn late_output_prolongs_the_drain_up_to_twice_the_grace() {
    let mut life = Life::running(EffectiveLimits::default());
    life.exit(0).after(900).give(Input::Output { bytes: 1 });
    assert_eq!(life.session.next_deadline(), Some(Moment::from_millis(1_900)));
    life.after(900).give(Input::Output { bytes: 1 });
    assert_eq!(life.session.next_deadline(), Some(Moment::from_millis(2_000)));
    life.tick_after(200);
    assert_eq!(life.kinds(), ["sweep"]);
}

#[test]
fn the_drain_does_not_count_while_output_is_left_unread_on_purpose() {
    let mut life = Life::running(EffectiveLimits::default());
    life.exit(0)
        .after(1_000)
        .give(Input::ReadingHeld)
        .give(Input::Tick);
    assert_eq!(life.effects, []);
    assert_eq!(life.session.next_deadline(), Some(Moment::from_millis(2_000)));
    life.tick_after(1_000);
    assert_eq!(life.kinds(), ["sweep"]);
}

#[test]
fn a_late_line_is_kept_and_the_end_of_output_ends_the_drain() {
    let mut life = Life::running(EffectiveLimits::default());
    life.exit(3).after(200).give(Input::Output { bytes: 5 }).close();
    assert_eq!(life.kinds(), ["sweep"]);
    life.tree(&[], &[]);
    let outcome = life.reap_and_close();
    assert_eq!((outcome.incomplete_output, outcome.output_bytes), (None, 5));
}

#[test]
fn what_does_not_let_go_of_the_output_is_waited_for_within_a_bound() {
    let mut life = Life::running(EffectiveLimits::default());
    life.exit(0).tick_after(1_000).tree(&[], &[9]);
    life.tick_after(250);
    let outcome = life.reap_and_close();
    assert_eq!(outcome.residual_pids, [9]);
    assert_eq!(outcome.quiescent, Fact::Unknown(UnknownFact::Residual));
    assert_eq!(outcome.incomplete_output, Some(IncompleteOutput::HeldOpen));
}

#[test]
fn a_sweep_that_nobody_answers_does_not_keep_the_session_from_ending() {
    let mut life = Life::running(EffectiveLimits::default());
    life.close().exit(0).tick_after(2_000);
    let outcome = life.reap_and_close();
    assert_eq!(outcome.quiescent, Fact::Unknown(UnknownFact::NoAnswer));
}

#[test]
fn a_stop_is_term_then_cont_then_kill() {
    let mut life = Life::running(EffectiveLimits::default());
    life.give(stop(ASK));
    assert_eq!(life.kinds(), ["observe"]);
    life.give(Input::Observed);
    assert_eq!(
        (life.kinds(), life.session.phase()),
        (vec!["SIGTERM", "SIGCONT"], Phase::Terminating)
    );
    life.tick_after(1_999);
    assert_eq!(life.effects, []);
    life.tick_after(1);
    assert_eq!(life.kinds(), ["kill"]);
    let at = life.now;
    life.give(killed_by(Signal::KILL, at));
    assert_eq!(life.kinds(), ["sweep"]);
    life.close().tree(&[], &[]);
    let outcome = life.reap_and_close();
    assert_eq!(outcome.cause, Cause::Stop);
    assert_eq!(
        outcome.status,
        Status::Signaled {
            signal: Signal::KILL,
            core_dumped: false
        }
    );
    let steps: Vec<_> = outcome
        .ladder
        .iter()
        .map(|step| (step.action, step.at.since_start().as_millis()))
        .collect();
    assert_eq!(
        steps,
        [
            (LadderAction::Terminate, 0),
            (LadderAction::Continue, 0),
            (LadderAction::Kill, 2_000)
        ]
    );
}

#[test]
fn the_leaders_polite_exit_does_not_spare_its_descendants() {
    let mut life = Life::running(EffectiveLimits::default());
    life.give(stop(ASK)).give(Input::Observed).after(10).exit(9);
    assert_eq!(
        (life.kinds(), life.session.phase()),
        (vec!["survey"], Phase::Terminating)
    );
    life.tree(&[], &[8]);
    assert_eq!(life.session.residual_pids(), [8]);
    life.tick_after(50);
    assert_eq!(life.kinds(), ["survey"]);
    life.tree(&[], &[8]).tick_after(2_000);
    assert_eq!(life.kinds(), ["kill", "sweep"]);
    life.close().tree(&[8], &[]);
    let outcome = life.reap_and_close();
    assert_eq!(
        (outcome.cause, outcome.status),
        (Cause::Stop, Status::Exited { code: 9 })
    );
    assert_eq!(outcome.swept_pids, [8]);
}

#[test]
fn a_ladder_ends_as_soon_as_the_tree_is_gone() {
    let mut life = Life::running(EffectiveLimits::default());
    life.give(stop(ASK))
        .give(Input::Observed)
        .after(10)
        .exit(9)
        .close()
        .tree(&[], &[]);
    assert_eq!(life.kinds(), ["sweep"]);
}

#[test]
fn force_is_kill_at_once_and_hurries_a_ladder() {
    let mut life = Life::running(EffectiveLimits::default());
    life.give(stop(LadderKind::Force)).give(Input::Observed);
    assert_eq!(life.kinds(), ["kill"]);

    let mut life = Life::running(EffectiveLimits::default());
    life.give(stop(ASK))
        .give(Input::Observed)
        .after(100)
        .give(stop(LadderKind::Force));
    assert_eq!(life.kinds(), ["kill"]);

    let mut life = Life::running(EffectiveLimits::default());
    life.give(stop(ASK))
        .give(Input::Observed)
        .give(stop(LadderKind::Ask {
            grace: Some(Duration::from_secs(60)),
        }));
    assert_eq!(
        life.session.next_deadline(),
        Some(Moment::from_millis(2_000)),
        "a milder wish changes nothing"
    );
}

#[test]
fn a_stop_of_what_cannot_be_killed_is_answered_within_a_bound() {
    let mut life = Life::running(EffectiveLimits::default());
    life.give(stop(LadderKind::Force))
        .give(Input::Observed)
        .tick_after(1_500);
    assert_eq!(life.kinds(), ["survey"], "who is left is looked up first");
    life.tree(&[], &[7]);
    assert_eq!(life.kinds(), ["answer stops"]);
    assert_eq!(
        (life.session.phase(), life.session.residual_pids()),
        (Phase::Terminating, [7].as_slice())
    );
    let at = life.now;
    life.after(60_000).give(killed_by(Signal::KILL, at));
    assert_eq!(life.kinds(), ["sweep"]);
}

#[test]
fn who_exited_before_the_stop_was_decided_has_exited() {
    let mut life = Life::running(EffectiveLimits::default());
    life.give(stop(ASK)).exit(0).give(Input::Observed);
    assert_eq!(life.kinds(), ["sweep"]);
    life.close().tree(&[], &[]);
    assert_eq!(life.reap_and_close().cause, Cause::Exit);
}

#[test]
fn a_stop_while_output_is_drained_sweeps_at_once() {
    let mut life = Life::running(EffectiveLimits::default());
    life.exit(0).after(10).give(stop(ASK));
    assert_eq!(life.kinds(), ["sweep"]);
    life.tree(&[8], &[]).close();
    let outcome = life.reap_and_close();
    assert_eq!((outcome.cause, outcome.incomplete_output), (Cause::Exit, None));
}

#[test]
fn a_stop_before_there_is_a_process_strikes_when_there_is_one() {
    let mut life = Life::new(EffectiveLimits::default());
    life.give(stop(LadderKind::Force));
    assert_eq!(life.effects, []);
    life.give(Input::Spawned {
        pid: 7,
        streams: vec![],
    });
    assert_eq!(life.kinds(), ["observe"]);
    life.give(Input::Observed);
    assert_eq!(life.kinds(), ["kill"]);
}

#[test]
fn the_wall_time_strikes_on_time_and_once() {
    let mut life = Life::running(EffectiveLimits {
        wall_time: Some(Duration::from_secs(1)),
        ..EffectiveLimits::default()
    });
    assert_eq!(life.session.next_deadline(), Some(Moment::from_millis(1_000)));
    life.tick_after(999);
    assert_eq!(life.effects, []);
    life.tick_after(1);
    assert_eq!(life.kinds(), ["observe"]);
    life.give(Input::Observed);
    assert_eq!(life.kinds(), ["SIGTERM", "SIGCONT"]);
    life.give(stop(ASK)).exit(0).close().tree(&[], &[]);
    life.tree(&[], &[]);
    assert_eq!(
        life.reap_and_close().cause,
        Cause::WallTimeout,
        "the first cause stands"
    );
}

#[test]
fn an_exit_that_is_seen_in_time_is_no_time_out() {
    let mut life = Life::running(EffectiveLimits {
        wall_time: Some(Duration::from_secs(1)),
        ..EffectiveLimits::default()
    });
    life.tick_after(1_000).exit(0).give(Input::Observed);
    assert_eq!(life.effects, [], "it drains");
    life.close().tree(&[], &[]);
    assert_eq!(life.reap_and_close().cause, Cause::Exit);
}

#[test]
fn a_strike_waits_for_the_status_of_a_leader_that_has_exited() {
    let limits = EffectiveLimits {
        wall_time: Some(Duration::from_secs(1)),
        idle_time: Some(Duration::from_millis(1_100)),
        ..EffectiveLimits::default()
    };
    let mut life = Life::running(limits.clone());
    life.tick_after(1_000).give(Input::ExitUntold);
    assert_eq!(
        life.session.next_deadline(),
        Some(Moment::from_millis(1_000).saturating_add(STATUS_BOUND)),
        "deadlines that are over wake nobody"
    );
    life.tick_after(200);
    assert_eq!(life.effects, [], "nor does the next of them strike");
    life.exit(0);
    assert_eq!(life.effects, [], "it drains");
    life.close().tree(&[], &[]);
    assert_eq!(life.reap_and_close().cause, Cause::Exit);

    let mut life = Life::running(limits.clone());
    life.give(stop(ASK)).give(Input::ExitUntold).exit(0);
    assert_eq!(life.kinds(), ["sweep"], "a stop does not wait for the drain");

    let mut life = Life::running(limits);
    life.tick_after(1_000).give(Input::ExitUntold);
    life.tick_after(u64::try_from(STATUS_BOUND.as_millis()).unwrap());
    assert_eq!(
        life.kinds(),
        ["SIGTERM", "SIGCONT"],
        "nobody tells it: the ladder goes on"
    );
    assert_eq!(life.session.phase(), Phase::Terminating);
}

#[test]
fn output_that_waited_keeps_the_idle_time_from_striking() {
    let mut life = Life::running(EffectiveLimits {
        idle_time: Some(Duration::from_secs(1)),
        ..EffectiveLimits::default()
    });
    life.tick_after(5_000);
    assert_eq!(life.kinds(), ["observe"], "a host that was paused looks first");
    life.give(Input::Output { bytes: 1 }).give(Input::Observed);
    assert_eq!((life.effects.len(), life.session.phase()), (0, Phase::Running));
    life.tick_after(1_000).give(Input::Observed);
    assert_eq!(life.kinds(), ["SIGTERM", "SIGCONT"]);
    assert_eq!(life.session.largest_idle_gap(), Duration::from_secs(5));
}

#[test]
fn no_duration_overflows() {
    let limits = EffectiveLimits {
        wall_time: Some(Duration::MAX),
        idle_time: Some(Duration::MAX),
        grace: Duration::MAX,
        drain_grace: Duration::MAX,
        ..EffectiveLimits::default()
    };
    let mut life = Life::running(limits.clone());
    life.after(u64::MAX)
        .give(Input::Output { bytes: u64::MAX })
        .give(Input::Output { bytes: 1 })
        .give(stop(ASK));
    life.give(Input::Observed);
    assert!(life.session.next_deadline().is_some());
    let mut life = Life::running(limits);
    life.exit(0);
    assert!(life.session.next_deadline().is_some());
}

#[test]
fn kept_leftovers_live_on_and_can_be_stopped_without_changing_the_record() {
    let mut life = Life::running(EffectiveLimits {
        leftovers: Leftovers::Keep,
        ..EffectiveLimits::default()
    });
    life.close().exit(0);
    assert_eq!(life.kinds(), ["survey"]);
    life.tree(&[], &[8]);
    assert_eq!(
        (life.kinds(), life.session.phase()),
        (vec!["finish"], Phase::Ended)
    );
    assert!(!life.session.is_released());
    let outcome = life.session.outcome().cloned().expect("final");
    assert_eq!(
        (&outcome.residual_pids[..], outcome.quiescent),
        ([8].as_slice(), Fact::Unknown(UnknownFact::Kept))
    );
    life.give(stop(ASK));
    assert_eq!(life.kinds(), ["SIGTERM", "SIGCONT"]);
    life.tick_after(2_000);
    assert_eq!(life.kinds(), ["kill", "sweep"]);
    life.tree(&[8], &[]);
    assert_eq!(life.kinds(), ["release", "reap"]);
    life.give(Input::Reaped { usage: None });
    assert_eq!(life.kinds(), ["released"]);
    assert_eq!(life.session.outcome(), Some(&outcome));
    assert!(life.session.is_released());
}

#[test]
fn kept_leftovers_can_be_let_go() {
    let mut life = Life::running(EffectiveLimits {
        leftovers: Leftovers::Keep,
        ..EffectiveLimits::default()
    });
    life.give(Input::LetGo);
    assert_eq!(life.effects, [], "only what was kept can be let go");
    life.close().exit(0).tree(&[], &[8]).give(Input::LetGo);
    assert_eq!(life.kinds(), ["release", "let go"]);
    assert!(life.session.is_released());
    life.give(stop(LadderKind::Force));
    assert_eq!(life.effects, [], "it is no longer ours to kill");
}

#[test]
fn kept_leftovers_that_end_by_themselves_are_noticed() {
    let mut life = Life::running(EffectiveLimits {
        leftovers: Leftovers::Keep,
        ..EffectiveLimits::default()
    });
    life.close().exit(0).tree(&[], &[8]);
    life.tick_after(50);
    assert_eq!(life.kinds(), ["survey"]);
    life.tree(&[], &[]);
    assert_eq!(life.kinds(), ["sweep"]);
}

#[test]
fn keep_without_leftovers_is_a_plain_end() {
    let mut life = Life::running(EffectiveLimits {
        leftovers: Leftovers::Keep,
        ..EffectiveLimits::default()
    });
    life.close().exit(0).tree(&[], &[]).tree(&[], &[]);
    assert_eq!(life.reap_and_close().cause, Cause::Exit);
}

#[test]
fn an_exit_that_could_not_be_observed_is_lost_and_unknown() {
    let mut life = Life::running(EffectiveLimits::default());
    let reason = UnknownStatus::ObservationFailed { errno: 10 };
    let status = Status::Unknown { reason };
    let observation = ExitObservation {
        status: status.clone(),
        observed_by: ObservedBy::Nobody,
        at: life.now,
    };
    life.close().give(Input::Exited { observation }).tree(&[], &[]);
    let outcome = life.reap_and_close();
    assert_eq!((outcome.cause, outcome.status), (Cause::Lost, status));
}

#[test]
fn a_start_that_failed_never_ran() {
    let mut life = Life::new(EffectiveLimits::default());
    life.give(Input::StartFailed);
    assert_eq!(
        (life.kinds(), life.session.phase()),
        (vec!["finish"], Phase::Ended)
    );
    let outcome = life.session.outcome().cloned().expect("final");
    let status = Status::Unknown {
        reason: UnknownStatus::NeverRan,
    };
    assert_eq!((outcome.cause, outcome.status), (Cause::FailedToStart, status));
}

#[test]
fn a_log_that_is_not_closed_in_time_does_not_hold_the_end_back() {
    let mut life = Life::running(EffectiveLimits::default());
    life.close()
        .exit(0)
        .tree(&[], &[])
        .give(Input::Reaped { usage: None });
    assert_eq!(life.kinds(), ["close log"]);
    life.tick_after(1_000);
    assert_eq!(life.kinds(), ["finish"]);
    life.give(Input::LogClosed);
    assert_eq!(life.effects, [], "the end is told once");
}
