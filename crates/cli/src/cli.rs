//! The command line.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    time::Duration,
};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser},
};
use procession_core::{Shell, StreamId, spec::EnvValue};

use crate::units::{parse_duration, parse_size};

const EXAMPLES: &str = "\
Examples:
  procession run -- cargo test                 run a program, its exit code is ours
  procession run -c 'make 2>&1 | tail -20'     the same through a shell
  procession mcp --root ~/project              serve sessions to an agent over MCP
  procession capabilities                      what this machine can enforce
  procession sessions                          what ran, also under hosts that died";

const RUN_EXAMPLES: &str = "\
Exit code:
  that of the program; 128+n when signal n ended it; 124 when its time was up;
  125 when procession itself failed; 126 when the program cannot be executed;
  127 when it is not found; 141 when nobody reads our output any more

Examples:
  procession run --timeout 1m30s -- cargo test
  procession run --idle-timeout 30s --report run.json -- ./deploy --dry-run
  procession run -c 'grep -r TODO . | wc -l' --shell bash --cwd src
  generate | procession run -- wc -c
  procession run --env LEVEL=debug --env-key TOKEN --explain -- ./job

Durations are written as `500ms`, `10s`, `1m30s` or `2h`, sizes as `4096`, `32MiB` or `10MB`.";

const MCP_EXAMPLES: &str = "\
The server ends when its standard input ends, and on INT or TERM; all sessions end with it.

Examples:
  procession mcp
  procession mcp --root ~/project --config ci.toml
  RUST_LOG=info procession mcp 2>server.log";

const CAPABILITIES_EXAMPLES: &str = "\
Examples:
  procession capabilities
  procession capabilities --json";

const LOG_EXAMPLES: &str = "\
FILE is the folder that a report names as `log.path`, or one that `procession sessions` shows; a session's id
does as well.

Examples:
  procession log FILE                          all of it, byte for byte
  procession log FILE --stream stderr --limit 4KiB
  procession log FILE --follow                 and what is written from now on
  procession log FILE --search 'error|panic' --json
  procession log FILE --verify";

const SESSIONS_EXAMPLES: &str = "\
Examples:
  procession sessions
  procession sessions --json";

const CONFIG_EXAMPLES: &str = "\
Examples:
  procession config
  procession config --config ci.toml --json";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  procession completions bash > ~/.local/share/bash-completion/completions/procession
  procession completions zsh > ~/.zfunc/_procession
  procession completions fish > ~/.config/fish/completions/procession.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  procession man | man -l -
  procession man run > procession-run.1";

/// Process sessions for agents: owned, bounded, and with a true record of how each ended.
#[derive(Debug, Parser)]
#[command(name = "procession", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// The configuration file [default: what `PROCESSION_CONFIG` names, else `procession/config.toml` of the user].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one session in this terminal.
    #[command(after_help = RUN_EXAMPLES, override_usage = "procession run [OPTIONS] -- PROGRAM [ARG…]\n       procession run [OPTIONS] -c COMMAND")]
    Run(Box<RunOptions>),
    /// Serve sessions over MCP on standard input and output.
    #[command(after_help = MCP_EXAMPLES)]
    Mcp(McpOptions),
    /// Show what this machine can enforce, a line a capability.
    #[command(after_help = CAPABILITIES_EXAMPLES)]
    Capabilities(Format),
    /// Read, follow, search or verify a session's log.
    #[command(after_help = LOG_EXAMPLES)]
    Log(LogOptions),
    /// List the sessions of the state directory, also those of hosts that died.
    #[command(after_help = SESSIONS_EXAMPLES)]
    Sessions(Format),
    /// Show the effective configuration, each value with its source.
    #[command(after_help = CONFIG_EXAMPLES)]
    Config(Format),
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsOptions),
    /// Print the manual page, of all commands or of one.
    #[command(after_help = MAN_EXAMPLES)]
    Man(ManOptions),
}

