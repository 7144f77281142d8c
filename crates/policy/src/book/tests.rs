use proptest::prelude::*;

use super::*;
use crate::{
    HostPolicy, decide,
    samples::{capabilities, request, session},
};

fn decision(number: u8) -> Arc<Decision> {
    let request = crate::PolicyRequest {
        session: session(number),
        ..request([])
    };
    Arc::new(decide(&request, &HostPolicy::default(), &capabilities()))
}

fn at(millis: u64) -> Moment {
    Moment::from_millis(millis)
}

fn owner(scope: u8) -> Owner {
    Owner::new("p", "a", scope.to_string())
}

fn book(max_records: usize) -> PolicyBook {
    PolicyBook::new(BookBounds {
        max_records,
        ..BookBounds::default()
    })
}

#[test]
fn a_record_is_found_by_session_and_by_owner() {
    let mut book = book(8);
    book.record(&owner(1), decision(1), at(5));
    book.record(&owner(1), decision(2), at(6));
    let receipt = Receipt {
        output_bytes: 7,
        ..Receipt::default()
    };
    assert_eq!(book.record_end(session(1), receipt.clone(), at(9)), Ok(()));
    let found = book.get(&owner(1), session(1)).unwrap();
    assert_eq!(
        (found.decided_at(), found.ended_at(), found.receipt()),
        (at(5), Some(at(9)), Some(&receipt))
    );
    let sessions: Vec<_> = book
        .of_owner(&owner(1))
        .map(|record| record.decision().session())
        .collect();
    assert_eq!(sessions, [session(1), session(2)]);
}

#[test]
fn an_owner_that_differs_in_its_scope_finds_nothing() {
    let mut book = book(8);
    book.record(&owner(1), decision(1), at(0));
    assert_eq!(book.get(&owner(2), session(1)), None);
    assert_eq!(book.get(&owner(1), session(2)), None);
    assert_eq!(book.of_owner(&owner(2)).count(), 0);
}

#[test]
fn a_receipt_without_a_decision_is_told() {
    let found = book(8).record_end(session(1), Receipt::default(), at(0));
    assert_eq!(found, Err(NoDecision { session: session(1) }));
}

#[test]
fn a_book_that_is_full_by_bytes_drops_the_oldest() {
    let mut one = book(8);
    one.record(&owner(1), decision(1), at(0));
    let mut book = PolicyBook::new(BookBounds {
        max_records: 8,
        max_bytes: one.used_bytes() * 2 + one.used_bytes() / 2,
    });
    for number in 1..=3 {
        book.record(&owner(1), decision(number), at(0));
    }
    assert_eq!((book.len(), book.lost_records()), (2, 1));
    assert_eq!(book.get(&owner(1), session(1)), None);
}

#[test]
fn what_is_larger_than_the_book_is_lost_and_counted() {
    let mut book = PolicyBook::new(BookBounds {
        max_records: 8,
        max_bytes: 1,
    });
    book.record(&owner(1), decision(1), at(0));
    assert_eq!((book.len(), book.used_bytes(), book.lost_records()), (0, 0, 1));
}

#[derive(Debug, Clone)]
enum Step {
    Decide { scope: u8, session: u8 },
    End { session: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3_u8, 0..8_u8).prop_map(|(scope, session)| Step::Decide { scope, session }),
        1 => (0..8_u8).prop_map(|session| Step::End { session }),
    ]
}

/// Owner, session and whether it has ended, oldest first.
#[derive(Debug, Default)]
struct Model {
    records: Vec<(u8, u8, bool)>,
    lost: u64,
}

impl Model {
    fn apply(&mut self, step: &Step, max_records: usize) -> bool {
        match step {
            Step::Decide { scope, session } => {
                self.records.retain(|(_, known, _)| known != session);
                self.records.push((*scope, *session, false));
                if self.records.len() > max_records {
                    self.records.remove(0);
                    self.lost += 1;
                }
                true
            }
            Step::End { session } => match self.records.iter_mut().find(|(_, known, _)| known == session) {
                Some((_, _, ended)) => {
                    *ended = true;
                    true
                }
                None => false,
            },
        }
    }

    fn of_owner(&self, scope: u8) -> Vec<(SessionId, bool)> {
        let own = self.records.iter().filter(|(owner, ..)| *owner == scope);
        own.map(|(_, number, ended)| (session(*number), *ended)).collect()
    }
}

proptest! {
    #[test]
    fn a_book_is_its_model(max_records in 0..6_usize, steps in prop::collection::vec(step(), 0..40)) {
        let decisions: Vec<_> = (0..8).map(decision).collect();
        let (mut book, mut model) = (book(max_records), Model::default());
        for step in steps {
            let done = match &step {
                Step::Decide { scope, session } => {
                    book.record(&owner(*scope), Arc::clone(&decisions[usize::from(*session)]), at(0));
                    true
                }
                Step::End { session: number } => {
                    book.record_end(session(*number), Receipt::default(), at(1)).is_ok()
                }
            };
            prop_assert_eq!(done, model.apply(&step, max_records));
            prop_assert_eq!(book.lost_records(), model.lost);
            prop_assert_eq!(book.len(), model.records.len());
            let bytes: usize = book.records.values().map(PolicyRecord::bytes).sum();
            prop_assert_eq!(book.used_bytes(), bytes);
            for scope in 0..3 {
                let found: Vec<_> = book
                    .of_owner(&owner(scope))
                    .map(|record| (record.decision().session(), record.receipt().is_some()))
                    .collect();
                prop_assert_eq!(found, model.of_owner(scope));
            }
        }
    }
}
