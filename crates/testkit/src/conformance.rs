//! Suites that an actor must pass that replaces one of ours.
//!
//! Each takes what starts the actor, as its slot does, and panics at the first promise that is not kept. They run on a
//! paused clock, `all` one after the other or each claim by itself.
//!
//! ```
//! use procession_actors::{PolicyActor, actor};
//! use procession_testkit::conformance;
//!
//! # fn main() { tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! conformance::policy::all(&actor(|arguments| (PolicyActor, arguments))).await;
//! # }) }
//! ```

pub mod log;
pub mod policy;
pub mod session;

use std::time::Duration;

use procession_actors::SpawnActor;
use ractor::{DerivedActorRef, Message, RpcReplyPort, rpc::CallResult};

use crate::{Probe, patience::expect};

/// What the probe that supervises an actor under test is sent: nothing.
#[derive(Debug)]
struct Nothing;

procession_actors::local_message!(Nothing);

/// An actor under test with its supervisor.
struct UnderTest<M: Message> {
    actor: DerivedActorRef<M>,
    /// Takes the events of its ends.
    _supervisor: Probe<Nothing>,
}

impl<M: Message> UnderTest<M> {
    async fn start<A>(service: &impl SpawnActor<A, M>, arguments: A) -> Self {
        let supervisor = Probe::<Nothing>::start().await;
        match service.spawn(arguments, supervisor.actor().get_cell()).await {
            Ok(actor) => Self {
                actor,
                _supervisor: supervisor,
            },
            Err(error) => panic!("the actor did not come up: {error}"),
        }
    }

    async fn ask<T: Send + 'static>(&self, what: &str, question: impl FnOnce(RpcReplyPort<T>) -> M) -> T {
        match expect(what, self.actor.call(question, None)).await {
            Ok(CallResult::Success(answer)) => answer,
            Ok(_) => panic!("the reply was dropped: {what}"),
            Err(error) => panic!("the actor is dead: {what}: {error}"),
        }
    }

    fn tell(&self, message: M) {
        assert!(self.actor.cast(message).is_ok(), "the actor is dead");
    }
}

/// Checks that an answer comes without time passing.
async fn at_once<T>(what: &str, answer: impl Future<Output = T>) -> T {
    let before = tokio::time::Instant::now();
    let answer = expect(what, answer).await;
    assert_eq!(before.elapsed(), Duration::ZERO, "{what} took time");
    answer
}
