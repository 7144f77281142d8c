use procession_core::field::Kind;

use super::*;
use crate::{
    host::HostPolicySettings,
    samples::{self, capabilities, request},
};

mod ceilings;

fn host(settings: HostPolicySettings) -> HostPolicy {
    HostPolicy::new(settings).unwrap()
}

fn settings() -> HostPolicySettings {
    HostPolicySettings::default()
}

fn decided(
    request: &PolicyRequest,
    host: &HostPolicy,
    capabilities: &Capabilities,
    field: Field,
) -> FieldDecision {
    decide(request, host, capabilities).get(field).unwrap().clone()
}

/// Requested, effective, status and who set it.
type Told = (Option<Value>, Option<Value>, Status, SetBy);

fn told(decision: &FieldDecision) -> Told {
    (
        decision.requested.clone(),
        decision.effective.clone(),
        decision.status,
        decision.set_by,
    )
}

fn number(number: u64) -> Value {
    Value::Number(number)
}

fn list(entries: &[&str]) -> Value {
    Value::List(entries.iter().map(|entry| (*entry).to_owned()).collect())
}

/// A value that fits the field and has a use.
fn fitting(field: Field) -> Value {
    match field.spec().kind {
        Kind::Number { least } => {
            number(
                least
                    .max(1_000_000)
                    .min(if field == Field::Grace { 60_000 } else { u64::MAX }),
            )
        }
        Kind::Integer { .. } => Value::Integer(5),
        Kind::Flag => Value::Flag(field == Field::Tty),
        Kind::Word(words) => Value::from(words[1]),
        Kind::Size => Value::from("50x132"),
        Kind::Text if field == Field::Umask => Value::from("0027"),
        Kind::Text => Value::from("/srv/work"),
        Kind::List => list(&["one", "two"]),
    }
}

#[test]
fn every_field_at_every_level_gets_its_status() {
    let levels = [
        (Level::Native, Status::AsRequested),
        (Level::PerProcess, Status::AsRequested),
        (Level::Wrapper, Status::AsRequested),
        (Level::Advisory, Status::Advisory),
        (Level::Unsupported, Status::Refused),
    ];
    for field in Field::ALL.iter().copied() {
        // Without a ceiling of the table in the way.
        let open = match field.spec().kind {
            Kind::Number { .. } => host(settings().ceiling(field, u64::MAX)),
            _ => HostPolicy::default(),
        };
        let value = fitting(field);
        for (level, expected) in levels {
            let machine = Capabilities::none().with(field, Capability::new(level, Channel::Supervisor));
            let found = decided(&request([(field, value.clone())]), &open, &machine, field);
            let effective = (expected != Status::Refused).then(|| value.clone());
            let set_by = if expected == Status::Refused {
                SetBy::Platform
            } else {
                SetBy::Caller
            };
            assert_eq!(
                told(&found),
                (Some(value.clone()), effective, expected, set_by),
                "{field} at {level:?}"
            );
            assert_eq!(
                (found.level, found.channel),
                (level, Channel::Supervisor),
                "{field}"
            );
            assert_eq!(found.refusal.is_some(), expected == Status::Refused, "{field}");

            let unasked = decided(&request([]), &HostPolicy::default(), &machine, field);
            let default = field
                .spec()
                .default
                .value()
                .filter(|_| level != Level::Unsupported);
            let whose = if level == Level::Unsupported {
                SetBy::Platform
            } else {
                SetBy::Host
            };
            assert_eq!(
                told(&unasked),
                (None, default, Status::Defaulted, whose),
                "{field} at {level:?}"
            );
        }
    }
}

#[test]
fn what_has_no_entry_is_unsupported_through_no_channel() {
    for field in Field::ALL.iter().copied() {
        let found = decided(
            &request([(field, fitting(field))]),
            &HostPolicy::default(),
            &Capabilities::none(),
            field,
        );
        assert_eq!(
            (found.level, found.channel, found.status),
            (Level::Unsupported, Channel::None, Status::Refused)
        );
        assert_eq!(found.requested, Some(fitting(field)), "{field}");
        for rule in [OnExcess::Clamp, OnExcess::Advise] {
            let lenient = host(settings().on_excess(field, rule));
            let found = decided(
                &request([(field, fitting(field))]),
                &lenient,
                &Capabilities::none(),
                field,
            );
            let expected = (Some(fitting(field)), None, Status::Unsupported, SetBy::Platform);
            assert_eq!(told(&found), expected, "{field}");
        }
    }
}

