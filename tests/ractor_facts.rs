//! What we rely on in the actor engine, and would notice nowhere else if it changed.
#![cfg(test)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use procession_testkit::{Gate, Probe};
use ractor::{
    Actor, ActorProcessingErr, ActorRef, ActorStatus, MessagingErr, RactorErr, RpcReplyPort, SpawnErr,
    SupervisionEvent, rpc::CallResult,
};
use tokio::time::Instant;

/// What an actor here is asked to do.
#[derive(Debug)]
enum Do {
    Answer(RpcReplyPort<u32>),
    Keep(RpcReplyPort<u32>),
    WaitFor(Gate),
    Panic,
    Fail,
}

procession_actors::local_message!(Do);

/// Where parts of an actor end.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<SeenParts>);

#[derive(Debug, Default)]
struct SeenParts {
    stopped: AtomicBool,
    handler_dropped: AtomicBool,
    state_dropped: AtomicBool,
    handled: AtomicUsize,
}

struct DropState(Seen);

impl Drop for DropState {
    fn drop(&mut self) {
        self.0.0.state_dropped.store(true, Ordering::SeqCst);
    }
}

struct Subject {
    seen: Seen,
    kept: Mutex<Vec<RpcReplyPort<u32>>>,
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.seen.0.handler_dropped.store(true, Ordering::SeqCst);
    }
}

impl Subject {
    fn new(seen: &Seen) -> Self {
        Self {
            seen: seen.clone(),
            kept: Mutex::default(),
        }
    }
}

impl Actor for Subject {
    type Msg = Do;
    type State = DropState;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Do>, (): ()) -> Result<DropState, ActorProcessingErr> {
        Ok(DropState(self.seen.clone()))
    }

    async fn handle(
        &self,
        _: ActorRef<Do>,
        message: Do,
        _: &mut DropState,
    ) -> Result<(), ActorProcessingErr> {
        self.seen.0.handled.fetch_add(1, Ordering::SeqCst);
        match message {
            Do::Answer(reply) => drop(reply.send(1)),
            Do::Keep(reply) => self.kept.lock().unwrap().push(reply),
            Do::WaitFor(gate) => gate.pass().await,
            Do::Panic => panic!("as was asked"),
            Do::Fail => return Err("as was asked".into()),
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Do>, _: &mut DropState) -> Result<(), ActorProcessingErr> {
        self.seen.0.stopped.store(true, Ordering::SeqCst);
        Ok(())
    }
}

#[derive(Debug)]
struct Nothing;

procession_actors::local_message!(Nothing);

async fn supervised(supervisor: &Probe<Nothing>) -> (ActorRef<Do>, Seen) {
    let seen = Seen::default();
    let spawned = Actor::spawn_linked(None, Subject::new(&seen), (), supervisor.actor().get_cell()).await;
    (spawned.unwrap().0, seen)
}

fn keep(actor: &ActorRef<Do>) -> tokio::task::JoinHandle<Result<u32, RactorErr<Do>>> {
    let actor = actor.clone();
    tokio::spawn(async move { ractor::call!(actor, Do::Keep) })
}

