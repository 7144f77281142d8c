//! The record of the end as JSON.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use procession_actors::{
    error::StartError,
    report::{Inspection, Started},
};
use procession_core::Outcome;
use procession_mcp::json::{decisions_value, field_value, outcome_value, report_value};
use procession_policy::Decision;
use serde_json::{Value, json};

use crate::{cli::ReportTarget, error::CommandError};

/// Checks that a report can be written to this file, as far as that shows beforehand.
///
/// # Errors
/// [`CommandError::Path`], before anything runs.
pub(super) fn check(file: &Path) -> Result<(), CommandError> {
    let checked = match fs::metadata(file) {
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::metadata(folder_of(file)) {
            Ok(metadata) if !metadata.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
            folder => folder.map(drop),
        },
        Err(error) => Err(error),
    };
    checked.map_err(|source| unusable(file, source))
}

/// Writes a report: behind all output, or to a file that is there whole or not at all, readable by its owner alone.
///
/// # Errors
/// [`CommandError::Path`] when the file cannot be written; a standard error that nobody reads is none.
pub(super) fn write(target: &ReportTarget, report: &Value) -> Result<(), CommandError> {
    let text = format!("{report:#}\n");
    match target {
        ReportTarget::Stderr => {
            let _ = io::stderr().lock().write_all(text.as_bytes());
            Ok(())
        }
        ReportTarget::File(file) => {
            write_file(file, text.as_bytes()).map_err(|source| unusable(file, source))
        }
    }
}

/// The report of a session that ran; `inspection` is missing when the session was lost.
pub(super) fn of_session(
    started: &Started,
    outcome: Option<&Outcome>,
    inspection: Option<&Inspection>,
) -> Value {
    inspection.map_or_else(
        || {
            json!({
                "session_id": started.session.to_string(),
                "outcome": outcome.map(outcome_value),
                "decisions": decisions_value(&started.decision),
                "receipt": null,
                "log": null,
            })
        },
        report_value,
    )
}

/// The report of a session that was not started.
pub(super) fn of_start_error(error: &StartError, decision: Option<&Decision>) -> Value {
    let mut told = json!({ "code": code_of(error), "message": error.to_string() });
    match error {
        StartError::Invalid(invalid) => told["field"] = json!(invalid.place()),
        StartError::Environment(environment) => told["field"] = json!(environment.place()),
        StartError::Refused(refused) => {
            told["field"] = json!(refused.field.name());
            told["requested"] = refused.requested.as_ref().map(field_value).unwrap_or_default();
        }
        StartError::Failed(failure) => {
            told["field"] = json!(failure.place);
            told["kind"] = json!(failure.kind.as_str());
        }
        _ => {}
    }
    json!({
        "error": told,
        "session_id": null,
        "outcome": null,
        "decisions": decision.map(decisions_value),
        "receipt": null,
        "log": null,
    })
}

fn code_of(error: &StartError) -> &'static str {
    match error {
        StartError::Invalid(_) | StartError::Environment(_) => "invalid_argument",
        StartError::Refused(_) => "refused",
        StartError::LimitReached(_) => "limit_reached",
        StartError::Failed(_) => "failed_to_start",
        _ => "unavailable",
    }
}

fn write_file(file: &Path, text: &[u8]) -> io::Result<()> {
    // A link stays, and what it leads to is exchanged; a device or a pipe is written to as it is.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    match fs::metadata(&file) {
        Ok(metadata) if !metadata.is_file() => {
            return OpenOptions::new().write(true).open(&file)?.write_all(text);
        }
        _ => {}
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let unfinished = folder_of(&file).join(name);
    // Only the rest of an earlier program of the same pid can stand in the way.
    let _ = fs::remove_file(&unfinished);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)
        .and_then(|mut opened| opened.write_all(text))
        .and_then(|()| fs::rename(&unfinished, &file));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn folder_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_path_buf()
}

fn unusable(file: &Path, source: io::Error) -> CommandError {
    CommandError::Path {
        path: file.to_path_buf(),
        purpose: "a report",
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_report_is_private_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("report.json");
        for round in 0..2 {
            write(&ReportTarget::File(file.clone()), &json!({ "round": round })).expect("a report");
            let mode = fs::metadata(&file).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        let read: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
        assert_eq!(read, json!({ "round": 1 }));
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_exchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "before").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        write(&ReportTarget::File(link.clone()), &json!(1)).expect("a report");
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("a file"), "1\n");
    }

    #[test]
    fn a_place_that_cannot_hold_a_report_shows_before_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("a file");
        assert!(check(&file).is_ok());
        assert!(check(&folder.path().join("new")).is_ok());
        assert!(check(Path::new("new-in-the-current-folder")).is_ok());
        assert!(check(folder.path()).is_err());
        assert!(check(&folder.path().join("gone/new")).is_err());
        assert!(check(&file.join("new")).is_err());
    }
}
