//! Two readers of one session, each with a cursor of its own, and a page out of the log by its offset.
//!
//! `cargo run --example background_poll`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Arc, time::Duration};

use procession_actors::{
    Client, System,
    error::PollError,
    new_scope,
    report::{LogQuery, PollQuery},
};
use procession_core::{Owner, SessionId, SessionSpec, Shell, text::ReadPosition};
use procession_process::UnixPort;

/// What each reader got.
#[derive(Debug)]
struct Report {
    /// By a reader that took whatever was there as soon as it was there.
    eager: String,
    /// By a reader that came when all was over.
    late: String,
    /// By offset: 7 bytes from byte 7 on.
    page: String,
}

async fn run() -> Result<Report, Box<dyn Error>> {
    let system = System::builder(Arc::new(UnixPort::start()?)).start().await?;
    let client = system.client(Owner::new("examples", "background_poll", new_scope()?));
    let spec = SessionSpec::shell(Shell::Sh, "for n in 1 2 3; do echo \"line $n\"; sleep 0.1; done");
    let session = client.start(spec).await?.session;

    // A start does not wait for the end: from here on the session runs in the background.
    let eager = read_to_the_end(&client, session).await?;
    // Reading takes nothing away. The same output is there for whoever begins at the start.
    let late = read_to_the_end(&client, session).await?;

    // The log counts bytes of both streams in the order of the writes, from 0, for ever the same.
    let query = LogQuery {
        offset: 7,
        max_bytes: 7,
        stream: None,
    };
    let page = client.read_log(session, query).await?;
    let bytes: Vec<u8> = page
        .runs
        .iter()
        .flat_map(|run| run.bytes.iter().copied())
        .collect();

    system.shutdown(None, Duration::from_secs(5)).await;
    Ok(Report {
        eager,
        late,
        page: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Reads from the first byte to the end of the session, with a cursor that nobody else moves.
async fn read_to_the_end(client: &Client, session: SessionId) -> Result<String, PollError> {
    let (mut text, mut cursor) = (String::new(), ReadPosition::START);
    loop {
        let report = client
            .poll(session, PollQuery::wait(Duration::from_secs(30)).from(cursor))
            .await?;
        text.push_str(&report.stdout);
        cursor = report.cursor;
        if report.outcome.is_some() {
            return Ok(text);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let report = run().await?;
    println!("eager reader: {:?}", report.eager);
    println!("late reader:  {:?}", report.late);
    println!("log from 7:   {:?}", report.page);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readers_do_not_steal_from_one_another() {
        let report = run().await.expect("it runs");
        assert_eq!(report.eager, "line 1\nline 2\nline 3\n");
        assert_eq!(report.late, report.eager);
        assert_eq!(report.page, "line 2\n");
    }
}
