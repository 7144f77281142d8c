//! What many logs share.

use std::path::Path;
use std::sync::Arc;

use procession_log_store::{
    CapMode, CreateError, LogBudget, LogOptions, LogWriter, Logging, MemoryStorage, StopReason, Storage,
    WriteEnd,
};

use crate::support::{bytes_at, check_all, folder_bytes, run};

fn create(storage: &MemoryStorage, name: &str, options: LogOptions) -> Result<LogWriter, CreateError> {
    LogWriter::create(
        Arc::new(storage.clone()),
        format!("/logs/{name}"),
        b"app",
        options,
    )
}

#[test]
fn the_budget_counts_every_byte_on_disk_and_stops_the_log_that_asks_for_more() {
    let storage = MemoryStorage::new();
    let budget = LogBudget::new(400_000);
    let options = LogOptions::new().cap_bytes(256 * 1024).budget(budget.clone());
    let mut one = create(&storage, "one", options.clone()).unwrap();
    let mut two = create(&storage, "two", options.clone()).unwrap();
    let on_disk =
        || folder_bytes(&storage, Path::new("/logs/one")) + folder_bytes(&storage, Path::new("/logs/two"));
    let mut total = 0;
    for step in 0..60 {
        let len = if step % 3 == 0 { 70_000 } else { 1000 };
        let bytes = bytes_at(total, len);
        one.append(&[run(1, step, &bytes)]);
        two.append(&[run(1, step, &bytes)]);
        total += u64::try_from(len).unwrap();
        assert_eq!(budget.used_bytes(), on_disk());
        assert!(budget.used_bytes() <= 400_000);
    }
    let stops = [&one, &two].map(|writer| match writer.status().write_end {
        WriteEnd::Stopped { reason, .. } => Some(reason),
        _ => None,
    });
    assert!(
        stops.contains(&Some(StopReason::BudgetExhausted { max_bytes: 400_000 })),
        "{stops:?}"
    );
    for writer in [&one, &two] {
        assert_eq!(check_all(&writer.reader(), 5000), writer.status().kept_bytes);
    }

    let (one, two) = (one.finish(b"end"), two.finish(b"end"));
    assert_eq!(budget.used_bytes(), one.disk_bytes() + two.disk_bytes());
    assert_eq!(budget.used_bytes(), on_disk());
    one.remove().unwrap();
    two.remove().unwrap();
    assert_eq!(budget.used_bytes(), 0);
    let mut next = create(&storage, "three", options).unwrap();
    assert_eq!(next.append(&[run(1, 0, b"again")]).logging, Logging::On);
}

#[test]
fn a_budget_that_is_used_up_refuses_a_log_and_leaves_nothing() {
    let storage = MemoryStorage::new();
    let budget = LogBudget::new(1000);
    let left_over = budget.reserve(1000).unwrap();
    let refused = create(&storage, "one", LogOptions::new().budget(budget.clone())).unwrap_err();
    assert!(matches!(
        refused,
        CreateError::BudgetExhausted { max_bytes: 1000 }
    ));
    assert!(storage.list(Path::new("/logs/one"), 1).is_err());
    drop(left_over);
    create(&storage, "one", LogOptions::new().budget(budget.clone())).unwrap();
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn logging_stops_at_the_free_space_floor_and_the_next_log_logs_again() {
    let storage = MemoryStorage::with_capacity_bytes(1 << 20);
    let options = LogOptions::new().free_space_floor_bytes(512 * 1024);
    let mut writer = create(&storage, "one", options.clone()).unwrap();
    let mut total = 0;
    for step in 0..10 {
        let bytes = bytes_at(total, 100_000);
        writer.append(&[run(1, step, &bytes)]);
        total += 100_000;
    }
    let status = writer.status();
    let floor_bytes = 512 * 1024;
    assert!(matches!(status.write_end,
        WriteEnd::Stopped { reason: StopReason::FreeSpaceFloor { floor_bytes: floor, free_bytes }, .. }
            if floor == floor_bytes && free_bytes < floor_bytes));
    assert_eq!(check_all(&writer.reader(), 5000), status.kept_bytes);
    assert!(status.kept_bytes >= 400_000);
    storage.set_capacity_bytes(10 << 20);
    let mut next = create(&storage, "two", options).unwrap();
    assert_eq!(next.append(&[run(1, 0, b"again")]).logging, Logging::On);
}

#[test]
fn the_owner_ends_logging_for_a_reason_of_its_own_and_the_first_reason_stays() {
    let storage = MemoryStorage::new();
    let mut writer = create(&storage, "one", LogOptions::new()).unwrap();
    writer.append(&[run(1, 5, &bytes_at(0, 10))]);
    writer.stop(StopReason::Stalled);
    writer.stop(StopReason::ByOwner {
        reason: "x".repeat(5000),
    });
    let appended = writer.append(&[run(1, 8, &bytes_at(10, 20)), run(2, 9, &bytes_at(30, 5))]);
    assert!(matches!(appended.logging, Logging::Stopped { at } if at.get() == 10));
    let status = writer.status();
    assert_eq!(
        (status.total_bytes, status.kept_bytes, status.dropped_bytes),
        (35, 10, 25)
    );
    assert!(
        matches!(status.write_end, WriteEnd::Stopped { at, reason: StopReason::Stalled } if at.get() == 10)
    );
    assert!(!status.is_complete() && !status.is_sound());
    let gap = writer.reader().read(10.into(), 100).unwrap().gap.unwrap();
    assert_eq!(
        (gap.bytes(), gap.first_time_ms, gap.last_time_ms),
        (25, Some(8), Some(9))
    );
    assert_eq!(check_all(&writer.reader(), 3), 10);
    let log = writer.finish(b"");
    let opened = procession_log_store::LogReader::open(Arc::new(storage), "/logs/one").unwrap();
    assert_eq!(opened.status(), log.status());
    assert_eq!(opened.read(10.into(), 100).unwrap().gap, Some(gap));
}

#[test]
fn a_log_that_keeps_its_head_stops_at_the_cap_with_the_head_in_full() {
    let storage = MemoryStorage::new();
    let options = LogOptions::new().cap_bytes(64 * 1024).mode(CapMode::KeepHead);
    let mut writer = create(&storage, "one", options).unwrap();
    writer.append(&[run(1, 0, &bytes_at(0, 100_000))]);
    let status = writer.status();
    assert!(
        matches!(status.write_end, WriteEnd::Stopped { at, reason: StopReason::CapReached }
        if at.get() == status.kept_bytes)
    );
    assert!(status.kept_bytes > 58_000);
    assert_eq!(check_all(&writer.reader(), 5000), status.kept_bytes);
    assert!(folder_bytes(&storage, Path::new("/logs/one")) <= 64 * 1024);
}
