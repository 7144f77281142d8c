//! What all logs of a system may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of bytes on disk that many logs share, counted exactly.
///
/// Every log that was given the budget reserves each byte before it writes it and gives it back when the byte is
/// dropped or the log is removed. At the limit the asking log stops logging; others go on once there is room again.
/// Only end records, a few hundred bytes and the application's own, are written and counted past the limit.
#[derive(Debug)]
pub struct LogBudget {
    max_bytes: u64,
    used_bytes: AtomicU64,
}

impl LogBudget {
    /// A budget of `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            max_bytes,
            used_bytes: AtomicU64::new(0),
        })
    }

    /// The bytes that may be used, inclusive.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// The bytes in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Acquire)
    }

    /// Takes `bytes` out of the budget, for logs that lie on disk already; `None` if they do not fit.
    #[must_use]
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<BudgetShare> {
        let mut share = BudgetShare {
            budget: self.clone(),
            bytes: 0,
        };
        share.try_resize(bytes).then_some(share)
    }
}

/// A part of a budget; given back when dropped.
#[derive(Debug)]
pub struct BudgetShare {
    budget: Arc<LogBudget>,
    bytes: u64,
}

impl BudgetShare {
    /// The bytes of this part.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes this part `bytes` large; says whether that was possible. Getting smaller always is.
    pub(crate) fn try_resize(&mut self, bytes: u64) -> bool {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            let max_bytes = self.budget.max_bytes;
            let grown = self
                .budget
                .used_bytes
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                    used.checked_add(more)
                        .filter(|used| more == 0 || *used <= max_bytes)
                });
            if grown.is_err() {
                return false;
            }
        } else {
            self.budget
                .used_bytes
                .fetch_sub(self.bytes - bytes, Ordering::AcqRel);
        }
        self.bytes = bytes;
        true
    }

    /// Makes this part `bytes` large, past the limit if need be.
    pub(crate) fn resize(&mut self, bytes: u64) {
        if !self.try_resize(bytes) {
            self.budget
                .used_bytes
                .fetch_add(bytes.saturating_sub(self.bytes), Ordering::AcqRel);
            self.bytes = bytes;
        }
    }

    /// The budget that this is a part of.
    pub(crate) fn budget(&self) -> &LogBudget {
        &self.budget
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.used_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_given_back_when_dropped() {
        let budget = LogBudget::new(10);
        let mut share = budget.reserve(6).unwrap();
        assert!(budget.reserve(5).is_none());
        assert!(share.try_resize(10));
        assert!(!share.try_resize(11));
        assert_eq!((share.bytes(), budget.used_bytes()), (10, 10));
        assert!(share.try_resize(3));
        assert_eq!(budget.used_bytes(), 3);
        drop(share);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn shares_taken_at_once_never_pass_the_limit() {
        let budget = LogBudget::new(1000);
        let shares: Vec<_> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..1000).filter_map(|_| budget.reserve(1)).collect::<Vec<_>>()))
                .collect();
            takers
                .into_iter()
                .flat_map(|taker| taker.join().unwrap())
                .collect()
        });
        assert_eq!((shares.len(), budget.used_bytes()), (1000, 1000));
        drop(shares);
        assert_eq!(budget.used_bytes(), 0);
    }
}
