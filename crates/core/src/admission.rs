//! Who gets in and who goes.
//!
//! An [`Admission`] is what the registry decides by. It knows each session from before its first side effect until
//! it is pruned, to whom it belongs, and what it may hold:
//!
//! ```text
//! admit ─► starting ─started─► running ─ended─► retained ─┬─ pruned: its time is over ─► gone
//!             └─release─► as if it had never been         └─ evicted: another needs the place ─► gone
//! ```
//!
//! - Budgets are nested: owner, principal, host ([`HostBudgets`]). What is admitted is reserved in all three at once,
//!   so that they hold under any number of starts under way.
//! - A live session, starting or running, is never ended to admit another. An ended one is kept for its owner to
//!   read, in the same budgets; it makes way before anybody is refused.
//! - It makes way in this order: first those whose end was seen, then the rest; in each part the oldest end first, then
//!   the smaller id. Only sessions that hold something of what is short, within the scope where it is short.
//! - Its time is over when the retention has passed since its end, and a quarter of it since the end was first seen.
//!   An end that nobody sees, or late, is kept for three retentions at most, or 5 s if that is longer.
//! - Foreign and unknown are one answer. A session that is gone is gone to its owner only, and for as long as it is
//!   among the last [`GONE_REMEMBERED`].
//!
//! The clock is the caller's. Where it goes back, sessions are kept longer by as much, and nothing else happens.
//! Each decision costs O(log n) in the number of sessions, and as much again for each session that it removes.

mod account;
mod budget;
mod retention;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use self::{
    account::{Accounts, EvictionOrder, Holding},
    retention::{Gone, Retained},
};
pub use self::{
    budget::{BudgetError, Demand, HostBudgets, LimitName, LimitReached, LimitWarning, RetryWhen, Scope},
    retention::{EndSeen, GONE_REMEMBERED},
};
use crate::{
    id::{Owner, RequestId, SessionId},
    time::Moment,
};

/// All sessions that are known, and what they hold of the budgets.
#[derive(Debug)]
pub struct Admission {
    budgets: HostBudgets,
    entries: BTreeMap<SessionId, Entry>,
    accounts: Accounts,
    listings: BTreeMap<Arc<Owner>, Listing>,
    expiries: BTreeSet<(Moment, SessionId)>,
    gone: Gone,
    next_place: u64,
}

/// A session got in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Admitted {
    /// Sessions whose time was over anyway, of any owner, the first one due first. No longer known, as after
    /// [`Admission::prune`].
    pub pruned: Vec<SessionId>,
    /// Ended sessions that had to make way, of any owner, in the order of their eviction. No longer known either.
    pub evicted: Vec<Evicted>,
    /// The budgets that are in use to at least 80 % now.
    pub warnings: Vec<LimitWarning>,
}

/// An ended session that had to make way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evicted {
    /// Its id; to be told to its owner only.
    pub id: SessionId,
    /// To whom it belonged.
    pub owner: Owner,
    /// Whether its owner knew that it had ended.
    pub end: EndSeen,
}

/// A session did not get in; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// A budget is used up by live sessions.
    #[error(transparent)]
    LimitReached(#[from] LimitReached),
    /// Another session has or had this id.
    #[error("session id `{id}` is taken")]
    TakenId {
        /// The id.
        id: SessionId,
    },
}

/// What an id means to one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lookup {
    /// It is reserved; whether there will be a session is not known yet.
    Starting,
    /// It is a session that has not ended.
    Running,
    /// It is a session that has ended and can be read.
    Ended,
    /// It was a session of this owner's, and was pruned or evicted.
    Gone,
    /// It is nothing, or not this owner's, or forgotten.
    Unknown,
}

/// What became of a request's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStart {
    /// It is the session's now.
    New,
    /// It is that of this session already, nothing was changed.
    Same(SessionId),
    /// The session cannot take it: not known, not this owner's, or it has another; nothing was changed.
    Unlisted,
}

/// How many sessions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Those that start or run.
    pub live: u64,
    /// Those that have ended and can be read.
    pub retained: u64,
}

#[derive(Debug)]
struct Entry {
    owner: Arc<Owner>,
    demand: Demand,
    phase: Phase,
    place: u64,
    request: Option<RequestId>,
}

