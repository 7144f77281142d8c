//! The state directory, which several hosts may share.
//!
//! | path below the state directory | what it is |
//! | --- | --- |
//! | `hosts/INSTANCE/` | what one running program keeps; `INSTANCE` is random |
//! | `hosts/INSTANCE/lock` | locked (`flock`) as long as that program lives |
//! | `hosts/INSTANCE/logs/SESSION/` | the log of one session |
//! | `hosts/.new-INSTANCE/` | the same while it is made: it gets its name when its lock is held |
//! | `hosts/.swept` | empty; its time is that of the last whole sweep |
//!
//! All folders are 0700 and belong to the user; nothing follows a link below the state directory.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use procession_log_store::{FileStorage, LogFolder, list_logs, read_log_record, remove_log};
use procession_policy::{Record, decode_record};
use rustix::fs::{FlockOperation, flock};

use crate::config::{Configuration, HostEnvironment, user_directory};

/// How many hosts and how many logs of each one look goes through at most.
const MAX_LISTED: usize = 10_000;

/// How long one sweep may take.
const SWEEP_TIME: Duration = Duration::from_secs(5);

/// How long after a whole sweep another may begin, or the retention where that is less: most programs are short and many.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How old the rest of a host that died while it was made has to be before it is removed.
const UNFINISHED_AGE: Duration = Duration::from_secs(3_600);

const LOCK_NAME: &str = "lock";
const LOGS_NAME: &str = "logs";
const NEW_PREFIX: &str = ".new-";
const SWEPT_NAME: &str = ".swept";

/// Where state lives: as configured, else by the XDG rules, else nowhere.
pub(crate) fn locate(configuration: &Configuration, environment: HostEnvironment<'_>) -> Option<PathBuf> {
    let user = || user_directory(environment, "XDG_STATE_HOME", ".local/state");
    configuration
        .state_dir
        .clone()
        .or_else(|| user().map(|state| state.join("procession")))
}

/// What this program keeps; its lock is held until it is dropped.
#[derive(Debug)]
pub(crate) struct Instance {
    folder: PathBuf,
    lock: File,
}

impl Instance {
    /// Makes a place of its own for this program.
    ///
    /// # Errors
    /// When the state directory cannot be made or written, or belongs to somebody else.
    pub(crate) fn create(state: &Path) -> io::Result<Self> {
        make_private(state)?;
        let hosts = state.join("hosts");
        make_private(&hosts)?;
        let name = random_name()?;
        let unfinished = hosts.join(format!("{NEW_PREFIX}{name}"));
        private_folder().create(&unfinished)?;
        let made = Self::finish(&unfinished, &hosts.join(name));
        if made.is_err() {
            remove_instance(&unfinished);
        }
        made
    }

    fn finish(unfinished: &Path, folder: &Path) -> io::Result<Self> {
        private_folder().create(unfinished.join(LOGS_NAME))?;
        let file = unfinished.join(LOCK_NAME);
        let lock = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(unfinished, folder)?;
        Ok(Self {
            folder: folder.to_path_buf(),
            lock,
        })
    }

    /// The folder that gets one folder for each session's log.
    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join(LOGS_NAME)
    }

    /// Gives the place up with all that is in it.
    pub(crate) fn discard(self) {
        for log in logs_of(&self.folder) {
            // What cannot be removed now is left to the next sweep.
            let _ = remove_log(&FileStorage::new(), &log.folder);
        }
        self.retire();
    }

    /// Gives the place up: it goes when no log is in it, else it stays for the logs' retention.
    pub(crate) fn retire(self) {
        // While the lock is still held, so that nobody sweeps the same.
        remove_instance(&self.folder);
        drop(self.lock);
    }
}

/// Where the logs of a program go that could not make a place of its own: nowhere that exists, so that each session says
/// why it has no log.
pub(crate) fn unavailable_logs(state: Option<&Path>) -> PathBuf {
    state
        .map_or_else(|| PathBuf::from("/nonexistent/procession"), Path::to_path_buf)
        .join("unavailable/logs")
}

/// Whether the program that a place belongs to still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// Its lock is held.
    Alive,
    /// Its lock is free.
    Dead,
}

/// A log of some host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundLog {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Whether the host that wrote it still runs.
    pub(crate) host: Host,
}

