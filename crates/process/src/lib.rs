//! The only crate that knows the operating system: it starts processes, holds their trees, sees how they end.
//!
//! [`ProcessPort`] is what the actors need of a system; a scripted process replaces it in tests. Linux has two: both
//! give sessions pipes or a terminal, and a session and process group of their own.
//!
//! - [`GuardPort`] has a small process beside the host, the [`guard`], which starts sessions, holds each by the
//!   strongest means that the machine has, and ends them all when the host dies.
//! - [`UnixPort`] does without another process. What holds a tree there is its process group and session, which is
//!   the weakest of the means: a descendant that starts a session of its own is not seen, and nothing ends the tree
//!   when the host dies.
//!
//! [`ProcessPort::capabilities`] and [`ProcessPort::containment`] say before anything runs what holds it.
//!
//! # What a child gets
//!
//! | what | how it is |
//! | --- | --- |
//! | descriptors | 0, 1 and 2, whatever else the host has open |
//! | standard input | `/dev/null`, or a pipe where it was asked for |
//! | output | two pipes, or one for both |
//! | session, process group | its own, of which it is the leader |
//! | controlling terminal | none on pipes; on a terminal that one, which is then all three streams |
//! | signal mask | empty |
//! | signal dispositions | default, but for 32 and 33, which belong to the C library and may stay ignored |
//! | working directory | what was asked for, links followed; `PWD` names it unless the environment has one already |
//! | environment | what was given, and `PWD` |
//! | resource limits, umask, priority | the host's; with a guard, what was asked for |
//!
//! # What has to be there
//!
//! Linux 5.4 (`waitid` on a pidfd; 5.7 for sessions in control groups) and glibc 2.34
//! (`posix_spawn_file_actions_addclosefrom_np`); Debian 12 with its glibc 2.36 is the oldest that is tested.
//! Elsewhere the port is there, its implementation is not.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub mod guard;
mod port;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub mod terminal;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod unix;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub use guard::{GuardError, GuardOptions, GuardPort, GuardProgram, Preference};
pub use port::{
    BoxFuture, InputSink, KillGuard, Leader, OutputSource, ProcessLimits, ProcessPort, SpawnRequest, Spawned,
    Tree,
};
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub use unix::{PortError, UnixPort, restore_sigchld};
