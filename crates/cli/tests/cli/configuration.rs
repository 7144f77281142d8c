use crate::support::{Place, text};

#[test]
fn a_configuration_that_cannot_hold_ends_the_program_before_anything_runs() {
    for (configuration, expected) in [
        (
            "[host]\nmax_session = 1\n",
            "config.toml:2: unknown key `max_session` in [host]; the nearest known one is `max_sessions`",
        ),
        (
            "\n[hots]\n",
            "config.toml:2: unknown table `hots`; the nearest known one is `host`",
        ),
        (
            "[host]\nmax_sessions = \"8\"\n",
            "config.toml:2: `host.max_sessions` is a whole number, not a text",
        ),
        ("[defaults]\nwall_time_ms = 0\n", "zero has no meaning here"),
        ("[host\n", "config.toml:1: "),
        (
            "[secrets]\ntoken = \"hunter2\"\n",
            "config.toml:2: `secrets.token` cannot be replaced in output",
        ),
        (
            "[sandbox]\nmode = \"landlock\"\n",
            "config.toml:2: `sandbox.mode` cannot be honoured",
        ),
    ] {
        let place = Place::new();
        place.configure(configuration);
        let output = place.run(&["run", "--", "touch", "ran"]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{configuration}: {told}");
        assert!(told.contains(expected), "{configuration}: {told}");
        assert!(!told.contains("hunter2"), "{told}");
        assert!(!place.path("ran").exists(), "{configuration}");
        assert_eq!(place.run(&["mcp"]).status.code(), Some(125), "{configuration}");
    }
}

#[test]
fn the_command_line_names_the_file_before_the_environment_does() {
    let place = Place::new();
    std::fs::write(place.path("named.toml"), "[host]\nmax_sessions = 30\n").expect("a file");
    std::fs::write(place.path("variable.toml"), "[host]\nmax_sessions = 31\n").expect("a file");
    let most = |arguments: &[&str]| {
        let output = place
            .program(arguments)
            .env("PROCESSION_CONFIG", "variable.toml")
            .output()
            .expect("it starts");
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        shown["tables"]["host"]["max_sessions"]["value"].as_u64()
    };
    assert_eq!(most(&["config", "--json"]), Some(31));
    assert_eq!(most(&["config", "--json", "--config", "named.toml"]), Some(30));
    assert_eq!(
        place.run(&["config", "--config", "gone.toml"]).status.code(),
        Some(125)
    );
}

#[test]
fn a_child_gets_allowed_names_and_keys_that_were_asked_for() {
    let place = Place::new();
    place.configure("[env]\nTOKEN = \"zz-top\"\nFROM = { from_env = \"HIDDEN\" }\n");
    let env = |arguments: &[&str]| {
        let arguments = [&["run"], arguments, &["--", "env"]].concat();
        let output = place
            .program(&arguments)
            .env("HIDDEN", "mauve")
            .env("FAKE_API_KEY", "leak")
            .output();
        text(&output.expect("it starts").stdout)
    };
    let plain = env(&[]);
    assert!(
        plain.contains("PATH=") && plain.contains("PROCESSION_SESSION_ID=ps_"),
        "{plain}"
    );
    for hidden in ["zz-top", "mauve", "leak", "PAGER"] {
        assert!(!plain.contains(hidden), "{plain}");
    }
    let keyed = env(&["--env-key", "TOKEN", "--env-key", "FROM", "--env", "LEVEL=a=b"]);
    for line in ["TOKEN=zz-top\n", "FROM=mauve\n", "LEVEL=a=b\n"] {
        assert!(keyed.contains(line), "{keyed}");
    }
}

#[test]
fn a_configured_value_without_its_variable_is_refused() {
    let place = Place::new();
    place.configure("[env]\nFROM = { from_env = \"NOT_SET_HERE\" }\n");
    let output = place.run(&["run", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("NOT_SET_HERE"));
    assert_eq!(
        place.run(&["sessions"]).status.code(),
        Some(0),
        "what starts nothing needs no values"
    );
}

#[test]
fn help_has_examples_for_every_command() {
    let place = Place::new();
    for command in ["run", "mcp", "capabilities", "log", "sessions", "config"] {
        let output = place.run(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("Examples:"), "{command}");
    }
    assert!(text(&place.run(&["--version"]).stdout).starts_with("procession "));
}

#[test]
fn capabilities_are_a_line_each() {
    let place = Place::new();
    let lines = text(&place.run(&["capabilities"]).stdout);
    for name in ["wall_time_ms", "tree_memory_bytes", "network"] {
        assert_eq!(
            lines.lines().filter(|line| line.starts_with(name)).count(),
            1,
            "{lines}"
        );
    }
    let listed: serde_json::Value =
        serde_json::from_slice(&place.run(&["capabilities", "--json"]).stdout).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(lines.lines().count()));
}
