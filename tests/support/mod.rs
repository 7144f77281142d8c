//! What tests of real processes need: a system on the machine, bounds, and a way to see that a tree is gone.

use std::{
    collections::BTreeMap,
    fs::File,
    future::Future,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use procession_actors::{System, SystemBuilder};
use procession_core::EnvironmentRules;
use procession_process::UnixPort;
use tokio::sync::oneshot;

/// Nothing here takes longer unless it is broken.
const BOUND: Duration = Duration::from_secs(50);

/// A system on this machine.
pub(crate) fn builder() -> SystemBuilder {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let environment = EnvironmentRules {
        base: BTreeMap::from([("PATH".into(), path.into())]),
        ..EnvironmentRules::default()
    };
    System::builder(Arc::new(UnixPort::start().unwrap())).environment(environment)
}

/// Waits for what must come, on the real clock.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future)
        .await
        .unwrap_or_else(|_| panic!("{what} took longer than {BOUND:?}"))
}

/// A named pipe that a tree holds open as long as one of its processes lives.
pub(crate) struct Lifeline {
    path: PathBuf,
    cut: oneshot::Receiver<()>,
    held: oneshot::Receiver<()>,
}

impl Lifeline {
    /// A lifeline in this folder.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let ((tell_held, held), (tell_cut, cut)) = (oneshot::channel(), oneshot::channel());
        let opened = path.clone();
        // Not one of the runtime's threads: it may outlive a test that failed.
        std::thread::spawn(move || {
            // Returns once somebody writes, and reads nothing before nobody does any more.
            let mut pipe = File::open(opened).unwrap();
            let _ = tell_held.send(());
            let _ = pipe.read_to_end(&mut Vec::new());
            let _ = tell_cut.send(());
        });
        Self { path, cut, held }
    }

    /// What a shell does first to hold it, its children included.
    pub(crate) fn hold(&self) -> String {
        format!("exec 9>{}; ", self.path.display())
    }

    /// Waits until the shell holds it.
    pub(crate) async fn held(&mut self) {
        within("the tree's start", &mut self.held).await.unwrap();
    }

    /// Waits until nobody holds it any more.
    pub(crate) async fn cut(self) {
        within("the tree's end", self.cut).await.unwrap();
    }
}
