//! The rows: each measures the floor and the sessions in turn, round by round.

use std::{
    future::Future,
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use procession_process::{GuardOptions, GuardPort, ProcessPort, UnixPort};
use ractor::Actor;
use tempfile::TempDir;

use crate::{
    floor::{self, Answering, Asked, CappedFile, Echo, Held},
    jobs::{self, Log, Sessions, StartTimes},
    table::{Bound, Row, median_us, percentile_us},
};

const MIB: u64 = 1 << 20;
const LOG_CAP_BYTES: u64 = 32 * MIB;
const TIMED_LINES: &str =
    "use Time::HiRes qw(time sleep); $| = 1; for (1..shift) { sleep 0.002; printf \"%.6f\\n\", time }";
const BYTE_BY_BYTE: &str = "syswrite STDOUT, 'x' for 1..shift";
const TREE: [&str; 3] = ["sh", "-c", "sleep 1000 & sleep 1000 & echo up; wait"];

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) starts: usize,
    pub(crate) large_host_bytes: u64,
    pub(crate) flood_bytes: u64,
    pub(crate) logged_flood_bytes: u64,
    pub(crate) pairs: usize,
    pub(crate) small_writes: u64,
    pub(crate) small_write_pairs: usize,
    pub(crate) lines_per_pair: usize,
    pub(crate) exchanges: usize,
    pub(crate) calls: usize,
    pub(crate) held_sessions: usize,
    pub(crate) stops: usize,
}

/// Who does the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Floor,
    WithoutGuard,
    WithGuard,
}

impl Side {
    const ALL: [Self; 3] = [Self::Floor, Self::WithoutGuard, Self::WithGuard];

    const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::WithoutGuard => "without-guard",
            Self::WithGuard => "with-guard",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|side| side.name() == name)
    }

    /// The port, or none where this side has none, or this machine no guard.
    fn port(self) -> Option<Arc<dyn ProcessPort>> {
        match self {
            Self::Floor => None,
            Self::WithoutGuard => Some(Arc::new(UnixPort::start().expect("a port"))),
            // A guard of this very program, which is the default.
            Self::WithGuard => Some(Arc::new(GuardPort::start(GuardOptions::default()).ok()?)),
        }
    }
}

/// A figure of each side, where there is one.
#[derive(Debug, Clone, Default)]
struct Figures<T> {
    floor: T,
    without_guard: T,
    with_guard: Option<T>,
}

impl<T> Figures<T> {
    fn of(&mut self, side: Side) -> &mut T
    where
        T: Default,
    {
        match side {
            Side::Floor => &mut self.floor,
            Side::WithoutGuard => &mut self.without_guard,
            Side::WithGuard => self.with_guard.get_or_insert_default(),
        }
    }

    fn map<U>(mut self, mut change: impl FnMut(&mut T) -> U) -> Figures<U> {
        Figures {
            floor: change(&mut self.floor),
            without_guard: change(&mut self.without_guard),
            with_guard: self.with_guard.as_mut().map(change),
        }
    }
}

impl Figures<f64> {
    fn row(self, what: impl Into<String>, unit: &'static str, bound: Bound) -> Row {
        Row {
            what: what.into(),
            unit,
            floor: self.floor,
            without_guard: Some(self.without_guard),
            with_guard: self.with_guard,
            bound,
        }
    }
}

/// Both systems beside the floor.
#[derive(Debug)]
pub(crate) struct Bench {
    scale: Scale,
    without_guard: Sessions,
    with_guard: Option<Sessions>,
    folder: TempDir,
}

impl Bench {
    pub(crate) async fn start(scale: Scale) -> Self {
        let folder = TempDir::new().expect("a folder");
        let log_dir = |name| folder.path().join(name);
        let port = Side::WithoutGuard.port().expect("a port");
        let without_guard = Sessions::start(port, &log_dir("logs"), 16).await;
        let with_guard = match Side::WithGuard.port() {
            Some(port) => Some(Sessions::start(port, &log_dir("guard-logs"), 16).await),
            None => None,
        };
        Self {
            scale,
            without_guard,
            with_guard,
            folder,
        }
    }

    pub(crate) async fn shutdown(self) {
        self.without_guard.shutdown().await;
        if let Some(sessions) = self.with_guard {
            sessions.shutdown().await;
        }
    }

    fn sides(&self) -> impl Iterator<Item = (Side, Option<&Sessions>)> {
        let sides = [
            Some((Side::Floor, None)),
            Some((Side::WithoutGuard, Some(&self.without_guard))),
            self.with_guard
                .as_ref()
                .map(|sessions| (Side::WithGuard, Some(sessions))),
        ];
        sides.into_iter().flatten()
    }

