//! What holds of every decision, whatever is asked, set and possible.

use std::collections::BTreeMap;

use procession_core::field::Kind;
use proptest::{option, prelude::*, sample::select};

use super::*;
use crate::{freedom::check_ceiling, host::HostPolicySettings, samples::request};

const LEVELS: [Level; 5] = [
    Level::Native,
    Level::PerProcess,
    Level::Wrapper,
    Level::Advisory,
    Level::Unsupported,
];

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "null",
            "piped",
            "sweep",
            "keep",
            "off",
            "rolling",
            "keep_head",
            "auto",
            "cgroup",
            "subreaper",
            "process_group",
            "0x0",
            "24x80",
            "65535x1",
            "022",
            "0077",
            "/a",
            "/a/b",
            "",
            "A",
            "B",
        ])
        .prop_map(str::to_owned),
        ".{0,12}",
        (4_000..5_000_usize).prop_map(|length| "x".repeat(length)),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::Number),
        (0..2_000_u64).prop_map(Value::Number),
        (-2_000..2_000_i64).prop_map(Value::Integer),
        any::<bool>().prop_map(Value::Flag),
        texts().prop_map(Value::Text),
        prop::collection::vec(texts(), 0..6).prop_map(Value::List),
    ]
}

/// A value that fits the field more often than not.
fn value_for(field: Field) -> BoxedStrategy<Value> {
    let likely = match field.spec().kind {
        Kind::Number { .. } => prop_oneof![any::<u64>(), 0..200_000_u64]
            .prop_map(Value::Number)
            .boxed(),
        Kind::Integer { .. } => (-25..25_i64).prop_map(Value::Integer).boxed(),
        Kind::Flag => any::<bool>().prop_map(Value::Flag).boxed(),
        Kind::Word(words) => select(words.to_vec()).prop_map(Value::from).boxed(),
        Kind::Size => (0..5_000_u16, 0..5_000_u16)
            .prop_map(|(rows, cols)| Value::Text(format!("{rows}x{cols}")))
            .boxed(),
        Kind::Text => texts().prop_map(Value::Text).boxed(),
        Kind::List => prop::collection::vec(select(vec!["A", "B", "C"]).prop_map(str::to_owned), 0..4)
            .prop_map(Value::List)
            .boxed(),
    };
    prop_oneof![9 => likely, 1 => any_value()].boxed()
}

fn by_field() -> impl Strategy<Value = BTreeMap<Field, Value>> {
    let entry = select(Field::ALL.to_vec()).prop_flat_map(|field| (Just(field), value_for(field)));
    prop::collection::vec(entry, 0..20).prop_map(|entries| entries.into_iter().collect())
}

/// Ceilings: what fits of a map, and some counts for lists.
fn ceilings() -> impl Strategy<Value = BTreeMap<Field, Value>> {
    (by_field(), option::of(0..4_u64)).prop_map(|(mut ceilings, count)| {
        if let Some(count) = count {
            ceilings.insert(Field::EnvKeys, Value::Number(count));
        }
        ceilings.retain(|field, ceiling| {
            *field != Field::CwdRoot && check_ceiling(*field, ceiling).is_ok() && text_fits(ceiling)
        });
        ceilings
    })
}

fn host() -> impl Strategy<Value = HostPolicy> {
    let rules = prop::collection::btree_map(
        select(Field::ALL.to_vec()),
        select(vec![OnExcess::Clamp, OnExcess::Refuse, OnExcess::Advise]),
        0..20,
    );
    (by_field(), ceilings(), rules).prop_map(|(defaults, ceilings, on_excess)| {
        let mut settings = HostPolicySettings {
            ceilings,
            on_excess,
            ..HostPolicySettings::default()
        };
        for (field, default) in defaults {
            let tried = settings.clone().default_value(field, default);
            if HostPolicy::new(tried.clone()).is_ok() {
                settings = tried;
            }
        }
        HostPolicy::new(settings).unwrap()
    })
}

fn capability(field: Field) -> impl Strategy<Value = Capability> {
    let supported = match field.spec().kind {
        Kind::Word(words) => option::of(prop::sample::subsequence(words.to_vec(), 0..=words.len())).boxed(),
        Kind::Flag => option::of(prop::sample::subsequence(vec!["true", "false"], 0..=2)).boxed(),
        _ => Just(None).boxed(),
    };
    (
        select(LEVELS.to_vec()),
        supported,
        option::of(value_for(field)),
        option::of(value_for(field)),
    )
        .prop_map(move |(level, supported, inherited, most)| {
            let mut capability = Capability::new(level, Channel::Supervisor);
            capability.supported = supported.map(|words| words.into_iter().map(str::to_owned).collect());
            capability.inherited = inherited;
            capability.most =
                most.filter(|most| field != Field::CwdRoot && check_ceiling(field, most).is_ok());
            capability
        })
}

