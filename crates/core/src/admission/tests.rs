//! What is decided in single cases; random operations are compared with a model in [`model`].

mod model;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const RETENTION: Duration = Duration::from_secs(300);

fn id(number: u16) -> SessionId {
    let mut bytes = [0; 10];
    // The order of ids is not that of their making.
    bytes[..2].copy_from_slice(&number.wrapping_mul(40_503).to_be_bytes());
    SessionId::from_random(bytes)
}

fn owner(principal: &str, agent: &str) -> Owner {
    Owner::new(principal, agent, "scope")
}

fn at(seconds: u64) -> Moment {
    Moment::from_start(Duration::from_secs(seconds))
}

fn admission(max_sessions: u64, max_sessions_per_owner: u64) -> Admission {
    Admission::new(HostBudgets {
        max_sessions,
        max_sessions_per_owner,
        ..HostBudgets::default()
    })
    .unwrap()
}

/// Admits and starts a session without any demand.
fn run(admission: &mut Admission, now: Moment, owner: &Owner, number: u16) -> Admitted {
    let admitted = admission
        .admit(now, owner, id(number), Demand::default())
        .unwrap();
    assert!(admission.started(id(number)));
    admitted
}

/// Runs a session that ends at `now` and, if so, is seen to have ended.
fn run_to_end(admission: &mut Admission, now: Moment, owner: &Owner, number: u16, end: EndSeen) -> Admitted {
    let admitted = run(admission, now, owner, number);
    assert!(admission.ended(now, id(number), RETENTION));
    if end == EndSeen::Seen {
        assert!(admission.seen(now, id(number)));
    }
    admitted
}

fn evicted(admitted: &Admitted) -> Vec<SessionId> {
    admitted.evicted.iter().map(|evicted| evicted.id).collect()
}

#[test]
fn a_budget_is_refused_at_the_innermost_scope_that_is_short() {
    let budgets = HostBudgets {
        max_sessions: 3,
        max_sessions_per_principal: Some(2),
        max_sessions_per_owner: 1,
        ..HostBudgets::default()
    };
    let mut admission = Admission::new(budgets).unwrap();
    for (number, who) in [(0, owner("p", "a")), (1, owner("p", "b")), (2, owner("q", "a"))] {
        run(&mut admission, at(0), &who, number);
    }
    let table = [
        (owner("p", "a"), Scope::Owner, 1),
        (owner("p", "c"), Scope::Principal, 2),
        (owner("q", "b"), Scope::Host, 3),
        (owner("r", "a"), Scope::Host, 3),
    ];
    for (who, scope, configured) in table {
        let reached = LimitReached {
            limit: LimitName::MaxSessions,
            scope,
            configured,
            in_use: configured,
            requested: 1,
            retry_when: RetryWhen::SessionEnds,
        };
        let answer = admission.admit(at(0), &who, id(9), Demand::default());
        assert_eq!(answer, Err(AdmitError::LimitReached(reached)), "{who:?}");
        assert_eq!(admission.lookup(&who, id(9)), Lookup::Unknown);
    }
    assert_eq!(admission.count(), Count { live: 3, retained: 0 });
}

