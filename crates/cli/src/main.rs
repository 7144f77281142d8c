//! The program `procession`: sessions in a terminal, and the MCP server.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;

mod capabilities;
mod cli;
mod config;
mod describe;
mod error;
mod host;
mod log;
mod mcp;
mod output;
mod port;
mod run;
mod sessions;
mod state;
mod units;

use cli::{Cli, Command};
use error::{CommandError, tell};
use run::exit_code::{OWN_FAILURE, exit};

fn main() -> ExitCode {
    // Started as the guard of another host, this does not return.
    procession_process::guard::run_if_asked();
    // A launcher that ignores SIGCHLD would hide every exit status.
    if let Err(error) = procession_process::restore_sigchld() {
        tell(&error);
        return exit(OWN_FAILURE);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; nobody may be there to read either.
            let _ = error.print();
            return exit(if error.use_stderr() { OWN_FAILURE } else { 0 });
        }
    };
    match carry_out(cli) {
        Ok(code) => exit(code),
        Err(error) => {
            tell(&error);
            exit(OWN_FAILURE)
        }
    }
}

fn carry_out(cli: Cli) -> Result<u8, CommandError> {
    // What the program says of itself depends on no configuration, and works with a broken one too.
    match &cli.command {
        Command::Completions(options) => return describe::completions(options),
        Command::Man(options) => return describe::man(options),
        _ => {}
    }
    let environment = |name: &str| std::env::var_os(name);
    let configuration = config::Configuration::load(cli.config.as_deref(), &environment)?;
    match cli.command {
        Command::Run(options) => run::run(*options, &configuration, &environment),
        Command::Mcp(options) => mcp::mcp(&options, &configuration, &environment),
        Command::Capabilities(format) => capabilities::capabilities(format, &configuration),
        Command::Log(mut options) => {
            let state = state::locate(&configuration, &environment);
            options.file = log_folder(options.file, state.as_deref());
            log::log(&options)
        }
        Command::Sessions(format) => {
            sessions::sessions(format, state::locate(&configuration, &environment).as_deref())
        }
        Command::Config(format) => {
            let state = state::locate(&configuration, &environment);
            config::show::print(format, &configuration, state.as_deref())
        }
        Command::Completions(options) => describe::completions(&options),
        Command::Man(options) => describe::man(&options),
    }
}

/// The folder of a log that was named: by its path, else by the id of its session.
fn log_folder(named: PathBuf, state: Option<&Path>) -> PathBuf {
    if named.exists() {
        return named;
    }
    let by_id = named
        .to_str()
        .zip(state)
        .and_then(|(session, state)| state::log_of_session(state, session));
    by_id.unwrap_or(named)
}
