//! What the calls ask for, as typed values; nothing is done before all of it is understood.

mod limits;
mod nearest;
mod reader;
mod start;

use std::{collections::BTreeSet, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use procession_actors::report::{Condition, Ladder, LogPattern, LogQuery, LogSearch, PollQuery};
use procession_core::{
    RequestId, SessionId, Signal, StreamId, preview::OutputBudget, render::Render, spec::TerminalSize,
    text::ReadPosition,
};
use serde_json::Value;

use self::reader::{Bounds, missing, not_one_of, wrong};
pub(crate) use self::{
    limits::limits_schema,
    reader::Reader,
    start::{Ground, StartArguments},
};
use crate::failure::{Code, Failure};

/// The longest that a call waits for output, in milliseconds.
pub(crate) const MAX_YIELD_MS: u64 = 30_000;
/// The longest that `session_wait` waits, in milliseconds.
pub(crate) const MAX_WAIT_MS: u64 = 300_000;
/// The longest input of one write, in bytes.
pub(crate) const MAX_INPUT_BYTES: u64 = 65_536;
/// The largest page of a log, in bytes.
pub(crate) const MAX_PAGE_BYTES: u64 = 262_144;
/// The most matches of one search.
const MAX_MATCHES: u64 = 1000;
/// The most that is shown on either side of a match, in bytes.
const MAX_CONTEXT_BYTES: u64 = 4096;
/// The longest grace that a stop may ask for, in milliseconds.
const MAX_GRACE_MS: u64 = 60_000;
/// The most sessions that one call waits for.
const MAX_SESSIONS: usize = 256;

const POLL_YIELD: Duration = Duration::from_secs(5);
const WRITE_YIELD: Duration = Duration::from_millis(250);
const WRITE_WAIT: Duration = Duration::from_secs(2);
const PAGE_BYTES: u64 = 32_768;
const MATCHES: u64 = 100;
const CONTEXT_BYTES: u64 = 80;
/// No character is longer, so that a page of text always gets on.
const MIN_TEXT_PAGE_BYTES: u64 = 12;

/// How output is shown.
const RENDERS: [&str; 3] = ["raw", "plain", "screen"];

/// Which output to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PollArguments {
    pub(crate) session: SessionId,
    pub(crate) query: PollQuery,
}

impl PollArguments {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let session = reader.session()?;
        let cursor = reader.text("cursor")?.map(|text| cursor(&text)).transpose()?;
        let wait = yield_time(reader, POLL_YIELD)?;
        let max_output_bytes = max_output_bytes(reader)?;
        let shown_as = match reader.word("render", &RENDERS)?.as_deref() {
            Some("plain") => Render::Plain,
            Some("screen") => Render::Screen,
            _ => Render::Raw,
        };
        Ok(Self {
            session,
            query: PollQuery {
                cursor,
                wait,
                max_output_bytes,
                render: shown_as,
            },
        })
    }
}

/// What to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteArguments {
    pub(crate) session: SessionId,
    pub(crate) input: Vec<u8>,
    /// How long to wait for the input to be accepted.
    pub(crate) wait: Duration,
    pub(crate) request_id: Option<RequestId>,
    /// What to read afterwards.
    pub(crate) query: PollQuery,
}

impl WriteArguments {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let session = reader.session()?;
        let name = reader.name("input").to_owned();
        let input = match (reader.text("input")?, reader.text("input_base64")?) {
            (Some(text), None) => bounded(&name, text.into_bytes())?,
            (None, Some(text)) => {
                let malformed = |error: base64::DecodeError| {
                    Failure::invalid(
                        "input_base64",
                        format!("invalid `input_base64`: {error}").to_lowercase(),
                    )
                };
                bounded("input_base64", STANDARD.decode(text).map_err(malformed)?)?
            }
            (None, None) => return Err(missing("input").with("or", "input_base64")),
            (Some(_), Some(_)) => {
                return Err(Failure::invalid(
                    &name,
                    format!("`{name}` and `input_base64` cannot be given together"),
                ));
            }
        };
        let bounds = Bounds {
            field: "wait_ms",
            least: 0,
            most: MAX_YIELD_MS,
        };
        let wait = reader
            .clamped("wait_ms", bounds)?
            .map_or(WRITE_WAIT, Duration::from_millis);
        let query = PollQuery {
            max_output_bytes: max_output_bytes(reader)?,
            ..PollQuery::wait(yield_time(reader, WRITE_YIELD)?)
        };
        Ok(Self {
            session,
            input,
            wait,
            request_id: request_id(reader)?,
            query,
        })
    }
}

