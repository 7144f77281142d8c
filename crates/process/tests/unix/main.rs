//! Real processes through the port of this system.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod support;

mod child;
mod exit;
mod host;
mod pipes;
mod start_failure;
mod terminal;
mod tree;
