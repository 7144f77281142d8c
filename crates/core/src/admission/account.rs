//! Who holds how much, kept exactly, for each owner, each principal and the host.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    budget::{Demand, HostBudgets, LimitName, LimitReached, LimitWarning, RetryWhen, Scope},
    retention::{EndSeen, Retained},
};
use crate::{
    id::{Owner, SessionId},
    time::Moment,
};

/// Where an ended session stands among those that may be evicted: ends that were seen go first, then the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvictionOrder {
    end: EndSeen,
    ended: Moment,
    id: SessionId,
}

/// What one session holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holding {
    pub(super) demand: Demand,
    /// `None` while the session is live.
    pub(super) eviction: Option<EvictionOrder>,
}

/// All accounts; those that hold nothing do not exist.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    host: Account,
    principals: BTreeMap<String, Account>,
    owners: BTreeMap<Arc<Owner>, Account>,
}

/// What one scope holds, a pool for each limit in the order of [`LimitName::ALL`].
#[derive(Debug, Default)]
struct Account {
    pools: [Pool; LimitName::ALL.len()],
}

/// What one scope holds of one limit. Sums are wide enough for every session to hold `u64::MAX`.
#[derive(Debug, Default)]
struct Pool {
    live: u128,
    retained: u128,
    /// The ended sessions that hold some of it.
    evictable: BTreeSet<EvictionOrder>,
}

impl EvictionOrder {
    pub(super) fn new(id: SessionId, retained: &Retained) -> Self {
        Self {
            end: retained.end_seen(),
            ended: retained.ended,
            id,
        }
    }
}

impl Accounts {
    /// Enters what a session holds.
    pub(super) fn charge(&mut self, owner: &Arc<Owner>, holding: Holding) {
        self.host.charge(holding);
        if let Some(account) = self.principals.get_mut(&owner.principal) {
            account.charge(holding);
        } else {
            self.principals
                .entry(owner.principal.clone())
                .or_default()
                .charge(holding);
        }
        self.owners.entry(Arc::clone(owner)).or_default().charge(holding);
    }

    /// Takes out what [`Accounts::charge`] entered; the holding has to be the same.
    pub(super) fn discharge(&mut self, owner: &Owner, holding: Holding) {
        self.host.discharge(holding);
        if let Some(account) = self.principals.get_mut(&owner.principal) {
            account.discharge(holding);
            if account.is_empty() {
                self.principals.remove(&owner.principal);
            }
        }
        if let Some(account) = self.owners.get_mut(owner) {
            account.discharge(holding);
            if account.is_empty() {
                self.owners.remove(owner);
            }
        }
    }

    /// Whether the demand fits beside all live sessions, innermost scope first.
    pub(super) fn check(
        &self,
        budgets: &HostBudgets,
        owner: &Owner,
        demand: Demand,
    ) -> Result<(), LimitReached> {
        for scope in Scope::ALL {
            for limit in LimitName::ALL {
                let Some(configured) = budgets.bound(limit, scope) else {
                    continue;
                };
                let requested = demand.amount(limit);
                let live = self.live(limit, scope, owner);
                if live.saturating_add(requested.into()) > configured.into() {
                    return Err(LimitReached {
                        limit,
                        scope,
                        configured,
                        in_use: narrow(live),
                        requested,
                        retry_when: if requested > configured {
                            RetryWhen::RequestIsSmaller
                        } else {
                            RetryWhen::SessionEnds
                        },
                    });
                }
            }
        }
        Ok(())
    }

    /// The next ended session that has to make way so that the demand fits into the bound; `None` when it fits.
    pub(super) fn victim(
        &self,
        (limit, scope): (LimitName, Scope),
        configured: u64,
        owner: &Owner,
        demand: Demand,
    ) -> Option<SessionId> {
        let pool = self.pool(limit, scope, owner)?;
        let wanted = pool
            .live
            .saturating_add(pool.retained)
            .saturating_add(demand.amount(limit).into());
        if wanted <= configured.into() {
            return None;
        }
        pool.evictable.first().map(|order| order.id)
    }

