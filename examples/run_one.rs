//! One command as a session: its output as it comes, then the record of its end.
//!
//! `cargo run --example run_one`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Arc, time::Duration};

use procession_actors::{System, new_scope, report::PollQuery};
use procession_core::{Outcome, Owner, SessionSpec, Shell};
use procession_process::UnixPort;

/// What the command wrote, and how it ended.
#[derive(Debug)]
struct Report {
    stdout: String,
    stderr: String,
    outcome: Outcome,
}

async fn run(spec: SessionSpec, mut show: impl FnMut(&str)) -> Result<Report, Box<dyn Error>> {
    // A system is a registry with its policy and its log. The port is what it starts processes with: real ones here,
    // scripted ones in tests.
    let system = System::builder(Arc::new(UnixPort::start()?)).start().await?;

    // Every session belongs to somebody. The scope is a random value that the host keeps to itself, so that no other
    // owner can be mistaken for this one, whatever they are called.
    let client = system.client(Owner::new("examples", "run_one", new_scope()?));

    // Answered when the process runs, or with a typed reason why none does.
    let started = client.start(spec).await?;

    let (mut stdout, mut stderr) = (String::new(), String::new());
    let outcome = loop {
        // Answered with the first new output, with the end, or when the wait is over. It reads on from the session's own
        // cursor: what was told once is not told again.
        let report = client
            .poll(started.session, PollQuery::wait(Duration::from_secs(30)))
            .await?;
        show(&report.stdout);
        show(&report.stderr);
        stdout.push_str(&report.stdout);
        stderr.push_str(&report.stderr);
        if let Some(outcome) = report.outcome {
            break outcome;
        }
    };

    // Nothing lives here any more; with sessions that do, this is where they are asked to end, then killed.
    system.shutdown(None, Duration::from_secs(5)).await;
    Ok(Report {
        stdout,
        stderr,
        outcome,
    })
}

/// A command that writes to both streams, takes its time, and fails.
fn command() -> SessionSpec {
    let command = "echo one; sleep 0.2; echo two; echo 'that was not good' >&2; exit 3";
    SessionSpec::shell(Shell::Sh, command)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let report = run(command(), |text| print!("{text}")).await?;
    println!(
        "--- {} bytes of output, {} of errors",
        report.stdout.len(),
        report.stderr.len()
    );
    println!("--- {:?}, {:?}", report.outcome.cause, report.outcome.status);
    println!(
        "--- all output read: {}",
        report.outcome.incomplete_output.is_none()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use procession_core::{Cause, Status};

    use super::*;

    #[tokio::test]
    async fn a_failing_command_is_told_as_it_was() {
        let mut shown = String::new();
        let report = run(command(), |text| shown.push_str(text))
            .await
            .expect("it starts");
        assert_eq!(report.stdout, "one\ntwo\n");
        assert_eq!(report.stderr, "that was not good\n");
        assert_eq!(report.outcome.cause, Cause::Exit);
        assert_eq!(report.outcome.status, Status::Exited { code: 3 });
        assert_eq!(shown.len(), report.stdout.len() + report.stderr.len());
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_refused_and_no_session() {
        let refusal = run(SessionSpec::argv(["no-such-program"]), |_| {})
            .await
            .expect_err("nothing to start");
        assert!(refusal.to_string().contains("no-such-program"), "{refusal}");
    }
}
