//! Random operations against a naive model.

use proptest::prelude::*;

use super::*;

/// The same decisions over a list, by looking at all of it each time.
#[derive(Debug, Default)]
struct Model {
    sessions: Vec<ModelSession>,
    gone: Vec<(SessionId, usize)>,
    starts: usize,
}

#[derive(Debug, Clone)]
struct ModelSession {
    id: SessionId,
    owner: usize,
    demand: Demand,
    started: Option<usize>,
    /// End, retention, first look; in milliseconds.
    ended: Option<(u64, u64, Option<u64>)>,
}

impl ModelSession {
    fn due(&self) -> Option<u64> {
        self.ended.map(|(ended, retention, seen)| {
            let bound = ended + (3 * retention).max(5_000);
            seen.map_or(bound, |seen| {
                (ended + retention).max(bound.min(seen + retention / 4))
            })
        })
    }

    fn is_starting(&self) -> bool {
        self.started.is_none() && self.ended.is_none()
    }
}

impl Model {
    fn within(&self, scope: Scope, owner: usize) -> impl Iterator<Item = &ModelSession> {
        self.sessions.iter().filter(move |session| match scope {
            Scope::Owner => session.owner == owner,
            Scope::Principal => model_owner(session.owner).principal == model_owner(owner).principal,
            Scope::Host => true,
        })
    }

    fn take(&mut self, id: SessionId) {
        if let Some(at) = self.sessions.iter().position(|session| session.id == id) {
            let session = self.sessions.remove(at);
            self.gone.push((id, session.owner));
        }
    }

    fn prune(&mut self, now: u64) -> Vec<SessionId> {
        let mut due: Vec<_> = self
            .sessions
            .iter()
            .filter_map(|session| Some((session.due()?, session.id)))
            .collect();
        due.sort();
        due.retain(|(due, _)| *due <= now);
        due.into_iter()
            .map(|(_, id)| id)
            .inspect(|id| self.take(*id))
            .collect()
    }

    /// Pruned and evicted, or why not.
    fn admit(
        &mut self,
        now: u64,
        owner: usize,
        id: SessionId,
        demand: Demand,
    ) -> Result<[Vec<SessionId>; 2], Option<(LimitName, Scope)>> {
        if self.sessions.iter().any(|s| s.id == id) || self.gone.iter().any(|(gone, _)| *gone == id) {
            return Err(None);
        }
        let all = || {
            Scope::ALL
                .into_iter()
                .flat_map(|scope| LimitName::ALL.map(|limit| (limit, scope)))
        };
        for (limit, scope) in all() {
            let live = self
                .within(scope, owner)
                .filter(|session| session.ended.is_none());
            let used: u64 = live.map(|session| session.demand.amount(limit)).sum();
            if budgets()
                .bound(limit, scope)
                .is_some_and(|bound| used + demand.amount(limit) > bound)
            {
                return Err(Some((limit, scope)));
            }
        }
        let pruned = self.prune(now);
        let mut evicted = Vec::new();
        for (limit, scope) in Scope::ALL.into_iter().flat_map(|scope| {
            [
                LimitName::MaxCaptureBytes,
                LimitName::MaxLogBytes,
                LimitName::MaxSessions,
            ]
            .map(|limit| (limit, scope))
        }) {
            let Some(bound) = budgets().bound(limit, scope) else {
                continue;
            };
            loop {
                let used: u64 = self
                    .within(scope, owner)
                    .map(|session| session.demand.amount(limit))
                    .sum();
                if used + demand.amount(limit) <= bound {
                    break;
                }
                let victims = self
                    .within(scope, owner)
                    .filter(|session| session.demand.amount(limit) > 0);
                let victim = victims
                    .filter_map(|session| {
                        session
                            .ended
                            .map(|(ended, _, seen)| (seen.is_none(), ended, session.id))
                    })
                    .min();
                let victim = victim.expect("it fits beside the live ones").2;
                evicted.push(victim);
                self.take(victim);
            }
        }
        self.sessions.push(ModelSession {
            id,
            owner,
            demand,
            started: None,
            ended: None,
        });
        Ok([pruned, evicted])
    }

