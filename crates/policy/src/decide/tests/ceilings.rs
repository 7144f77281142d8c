//! What a ceiling does, and whose.

use super::*;

#[test]
fn an_excess_does_what_the_host_says() {
    let ask = request([(Field::WallTime, number(99_999_999_999))]);
    let check = |settings: HostPolicySettings, effective: Option<u64>, status: Status, set_by: SetBy| {
        let found = decided(&ask, &host(settings), &capabilities(), Field::WallTime);
        let expected = (
            Some(number(99_999_999_999)),
            effective.map(number),
            status,
            set_by,
        );
        assert_eq!(told(&found), expected);
        assert_eq!(found.ceiling, Some(number(86_400_000)));
    };
    let rule = |rule| settings().on_excess(Field::WallTime, rule);
    check(settings(), Some(86_400_000), Status::Clamped, SetBy::Host);
    check(
        rule(OnExcess::Clamp),
        Some(86_400_000),
        Status::Clamped,
        SetBy::Host,
    );
    check(rule(OnExcess::Refuse), None, Status::Refused, SetBy::Host);
    check(
        rule(OnExcess::Advise),
        Some(99_999_999_999),
        Status::Advisory,
        SetBy::Caller,
    );
}

#[test]
fn every_u64_is_clamped_and_kept_on_record() {
    for value in [1_u64 << 31, (1 << 32) + 5, 1 << 53, u64::MAX] {
        for field in [Field::WallTime, Field::IdleTime] {
            let found = decided(
                &request([(field, number(value))]),
                &HostPolicy::default(),
                &capabilities(),
                field,
            );
            assert_eq!(found.requested, Some(number(value)), "{field}");
            assert_eq!(found.effective, Some(number(86_400_000)), "{field}");
        }
    }
}

#[test]
fn the_tightest_ceiling_wins_and_is_named() {
    let check =
        |host_most: u64, principal: Option<u64>, owner: Option<u64>, effective: u64, set_by: SetBy| {
            let nested = |most: Option<u64>| {
                Ceilings::new(
                    most.map(|most| (Field::OpenFiles, number(most)))
                        .into_iter()
                        .collect(),
                )
                .unwrap()
            };
            let ask = PolicyRequest {
                principal_ceilings: nested(principal),
                owner_ceilings: nested(owner),
                ..request([(Field::OpenFiles, number(1_000_000))])
            };
            let host = host(settings().ceiling(Field::OpenFiles, host_most));
            let found = decided(&ask, &host, &capabilities(), Field::OpenFiles);
            assert_eq!(
                told(&found),
                (
                    Some(number(1_000_000)),
                    Some(number(effective)),
                    Status::Clamped,
                    set_by
                )
            );
            assert_eq!(found.ceiling, Some(number(effective)));
        };
    check(500, None, None, 500, SetBy::Host);
    check(500, Some(600), Some(700), 500, SetBy::Host);
    check(500, Some(400), Some(700), 400, SetBy::Principal);
    check(500, Some(400), Some(300), 300, SetBy::Owner);
    check(500, Some(400), Some(400), 400, SetBy::Principal);
    // The hard limit of the machine.
    check(20_000, None, Some(10_000), 9_999, SetBy::Platform);
}

#[test]
fn what_the_machine_cannot_give_is_not_given_on_advice() {
    let host = host(
        settings()
            .ceiling(Field::OpenFiles, 500_u64)
            .on_excess(Field::OpenFiles, OnExcess::Advise),
    );
    let found = decided(
        &request([(Field::OpenFiles, number(1_000_000))]),
        &host,
        &capabilities(),
        Field::OpenFiles,
    );
    let expected = (
        Some(number(1_000_000)),
        Some(number(9_999)),
        Status::Clamped,
        SetBy::Platform,
    );
    assert_eq!(told(&found), expected);
    let found = decided(
        &request([(Field::OpenFiles, number(600))]),
        &host,
        &capabilities(),
        Field::OpenFiles,
    );
    assert_eq!(
        told(&found),
        (
            Some(number(600)),
            Some(number(600)),
            Status::Advisory,
            SetBy::Caller
        )
    );
}

#[test]
fn a_permission_that_the_host_withholds_is_refused() {
    let check = |field: Field, value: Value, ceiling: Value| {
        let strict = host(settings().ceiling(field, ceiling.clone()));
        let found = decided(
            &request([(field, value.clone())]),
            &strict,
            &capabilities(),
            field,
        );
        assert_eq!(
            told(&found),
            (Some(value.clone()), None, Status::Refused, SetBy::Host),
            "{field}"
        );
        assert_eq!(
            (found.refusal, found.ceiling),
            (Some(RefusalReason::AboveCeiling), Some(ceiling.clone()))
        );
        let unasked = decided(&request([]), &strict, &capabilities(), field);
        assert_eq!(
            (unasked.status, unasked.effective),
            (Status::Defaulted, field.spec().default.value()),
            "{field}"
        );
    };
    check(Field::Stdin, "piped".into(), "null".into());
    check(Field::Tty, true.into(), false.into());
    check(Field::EnvKeys, list(&["A"]), number(0));
    check(Field::EnvLiteral, list(&["A", "B"]), number(1));
    check(Field::EnvLiteral, list(&["A", "B"]), list(&["A"]));
}