/// How to print.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Format {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `run`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line that is given or not"
)]
pub(crate) struct RunOptions {
    /// The command for a shell.
    #[arg(short = 'c', value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) command: Option<OsString>,
    /// Which shell runs the command; never a login shell.
    #[arg(
        long,
        value_enum,
        value_name = "SHELL",
        requires = "command",
        conflicts_with = "program"
    )]
    pub(crate) shell: Option<ShellName>,
    /// The working directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// A variable for the program; may be given more than once.
    #[arg(long, value_name = "K=V", value_parser = OsStringValueParser::new().try_map(|text| parse_variable(&text)))]
    pub(crate) env: Vec<Variable>,
    /// A variable that the configuration holds, by its name; may be given more than once.
    #[arg(long, value_name = "K")]
    pub(crate) env_key: Vec<String>,
    /// Run the program on a terminal of its own.
    #[arg(long)]
    pub(crate) tty: bool,
    /// Pass standard input on, whatever it is; a pipe or a file is passed on without it.
    #[arg(long)]
    pub(crate) stdin: bool,
    /// One pipe for both output streams, so that their order is kept; all comes on standard output.
    #[arg(long)]
    pub(crate) merge_stderr: bool,
    /// The time after which the program is ended [default: the configuration's, else as long as any may run].
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// The time without output after which the program is ended.
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub(crate) idle_timeout: Option<Duration>,
    /// The time between asking the program to end and killing it.
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub(crate) grace: Option<Duration>,
    /// Disk that the log may take.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) log_bytes: Option<u64>,
    /// Let processes live on that the program leaves behind, also beyond the end of this one, unless it is killed.
    #[arg(long)]
    pub(crate) keep: bool,
    /// A name for people, in lists and reports.
    #[arg(long, value_name = "S")]
    pub(crate) label: Option<String>,
    /// Memory of the whole tree.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// Processor time of each process.
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub(crate) cpu: Option<Duration>,
    /// Descriptors that a process may have open.
    #[arg(long, value_name = "N")]
    pub(crate) open_files: Option<u64>,
    /// Processes that the user may have.
    #[arg(long, value_name = "N")]
    pub(crate) processes: Option<u64>,
    /// The folder that the program may write to; may be given more than once.
    #[arg(long, value_name = "PATH")]
    pub(crate) sandbox: Vec<String>,
    /// Keep the program from the network.
    #[arg(long)]
    pub(crate) no_network: bool,
    /// Write the record of the end as JSON; `-` is standard error.
    #[arg(long, value_name = "FILE|-", value_parser = OsStringValueParser::new().map(parse_report))]
    pub(crate) report: Option<ReportTarget>,
    /// Show what was asked for and what holds, on standard error, before the start.
    #[arg(long)]
    pub(crate) explain: bool,
    /// The program and its arguments.
    #[arg(
        last = true,
        value_name = "PROGRAM [ARG]",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    pub(crate) program: Vec<OsString>,
}

/// Options of `mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpOptions {
    /// The folder that working directories have to lie in [default: the current one].
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// Options of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsOptions {
    /// For which shell.
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManOptions {
    /// Of which command.
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}

/// Options of `log`.
#[derive(Debug, Args)]
pub(crate) struct LogOptions {
    /// The folder of the log, or the id of a session in the state directory.
    #[arg(value_name = "FILE|SESSION")]
    pub(crate) file: PathBuf,
    /// Where to begin, in bytes of the merged output.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
    /// How much to read at most.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) limit: Option<u64>,
    /// One stream only.
    #[arg(long, value_enum, value_name = "STREAM")]
    pub(crate) stream: Option<StreamName>,
    /// Print JSON, a line a run or a match.
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on with what is written from now on, until the session ends.
    #[arg(long)]
    pub(crate) follow: bool,
    /// Show the places where this regular expression matches.
    #[arg(long, value_name = "REGEX", conflicts_with = "follow")]
    pub(crate) search: Option<String>,
    /// Check every byte and say what was found.
    #[arg(long, conflicts_with_all = ["follow", "search", "offset", "limit", "stream"])]
    pub(crate) verify: bool,
}

