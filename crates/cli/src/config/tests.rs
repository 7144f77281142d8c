use std::{ffi::OsString, path::Path};

use procession_core::{Field, Value};
use procession_policy::OnExcess;

use super::*;

fn read(text: &str) -> Result<Configuration, ConfigError> {
    file::read(Text {
        file: Path::new("c.toml"),
        text,
    })
}

fn refused(text: &str, expected: &str) {
    let error = read(text).expect_err(text);
    let mut told = error.to_string();
    if let Some(source) = std::error::Error::source(&error) {
        told = format!("{told}: {source}");
    }
    assert_eq!(told, expected, "{text}");
}

fn nothing(_: &str) -> Option<OsString> {
    None
}

#[test]
fn an_empty_file_says_nothing() {
    let configuration = read("").expect("nothing is wrong");
    assert_eq!(configuration.budgets, HostBudgets::default());
    assert_eq!(configuration.policy, HostPolicySettings::default());
    assert!(configuration.check_honoured().is_ok());
}

#[test]
fn every_table_is_read() {
    let text = r#"
        [host]
        max_sessions = 8
        max_sessions_per_owner = 4
        retention_ms = 1000
        shutdown_grace_ms = 500
        [defaults]
        wall_time_ms = 60_000
        nice = -5
        env_keys = ["A"]
        [ceilings]
        tty = false
        [on_excess]
        wall_time_ms = "refuse"
        [env]
        TOKEN = "zz-top"
        OTHER = { from_env = "HOST_OTHER" }
        [env_policy]
        allow = ["PATH"]
        literal = false
        preset = "none"
        [secrets]
        key = "hunter2"
        [sandbox]
        mode = "landlock"
        readable = ["/usr"]
        [containment]
        prefer = "cgroup"
        [state]
        dir = "/var/tmp/x"
    "#;
    let configuration = read(text).expect("nothing is wrong");
    assert_eq!(configuration.budgets.max_sessions, 8);
    assert_eq!(configuration.budgets.max_sessions_per_owner, 4);
    let defaults = &configuration.policy.defaults;
    assert_eq!(defaults.get(&Field::WallTime), Some(&Value::Number(60_000)));
    assert_eq!(defaults.get(&Field::Retention), Some(&Value::Number(1_000)));
    assert_eq!(defaults.get(&Field::Nice), Some(&Value::Integer(-5)));
    assert_eq!(defaults.get(&Field::Containment), Some(&Value::from("cgroup")));
    assert_eq!(
        configuration.policy.ceilings.get(&Field::Tty),
        Some(&Value::Flag(false))
    );
    assert_eq!(
        configuration.policy.on_excess.get(&Field::WallTime),
        Some(&OnExcess::Refuse)
    );
    assert_eq!(configuration.allowed(), ["PATH"]);
    assert_eq!(configuration.sandbox.mode, SandboxMode::Landlock);
    assert_eq!(configuration.state_dir, Some("/var/tmp/x".into()));
    let shown = format!("{configuration:?}");
    assert!(!shown.contains("zz-top") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn what_is_unknown_is_refused_with_its_place() {
    refused(
        "\n[hots]\n",
        "c.toml:2: unknown table `hots`; the nearest known one is `host`",
    );
    refused(
        "[host]\n\nmax_session = 1\n",
        "c.toml:3: unknown key `max_session` in [host]; the nearest known one is `max_sessions`",
    );
    refused(
        "[defaults]\nwall_time = 1\n",
        "c.toml:2: unknown key `wall_time` in [defaults]; the nearest known one is `wall_time_ms`",
    );
    refused(
        "[env]\nA = { from_environment = \"B\" }\n",
        "c.toml:2: unknown key `from_environment` in [env]; the nearest known one is `from_env`",
    );
    refused(
        "max_sessions = 1\n",
        "c.toml:1: unknown table `max_sessions`; the nearest known one is `ceilings`",
    );
    refused(
        "[state]\nfolder = \"/x\"",
        "c.toml:2: unknown key `folder` in [state]; the nearest known one is `dir`",
    );
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    refused(
        "[host]\nmax_sessions = \"8\"\n",
        "c.toml:2: `host.max_sessions` is a whole number, not a text",
    );
    refused(
        "[host]\nmax_sessions = -1\n",
        "c.toml:2: `host.max_sessions` does not fit: it is not negative",
    );
    refused("host = 1\n", "c.toml:1: `host` is a table, not a whole number");
    refused(
        "[on_excess]\ntty = \"ask\"\n",
        "c.toml:2: `on_excess.tty` does not fit: it is one of `clamp`, `refuse`, `advise`",
    );
    refused(
        "[defaults]\ntty = \"yes\"\n",
        "c.toml:2: the default of `tty` cannot be `yes`: it is `true` or `false`",
    );
    refused(
        "[ceilings]\nwall_time_ms = 0\n",
        "c.toml:2: the ceiling of `wall_time_ms` cannot be `0`: zero has no meaning here",
    );
    refused(
        "[defaults]\nwall_time_ms = 1.5\n",
        "c.toml:2: `defaults.wall_time_ms` is a whole number, a text, `true`, `false` or a list of texts, not a number with a fraction",
    );
    refused(
        "[host]\nretention_ms = 1\n[defaults]\nretention_ms = 2\n",
        "c.toml:4: `defaults.retention_ms` and `host.retention_ms` say the same thing: keep one",
    );
    refused(
        "[state]\ndir = \"x\"\n",
        "c.toml:2: `state.dir` does not fit: it is an absolute path",
    );
    refused(
        "[env]\n\"A=B\" = \"c\"\n",
        "c.toml:2: `env.A=B` does not fit: a variable's name has 1 to 256 bytes, no `=` and no NUL",
    );
    assert!(
        read("[host]\nmax_sessions = 0\n")
            .expect_err("zero")
            .to_string()
            .starts_with("c.toml:2: ")
    );
    assert!(
        read("[host]\nmax_sessions = 1\nmax_sessions = 2\n")
            .expect_err("twice")
            .to_string()
            .starts_with("c.toml:3: ")
    );
}

#[test]
fn no_error_shows_a_value_of_a_secret() {
    for text in [
        "[secrets]\na = \"hunter2\n",
        "[secrets]\na = [\"hunter2\"]\n",
        "[env]\na = { from_env = 1, b = \"hunter2\" }\n",
        "[env]\na = \"hunter2\\u0000\"\n",
        "[secrets]\na = \"hunter2\" b\n",
        "[secrets]\na = hunter2\n",
    ] {
        let error = format!("{:?}", read(text).expect_err(text));
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn what_cannot_be_honoured_is_not_ignored() {
    for (text, key) in [
        ("[sandbox]\nmode = \"landlock\"\n", "sandbox.mode"),
        ("[sandbox]\nnetwork = false\n", "sandbox.network"),
        ("[sandbox]\nwritable = [\"/x\"]\n", "sandbox.writable"),
    ] {
        let error = read(text)
            .expect(text)
            .check_honoured()
            .expect_err(text)
            .to_string();
        assert!(error.starts_with("c.toml:2: ") && error.contains(key), "{error}");
    }
    for text in [
        "[secrets]\na = \"hunter2-hunter2\"\n",
        "[sandbox]\nmode = \"off\"\n",
        "[containment]\nprefer = \"process_group\"\n",
    ] {
        assert!(read(text).expect(text).check_honoured().is_ok(), "{text}");
    }
}

#[test]
fn a_secret_comes_from_the_file_or_the_host_and_is_long_enough() {
    let host: HostEnvironment<'_> = &|name: &str| (name == "TOKEN").then(|| "hunter2-hunter2\n".into());
    let secrets = |text: &str| read(text).expect(text).secrets(host);
    let both = "[secrets]\na = \"hunter3-hunter3\"\nb = { from_env = \"TOKEN\" }\n";
    let lengths: Vec<_> = secrets(both)
        .expect("long enough")
        .iter()
        .map(procession_core::redact::Secret::bytes)
        .collect();
    assert_eq!(lengths, [15, 15]);
    for (text, expected) in [
        (
            "[secrets]\na = \"hunter2\"\n",
            "c.toml:2: `secrets.a` cannot be replaced in output",
        ),
        (
            "[secrets]\na = { from_env = \"NOT_SET\" }\n",
            "c.toml:2: `secrets.a` comes from `NOT_SET`, which is not set here",
        ),
    ] {
        let error = secrets(text).expect_err(text);
        assert_eq!(error.to_string(), expected);
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn the_environment_is_made_of_allowed_names_and_configured_values() {
    let configuration =
        read("[env]\nA = \"literal\"\nB = { from_env = \"HOST_B\" }\n").expect("nothing is wrong");
    let host = |name: &str| match name {
        "PATH" => Some("/bin".into()),
        "HOST_B" => Some("from the host".into()),
        "SECRET" => Some("not copied".into()),
        _ => None,
    };
    let rules = configuration
        .environment_rules(Preset::Agent, &host)
        .expect("all is set");
    assert_eq!(rules.base.keys().collect::<Vec<_>>(), ["PATH"]);
    let revealed = |name: &str| rules.configured.get(name).map(EnvValue::reveal);
    assert_eq!(revealed("A"), Some("literal".as_ref()));
    assert_eq!(revealed("B"), Some("from the host".as_ref()));
    assert_eq!(rules.preset, Preset::Agent);
    let error = configuration
        .environment_rules(Preset::Agent, &nothing)
        .expect_err("not set");
    assert_eq!(
        error.to_string(),
        "c.toml:3: `env.B` comes from `HOST_B`, which is not set here"
    );
}

#[test]
fn the_file_is_looked_for_where_it_was_named_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, max_sessions: u64| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
        std::fs::write(&file, format!("[host]\nmax_sessions = {max_sessions}\n")).expect("a file");
        file
    };
    let named = write("named.toml", 30);
    let by_variable = write("variable.toml", 31);
    write("config/procession/config.toml", 32);
    let environment = |name: &str| match name {
        "PROCESSION_CONFIG" => Some(by_variable.clone().into_os_string()),
        "XDG_CONFIG_HOME" => Some(folder.path().join("config").into_os_string()),
        _ => None,
    };
    let user_only = |name: &str| environment(name).filter(|_| name != "PROCESSION_CONFIG");
    let home_only = |name: &str| (name == "HOME").then(|| folder.path().as_os_str().to_owned());
    let most = |named: Option<&Path>, environment: HostEnvironment<'_>| {
        Configuration::load(named, environment).map(|configuration| configuration.budgets.max_sessions)
    };
    assert_eq!(most(Some(&named), &environment).ok(), Some(30));
    assert_eq!(most(None, &environment).ok(), Some(31));
    assert_eq!(most(None, &user_only).ok(), Some(32));
    assert_eq!(
        most(None, &home_only).ok(),
        Some(64),
        "there is no file, which is fine"
    );
    assert_eq!(most(None, &nothing).ok(), Some(64));
    assert!(most(Some(&folder.path().join("gone.toml")), &nothing).is_err());
}

#[test]
fn each_value_is_shown_with_its_source_and_no_secret() {
    let text = "[host]\nmax_sessions = 8\n[ceilings]\nwall_time_ms = 1000\n[env]\nTOKEN = \"zz-top\"\n";
    let configuration = read(text).expect("nothing is wrong");
    let shown = show::as_json(&configuration, Some(Path::new("/state")));
    let tables = &shown["tables"];
    assert_eq!(
        tables["host"]["max_sessions"],
        serde_json::json!({ "value": 8, "source": "file", "line": 2 })
    );
    assert_eq!(tables["host"]["max_sessions_per_owner"]["source"], "built_in");
    assert_eq!(
        tables["defaults"]["wall_time_ms"],
        serde_json::json!({ "value": 1000, "source": "ceiling" })
    );
    assert_eq!(tables["ceilings"]["wall_time_ms"]["line"], 4);
    assert_eq!(tables["state"]["dir"]["value"], "/state");
    let mut lines = Vec::new();
    show::as_lines(&configuration, None, &mut lines).expect("memory takes all");
    let lines = String::from_utf8(lines).expect("text");
    assert!(lines.contains("max_sessions = 8  # file, line 2"), "{lines}");
    assert!(lines.contains("TOKEN = \"[hidden]\"  # file, line 6"), "{lines}");
    assert!(!lines.contains("zz-top") && !shown.to_string().contains("zz-top"));
}
