//! An actor between whose mailbox and handler the test stands.

use std::fmt;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::Gate;

/// What becomes of a message before the actor sees it.
#[derive(Debug)]
pub enum Verdict {
    /// The actor handles it.
    Handle,
    /// The actor handles it once the gate is open; until then it does nothing else.
    Hold(Gate),
    /// It is dropped, with its reply.
    Drop,
    /// The handler panics.
    Panic,
    /// The handler fails with an error.
    Fail,
}

/// An actor with a look at each of its messages before it is handled.
///
/// ```
/// use procession_actors::{LogActor, LogArguments, LogMessage, Slot, actor};
/// use procession_testkit::{Intercepted, Verdict};
///
/// let slot: Slot<LogArguments, LogMessage> = Slot::supervised(actor(|arguments| {
///     let log = Intercepted::new(LogActor, |message: &LogMessage| match message {
///         LogMessage::Close { .. } => Verdict::Panic,
///         _ => Verdict::Handle,
///     });
///     (log, arguments)
/// }));
/// # let _ = slot;
/// ```
pub struct Intercepted<A: Actor> {
    actor: A,
    look: Look<A::Msg>,
}

type Look<M> = Box<dyn Fn(&M) -> Verdict + Send + Sync>;

impl<A: Actor + fmt::Debug> fmt::Debug for Intercepted<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intercepted")
            .field("actor", &self.actor)
            .finish_non_exhaustive()
    }
}

impl<A: Actor> Intercepted<A> {
    /// This actor, with this look at its messages.
    pub fn new(actor: A, look: impl Fn(&A::Msg) -> Verdict + Send + Sync + 'static) -> Self {
        Self {
            actor,
            look: Box::new(look),
        }
    }
}

impl<A: Actor> Actor for Intercepted<A> {
    type Msg = A::Msg;
    type State = A::State;
    type Arguments = A::Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<A::Msg>,
        arguments: A::Arguments,
    ) -> Result<A::State, ActorProcessingErr> {
        self.actor.pre_start(myself, arguments).await
    }

    async fn post_start(
        &self,
        myself: ActorRef<A::Msg>,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        self.actor.post_start(myself, state).await
    }

    async fn post_stop(
        &self,
        myself: ActorRef<A::Msg>,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        self.actor.post_stop(myself, state).await
    }

    async fn handle(
        &self,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        match (self.look)(&message) {
            Verdict::Handle => {}
            Verdict::Hold(gate) => gate.pass().await,
            Verdict::Drop => return Ok(()),
            Verdict::Panic => panic!("the test has this handler panic"),
            Verdict::Fail => return Err("the test has this handler fail".into()),
        }
        self.actor.handle(myself, message, state).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<A::Msg>,
        event: SupervisionEvent,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        self.actor.handle_supervisor_evt(myself, event, state).await
    }
}
