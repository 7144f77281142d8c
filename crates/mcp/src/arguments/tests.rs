use serde_json::json;

use super::*;
use crate::tools::tool;

const ID: &str = "ps_0123456789abcdef";

fn read<T>(
    name: &str,
    mut arguments: Value,
    read: impl FnOnce(&mut Reader) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if name != "session_wait" {
        arguments["session_id"] = ID.into();
    }
    let Value::Object(arguments) = arguments else {
        panic!("an object")
    };
    read(&mut Reader::new(tool(name).expect("known"), arguments)?)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Failure>, code: Code, field: &str) {
    let failure = answer.expect_err("refused");
    assert_eq!((failure.code(), failure.field()), (code, Some(field)));
}

#[test]
fn a_poll_waits_as_long_as_it_may() {
    let query =
        |arguments| read("session_poll", arguments, PollArguments::read).map(|arguments| arguments.query);
    assert_eq!(query(json!({})), Ok(PollQuery::wait(Duration::from_secs(5))));
    assert_eq!(query(json!({ "yield_time_ms": 0 })), Ok(PollQuery::now()));
    assert_eq!(
        query(json!({ "yield_time_ms": u64::MAX })),
        Ok(PollQuery::wait(Duration::from_secs(30)))
    );
    let at = ReadPosition {
        stdout: 36,
        stderr: 1,
    };
    let read_on = json!({ "cursor": "c1.10.1", "yield_time_ms": 0, "max_output_bytes": 1, "render": "raw" });
    assert_eq!(query(read_on), Ok(PollQuery::now().from(at).budget(128)));
    refused(query(json!({ "cursor": "12" })), Code::InvalidArgument, "cursor");
    refused(query(json!({ "cursor": 12 })), Code::InvalidArgument, "cursor");
    refused(
        query(json!({ "yield_time_ms": -1 })),
        Code::InvalidArgument,
        "yield_time_ms",
    );
    for (word, render) in [("plain", Render::Plain), ("screen", Render::Screen)] {
        assert_eq!(
            query(json!({ "render": word, "yield_time_ms": 0 })),
            Ok(PollQuery::now().render(render))
        );
    }
    refused(
        query(json!({ "render": "html" })),
        Code::InvalidArgument,
        "render",
    );
}

#[test]
fn input_is_text_or_bytes_and_bounded() {
    let input =
        |arguments| read("session_write", arguments, WriteArguments::read).map(|arguments| arguments.input);
    assert_eq!(input(json!({ "input": "a\n" })), Ok(b"a\n".to_vec()));
    assert_eq!(input(json!({ "chars": "a\u{3}" })), Ok(b"a\x03".to_vec()));
    assert_eq!(input(json!({ "input_base64": "/wA=" })), Ok(vec![255, 0]));
    assert_eq!(
        input(json!({ "input": "x".repeat(65_536) })).map(|input| input.len()),
        Ok(65_536)
    );
    refused(
        input(json!({ "input": "x".repeat(65_537) })),
        Code::TooLong,
        "input",
    );
    refused(
        input(json!({ "input_base64": STANDARD.encode(vec![0; 65_537]) })),
        Code::TooLong,
        "input_base64",
    );
    refused(
        input(json!({ "input_base64": "?" })),
        Code::InvalidArgument,
        "input_base64",
    );
    refused(
        input(json!({ "input": "a", "input_base64": "" })),
        Code::InvalidArgument,
        "input",
    );
    refused(input(json!({})), Code::InvalidArgument, "input");
    refused(input(json!({ "input": 5 })), Code::InvalidArgument, "input");
}

#[test]
fn a_write_waits_for_acceptance_and_then_for_output() {
    let arguments = |arguments| read("session_write", arguments, WriteArguments::read).expect("fine");
    let plain = arguments(json!({ "input": "" }));
    assert_eq!(
        (plain.wait, plain.query.wait),
        (Duration::from_secs(2), Duration::from_millis(250))
    );
    let timed = arguments(json!({ "input": "", "wait_ms": 60_000, "yield_time_ms": 1 }));
    assert_eq!(
        (timed.wait, timed.query.wait),
        (Duration::from_secs(30), Duration::from_millis(1))
    );
}

#[test]
fn a_signal_is_a_name_or_a_number() {
    let signal = |signal: Value| {
        read(
            "session_signal",
            json!({ "signal": signal }),
            SignalArguments::read,
        )
        .map(|arguments| arguments.signal)
    };
    for given in [json!("INT"), json!("sigint"), json!("2"), json!(2)] {
        assert_eq!(signal(given), Ok(Signal::INT));
    }
    for given in [
        json!("FOO"),
        json!(0),
        json!(-9),
        json!(65),
        json!(2.0),
        json!(["INT"]),
        json!(null),
    ] {
        refused(signal(given), Code::InvalidArgument, "signal");
    }
}