#[derive(Debug)]
enum Phase {
    Starting,
    Running,
    Ended(Retained),
}

/// The sessions of one owner; one that is empty does not exist.
#[derive(Debug, Default)]
struct Listing {
    in_order: BTreeSet<(u64, SessionId)>,
    requests: BTreeMap<RequestId, SessionId>,
}

impl Admission {
    /// An admission without any sessions.
    ///
    /// # Errors
    ///
    /// Those of [`HostBudgets::effective`].
    pub fn new(budgets: HostBudgets) -> Result<Self, BudgetError> {
        Ok(Self {
            budgets: budgets.effective()?,
            entries: BTreeMap::new(),
            accounts: Accounts::default(),
            listings: BTreeMap::new(),
            expiries: BTreeSet::new(),
            gone: Gone::default(),
            next_place: 0,
        })
    }

    /// The budgets as they hold.
    #[must_use]
    pub const fn budgets(&self) -> &HostBudgets {
        &self.budgets
    }

    /// Reserves a place, and what the session may hold, before anything else is done for it.
    ///
    /// The session is [`Lookup::Starting`] afterwards: [`Admission::started`], [`Admission::release`] or
    /// [`Admission::ended`] has to follow.
    ///
    /// # Errors
    ///
    /// [`AdmitError::LimitReached`] when it does not fit beside the live sessions, for the innermost scope that is
    /// short, [`AdmitError::TakenId`] when the id is known or remembered. Nothing is pruned or evicted then.
    pub fn admit(
        &mut self,
        now: Moment,
        owner: &Owner,
        id: SessionId,
        demand: Demand,
    ) -> Result<Admitted, AdmitError> {
        if self.entries.contains_key(&id) || self.gone.owner_of(id).is_some() {
            return Err(AdmitError::TakenId { id });
        }
        self.accounts.check(&self.budgets, owner, demand)?;
        let pruned = self.prune(now);
        let evicted = self.make_room(owner, demand);
        let owner = self
            .listings
            .get_key_value(owner)
            .map_or_else(|| Arc::new(owner.clone()), |(known, _)| Arc::clone(known));
        self.accounts.charge(
            &owner,
            Holding {
                demand,
                eviction: None,
            },
        );
        let place = self.take_place();
        self.listings
            .entry(Arc::clone(&owner))
            .or_default()
            .in_order
            .insert((place, id));
        let warnings = self.accounts.warnings(&self.budgets, &owner);
        self.entries.insert(
            id,
            Entry {
                owner,
                demand,
                phase: Phase::Starting,
                place,
                request: None,
            },
        );
        Ok(Admitted {
            pruned,
            evicted,
            warnings,
        })
    }

    /// The session's process runs; from now on it is listed, after those that started before.
    ///
    /// Whether this changed anything: not for an id that is not starting.
    pub fn started(&mut self, id: SessionId) -> bool {
        let place = self.take_place();
        let Some(entry) = self.entries.get_mut(&id) else {
            return false;
        };
        if !matches!(entry.phase, Phase::Starting) {
            return false;
        }
        entry.phase = Phase::Running;
        if let Some(listing) = self.listings.get_mut(&entry.owner) {
            listing.in_order.remove(&(entry.place, id));
            listing.in_order.insert((place, id));
        }
        entry.place = place;
        true
    }

    /// The start failed: all is given back, and the session is as if it had never been.
    ///
    /// Whether this changed anything: not for an id that is not starting. Who was evicted for it stays so.
    pub fn release(&mut self, id: SessionId) -> bool {
        if self
            .entries
            .get(&id)
            .is_some_and(|entry| matches!(entry.phase, Phase::Starting))
        {
            return self.remove(id).is_some();
        }
        false
    }

    /// A live session ended, unseen as yet; its retention begins.
    ///
    /// Whether this changed anything: not for an id that is not live. A retention of zero lasts until the end was
    /// seen, within the bound for unseen ends.
    pub fn ended(&mut self, now: Moment, id: SessionId, retention: Duration) -> bool {
        self.change(id, |entry| match entry.phase {
            Phase::Starting | Phase::Running => {
                entry.phase = Phase::Ended(Retained {
                    ended: now,
                    retention,
                    seen: None,
                });
                true
            }
            Phase::Ended(_) => false,
        })
    }

