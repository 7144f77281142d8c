//! What is promised by a policy.

use std::sync::Arc;

use procession_actors::{PolicyArguments, PolicyMessage, SpawnActor, SystemClock};
use procession_core::{
    Field, Moment, Outcome, Owner, RequestedLimits, SessionId, Value, WallTime, field::Kind,
};
use procession_policy::{Capabilities, Decision, HostPolicy, Observation, PolicyRecord, Receipt, Status};
use procession_process::ProcessPort;

use super::{UnderTest, at_once};
use crate::{ScriptedPort, fixture};

/// All claims, one after the other.
///
/// # Panics
/// At the first promise that is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn all(service: &impl SpawnActor<PolicyArguments, PolicyMessage>) {
    every_start_gets_one_decision_for_every_field(service).await;
    what_was_requested_is_on_record_as_it_was_given(service).await;
    a_refusal_is_recorded_and_a_reason_is_given(service).await;
    explanations_are_for_the_owner_alone(service).await;
    what_was_observed_is_explained(service).await;
    capabilities_are_those_of_the_machine(service).await;
    a_caller_that_vanished_and_an_end_that_is_unknown_harm_nobody(service).await;
}

async fn start(service: &impl SpawnActor<PolicyArguments, PolicyMessage>) -> UnderTest<PolicyMessage> {
    let arguments = PolicyArguments {
        host: Arc::new(HostPolicy::default()),
        capabilities: Arc::new(capabilities()),
        clock: SystemClock::start(),
    };
    UnderTest::start(service, arguments).await
}

fn capabilities() -> Capabilities {
    ScriptedPort::new().capabilities()
}

impl UnderTest<PolicyMessage> {
    async fn decide(&self, session: SessionId, owner: &Owner, limits: RequestedLimits) -> Arc<Decision> {
        let request = Box::new(fixture::policy_request(session, owner, limits));
        let question = self.ask("a decision", |reply| PolicyMessage::Decide { request, reply });
        at_once("a decision", question).await
    }

    async fn explain(&self, session: SessionId, owner: &Owner) -> Option<PolicyRecord> {
        let owner = owner.clone();
        self.ask("an explanation", |reply| PolicyMessage::Explain {
            owner,
            session,
            reply,
        })
        .await
    }
}

/// Values to ask for, each of the field's kind.
fn values(field: Field) -> Vec<Value> {
    match field.spec().kind {
        Kind::Number { least } => vec![least.into(), (least + 1).into(), u64::MAX.into()],
        Kind::Integer { least, most } => vec![Value::Integer(least), Value::Integer(most)],
        Kind::Flag => vec![true.into(), false.into()],
        Kind::Word(words) => words.iter().map(|word| Value::from(*word)).collect(),
        Kind::Size => vec!["24x80".into()],
        Kind::Text => vec!["/".into()],
        Kind::List => vec![Value::List(vec!["A".to_owned()])],
    }
}

/// Every start gets exactly one decision for every field, about its own session and owner.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn every_start_gets_one_decision_for_every_field(
    service: &impl SpawnActor<PolicyArguments, PolicyMessage>,
) {
    let policy = start(service).await;
    for (number, limits) in [RequestedLimits::new(), [(Field::WallTime, 5_u64.into())].into()]
        .into_iter()
        .enumerate()
    {
        let (session, owner) = (fixture::session_id(number as u64), fixture::owner("alice"));
        let decision = policy.decide(session, &owner, limits.clone()).await;
        assert_eq!(decision.session(), session);
        assert_eq!(
            (decision.principal(), decision.agent()),
            (owner.principal.as_str(), owner.agent.as_str())
        );
        let decided: Vec<_> = decision.fields().iter().map(|decided| decided.field).collect();
        assert_eq!(decided, Field::ALL, "each field once, in the order of the table");
        for decided in decision.fields() {
            let is_refused = decided.status == Status::Refused;
            assert_eq!(
                decided.refusal.is_some(),
                is_refused,
                "{}: refused, and why",
                decided.field
            );
            assert!(
                !is_refused || decided.effective.is_none(),
                "{}: refused and in force",
                decided.field
            );
        }
    }
}

/// What was requested stands in the decision as it was given, whatever became of it, and nothing else does.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn what_was_requested_is_on_record_as_it_was_given(
    service: &impl SpawnActor<PolicyArguments, PolicyMessage>,
) {
    let policy = start(service).await;
    let mut number = 0;
    for field in Field::ALL {
        for value in values(*field) {
            number += 1;
            let limits = RequestedLimits::from([(*field, value.clone())]);
            let decision = policy
                .decide(fixture::session_id(number), &fixture::owner("alice"), limits)
                .await;
            for decided in decision.fields() {
                let expected = (decided.field == *field).then_some(&value);
                assert_eq!(
                    decided.requested.as_ref(),
                    expected,
                    "{}, asked for {field}",
                    decided.field
                );
                let is_as_requested = decided.status == Status::AsRequested;
                assert!(
                    !is_as_requested || decided.requested.is_some(),
                    "{}",
                    decided.field
                );
                assert!(
                    decided.status != Status::Defaulted || decided.requested.is_none(),
                    "{}",
                    decided.field
                );
            }
        }
    }
}

