//! A few rounds of what the program of the same name counts by the hundred.
#![cfg(test)]

use std::process::{Command, Output};

fn reliability(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reliability"))
        .args(arguments)
        .output()
        .unwrap()
}

fn held(arguments: &[&str]) -> String {
    let output = reliability(arguments);
    let table = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{table}{errors}");
    table
}

#[test]
fn nobody_outlives_a_host_that_is_killed() {
    let table = held(&["host-kills", "4"]);
    assert!(table.contains("| `process_group` | 4 |"), "{table}");
}

#[test]
fn sessions_one_after_another_leave_nothing() {
    let table = held(&["sessions", "120"]);
    assert!(table.contains("| the host's children | 1 | 1 |"), "{table}");
}