    pub(crate) async fn starts(&self) -> Vec<Row> {
        let [exited, ended] = self.start_times(self.scale.starts, Log::Off).await;
        let [_, logged] = self
            .start_times(self.scale.starts / 3, Log::Capped(LOG_CAP_BYTES))
            .await;
        let bound = Bound::RatioAtMost(1.25);
        vec![
            exited.row("start → exit of `true` is known, p50", "µs", bound),
            ended.row("start → end of `true` is on record, p50", "µs", bound),
            logged.row("the same with a log on disk, p50", "µs", Bound::None),
        ]
    }

    async fn start_times(&self, rounds: usize, log: Log) -> [Figures<f64>; 2] {
        let mut times = Figures::<Vec<StartTimes>>::default();
        for _ in 0..rounds {
            for (side, sessions) in self.sides() {
                times.of(side).push(match sessions {
                    None => floor::start_to_end(&["true"]).await,
                    Some(sessions) => sessions.start_to_end(&["true"], log).await,
                });
            }
        }
        let median = |which: fn(&StartTimes) -> Duration| {
            times
                .clone()
                .map(|times| median_us(&mut times.iter().map(which).collect::<Vec<_>>()))
        };
        [median(|times| times.exited), median(|times| times.ended)]
    }

    /// Compared with the same host before it grew; a large host and a small one take turns.
    pub(crate) async fn large_host(&self) -> Vec<Row> {
        let bytes = self.scale.large_host_bytes;
        if jobs::available_bytes() < bytes * 2 {
            return Vec::new();
        }
        let rounds = self.scale.starts / 4;
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            small.push(self.start_times(rounds, Log::Off).await);
            let mut ballast = vec![0_u8; usize::try_from(bytes).expect("it fits")];
            // One byte of each page makes it resident.
            ballast.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
            large.push(self.start_times(rounds, Log::Off).await);
            drop(std::hint::black_box(ballast));
        }
        let mean = |all: &[[Figures<f64>; 2]], of: fn(&Figures<f64>) -> f64| {
            all.iter().map(|[exited, _]| of(exited)).sum::<f64>() / 2.0
        };
        let row = |what: &str, of: fn(&Figures<f64>) -> f64, bound| Row {
            what: format!(
                "start → exit in a host with {} MiB more, {what}, p50",
                bytes / MIB
            ),
            unit: "µs",
            floor: mean(&small, of),
            without_guard: Some(mean(&large, of)),
            with_guard: None,
            bound,
        };
        let bound = Bound::RatioAtMost(1.5);
        let mut rows = vec![
            row("floor against itself", |figures| figures.floor, Bound::None),
            row("no guard against itself", |figures| figures.without_guard, bound),
        ];
        if self.with_guard.is_some() {
            let of = |figures: &Figures<f64>| figures.with_guard.unwrap_or_default();
            rows.push(row("guard against itself", of, bound));
        }
        rows
    }

    pub(crate) async fn floods(&self) -> Vec<Row> {
        let plain = self.flood(self.scale.flood_bytes, Log::Off).await;
        let logged = self
            .flood(self.scale.logged_flood_bytes, Log::Capped(LOG_CAP_BYTES))
            .await;
        let size = |bytes: u64| bytes / MIB;
        vec![
            plain.row(
                format!("flood of {} MiB, no log", size(self.scale.flood_bytes)),
                "MB/s",
                Bound::RatioAtLeast(0.9),
            ),
            logged.row(
                format!(
                    "flood of {} MiB past a log's cap of {} MiB",
                    size(self.scale.logged_flood_bytes),
                    size(LOG_CAP_BYTES)
                ),
                "MB/s",
                Bound::RatioAtLeast(0.8),
            ),
        ]
    }

    async fn flood(&self, bytes: u64, log: Log) -> Figures<f64> {
        let argv = zeros(bytes);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let mut times = Figures::<Vec<Duration>>::default();
        for _ in 0..self.scale.pairs {
            for (side, sessions) in self.sides() {
                let begun = Instant::now();
                let seen = match sessions {
                    None => floor::flood(&argv, self.floor_log(log)).await,
                    Some(sessions) => sessions.flood(&argv, log).await,
                };
                times.of(side).push(begun.elapsed());
                assert_eq!(seen, bytes, "{side:?}");
            }
        }
        times.map(|times| mega(bytes) / (median_us(times) / 1e6))
    }

    fn floor_log(&self, log: Log) -> Option<CappedFile> {
        match log {
            Log::Off => None,
            Log::Capped(cap_bytes) => Some(CappedFile::create(&self.folder.path().join("floor"), cap_bytes)),
        }
    }

    /// The data's way is the same with a guard, so that it is not measured again.
    pub(crate) async fn small_writes(&self) -> Vec<Row> {
        let many = self.scale.small_writes;
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..self.scale.small_write_pairs {
            for (times, (side, writes)) in times.iter_mut().zip([
                (Side::Floor, many / 10),
                (Side::WithoutGuard, many / 10),
                (Side::Floor, many),
                (Side::WithoutGuard, many),
            ]) {
                times.push(self.small_writes_cpu(side, writes).await);
            }
        }
        let [floor_few, few, floor_many, ours_many] = times.map(|mut times| median_us(&mut times) / 1e3);
        let row = |what: String, floor, ours, bound| Row {
            what,
            unit: "ms CPU",
            floor,
            without_guard: Some(ours),
            with_guard: None,
            bound,
        };
        let against = format!("{many} writes of 1 byte against {}", many / 10);
        vec![
            row(format!("{against}, floor"), floor_few, floor_many, Bound::None),
            row(against, few, ours_many, Bound::RatioAtMost(12.0)),
            row(
                format!("{many} writes of 1 byte"),
                floor_many,
                ours_many,
                Bound::None,
            ),
        ]
    }

    async fn small_writes_cpu(&self, side: Side, writes: u64) -> Duration {
        let count = writes.to_string();
        let argv = ["perl", "-e", BYTE_BY_BYTE, &count];
        let before = jobs::cpu_time();
        let seen = match side {
            Side::Floor => floor::flood(&argv, None).await,
            Side::WithoutGuard | Side::WithGuard => self.without_guard.flood(&argv, Log::Off).await,
        };
        let taken = jobs::cpu_time().saturating_sub(before);
        assert_eq!(seen, writes, "{side:?}");
        taken
    }

    pub(crate) async fn wake_ups(&self) -> Vec<Row> {
        let lines = self.scale.lines_per_pair.to_string();
        let argv = ["perl", "-e", TIMED_LINES, &lines];
        let mut times = Figures::<Vec<Duration>>::default();
        for _ in 0..self.scale.pairs {
            for (side, sessions) in self.sides() {
                times.of(side).extend(match sessions {
                    None => floor::lateness(&argv).await,
                    Some(sessions) => sessions.lateness(&argv).await,
                });
            }
        }
        let late = |percent| times.clone().map(|times| percentile_us(times, percent));
        vec![
            late(50).row("line printed → poll answers, p50", "µs", Bound::RatioAtMost(1.5)),
            late(99).row("line printed → poll answers, p99", "µs", Bound::RatioAtMost(3.0)),
        ]
    }

    pub(crate) async fn echoes(&self) -> Vec<Row> {
        let mut echo = Echo::start();
        let mut held = Vec::new();
        for (side, sessions) in self.sides() {
            if let Some(sessions) = sessions {
                held.push((side, sessions, sessions.start_waiting(&["cat"]).await));
            }
        }
        let mut times = Figures::<Vec<Duration>>::default();
        for _ in 0..self.scale.exchanges {
            times.floor.push(echo.exchange("a line of input\n").await);
            for (side, sessions, session) in &held {
                let taken = sessions.exchange(*session, "a line of input\n").await;
                times.of(*side).push(taken);
            }
        }
        let row = times.map(|times| median_us(times)).row(
            "a line through `cat` and back, p50",
            "µs",
            Bound::RatioAtMost(1.5),
        );
        vec![row]
    }

    /// Against a call of an actor that answers with a number.
    pub(crate) async fn calls(&self) -> Vec<Row> {
        let (answering, handle) = Actor::spawn(None, Answering, ()).await.expect("an actor");
        let session = self.without_guard.start_waiting(&["cat"]).await;
        let [mut floor, mut inspect, mut list] = [const { Vec::new() }; 3];
        for _ in 0..self.scale.calls {
            let begun = Instant::now();
            ractor::call!(answering, Asked).expect("an answer");
            floor.push(begun.elapsed());
            inspect.push(self.without_guard.inspect(session).await);
            list.push(self.without_guard.list().await);
        }
        answering.stop(None);
        handle.await.expect("an end");
        let floor = median_us(&mut floor);
        let row = |what: &str, times: &mut Vec<Duration>, bound| Row {
            what: what.to_owned(),
            unit: "µs",
            floor,
            without_guard: Some(median_us(times)),
            with_guard: None,
            bound,
        };
        vec![
            row(
                "`inspect`, through registry and session, p50",
                &mut inspect,
                Bound::RatioAtMost(3.0),
            ),
            row("`list` of up to 16 sessions, p50", &mut list, Bound::None),
        ]
    }

    pub(crate) async fn stops(&self) -> Vec<Row> {
        let mut times = Figures::<Vec<Duration>>::default();
        for _ in 0..self.scale.stops {
            for (side, sessions) in self.sides() {
                times.of(side).push(match sessions {
                    None => floor::kill(&TREE).await,
                    Some(sessions) => sessions.stop(&TREE).await,
                });
            }
        }
        let row = times.map(|times| median_us(times)).row(
            "stop by force → tree of 3 is known to be gone, p50",
            "µs",
            Bound::RatioAtMost(2.0),
        );
        vec![row]
    }

    /// Each in a process of its own: freed memory of one would hide what the next takes.
    pub(crate) fn memory(&self) -> Vec<Row> {
        let alone = |job: &str, amount: u64, divisor: f64| {
            let mut figures = Figures::<f64>::default();
            for (side, _) in self.sides() {
                *figures.of(side) = alone(job, side, amount) / divisor;
            }
            figures
        };
        let sessions = u64::try_from(self.scale.held_sessions).expect("small");
        let bytes = self.scale.flood_bytes;
        vec![
            alone(FLOOD, bytes, 1024.0 * 1024.0).row(
                format!("flood of {} MiB, growth of the peak", bytes / MIB),
                "MiB",
                Bound::FigureAtMost(5.0),
            ),
            alone(IDLE, sessions, 1024.0).row(
                format!("an idle session, {sessions} of them"),
                "KiB",
                Bound::FigureAtMost(32.0),
            ),
        ]
    }
}

