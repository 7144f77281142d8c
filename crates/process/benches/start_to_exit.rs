//! From the start of `true` to its exit being known, by each way, as a median over interleaved rounds.
#![expect(clippy::print_stdout, reason = "what was measured is to be seen")]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn main() {
    procession_process::guard::run_if_asked();
    linux::main();
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux {
    use std::{
        collections::BTreeMap,
        process::Stdio,
        sync::Arc,
        time::{Duration, Instant},
    };

    use procession_core::{
        Environment, SessionId,
        containment::Mechanism,
        spec::{StdinMode, StreamMode},
    };
    use procession_process::{
        GuardOptions, GuardPort, Preference, ProcessLimits, ProcessPort, SpawnRequest, UnixPort,
    };

    const ROUNDS: usize = 300;

    pub(super) fn main() {
        // `cargo test` runs it too, to see that it works.
        let rounds = if std::env::args().any(|argument| argument == "--bench") {
            ROUNDS
        } else {
            3
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime").block_on(measure(rounds));
    }

    async fn measure(rounds: usize) {
        let mut ports: Vec<(String, Arc<dyn ProcessPort>)> = vec![(
            "without a guard".to_owned(),
            Arc::new(UnixPort::start().expect("a port")),
        )];
        for rung in [
            Mechanism::Cgroup,
            Mechanism::PidNamespace,
            Mechanism::PgidLock,
            Mechanism::Subreaper,
            Mechanism::ProcessGroup,
        ] {
            let options = GuardOptions::default().prefer(Preference::Only(rung));
            match GuardPort::start(options) {
                Ok(port) => ports.push((format!("guard, {}", rung.as_str()), Arc::new(port))),
                Err(error) => println!("{error}"),
            }
        }
        let mut bare = Vec::new();
        let mut taken: Vec<(Vec<Duration>, Vec<Duration>)> = vec![Default::default(); ports.len()];
        for _ in 0..rounds {
            bare.push(plain().await);
            for ((_, port), (spawned, exited)) in ports.iter().zip(&mut taken) {
                let (spawn, exit) = by(port.as_ref()).await;
                spawned.push(spawn);
                exited.push(exit);
            }
        }
        let bare = median(&mut bare);
        println!("{:24} {:>9} {:>9} {:>6}", "way", "start us", "exit us", "ratio");
        println!(
            "{:24} {:>9} {:>9} {:>6}",
            "tokio's Command",
            "",
            bare.as_micros(),
            "1.00"
        );
        for ((name, _), (spawned, exited)) in ports.iter().zip(&mut taken) {
            let exited = median(exited);
            println!(
                "{name:24} {:>9} {:>9} {:>6.2}",
                median(spawned).as_micros(),
                exited.as_micros(),
                exited.as_secs_f64() / bare.as_secs_f64()
            );
        }
    }

    async fn plain() -> Duration {
        let started = Instant::now();
        let mut child = tokio::process::Command::new("/bin/true")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        child.wait().await.expect("an exit");
        started.elapsed()
    }

    async fn by(port: &dyn ProcessPort) -> (Duration, Duration) {
        let request = SpawnRequest {
            session: SessionId::from_random([7; 10]),
            argv: vec!["/bin/true".into()],
            environment: Environment {
                variables: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            },
            cwd: None,
            root: None,
            stdin: StdinMode::Null,
            streams: StreamMode::Separate,
            terminal: None,
            limits: ProcessLimits::default(),
        };
        let started = Instant::now();
        let session = port.spawn(request).await.expect("a process");
        let spawned = started.elapsed();
        session.leader.exited().await.expect("an exit");
        session.tree.sweep().await;
        session.leader.reap();
        (spawned, started.elapsed())
    }

    fn median(times: &mut [Duration]) -> Duration {
        times.sort_unstable();
        times[times.len() / 2]
    }
}