/// A refusal is a decision like any other: it names its field and its reason, and is on record before it is answered.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_refusal_is_recorded_and_a_reason_is_given(
    service: &impl SpawnActor<PolicyArguments, PolicyMessage>,
) {
    let policy = start(service).await;
    let (session, owner) = (fixture::session_id(1), fixture::owner("alice"));
    // Nothing enforces a network ban here.
    let limits = RequestedLimits::from([(Field::Network, Value::Flag(false))]);
    let decision = policy.decide(session, &owner, limits).await;
    let decided = decision.get(Field::Network);
    let is_refused = decided.is_some_and(|decided| decided.status == Status::Refused);
    let is_not_enforced = decided.is_some_and(|decided| decided.status == Status::Unsupported);
    assert!(
        is_refused || is_not_enforced,
        "what nothing enforces is not granted: {decided:?}"
    );
    assert_eq!(decision.refusal().is_some(), is_refused);
    let record = policy.explain(session, &owner).await;
    assert_eq!(record.as_ref().map(PolicyRecord::decision), Some(&decision));
    assert_eq!(record.and_then(|record| record.receipt().cloned()), None);
}

/// What was decided is explained to the owner, and to nobody else.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn explanations_are_for_the_owner_alone(service: &impl SpawnActor<PolicyArguments, PolicyMessage>) {
    let policy = start(service).await;
    let (session, alice) = (fixture::session_id(1), fixture::owner("alice"));
    let decision = policy.decide(session, &alice, RequestedLimits::new()).await;
    let Owner {
        principal,
        agent,
        scope,
    } = alice.clone();
    let strangers = [
        fixture::owner("bob"),
        Owner::new(&principal, &agent, "another scope"),
        Owner::new(&principal, "another agent", &scope),
        Owner::new("another principal", &agent, &scope),
    ];
    for stranger in strangers {
        assert_eq!(
            policy.explain(session, &stranger).await,
            None,
            "explained to {stranger:?}"
        );
    }
    assert_eq!(
        policy.explain(fixture::session_id(2), &alice).await,
        None,
        "a session that nobody asked for"
    );
    assert_eq!(
        policy
            .explain(session, &alice)
            .await
            .as_ref()
            .map(PolicyRecord::decision),
        Some(&decision)
    );
}

/// What was observed of a session's end is explained with it.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn what_was_observed_is_explained(service: &impl SpawnActor<PolicyArguments, PolicyMessage>) {
    let policy = start(service).await;
    let (session, owner) = (fixture::session_id(1), fixture::owner("alice"));
    let decision = policy.decide(session, &owner, RequestedLimits::new()).await;
    let outcome = Outcome::lost(Moment::from_millis(7), WallTime::default(), Some(Moment::ZERO));
    let receipt = Receipt::new(&decision, &outcome, &Observation::default());
    policy.tell(PolicyMessage::Observe {
        session,
        receipt: Box::new(receipt.clone()),
    });
    let record = policy.explain(session, &owner).await;
    assert_eq!(record.and_then(|record| record.receipt().cloned()), Some(receipt));
}

/// Capabilities are told as the machine has them.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn capabilities_are_those_of_the_machine(
    service: &impl SpawnActor<PolicyArguments, PolicyMessage>,
) {
    let policy = start(service).await;
    let told = policy
        .ask("capabilities", |reply| PolicyMessage::Capabilities { reply })
        .await;
    assert_eq!(*told, capabilities());
}

/// Callers that vanish, and the end of a session that nobody asked for, leave the policy as it was.
///
/// # Panics
/// When the promise is not kept.
///
/// # Cancel safety
/// When dropped, no actor is left.
pub async fn a_caller_that_vanished_and_an_end_that_is_unknown_harm_nobody(
    service: &impl SpawnActor<PolicyArguments, PolicyMessage>,
) {
    let policy = start(service).await;
    let owner = fixture::owner("alice");
    let (reply, answer) = tokio::sync::oneshot::channel();
    drop(answer);
    let request = Box::new(fixture::policy_request(
        fixture::session_id(1),
        &owner,
        RequestedLimits::new(),
    ));
    policy.tell(PolicyMessage::Decide {
        request,
        reply: reply.into(),
    });
    let receipt = Box::new(Receipt::default());
    policy.tell(PolicyMessage::Observe {
        session: fixture::session_id(2),
        receipt,
    });
    let decision = policy
        .decide(fixture::session_id(3), &owner, RequestedLimits::new())
        .await;
    assert_eq!(decision.fields().len(), Field::ALL.len());
}