const FLOOD: &str = "flood";
const IDLE: &str = "idle";

fn alone(job: &str, side: Side, amount: u64) -> f64 {
    let program = std::env::current_exe().expect("a program");
    let arguments = ["--alone", job, side.name(), &amount.to_string()];
    let output = Command::new(program).args(arguments).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect("a number")
}

/// What [`Bench::memory`] runs as a process of its own; answers bytes.
pub(crate) async fn measure_alone(arguments: &[String]) -> f64 {
    let [job, side, amount] = arguments else {
        panic!("a job, a side and an amount are needed");
    };
    let side = Side::from_name(side).expect("a side");
    let amount: u64 = amount.parse().expect("a number");
    let folder = TempDir::new().expect("a folder");
    let sessions = match side.port() {
        Some(port) => Some(Sessions::start(port, &PathBuf::from(folder.path()), 4096).await),
        None => None,
    };
    let bytes = match job.as_str() {
        FLOOD => flood_growth(sessions.as_ref(), amount).await,
        _ => idle_growth(sessions.as_ref(), amount).await,
    };
    if let Some(sessions) = sessions {
        sessions.shutdown().await;
    }
    bytes
}

async fn flood_growth(sessions: Option<&Sessions>, bytes: u64) -> f64 {
    let command = format!("read line; exec {}", zeros(bytes).join(" "));
    let argv = ["sh", "-c", &command];
    let before;
    let seen = if let Some(sessions) = sessions {
        let session = sessions.start_waiting(&argv).await;
        before = jobs::forget_peak();
        sessions.let_go(session).await
    } else {
        let flood = floor::flood_on_demand(&argv);
        before = jobs::forget_peak();
        flood.await
    };
    assert_eq!(seen, bytes);
    size(jobs::status_bytes("VmHWM:").saturating_sub(before))
}

async fn idle_growth(sessions: Option<&Sessions>, count: u64) -> f64 {
    let argv = ["sleep", "1000"];
    let mut held = Vec::new();
    // The first few bring what all of them share.
    let mut before = 0;
    for number in 0..count + 10 {
        if number == 10 {
            before = jobs::status_bytes("VmRSS:");
        }
        match sessions {
            Some(sessions) => {
                sessions.hold(jobs::spec(&argv, Log::Off)).await;
            }
            None => held.push(Held::start(&argv)),
        }
    }
    size(jobs::status_bytes("VmRSS:").saturating_sub(before)) / size(count)
}

fn zeros(bytes: u64) -> [String; 4] {
    ["head", "-c", &bytes.to_string(), "/dev/zero"].map(str::to_owned)
}

fn mega(bytes: u64) -> f64 {
    size(bytes) / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "sizes here are far below 2^52")]
fn size(bytes: u64) -> f64 {
    bytes as f64
}

/// For a future that is run on a worker of the runtime, where all sides run alike.
pub(crate) async fn on_a_worker<T: Send + 'static>(job: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(job).await.expect("no panic")
}
