//! The session actor: one per session, owner of its process, its input, its capture, its timers and its parked calls.
//!
//! It is supervised by the registry, which has checked the owner of every question that arrives here. It decides nothing
//! about the session's life by itself: it feeds a pure state machine ([`procession_core::session`]) and carries out the
//! effects. It never waits: who has to wait is parked and answered by a later message; helper tasks carry readiness,
//! never bytes.
//!
//! What must die with the actor at once (the kill guard, parked replies, watchers) lives in the handler itself, not in
//! its state, which travels to the supervisor first.

use std::sync::{Arc, Mutex};

use procession_core::{EffectiveLimits, Environment, Owner, SessionId, SessionSpec, redact::SecretSet};
use procession_policy::Decision;
use procession_process::{KillGuard, ProcessPort};
use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef};

use crate::{
    clock::SystemClock,
    log::LogMessage,
    sync::{Watcher, lock},
};

mod answer;
mod effects;
mod input;
mod keep;
mod launch;
mod message;
mod notice;
mod output;
mod parked;
mod show;
mod state;
mod timer;
mod typed;

pub use message::SessionMessage;
pub use notice::{SessionNotice, SessionReporter};

pub use launch::LOG_OPEN_BOUND;
pub use output::LOG_STALL_BOUND;
pub use show::PROMPT_PAUSE;

pub(crate) use launch::Launched;
pub(crate) use notice::{Gauge, News};

use parked::Parked;
use state::SessionState;

/// The most calls that may wait on one session.
pub const MAX_WAITERS: usize = 256;

/// From the session's own watchers and tasks; only this module can make one.
#[derive(Debug)]
pub struct Internal(pub(crate) Event);

#[derive(Debug)]
pub(crate) enum Event {
    Launched(Box<Launched>),
    Readable(procession_core::StreamId),
    Writable,
    LeaderExited(std::io::Result<()>),
    TimerElapsed,
    TreeSeen(procession_core::session::TreeReport),
    /// What was kept lives on without the session, or does not.
    Left(Box<procession_core::Outcome>, std::io::Result<()>),
    LogRoom,
    LogClosed(crate::report::LogSummary),
}

/// What a session is made of.
#[derive(Debug, Clone)]
pub struct SessionArguments {
    /// Which session.
    pub session: SessionId,
    /// Whose.
    pub owner: Owner,
    /// What was asked for.
    pub spec: Arc<SessionSpec>,
    /// What was decided.
    pub decision: Arc<Decision>,
    /// The limits that hold, out of the decision.
    pub limits: EffectiveLimits,
    /// The child's whole environment.
    pub environment: Environment,
    /// The folder that the working directory has to lie in.
    pub root: Option<std::path::PathBuf>,
    /// What is replaced in all output.
    pub secrets: SecretSet,
    /// The system's clock.
    pub clock: SystemClock,
    /// What starts the process.
    pub port: Arc<dyn ProcessPort>,
    /// Where the log is asked for; none when there is to be no log.
    pub log: Option<DerivedActorRef<LogMessage>>,
    /// The way back to the registry.
    pub reporter: SessionReporter,
}

/// The session actor.
#[derive(Debug, Default)]
pub struct SessionActor {
    /// Kills the tree when the actor dies.
    guard: Mutex<Option<KillGuard>>,
    /// Calls that wait; their callers are told at once when the actor dies.
    parked: Mutex<Parked>,
    /// Tasks that watch on the actor's behalf.
    watchers: Mutex<Watchers>,
}

#[derive(Debug, Default)]
struct Watchers {
    launch: Option<Watcher>,
    outputs: Vec<(procession_core::StreamId, Watcher)>,
    input: Option<Watcher>,
    leader: Option<Watcher>,
    timer: Option<Watcher>,
    tree: Option<Watcher>,
    log: Option<Watcher>,
}

/// One message being handled: the handler, the way to oneself, the state.
struct Turn<'a> {
    actor: &'a SessionActor,
    myself: &'a ActorRef<SessionMessage>,
    state: &'a mut SessionState,
}

impl Actor for SessionActor {
    type Msg = SessionMessage;
    type State = SessionState;
    type Arguments = SessionArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<SessionMessage>,
        arguments: SessionArguments,
    ) -> Result<SessionState, ActorProcessingErr> {
        let launch = launch::launch(arguments.clone(), myself);
        lock(&self.watchers).launch = Some(Watcher::spawn(launch));
        Ok(SessionState::new(arguments))
    }

    async fn handle(
        &self,
        myself: ActorRef<SessionMessage>,
        message: SessionMessage,
        state: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        let mut turn = Turn {
            actor: self,
            myself: &myself,
            state,
        };
        match message {
            SessionMessage::Poll { query, reply } => turn.poll(query, reply),
            SessionMessage::ReadOutput { query, reply } => turn.read_output(query, reply),
            SessionMessage::Write { request, reply } => turn.write(request, reply),
            SessionMessage::CloseStdin { reply } => turn.close_stdin(reply),
            SessionMessage::Signal { signal, reply } => turn.signal(signal, reply),
            SessionMessage::Resize { size, reply } => turn.resize(size, reply),
            SessionMessage::Stop { request, reply } => turn.stop(&request, reply),
            SessionMessage::Wait {
                until,
                timeout,
                reply,
            } => turn.wait(until, timeout, reply),
            SessionMessage::Inspect { reply } => turn.inspect(reply),
            SessionMessage::End { cause, ladder } => turn.end(cause, ladder),
            SessionMessage::LetGo => turn.let_go(),
            SessionMessage::Internal(Internal(event)) => match event {
                Event::Launched(launched) => turn.launched(*launched),
                Event::Readable(stream) => turn.readable(stream),
                Event::Writable => turn.writable(),
                Event::LeaderExited(exited) => turn.leader_exited(exited),
                Event::TimerElapsed => turn.timer_elapsed(),
                Event::TreeSeen(report) => turn.tree_seen(report),
                Event::Left(outcome, left) => turn.left(&outcome, left),
                Event::LogRoom => turn.log_has_room(),
                Event::LogClosed(summary) => turn.log_closed(summary),
            },
        }
        turn.finish();
        Ok(())
    }
}
