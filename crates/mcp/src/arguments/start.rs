//! What a start asks for.

use procession_core::{
    Field, Leftovers, Program, SessionSpec, Shell, Value as FieldValue,
    field::parse_size,
    spec::{StdinMode, StreamMode, Terminal, TerminalSize},
};
use serde_json::{Map, Value};

use super::{
    limits::Limits,
    reader::{Reader, cells, missing, not_one_of, wrong},
    request_id,
};
use crate::failure::Failure;

/// A start, and whether it waits for the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartArguments {
    pub(crate) spec: SessionSpec,
    pub(crate) ground: Ground,
}

/// Whether a start waits for the end of what it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// For as long as the policy grants.
    Fore,
    /// For a moment only.
    Back,
}

impl StartArguments {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let mut limits = Limits::read(reader)?;
        let mut spec = SessionSpec::new(program(reader)?);
        spec.cwd = reader.text("cwd")?.map(Into::into);
        for (name, value) in reader.object("env")?.unwrap_or_default() {
            let shown: String = name.chars().take(64).collect();
            let Value::String(value) = value else {
                // The value is not repeated, whatever it is.
                return Err(Failure::invalid(
                    format!("env.{shown}"),
                    format!("invalid `env.{shown}`: expected a text"),
                ));
            };
            spec.env.insert(name.into(), value.into());
        }
        if let Some(keys) = reader.texts("env_keys")? {
            limits.set("env_keys", Field::EnvKeys, FieldValue::List(keys))?;
        }
        if let Some(FieldValue::List(keys)) = limits.take(Field::EnvKeys) {
            spec.env_keys = keys;
        }
        if limits.take(Field::EnvLiteral).is_some() {
            return Err(Failure::invalid(
                "limits.env_literal",
                "`limits.env_literal` is told by `env`, not by itself",
            ));
        }
        if let Some(flag) = reader.flag("stdin")? {
            limits.set(
                "stdin",
                Field::Stdin,
                FieldValue::from(if flag { "piped" } else { "null" }),
            )?;
        }
        if limits.take(Field::Stdin).as_ref().and_then(FieldValue::as_text) == Some("piped") {
            spec.stdin = StdinMode::Piped;
        }
        spec.terminal = terminal(reader, &mut limits)?;
        if reader.flag("merge_stderr")? == Some(true) {
            spec.streams = StreamMode::Merged;
        }
        spec.label = reader.text("label")?;
        spec.leftovers = limits.take(Field::Leftovers).map(|word| match word.as_text() {
            Some("keep") => Leftovers::Keep,
            _ => Leftovers::Sweep,
        });
        spec.request_id = request_id(reader)?;
        spec.limits = limits.into_requested();
        let ground = if reader.flag("background")? == Some(true) {
            Ground::Back
        } else {
            Ground::Fore
        };
        Ok(Self { spec, ground })
    }
}

fn program(reader: &mut Reader) -> Result<Program, Failure> {
    let command_name = reader.name("command");
    let (command, argv, shell) = (
        reader.text("command")?,
        reader.texts("argv")?,
        reader.text("shell")?,
    );
    match (command, argv) {
        (Some(_), Some(_)) => Err(Failure::invalid(
            command_name,
            format!("`{command_name}` and `argv` cannot be given together"),
        )),
        (None, None) => Err(missing("command").with("or", "argv")),
        (None, Some(argv)) => match shell {
            Some(_) => Err(Failure::invalid(
                "shell",
                "`shell` goes with `command`, `argv` runs without one",
            )),
            None => Ok(Program::Argv(argv.into_iter().map(Into::into).collect())),
        },
        (Some(command), None) => {
            let shell = match shell {
                None => Shell::default(),
                Some(name) => Shell::from_name(&name)
                    .ok_or_else(|| not_one_of("shell", &name, &["sh", "bash", "zsh"]))?,
            };
            Ok(Program::Shell {
                command: command.into(),
                shell,
            })
        }
    }
}

