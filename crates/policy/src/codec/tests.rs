use std::time::Duration;

use procession_core::{
    Cause, Containment, Field, Moment, SessionId, Signal, Status as End, Value, WallTime,
    outcome::{
        Fact, IncompleteOutput, LadderAction, LadderStep, ObservedBy, StepEffect, UnknownFact, UnknownStatus,
        Usage, UsageScope,
    },
};
use proptest::prelude::*;

use super::*;
use crate::{
    Channel, FieldDecision, HostPolicy, Level, Observation, Observed, RefusalReason, SetBy, Status, Struck,
    decide,
    samples::{capabilities, outcome, request},
};

/// Three records of version 1, one after the other, each behind its length in four bytes, little endian.
const GOLDEN: &[u8] = include_bytes!("../../tests/golden/record-v1.bin");

fn fields() -> Vec<FieldDecision> {
    let statuses = [
        Status::Defaulted,
        Status::AsRequested,
        Status::Clamped,
        Status::Advisory,
        Status::Unsupported,
        Status::Refused,
    ];
    let whose = [
        SetBy::Caller,
        SetBy::Host,
        SetBy::Principal,
        SetBy::Owner,
        SetBy::Platform,
    ];
    let levels = [
        Level::Native,
        Level::PerProcess,
        Level::Wrapper,
        Level::Advisory,
        Level::Unsupported,
    ];
    let channels = [
        Channel::Supervisor,
        Channel::Registry,
        Channel::Rlimit,
        Channel::Cgroup,
        Channel::Landlock,
        Channel::Seccomp,
        Channel::Namespace,
        Channel::Argv,
        Channel::Env,
        Channel::None,
    ];
    let reasons = [
        RefusalReason::AboveCeiling,
        RefusalReason::Unenforceable,
        RefusalReason::Unfit,
        RefusalReason::TooLong,
    ];
    let values = [
        Value::Number(u64::MAX),
        Value::Integer(-5),
        Value::Flag(true),
        Value::Text("24x120".to_owned()),
        Value::List(vec!["A".to_owned(), "B".to_owned()]),
    ];
    // Ten fields by name, so that a longer table changes nothing.
    let fields = [
        Field::WallTime,
        Field::Nice,
        Field::Tty,
        Field::TerminalSize,
        Field::EnvKeys,
        Field::Network,
        Field::Leftovers,
        Field::OpenFiles,
        Field::LogBytes,
        Field::Umask,
    ];
    (0..fields.len())
        .map(|place| FieldDecision {
            field: fields[place],
            requested: (place % 2 == 0).then(|| values[place % values.len()].clone()),
            ceiling: (place % 3 == 0).then(|| values[place % values.len()].clone()),
            effective: (place % 6 != 5).then(|| values[place % values.len()].clone()),
            status: statuses[place % statuses.len()],
            set_by: whose[place % whose.len()],
            level: levels[place % levels.len()],
            channel: channels[place],
            note: (place % 4 == 0).then(|| "as a note says".to_owned()),
            refusal: (place >= 6).then(|| reasons[place - 6]),
        })
        .collect()
}

