//! Types and decisions of process sessions, without IO.
//!
//! Everything here is a value or a function of its arguments: no clock (`now` is an argument, a [`Moment`]), no
//! process, no file, no environment, no task. The actors around it carry out what is decided here.
//!
//! - What is asked for: [`SessionSpec`], [`Field`], [`Owner`].
//! - What holds: [`EffectiveLimits`], [`Containment`].
//! - How a session lives and ends: [`session::Session`], [`Outcome`].
//! - What it wrote: [`capture::Capture`], [`preview`], [`render`], and what may not be seen of it: [`redact`].
//! - What is typed on its terminal: [`keys::Key`], [`terminal`].
//! - Who gets in and who goes: [`admission`].
#![forbid(unsafe_code)]

pub mod time;

pub mod field;
pub mod id;
pub mod signal;

pub mod containment;
pub mod environment;
pub mod limits;
pub mod spec;

pub mod outcome;
pub mod session;
pub mod start_failure;

pub mod stream;
pub mod text;

pub mod keys;
pub mod terminal;

pub mod redact;

pub mod capture;
pub mod preview;
pub mod render;

pub mod admission;

pub use containment::Containment;
pub use environment::{Environment, EnvironmentError, EnvironmentRules};
pub use field::{Field, RequestedLimits, Value};
pub use id::{Owner, RequestId, SessionId};
pub use limits::{EffectiveLimits, Leftovers, LogMode};
pub use outcome::{Cause, Outcome, Phase, Status};
pub use signal::Signal;
pub use spec::{Program, SessionSpec, Shell, SpecError};
pub use start_failure::{StartFailure, StartFailureKind};
pub use stream::StreamId;
pub use time::{Moment, WallTime};
