use insta::assert_snapshot;

use super::*;
use crate::{
    HostPolicy, HostPolicySettings, OnExcess, decide,
    samples::{capabilities, request},
};

fn explained<const N: usize>(settings: HostPolicySettings, limits: [(Field, Value); N]) -> String {
    let host = HostPolicy::new(settings).unwrap();
    let decision = decide(&request(limits), &host, &capabilities());
    explain_decision(&decision)
}

/// The lines of these fields.
fn lines<const N: usize>(settings: HostPolicySettings, limits: [(Field, Value); N]) -> String {
    let fields: Vec<_> = limits.iter().map(|(field, _)| format!("{field}: ")).collect();
    let all = explained(settings, limits);
    let asked = all
        .lines()
        .filter(|line| fields.iter().any(|field| line.starts_with(field)));
    asked.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_session_that_asks_for_nothing_gets_a_line_a_field() {
    assert_snapshot!(explained(HostPolicySettings::default().cwd_root("/srv"), []));
}

#[test]
fn every_status_has_its_words() {
    let settings = HostPolicySettings::default()
        .ceiling(Field::Tty, false)
        .ceiling(Field::IdleTime, 5_u64)
        .on_excess(Field::IdleTime, OnExcess::Advise)
        .on_excess(Field::TreeMemory, OnExcess::Clamp);
    let asked = [
        (Field::WallTime, Value::Number(99_999_999_999)),
        (Field::IdleTime, Value::Number(60_000)),
        (Field::OutputBudget, Value::Number(0)),
        (Field::Tty, Value::Flag(true)),
        (Field::TerminalSize, Value::from("0x80")),
        (Field::EnvKeys, Value::List(vec!["A".to_owned(), "B".to_owned()])),
        (Field::Leftovers, Value::from("keep")),
        (Field::AddressSpace, Value::Number(1 << 30)),
        (Field::OpenFiles, Value::Number(1_000_000)),
        (Field::Processes, Value::Number(5)),
        (Field::Nice, Value::Integer(5)),
        (Field::TreeMemory, Value::Number(1 << 30)),
    ];
    assert_snapshot!(lines(settings, asked));
}

#[test]
fn what_would_move_a_cursor_is_shown_as_an_escape() {
    let hostile = Value::List(vec!["A\nwall_time_ms: forged\u{1b}[2J".to_owned()]);
    let found = lines(HostPolicySettings::default(), [(Field::EnvLiteral, hostile)]);
    assert_eq!(
        found,
        "env_literal: requested [A\\nwall_time_ms: forged\\u{1b}[2J], effective \
         [A\\nwall_time_ms: forged\\u{1b}[2J], as requested, native (env)",
    );
}

#[test]
fn a_machine_is_told_a_line_a_field() {
    assert_snapshot!(explain_capabilities(&capabilities()));
}