    fn find(&mut self, id: SessionId, state: impl Fn(&ModelSession) -> bool) -> Option<&mut ModelSession> {
        self.sessions
            .iter_mut()
            .find(|session| session.id == id && state(session))
    }
}

const MODEL_OWNERS: usize = 5;

fn model_owner(number: usize) -> Owner {
    let (principal, agent, scope) = [
        ("p", "a", "s"),
        ("p", "a", "t"),
        ("p", "ab", "s"),
        ("q", "a", "s"),
        ("q", "b", "s"),
    ][number];
    Owner::new(principal, agent, scope)
}

fn budgets() -> HostBudgets {
    HostBudgets {
        max_sessions: 7,
        max_sessions_per_principal: Some(5),
        max_sessions_per_owner: 3,
        max_log_bytes_total: Some(100),
        max_log_bytes_per_owner: Some(50),
        max_capture_bytes_per_principal: Some(60),
        ..HostBudgets::default()
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Admit {
        owner: usize,
        old_id: Option<u16>,
        demand: Demand,
    },
    Started(u16),
    Release(u16),
    /// With a retention in milliseconds that has a whole quarter.
    Ended(u16, u64),
    Seen(u16),
    Settle(u16, Demand),
    Clock(i64),
    Prune,
}

fn operation() -> impl Strategy<Value = Operation> {
    let demand = || {
        (0..60_u64, 0..40_u64).prop_map(|(log_bytes, capture_bytes)| Demand {
            log_bytes: log_bytes.saturating_sub(20),
            capture_bytes: capture_bytes.saturating_sub(15),
        })
    };
    let back = || 0..14_u16;
    prop_oneof![
        8 => (0..MODEL_OWNERS, proptest::option::weighted(0.05, back()), demand())
            .prop_map(|(owner, old_id, demand)| Operation::Admit { owner, old_id, demand }),
        6 => back().prop_map(Operation::Started),
        1 => back().prop_map(Operation::Release),
        8 => (back(), 0..5_000_u64).prop_map(|(back, quarter)| Operation::Ended(back, quarter * 4)),
        4 => back().prop_map(Operation::Seen),
        1 => (back(), demand()).prop_map(|(back, demand)| Operation::Settle(back, demand)),
        4 => (-3_000..12_000_i64).prop_map(Operation::Clock),
        1 => Just(Operation::Prune),
    ]
}

/// Everything that can be asked, answered by both.
fn agree(admission: &Admission, model: &Model, ids: u16) -> Result<(), TestCaseError> {
    let count = |scope, owner| Count {
        live: model
            .within(scope, owner)
            .filter(|session| session.ended.is_none())
            .map(|_| 1)
            .sum(),
        retained: model
            .within(scope, owner)
            .filter(|session| session.ended.is_some())
            .map(|_| 1)
            .sum(),
    };
    for number in 0..MODEL_OWNERS {
        let owner = model_owner(number);
        for name in (0..ids).map(id) {
            let session = model
                .sessions
                .iter()
                .find(|session| session.id == name && session.owner == number);
            let expected = match session {
                Some(session) if session.ended.is_some() => Lookup::Ended,
                Some(session) if session.started.is_some() => Lookup::Running,
                Some(_) => Lookup::Starting,
                None if model.gone.contains(&(name, number)) => Lookup::Gone,
                None => Lookup::Unknown,
            };
            prop_assert_eq!(admission.lookup(&owner, name), expected);
        }
        let mut all: Vec<_> = model
            .within(Scope::Owner, number)
            .map(|session| session.id)
            .collect();
        let mut told: Vec<_> = admission.owned_by(&owner).collect();
        let listed: Vec<_> = admission.list(&owner).collect();
        let mut started: Vec<_> = model
            .within(Scope::Owner, number)
            .filter(|s| s.started.is_some())
            .collect();
        started.sort_by_key(|session| session.started);
        let started: Vec<_> = started.iter().map(|session| session.id).collect();
        let order: Vec<_> = listed.iter().filter(|id| started.contains(id)).copied().collect();
        prop_assert_eq!(order, started);
        all.sort();
        told.sort();
        prop_assert_eq!(told, all);
        prop_assert_eq!(
            listed.len(),
            model
                .within(Scope::Owner, number)
                .filter(|session| !session.is_starting())
                .count()
        );
        prop_assert_eq!(admission.count_of(&owner), count(Scope::Owner, number));
        prop_assert_eq!(
            admission.count_of_principal(&owner.principal),
            count(Scope::Principal, number)
        );
        for scope in Scope::ALL {
            for limit in LimitName::ALL {
                let used: u64 = model
                    .within(scope, number)
                    .map(|session| session.demand.amount(limit))
                    .sum();
                prop_assert!(budgets().bound(limit, scope).is_none_or(|bound| used <= bound));
            }
        }
    }
    prop_assert_eq!(admission.count(), count(Scope::Host, 0));
    let due = model.sessions.iter().filter_map(ModelSession::due).min();
    prop_assert_eq!(admission.next_expiry(), due.map(Moment::from_millis));
    Ok(())
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_model(operations in prop::collection::vec(operation(), 1..120)) {
        let mut admission = Admission::new(budgets()).unwrap();
        let mut model = Model::default();
        let (mut now, mut ids) = (50_000_u64, 0_u16);
        for operation in operations {
            let moment = Moment::from_millis(now);
            // The last few ids, one of which may be none as yet.
            let named = |back: u16| id(ids.saturating_sub(back));
            match operation {
                Operation::Admit { owner, old_id, demand } => {
                    let name = old_id.map_or(id(ids), named);
                    ids += 1;
                    let live: Vec<_> = admission.live().collect();
                    let answer = admission.admit(moment, &model_owner(owner), name, demand);
                    let answer = match &answer {
                        Ok(admitted) => Ok([admitted.pruned.clone(), evicted(admitted)]),
                        Err(AdmitError::LimitReached(reached)) => {
                            prop_assert!(reached.in_use + reached.requested > reached.configured);
                            prop_assert!(reached.in_use <= reached.configured);
                            Err(Some((reached.limit, reached.scope)))
                        }
                        Err(AdmitError::TakenId { .. }) => Err(None),
                    };
                    prop_assert_eq!(answer, model.admit(now, owner, name, demand));
                    prop_assert!(live.iter().all(|id| admission.live().any(|live| live == *id)));
                }
                Operation::Started(back) => {
                    let starts = model.starts;
                    let expected = model.find(named(back), ModelSession::is_starting);
                    prop_assert_eq!(admission.started(named(back)), expected.is_some());
                    if let Some(session) = expected {
                        session.started = Some(starts);
                    }
                    model.starts += 1;
                }
                Operation::Release(back) => {
                    let expected = model.find(named(back), ModelSession::is_starting).is_some();
                    prop_assert_eq!(admission.release(named(back)), expected);
                    model.sessions.retain(|session| session.id != named(back) || !session.is_starting());
                }
                Operation::Ended(back, retention) => {
                    let expected = model.find(named(back), |session| session.ended.is_none());
                    let told = admission.ended(moment, named(back), Duration::from_millis(retention));
                    prop_assert_eq!(told, expected.is_some());
                    if let Some(session) = expected {
                        // What ends without ever having started keeps the place of its admission.
                        session.ended = Some((now, retention, None));
                    }
                }
                Operation::Seen(back) => {
                    let expected = model.find(named(back), |s| matches!(s.ended, Some((.., None))));
                    prop_assert_eq!(admission.seen(moment, named(back)), expected.is_some());
                    if let Some(ModelSession { ended: Some((.., seen)), .. }) = expected {
                        *seen = Some(now);
                    }
                }
                Operation::Settle(back, held) => {
                    admission.settle(named(back), held);
                    if let Some(session) = model.find(named(back), |_| true) {
                        session.demand.log_bytes = session.demand.log_bytes.min(held.log_bytes);
                        session.demand.capture_bytes = session.demand.capture_bytes.min(held.capture_bytes);
                    }
                }
                Operation::Clock(by) => now = now.saturating_add_signed(by),
                Operation::Prune => prop_assert_eq!(admission.prune(moment), model.prune(now)),
            }
            agree(&admission, &model, ids + 1)?;
        }
    }
}
