//! Asking for too much: what was requested, what holds, who set it, and what is refused.
//!
//! `cargo run --example limits_report`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Arc, time::Duration};

use procession_actors::{System, error::StartError, new_scope};
use procession_core::{Field, Owner, SessionSpec};
use procession_policy::{Decision, HostPolicy, HostPolicySettings, OnExcess, Status, explain_field};
use procession_process::UnixPort;

/// What came of three requests.
#[derive(Debug)]
struct Report {
    /// More time than anybody gets: it runs, with less.
    clamped: Vec<String>,
    /// What nothing on this machine enforces: it does not run.
    refused: String,
    /// The same, on a host that would rather have it run: on record as what it is.
    advised: Vec<String>,
}

async fn run() -> Result<Report, Box<dyn Error>> {
    const GIB: u64 = 1 << 30;

    // This host lets nobody run for more than a minute. What it does not say is as in docs/limits.md.
    let rules = HostPolicySettings::default().ceiling(Field::WallTime, 60_000_u64);
    let strict = system(rules.clone()).await?;
    let client = strict.client(Owner::new("examples", "limits_report", new_scope()?));

    let spec = SessionSpec::argv(["true"])
        .wall_time(Duration::from_secs(3600))
        .limit(Field::Grace, 500_u64);
    let clamped = told(&client.start(spec).await?.decision);

    // Memory of a whole tree needs a cgroup. Where there is none the request is refused before anything has happened,
    // because a limit that is only claimed is worse than none.
    let spec = SessionSpec::argv(["true"]).limit(Field::TreeMemory, GIB);
    let refused = match client.start(spec.clone()).await {
        Ok(started) => format!("this machine can: {:?}", started.containment.mechanism),
        Err(StartError::Refused(refusal)) => refusal.to_string(),
        Err(error) => return Err(error.into()),
    };
    strict.shutdown(None, Duration::from_secs(5)).await;

    let lenient = system(rules.on_excess(Field::TreeMemory, OnExcess::Advise)).await?;
    let client = lenient.client(Owner::new("examples", "limits_report", new_scope()?));
    let advised = told(&client.start(spec).await?.decision);
    lenient.shutdown(None, Duration::from_secs(5)).await;

    Ok(Report {
        clamped,
        refused,
        advised,
    })
}

async fn system(rules: HostPolicySettings) -> Result<System, Box<dyn Error>> {
    let policy = HostPolicy::new(rules)?;
    Ok(System::builder(Arc::new(UnixPort::start()?))
        .policy(policy)
        .start()
        .await?)
}

/// The decisions that are not plain defaults, a line each. All of them are on record, in the log and at the end too.
fn told(decision: &Decision) -> Vec<String> {
    let fields = decision.fields().iter();
    fields
        .filter(|field| field.status != Status::Defaulted)
        .map(explain_field)
        .collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let report = run().await?;
    println!("an hour, and half a second of grace:");
    report.clamped.iter().for_each(|line| println!("  {line}"));
    println!("1 GiB for the whole tree:\n  {}", report.refused);
    println!("the same on a lenient host:");
    report.advised.iter().for_each(|line| println!("  {line}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_clamped_or_left_out_in_silence() {
        let report = run().await.expect("it runs");
        let line_of = |lines: &[String], field: Field| {
            let start = format!("{field}: ");
            lines
                .iter()
                .find(|line| line.starts_with(&start))
                .cloned()
                .unwrap_or_default()
        };
        let wall_time = line_of(&report.clamped, Field::WallTime);
        assert!(
            wall_time.contains("3600000") && wall_time.contains("60000") && wall_time.contains("clamped"),
            "{wall_time}"
        );
        assert!(
            line_of(&report.clamped, Field::Grace).contains("500"),
            "{:?}",
            report.clamped
        );
        if report.refused.contains("tree_memory_bytes") {
            let advised = line_of(&report.advised, Field::TreeMemory);
            assert!(advised.contains("unsupported"), "{advised}");
        }
    }
}