fn decision() -> Decision {
    let session = SessionId::from_random([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    Decision::new(
        session,
        "principal".to_owned(),
        "agent".to_owned(),
        Containment::PROCESS_GROUP,
        fields(),
    )
}

fn record(outcome: Outcome, receipt: Receipt) -> Record {
    Record::End(Box::new(EndRecord {
        decision: decision(),
        outcome,
        receipt,
    }))
}

fn golden_records() -> [Record; 3] {
    let at = Moment::from_millis;
    let step = |action, effect| LadderStep {
        action,
        at: at(7),
        effect,
    };
    let stopped = Outcome {
        cause: Cause::Stop,
        status: End::Signaled {
            signal: Signal::KILL,
            core_dumped: true,
        },
        observed_by: Some(ObservedBy::Guard),
        spawned_at: Some(at(1)),
        exited_at: Some(at(2)),
        closed_at: None,
        quiescent: Fact::Unknown(UnknownFact::Residual),
        ended_at: at(u64::MAX),
        ended_wall: WallTime::from_unix_millis(1_700_000_000_000),
        ladder: vec![
            step(LadderAction::Terminate, StepEffect::Delivered),
            step(LadderAction::Continue, StepEffect::MetNobody),
            step(LadderAction::Kill, StepEffect::NotPermitted),
            step(LadderAction::Sweep, StepEffect::Failed),
        ],
        swept_pids: vec![1, 300, 70_000],
        residual_pids: vec![u32::MAX],
        incomplete_output: Some(IncompleteOutput::HeldOpen),
        output_bytes: 1 << 40,
        largest_idle_gap: Duration::from_millis(1_500),
        usage: Some(Usage {
            user_time: Duration::new(3, 999_999_999),
            system_time: Duration::ZERO,
            peak_memory_bytes: Some(1 << 30),
            minor_faults: 251,
            major_faults: 65_536,
            cpu_covers: UsageScope::Tree,
            peak_memory_covers: UsageScope::Tree,
        }),
    };
    let receipt = Receipt {
        observed: vec![Observed {
            field: Field::WallTime,
            value: Value::Number(5),
        }],
        struck: Some(Struck {
            field: Field::WallTime,
            at_ms: 4,
        }),
        output_bytes: 1 << 40,
        peak_memory_bytes: Some(1 << 30),
    };
    let lost = Outcome {
        status: End::Unknown {
            reason: UnknownStatus::ObservationFailed { errno: -5 },
        },
        ..Outcome::lost(at(9), WallTime::from_unix_millis(9), None)
    };
    [
        Record::Decision(decision()),
        record(stopped, receipt),
        record(lost, Receipt::default()),
    ]
}

/// The records of the golden file.
fn golden_bytes() -> Vec<&'static [u8]> {
    let mut rest = GOLDEN;
    let mut records = Vec::new();
    while let Some((length, following)) = rest.split_first_chunk::<4>() {
        let (record, after) = following.split_at(usize::try_from(u32::from_le_bytes(*length)).unwrap());
        records.push(record);
        rest = after;
    }
    records
}

#[test]
fn records_of_version_1_are_read_and_written_byte_for_byte() {
    let (files, records) = (golden_bytes(), golden_records());
    assert_eq!(files.len(), records.len());
    for (bytes, record) in files.into_iter().zip(records) {
        assert_eq!(decode_record(bytes).as_ref(), Ok(&record));
        assert_eq!(encode_record(&record).as_deref(), Ok(bytes));
    }
}

#[test]
fn a_real_decision_and_its_end_read_back() {
    let limits = [
        (Field::WallTime, Value::Number(u64::MAX)),
        (Field::Tty, Value::Flag(true)),
    ];
    let decision = decide(&request(limits), &HostPolicy::default(), &capabilities());
    let receipt = Receipt::new(&decision, &outcome(), &Observation::default());
    let end = EndRecord {
        decision: decision.clone(),
        outcome: outcome(),
        receipt,
    };
    for record in [Record::Decision(decision), Record::End(Box::new(end))] {
        let bytes = encode_record(&record).unwrap();
        assert_eq!(decode_record(&bytes), Ok(record));
    }
}

#[test]
fn what_is_no_record_is_told_apart() {
    let check = |bytes: &[u8], expected: CodecError| assert_eq!(decode_record(bytes), Err(expected));
    let good = encode_record(&Record::Decision(decision())).unwrap();
    check(&[], CodecError::Empty);
    check(&[0, 0], CodecError::UnknownVersion { version: 0 });
    check(&[2], CodecError::UnknownVersion { version: 2 });
    check(&[RECORD_VERSION], CodecError::CutShort);
    check(&[RECORD_VERSION, 9], CodecError::Malformed);
    check(
        &[good.clone(), vec![0; 3]].concat(),
        CodecError::TrailingBytes { bytes: 3 },
    );
    let large = vec![RECORD_VERSION; MAX_RECORD_BYTES + 1];
    check(
        &large,
        CodecError::TooLarge {
            bytes: MAX_RECORD_BYTES + 1,
            limit_bytes: MAX_RECORD_BYTES,
        },
    );
}

#[test]
fn a_record_that_is_cut_anywhere_is_refused() {
    let good = encode_record(&golden_records()[1]).unwrap();
    for end in 0..good.len() {
        assert!(decode_record(&good[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn a_text_that_claims_more_than_the_limit_is_refused_before_it_is_made() {
    // The session's id, as a text of 2^63 bytes.
    let hostile = [&[RECORD_VERSION, 0, 253][..], &(1_u64 << 63).to_le_bytes()].concat();
    assert_eq!(decode_record(&hostile), Err(CodecError::Malformed));
}

#[test]
fn a_field_of_another_version_is_malformed() {
    let good = encode_record(&Record::Decision(decision())).unwrap();
    let place = good.windows(5).position(|name| name == b"umask").unwrap();
    let mut strange = good;
    strange[place..place + 5].copy_from_slice(b"amusk");
    assert_eq!(decode_record(&strange), Err(CodecError::Malformed));
}

#[test]
fn an_outcome_with_too_many_processes_is_too_large_to_write() {
    let crowded = Outcome {
        swept_pids: vec![u32::MAX; 300_000],
        ..outcome()
    };
    let found = encode_record(&record(crowded, Receipt::default()));
    assert!(
        matches!(found, Err(CodecError::TooLarge { .. })),
        "{:?}",
        found.map(|bytes| bytes.len())
    );
}

#[test]
fn the_largest_record_that_can_be_written_can_be_read() {
    // Small numbers are claimed at eight times what they take.
    let crowded = Outcome {
        swept_pids: vec![1; MAX_RECORD_BYTES - 2_048],
        ..outcome()
    };
    let record = record(crowded, Receipt::default());
    let bytes = encode_record(&record).unwrap();
    assert!(bytes.len() > MAX_RECORD_BYTES - 2_048, "{} bytes", bytes.len());
    assert_eq!(decode_record(&bytes), Ok(record));
}

#[test]
fn the_longest_request_that_is_decided_can_be_written() {
    let long = || Value::List(vec!["x".repeat(255); 256]);
    let limits = [
        (Field::EnvKeys, long()),
        (Field::EnvLiteral, long()),
        (Field::ReadableRoots, long()),
        (Field::WritableRoots, long()),
        (Field::CwdRoot, Value::Text("/".repeat(4_096))),
    ];
    let granting =
        |field: Field| crate::Capability::new(Level::Native, Channel::Landlock).with_note(field.name());
    let machine = capabilities()
        .with(Field::ReadableRoots, granting(Field::ReadableRoots))
        .with(Field::WritableRoots, granting(Field::WritableRoots));
    let decision = decide(&request(limits), &HostPolicy::default(), &machine);
    assert_eq!(decision.refusal(), None);
    let end = EndRecord {
        decision,
        outcome: outcome(),
        receipt: Receipt::default(),
    };
    let bytes = encode_record(&Record::End(Box::new(end))).unwrap();
    assert!(bytes.len() > 4 * (64 << 10), "{} bytes", bytes.len());
    assert!(decode_record(&bytes).is_ok());
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        // Whatever reads as a record is one: its own bytes read as the same.
        if let Ok(record) = decode_record(&bytes) {
            prop_assert_eq!(decode_record(&encode_record(&record).unwrap()), Ok(record));
        }
    }

    #[test]
    fn a_damaged_record_is_answered(
        which in 0..3_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encode_record(&golden_records()[which]).unwrap();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(record) = decode_record(&bytes) {
            prop_assert_eq!(decode_record(&encode_record(&record).unwrap()), Ok(record));
        }
    }
}
