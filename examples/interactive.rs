//! A conversation with a program: write, read what it says to that, close its input, see it end.
//!
//! `cargo run --example interactive`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Arc, time::Duration};

use bytes::Bytes;
use procession_actors::{
    Client, System, new_scope,
    report::{PollQuery, WriteRequest, Written},
};
use procession_core::{Outcome, Owner, SessionId, SessionSpec, Shell, spec::StdinMode};
use procession_process::UnixPort;

/// The conversation, and how it ended.
#[derive(Debug)]
struct Report {
    said: Vec<(String, String)>,
    last_words: String,
    outcome: Option<Outcome>,
}

async fn run() -> Result<Report, Box<dyn Error>> {
    let system = System::builder(Arc::new(UnixPort::start()?)).start().await?;
    let client = system.client(Owner::new("examples", "interactive", new_scope()?));

    let mut spec = SessionSpec::shell(
        Shell::Sh,
        "while read -r name; do echo \"hello, $name\"; done; echo bye",
    );
    // Input has to be asked for. Without it a program that reads sees the end of its input at once and cannot hang.
    spec.stdin = StdinMode::Piped;
    let session = client.start(spec).await?.session;

    let mut said = Vec::new();
    for name in ["world", "moon"] {
        write_line(&client, session, name).await?;
        // Nobody can know when a program has said all that it wants to say; a poll returns with the first that comes.
        let answer = client
            .poll(session, PollQuery::wait(Duration::from_secs(10)))
            .await?;
        said.push((name.to_owned(), answer.stdout));
    }

    // Behind everything that was written: the program reads all of it, then the end.
    client.close_stdin(session).await?;
    let mut last_words = String::new();
    let outcome = loop {
        let report = client
            .poll(session, PollQuery::wait(Duration::from_secs(10)))
            .await?;
        last_words.push_str(&report.stdout);
        if report.outcome.is_some() || report.stdout.is_empty() {
            break report.outcome;
        }
    };

    system.shutdown(None, Duration::from_secs(5)).await;
    Ok(Report {
        said,
        last_words,
        outcome,
    })
}

/// Writes a line. The answer says how much the pipe took: a program that does not read takes no more than a pipe holds.
async fn write_line(client: &Client, session: SessionId, line: &str) -> Result<Written, Box<dyn Error>> {
    let input = Bytes::from(format!("{line}\n"));
    let request = WriteRequest {
        input,
        wait: Duration::from_secs(2),
        request_id: None,
    };
    Ok(client.write(session, request).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let report = run().await?;
    for (name, answer) in &report.said {
        print!("> {name}\n{answer}");
    }
    print!("> (end of input)\n{}", report.last_words);
    println!("--- {:?}", report.outcome.map(|outcome| outcome.status));
    Ok(())
}

#[cfg(test)]
mod tests {
    use procession_core::Status;

    use super::*;

    #[tokio::test]
    async fn each_line_is_answered_and_the_end_of_input_ends_it() {
        let report = run().await.expect("it runs");
        let expected = [("world", "hello, world\n"), ("moon", "hello, moon\n")];
        assert_eq!(
            report.said,
            expected.map(|(name, answer)| (name.to_owned(), answer.to_owned()))
        );
        assert_eq!(report.last_words, "bye\n");
        assert_eq!(
            report.outcome.map(|outcome| outcome.status),
            Some(Status::Exited { code: 0 })
        );
    }
}
