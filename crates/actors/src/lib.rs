//! Process sessions as actors: a command is a session, a session is an actor.
//!
//! Four actors make a system. The [`registry`] owns the map of sessions, admits, prunes, and checks the owner of every
//! question. Each [`session`] owns one process with its input, output and timers. The [`policy`] decides what holds
//! against what was asked for, and keeps the record. The [`log`] writes and reads the sessions' output off their threads.
//! Each of the last three can be replaced by an actor of the embedder's, through a [`Slot`].
//!
//! Callers that are not actors use a [`Client`], with one method a message.
//!
//! The engine needs `panic = "unwind"`: an actor that panics must not end the program.
#![forbid(unsafe_code)]

mod local_message;

mod clock;
mod sync;

pub mod error;
pub mod report;

pub mod slot;

pub mod log;
pub mod policy;
pub mod registry;
pub mod session;

mod client;
mod system;

pub use client::Client;
pub use clock::SystemClock;
pub use log::{LogActor, LogArguments, LogMessage};
pub use policy::{PolicyActor, PolicyArguments, PolicyMessage};
pub use registry::{RegistryActor, RegistryArguments, RegistryMessage};
pub use session::{SessionActor, SessionArguments, SessionMessage, SessionReporter};
pub use slot::{Slot, SpawnActor, actor};
pub use system::{System, SystemBuilder, SystemError, new_scope};
