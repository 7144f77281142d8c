//! A stand-in for any actor.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef, Message, SupervisionEvent};
use tokio::sync::mpsc;

use crate::patience::expect;

/// An actor that hands what it is sent to the test.
///
/// Questions arrive with their reply, so the test answers when and how it likes, or never. A script can answer some and
/// let the rest through. The actor ends with its probe.
///
/// ```
/// use procession_actors::PolicyMessage;
/// use procession_testkit::Probe;
///
/// # fn main() { tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let mut policy = Probe::<PolicyMessage>::start().await;
/// let actor = policy.derived();
/// let asked = tokio::spawn(async move { actor.call(|reply| PolicyMessage::Capabilities { reply }, None).await });
/// let PolicyMessage::Capabilities { reply } = policy.next().await else { panic!("another question") };
/// drop(reply); // A policy that does not answer.
/// assert!(!asked.await.unwrap().unwrap().is_success());
/// # }) }
/// ```
pub struct Probe<M> {
    actor: ActorRef<M>,
    received: mpsc::UnboundedReceiver<M>,
    events: mpsc::UnboundedReceiver<SupervisionEvent>,
}

impl<M> fmt::Debug for Probe<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("actor", &self.actor.get_id())
            .finish_non_exhaustive()
    }
}

impl<M: Message> Probe<M> {
    /// A probe that lets everything through to the test.
    ///
    /// # Panics
    /// When no actor can be started.
    ///
    /// # Cancel safety
    /// When dropped, no actor is left.
    pub async fn start() -> Self {
        Self::scripted(Some).await
    }

    /// A probe whose script sees each message first and keeps it, or lets it through.
    ///
    /// # Panics
    /// When no actor can be started.
    ///
    /// # Cancel safety
    /// When dropped, no actor is left.
    pub async fn scripted(script: impl FnMut(M) -> Option<M> + Send + 'static) -> Self {
        let (through, received) = mpsc::unbounded_channel();
        let (told, events) = mpsc::unbounded_channel();
        let handler = ProbeActor {
            script: Mutex::new(Box::new(script)),
            through,
            told,
        };
        match Actor::spawn(None, handler, ()).await {
            Ok((actor, _)) => Self {
                actor,
                received,
                events,
            },
            Err(error) => panic!("the probe did not come up: {error}"),
        }
    }

    /// The actor.
    #[must_use]
    pub const fn actor(&self) -> &ActorRef<M> {
        &self.actor
    }

    /// The actor, as slots take it.
    #[must_use]
    pub fn derived(&self) -> DerivedActorRef<M> {
        self.actor.get_derived()
    }

    /// The next message that was let through.
    ///
    /// # Panics
    /// When none comes within [`crate::PATIENCE`], or the actor is dead.
    ///
    /// # Cancel safety
    /// Cancel safe: no message is lost.
    pub async fn next(&mut self) -> M {
        match expect("a message for the probe", self.received.recv()).await {
            Some(message) => message,
            None => panic!("the probe's actor is dead"),
        }
    }

    /// Checks that nothing comes for this long, on tokio's clock.
    ///
    /// # Panics
    /// When a message comes.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn expect_none(&mut self, time: Duration) {
        let message = tokio::time::timeout(time, self.received.recv()).await;
        assert!(
            !matches!(message, Ok(Some(_))),
            "a message came that was not to come"
        );
    }

    /// The next end of an actor that this probe supervises.
    ///
    /// # Panics
    /// When none comes within [`crate::PATIENCE`], or the actor is dead.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    pub async fn next_end(&mut self) -> SupervisionEvent {
        loop {
            match expect("the end of a supervised actor", self.events.recv()).await {
                Some(SupervisionEvent::ActorStarted(_)) => {}
                Some(event) => return event,
                None => panic!("the probe's actor is dead"),
            }
        }
    }
}

impl<M> Drop for Probe<M> {
    fn drop(&mut self) {
        self.actor.stop(None);
    }
}

type Look<M> = Box<dyn FnMut(M) -> Option<M> + Send>;

struct ProbeActor<M> {
    script: Mutex<Look<M>>,
    through: mpsc::UnboundedSender<M>,
    told: mpsc::UnboundedSender<SupervisionEvent>,
}

impl<M: Message> Actor for ProbeActor<M> {
    type Msg = M;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<M>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _myself: ActorRef<M>, message: M, (): &mut ()) -> Result<(), ActorProcessingErr> {
        let rest = (self.script.lock().unwrap_or_else(PoisonError::into_inner))(message);
        if let Some(message) = rest {
            // A test that has ended looks at nothing more.
            let _ = self.through.send(message);
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<M>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let _ = self.told.send(event);
        Ok(())
    }
}
