//! Requested against effective, from the answer to a start to the record on the disk.
#![cfg(test)]

use std::{path::Path, sync::Arc, time::Duration};

use procession_actors::{
    error::{ReadLogError, StartError},
    report::{Ladder, PollQuery},
};
use procession_core::{Field, Leftovers, SessionSpec, StreamId, Value, spec::Terminal};
use procession_log_store::{LogReader, MemoryStorage};
use procession_policy::{
    Capabilities, Capability, Channel, Decision, FieldDecision, HostPolicy, HostPolicySettings, Level,
    OnExcess, Record, SetBy, Status, decode_record,
};
use procession_process::ProcessLimits;
use procession_testkit::{FaultyStorage, Harness, HarnessBuilder, HarnessSession, ScriptedPort, fixture};

const SECOND: Duration = Duration::from_secs(1);

fn with(settings: HostPolicySettings) -> HarnessBuilder {
    Harness::builder().policy(HostPolicy::new(settings).unwrap())
}

fn decided(session: &HarnessSession, field: Field) -> &FieldDecision {
    session.started.decision.get(field).unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_field_is_decided_and_told_with_the_start_and_ever_after() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec().wall_time(5 * SECOND)).await;
    let fields: Vec<_> = session
        .started
        .decision
        .fields()
        .iter()
        .map(|decided| decided.field)
        .collect();
    assert_eq!(fields, Field::ALL);
    assert_eq!(session.inspect().await.decision, session.started.decision);
    session.process.exit(0);
    session.outcome().await;
    assert_eq!(session.inspect().await.decision, session.started.decision);
}

