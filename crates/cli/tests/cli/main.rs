//! The program `procession` from outside.

mod configuration;
mod ends;
mod input;
mod mcp;
mod output;
mod report;
mod state;
mod support;
