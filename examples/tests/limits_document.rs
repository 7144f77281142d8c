//! `docs/limits.md` says what the code says: every bound in it is made from the constant that holds.
//!
//! `UPDATE_DOCS=1 cargo test -p procession-examples --test limits_document` writes the page anew.

use std::{fmt::Display, fs, path::PathBuf, time::Duration};

use procession_actors::{
    log::{BATCH_BYTES, BATCH_DELAY, FEED_BYTES, LOG_JOBS, MEMORY_LOG_BYTES, SEARCH_BOUND, SEARCH_BYTES},
    registry::{LOG_SETTLE_BOUND, POLICY_BOUND},
    session::{LOG_OPEN_BOUND, LOG_STALL_BOUND, MAX_WAITERS, PROMPT_PAUSE},
};
use procession_core::{
    RequestId,
    admission::{GONE_REMEMBERED, HostBudgets, LimitName, Scope},
    field::Unit,
    redact::{MAX_SECRET_BYTES, MAX_SECRETS_BYTES_TOTAL, MIN_SECRET_BYTES},
    render::MAX_SCREEN_CELLS,
    session::{
        FREED_OUTPUT_BOUND, KILL_BOUND, LOG_CLOSE_BOUND, MAX_SURVEY_INTERVAL, STATUS_BOUND, SURVEY_INTERVAL,
        SWEEP_BOUND,
    },
    spec::{ExecLimits, MAX_ENV_KEYS, MAX_LABEL_BYTES},
    time::whole_millis,
};
use procession_log_store::{
    DEFAULT_HEAD_BYTES, MAX_CONTEXT_BYTES, MAX_ENTRY_BYTES, MAX_EXCESS_BYTES, MAX_MATCH_BYTES, MAX_MATCHES,
    MAX_PAGE_BYTES, MAX_PAGE_RUNS, MERGE_WINDOW_MS, MIN_CAP_BYTES,
};
use procession_mcp::ServeOptions;
use procession_policy::{
    BookBounds, Bound, MAX_LIST_BYTES, MAX_RECORD_BYTES, MAX_TERMINAL_SIDE, MAX_TEXT_BYTES, limits_markdown,
};

/// A bound that holds as it is and cannot be set.
fn fixed(name: &'static str, unit: Unit, value: impl Display, about: &'static str) -> Bound {
    Bound {
        name,
        unit,
        default: format!("{value}"),
        ceiling: "fixed".to_owned(),
        about,
    }
}

fn fixed_time(name: &'static str, value: Duration, about: &'static str) -> Bound {
    fixed(name, Unit::Milliseconds, whole_millis(value), about)
}

/// A bound that an embedder or a configuration sets, without a ceiling.
fn open(name: &'static str, unit: Unit, default: impl Display, about: &'static str) -> Bound {
    Bound {
        name,
        unit,
        default: format!("{default}"),
        ceiling: "none".to_owned(),
        about,
    }
}

fn budgets() -> Vec<Bound> {
    let default = HostBudgets::default();
    let row = |limit: LimitName, scope: Scope, unit, about| {
        let holds = default
            .bound(limit, scope)
            .map_or_else(|| "none".to_owned(), |bound| bound.to_string());
        let ceiling = match (limit, scope) {
            (LimitName::MaxSessions, Scope::Host) => HostBudgets::MAX_SESSIONS_CEILING.to_string(),
            (_, Scope::Host) => "none".to_owned(),
            (_, Scope::Principal | Scope::Owner) => "the budget around it".to_owned(),
        };
        Bound {
            name: limit.key(scope),
            unit,
            default: holds,
            ceiling,
            about,
        }
    };
    vec![
        row(
            LimitName::MaxSessions,
            Scope::Host,
            Unit::Count,
            "Sessions of the host that start, run, or have ended and can be read; ended ones make way.",
        ),
        row(
            LimitName::MaxSessions,
            Scope::Principal,
            Unit::Count,
            "Those of one principal.",
        ),
        row(
            LimitName::MaxSessions,
            Scope::Owner,
            Unit::Count,
            "Those of one owner.",
        ),
        row(
            LimitName::MaxLogBytes,
            Scope::Host,
            Unit::Bytes,
            "Disk that the logs of all sessions may take, reserved at the start.",
        ),
        row(
            LimitName::MaxLogBytes,
            Scope::Principal,
            Unit::Bytes,
            "The same for one principal.",
        ),
        row(
            LimitName::MaxLogBytes,
            Scope::Owner,
            Unit::Bytes,
            "The same for one owner.",
        ),
        row(
            LimitName::MaxCaptureBytes,
            Scope::Host,
            Unit::Bytes,
            "Memory that the captures of all sessions may take, twice `capture_bytes` each, reserved at the start.",
        ),
        row(
            LimitName::MaxCaptureBytes,
            Scope::Principal,
            Unit::Bytes,
            "The same for one principal.",
        ),
        row(
            LimitName::MaxCaptureBytes,
            Scope::Owner,
            Unit::Bytes,
            "The same for one owner.",
        ),
        open(
            "min_free_disk_bytes",
            Unit::Bytes,
            "none",
            "Free space on the file system of the logs below which no log is written.",
        ),
        fixed(
            "GONE_REMEMBERED",
            Unit::Count,
            GONE_REMEMBERED,
            "Sessions that are gone and whose owners are still told so.",
        ),
    ]
}