    /// The owner was told that the session ended.
    ///
    /// Whether this changed anything: only the first time, and only for a session that has ended.
    pub fn seen(&mut self, now: Moment, id: SessionId) -> bool {
        self.change(id, |entry| match &mut entry.phase {
            Phase::Ended(retained) if retained.seen.is_none() => {
                retained.seen = Some(now);
                true
            }
            Phase::Starting | Phase::Running | Phase::Ended(_) => false,
        })
    }

    /// The session holds this much for good, for example once its log is closed; the rest is given back.
    ///
    /// A reservation is lowered, never raised: the smaller of the two counts, for disk and memory each. Whether this
    /// changed anything.
    pub fn settle(&mut self, id: SessionId, held: Demand) -> bool {
        self.change(id, |entry| {
            let settled = held.at_most(entry.demand);
            let lower = settled != entry.demand;
            entry.demand = settled;
            lower
        })
    }

    /// When [`Admission::prune`] has something to do, if nothing happens until then.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Moment> {
        self.expiries.first().map(|(due, _)| *due)
    }

    /// Takes out every session whose time is over at `now`, inclusive, the first one due first.
    ///
    /// They are not known any more; what there is of them is the caller's to remove.
    pub fn prune(&mut self, now: Moment) -> Vec<SessionId> {
        let mut pruned = Vec::new();
        while let Some((due, id)) = self.expiries.first().copied()
            && due <= now
        {
            // Taken out here too, so that the loop ends whatever the entry says.
            self.expiries.remove(&(due, id));
            pruned.extend(self.forget(id).map(|_| id));
        }
        pruned
    }

    /// What the id means to this owner.
    #[must_use]
    pub fn lookup(&self, owner: &Owner, id: SessionId) -> Lookup {
        if let Some(entry) = self.entries.get(&id) {
            if *entry.owner != *owner {
                return Lookup::Unknown;
            }
            return match entry.phase {
                Phase::Starting => Lookup::Starting,
                Phase::Running => Lookup::Running,
                Phase::Ended(_) => Lookup::Ended,
            };
        }
        if self.gone.owner_of(id) == Some(owner) {
            Lookup::Gone
        } else {
            Lookup::Unknown
        }
    }

    /// The owner's sessions that run or can be read, in the order of their starts.
    pub fn list(&self, owner: &Owner) -> impl Iterator<Item = SessionId> {
        self.owned_by(owner).filter(|id| {
            self.entries
                .get(id)
                .is_some_and(|entry| !matches!(entry.phase, Phase::Starting))
        })
    }

    /// All of the owner's sessions, also those that only start; for what has to reach every one of them.
    pub fn owned_by(&self, owner: &Owner) -> impl Iterator<Item = SessionId> {
        self.listings
            .get(owner)
            .into_iter()
            .flat_map(|listing| listing.in_order.iter().map(|(_, id)| *id))
    }

    /// The live sessions of all owners, in the order of their ids; for a shutdown.
    pub fn live(&self) -> impl Iterator<Item = SessionId> {
        self.entries
            .iter()
            .filter(|(_, entry)| !matches!(entry.phase, Phase::Ended(_)))
            .map(|(id, _)| *id)
    }

    /// To whom a known session belongs, live or ended.
    #[must_use]
    pub fn owner_of(&self, id: SessionId) -> Option<&Owner> {
        self.entries.get(&id).map(|entry| entry.owner.as_ref())
    }

    /// How many sessions the host has.
    #[must_use]
    pub fn count(&self) -> Count {
        Count::from_sessions(self.accounts.host_sessions())
    }

    /// How many sessions a principal has.
    #[must_use]
    pub fn count_of_principal(&self, principal: &str) -> Count {
        Count::from_sessions(self.accounts.principal_sessions(principal))
    }

    /// How many sessions an owner has.
    #[must_use]
    pub fn count_of(&self, owner: &Owner) -> Count {
        Count::from_sessions(self.accounts.owner_sessions(owner))
    }

    /// The session that this owner's request made, as long as it is known, also while it only starts.
    #[must_use]
    pub fn request(&self, owner: &Owner, request: &RequestId) -> Option<SessionId> {
        self.listings.get(owner)?.requests.get(request).copied()
    }

    /// Notes which request made an admitted session, so that the same request again means the same session.
    ///
    /// A session has at most one request, which is forgotten with it.
    pub fn start_request(&mut self, owner: &Owner, request: RequestId, id: SessionId) -> RequestStart {
        if let Some(same) = self.request(owner, &request) {
            return RequestStart::Same(same);
        }
        let Some(entry) = self.entries.get_mut(&id) else {
            return RequestStart::Unlisted;
        };
        if *entry.owner != *owner || entry.request.is_some() {
            return RequestStart::Unlisted;
        }
        let Some(listing) = self.listings.get_mut(owner) else {
            return RequestStart::Unlisted;
        };
        listing.requests.insert(request.clone(), id);
        entry.request = Some(request);
        RequestStart::New
    }

    /// Evicts until the demand, which fits beside the live sessions, fits beside the retained ones too.
    fn make_room(&mut self, owner: &Owner, demand: Demand) -> Vec<Evicted> {
        let mut evicted = Vec::new();
        // What goes for an inner scope also helps the outer ones, and what goes for bytes also frees a place.
        for scope in Scope::ALL {
            for limit in LimitName::ALL.into_iter().rev() {
                let Some(configured) = self.budgets.bound(limit, scope) else {
                    continue;
                };
                while let Some(id) = self.accounts.victim((limit, scope), configured, owner, demand) {
                    let Some(entry) = self.forget(id) else { break };
                    let end = match &entry.phase {
                        Phase::Ended(retained) => retained.end_seen(),
                        Phase::Starting | Phase::Running => EndSeen::Unseen,
                    };
                    evicted.push(Evicted {
                        id,
                        owner: Owner::clone(&entry.owner),
                        end,
                    });
                }
            }
        }
        evicted
    }

    /// Changes an entry, and with it all that is kept by what it holds.
    fn change(&mut self, id: SessionId, change: impl FnOnce(&mut Entry) -> bool) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else {
            return false;
        };
        let (holding, due) = (entry.holding(id), entry.due());
        if !change(entry) {
            return false;
        }
        self.accounts.discharge(&entry.owner, holding);
        self.accounts.charge(&entry.owner, entry.holding(id));
        if let Some(due) = due {
            self.expiries.remove(&(due, id));
        }
        if let Some(due) = entry.due() {
            self.expiries.insert((due, id));
        }
        true
    }

    /// Takes a session out and remembers that it is gone.
    fn forget(&mut self, id: SessionId) -> Option<Entry> {
        let entry = self.remove(id)?;
        self.gone.remember(id, Arc::clone(&entry.owner));
        Some(entry)
    }

    /// Takes a session out of everything.
    fn remove(&mut self, id: SessionId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.accounts.discharge(&entry.owner, entry.holding(id));
        if let Some(due) = entry.due() {
            self.expiries.remove(&(due, id));
        }
        if let Some(listing) = self.listings.get_mut(&entry.owner) {
            listing.in_order.remove(&(entry.place, id));
            if let Some(request) = &entry.request {
                listing.requests.remove(request);
            }
            if listing.in_order.is_empty() {
                self.listings.remove(&entry.owner);
            }
        }
        Some(entry)
    }

    fn take_place(&mut self) -> u64 {
        let place = self.next_place;
        self.next_place = place.saturating_add(1);
        place
    }
}

impl Admitted {
    /// Which of this owner's sessions had to make way: what it may be told. All others are foreign to it.
    pub fn evicted_of(&self, owner: &Owner) -> impl Iterator<Item = SessionId> {
        self.evicted
            .iter()
            .filter(move |evicted| evicted.owner == *owner)
            .map(|evicted| evicted.id)
    }
}

impl Count {
    const fn from_sessions((live, retained): (u64, u64)) -> Self {
        Self { live, retained }
    }
}

impl Entry {
    fn holding(&self, id: SessionId) -> Holding {
        let eviction = match &self.phase {
            Phase::Starting | Phase::Running => None,
            Phase::Ended(retained) => Some(EvictionOrder::new(id, retained)),
        };
        Holding {
            demand: self.demand,
            eviction,
        }
    }

    fn due(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Starting | Phase::Running => None,
            Phase::Ended(retained) => Some(retained.due()),
        }
    }
}
