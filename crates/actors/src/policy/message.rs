//! What a policy can be asked.

use std::sync::Arc;

use procession_core::{Owner, SessionId};
use procession_policy::{Capabilities, Decision, PolicyRecord, PolicyRequest, Receipt};
use ractor::RpcReplyPort;

/// What a policy can be asked.
#[derive(Debug)]
pub enum PolicyMessage {
    /// Decide on a session that is to be started; recorded before it is answered, a refusal too.
    Decide {
        /// What is asked for.
        request: Box<PolicyRequest>,
        /// The answer.
        reply: RpcReplyPort<Arc<Decision>>,
    },
    /// What was observed of a session that ended. No answer.
    Observe {
        /// Which session.
        session: SessionId,
        /// What.
        receipt: Box<Receipt>,
    },
    /// What was asked of a session, what held and what struck; none for who is not its owner.
    Explain {
        /// Who asks.
        owner: Owner,
        /// Which session.
        session: SessionId,
        /// The answer.
        reply: RpcReplyPort<Option<PolicyRecord>>,
    },
    /// What this machine can enforce.
    Capabilities {
        /// The answer.
        reply: RpcReplyPort<Arc<Capabilities>>,
    },
}

crate::local_message!(PolicyMessage);