fn of_a_start() -> Vec<Bound> {
    let exec = ExecLimits::default();
    vec![
        fixed(
            "MAX_LABEL_BYTES",
            Unit::Bytes,
            MAX_LABEL_BYTES,
            "The longest label.",
        ),
        fixed(
            "MAX_ENV_KEYS",
            Unit::Count,
            MAX_ENV_KEYS,
            "Configured variables that one session may name, and variables that it may give itself.",
        ),
        fixed(
            "RequestId::MAX_BYTES",
            Unit::Bytes,
            RequestId::MAX_BYTES,
            "The longest `request_id`.",
        ),
        fixed(
            "ExecLimits::string_bytes",
            Unit::Bytes,
            exec.string_bytes,
            "One argument or variable; what the system takes, here for pages of 4 KiB.",
        ),
        fixed(
            "ExecLimits::total_bytes",
            Unit::Bytes,
            exec.total_bytes,
            "All arguments and variables; a quarter of the stack limit, here for 8 MiB.",
        ),
        fixed_time(
            "POLICY_BOUND",
            POLICY_BOUND,
            "How long a policy may take to decide before the start is refused.",
        ),
        fixed_time(
            "LOG_OPEN_BOUND",
            LOG_OPEN_BOUND,
            "How long a log may take to be made before the session goes on without one.",
        ),
    ]
}

fn of_a_session() -> Vec<Bound> {
    vec![
        fixed(
            "MAX_WAITERS",
            Unit::Count,
            MAX_WAITERS,
            "Calls that may wait on one session.",
        ),
        fixed_time(
            "PROMPT_PAUSE",
            PROMPT_PAUSE,
            "How long output has to pause before a poll for lines shows the one that is not ended.",
        ),
        fixed(
            "MAX_SCREEN_CELLS",
            Unit::Count,
            MAX_SCREEN_CELLS,
            "Rows times columns of a terminal whose screen is followed.",
        ),
        fixed(
            "MIN_SECRET_BYTES",
            Unit::Bytes,
            MIN_SECRET_BYTES,
            "The shortest secret that can be replaced in output; a shorter one is refused.",
        ),
        fixed(
            "MAX_SECRET_BYTES",
            Unit::Bytes,
            MAX_SECRET_BYTES,
            "The longest; less than this of output is held back.",
        ),
        fixed(
            "MAX_SECRETS_BYTES_TOTAL",
            Unit::Bytes,
            MAX_SECRETS_BYTES_TOTAL,
            "All secrets together.",
        ),
        fixed_time(
            "KILL_BOUND",
            KILL_BOUND,
            "How long a killed leader may take to be gone before a stop is answered with what is left.",
        ),
        fixed_time(
            "STATUS_BOUND",
            STATUS_BOUND,
            "How long a time-out or a stop waits for the status of a leader that has exited, where the guard has not told it yet.",
        ),
        fixed_time(
            "SWEEP_BOUND",
            SWEEP_BOUND,
            "How long the report on a sweep may take before the session ends without it.",
        ),
        fixed_time(
            "FREED_OUTPUT_BOUND",
            FREED_OUTPUT_BOUND,
            "How long output that a sweep set free may take to reach its end.",
        ),
        fixed_time(
            "LOG_CLOSE_BOUND",
            LOG_CLOSE_BOUND,
            "How long a log may take to be closed before the session ends without it.",
        ),
        fixed_time(
            "SURVEY_INTERVAL",
            SURVEY_INTERVAL,
            "How soon a tree that is waited for is looked at again.",
        ),
        fixed_time(
            "MAX_SURVEY_INTERVAL",
            MAX_SURVEY_INTERVAL,
            "How soon at the latest.",
        ),
    ]
}

