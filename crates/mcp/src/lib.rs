//! Process sessions as tools of the Model Context Protocol.
//!
//! A thin layer over [`procession_actors::Client`]: arguments are read strictly, carried out as one owner, and answered
//! as structured content with the same JSON as text. A command that fails is no error; `isError` is for calls that could
//! not be done. [`serve`] runs a server over any pair of byte streams, [`stdio`] gives those of this process, and
//! [`json`] holds the names under which sessions are told here and by the command line.
#![forbid(unsafe_code)]

pub mod json;

mod failure;
mod tools;

mod arguments;
mod schema;

mod call;
mod instructions;

mod transport;

mod server;
mod stdio;

pub use self::{
    server::{ServeError, ServeOptions, serve},
    stdio::stdio,
    tools::tools_markdown,
};