#[test]
fn a_stop_asks_or_forces() {
    let ladder =
        |arguments| read("session_stop", arguments, StopArguments::read).map(|arguments| arguments.ladder);
    assert_eq!(ladder(json!({})), Ok(Ladder::Ask));
    assert_eq!(
        ladder(json!({ "force": false, "grace_ms": 5 })),
        Ok(Ladder::AskFor(Duration::from_millis(5)))
    );
    assert_eq!(
        ladder(json!({ "grace_ms": u64::MAX })),
        Ok(Ladder::AskFor(Duration::from_secs(60)))
    );
    assert_eq!(ladder(json!({ "force": true, "grace_ms": 0 })), Ok(Ladder::Force));
    refused(
        ladder(json!({ "force": true, "grace_ms": 5 })),
        Code::InvalidArgument,
        "grace_ms",
    );
    refused(ladder(json!({ "force": "yes" })), Code::InvalidArgument, "force");
}

#[test]
fn a_page_of_a_log_is_bounded() {
    let query = |arguments| read("session_read_log", arguments, ReadLogArguments::read);
    let plain = query(json!({})).expect("fine");
    assert_eq!(
        plain.query,
        LogQuery {
            offset: 0,
            max_bytes: 32_768,
            stream: None
        }
    );
    assert_eq!(plain.encoding, Encoding::Text);
    let big =
        query(json!({ "offset": u64::MAX, "max_bytes": u64::MAX, "stream": "stderr", "encoding": "base64" }));
    let expected = LogQuery {
        offset: u64::MAX,
        max_bytes: MAX_PAGE_BYTES,
        stream: Some(StreamId::Stderr),
    };
    assert_eq!(big.expect("fine").query, expected);
    refused(
        query(json!({ "stream": "stdin" })),
        Code::InvalidArgument,
        "stream",
    );
    refused(
        query(json!({ "encoding": "hex" })),
        Code::InvalidArgument,
        "encoding",
    );
    refused(query(json!({ "offset": -1 })), Code::InvalidArgument, "offset");
}

#[test]
fn a_terminal_has_at_least_one_cell() {
    let size =
        |arguments| read("session_resize", arguments, ResizeArguments::read).map(|arguments| arguments.size);
    assert_eq!(
        size(json!({ "rows": 1, "cols": 65_535 })),
        Ok(TerminalSize {
            rows: 1,
            cols: 65_535
        })
    );
    refused(
        size(json!({ "rows": 0, "cols": 1 })),
        Code::InvalidArgument,
        "rows",
    );
    refused(
        size(json!({ "rows": 1, "cols": 65_536 })),
        Code::InvalidArgument,
        "cols",
    );
    refused(size(json!({ "rows": 1 })), Code::InvalidArgument, "cols");
}

#[test]
fn a_wait_is_for_sessions_and_conditions() {
    let wait = |arguments| read("session_wait", arguments, WaitArguments::read);
    let plain = wait(json!({ "sessions": [ID, ID] })).expect("fine");
    assert_eq!(plain.sessions.len(), 1);
    assert_eq!((plain.until, plain.mode), (vec![Condition::Exited], Mode::Any));
    let all = wait(json!({
        "sessions": [ID], "until": ["closed", "quiescent"], "mode": "all", "timeout_ms": 900_000,
    }))
    .expect("fine");
    assert_eq!(all.until, [Condition::Closed, Condition::Quiescent]);
    assert_eq!((all.mode, all.timeout), (Mode::All, Duration::from_secs(300)));
    refused(wait(json!({})), Code::InvalidArgument, "sessions");
    refused(wait(json!({ "sessions": [] })), Code::InvalidArgument, "sessions");
    refused(wait(json!({ "sessions": ["x"] })), Code::NotFound, "session_id");
    refused(
        wait(json!({ "sessions": [ID], "until": ["ended"] })),
        Code::InvalidArgument,
        "until",
    );
    refused(
        wait(json!({ "sessions": [ID], "until": [] })),
        Code::InvalidArgument,
        "until",
    );
    refused(
        wait(json!({ "sessions": [ID], "until": [{ "match": "x" }] })),
        Code::Unsupported,
        "until",
    );
    refused(
        wait(json!({ "sessions": [ID], "until": [{ "x": 1 }] })),
        Code::InvalidArgument,
        "until",
    );
    refused(
        wait(json!({ "sessions": [ID], "mode": "both" })),
        Code::InvalidArgument,
        "mode",
    );
}

#[test]
fn a_search_looks_for_a_text_or_an_expression() {
    let search = |arguments| {
        read("session_search_log", arguments, SearchLogArguments::read).map(|arguments| arguments.search)
    };
    let literal = LogSearch {
        pattern: LogPattern::Literal("a.b".to_owned()),
        from_offset: 0,
        max_matches: 100,
        context_bytes: 80,
    };
    assert_eq!(search(json!({ "pattern": "a.b" })), Ok(literal));
    let bounded = LogSearch {
        pattern: LogPattern::Regex("a.b".to_owned()),
        from_offset: 7,
        max_matches: 1000,
        context_bytes: 4096,
    };
    let arguments = json!({
        "pattern": "a.b", "regex": true, "from_offset": 7, "max_matches": 9999, "context_bytes": u64::MAX,
    });
    assert_eq!(search(arguments), Ok(bounded));
    refused(search(json!({})), Code::InvalidArgument, "pattern");
    refused(
        search(json!({ "pattern": "x", "from_offset": -1 })),
        Code::InvalidArgument,
        "from_offset",
    );
}
