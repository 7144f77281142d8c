//! The slots of the registry's own children.

use std::sync::Arc;

use procession_policy::Capabilities;
use ractor::{ActorRef, DerivedActorRef, Message, SpawnErr};

use super::{RegistryArguments, RegistryMessage};
use crate::{policy::PolicyArguments, slot::Slot};

/// Fills a slot: starts the actor, or takes the embedder's.
pub(super) fn fill<A, M>(
    slot: &Slot<A, M>,
    arguments: A,
    supervisor: &ActorRef<RegistryMessage>,
) -> impl Future<Output = Result<DerivedActorRef<M>, SpawnErr>> + Send + 'static
where
    A: Send + 'static,
    M: Message,
{
    let (slot, supervisor) = (slot.clone(), supervisor.get_cell());
    async move {
        match slot {
            Slot::Supervised(service) => service.spawn(arguments, supervisor).await,
            Slot::External(actor) => Ok(actor),
        }
    }
}

pub(super) fn policy_arguments(
    arguments: &RegistryArguments,
    capabilities: &Arc<Capabilities>,
) -> PolicyArguments {
    PolicyArguments {
        host: Arc::clone(&arguments.policy),
        capabilities: Arc::clone(capabilities),
        clock: arguments.clock,
    }
}