#[test]
fn a_request_that_can_never_fit_is_told_to_be_smaller() {
    let budgets = HostBudgets {
        max_log_bytes_total: Some(100),
        ..HostBudgets::default()
    };
    let mut admission = Admission::new(budgets).unwrap();
    let mut ask = |number, log_bytes| match admission.admit(
        at(0),
        &owner("p", "a"),
        id(number),
        Demand {
            log_bytes,
            capture_bytes: u64::MAX,
        },
    ) {
        Ok(_) => None,
        Err(AdmitError::LimitReached(reached)) => Some((reached.limit, reached.in_use, reached.retry_when)),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(ask(0, 60), None);
    assert_eq!(
        ask(1, 41),
        Some((LimitName::MaxLogBytes, 60, RetryWhen::SessionEnds))
    );
    assert_eq!(
        ask(2, u64::MAX),
        Some((LimitName::MaxLogBytes, 60, RetryWhen::RequestIsSmaller))
    );
    assert_eq!(ask(3, 40), None);
}

#[test]
fn a_warning_comes_with_four_fifths_of_a_budget() {
    let mut admission = admission(20, 5);
    let mut warned = Vec::new();
    for number in 0..5 {
        warned.push(run(&mut admission, at(0), &owner("p", "a"), number).warnings);
    }
    let warning = |in_use| LimitWarning {
        limit: LimitName::MaxSessions,
        scope: Scope::Owner,
        configured: 5,
        in_use,
    };
    assert_eq!(
        warned,
        [vec![], vec![], vec![], vec![warning(4)], vec![warning(5)]]
    );
}

#[test]
fn ended_sessions_make_way_seen_ones_first_then_the_oldest() {
    let mut admission = admission(4, 4);
    let me = owner("p", "a");
    run_to_end(&mut admission, at(1), &me, 1, EndSeen::Unseen);
    run_to_end(&mut admission, at(2), &me, 2, EndSeen::Seen);
    run_to_end(&mut admission, at(3), &me, 3, EndSeen::Seen);
    let mut order = Vec::new();
    for number in 4..8 {
        order.extend(run(&mut admission, at(4), &me, number).evicted);
    }
    let expected =
        [(2, EndSeen::Seen), (3, EndSeen::Seen), (1, EndSeen::Unseen)].map(|(number, end)| Evicted {
            id: id(number),
            owner: me.clone(),
            end,
        });
    assert_eq!(order, expected);
    assert_eq!(admission.count_of(&me), Count { live: 4, retained: 0 });
    assert!(admission.admit(at(4), &me, id(8), Demand::default()).is_err());
}

#[test]
fn ends_at_the_same_time_make_way_by_id() {
    let mut admission = admission(9, 9);
    let me = owner("p", "a");
    for number in 0..9 {
        run_to_end(&mut admission, at(1), &me, number, EndSeen::Seen);
    }
    let mut expected: Vec<_> = (0..9).map(id).collect();
    expected.sort();
    let order: Vec<_> = (9..18)
        .flat_map(|number| evicted(&run(&mut admission, at(1), &me, number)))
        .collect();
    assert_eq!(order, expected);
}

#[test]
fn an_owner_whose_own_places_are_short_evicts_nobody_elses() {
    let mut admission = admission(9, 2);
    let (me, other) = (owner("p", "a"), owner("p", "b"));
    run_to_end(&mut admission, at(1), &other, 1, EndSeen::Seen);
    run_to_end(&mut admission, at(2), &me, 2, EndSeen::Unseen);
    run(&mut admission, at(3), &me, 3);
    assert_eq!(evicted(&run(&mut admission, at(4), &me, 4)), [id(2)]);
    assert_eq!(admission.lookup(&other, id(1)), Lookup::Ended);
}

#[test]
fn an_answer_tells_an_owner_of_its_own_evictions_only() {
    let mut admission = admission(1, 1);
    let (me, other) = (owner("p", "a"), owner("p", "b"));
    run_to_end(&mut admission, at(1), &other, 1, EndSeen::Seen);
    let admitted = admission.admit(at(2), &me, id(2), Demand::default()).unwrap();
    assert_eq!(evicted(&admitted), [id(1)]);
    assert_eq!(admitted.evicted_of(&me).count(), 0);
    assert_eq!(admitted.evicted_of(&other).collect::<Vec<_>>(), [id(1)]);
}

#[test]
fn only_those_that_hold_what_is_short_make_way() {
    let budgets = HostBudgets {
        max_log_bytes_total: Some(100),
        ..HostBudgets::default()
    };
    let mut admission = Admission::new(budgets).unwrap();
    let me = owner("p", "a");
    for (number, log_bytes) in [(1, 0), (2, 60), (3, 40)] {
        let demand = Demand {
            log_bytes,
            capture_bytes: 7,
        };
        admission.admit(at(0), &me, id(number), demand).unwrap();
        assert!(admission.ended(at(number.into()), id(number), RETENTION));
    }
    let admitted = admission
        .admit(
            at(9),
            &me,
            id(4),
            Demand {
                log_bytes: 50,
                capture_bytes: 7,
            },
        )
        .unwrap();
    assert_eq!(evicted(&admitted), [id(2)]);
}

#[test]
fn what_a_session_does_not_hold_after_all_is_given_back() {
    let budgets = HostBudgets {
        max_log_bytes_total: Some(100),
        ..HostBudgets::default()
    };
    let mut admission = Admission::new(budgets).unwrap();
    let me = owner("p", "a");
    let held = |log_bytes| Demand {
        log_bytes,
        capture_bytes: 0,
    };
    admission.admit(at(0), &me, id(1), held(100)).unwrap();
    assert!(admission.ended(at(1), id(1), RETENTION));
    assert!(admission.settle(id(1), held(20)));
    assert!(!admission.settle(id(1), held(20)));
    assert!(
        !admission.settle(id(1), held(90)),
        "a reservation is never raised"
    );
    assert!(!admission.settle(id(2), held(0)));
    assert_eq!(
        evicted(&admission.admit(at(2), &me, id(2), held(80)).unwrap()),
        []
    );
    assert_eq!(
        evicted(&admission.admit(at(2), &me, id(3), held(20)).unwrap()),
        [id(1)]
    );
}

#[test]
fn a_refusal_evicts_and_prunes_nobody() {
    let budgets = HostBudgets {
        max_sessions_per_owner: 2,
        max_log_bytes_per_owner: Some(10),
        ..HostBudgets::default()
    };
    let mut admission = Admission::new(budgets).unwrap();
    let me = owner("p", "a");
    run_to_end(&mut admission, at(0), &me, 1, EndSeen::Seen);
    run(&mut admission, at(0), &me, 2);
    let answer = admission.admit(
        at(100_000),
        &me,
        id(3),
        Demand {
            log_bytes: 11,
            capture_bytes: 0,
        },
    );
    assert!(matches!(answer, Err(AdmitError::LimitReached(_))), "{answer:?}");
    assert_eq!(admission.lookup(&me, id(1)), Lookup::Ended);
}

#[test]
fn who_is_due_is_pruned_before_anybody_is_evicted() {
    let mut admission = admission(2, 2);
    let me = owner("p", "a");
    run(&mut admission, at(0), &me, 1);
    run_to_end(&mut admission, at(0), &me, 2, EndSeen::Unseen);
    let admitted = run(&mut admission, at(900), &me, 3);
    assert_eq!((admitted.pruned, admitted.evicted), (vec![id(2)], vec![]));
    assert_eq!(admission.lookup(&me, id(2)), Lookup::Gone);
}

#[test]
fn a_long_lived_session_outlasts_fifty_quick_ones_in_a_few_places() {
    let mut admission = admission(5, 5);
    let me = owner("p", "a");
    run(&mut admission, at(0), &me, 0);
    let mut gone = Vec::new();
    for number in 1..=50 {
        gone.extend(evicted(&run_to_end(
            &mut admission,
            at(number.into()),
            &me,
            number,
            EndSeen::Seen,
        )));
    }
    assert_eq!(gone, (1..=46).map(id).collect::<Vec<_>>());
    assert_eq!(
        admission.list(&me).collect::<Vec<_>>(),
        [0, 47, 48, 49, 50].map(id)
    );
    assert_eq!(admission.prune(at(1_000)), [47, 48, 49, 50].map(id));
    assert_eq!(admission.lookup(&me, id(0)), Lookup::Running);
    assert_eq!(admission.next_expiry(), None);
}

#[test]
fn pruning_waits_for_the_retention_and_for_the_owner() {
    let mut admission = admission(9, 9);
    let me = owner("p", "a");
    run_to_end(&mut admission, at(0), &me, 1, EndSeen::Seen);
    run_to_end(&mut admission, at(0), &me, 2, EndSeen::Unseen);
    assert_eq!(admission.next_expiry(), Some(at(300)));
    assert_eq!(admission.prune(at(300).saturating_add(SECOND)), [id(1)]);
    assert_eq!(admission.next_expiry(), Some(at(900)));
    assert!(admission.seen(at(400), id(2)));
    assert!(!admission.seen(at(450), id(2)), "only the first look counts");
    assert_eq!(admission.next_expiry(), Some(at(475)));
    assert_eq!(admission.prune(at(474)), []);
    assert_eq!(admission.prune(at(475)), [id(2)]);
}

#[test]
fn a_pruned_session_is_gone_to_its_owner_and_unknown_to_others() {
    let mut admission = admission(9, 9);
    let me = owner("p", "a");
    run_to_end(&mut admission, at(0), &me, 1, EndSeen::Unseen);
    let others = [
        owner("p", "b"),
        owner("p", "aa"),
        owner("q", "a"),
        Owner::new("p", "a", "other"),
    ];
    for expected in [Lookup::Ended, Lookup::Gone] {
        assert_eq!(admission.lookup(&me, id(1)), expected);
        for other in &others {
            assert_eq!(admission.lookup(other, id(1)), Lookup::Unknown, "{other:?}");
        }
        admission.prune(at(5_000));
    }
    assert_eq!(
        admission.admit(at(0), &me, id(1), Demand::default()),
        Err(AdmitError::TakenId { id: id(1) }),
        "an id is never used again"
    );
}

#[test]
fn a_failed_start_leaves_nothing_behind() {
    let mut admission = admission(1, 1);
    let me = owner("p", "a");
    let request = RequestId::try_from("r".to_owned()).unwrap();
    for number in 0..1_000 {
        admission
            .admit(
                at(0),
                &me,
                id(number),
                Demand {
                    log_bytes: 5,
                    capture_bytes: 5,
                },
            )
            .unwrap();
        assert_eq!(
            admission.start_request(&me, request.clone(), id(number)),
            RequestStart::New
        );
        assert_eq!(admission.list(&me).count(), 0);
        assert_eq!(admission.owned_by(&me).collect::<Vec<_>>(), [id(number)]);
        assert!(admission.release(id(number)));
        assert_eq!(admission.lookup(&me, id(number)), Lookup::Unknown);
    }
    assert_eq!(admission.count(), Count::default());
    assert_eq!(admission.request(&me, &request), None);
    assert!(admission.entries.is_empty() && admission.listings.is_empty() && admission.expiries.is_empty());
    run(&mut admission, at(0), &me, 0);
    assert!(!admission.release(id(0)), "what runs cannot be released");
}

#[test]
fn the_same_request_means_the_same_session_while_there_is_one() {
    let mut admission = admission(9, 9);
    let (me, other) = (owner("p", "a"), owner("p", "b"));
    let request = |name: &str| RequestId::try_from(name.to_owned()).unwrap();
    run(&mut admission, at(0), &me, 1);
    run(&mut admission, at(0), &me, 2);
    run(&mut admission, at(0), &other, 3);
    let table = [
        (&me, "r", 9, RequestStart::Unlisted),
        (&me, "r", 3, RequestStart::Unlisted),
        (&me, "r", 1, RequestStart::New),
        (&me, "r", 1, RequestStart::Same(id(1))),
        (&me, "r", 2, RequestStart::Same(id(1))),
        (&me, "s", 1, RequestStart::Unlisted),
        (&other, "r", 3, RequestStart::New),
    ];
    for (who, name, number, expected) in table {
        assert_eq!(
            admission.start_request(who, request(name), id(number)),
            expected,
            "{name} {number}"
        );
    }
    assert!(admission.ended(at(0), id(1), RETENTION));
    assert_eq!(admission.request(&me, &request("r")), Some(id(1)));
    assert_eq!(admission.request(&me, &request("s")), None);
    admission.prune(at(5_000));
    assert_eq!(admission.request(&me, &request("r")), None);
    assert_eq!(admission.request(&other, &request("r")), Some(id(3)));
}

#[test]
fn the_list_is_in_the_order_of_the_starts() {
    let mut admission = admission(9, 9);
    let me = owner("p", "a");
    for number in 0..4 {
        admission
            .admit(at(0), &me, id(number), Demand::default())
            .unwrap();
    }
    for number in [2, 0, 3] {
        assert!(admission.started(id(number)));
        assert!(!admission.started(id(number)), "it starts once");
    }
    assert_eq!(admission.list(&me).collect::<Vec<_>>(), [2, 0, 3].map(id));
    assert_eq!(admission.owned_by(&me).collect::<Vec<_>>(), [1, 2, 0, 3].map(id));
    assert_eq!(admission.list(&owner("p", "aa")).count(), 0);
}

#[test]
fn late_and_foreign_messages_change_nothing() {
    let mut admission = admission(9, 9);
    let me = owner("p", "a");
    run_to_end(&mut admission, at(1), &me, 1, EndSeen::Seen);
    run(&mut admission, at(1), &me, 2);
    assert!(!admission.ended(at(9), id(1), RETENTION * 9), "it ended already");
    assert!(!admission.started(id(1)));
    assert!(!admission.release(id(1)));
    assert!(!admission.seen(at(2), id(2)), "it did not end");
    for number in [7, 8] {
        assert!(
            !admission.started(id(number))
                && !admission.release(id(number))
                && !admission.seen(at(1), id(number))
        );
        assert!(!admission.ended(at(1), id(number), RETENTION));
    }
    assert_eq!(admission.next_expiry(), Some(at(301)));
    assert_eq!(admission.count(), Count { live: 1, retained: 1 });
}

#[test]
fn a_clock_that_goes_back_keeps_sessions_longer_and_no_more() {
    let mut admission = admission(9, 9);
    let me = owner("p", "a");
    run_to_end(&mut admission, at(1_000), &me, 1, EndSeen::Unseen);
    assert!(admission.seen(at(5), id(1)));
    assert_eq!(admission.prune(at(0)), []);
    run_to_end(&mut admission, at(10), &me, 2, EndSeen::Seen);
    assert_eq!(admission.prune(at(310)), [id(2)]);
    assert_eq!(admission.prune(at(1_300)), [id(1)]);
}

#[test]
fn a_thousand_starts_at_once_are_counted_exactly() {
    let mut admission = admission(64, 16);
    let owners: Vec<_> = (0..7).map(|number| owner("p", &number.to_string())).collect();
    let mut got_in = Vec::new();
    for (number, who) in (0..1_000).zip(owners.iter().cycle()) {
        // None of them gets further than its reservation before the last one has asked.
        match admission.admit(at(0), who, id(number), Demand::default()) {
            Ok(admitted) => {
                assert_eq!((admitted.pruned, admitted.evicted), (vec![], vec![]));
                got_in.push(number);
            }
            Err(error) => assert!(matches!(error, AdmitError::LimitReached(_)), "{error}"),
        }
    }
    assert_eq!(got_in, (0..64).collect::<Vec<_>>());
    for (place, number) in got_in.iter().enumerate() {
        assert!(if place % 2 == 0 {
            admission.release(id(*number))
        } else {
            admission.started(id(*number))
        });
    }
    assert_eq!(
        admission.count(),
        Count {
            live: 32,
            retained: 0
        }
    );
    let again = (1_000..2_000).zip(owners.iter().cycle());
    let admitted = again
        .filter(|(number, who)| {
            admission
                .admit(at(0), who, id(*number), Demand::default())
                .is_ok()
        })
        .count();
    assert_eq!(admitted, 32);
    assert_eq!(
        admission.count_of_principal("p"),
        Count {
            live: 64,
            retained: 0
        }
    );
    assert!(owners.iter().all(|who| admission.count_of(who).live <= 16));
    assert_eq!(admission.live().count(), 64);
}

#[test]
fn the_ceiling_of_sessions_can_be_filled_ended_and_pruned() {
    let most = u16::try_from(HostBudgets::MAX_SESSIONS_CEILING).unwrap();
    let mut admission = admission(most.into(), most.into());
    let me = owner("p", "a");
    for number in 0..most {
        run_to_end(&mut admission, at(1), &me, number, EndSeen::Seen);
    }
    assert_eq!(
        admission.count(),
        Count {
            live: 0,
            retained: most.into()
        }
    );
    for number in most..2 * most {
        assert_eq!(evicted(&run(&mut admission, at(2), &me, number)).len(), 1);
    }
    assert_eq!(
        admission.count(),
        Count {
            live: most.into(),
            retained: 0
        }
    );
    assert!((0..most).all(|number| admission.lookup(&me, id(number)) == Lookup::Gone));
}