fn bounded(name: &str, input: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let bytes = input.len() as u64;
    if bytes <= MAX_INPUT_BYTES {
        return Ok(input);
    }
    let message = format!("`{name}` is too long: {bytes} bytes, the limit is {MAX_INPUT_BYTES} a write");
    Err(Failure::new(Code::TooLong, message)
        .with("bytes", bytes)
        .with("limit_bytes", MAX_INPUT_BYTES)
        .with("accepted_bytes", 0)
        .at(name))
}

/// Which signal to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignalArguments {
    pub(crate) session: SessionId,
    pub(crate) signal: Signal,
}

impl SignalArguments {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let session = reader.session()?;
        let text = match reader.take("signal").ok_or_else(|| missing("signal"))? {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            other => return Err(wrong("signal", "a name such as `INT`, or a number", &other)),
        };
        let signal = text
            .parse()
            .map_err(|error: procession_core::signal::UnknownSignal| {
                Failure::invalid("signal", format!("invalid `signal`: {error}"))
            })?;
        Ok(Self { session, signal })
    }
}

/// A terminal's new size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResizeArguments {
    pub(crate) session: SessionId,
    pub(crate) size: TerminalSize,
}

impl ResizeArguments {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let session = reader.session()?;
        let size = TerminalSize {
            rows: reader.cells("rows")?,
            cols: reader.cells("cols")?,
        };
        Ok(Self { session, size })
    }
}

/// How to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopArguments {
    pub(crate) session: SessionId,
    pub(crate) ladder: Ladder,
    /// What to read afterwards.
    pub(crate) query: PollQuery,
}

impl StopArguments {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let session = reader.session()?;
        let force = reader.flag("force")?.unwrap_or(false);
        let bounds = Bounds {
            field: "grace_ms",
            least: 0,
            most: MAX_GRACE_MS,
        };
        let ladder = match (force, reader.clamped("grace_ms", bounds)?) {
            (true, None | Some(0)) => Ladder::Force,
            (true, Some(_)) => {
                return Err(Failure::invalid(
                    "grace_ms",
                    "`grace_ms` and `force` cannot be given together",
                ));
            }
            (false, None) => Ladder::Ask,
            (false, Some(grace)) => Ladder::AskFor(Duration::from_millis(grace)),
        };
        let query = PollQuery {
            max_output_bytes: max_output_bytes(reader)?,
            ..PollQuery::now()
        };
        Ok(Self {
            session,
            ladder,
            query,
        })
    }
}

/// In what form a log's bytes are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Text,
    Base64,
}

/// Which page of a log to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadLogArguments {
    pub(crate) session: SessionId,
    pub(crate) query: LogQuery,
    pub(crate) encoding: Encoding,
}

impl ReadLogArguments {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let session = reader.session()?;
        let offset = reader.number("offset")?.unwrap_or(0);
        let encoding = match reader.word("encoding", &["text", "base64"])?.as_deref() {
            Some("base64") => Encoding::Base64,
            _ => Encoding::Text,
        };
        let least = if encoding == Encoding::Text {
            MIN_TEXT_PAGE_BYTES
        } else {
            1
        };
        let bounds = Bounds {
            field: "max_bytes",
            least,
            most: MAX_PAGE_BYTES,
        };
        let max_bytes = reader.clamped("max_bytes", bounds)?.unwrap_or(PAGE_BYTES);
        let stream = reader
            .word("stream", &["stdout", "stderr"])?
            .map(|word| match word.as_str() {
                "stderr" => StreamId::Stderr,
                _ => StreamId::Stdout,
            });
        Ok(Self {
            session,
            query: LogQuery {
                offset,
                max_bytes,
                stream,
            },
            encoding,
        })
    }
}

/// For how many of the sessions to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Any,
    All,
}

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitArguments {
    pub(crate) sessions: BTreeSet<SessionId>,
    pub(crate) until: Vec<Condition>,
    pub(crate) mode: Mode,
    pub(crate) timeout: Duration,
}

impl WaitArguments {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let ids = reader.texts("sessions")?.ok_or_else(|| missing("sessions"))?;
        if ids.is_empty() || ids.len() > MAX_SESSIONS {
            let message = format!("`sessions` has 1 to {MAX_SESSIONS} ids, not {}", ids.len());
            return Err(Failure::invalid("sessions", message));
        }
        let sessions = ids
            .iter()
            .map(|id| id.parse().map_err(|_| Failure::not_found()))
            .collect::<Result<_, _>>()?;
        let until = conditions(reader.take("until"))?;
        let mode = match reader.word("mode", &["any", "all"])?.as_deref() {
            Some("all") => Mode::All,
            _ => Mode::Any,
        };
        let bounds = Bounds {
            field: "timeout_ms",
            least: 0,
            most: MAX_WAIT_MS,
        };
        let timeout = Duration::from_millis(reader.clamped("timeout_ms", bounds)?.unwrap_or(MAX_YIELD_MS));
        Ok(Self {
            sessions,
            until,
            mode,
            timeout,
        })
    }
}