/// All logs of all hosts, by host and then by name; what cannot be read is left out.
pub(crate) fn logs(state: &Path) -> Vec<FoundLog> {
    let mut found = Vec::new();
    for folder in instances(state) {
        let host = match lock_of_dead(&folder) {
            Some(_) => Host::Dead,
            None => Host::Alive,
        };
        found.extend(logs_of(&folder).into_iter().map(|log| FoundLog {
            folder: log.folder,
            host,
        }));
    }
    found
}

/// The log of a session in the state directory, by the session's id; none when there is none.
pub(crate) fn log_of_session(state: &Path, session: &str) -> Option<PathBuf> {
    instances(state)
        .iter()
        .flat_map(|folder| logs_of(folder))
        .map(|log| log.folder)
        .find(|folder| folder.file_name().is_some_and(|name| name == session))
}

/// Whether the host of a log in the state directory still runs; none when the log lies elsewhere.
pub(crate) fn host_of_log(log: &Path) -> Option<Host> {
    let log = log.canonicalize().ok()?;
    let logs = log
        .parent()
        .filter(|logs| logs.file_name().is_some_and(|name| name == LOGS_NAME))?;
    let instance = logs
        .parent()
        .filter(|instance| instance.join(LOCK_NAME).is_file())?;
    Some(if lock_of_dead(instance).is_some() {
        Host::Dead
    } else {
        Host::Alive
    })
}

/// Removes what hosts that died left behind and nobody may want any more: logs that were last written longer ago than
/// their session was to be readable, or than `retention` where they do not say. Bounded in time and number; what is left is for the next one.
pub(crate) fn sweep(state: &Path, retention: Duration) {
    let began = Instant::now();
    let now = SystemTime::now();
    let marker = state.join("hosts").join(SWEPT_NAME);
    if age(&marker, now).is_some_and(|age| age < SWEEP_INTERVAL.min(retention)) {
        return;
    }
    let is_over = |age: Option<Duration>, limit: Duration| age.is_some_and(|age| age > limit);
    for folder in instances(state) {
        let Some(_lock) = lock_of_dead(&folder) else {
            continue;
        };
        for log in logs_of(&folder) {
            if began.elapsed() > SWEEP_TIME {
                return;
            }
            if is_over(
                age_of_log(&log.folder, now),
                retention_of_log(&log.folder).unwrap_or(retention),
            ) {
                // What cannot be removed now is tried again at the next start.
                let _ = remove_log(&FileStorage::new(), &log.folder);
            }
        }
        remove_instance(&folder);
    }
    for folder in folders(&state.join("hosts"), |name| name.starts_with(NEW_PREFIX)) {
        if is_over(age(&folder, now), UNFINISHED_AGE) {
            remove_instance(&folder);
        }
    }
    // At the end: a sweep that a short program cut off is gone on with by the next one.
    let _ = fs::remove_file(&marker);
    let _ = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&marker);
}

/// The lock of a host that is dead, held until it is dropped; none when the host lives or cannot be looked at.
fn lock_of_dead(folder: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).ok()?;
    let lock = options
        .read(true)
        .custom_flags(no_follow)
        .open(folder.join(LOCK_NAME))
        .ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(lock)
}

fn instances(state: &Path) -> Vec<PathBuf> {
    folders(&state.join("hosts"), |name| !name.starts_with('.'))
}

/// The folders in a folder whose name fits, links left out, by name.
fn folders(parent: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .take(MAX_LISTED)
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(&fits))
        // The kind of the entry itself: a link is no folder.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    folders
}

fn logs_of(folder: &Path) -> Vec<LogFolder> {
    list_logs(&FileStorage::new(), &folder.join(LOGS_NAME), MAX_LISTED).unwrap_or_default()
}

/// Since a log was last written to.
fn age_of_log(folder: &Path, now: SystemTime) -> Option<Duration> {
    let entries = fs::read_dir(folder).ok()?;
    let files = entries
        .take(MAX_LISTED)
        .filter_map(|entry| age(&entry.ok()?.path(), now));
    files.chain(age(folder, now)).min()
}

/// For how long the session itself was to be readable, as its own log says.
fn retention_of_log(folder: &Path) -> Option<Duration> {
    let record = read_log_record(&FileStorage::new(), folder).ok()?;
    match decode_record(&record.header.application).ok()? {
        Record::Decision(decision) => Some(decision.effective_limits().retention),
        Record::End(end) => Some(end.decision.effective_limits().retention),
    }
}