fn of_logs() -> Vec<Bound> {
    vec![
        fixed_time(
            "LOG_SETTLE_BOUND",
            LOG_SETTLE_BOUND,
            "How long a shutdown waits for the logs to be on the storage.",
        ),
        fixed(
            "FEED_BYTES",
            Unit::Bytes,
            FEED_BYTES,
            "Output that waits for the log before the session stops reading.",
        ),
        fixed_time(
            "LOG_STALL_BOUND",
            LOG_STALL_BOUND,
            "How long the log may keep a session from reading before it is given up.",
        ),
        fixed(
            "BATCH_BYTES",
            Unit::Bytes,
            BATCH_BYTES,
            "Output that is written at once; less waits a moment for more.",
        ),
        fixed_time("BATCH_DELAY", BATCH_DELAY, "How long it waits."),
        fixed(
            "LOG_JOBS",
            Unit::Count,
            LOG_JOBS,
            "Jobs on storages that run at a time.",
        ),
        fixed(
            "MEMORY_LOG_BYTES",
            Unit::Bytes,
            MEMORY_LOG_BYTES,
            "Memory for all logs where there is no folder for them.",
        ),
        fixed(
            "MIN_CAP_BYTES",
            Unit::Bytes,
            MIN_CAP_BYTES,
            "The smallest cap of a log.",
        ),
        fixed(
            "DEFAULT_HEAD_BYTES",
            Unit::Bytes,
            DEFAULT_HEAD_BYTES,
            "The part of a log that is kept for ever; of a small log a part of the cap.",
        ),
        fixed(
            "MAX_EXCESS_BYTES",
            Unit::Bytes,
            MAX_EXCESS_BYTES,
            "By how much a log may exceed its cap, never by more.",
        ),
        fixed(
            "MAX_ENTRY_BYTES",
            Unit::Bytes,
            MAX_ENTRY_BYTES,
            "Payload of one entry of a log.",
        ),
        fixed(
            "MERGE_WINDOW_MS",
            Unit::Milliseconds,
            MERGE_WINDOW_MS,
            "Output of one stream within this time may share an entry.",
        ),
        fixed(
            "MAX_PAGE_BYTES",
            Unit::Bytes,
            MAX_PAGE_BYTES,
            "Bytes of one page of a log.",
        ),
        fixed(
            "MAX_PAGE_RUNS",
            Unit::Count,
            MAX_PAGE_RUNS,
            "Runs of one page of a log.",
        ),
    ]
}

fn of_searches() -> Vec<Bound> {
    vec![
        fixed(
            "MAX_MATCHES",
            Unit::Count,
            MAX_MATCHES,
            "Matches of one search of a log.",
        ),
        fixed(
            "MAX_MATCH_BYTES",
            Unit::Bytes,
            MAX_MATCH_BYTES,
            "The longest match.",
        ),
        fixed(
            "MAX_CONTEXT_BYTES",
            Unit::Bytes,
            MAX_CONTEXT_BYTES,
            "Context of one match.",
        ),
        fixed(
            "SEARCH_BYTES",
            Unit::Bytes,
            SEARCH_BYTES,
            "How much of a log one search looks through.",
        ),
        fixed_time("SEARCH_BOUND", SEARCH_BOUND, "How long one search takes."),
    ]
}

fn of_records() -> Vec<Bound> {
    let BookBounds {
        max_records,
        max_bytes,
    } = BookBounds::default();
    vec![
        fixed(
            "BookBounds::max_records",
            Unit::Count,
            max_records,
            "Decisions and receipts that the policy actor keeps; the oldest go first.",
        ),
        fixed(
            "BookBounds::max_bytes",
            Unit::Bytes,
            max_bytes,
            "Memory that they take.",
        ),
        fixed(
            "MAX_RECORD_BYTES",
            Unit::Bytes,
            MAX_RECORD_BYTES,
            "One record in a log's header or end.",
        ),
        fixed(
            "MAX_TEXT_BYTES",
            Unit::Bytes,
            MAX_TEXT_BYTES,
            "The longest text that a decision holds; a longer request is refused.",
        ),
        fixed(
            "MAX_LIST_BYTES",
            Unit::Bytes,
            MAX_LIST_BYTES,
            "The longest list that a decision holds.",
        ),
        fixed(
            "MAX_TERMINAL_SIDE",
            Unit::Count,
            MAX_TERMINAL_SIDE,
            "Rows, and columns, of a terminal; more counts as this.",
        ),
    ]
}

fn of_the_mcp_server() -> Vec<Bound> {
    let options = ServeOptions::default();
    vec![
        open(
            "ServeOptions::shutdown_grace",
            Unit::Milliseconds,
            whole_millis(options.shutdown_grace),
            "Time between TERM and KILL that the end of the MCP server has room for; it ends 3 s later at the latest.",
        ),
        open(
            "ServeOptions::max_line_bytes",
            Unit::Bytes,
            options.max_line_bytes,
            "The longest line that the MCP server reads.",
        ),
        open(
            "ServeOptions::max_unsent_bytes",
            Unit::Bytes,
            options.max_unsent_bytes,
            "Answers that may wait to be read before calls are refused.",
        ),
        open(
            "ServeOptions::max_calls",
            Unit::Count,
            options.max_calls,
            "Calls that may be under way at once.",
        ),
    ]
}

#[test]
fn the_page_of_limits_says_what_the_code_says() {
    let bounds = [
        budgets(),
        of_a_start(),
        of_a_session(),
        of_logs(),
        of_searches(),
        of_records(),
        of_the_mcp_server(),
    ]
    .concat();
    let expected = limits_markdown(&bounds);
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/limits.md");
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&page, &expected).expect("the page can be written");
    }
    let found = fs::read_to_string(&page).expect("the page can be read");
    let differs = found
        .lines()
        .zip(expected.lines())
        .find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "docs/limits.md is not what the code says; `UPDATE_DOCS=1 cargo limits` writes it anew\nfirst difference: {differs:#?}"
    );
}
