//! How long an ended session is kept, and what is remembered of it afterwards.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    id::{Owner, SessionId},
    time::Moment,
};

/// How many sessions that are gone are remembered.
pub const GONE_REMEMBERED: usize = 4096;

/// An end that nobody saw is kept for this many retentions.
const UNSEEN_RETENTIONS: u32 = 3;

/// And for at least this long, however short the retention is: nobody could see it otherwise.
const UNSEEN_AT_LEAST: Duration = Duration::from_secs(5);

/// Who saw the end late has this part of the retention to read the rest.
const SHARE_AFTER_SEEN: u32 = 4;

/// Whether the owner knows that a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndSeen {
    /// It was told.
    Seen,
    /// It was not told yet.
    Unseen,
}

/// An ended session that can still be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retained {
    pub(super) ended: Moment,
    pub(super) retention: Duration,
    /// When the end was seen for the first time.
    pub(super) seen: Option<Moment>,
}

impl Retained {
    /// From when on it may be pruned, inclusive.
    pub(super) fn due(&self) -> Moment {
        let bound = self.ended.saturating_add(
            self.retention
                .saturating_mul(UNSEEN_RETENTIONS)
                .max(UNSEEN_AT_LEAST),
        );
        let Some(seen) = self.seen else { return bound };
        let read = seen.saturating_add(self.retention / SHARE_AFTER_SEEN);
        self.ended.saturating_add(self.retention).max(read.min(bound))
    }

    pub(super) fn end_seen(&self) -> EndSeen {
        if self.seen.is_some() {
            EndSeen::Seen
        } else {
            EndSeen::Unseen
        }
    }
}

/// The last sessions that were pruned or evicted, so that their owners can be told.
///
/// Owners are kept whole, shared by all their sessions: equal or not, without a hash that could be met by chance.
#[derive(Debug, Default)]
pub(super) struct Gone {
    owners: BTreeMap<SessionId, Arc<Owner>>,
    oldest_first: VecDeque<SessionId>,
}

impl Gone {
    pub(super) fn remember(&mut self, id: SessionId, owner: Arc<Owner>) {
        if self.owners.insert(id, owner).is_none() {
            self.oldest_first.push_back(id);
        }
        if self.oldest_first.len() > GONE_REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.owners.remove(&oldest);
        }
    }

    pub(super) fn owner_of(&self, id: SessionId) -> Option<&Owner> {
        self.owners.get(&id).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retention_ends_when_it_is_over_and_the_end_was_seen() {
        // End, retention, first seen, due; all in milliseconds.
        let table = [
            (1_000, 300_000, Some(1_000), 301_000),
            (1_000, 300_000, Some(200_000), 301_000),
            (1_000, 300_000, Some(300_000), 375_000),
            (1_000, 300_000, Some(400_000), 475_000),
            (1_000, 300_000, Some(899_000), 901_000),
            (1_000, 300_000, None, 901_000),
            (0, 2_000, None, 6_000),
            (0, 1_500, None, 5_000),
            (0, 0, None, 5_000),
            (0, 0, Some(0), 0),
            (0, 0, Some(3_000), 3_000),
            // The clock went back between end and look.
            (9_000, 1_000, Some(10), 10_000),
        ];
        for (ended, retention, seen, due) in table {
            let retained = Retained {
                ended: Moment::from_millis(ended),
                retention: Duration::from_millis(retention),
                seen: seen.map(Moment::from_millis),
            };
            assert_eq!(retained.due(), Moment::from_millis(due), "{retained:?}");
        }
    }

    #[test]
    fn an_endless_retention_reaches_the_far_future() {
        let retained = Retained {
            ended: Moment::from_millis(1),
            retention: Duration::MAX,
            seen: None,
        };
        assert_eq!(retained.due(), Moment::from_start(Duration::MAX));
    }

    #[test]
    fn what_is_remembered_of_the_gone_is_bounded() {
        let id = |number: usize| {
            let mut bytes = [0; 10];
            bytes[..8].copy_from_slice(&u64::try_from(number).unwrap().to_be_bytes());
            SessionId::from_random(bytes)
        };
        let owner = Arc::new(Owner::new("p", "a", "s"));
        let mut gone = Gone::default();
        for number in 0..GONE_REMEMBERED + 10 {
            gone.remember(id(number), Arc::clone(&owner));
            gone.remember(id(number), Arc::clone(&owner));
        }
        assert_eq!(
            (gone.owners.len(), gone.oldest_first.len()),
            (GONE_REMEMBERED, GONE_REMEMBERED)
        );
        assert_eq!(gone.owner_of(id(9)), None);
        assert_eq!(gone.owner_of(id(10)), Some(owner.as_ref()));
    }
}