#[test]
fn a_word_beyond_the_ceiling_becomes_the_ceiling() {
    let strict = host(settings().ceiling(Field::Leftovers, "sweep"));
    let found = decided(
        &request([(Field::Leftovers, "keep".into())]),
        &strict,
        &capabilities(),
        Field::Leftovers,
    );
    assert_eq!(
        told(&found),
        (
            Some("keep".into()),
            Some("sweep".into()),
            Status::Clamped,
            SetBy::Host
        )
    );
}

#[test]
fn a_ceiling_that_was_set_holds_for_who_asks_for_nothing() {
    let check = |host: &HostPolicy,
                 owner: Ceilings,
                 field: Field,
                 effective: Option<Value>,
                 status: Status,
                 set_by: SetBy| {
        let ask = PolicyRequest {
            owner_ceilings: owner,
            ..request([])
        };
        let found = decided(&ask, host, &capabilities(), field);
        assert_eq!(told(&found), (None, effective, status, set_by), "{field}");
    };
    let own = |field: Field, value: Value| Ceilings::new([(field, value)].into()).unwrap();
    let table = HostPolicy::default();
    let none = Ceilings::default;
    // The table's own ceiling bounds requests only.
    check(
        &table,
        none(),
        Field::IdleTime,
        None,
        Status::Defaulted,
        SetBy::Host,
    );
    let strict = |field: Field, value: u64| host(settings().ceiling(field, value));
    check(
        &strict(Field::IdleTime, 5),
        none(),
        Field::IdleTime,
        Some(number(5)),
        Status::Defaulted,
        SetBy::Host,
    );
    check(
        &strict(Field::CpuTime, 5_000),
        none(),
        Field::CpuTime,
        Some(number(5_000)),
        Status::Defaulted,
        SetBy::Host,
    );
    check(
        &strict(Field::OpenFiles, 64),
        none(),
        Field::OpenFiles,
        Some(number(64)),
        Status::Defaulted,
        SetBy::Host,
    );
    check(
        &strict(Field::WallTime, 5),
        none(),
        Field::WallTime,
        Some(number(5)),
        Status::Defaulted,
        SetBy::Host,
    );
    check(
        &strict(Field::EnvKeys, 0),
        none(),
        Field::EnvKeys,
        Some(list(&[])),
        Status::Defaulted,
        SetBy::Host,
    );
    // An owner's takes from what others get, and is told.
    let owns = own(Field::WallTime, number(5));
    check(
        &table,
        owns,
        Field::WallTime,
        Some(number(5)),
        Status::Clamped,
        SetBy::Owner,
    );
    let owns = own(Field::IdleTime, number(5));
    check(
        &table,
        owns,
        Field::IdleTime,
        Some(number(5)),
        Status::Clamped,
        SetBy::Owner,
    );
}

#[test]
fn numbers_are_compared_by_what_they_count() {
    let check = |field: Field, value: Value, effective: Value, status: Status| {
        let bounded = host(settings().ceiling(Field::Nice, Value::Number(3)));
        let found = decided(
            &request([(field, value.clone())]),
            &bounded,
            &capabilities(),
            field,
        );
        assert_eq!(
            (found.requested, found.effective, found.status),
            (Some(value), Some(effective), status)
        );
    };
    check(
        Field::Nice,
        Value::Integer(3),
        Value::Integer(3),
        Status::AsRequested,
    );
    check(Field::Nice, number(4), number(4), Status::AsRequested);
    check(Field::Nice, Value::Integer(-4), number(3), Status::Clamped);
    check(
        Field::WallTime,
        Value::Integer(5),
        Value::Integer(5),
        Status::AsRequested,
    );
}

#[test]
fn the_root_of_the_host_is_default_and_ceiling() {
    let rooted = host(settings().cwd_root("/srv"));
    let check = |ask: &PolicyRequest, status: Status, set_by: SetBy| {
        let found = decided(ask, &rooted, &capabilities(), Field::CwdRoot);
        assert_eq!(
            (found.effective, found.status, found.set_by),
            (Some("/srv".into()), status, set_by)
        );
        assert_eq!(found.level, Level::Advisory);
    };
    check(&request([]), Status::Defaulted, SetBy::Host);
    check(
        &request([(Field::CwdRoot, "/srv".into())]),
        Status::Advisory,
        SetBy::Caller,
    );
    check(
        &request([(Field::CwdRoot, "/".into())]),
        Status::Clamped,
        SetBy::Host,
    );
    check(
        &request([(Field::CwdRoot, "/srv/link".into())]),
        Status::Clamped,
        SetBy::Host,
    );
}
