//! A policy actor of one's own in the policy's slot, with a message type of its own.
//!
//! It bounds what some agents may ask for, leaves the decision itself to the product, and can be asked for an audit,
//! which ours cannot.
//!
//! `cargo run --example replace_policy`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Arc, time::Duration};

use procession_actors::{
    PolicyArguments, PolicyMessage, Slot, System, SystemClock, error::StartError, local_message, new_scope,
};
use procession_core::{Field, Owner, SessionSpec, Value, spec::StdinMode};
use procession_policy::{Ceilings, HostPolicy, decide};
use procession_process::{ProcessPort, UnixPort};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

/// What this policy can be asked: all that the system asks, and one thing more.
#[derive(Debug)]
enum HouseMessage {
    System(PolicyMessage),
    Audit { reply: RpcReplyPort<Vec<String>> },
}

local_message!(HouseMessage);

// These two conversions are all that a slot needs to take an actor with another message type.
impl From<PolicyMessage> for HouseMessage {
    fn from(message: PolicyMessage) -> Self {
        Self::System(message)
    }
}

impl TryFrom<HouseMessage> for PolicyMessage {
    type Error = HouseMessage;

    fn try_from(message: HouseMessage) -> Result<Self, HouseMessage> {
        match message {
            HouseMessage::System(message) => Ok(message),
            other @ HouseMessage::Audit { .. } => Err(other),
        }
    }
}

/// The policy of this house.
struct HousePolicy {
    guests: Ceilings,
}

struct HouseState {
    arguments: PolicyArguments,
    audit: Vec<String>,
}

impl Actor for HousePolicy {
    type Msg = HouseMessage;
    type State = HouseState;
    type Arguments = PolicyArguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<HouseMessage>,
        arguments: PolicyArguments,
    ) -> Result<HouseState, ActorProcessingErr> {
        Ok(HouseState {
            arguments,
            audit: Vec::new(),
        })
    }

    async fn handle(
        &self,
        _myself: ActorRef<HouseMessage>,
        message: HouseMessage,
        state: &mut HouseState,
    ) -> Result<(), ActorProcessingErr> {
        // A caller that gave up is nobody's failure: what a reply port says to that is of no interest.
        match message {
            HouseMessage::System(PolicyMessage::Decide { mut request, reply }) => {
                if request.owner.agent == "guest" {
                    request.owner_ceilings = self.guests.clone();
                }
                let decision = decide(&request, &state.arguments.host, &state.arguments.capabilities);
                let verdict = decision
                    .refusal()
                    .map_or_else(|| "granted".to_owned(), |refusal| refusal.to_string());
                state.audit.push(format!("{}: {verdict}", request.owner.agent));
                let _ = reply.send(Arc::new(decision));
            }
            HouseMessage::System(PolicyMessage::Capabilities { reply }) => {
                let _ = reply.send(Arc::clone(&state.arguments.capabilities));
            }
            // This house keeps no receipts, and explains nothing afterwards.
            HouseMessage::System(PolicyMessage::Observe { .. }) => {}
            HouseMessage::System(PolicyMessage::Explain { reply, .. }) => drop(reply.send(None)),
            HouseMessage::Audit { reply } => drop(reply.send(state.audit.clone())),
        }
        Ok(())
    }
}

/// What came of the same request by two agents, and the audit.
#[derive(Debug)]
struct Report {
    resident_started: bool,
    guest_refused: String,
    audit: Vec<String>,
}

async fn run() -> Result<Report, Box<dyn Error>> {
    let port = Arc::new(UnixPort::start()?);
    let arguments = PolicyArguments {
        host: Arc::new(HostPolicy::default()),
        capabilities: Arc::new(port.capabilities()),
        clock: SystemClock::start(),
    };
    // A ceiling of `null` on standard input means that guests cannot have one.
    let guests = Ceilings::new([(Field::Stdin, Value::from("null"))].into())?;
    let (policy, _) = Actor::spawn(None, HousePolicy { guests }, arguments).await?;

    // External: the actor is ours, and so is the care for it. With `Slot::supervised(actor(..))` the system would start
    // it, and start it again after a death.
    let slot = Slot::External(policy.get_derived());
    let system = System::builder(port).policy_slot(slot).start().await?;

    let mut spec = SessionSpec::argv(["true"]);
    spec.stdin = StdinMode::Piped;
    let resident = system.client(Owner::new("examples", "resident", new_scope()?));
    let guest = system.client(Owner::new("examples", "guest", new_scope()?));
    let resident_started = resident.start(spec.clone()).await.is_ok();
    let guest_refused = match guest.start(spec).await {
        Err(StartError::Refused(refusal)) => refusal.to_string(),
        other => return Err(format!("a guest got {other:?}").into()),
    };

    let audit = ractor::call!(policy, |reply| HouseMessage::Audit { reply })?;
    system.shutdown(None, Duration::from_secs(5)).await;
    policy.stop(None);
    Ok(Report {
        resident_started,
        guest_refused,
        audit,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let report = run().await?;
    println!("the resident's session started: {}", report.resident_started);
    println!("the guest was told: {}", report.guest_refused);
    report.audit.iter().for_each(|line| println!("audit: {line}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_house_decides_and_keeps_an_audit() {
        let report = run().await.expect("it runs");
        assert!(report.resident_started);
        assert!(report.guest_refused.contains("stdin"), "{}", report.guest_refused);
        assert_eq!(report.audit.len(), 2);
        assert_eq!(report.audit[0], "resident: granted");
        assert!(
            report.audit[1].starts_with("guest: `stdin`"),
            "{}",
            report.audit[1]
        );
    }
}
