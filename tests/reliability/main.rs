//! What is counted over many rounds rather than claimed: hosts that are killed, and sessions by the thousand.
//!
//! ```text
//! cargo run --release -p procession-tests --bin reliability -- host-kills 100 [SEED]
//! cargo run --release -p procession-tests --bin reliability -- sessions 10000
//! ```
//!
//! Each prints a table, and exits with 1 where something did not hold.

use std::{
    io::{self, Write},
    process::ExitCode,
};

mod host_kills;
mod one_after_another;
mod processes;

/// A program for people: whatever is wrong ends it and is printed.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    procession_process::guard::run_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let held = match *arguments.as_slice() {
        ["host-kills", rounds] => host_kills::run(rounds, None),
        ["host-kills", rounds, seed] => host_kills::run(rounds, Some(seed)),
        ["sessions", count] => one_after_another::run(count),
        [host_kills::HOST, rung, mark] => host_kills::be_host(rung, mark).map(|()| true),
        _ => Err("usage: reliability host-kills ROUNDS [SEED] | sessions COUNT".into()),
    };
    match held {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            // Nobody may be there to read it.
            let _ = writeln!(io::stderr(), "reliability: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Prints a line.
pub(crate) fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
