//! A log actor of one's own in the log's slot: it counts what each session writes and keeps no output.
//!
//! `cargo run --example replace_log`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration};

use procession_actors::{
    LogArguments, LogMessage, Slot, System, actor,
    error::{ReadLogError, SearchLogError},
    log::{LogFeed, OpenedLog},
    new_scope,
    report::{Condition, LogQuery, LogSummary},
};
use procession_core::{Owner, SessionId, SessionSpec, Shell};
use procession_process::UnixPort;
use ractor::{Actor, ActorProcessingErr, ActorRef};

/// Counts, and forgets.
struct CountingLog;

#[derive(Default)]
struct Counted {
    feed: LogFeed,
    bytes: u64,
}

impl Counted {
    /// Takes what waits. The feed is bounded: as long as nobody takes, the session stops reading.
    fn take(&mut self) {
        loop {
            let runs = self.feed.take();
            if runs.is_empty() {
                break; // From here on the next push tells again.
            }
            self.bytes += runs.iter().map(|run| run.bytes.len() as u64).sum::<u64>();
        }
        self.feed.publish(self.summary());
    }

    fn summary(&self) -> LogSummary {
        LogSummary {
            total_bytes: self.bytes,
            kept_bytes: 0,
            dropped_bytes: self.bytes,
            incomplete: None,
            path: None,
        }
    }
}

impl Actor for CountingLog {
    type Msg = LogMessage;
    type State = BTreeMap<SessionId, Counted>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<LogMessage>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(BTreeMap::new())
    }

    async fn handle(
        &self,
        _myself: ActorRef<LogMessage>,
        message: LogMessage,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LogMessage::Open { spec, reply } => {
                let counted = state.entry(spec.session).or_default();
                let _ = reply.send(Ok(OpenedLog {
                    feed: counted.feed.clone(),
                    path: None,
                }));
            }
            // Output never travels in messages: this one only says that some waits in the feed.
            LogMessage::Ready { session } => {
                if let Some(counted) = state.get_mut(&session) {
                    counted.take();
                }
            }
            LogMessage::Close { session, reply, .. } => {
                let summary = state.get_mut(&session).map(|counted| {
                    counted.take();
                    counted.summary()
                });
                let _ = reply.send(summary.unwrap_or_default());
            }
            LogMessage::Read { reply, .. } => drop(reply.send(Err(ReadLogError::NoLog))),
            LogMessage::Search { reply, .. } => drop(reply.send(Err(SearchLogError::NoLog))),
            LogMessage::Remove { session } => drop(state.remove(&session)),
            // Nothing is ever on its way to a disk here.
            LogMessage::Settle { reply } => drop(reply.send(())),
            // Only our own log actor can make one.
            LogMessage::Internal(_) => {}
        }
        Ok(())
    }
}

/// What is said of a log that keeps nothing.
#[derive(Debug)]
struct Report {
    log: LogSummary,
    read: Result<usize, ReadLogError>,
}

async fn run() -> Result<Report, Box<dyn Error>> {
    // Supervised: the system starts the actor, and starts it again when it died.
    let slot: Slot<LogArguments, LogMessage> = Slot::supervised(actor(|_: LogArguments| (CountingLog, ())));
    let system = System::builder(Arc::new(UnixPort::start()?))
        .log_slot(slot)
        .start()
        .await?;
    let client = system.client(Owner::new("examples", "replace_log", new_scope()?));

    let spec = SessionSpec::shell(Shell::Sh, "head -c 1000000 /dev/zero");
    let session = client.start(spec).await?.session;
    client
        .wait(session, Condition::Ended, Duration::from_secs(30))
        .await?;
    let log = client.inspect(session).await?.log;
    let query = LogQuery {
        offset: 0,
        max_bytes: 100,
        stream: None,
    };
    let read = client.read_log(session, query).await.map(|page| page.runs.len());

    system.shutdown(None, Duration::from_secs(5)).await;
    Ok(Report { log, read })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let report = run().await?;
    println!(
        "written: {} bytes, kept: {} bytes",
        report.log.total_bytes, report.log.kept_bytes
    );
    println!("complete: {}", report.log.is_complete());
    println!("a read says: {:?}", report.read);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_counted_is_told_and_what_is_not_kept_is_not_claimed() {
        let report = run().await.expect("it runs");
        assert_eq!(
            (
                report.log.total_bytes,
                report.log.kept_bytes,
                report.log.dropped_bytes
            ),
            (1_000_000, 0, 1_000_000)
        );
        assert!(!report.log.is_complete());
        assert_eq!(report.read, Err(ReadLogError::NoLog));
    }
}