/// The conditions of a wait: `exited` when none is given.
fn conditions(value: Option<Value>) -> Result<Vec<Condition>, Failure> {
    let list = match value {
        None => return Ok(vec![Condition::Exited]),
        Some(Value::Array(list)) if !list.is_empty() => list,
        Some(one @ (Value::String(_) | Value::Object(_))) => vec![one],
        Some(other) => return Err(wrong("until", "a list of conditions", &other)),
    };
    let condition = |(index, value): (usize, Value)| match value {
        Value::String(word) => match word.as_str() {
            "exited" => Ok(Condition::Exited),
            "closed" => Ok(Condition::Closed),
            "quiescent" => Ok(Condition::Quiescent),
            _ => Err(not_one_of("until", &word, &["exited", "closed", "quiescent"])),
        },
        Value::Object(object) => {
            let known = ["match", "idle_ms", "bytes", "port"];
            match object.keys().find(|key| known.contains(&key.as_str())) {
                Some(key) => Err(Failure::unsupported(
                    "until",
                    format!("`until` cannot wait for `{key}` yet"),
                )),
                None => Err(wrong("until", "a condition", &Value::Object(object))),
            }
        }
        other => Err(wrong(&format!("until[{index}]"), "a condition", &other)),
    };
    list.into_iter().enumerate().map(condition).collect()
}

/// The name of a condition that can be waited for.
pub(crate) const fn condition_str(condition: Condition) -> &'static str {
    match condition {
        Condition::Exited => "exited",
        Condition::Closed => "closed",
        Condition::Quiescent => "quiescent",
        _ => "ended",
    }
}

/// What to look for in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchLogArguments {
    pub(crate) session: SessionId,
    pub(crate) search: LogSearch,
}

impl SearchLogArguments {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Failure> {
        let session = reader.session()?;
        let pattern = reader.text("pattern")?.ok_or_else(|| missing("pattern"))?;
        let pattern = if reader.flag("regex")?.unwrap_or(false) {
            LogPattern::Regex(pattern)
        } else {
            LogPattern::Literal(pattern)
        };
        let from_offset = reader.number("from_offset")?.unwrap_or(0);
        let bounds = Bounds {
            field: "max_matches",
            least: 1,
            most: MAX_MATCHES,
        };
        let max_matches = reader.clamped("max_matches", bounds)?.unwrap_or(MATCHES);
        let bounds = Bounds {
            field: "context_bytes",
            least: 0,
            most: MAX_CONTEXT_BYTES,
        };
        let context_bytes = reader.clamped("context_bytes", bounds)?.unwrap_or(CONTEXT_BYTES);
        Ok(Self {
            session,
            search: LogSearch {
                pattern,
                from_offset,
                max_matches,
                context_bytes,
            },
        })
    }
}

/// Whether ended sessions are listed as well.
pub(crate) fn include_ended(reader: &mut Reader) -> Result<bool, Failure> {
    Ok(reader.flag("include_ended")?.unwrap_or(true))
}

fn cursor(text: &str) -> Result<ReadPosition, Failure> {
    text.parse()
        .map_err(|error: procession_core::text::ParsePositionError| {
            Failure::invalid("cursor", format!("invalid `cursor`: {error}"))
        })
}

fn request_id(reader: &mut Reader) -> Result<Option<RequestId>, Failure> {
    let Some(text) = reader.text("request_id")? else {
        return Ok(None);
    };
    RequestId::try_from(text)
        .map(Some)
        .map_err(|error| Failure::invalid("request_id", format!("invalid `request_id`: {error}")))
}

fn yield_time(reader: &mut Reader, default: Duration) -> Result<Duration, Failure> {
    let bounds = Bounds {
        field: "yield_time_ms",
        least: 0,
        most: MAX_YIELD_MS,
    };
    Ok(reader
        .clamped("yield_time_ms", bounds)?
        .map_or(default, Duration::from_millis))
}

fn max_output_bytes(reader: &mut Reader) -> Result<Option<u64>, Failure> {
    let least = OutputBudget::MIN.bytes() as u64;
    let most = OutputBudget::MAX.bytes() as u64;
    reader.clamped(
        "max_output_bytes",
        Bounds {
            field: "output_budget_bytes",
            least,
            most,
        },
    )
}

#[cfg(test)]
mod tests;
