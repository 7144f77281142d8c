use super::*;

fn check(spec: &SessionSpec, expected: Result<(), &str>) {
    let found = spec.check(ExecLimits::default());
    match (&found, expected) {
        (Ok(()), Ok(())) => {}
        (Err(error), Err(place)) => assert_eq!(error.place(), place, "{error}"),
        _ => panic!("{found:?}, expected {expected:?} for {spec:?}"),
    }
}

fn argv(argv: &[&str]) -> SessionSpec {
    SessionSpec::argv(argv.iter().copied())
}

#[test]
fn a_program_has_to_be_there_and_free_of_nul() {
    check(&argv(&["true"]), Ok(()));
    check(&argv(&[]), Err("argv"));
    check(&argv(&[""]), Err("argv"));
    check(&argv(&["true", ""]), Ok(()));
    check(&argv(&["tr\0ue"]), Err("argv[0]"));
    check(&argv(&["true", "a", "b\0"]), Err("argv[2]"));
    check(&SessionSpec::shell(Shell::Sh, ""), Ok(()));
    check(&SessionSpec::shell(Shell::Sh, "echo a\0b"), Err("command"));
}

#[test]
fn the_longest_string_that_the_system_takes_is_taken() {
    let command = |bytes: usize| SessionSpec::shell(Shell::Bash, " ".repeat(bytes));
    check(&command(131_071), Ok(()));
    check(&command(131_072), Err("command"));
    let value = |bytes: usize| {
        let mut spec = argv(&["true"]);
        spec.env.insert("A".into(), "x".repeat(bytes).into());
        spec
    };
    check(&value(131_069), Ok(()));
    check(&value(131_070), Err("env.A"));
    let error = command(131_072).check(ExecLimits::default());
    let expected = SpecError::TooLong {
        place: "command".to_owned(),
        bytes: 131_072,
        limit_bytes: 131_071,
    };
    assert_eq!(error, Err(expected));
}

#[test]
fn all_strings_together_have_a_limit() {
    let many = vec!["y".repeat(30_000); 100];
    check(&SessionSpec::argv(many.iter().cloned()), Err("argv"));
    let mut spec = argv(&["true"]);
    spec.env = (0..40)
        .map(|n| (format!("V{n}").into(), "x".repeat(100_000).into()))
        .collect();
    check(&spec, Err("env"));
}

#[test]
fn a_variable_has_a_name_that_can_be_one() {
    for (name, expected) in [
        ("A", Ok(())),
        ("", Err("env")),
        ("A=B", Err("env")),
        ("=", Err("env")),
        ("A\0B", Err("env.A\0B")),
    ] {
        let mut spec = argv(&["true"]);
        spec.env.insert(name.into(), "x".into());
        check(&spec, expected);
    }
    let mut spec = argv(&["true"]);
    spec.env.insert("A".into(), "x\0y".into());
    check(&spec, Err("env.A"));
    spec = argv(&["true"]);
    spec.env_keys = vec!["K".to_owned(); MAX_ENV_KEYS + 1];
    check(&spec, Err("env_keys"));
}

#[test]
fn a_path_or_label_has_to_be_passable() {
    let mut spec = argv(&["true"]);
    spec.cwd = Some("/tmp\0/x".into());
    check(&spec, Err("cwd"));
    spec = argv(&["true"]);
    spec.label = Some("l".repeat(MAX_LABEL_BYTES + 1));
    check(&spec, Err("label"));
}

#[test]
fn a_limit_has_to_fit_its_field() {
    check(&argv(&["true"]).limit(Field::WallTime, u64::MAX), Ok(()));
    check(&argv(&["true"]).limit(Field::WallTime, 0), Err("wall_time_ms"));
    check(&argv(&["true"]).limit(Field::Leftovers, "some"), Err("leftovers"));
    check(
        &argv(&["true"]).limit(Field::TerminalSize, "24x80"),
        Err("terminal_size"),
    );
}

#[test]
fn what_is_requested_holds_names_and_never_values() {
    let mut spec = argv(&["true"]).limit(Field::Grace, 5);
    spec.stdin = StdinMode::Piped;
    spec.leftovers = Some(Leftovers::Keep);
    spec.env.insert("TOKEN".into(), "zz-top".into());
    let requested = spec.requested();
    assert_eq!(requested.get(&Field::Stdin), Some(&Value::from("piped")));
    assert_eq!(requested.get(&Field::Leftovers), Some(&Value::from("keep")));
    assert_eq!(requested.get(&Field::Grace), Some(&Value::Number(5)));
    assert_eq!(
        requested.get(&Field::EnvLiteral),
        Some(&Value::List(vec!["TOKEN".to_owned()]))
    );
    assert!(!format!("{spec:?}{requested:?}").contains("zz-top"));
}

#[test]
fn no_shell_reads_start_up_files() {
    let argv = Program::Shell {
        command: "exit".into(),
        shell: Shell::Bash,
    }
    .to_argv();
    assert_eq!(argv, ["bash", "--noprofile", "--norc", "-c", "exit"]);
    assert_eq!(Shell::from_name("fish"), None);
}
