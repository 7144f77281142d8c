//! A toy agent: it plans commands, runs each as a session, reads what came of it, and stops one that hangs.
//!
//! `cargo run --example agent_loop`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{collections::VecDeque, error::Error, sync::Arc, time::Duration};

use procession_actors::{
    Client, System, new_scope,
    report::{Condition, Ladder, PollQuery, StopRequest, WaitResult},
};
use procession_core::{Cause, Owner, SessionSpec, Shell, Status};
use procession_process::UnixPort;

/// What the agent remembers of one command.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    output: String,
    verdict: Verdict,
}

/// What the agent made of it.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Worked,
    Failed(Status),
    /// It was still running when the agent's patience was over.
    Hung,
}

async fn run(patience: Duration) -> Result<Vec<Step>, Box<dyn Error>> {
    let system = System::builder(Arc::new(UnixPort::start()?)).start().await?;
    let client = system.client(Owner::new("examples", "agent_loop", new_scope()?));

    let mut plan = VecDeque::from(["printf 'alpha\\nbeta\\n'".to_owned()]);
    let mut memory = Vec::new();
    while let Some(command) = plan.pop_front() {
        let step = act(&client, command, patience).await?;
        plan.extend(think(&memory, &step));
        memory.push(step);
    }

    system.shutdown(None, Duration::from_secs(5)).await;
    Ok(memory)
}

/// Where a model would be asked: what to do next, after what just happened.
fn think(memory: &[Step], last: &Step) -> Vec<String> {
    if memory.is_empty() {
        // The first command listed things; each is looked at, then there is one that will not come back.
        let looks = last
            .output
            .lines()
            .map(|name| format!("test {name} = alpha && echo '{name} is fine'"));
        return looks.chain(["sleep 600".to_owned()]).collect();
    }
    if last.verdict == Verdict::Hung {
        return vec!["echo 'better without it'".to_owned()];
    }
    Vec::new()
}

/// Runs one command to its end, or for as long as the agent is patient.
async fn act(client: &Client, command: String, patience: Duration) -> Result<Step, Box<dyn Error>> {
    let session = client
        .start(SessionSpec::shell(Shell::Sh, command.as_str()))
        .await?
        .session;
    // One question instead of a loop of polls. Time up is an answer, and does nothing to the session.
    let waited = client.wait(session, Condition::Ended, patience).await?;
    if waited.result == WaitResult::TimedOut {
        // TERM to the whole tree, KILL after the grace; answered when it is gone.
        let request = StopRequest {
            ladder: Ladder::AskFor(Duration::from_millis(500)),
            request_id: None,
        };
        client.stop(session, request).await?;
    }
    let report = client.poll(session, PollQuery::now()).await?;
    let outcome = report
        .outcome
        .ok_or("a session that was stopped has an outcome")?;
    // Why it ended and how the process ended are two things: here the cause is ours, the status is the process's.
    let verdict = match (outcome.cause, outcome.status) {
        (Cause::Stop, _) => Verdict::Hung,
        (_, Status::Exited { code: 0 }) => Verdict::Worked,
        (_, status) => Verdict::Failed(status),
    };
    Ok(Step {
        command,
        output: report.stdout,
        verdict,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for step in run(Duration::from_secs(1)).await? {
        println!("$ {}\n{}=> {:?}", step.command, step.output, step.verdict);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_learns_from_each_command_and_survives_one_that_hangs() {
        let memory = run(Duration::from_secs(1)).await.expect("it runs");
        let verdicts: Vec<_> = memory.iter().map(|step| &step.verdict).collect();
        let failed = Verdict::Failed(Status::Exited { code: 1 });
        assert_eq!(
            verdicts,
            [
                &Verdict::Worked,
                &Verdict::Worked,
                &failed,
                &Verdict::Hung,
                &Verdict::Worked
            ]
        );
        assert_eq!(memory[1].output, "alpha is fine\n");
        assert_eq!(memory[4].output, "better without it\n");
    }
}
