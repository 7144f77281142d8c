//! A harness for process sessions at the level of messages: nothing is started, nobody sleeps, time is the test's.
//!
//! - [`Probe`] stands in for any actor, [`Gate`] holds one still, [`Intercepted`] makes one fail.
//! - [`ScriptedPort`] takes the place of the operating system: its processes do what a [`Script`] says, or what the
//!   test says while they run.
//! - [`FaultyStorage`] is a disk that fails, fills up or stands still.
//! - [`Harness`] is a whole system on top of these.
//! - [`conformance`] is what an actor must pass that replaces one of ours.
//!
//! ```
//! use procession_core::StreamId;
//! use procession_actors::report::PollQuery;
//! use procession_testkit::{Harness, fixture};
//!
//! # fn main() { tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! let harness = Harness::start().await;
//! let session = harness.start_session(fixture::spec()).await;
//! session.process.emit(StreamId::Stdout, "hello\n");
//! session.process.exit(0);
//! let report = session.until_ended().await;
//! assert_eq!(report.stdout, "hello\n");
//! # }) }
//! ```
//!
//! # Time
//! Tests run on tokio's paused clock (`#[tokio::test(start_paused = true)]`): when nothing can go on, it moves to the
//! next timer by itself. It stands still while a blocking job runs, so that times are exact with logs too. Whatever
//! waits here for something that must come gives up after [`PATIENCE`] with a panic.
#![forbid(unsafe_code)]

mod patience;

mod gate;
mod intercept;
mod probe;

mod process;
mod storage;

pub mod fixture;

mod harness;

pub mod conformance;

pub use gate::Gate;
pub use harness::{Harness, HarnessBuilder, HarnessSession};
pub use intercept::{Intercepted, Verdict};
pub use patience::PATIENCE;
pub use probe::Probe;
pub use process::{Descendant, Script, ScriptedPort, ScriptedProcess, SentSignal, Steps, Target};
pub use storage::{FaultyStorage, Hold, Operation};