/// A shell by its name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ShellName {
    /// `sh -c`.
    Sh,
    /// `bash --noprofile --norc -c`.
    Bash,
    /// `zsh -f -c`.
    Zsh,
}

impl From<ShellName> for Shell {
    fn from(name: ShellName) -> Self {
        match name {
            ShellName::Sh => Self::Sh,
            ShellName::Bash => Self::Bash,
            ShellName::Zsh => Self::Zsh,
        }
    }
}

/// A stream by its name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl From<StreamName> for StreamId {
    fn from(name: StreamName) -> Self {
        match name {
            StreamName::Stdout => Self::Stdout,
            StreamName::Stderr => Self::Stderr,
        }
    }
}

/// A variable with its value, which is never shown.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    /// Its name.
    pub(crate) name: OsString,
    /// Its value.
    pub(crate) value: EnvValue,
}

/// Where the report goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportTarget {
    /// To standard error, after all output.
    Stderr,
    /// To a file, which is there whole or not at all.
    File(PathBuf),
}

/// A variable without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no `=`: write `NAME=value`, or name a configured variable with --env-key")]
pub(crate) struct NoValue;

fn parse_variable(text: &OsStr) -> Result<Variable, NoValue> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').ok_or(NoValue)?;
    let (name, value) = bytes.split_at(at);
    let value = OsString::from_vec(value.get(1..).unwrap_or_default().to_vec());
    Ok(Variable {
        name: OsString::from_vec(name.to_vec()),
        value: value.into(),
    })
}

fn parse_report(text: OsString) -> ReportTarget {
    if text == "-" {
        ReportTarget::Stderr
    } else {
        ReportTarget::File(text.into())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn run(arguments: &[&str]) -> Result<RunOptions, clap::Error> {
        let cli = Cli::try_parse_from(["procession", "run"].iter().chain(arguments))?;
        match cli.command {
            Command::Run(options) => Ok(*options),
            _ => Err(Cli::command().error(clap::error::ErrorKind::InvalidSubcommand, "not run")),
        }
    }

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn all_behind_the_dashes_is_the_programs() {
        let options = run(&["--timeout", "1s", "--", "ls", "--timeout", "--", "-c"]).expect("a program");
        assert_eq!(options.program, ["ls", "--timeout", "--", "-c"]);
        assert_eq!(options.timeout, Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_command_or_a_program_is_given_not_both() {
        assert!(run(&[]).is_err());
        assert!(run(&["-c", "ls", "--", "ls"]).is_err());
        assert!(run(&["--shell", "bash", "--", "ls"]).is_err());
        assert_eq!(
            run(&["-c", ""]).expect("an empty command").command,
            Some("".into())
        );
        assert_eq!(run(&["-c", "-x"]).expect("a command").command, Some("-x".into()));
    }

    #[test]
    fn a_variable_is_cut_at_the_first_equals_sign_and_never_shown() {
        let options = run(&["--env", "A=b=c", "--env", "B=", "--", "ls"]).expect("variables");
        let given: Vec<_> = options
            .env
            .iter()
            .map(|variable| (&variable.name, variable.value.reveal()))
            .collect();
        assert_eq!(
            given,
            [
                (&OsString::from("A"), "b=c".as_ref()),
                (&OsString::from("B"), "".as_ref())
            ]
        );
        assert!(!format!("{options:?}").contains("b=c"));
        assert!(run(&["--env", "A", "--", "ls"]).is_err());
    }

    #[test]
    fn durations_without_a_unit_are_refused_with_a_hint() {
        let error = run(&["--timeout", "10", "--", "ls"])
            .expect_err("no unit")
            .to_string();
        assert!(error.contains("`10s`"), "{error}");
    }

    #[test]
    fn the_configuration_can_be_named_before_and_behind_the_command() {
        for arguments in [
            ["procession", "--config", "f", "mcp"],
            ["procession", "mcp", "--config", "f"],
        ] {
            assert_eq!(
                Cli::try_parse_from(arguments).expect("both").config,
                Some("f".into())
            );
        }
    }
}
