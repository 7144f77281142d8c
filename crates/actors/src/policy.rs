//! The policy actor: one per system; it decides, records, receives what was observed, and answers what was asked of a
//! session, what held and what struck.
//!
//! It is supervised by the registry, which starts it again when it died; a decision that was asked for then is one
//! refused start. It never runs a process and never looks at a session.

use std::sync::Arc;

use procession_policy::{BookBounds, Capabilities, HostPolicy, PolicyBook, decide};
use ractor::{Actor, ActorProcessingErr, ActorRef};

mod message;

pub use message::PolicyMessage;

use crate::clock::SystemClock;

/// What the policy actor is made of.
#[derive(Debug, Clone)]
pub struct PolicyArguments {
    /// The host's rules.
    pub host: Arc<HostPolicy>,
    /// What this machine can enforce.
    pub capabilities: Arc<Capabilities>,
    /// The system's clock.
    pub clock: SystemClock,
}

/// The policy actor.
#[derive(Debug, Default)]
pub struct PolicyActor;

/// What the policy actor knows.
#[derive(Debug)]
pub struct PolicyState {
    arguments: PolicyArguments,
    book: PolicyBook,
}

impl Actor for PolicyActor {
    type Msg = PolicyMessage;
    type State = PolicyState;
    type Arguments = PolicyArguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<PolicyMessage>,
        arguments: PolicyArguments,
    ) -> Result<PolicyState, ActorProcessingErr> {
        Ok(PolicyState {
            arguments,
            book: PolicyBook::new(BookBounds::default()),
        })
    }

    async fn handle(
        &self,
        _myself: ActorRef<PolicyMessage>,
        message: PolicyMessage,
        state: &mut PolicyState,
    ) -> Result<(), ActorProcessingErr> {
        let now = state.arguments.clock.now();
        match message {
            PolicyMessage::Decide { request, reply } => {
                let decision = Arc::new(decide(
                    &request,
                    &state.arguments.host,
                    &state.arguments.capabilities,
                ));
                // Recorded first, then answered: a refusal is a decision like any other.
                state.book.record(&request.owner, Arc::clone(&decision), now);
                let _ = reply.send(decision);
            }
            PolicyMessage::Observe { session, receipt } => {
                if state.book.record_end(session, *receipt, now).is_err() {
                    tracing::debug!(%session, "an end was observed of a session whose decision is not on record");
                }
            }
            PolicyMessage::Explain {
                owner,
                session,
                reply,
            } => {
                let _ = reply.send(state.book.get(&owner, session).cloned());
            }
            PolicyMessage::Capabilities { reply } => {
                let _ = reply.send(Arc::clone(&state.arguments.capabilities));
            }
        }
        Ok(())
    }
}