#[tokio::test(start_paused = true)]
async fn a_process_is_started_with_what_holds_unless_it_inherits_that_anyway() {
    let limit = |level| Capability::new(level, Channel::Rlimit);
    let capabilities = Capabilities::supervision()
        .with(
            Field::OpenFiles,
            limit(Level::PerProcess).inheriting(64_u64).at_most(4_096_u64),
        )
        .with(Field::CpuTime, limit(Level::PerProcess))
        .with(Field::AddressSpace, limit(Level::Advisory))
        .with(Field::Core, limit(Level::PerProcess).inheriting(0_u64))
        .with(
            Field::Nice,
            limit(Level::PerProcess).inheriting(3_u64).at_most(3_u64),
        )
        .with(Field::Umask, limit(Level::Advisory).inheriting("0022"))
        .with(
            Field::Processes,
            Capability::new(Level::Unsupported, Channel::None).inheriting(500_u64),
        );
    let settings = HostPolicySettings::default().default_value(Field::AddressSpace, 1_u64 << 30);
    let harness = Harness::builder()
        .port(ScriptedPort::with_capabilities(capabilities))
        .policy(HostPolicy::new(settings).unwrap())
        .start()
        .await;
    let spec = fixture::spec()
        .limit(Field::OpenFiles, 1_000_000_u64)
        .limit(Field::CpuTime, 1_500_u64)
        .limit(Field::Processes, 500_u64)
        .limit(Field::Nice, Value::Integer(-5))
        .limit(Field::Umask, "077");
    let session = harness.start_session(spec).await;
    let expected = ProcessLimits {
        cpu_time: Some(2 * SECOND),
        address_space_bytes: Some(1 << 30),
        open_files: Some(4_096),
        nice: Some(3),
        umask: Some(0o77),
        ..ProcessLimits::default()
    };
    assert_eq!(session.process.request().limits, expected);
    assert_eq!(decided(&session, Field::OpenFiles).status, Status::Clamped);
    assert_eq!(decided(&session, Field::CpuTime).status, Status::Clamped);
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_for_and_what_holds_are_both_told() {
    let settings = HostPolicySettings::default()
        .ceiling(Field::WallTime, 60_000_u64)
        .ceiling(Field::Capture, 64_u64 << 10)
        .default_value(Field::Grace, 500_u64);
    let check =
        async |spec: SessionSpec, field: Field, effective: Option<Value>, status: Status, set_by: SetBy| {
            let requested = spec.limits.get(&field).cloned();
            let harness = with(settings.clone()).start().await;
            let session = harness.start_session(spec).await;
            let decided = decided(&session, field);
            let told = (
                &decided.requested,
                &decided.effective,
                decided.status,
                decided.set_by,
            );
            assert_eq!(told, (&requested, &effective, status, set_by), "{field}");
        };
    let spec = fixture::spec;
    let number = |number: u64| Some(Value::Number(number));
    check(
        spec().limit(Field::WallTime, 5_000_u64),
        Field::WallTime,
        number(5_000),
        Status::AsRequested,
        SetBy::Caller,
    )
    .await;
    check(
        spec().limit(Field::WallTime, 60_001_u64),
        Field::WallTime,
        number(60_000),
        Status::Clamped,
        SetBy::Host,
    )
    .await;
    check(spec(), Field::Grace, number(500), Status::Defaulted, SetBy::Host).await;
    check(spec(), Field::IdleTime, None, Status::Defaulted, SetBy::Host).await;
    check(
        spec().limit(Field::Capture, 1_u64 << 20),
        Field::Capture,
        number(64 << 10),
        Status::Clamped,
        SetBy::Host,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_told_is_what_happens() {
    let settings = HostPolicySettings::default().ceiling(Field::WallTime, 60_000_u64);
    let harness = with(settings).start().await;
    let session = harness
        .start_session(fixture::spec().limit(Field::WallTime, 3_600_000_u64))
        .await;
    session.outcome().await;
    assert_eq!(session.process.signals()[0].at, 60 * SECOND);

    let session = harness
        .start_session(fixture::spec().limit(Field::Capture, 8_u64 << 10))
        .await;
    session.process.emit(StreamId::Stdout, vec![b'x'; 100_000]);
    harness.settle().await;
    let raw = session
        .client
        .read_output(session.id, fixture::read_all())
        .await
        .unwrap();
    let kept: usize = raw.pieces.iter().map(|piece| piece.bytes.len()).sum();
    let omitted: u64 = raw.pieces.iter().map(|piece| piece.omitted_bytes).sum();
    assert_eq!(
        (kept as u64 + omitted, kept <= 8 << 10),
        (100_000, true),
        "{kept} bytes are kept"
    );

    let session = harness
        .start_session(fixture::spec().limit(Field::OutputBudget, 200_u64))
        .await;
    session.process.emit(StreamId::Stdout, vec![b'x'; 10_000]);
    harness.settle().await;
    assert!(session.poll(PollQuery::now()).await.stdout.len() <= 200);

    let session = harness
        .start_session(fixture::spec().limit(Field::LogMode, "off"))
        .await;
    session.process.emit(StreamId::Stdout, "unlogged");
    session.process.exit(0);
    let report = session.until_ended().await;
    assert_eq!(
        (
            report.log.dropped_bytes,
            report.log.kept_bytes,
            report.log.incomplete
        ),
        (8, 0, None)
    );
    let log = session
        .client
        .read_log(session.id, fixture::log_page(0, 10))
        .await;
    assert_eq!(log, Err(ReadLogError::NoLog));
}

#[tokio::test(start_paused = true)]
async fn what_nothing_enforces_is_refused_or_said_to_be_so() {
    let harness = Harness::start().await;
    let refused = harness
        .client("alice")
        .start(fixture::spec().limit(Field::CpuTime, 1_000_u64))
        .await;
    let Err(StartError::Refused(refused)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (refused.field, refused.requested),
        (Field::CpuTime, Some(Value::Number(1_000)))
    );

    let settings = HostPolicySettings::default().on_excess(Field::CpuTime, OnExcess::Advise);
    let harness = with(settings).start().await;
    let session = harness
        .start_session(fixture::spec().limit(Field::CpuTime, 1_000_u64))
        .await;
    let decided = decided(&session, Field::CpuTime);
    assert_eq!(
        (decided.status, decided.level),
        (Status::Unsupported, Level::Unsupported)
    );
    assert_eq!(decided.requested, Some(Value::Number(1_000)));
    assert_eq!(decided.effective, None, "nothing is called enforced that is not");
}

#[tokio::test(start_paused = true)]
async fn an_excess_can_be_refused_with_its_ceiling() {
    let settings = HostPolicySettings::default()
        .ceiling(Field::WallTime, 60_000_u64)
        .on_excess(Field::WallTime, OnExcess::Refuse);
    let harness = with(settings).start().await;
    let refused = harness
        .client("alice")
        .start(fixture::spec().limit(Field::WallTime, 60_001_u64))
        .await;
    let Err(StartError::Refused(refused)) = refused else {
        panic!("{refused:?}")
    };
    assert!(refused.reason.contains("60000"), "{}", refused.reason);
    harness
        .start_session(fixture::spec().limit(Field::WallTime, 60_000_u64))
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_the_spec_says_elsewhere_is_decided_like_a_limit() {
    let settings = HostPolicySettings::default()
        .ceiling(Field::Stdin, "null")
        .ceiling(Field::Tty, false)
        .ceiling(Field::Leftovers, "sweep");
    let harness = with(settings).start().await;
    let client = harness.client("alice");
    let refused = |answer: Result<_, StartError>| match answer {
        Err(StartError::Refused(refused)) => Some(refused.field),
        _ => None,
    };
    assert_eq!(
        refused(client.start(fixture::piped_spec()).await),
        Some(Field::Stdin)
    );
    let terminal = SessionSpec {
        terminal: Some(Terminal::default()),
        ..fixture::spec()
    };
    assert_eq!(refused(client.start(terminal).await), Some(Field::Tty));
    let keep = SessionSpec {
        leftovers: Some(Leftovers::Keep),
        ..fixture::spec()
    };
    let session = harness.start_session(keep).await;
    assert_eq!(decided(&session, Field::Leftovers).status, Status::Clamped);
    session.process.fork(procession_testkit::Descendant::new(7));
    session.process.exit(0);
    assert_eq!(session.outcome().await.swept_pids, [7]);
}

#[tokio::test(start_paused = true)]
async fn the_log_begins_with_the_decision_and_ends_with_the_receipt() {
    let memory = MemoryStorage::new();
    let storage = FaultyStorage::new(Arc::new(memory.clone()));
    let harness = Harness::builder().storage(storage).start().await;
    let session = harness.start_session(fixture::spec().wall_time(5 * SECOND)).await;
    session.process.emit(StreamId::Stdout, "output");
    let outcome = session.outcome().await;
    // The log is closed behind the end.
    harness.advance(SECOND).await;
    let folder = Path::new("/logs").join(session.id.to_string());
    let reader = LogReader::open(Arc::new(memory), folder).unwrap();
    let Record::Decision(decision) = decode_record(&reader.header().application).unwrap() else {
        panic!("another record in the header")
    };
    assert_eq!(decision, *session.started.decision);
    let Record::End(end) = decode_record(&reader.end_record().unwrap().application).unwrap() else {
        panic!("another record at the end")
    };
    assert_eq!((&end.decision, &end.outcome), (&decision, &outcome));
    assert_eq!(
        end.receipt.struck.map(|struck| (struck.field, struck.at_ms)),
        Some((Field::WallTime, 5_000))
    );
    assert_eq!(end.receipt.output_bytes, 6);
}

#[tokio::test(start_paused = true)]
async fn the_policy_explains_what_was_asked_what_held_and_what_struck() {
    use procession_actors::PolicyMessage;
    let harness = Harness::start().await;
    let session = harness
        .start_session(fixture::spec().limit(Field::IdleTime, 3_000_u64))
        .await;
    session.outcome().await;
    harness.settle().await;
    let policy: ractor::ActorRef<PolicyMessage> = harness.policy_actor().into();
    let explain = |owner| {
        let (policy, session) = (policy.clone(), session.id);
        async move {
            ractor::call!(policy, |reply| PolicyMessage::Explain {
                owner,
                session,
                reply
            })
            .unwrap()
        }
    };
    let record = explain(fixture::owner("alice")).await.unwrap();
    let decision: &Decision = record.decision();
    assert_eq!(decision, &*session.started.decision);
    assert_eq!(record.receipt().unwrap().struck.unwrap().field, Field::IdleTime);
    assert_eq!(explain(fixture::owner("bob")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_in_no_answer_and_no_record() {
    let memory = MemoryStorage::new();
    let storage = FaultyStorage::new(Arc::new(memory.clone()));
    let harness = Harness::builder().storage(storage).start().await;
    let mut spec = fixture::spec();
    spec.env.insert("TOKEN".into(), "zz-top-secret".into());
    let session = harness.start_session(spec.clone()).await;
    session.process.exit(0);
    session.outcome().await;
    harness.advance(SECOND).await;
    let shown = format!(
        "{spec:?} {:?} {:?} {:?}",
        session.started,
        session.inspect().await,
        session.process.request()
    );
    assert!(!shown.contains("zz-top"), "{shown}");
    assert!(
        session
            .inspect()
            .await
            .environment_names
            .contains(&"TOKEN".to_owned())
    );
    let folder = Path::new("/logs").join(session.id.to_string());
    let reader = LogReader::open(Arc::new(memory), folder).unwrap();
    for bytes in [
        &reader.header().application,
        &reader.end_record().unwrap().application,
    ] {
        assert!(!String::from_utf8_lossy(bytes).contains("zz-top"));
    }
    assert_eq!(
        session.process.request().environment.get("TOKEN"),
        Some(std::ffi::OsStr::new("zz-top-secret"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_grace_above_its_ceiling_is_the_ceiling_for_a_stop_too() {
    let settings = HostPolicySettings::default().ceiling(Field::Grace, 1_000_u64);
    let harness = with(settings).start().await;
    harness
        .port()
        .script(procession_testkit::Script::new().ignoring(procession_core::Signal::TERM));
    let session = harness
        .start_session(fixture::spec().limit(Field::Grace, 5_000_u64))
        .await;
    session.stop(Ladder::Ask).await;
    let killed = session
        .process
        .signals()
        .into_iter()
        .find(|sent| sent.signal == procession_core::Signal::KILL);
    assert_eq!(killed.map(|sent| sent.at), Some(SECOND));
}