async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_an_error_are_failures_without_post_stop() {
    for message in [Do::Panic, Do::Fail] {
        let mut supervisor = Probe::start().await;
        let (actor, seen) = supervised(&supervisor).await;
        actor.cast(message).unwrap();
        assert!(matches!(
            supervisor.next_end().await,
            SupervisionEvent::ActorFailed(..)
        ));
        settle().await;
        assert!(!seen.0.stopped.load(Ordering::SeqCst));
        assert!(seen.0.handler_dropped.load(Ordering::SeqCst) && seen.0.state_dropped.load(Ordering::SeqCst));
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_on_an_actor_that_dies_fail_at_once() {
    for death in [Some(Do::Panic), Some(Do::Fail), None] {
        let supervisor = Probe::start().await;
        let (actor, _) = supervised(&supervisor).await;
        let kept = keep(&actor);
        settle().await;
        let gate = Gate::closed();
        actor.cast(Do::WaitFor(gate.clone())).unwrap();
        let is_kill = death.is_none();
        if let Some(message) = death {
            actor.cast(message).unwrap();
        }
        // A call that is still in the mailbox fails as well as one that is parked.
        let queued = keep(&actor);
        settle().await;
        let began = Instant::now();
        if is_kill {
            actor.kill();
        } else {
            gate.open();
        }
        for call in [kept, queued] {
            let answer = call.await.unwrap();
            assert!(
                matches!(answer, Err(RactorErr::Messaging(MessagingErr::ChannelClosed))),
                "{answer:?}"
            );
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(
            matches!(actor.cast(Do::Fail), Err(MessagingErr::SendErr(Do::Fail))),
            "the message comes back"
        );
    }
}

/// A supervisor whose handler waits at a gate.
struct BusySupervisor(Gate);

impl Actor for BusySupervisor {
    type Msg = Nothing;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Nothing>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Nothing>, _: Nothing, (): &mut ()) -> Result<(), ActorProcessingErr> {
        self.0.pass().await;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Nothing>,
        _: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_drops_the_handler_at_once_while_the_state_waits_for_the_supervisor() {
    let gate = Gate::closed();
    let (supervisor, _) = Actor::spawn(None, BusySupervisor(gate.clone()), ())
        .await
        .unwrap();
    let seen = Seen::default();
    let subject = Subject::new(&seen);
    let (actor, _) = Actor::spawn_linked(None, subject, (), supervisor.get_cell())
        .await
        .unwrap();
    supervisor.cast(Nothing).unwrap();
    gate.arrived(1).await;
    let kept = keep(&actor);
    settle().await;
    actor.kill();
    settle().await;
    assert!(
        seen.0.handler_dropped.load(Ordering::SeqCst),
        "the handler holds what must die at once"
    );
    assert!(
        !seen.0.state_dropped.load(Ordering::SeqCst),
        "the state is with the supervisor"
    );
    assert!(kept.await.unwrap().is_err());
    gate.open();
    settle().await;
    assert!(seen.0.state_dropped.load(Ordering::SeqCst));
    assert!(!seen.0.stopped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_kill_reaches_a_handler_that_waits() {
    let supervisor = Probe::start().await;
    let (actor, seen) = supervised(&supervisor).await;
    let gate = Gate::closed();
    actor.cast(Do::WaitFor(gate.clone())).unwrap();
    gate.arrived(1).await;
    actor.kill();
    settle().await;
    assert_eq!(actor.get_status(), ActorStatus::Stopped);
    assert!(seen.0.handler_dropped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_stop_overtakes_what_waits_in_the_mailbox() {
    let supervisor = Probe::start().await;
    let (actor, seen) = supervised(&supervisor).await;
    let gate = Gate::closed();
    actor.cast(Do::WaitFor(gate.clone())).unwrap();
    gate.arrived(1).await;
    let queued = keep(&actor);
    settle().await;
    actor.stop(None);
    gate.open();
    assert!(queued.await.unwrap().is_err());
    settle().await;
    assert_eq!(seen.0.handled.load(Ordering::SeqCst), 1);
    assert!(seen.0.stopped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn children_die_with_their_supervisor_however_it_ends() {
    for is_killed in [true, false] {
        let supervisor = Probe::start().await;
        let (actor, seen) = supervised(&supervisor).await;
        if is_killed {
            supervisor.actor().kill();
        } else {
            supervisor.actor().stop(None);
        }
        settle().await;
        assert_eq!(actor.get_status(), ActorStatus::Stopped);
        assert!(seen.0.handler_dropped.load(Ordering::SeqCst));
        assert!(
            !seen.0.stopped.load(Ordering::SeqCst),
            "children are killed, not stopped"
        );
    }
}

/// An actor that does not come up.
struct StillBorn;

impl Actor for StillBorn {
    type Msg = Nothing;
    type State = ();
    type Arguments = bool;

    async fn pre_start(&self, _: ActorRef<Nothing>, panics: bool) -> Result<(), ActorProcessingErr> {
        assert!(!panics, "as was asked");
        Err("as was asked".into())
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_does_not_come_up_is_an_error_and_its_supervisor_is_told_nothing() {
    for panics in [true, false] {
        let supervisor = Probe::<Nothing>::start().await;
        let spawned = Actor::spawn_linked(None, StillBorn, panics, supervisor.actor().get_cell()).await;
        assert!(matches!(spawned, Err(SpawnErr::StartupFailed(_))));
        settle().await;
        assert_eq!(supervisor.actor().get_status(), ActorStatus::Running);
        assert!(supervisor.actor().get_children().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gave_up_is_seen_in_its_reply() {
    let mut probe = Probe::<Do>::start().await;
    let asked = keep(probe.actor());
    let Do::Keep(reply) = probe.next().await else {
        panic!("another message")
    };
    assert!(!reply.is_closed());
    asked.abort();
    settle().await;
    assert!(reply.is_closed());
    assert!(reply.send(1).is_err());
}

#[tokio::test(start_paused = true)]
async fn time_outs_of_calls_follow_the_paused_clock() {
    let probe = Probe::<Do>::start().await;
    let began = Instant::now();
    let answer = probe
        .actor()
        .call(Do::Keep, Some(Duration::from_secs(3_600)))
        .await
        .unwrap();
    assert!(matches!(answer, CallResult::Timeout));
    assert_eq!(began.elapsed(), Duration::from_secs(3_600));
}

#[tokio::test(start_paused = true)]
async fn an_actor_can_be_asked_through_a_derived_reference_of_its_own_type() {
    let supervisor = Probe::start().await;
    let (actor, _) = supervised(&supervisor).await;
    let derived = actor.get_derived::<Do>();
    assert_eq!(derived.get_id(), actor.get_id());
    assert!(matches!(
        derived.call(Do::Answer, None).await,
        Ok(CallResult::Success(1))
    ));
    actor.kill();
    settle().await;
    assert!(matches!(
        derived.cast(Do::Panic),
        Err(MessagingErr::SendErr(Do::Panic))
    ));
}