/// Since a file was last changed, links not followed; zero when that lies in the future.
fn age(path: &Path, now: SystemTime) -> Option<Duration> {
    let changed = fs::symlink_metadata(path).ok()?.modified().ok()?;
    Some(now.duration_since(changed).unwrap_or_default())
}

/// Removes a host's place if nothing is in it but its lock.
fn remove_instance(folder: &Path) {
    // Not empty is the usual case: logs are kept.
    let logs = folder.join(LOGS_NAME);
    match fs::remove_dir(&logs) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {}
        _ => {
            let _ = fs::remove_file(folder.join(LOCK_NAME));
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Makes a folder that nobody else can look into, and those above it as far as they are missing.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = private_folder();
    builder.recursive(true).create(folder)?;
    let metadata = fs::metadata(folder)?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the state directory belongs to another user",
        ));
    }
    if metadata.permissions().mode() & 0o7777 != 0o700 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// 80 random bits in hexadecimal.
fn random_name() -> io::Result<String> {
    let mut random = [0; 16];
    let (_, drawn) = random.split_at_mut(6);
    getrandom::fill(drawn).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{:020x}", u128::from_be_bytes(random)))
}

#[cfg(test)]
mod tests {
    use procession_log_store::{LogOptions, LogWriter};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o7777
    }

    fn write_log(instance: &Instance, name: &str) -> PathBuf {
        let storage = std::sync::Arc::new(FileStorage::new());
        let folder = instance.logs().join(name);
        let writer = LogWriter::create(storage, &folder, b"", LogOptions::new()).expect("a log");
        drop(writer.finish(b""));
        folder
    }

    /// The instance as a program leaves it that dies.
    fn die(instance: Instance) -> PathBuf {
        let Instance { folder, lock } = instance;
        drop(lock);
        folder
    }

    #[test]
    fn all_that_is_made_is_private() {
        let root = tempfile::tempdir().expect("a folder");
        let state = root.path().join("a/procession");
        let instance = Instance::create(&state).expect("a place");
        for path in [&state, &state.join("hosts"), &instance.folder, &instance.logs()] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        assert_eq!(mode(&instance.folder.join("lock")), 0o600);
    }

    #[test]
    fn a_state_directory_that_others_could_read_is_closed() {
        let root = tempfile::tempdir().expect("a folder");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        Instance::create(root.path()).expect("a place");
        assert_eq!(mode(root.path()), 0o700);
    }

    #[test]
    fn a_place_without_logs_goes_with_its_program() {
        let root = tempfile::tempdir().expect("a folder");
        Instance::create(root.path()).expect("a place").retire();
        assert_eq!(instances(root.path()), Vec::<PathBuf>::new());
        let instance = Instance::create(root.path()).expect("a place");
        write_log(&instance, "kept");
        instance.retire();
        assert_eq!(logs(root.path()).len(), 1);
    }

    #[test]
    fn only_the_logs_of_the_dead_are_swept() {
        let root = tempfile::tempdir().expect("a folder");
        let alive = Instance::create(root.path()).expect("a place");
        let kept = write_log(&alive, "kept");
        let dead = Instance::create(root.path()).expect("another place");
        let old = write_log(&dead, "old");
        let dead = die(dead);
        let hosts: Vec<Host> = logs(root.path()).iter().map(|log| log.host).collect();
        assert!(
            hosts.contains(&Host::Alive) && hosts.contains(&Host::Dead),
            "{hosts:?}"
        );

        sweep(root.path(), Duration::from_secs(3_600));
        assert!(old.exists(), "its retention is not over");
        assert_eq!(mode(&root.path().join("hosts/.swept")), 0o600);
        sweep(root.path(), Duration::ZERO);
        assert!(!old.exists() && !dead.exists());
        assert!(kept.exists());
    }

    #[test]
    fn no_link_leads_a_sweep_away() {
        let root = tempfile::tempdir().expect("a folder");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let foreign = Instance::create(elsewhere.path()).expect("a place");
        let log = write_log(&foreign, "log");
        let foreign = die(foreign);
        let dead = die(Instance::create(root.path()).expect("a place"));
        std::os::unix::fs::symlink(&foreign, root.path().join("hosts/linked")).expect("a link");
        std::os::unix::fs::symlink(log.parent().expect("a parent"), dead.join("logs/linked"))
            .expect("a link");
        sweep(root.path(), Duration::ZERO);
        assert!(log.exists());
    }
}
