//! The record of decisions and receipts, bounded in number and memory: the state of the policy actor.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::size_of,
    sync::Arc,
};

use procession_core::{Moment, Owner, SessionId, Value};

use crate::{
    decision::{Decision, FieldDecision},
    receipt::{Observed, Receipt},
};

#[cfg(test)]
mod tests;

/// How much a [`PolicyBook`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BookBounds {
    /// The most records, inclusive; each is one session's.
    pub max_records: usize,
    /// The most memory, in bytes, inclusive, as far as it is counted: fields and texts.
    pub max_bytes: usize,
}

impl Default for BookBounds {
    /// 4,096 records and 32 MiB.
    fn default() -> Self {
        Self {
            max_records: 4_096,
            max_bytes: 32 << 20,
        }
    }
}

/// What is known of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRecord {
    owner: Owner,
    decision: Arc<Decision>,
    decided_at: Moment,
    end: Option<(Receipt, Moment)>,
}

impl PolicyRecord {
    /// What was decided.
    #[must_use]
    pub const fn decision(&self) -> &Arc<Decision> {
        &self.decision
    }

    /// When it was decided.
    #[must_use]
    pub const fn decided_at(&self) -> Moment {
        self.decided_at
    }

    /// What was observed; none before the session's end.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        self.end.as_ref().map(|(receipt, _)| receipt)
    }

    /// When the receipt came; none before the session's end.
    #[must_use]
    pub fn ended_at(&self) -> Option<Moment> {
        self.end.as_ref().map(|(_, at)| *at)
    }

    fn bytes(&self) -> usize {
        let owner = self.owner.principal.len() + self.owner.agent.len() + self.owner.scope.len();
        let fields = self
            .decision
            .fields()
            .iter()
            .map(field_bytes)
            .fold(0, usize::saturating_add);
        let observed = self.receipt().map_or(0, |receipt| {
            receipt
                .observed
                .iter()
                .map(|observed| size_of::<Observed>() + text_bytes(&observed.value))
                .sum()
        });
        size_of::<Self>()
            .saturating_add(owner)
            .saturating_add(fields)
            .saturating_add(observed)
    }
}

/// There is no decision about the session: it was dropped for want of room, or never made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no decision on record about `{session}`")]
pub struct NoDecision {
    /// The session.
    pub session: SessionId,
}

/// Decisions and receipts by session and by owner; the oldest go when there are too many, and are counted.
#[derive(Debug, Clone, Default)]
pub struct PolicyBook {
    bounds: BookBounds,
    /// By the order in which they came.
    records: BTreeMap<u64, PolicyRecord>,
    by_session: BTreeMap<SessionId, u64>,
    by_owner: BTreeMap<Owner, BTreeSet<u64>>,
    next: u64,
    used_bytes: usize,
    lost_records: u64,
}

impl PolicyBook {
    /// An empty book.
    #[must_use]
    pub fn new(bounds: BookBounds) -> Self {
        Self {
            bounds,
            ..Self::default()
        }
    }

    /// Records a decision, a refusal too; a second one about the same session takes the place of the first.
    ///
    /// A decision that is larger than the whole book is counted as lost.
    pub fn record(&mut self, owner: &Owner, decision: Arc<Decision>, now: Moment) {
        if let Some(place) = self.by_session.get(&decision.session()).copied() {
            self.remove(place);
        }
        let place = self.next;
        self.next = self.next.saturating_add(1);
        self.by_session.insert(decision.session(), place);
        self.by_owner.entry(owner.clone()).or_default().insert(place);
        self.insert(
            place,
            PolicyRecord {
                owner: owner.clone(),
                decision,
                decided_at: now,
                end: None,
            },
        );
        self.drop_oldest();
    }

    /// Records what was observed of a session by its end; a second receipt takes the place of the first.
    ///
    /// # Errors
    /// [`NoDecision`] when there is nothing that it could stand beside.
    pub fn record_end(
        &mut self,
        session: SessionId,
        receipt: Receipt,
        now: Moment,
    ) -> Result<(), NoDecision> {
        let place = self
            .by_session
            .get(&session)
            .copied()
            .ok_or(NoDecision { session })?;
        let mut record = self.records.remove(&place).ok_or(NoDecision { session })?;
        self.used_bytes = self.used_bytes.saturating_sub(record.bytes());
        record.end = Some((receipt, now));
        self.insert(place, record);
        self.drop_oldest();
        Ok(())
    }

    /// What is known of a session; none for an unknown one and for another owner's alike.
    #[must_use]
    pub fn get(&self, owner: &Owner, session: SessionId) -> Option<&PolicyRecord> {
        let record = self.records.get(self.by_session.get(&session)?)?;
        (record.owner == *owner).then_some(record)
    }

    /// What is known of an owner's sessions, oldest decision first.
    pub fn of_owner(&self, owner: &Owner) -> impl Iterator<Item = &PolicyRecord> {
        self.by_owner
            .get(owner)
            .into_iter()
            .flatten()
            .filter_map(|place| self.records.get(place))
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How much memory they take, in bytes, as far as it is counted.
    #[must_use]
    pub const fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// How many records were dropped for want of room, since the beginning.
    #[must_use]
    pub const fn lost_records(&self) -> u64 {
        self.lost_records
    }

    fn insert(&mut self, place: u64, record: PolicyRecord) {
        self.used_bytes = self.used_bytes.saturating_add(record.bytes());
        self.records.insert(place, record);
    }

    fn drop_oldest(&mut self) {
        while self.records.len() > self.bounds.max_records || self.used_bytes > self.bounds.max_bytes {
            let Some(oldest) = self.records.keys().next().copied() else {
                return;
            };
            self.remove(oldest);
            self.lost_records = self.lost_records.saturating_add(1);
        }
    }

    fn remove(&mut self, place: u64) {
        let Some(record) = self.records.remove(&place) else {
            return;
        };
        self.used_bytes = self.used_bytes.saturating_sub(record.bytes());
        self.by_session.remove(&record.decision.session());
        if let Some(places) = self.by_owner.get_mut(&record.owner) {
            places.remove(&place);
            if places.is_empty() {
                self.by_owner.remove(&record.owner);
            }
        }
    }
}

fn field_bytes(decision: &FieldDecision) -> usize {
    let values = [&decision.requested, &decision.ceiling, &decision.effective];
    let texts = values
        .into_iter()
        .flatten()
        .map(text_bytes)
        .fold(0, usize::saturating_add);
    let note = decision.note.as_ref().map_or(0, String::len);
    size_of::<FieldDecision>()
        .saturating_add(texts)
        .saturating_add(note)
}

fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::List(entries) => entries
            .iter()
            .map(|entry| size_of::<String>() + entry.len())
            .sum(),
        Value::Number(_) | Value::Integer(_) | Value::Flag(_) => 0,
    }
}