fn machine() -> impl Strategy<Value = Capabilities> {
    let entries: Vec<_> = Field::ALL
        .iter()
        .map(|field| option::weighted(0.8, capability(*field)))
        .collect();
    entries.prop_map(|entries| {
        Field::ALL
            .iter()
            .zip(entries)
            .fold(Capabilities::none(), |machine, (field, entry)| match entry {
                Some(capability) => machine.with(*field, capability),
                None => machine,
            })
    })
}

fn question() -> impl Strategy<Value = (PolicyRequest, HostPolicy, Capabilities)> {
    (by_field(), ceilings(), ceilings(), host(), machine()).prop_map(
        |(limits, principal, owner, host, machine)| {
            let ask = PolicyRequest {
                limits,
                principal_ceilings: Ceilings::new(principal).unwrap(),
                owner_ceilings: Ceilings::new(owner).unwrap(),
                ..request([])
            };
            (ask, host, machine)
        },
    )
}

/// All ceilings on a field.
fn all_ceilings(field: Field, ask: &PolicyRequest, host: &HostPolicy, machine: &Capabilities) -> Vec<Value> {
    let most = machine.get(field).and_then(|capability| capability.most.clone());
    let nested = [&ask.principal_ceilings, &ask.owner_ceilings].map(|ceilings| ceilings.get(field).cloned());
    [host.ceiling_of(field), most]
        .into_iter()
        .chain(nested)
        .flatten()
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_request_is_lost_and_nothing_is_clamped_in_silence((ask, host, machine) in question()) {
        let decision = decide(&ask, &host, &machine);
        let fields: Vec<_> = decision.fields().iter().map(|decision| decision.field).collect();
        prop_assert_eq!(&fields[..], Field::ALL);
        for found in decision.fields() {
            let field = found.field;
            let requested = ask.limits.get(&field);
            match requested {
                Some(requested) if text_fits(requested) => {
                    prop_assert_eq!(found.requested.as_ref(), Some(requested));
                }
                Some(_) => prop_assert_eq!(found.refusal, Some(RefusalReason::TooLong)),
                None => prop_assert_eq!(&found.requested, &None),
            }
            let level = machine.get(field).map_or(Level::Unsupported, |capability| capability.level);
            prop_assert_eq!(found.level, level);
            prop_assert_eq!(found.refusal.is_some(), found.status == Status::Refused, "{:?}", found);

            let is_same = match (requested, &found.effective) {
                (Some(requested), Some(effective)) => same(requested, effective),
                _ => false,
            };
            let is_auto = requested.and_then(Value::as_text) == Some("auto") && field == Field::Containment;
            match found.status {
                Status::AsRequested => prop_assert!(is_same || is_auto, "{:?}", found),
                Status::Advisory => prop_assert!(is_same || is_auto, "{:?}", found),
                Status::Clamped => prop_assert!(!is_same && found.effective.is_some(), "{:?}", found),
                Status::Defaulted => prop_assert!(requested.is_none(), "{:?}", found),
                Status::Refused => prop_assert!(found.effective.is_none(), "{:?}", found),
                Status::Unsupported => {
                    let inherited = machine.get(field).and_then(|capability| capability.inherited.clone());
                    prop_assert_eq!(&found.effective, &inherited);
                }
            }
            let is_bound = matches!(found.status, Status::AsRequested | Status::Clamped)
                && host.rule_of(field) != OnExcess::Advise;
            if let (true, Some(effective)) = (is_bound, &found.effective) {
                for ceiling in all_ceilings(field, &ask, &host, &machine) {
                    prop_assert_eq!(bounded(field, effective, &ceiling), None, "{:?} over {}", found, ceiling);
                }
            }
        }
    }

    #[test]
    fn the_whole_is_refused_exactly_when_a_field_is((ask, host, machine) in question()) {
        let decision = decide(&ask, &host, &machine);
        let first = decision.fields().iter().find(|found| found.status == Status::Refused);
        prop_assert_eq!(decision.refusal().map(|refusal| refusal.field), first.map(|found| found.field));
        let notable: Vec<_> = decision.notable().map(|found| found.field).collect();
        for field in ask.limits.keys() {
            prop_assert!(notable.contains(field), "{} was requested and is not told", field);
        }
    }

    #[test]
    fn what_holds_can_be_asked_for((ask, host, machine) in question()) {
        let first = decide(&ask, &host, &machine);
        let held = first.fields().iter().filter(|found| found.requested.is_some() && found.level != Level::Unsupported);
        let limits: RequestedLimits = held
            .filter(|found| matches!(found.status, Status::AsRequested | Status::Clamped | Status::Advisory))
            .filter_map(|found| Some((found.field, found.effective.clone()?)))
            .collect();
        let second = decide(&PolicyRequest { limits: limits.clone(), ..ask }, &host, &machine);
        for (field, value) in &limits {
            // What is inherited or the machine's own may be a value that nobody could ask for.
            if check_value(*field, value).is_ok() && text_fits(value) {
                prop_assert_eq!(second.effective(*field), Some(value));
            }
        }
    }

    #[test]
    fn the_same_question_has_the_same_answer((ask, host, machine) in question()) {
        prop_assert_eq!(decide(&ask, &host, &machine), decide(&ask, &host, &machine));
    }
}