#[test]
fn a_word_that_cannot_be_had_is_refused_or_left_as_it_is() {
    let ask = request([(Field::Containment, "cgroup".into())]);
    let found = decided(&ask, &HostPolicy::default(), &capabilities(), Field::Containment);
    assert_eq!(
        told(&found),
        (Some("cgroup".into()), None, Status::Refused, SetBy::Platform)
    );
    assert_eq!(found.refusal, Some(RefusalReason::Unenforceable));
    let lenient = host(settings().on_excess(Field::Containment, OnExcess::Clamp));
    let found = decided(&ask, &lenient, &capabilities(), Field::Containment);
    let expected = (
        Some("cgroup".into()),
        Some("process_group".into()),
        Status::Unsupported,
        SetBy::Platform,
    );
    assert_eq!(told(&found), expected);
}

#[test]
fn auto_is_the_means_in_force() {
    let check = |limits: &PolicyRequest, status: Status, set_by: SetBy| {
        let found = decided(
            limits,
            &HostPolicy::default(),
            &capabilities(),
            Field::Containment,
        );
        assert_eq!(
            (found.effective, found.status, found.set_by),
            (Some("process_group".into()), status, set_by)
        );
    };
    check(&request([]), Status::Defaulted, SetBy::Platform);
    check(
        &request([(Field::Containment, "auto".into())]),
        Status::AsRequested,
        SetBy::Caller,
    );
    // What is in force is weaker than what the host wants, and nothing stronger can be had.
    let strict = host(settings().ceiling(Field::Containment, "subreaper"));
    let found = decided(&request([]), &strict, &capabilities(), Field::Containment);
    assert_eq!(told(&found), (None, None, Status::Refused, SetBy::Host));
}

#[test]
fn what_is_inherited_holds_when_nothing_is_asked() {
    let found = decided(
        &request([]),
        &HostPolicy::default(),
        &capabilities(),
        Field::OpenFiles,
    );
    assert_eq!(
        told(&found),
        (None, Some(number(1_024)), Status::Defaulted, SetBy::Platform)
    );
    assert_eq!(found.ceiling, Some(number(9_999)));
}

#[test]
fn a_setting_of_the_host_that_nothing_enforces_is_a_refusal() {
    let check = |settings: HostPolicySettings, field: Field, expected: (Status, SetBy)| {
        let found = decided(&request([]), &host(settings), &capabilities(), field);
        assert_eq!(
            (found.status, found.set_by, found.effective),
            (expected.0, expected.1, None),
            "{field}"
        );
    };
    let refused = (Status::Refused, SetBy::Host);
    let left = (Status::Unsupported, SetBy::Platform);
    check(
        settings().default_value(Field::Network, false),
        Field::Network,
        refused,
    );
    check(
        settings().ceiling(Field::TreeMemory, 1_u64 << 30),
        Field::TreeMemory,
        refused,
    );
    check(
        settings().ceiling(Field::DiesWithHost, true),
        Field::DiesWithHost,
        refused,
    );
    let lenient = settings().on_excess(Field::Network, OnExcess::Advise);
    check(lenient.default_value(Field::Network, false), Field::Network, left);
    // No capability is needed for what is not given anyway.
    let found = decided(
        &request([]),
        &host(settings().ceiling(Field::Tty, false)),
        &Capabilities::none(),
        Field::Tty,
    );
    assert_eq!(told(&found), (None, None, Status::Defaulted, SetBy::Platform));
}

#[test]
fn what_holds_anyway_is_granted_at_any_level() {
    let machine = Capabilities::none().with(
        Field::Network,
        Capability::new(Level::Unsupported, Channel::None).inheriting(true),
    );
    let found = decided(
        &request([(Field::Network, true.into())]),
        &HostPolicy::default(),
        &machine,
        Field::Network,
    );
    assert_eq!(
        told(&found),
        (
            Some(true.into()),
            Some(true.into()),
            Status::AsRequested,
            SetBy::Caller
        )
    );
    let strict = host(settings().ceiling(Field::Network, false));
    let found = decided(
        &request([(Field::Network, true.into())]),
        &strict,
        &machine,
        Field::Network,
    );
    assert_eq!(
        (found.status, found.refusal),
        (Status::Refused, Some(RefusalReason::Unenforceable))
    );
    let found = decided(&request([]), &strict, &machine, Field::Network);
    assert_eq!(told(&found), (None, None, Status::Refused, SetBy::Host));
}

