//! Real processes through a guard.
//!
//! What a child gets, pipes, terminals and starts that fail are the same scenarios as without a guard.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod support;

#[path = "../unix/child.rs"]
mod child;
#[path = "../unix/pipes.rs"]
mod pipes;
#[path = "../unix/start_failure.rs"]
mod start_failure;
#[path = "../unix/terminal.rs"]
mod terminal;

mod ends;
mod guard;
mod host;
mod leave;
mod places;
mod rungs;
mod scale;
mod starts;
mod trees;
