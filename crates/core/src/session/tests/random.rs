//! Any inputs in any order: whatever happens, the record is made once, the order of the end protocol holds, and a
//! session that is told of an end comes to one.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Happening {
    Output,
    Close,
    Exit(i32),
    Stop(bool),
    Shutdown,
    Observed,
    ExitUntold,
    Tree { alive: bool },
    Reaped,
    LogClosed,
    Wait(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        Just(Happening::Output),
        Just(Happening::Close),
        (0..3).prop_map(Happening::Exit),
        any::<bool>().prop_map(Happening::Stop),
        Just(Happening::Shutdown),
        Just(Happening::Observed),
        Just(Happening::ExitUntold),
        any::<bool>().prop_map(|alive| Happening::Tree { alive }),
        Just(Happening::Reaped),
        Just(Happening::LogClosed),
        (0..3_000_u64).prop_map(Happening::Wait),
    ]
}

/// What has to hold of effects in their order.
#[derive(Debug, Default)]
struct Watch {
    swept: bool,
    reaped: bool,
    finished: Option<Outcome>,
}

impl Watch {
    fn see(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::SignalTree { .. } | Effect::KillTree { .. } => {
                    assert!(!self.reaped, "nothing is signalled once the leader was reaped");
                }
                Effect::Sweep => {
                    assert!(!self.reaped, "the tree is swept before the leader is reaped");
                    self.swept = true;
                }
                Effect::Reap => {
                    assert!(self.swept && !self.reaped, "reaped once, after a sweep");
                    self.reaped = true;
                }
                Effect::Finish(outcome) => {
                    assert_eq!(self.finished, None, "the end is told once");
                    self.finished = Some((**outcome).clone());
                }
                _ => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn the_protocol_of_the_end_holds_in_any_order(
        keep: bool,
        happenings in prop::collection::vec(happening(), 0..60),
    ) {
        let leftovers = if keep { Leftovers::Keep } else { Leftovers::Sweep };
        let idle_time = Some(Duration::from_secs(5));
        let limits = EffectiveLimits { leftovers, idle_time, wall_time: Some(Duration::from_secs(20)), ..EffectiveLimits::default() };
        let mut life = Life::running(limits);
        let mut watch = Watch::default();
        let mut effects = Vec::new();
        for happening in happenings {
            let at = life.now;
            match happening {
                Happening::Output => life.give(Input::Output { bytes: 1 }),
                Happening::Close => life.close(),
                Happening::Exit(code) => life.give(exited(code, at)),
                Happening::Stop(force) => life.give(stop(if force { LadderKind::Force } else { ASK })),
                Happening::Shutdown => life.give(Input::End { cause: Cause::HostShutdown, ladder: ASK }),
                Happening::Observed => life.give(Input::Observed),
                Happening::ExitUntold => life.give(Input::ExitUntold),
                Happening::Tree { alive } => life.tree(&[], if alive { &[9] } else { &[] }),
                Happening::Reaped => life.give(Input::Reaped { usage: None }),
                Happening::LogClosed => life.give(Input::LogClosed),
                Happening::Wait(millis) => life.tick_after(millis),
            };
            watch.see(&life.effects);
            effects.append(&mut life.effects);
        }
        // From here on all effects are carried out, and somebody wants an end: it comes, within its bounds.
        let more = life.session.step(life.now, stop(LadderKind::Force));
        watch.see(&more);
        effects.extend(more);
        for _ in 0..100 {
            if life.session.is_released() {
                break;
            }
            let mut answers = Vec::new();
            for effect in effects.drain(..) {
                match effect {
                    Effect::Observe => answers.push(Input::Observed),
                    Effect::KillTree { .. } => answers.push(killed_by(Signal::KILL, life.now)),
                    Effect::Survey | Effect::Sweep => answers.push(Input::TreeSeen(TreeReport::default())),
                    Effect::Reap => answers.push(Input::Reaped { usage: None }),
                    Effect::CloseLog(_) => answers.push(Input::LogClosed),
                    _ => {}
                }
            }
            if answers.is_empty() {
                if let Some(due) = life.session.next_deadline() {
                    life.now = life.now.max(due);
                }
                answers.push(Input::Tick);
            }
            for answer in answers {
                let more = life.session.step(life.now, answer);
                watch.see(&more);
                effects.extend(more);
            }
        }
        prop_assert!(life.session.is_released(), "it does not end: {:?}", life.session);
        let finished = watch.finished.expect("told");
        prop_assert_eq!(Some(&finished), life.session.outcome(), "the record does not change");
    }
}
