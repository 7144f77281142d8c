//! Files on a real disk: modes, links, sweeping, what `cat` shows.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use procession_log_store::{
    Access, FileStorage, LogOptions, LogReader, LogWriter, OpenError, RemovedFolder, Storage, list_logs,
    remove_log,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{bytes_at, check_all, run};

fn create(folder: &Path, options: LogOptions) -> LogWriter {
    LogWriter::create(Arc::new(FileStorage::new()), folder, b"app", options).unwrap()
}

fn open(folder: &Path) -> Result<LogReader, OpenError> {
    LogReader::open(Arc::new(FileStorage::new()), folder)
}

fn flood(writer: &mut LogWriter, batches: u64) {
    for step in 0..batches {
        writer.append(&[run(1, step, &bytes_at(step * 100_000, 100_000))]);
    }
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    let parent = tempfile::tempdir().unwrap();
    for umask in [0, 0o277] {
        let folder = parent.path().join(format!("log-{umask}"));
        let before = rustix::process::umask(Mode::from_raw_mode(umask));
        let mut writer = create(&folder, LogOptions::new());
        writer.append(&[run(1, 0, b"secret")]);
        let log = writer.finish(b"");
        rustix::process::umask(before);
        assert!(log.warning().is_none());
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o7777,
            0o700
        );
        let files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap())
            .collect();
        assert_eq!(files.len(), 3);
        assert!(
            files
                .iter()
                .all(|file| file.permissions().mode() & 0o7777 == 0o600)
        );
    }
}

#[test]
fn cat_on_the_files_shows_what_was_kept_and_the_folder_stays_under_its_cap_in_blocks_too() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("log");
    let cap_bytes = 1024 * 1024;
    let mut writer = create(&folder, LogOptions::new().cap_bytes(cap_bytes));
    for step in 0..40 {
        writer.append(&[run(1, step, &bytes_at(step * 100_000, 100_000))]);
        let files = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap());
        let blocks: u64 = files.map(|file| file.blocks() * 512).sum();
        assert!(blocks <= cap_bytes + 64 * 1024, "{blocks}");
    }
    writer.settle();
    let gap = writer.status().gap.unwrap();
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.retain(|name| name.extension().is_some_and(|end| end == "log"));
    names.sort();
    let shown: Vec<u8> = names.iter().flat_map(|name| fs::read(name).unwrap()).collect();
    let head = bytes_at(0, usize::try_from(gap.from.get()).unwrap());
    let tail = bytes_at(gap.to.get(), usize::try_from(4_000_000 - gap.to.get()).unwrap());
    assert!(shown == [head, tail].concat());
    let log = writer.finish(b"end");
    let opened = open(&folder).unwrap();
    assert!(opened.recovery().is_clean());
    assert_eq!(check_all(&opened, 50_000), log.status().kept_bytes);
}

#[test]
fn no_link_is_followed_and_no_pipe_waited_for() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("log");
    let mut writer = create(&folder, LogOptions::new());
    writer.append(&[run(1, 0, &bytes_at(0, 100))]);
    drop(writer.finish(b""));
    let payload = folder.join("00000000000000000000.log");
    let elsewhere = parent.path().join("elsewhere");
    fs::rename(&payload, &elsewhere).unwrap();

    symlink(&elsewhere, &payload).unwrap();
    let storage = FileStorage::new();
    assert!(
        storage
            .open(&folder, "00000000000000000000.log", Access::Read)
            .is_err()
    );
    let linked = open(&folder);
    assert!(linked.is_err() || linked.unwrap().status().kept_bytes == 0);

    fs::remove_file(&payload).unwrap();
    mknodat(CWD, &payload, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(
        storage
            .open(&folder, "00000000000000000000.log", Access::Read)
            .is_err()
    );
    let reader = open(&folder).unwrap();
    assert_eq!(
        (reader.status().kept_bytes, reader.recovery().missing_bytes),
        (0, 100)
    );

    let link = parent.path().join("link");
    symlink(&folder, &link).unwrap();
    assert!(open(&link).is_err());
    assert!(LogWriter::create(Arc::new(storage), &link, b"", LogOptions::new()).is_err());
    for name in ["../elsewhere", "a/b", "..", ""] {
        assert!(storage.open(&folder, name, Access::Read).is_err());
        assert!(storage.create(&folder, name).is_err());
    }
}

#[test]
fn sweeping_finds_logs_and_removes_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let storage = FileStorage::new();
    let mut one = create(&parent.path().join("one"), LogOptions::new().cap_bytes(64 * 1024));
    flood(&mut one, 3);
    drop(one);
    drop(create(&parent.path().join("two"), LogOptions::new()));
    fs::create_dir(parent.path().join("other")).unwrap();
    fs::write(parent.path().join("other/file"), b"mine").unwrap();
    fs::write(parent.path().join("a-file"), b"mine").unwrap();
    symlink(parent.path().join("one"), parent.path().join("link")).unwrap();

    let logs = list_logs(&storage, parent.path(), 100).unwrap();
    let names: Vec<_> = logs
        .iter()
        .map(|log| log.folder.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, ["one", "two"]);
    assert!(logs[0].disk_bytes > 30_000 && logs[0].disk_bytes <= 64 * 1024);

    fs::write(parent.path().join("two/notes"), b"mine").unwrap();
    symlink(
        parent.path().join("other/file"),
        parent.path().join("two/00000000000000000007.log"),
    )
    .unwrap();
    let removed = remove_log(&storage, &logs[1].folder).unwrap();
    assert_eq!(
        (removed.files, removed.folder),
        (2, RemovedFolder::HoldsOthers { entries: 1 })
    );
    assert_eq!(fs::read(parent.path().join("two/notes")).unwrap(), b"mine");
    assert_eq!(fs::read(parent.path().join("other/file")).unwrap(), b"mine");
    let removed = remove_log(&storage, &logs[0].folder).unwrap();
    assert_eq!(
        (removed.bytes, removed.folder),
        (logs[0].disk_bytes, RemovedFolder::Gone)
    );
    assert!(!logs[0].folder.exists());
    assert_eq!(remove_log(&storage, &logs[0].folder).unwrap().files, 0);
    assert!(
        remove_log(&storage, &parent.path().join("link")).is_err() || !parent.path().join("one").exists()
    );
}
