//! Carries out calls: arguments in, an answer or a failure out.

mod log;
mod overview;
mod session;
mod start;

use procession_actors::Client;
use serde_json::{Map, Value};

use crate::{
    arguments::Reader,
    failure::{Code, Failure},
    tools::Tool,
};

/// Carries out one call.
///
/// # Cancel safety
/// When dropped, the wait ends and nothing else; what was asked for may have been done.
pub(crate) async fn call(
    client: &Client,
    tool: &Tool,
    arguments: Map<String, Value>,
) -> Result<Value, Failure> {
    let reader = Reader::new(tool, arguments)?;
    match tool.name {
        "session_start" => start::start(client, reader).await,
        "session_poll" => session::poll(client, reader).await,
        "session_write" => session::write(client, reader).await,
        "session_close_stdin" => session::close_stdin(client, reader).await,
        "session_signal" => session::signal(client, reader).await,
        "session_resize" => session::resize(client, reader).await,
        "session_stop" => session::stop(client, reader).await,
        "session_read_log" => log::read(client, reader).await,
        "session_search_log" => log::search(client, reader).await,
        "session_list" => overview::list(client, reader).await,
        "session_wait" => overview::wait(client, reader).await,
        "session_inspect" => overview::inspect(client, reader).await,
        name => Err(Failure::new(
            Code::Unsupported,
            format!("`{name}` cannot be called"),
        )),
    }
}

/// Puts on record what was cut of a call's own numbers.
fn with_clamps(mut answer: Value, reader: Reader) -> Value {
    let clamps = reader.into_clamps();
    if !clamps.is_empty() {
        answer["policy"] = clamps.into();
    }
    answer
}
