//! Sessions beside plain programs that do the same, measured in turn within one run: `cargo bench -p
//! procession-examples --bench sessions`, with `-- --full` for longer floods and more rounds.
//!
//! The floor's figures are of the same machine in the same minute, so that the ratios count and not the figures.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod floor;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod jobs;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod rows;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod table;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn main() {
    // This program is its own guard.
    procession_process::guard::run_if_asked();
    linux::main();
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux {
    #![expect(clippy::print_stdout, reason = "what was measured is to be seen")]

    use crate::{
        rows::{Bench, Scale, measure_alone, on_a_worker},
        table,
    };

    pub(super) fn main() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        if let Some((_, job)) = arguments.split_first().filter(|(first, _)| *first == "--alone") {
            let job = job.to_vec();
            let bytes = runtime.block_on(on_a_worker(async move { measure_alone(&job).await }));
            println!("{bytes}");
            return;
        }
        let named = arguments.iter().position(|argument| argument == "--only");
        let only = named.and_then(|at| arguments.get(at + 1)).cloned();
        runtime.block_on(on_a_worker(async move {
            measure(scale(&arguments), only.as_deref()).await;
        }));
    }

    fn scale(arguments: &[String]) -> Scale {
        let has = |name: &str| arguments.iter().any(|argument| argument == name);
        let usual = Scale {
            starts: 300,
            large_host_bytes: 2 << 30,
            flood_bytes: 1 << 30,
            logged_flood_bytes: 512 << 20,
            pairs: 5,
            small_writes: 3_000_000,
            small_write_pairs: 1,
            lines_per_pair: 100,
            exchanges: 500,
            calls: 3000,
            held_sessions: 500,
            stops: 60,
        };
        if has("--full") {
            Scale {
                flood_bytes: 4 << 30,
                logged_flood_bytes: 4 << 30,
                small_write_pairs: 5,
                lines_per_pair: 400,
                held_sessions: 2000,
                stops: 300,
                ..usual
            }
        } else if has("--bench") {
            usual
        } else {
            // `cargo test` runs it too, to see that it works.
            Scale {
                starts: 6,
                large_host_bytes: 64 << 20,
                flood_bytes: 8 << 20,
                logged_flood_bytes: 64 << 20,
                pairs: 1,
                small_writes: 3000,
                small_write_pairs: 1,
                lines_per_pair: 5,
                exchanges: 5,
                calls: 5,
                held_sessions: 10,
                stops: 2,
            }
        }
    }

    /// Measures all rows, or those of one kind: `--only wake-ups`.
    async fn measure(scale: Scale, only: Option<&str>) {
        let bench = Bench::start(scale).await;
        let is_asked = |name: &str| only.is_none_or(|only| only == name);
        table::begin();
        if is_asked("memory") {
            table::print(&bench.memory());
        }
        if is_asked("starts") {
            table::print(&bench.starts().await);
        }
        if is_asked("large-host") {
            table::print(&bench.large_host().await);
        }
        if is_asked("calls") {
            table::print(&bench.calls().await);
        }
        if is_asked("echoes") {
            table::print(&bench.echoes().await);
        }
        if is_asked("wake-ups") {
            table::print(&bench.wake_ups().await);
        }
        if is_asked("stops") {
            table::print(&bench.stops().await);
        }
        if is_asked("small-writes") {
            table::print(&bench.small_writes().await);
        }
        if is_asked("floods") {
            table::print(&bench.floods().await);
        }
        bench.shutdown().await;
    }
}