#[test]
fn what_has_no_use_is_put_right_on_record() {
    let check = |field: Field, value: Value, effective: Value, note: &str| {
        let found = decided(
            &request([(field, value.clone())]),
            &HostPolicy::default(),
            &capabilities(),
            field,
        );
        assert_eq!(
            told(&found),
            (Some(value), Some(effective), Status::Clamped, SetBy::Platform)
        );
        assert_eq!(found.note.as_deref(), Some(note));
    };
    check(
        Field::OutputBudget,
        number(0),
        number(128),
        "less than 128 counts as 128",
    );
    check(
        Field::TerminalSize,
        "0x0".into(),
        "24x120".into(),
        "a terminal has 1 to 4096 rows and columns",
    );
    check(
        Field::TerminalSize,
        "65535x80".into(),
        "4096x80".into(),
        "a terminal has 1 to 4096 rows and columns",
    );
    let small = host(settings().ceiling(Field::TerminalSize, "50x200"));
    let ask = request([(Field::TerminalSize, "0x300".into())]);
    let found = decided(&ask, &small, &capabilities(), Field::TerminalSize);
    assert_eq!(
        told(&found),
        (
            Some("0x300".into()),
            Some("24x200".into()),
            Status::Clamped,
            SetBy::Host
        )
    );
}

#[test]
fn what_does_not_fit_is_refused_whatever_the_rule() {
    let check = |field: Field, value: Value, reason: RefusalReason| {
        let lenient = host(settings().on_excess(field, OnExcess::Advise));
        let found = decided(&request([(field, value)]), &lenient, &capabilities(), field);
        assert_eq!(
            (found.status, found.refusal),
            (Status::Refused, Some(reason)),
            "{field}"
        );
        let kept: usize = found
            .requested
            .iter()
            .map(|requested| requested.to_string().len())
            .sum();
        assert!(kept <= 8_192, "{field} keeps {kept} bytes on record");
    };
    check(Field::WallTime, number(0), RefusalReason::Unfit);
    check(Field::WallTime, Value::Integer(-1), RefusalReason::Unfit);
    check(Field::Umask, "rwx".into(), RefusalReason::Unfit);
    check(
        Field::Umask,
        Value::Text("0".repeat(100_000)),
        RefusalReason::TooLong,
    );
    check(
        Field::EnvLiteral,
        Value::List(vec!["A".repeat(1 << 20); 256]),
        RefusalReason::TooLong,
    );
    check(
        Field::EnvLiteral,
        Value::List(vec![String::new(); 1 << 20]),
        RefusalReason::TooLong,
    );
}

#[test]
fn a_refused_field_refuses_the_whole_and_leaves_the_others_told() {
    let ask = request([(Field::TreeMemory, number(1 << 30)), (Field::WallTime, number(5))]);
    let decision = decide(&ask, &HostPolicy::default(), &capabilities());
    assert_eq!(
        decision.refusal().map(|refusal| refusal.field),
        Some(Field::TreeMemory)
    );
    assert_eq!(decision.effective(Field::WallTime), Some(&number(5)));
}

#[test]
fn the_scope_of_the_owner_is_not_in_a_decision() {
    let decision = decide(&request([]), &HostPolicy::default(), &capabilities());
    assert_eq!((decision.principal(), decision.agent()), ("principal", "agent"));
    assert!(!format!("{decision:?}").contains(&samples::owner().scope));
}

#[test]
fn a_long_note_is_cut_at_a_character() {
    let machine = Capabilities::none().with(
        Field::Nice,
        Capability::new(Level::PerProcess, Channel::Rlimit).with_note("ä".repeat(1_000) + "x"),
    );
    let found = decided(&request([]), &HostPolicy::default(), &machine, Field::Nice);
    assert_eq!(found.note, Some("ä".repeat(512)));
}
