//! Slots: where an embedder puts an actor of its own.
//!
//! A slot is typed by the messages that its actor takes, not by the actor: any actor whose message type can be made
//! from ours fits, ours itself included.

use std::{fmt, future::Future, sync::Arc};

use procession_process::BoxFuture;
use ractor::{Actor, ActorCell, DerivedActorRef, Message, SpawnErr};

/// Starts an actor that takes messages of the type `M`.
///
/// Implemented for closures; [`actor`] makes one from a handler and its arguments.
pub trait SpawnActor<A, M: Message>: Send + Sync + 'static {
    /// Starts the actor, linked to its supervisor.
    ///
    /// # Errors
    /// When the actor did not come up.
    ///
    /// # Cancel safety
    /// When dropped, no actor is left.
    fn spawn(
        &self,
        arguments: A,
        supervisor: ActorCell,
    ) -> BoxFuture<'static, Result<DerivedActorRef<M>, SpawnErr>>;
}

impl<A, M, F, Fut> SpawnActor<A, M> for F
where
    M: Message,
    F: Fn(A, ActorCell) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<DerivedActorRef<M>, SpawnErr>> + Send + 'static,
{
    fn spawn(
        &self,
        arguments: A,
        supervisor: ActorCell,
    ) -> BoxFuture<'static, Result<DerivedActorRef<M>, SpawnErr>> {
        Box::pin(self(arguments, supervisor))
    }
}

/// The service that starts an actor of this kind: `make` gives the handler and what its `pre_start` gets.
///
/// ```
/// use procession_actors::{PolicyArguments, PolicyMessage, Slot, actor};
/// use ractor::{Actor, ActorProcessingErr, ActorRef};
///
/// struct NoPolicy;
///
/// impl Actor for NoPolicy {
///     type Msg = PolicyMessage;
///     type State = ();
///     type Arguments = ();
///
///     async fn pre_start(&self, _: ActorRef<PolicyMessage>, (): ()) -> Result<(), ActorProcessingErr> {
///         Ok(())
///     }
/// }
///
/// let slot: Slot<PolicyArguments, PolicyMessage> = Slot::supervised(actor(|_| (NoPolicy, ())));
/// # let _ = slot;
/// ```
pub fn actor<A, M, H>(make: impl Fn(A) -> (H, H::Arguments) + Send + Sync + 'static) -> impl SpawnActor<A, M>
where
    A: Send + 'static,
    M: Message + TryFrom<H::Msg>,
    H: Actor,
    H::Msg: From<M>,
{
    move |arguments: A, supervisor: ActorCell| {
        let (handler, arguments) = make(arguments);
        async move {
            let (actor, _) = Actor::spawn_linked(None, handler, arguments, supervisor).await?;
            Ok(actor.get_derived::<M>())
        }
    }
}

/// An actor that the system needs: started, linked and restarted by it, or the embedder's own.
pub enum Slot<A, M: Message> {
    /// The system starts it, and starts it again when it died.
    Supervised(Arc<dyn SpawnActor<A, M>>),
    /// The embedder owns it; when it is gone, what it was needed for is refused.
    External(DerivedActorRef<M>),
}

impl<A, M: Message> Slot<A, M> {
    /// A slot whose actor the system starts.
    pub fn supervised(service: impl SpawnActor<A, M>) -> Self {
        Self::Supervised(Arc::new(service))
    }
}

impl<A, M: Message> Clone for Slot<A, M> {
    fn clone(&self) -> Self {
        match self {
            Self::Supervised(service) => Self::Supervised(Arc::clone(service)),
            Self::External(actor) => Self::External(actor.clone()),
        }
    }
}

impl<A, M: Message> fmt::Debug for Slot<A, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Supervised(_) => f.write_str("Supervised"),
            Self::External(actor) => f.debug_tuple("External").field(&actor.get_id()).finish(),
        }
    }
}