/// `tty` is `true`, `false` or a size; the same can be said by `limits`.
fn terminal(reader: &mut Reader, limits: &mut Limits) -> Result<Option<Terminal>, Failure> {
    match reader.take("tty") {
        None => {}
        Some(Value::Bool(flag)) => limits.set("tty", Field::Tty, FieldValue::Flag(flag))?,
        Some(Value::Object(size)) => {
            limits.set("tty", Field::Tty, FieldValue::Flag(true))?;
            let size = terminal_size(&size)?;
            limits.set("tty", Field::TerminalSize, FieldValue::Text(size.to_string()))?;
        }
        Some(other) => {
            return Err(wrong(
                "tty",
                "`true`, `false` or an object of `rows` and `cols`",
                &other,
            ));
        }
    }
    if limits.take(Field::Tty) != Some(FieldValue::Flag(true)) {
        // A size that is asked for without a terminal stays where it is, and is refused with the spec.
        return Ok(None);
    }
    let size = limits.take(Field::TerminalSize);
    let size = size.as_ref().and_then(FieldValue::as_text).and_then(parse_size);
    Ok(Some(Terminal {
        size: size.map(|(rows, cols)| TerminalSize { rows, cols }),
        term: None,
    }))
}

fn terminal_size(size: &Map<String, Value>) -> Result<TerminalSize, Failure> {
    if let Some(name) = size
        .keys()
        .find(|name| !["rows", "cols"].contains(&name.as_str()))
    {
        let shown: String = name.chars().take(64).collect();
        return Err(Failure::invalid(
            format!("tty.{shown}"),
            format!("`tty` has `rows` and `cols`, not `{shown}`"),
        ));
    }
    let part = |name: &str| {
        let name = format!("tty.{name}");
        let value = size
            .get(name.trim_start_matches("tty."))
            .ok_or_else(|| missing(&name))?;
        cells(&name, value)
    };
    Ok(TerminalSize {
        rows: part("rows")?,
        cols: part("cols")?,
    })
}

#[cfg(test)]
mod tests {
    use procession_core::spec::ExecLimits;
    use serde_json::json;

    use super::*;
    use crate::{failure::Code, tools::tool};

    fn read(arguments: Value) -> Result<StartArguments, Failure> {
        let Value::Object(arguments) = arguments else {
            panic!("an object")
        };
        StartArguments::read(&mut Reader::new(
            tool("session_start").expect("known"),
            arguments,
        )?)
    }

    fn spec(arguments: Value) -> SessionSpec {
        let arguments = read(arguments).expect("fine");
        assert_eq!(arguments.spec.check(ExecLimits::default()), Ok(()));
        arguments.spec
    }

    fn refused(arguments: Value, field: &str) {
        let shown = arguments.to_string();
        let failure = read(arguments).expect_err(&shown);
        assert_eq!(
            (failure.code(), failure.field()),
            (Code::InvalidArgument, Some(field)),
            "{shown}"
        );
    }

    #[test]
    fn either_a_command_or_an_argument_vector() {
        assert_eq!(spec(json!({ "command": "" })), SessionSpec::shell(Shell::Sh, ""));
        assert_eq!(
            spec(json!({ "cmd": "x", "shell": "bash" })),
            SessionSpec::shell(Shell::Bash, "x")
        );
        assert_eq!(spec(json!({ "argv": ["a", ""] })), SessionSpec::argv(["a", ""]));
        refused(json!({}), "command");
        refused(json!({ "command": "a", "argv": ["a"] }), "command");
        refused(json!({ "cmd": "a", "argv": ["a"] }), "cmd");
        refused(json!({ "command": ["a"] }), "command");
        refused(json!({ "argv": "a" }), "argv");
        refused(json!({ "argv": ["a", 1] }), "argv[1]");
        refused(json!({ "argv": ["a"], "shell": "sh" }), "shell");
        refused(json!({ "command": "a", "shell": "fish" }), "shell");
    }

    #[test]
    fn an_argument_and_its_limit_are_one() {
        let both = json!({ "command": "", "timeout_ms": 5, "limits": { "wall_time_ms": 5 } });
        assert_eq!(
            spec(both).limits,
            [(Field::WallTime, FieldValue::Number(5))].into()
        );
        for (name, field) in [
            ("timeout_ms", "wall_time_ms"),
            ("idle_timeout_ms", "idle_time_ms"),
            ("grace_ms", "grace_ms"),
            ("max_output_bytes", "output_budget_bytes"),
            ("max_log_bytes", "log_bytes"),
            ("yield_time_ms", "yield_time_ms"),
        ] {
            refused(
                json!({ "command": "", name: 70_000, "limits": { field: 80_000 } }),
                name,
            );
        }
        refused(
            json!({ "command": "", "leftovers": "keep", "limits": { "leftovers": "sweep" } }),
            "leftovers",
        );
        refused(
            json!({ "command": "", "stdin": true, "limits": { "stdin": "null" } }),
            "stdin",
        );
        refused(
            json!({ "command": "", "env_keys": ["A"], "limits": { "env_keys": ["B"] } }),
            "env_keys",
        );
        let sizes =
            json!({ "command": "", "tty": { "rows": 5, "cols": 6 }, "limits": { "terminal_size": "5x7" } });
        refused(sizes, "tty");
    }