    /// The budgets that sessions of this owner draw from and that are in use to at least 80 %.
    pub(super) fn warnings(&self, budgets: &HostBudgets, owner: &Owner) -> Vec<LimitWarning> {
        let mut warnings = Vec::new();
        for scope in Scope::ALL {
            for limit in LimitName::ALL {
                let Some(configured) = budgets.bound(limit, scope) else {
                    continue;
                };
                let live = self.live(limit, scope, owner);
                if live.saturating_mul(5) >= u128::from(configured).saturating_mul(4) {
                    warnings.push(LimitWarning {
                        limit,
                        scope,
                        configured,
                        in_use: narrow(live),
                    });
                }
            }
        }
        warnings
    }

    /// Live and retained sessions of the host.
    pub(super) fn host_sessions(&self) -> (u64, u64) {
        self.host.sessions()
    }

    /// Live and retained sessions of a principal.
    pub(super) fn principal_sessions(&self, principal: &str) -> (u64, u64) {
        self.principals
            .get(principal)
            .map(Account::sessions)
            .unwrap_or_default()
    }

    /// Live and retained sessions of an owner.
    pub(super) fn owner_sessions(&self, owner: &Owner) -> (u64, u64) {
        self.owners.get(owner).map(Account::sessions).unwrap_or_default()
    }

    fn live(&self, limit: LimitName, scope: Scope, owner: &Owner) -> u128 {
        self.pool(limit, scope, owner).map_or(0, |pool| pool.live)
    }

    fn pool(&self, limit: LimitName, scope: Scope, owner: &Owner) -> Option<&Pool> {
        let account = match scope {
            Scope::Owner => self.owners.get(owner)?,
            Scope::Principal => self.principals.get(&owner.principal)?,
            Scope::Host => &self.host,
        };
        Some(account.pool(limit))
    }
}

impl Account {
    fn charge(&mut self, holding: Holding) {
        for (pool, limit) in self.pools.iter_mut().zip(LimitName::ALL) {
            pool.charge(holding.demand.amount(limit), holding.eviction);
        }
    }

    fn discharge(&mut self, holding: Holding) {
        for (pool, limit) in self.pools.iter_mut().zip(LimitName::ALL) {
            pool.discharge(holding.demand.amount(limit), holding.eviction);
        }
    }

    fn is_empty(&self) -> bool {
        self.sessions() == (0, 0)
    }

    fn sessions(&self) -> (u64, u64) {
        let pool = self.pool(LimitName::MaxSessions);
        (narrow(pool.live), narrow(pool.retained))
    }

    fn pool(&self, limit: LimitName) -> &Pool {
        let [sessions, log_bytes, capture_bytes] = &self.pools;
        match limit {
            LimitName::MaxSessions => sessions,
            LimitName::MaxLogBytes => log_bytes,
            LimitName::MaxCaptureBytes => capture_bytes,
        }
    }
}

impl Pool {
    fn charge(&mut self, amount: u64, eviction: Option<EvictionOrder>) {
        let Some(order) = eviction else {
            self.live = self.live.saturating_add(amount.into());
            return;
        };
        self.retained = self.retained.saturating_add(amount.into());
        // One that holds nothing of this would be evicted in vain.
        if amount > 0 {
            self.evictable.insert(order);
        }
    }

    fn discharge(&mut self, amount: u64, eviction: Option<EvictionOrder>) {
        let Some(order) = eviction else {
            self.live = self.live.saturating_sub(amount.into());
            return;
        };
        self.retained = self.retained.saturating_sub(amount.into());
        self.evictable.remove(&order);
    }
}

fn narrow(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn accounts_that_hold_nothing_do_not_exist() {
        let owners = [("p", "a"), ("p", "b"), ("q", "a")].map(|(p, a)| Arc::new(Owner::new(p, a, "s")));
        let retained = Retained {
            ended: Moment::ZERO,
            retention: Duration::ZERO,
            seen: None,
        };
        let demand = Demand {
            log_bytes: u64::MAX,
            capture_bytes: 0,
        };
        let id = SessionId::from_random([1; 10]);
        for eviction in [None, Some(EvictionOrder::new(id, &retained))] {
            let holding = Holding { demand, eviction };
            let mut accounts = Accounts::default();
            for owner in &owners {
                accounts.charge(owner, holding);
            }
            assert_eq!((accounts.principals.len(), accounts.owners.len()), (2, 3));
            for owner in &owners {
                accounts.discharge(owner, holding);
            }
            assert_eq!(format!("{accounts:?}"), format!("{:?}", Accounts::default()));
        }
    }
}
