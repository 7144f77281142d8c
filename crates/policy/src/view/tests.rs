use std::collections::BTreeMap;

use serde_json::{from_str, from_value, json, to_value};

use super::*;
use crate::{
    HostPolicy, HostPolicySettings, Observation, decide,
    samples::{capabilities, outcome, request},
};

fn decision<const N: usize>(limits: [(Field, Value); N]) -> Decision {
    decide(&request(limits), &HostPolicy::default(), &capabilities())
}

#[test]
fn a_decision_has_the_documented_form() {
    let decision = decision([(Field::WallTime, Value::Number(u64::MAX))]);
    let expected = json!([{
        "field": "wall_time_ms", "requested": u64::MAX, "effective": 86_400_000, "status": "clamped",
        "set_by": "host", "level": "native", "channel": "supervisor", "ceiling": 86_400_000, "note": null,
        "reason": null,
    }]);
    assert_eq!(to_value(NotableView(&decision)).unwrap(), expected);
}

#[test]
fn every_field_is_among_the_decisions() {
    let all = to_value(DecisionsView(&decision([]))).unwrap();
    let names: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["field"].as_str().unwrap())
        .collect();
    let expected: Vec<_> = Field::ALL.iter().map(|field| field.name()).collect();
    assert_eq!(names, expected);
}

#[test]
fn a_value_keeps_its_kind() {
    let check = |field: Field, requested: Value, expected: serde_json::Value| {
        let decision = decision([(field, requested)]);
        let view = to_value(FieldDecisionView(decision.get(field).unwrap())).unwrap();
        assert_eq!(view["effective"], expected, "{field}");
    };
    check(Field::Nice, Value::Integer(5), json!(5));
    check(Field::Tty, Value::Flag(true), json!(true));
    check(Field::Leftovers, "keep".into(), json!("keep"));
    check(Field::EnvKeys, Value::List(vec!["A".to_owned()]), json!(["A"]));
    check(Field::TreeMemory, Value::Number(1 << 30), json!(null));
}

#[test]
fn a_refusal_tells_its_reason() {
    let host = HostPolicy::new(HostPolicySettings::default().ceiling(Field::Tty, false)).unwrap();
    let decision = decide(&request([(Field::Tty, true.into())]), &host, &capabilities());
    let view = to_value(FieldDecisionView(decision.get(Field::Tty).unwrap())).unwrap();
    assert_eq!(
        (&view["status"], &view["reason"]),
        (&json!("refused"), &json!("above_ceiling"))
    );
}

#[test]
fn a_receipt_stands_beside_its_decision() {
    let decision = decision([(Field::CpuTime, Value::Number(1_000))]);
    let observation = Observation {
        log_bytes: Some(5_000),
        ..Observation::default()
    };
    let receipt = Receipt::new(&decision, &outcome(), &observation);
    let view = to_value(ReceiptView {
        decision: &decision,
        receipt: &receipt,
    })
    .unwrap();
    assert_eq!(view["struck"], json!({ "field": "wall_time_ms", "at_ms": 5_000 }));
    assert_eq!(
        (&view["output_bytes"], &view["peak_memory_bytes"]),
        (&json!(4_096), &json!(2 << 20))
    );
    assert_eq!(view["decisions"], to_value(DecisionsView(&decision)).unwrap());
    let expected = json!([
        { "field": "wall_time_ms", "effective": 600_000, "observed": 5_250 },
        { "field": "idle_time_ms", "effective": null, "observed": 1_500 },
        { "field": "grace_ms", "effective": 2_000, "observed": 250 },
        { "field": "drain_grace_ms", "effective": 1_000, "observed": 50 },
        { "field": "log_bytes", "effective": 32 << 20, "observed": 5_000 },
        { "field": "cpu_time_ms", "effective": 1_000, "observed": 150 },
    ]);
    assert_eq!(view["observed"], expected);
}

#[test]
fn a_containment_names_its_promises() {
    let expected = json!({
        "mechanism": "process_group", "kill": "best_effort", "empty": "unknown", "crash": "next_start",
    });
    assert_eq!(
        to_value(ContainmentView(&Containment::PROCESS_GROUP)).unwrap(),
        expected
    );
}

#[test]
fn a_machine_is_told_field_by_field() {
    let all = to_value(CapabilitiesView(&capabilities())).unwrap();
    assert_eq!(all.as_array().unwrap().len(), Field::ALL.len());
    let of = |field: Field| {
        let machine = capabilities();
        to_value(CapabilityView {
            field,
            capability: machine.get(field),
        })
        .unwrap()
    };
    let expected = json!({
        "field": "open_files", "level": "per_process", "channel": "rlimit", "supported": null,
        "inherited": 1_024, "most": 9_999, "note": null,
    });
    assert_eq!(of(Field::OpenFiles), expected);
    let expected = json!({
        "field": "network", "level": "unsupported", "channel": "none", "supported": null,
        "inherited": null, "most": null, "note": null,
    });
    assert_eq!(of(Field::Network), expected);
    assert_eq!(
        of(Field::Containment)["supported"],
        json!(["auto", "process_group"])
    );
}

#[test]
fn a_map_of_limits_is_read_as_it_is_written() {
    let written = json!({
        "wall_time_ms": u64::MAX, "nice": -5, "tty": true, "leftovers": "keep", "env_keys": ["A", "B"],
    });
    let limits: BTreeMap<Field, PlainValue> = from_value(written.clone()).unwrap();
    let expected: BTreeMap<_, _> = [
        (Field::WallTime, PlainValue(Value::Number(u64::MAX))),
        (Field::Nice, PlainValue(Value::Integer(-5))),
        (Field::Tty, PlainValue(Value::Flag(true))),
        (Field::Leftovers, PlainValue("keep".into())),
        (
            Field::EnvKeys,
            PlainValue(Value::List(vec!["A".to_owned(), "B".to_owned()])),
        ),
    ]
    .into();
    assert_eq!(limits, expected);
    assert_eq!(to_value(limits).unwrap(), written);
}

#[test]
fn what_is_no_value_is_refused() {
    for written in [
        "1.5",
        "1.0",
        "null",
        "{}",
        "[1]",
        "[[]]",
        "-9223372036854775809",
        "NaN",
        "18446744073709551616",
    ] {
        assert!(from_str::<PlainValue>(written).is_err(), "{written}");
    }
    let unknown = from_str::<BTreeMap<Field, PlainValue>>(r#"{"nonsense": 1}"#).unwrap_err();
    assert!(
        unknown
            .to_string()
            .contains("there is no policy field `nonsense`"),
        "{unknown}"
    );
}