    #[test]
    fn what_does_not_fit_is_named_as_it_was_given() {
        for value in [
            json!(-1),
            json!(0),
            json!(0.5),
            json!("NaN"),
            json!([1]),
            json!(1e300),
        ] {
            refused(json!({ "command": "", "timeout_ms": value }), "timeout_ms");
            refused(
                json!({ "command": "", "limits": { "wall_time_ms": value } }),
                "limits.wall_time_ms",
            );
        }
        refused(
            json!({ "command": "", "limits": { "wall_time": 1 } }),
            "limits.wall_time",
        );
        refused(json!({ "command": "", "limits": { "nice": 20 } }), "limits.nice");
        refused(
            json!({ "command": "", "limits": { "nice": "low" } }),
            "limits.nice",
        );
        refused(
            json!({ "command": "", "limits": { "network": "off" } }),
            "limits.network",
        );
        refused(json!({ "command": "", "limits": [] }), "limits");
        refused(json!({ "command": "", "leftovers": "some" }), "leftovers");
        refused(
            json!({ "command": "", "max_output_tokens": -4 }),
            "max_output_tokens",
        );
        refused(json!({ "command": "", "env": { "A": 1 } }), "env.A");
        refused(json!({ "command": "", "request_id": "" }), "request_id");
        refused(json!({ "command": "", "background": "yes" }), "background");
    }

    #[test]
    fn the_largest_number_is_asked_for_as_it_is() {
        let limits = spec(json!({ "command": "", "timeout_ms": u64::MAX })).limits;
        assert_eq!(limits, [(Field::WallTime, FieldValue::Number(u64::MAX))].into());
    }

    #[test]
    fn a_terminal_may_have_a_size() {
        let size = |rows, cols| Some(TerminalSize { rows, cols });
        let terminal = |arguments| spec(arguments).terminal.map(|terminal| terminal.size);
        assert_eq!(terminal(json!({ "command": "", "tty": false })), None);
        assert_eq!(terminal(json!({ "command": "", "tty": true })), Some(None));
        assert_eq!(
            terminal(json!({ "command": "", "tty": { "rows": 24, "cols": 80 } })),
            Some(size(24, 80))
        );
        let by_limits = json!({ "command": "", "limits": { "tty": true, "terminal_size": "24x80" } });
        assert_eq!(terminal(by_limits), Some(size(24, 80)));
        refused(json!({ "command": "", "tty": { "rows": 24 } }), "tty.cols");
        refused(
            json!({ "command": "", "tty": { "rows": 0, "cols": 80 } }),
            "tty.rows",
        );
        refused(
            json!({ "command": "", "tty": { "rows": 24, "cols": 80, "depth": 1 } }),
            "tty.depth",
        );
        refused(json!({ "command": "", "tty": "yes" }), "tty");
    }

    #[test]
    fn everything_else_goes_where_it_belongs() {
        let arguments = read(json!({
            "argv": ["a"], "workdir": "/x", "env": { "A": "b" }, "env_keys": ["K"], "stdin": true,
            "merge_stderr": true, "run_in_background": true, "label": "l", "leftovers": "keep", "request_id": "r",
            "max_output_tokens": 1000, "limits": { "nice": -5, "readable_roots": ["/a"] },
        }))
        .expect("fine");
        assert_eq!(arguments.ground, Ground::Back);
        let mut expected = SessionSpec::argv(["a"])
            .limit(Field::OutputBudget, 4000)
            .limit(Field::Nice, FieldValue::Integer(-5))
            .limit(Field::ReadableRoots, FieldValue::List(vec!["/a".to_owned()]));
        expected.cwd = Some("/x".into());
        expected.env.insert("A".into(), "b".into());
        expected.env_keys = vec!["K".to_owned()];
        expected.stdin = StdinMode::Piped;
        expected.streams = StreamMode::Merged;
        expected.label = Some("l".to_owned());
        expected.leftovers = Some(Leftovers::Keep);
        expected.request_id = "r".to_owned().try_into().ok();
        assert_eq!(arguments.spec, expected);
    }
}
