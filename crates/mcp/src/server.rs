//! The server: tools, calls side by side, and an orderly end.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use procession_actors::{Client, System, report::ShutdownReport};
use procession_core::Owner;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
        ErrorCode, Implementation, InitializeRequestParams, InitializeResult, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as ShownTool,
    },
    service::{RequestContext, serve_directly},
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Notify, watch},
};

use crate::{
    call::call,
    failure::{Code, Failure},
    instructions::INSTRUCTIONS,
    schema::shown_tools,
    tools::tool,
    transport::{HiddenArguments, LineTransport, Outbox, Writer},
};

/// How long a shutdown may take beyond the grace: the bound on kills, and what is around it.
const SHUTDOWN_SLACK: Duration = Duration::from_millis(2_500);
/// How long answers that are ready may take to be written at the end.
const FLUSH_BOUND: Duration = Duration::from_millis(300);

/// Bounds of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeOptions {
    /// Time between TERM and KILL that the end of the server has room for; 2 s by default.
    pub shutdown_grace: Duration,
    /// The longest line that is read, in bytes, inclusive; 32 MiB by default.
    pub max_line_bytes: usize,
    /// Answers that may wait to be read, in bytes, before calls are refused; 64 MiB by default.
    pub max_unsent_bytes: u64,
    /// Calls that may be under way at once, inclusive; 1024 by default.
    pub max_calls: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            shutdown_grace: Duration::from_secs(2),
            max_line_bytes: 32 << 20,
            max_unsent_bytes: 64 << 20,
            max_calls: 1024,
        }
    }
}

/// Why a server ended before it was meant to; the sessions were ended all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The part that speaks the protocol broke down.
    #[error("the protocol loop broke down")]
    LoopFailed,
}

/// Serves sessions as MCP tools until the input ends or `stop` completes, then ends all sessions of the system.
///
/// Everything is done as `owner`. The end is bounded: after `shutdown_grace` + 3 s it returns, whatever calls are under
/// way and whether or not the client reads.
///
/// # Errors
/// [`ServeError`]; the sessions are ended all the same.
///
/// # Panics
/// Outside of a tokio runtime with time.
///
/// # Cancel safety
/// When dropped, the connection is closed and the system goes on.
pub async fn serve<R, W>(
    system: System,
    owner: Owner,
    options: ServeOptions,
    input: R,
    output: W,
    stop: impl Future<Output = ()> + Send,
) -> Result<ShutdownReport, ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let client = system.client(owner);
    let bound = options.shutdown_grace.saturating_add(SHUTDOWN_SLACK);
    serve_client(client, &options, input, output, stop, async move {
        system.shutdown(None, bound).await
    })
    .await
}

/// The same for any client, with what ends its sessions.
async fn serve_client<R, W>(
    client: Client,
    options: &ServeOptions,
    input: R,
    output: W,
    stop: impl Future<Output = ()> + Send,
    shutdown: impl Future<Output = ShutdownReport> + Send,
) -> Result<ShutdownReport, ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (close, closing) = watch::channel(false);
    let input_ended = Arc::new(Notify::new());
    let writer = Writer::spawn(output, options.max_unsent_bytes);
    let write = writer.abort_handle();
    let server = Server::new(client, writer.outbox(), options.max_calls);
    let transport = LineTransport::new(
        input,
        writer,
        options.max_line_bytes,
        closing,
        Arc::clone(&input_ended),
    );
    // Directly, without the handshake as a stage of its own: a wrong first message is no reason to end.
    let mut running = serve_directly(server, transport, None);

    let stop = pin!(stop);
    tokio::select! {
        () = stop => tracing::info!("asked to stop"),
        () = input_ended.notified() => tracing::info!("the input ended"),
    }
    close.send_replace(true);
    // Calls under way are answered by the end of their sessions, and written meanwhile.
    let report = shutdown.await;
    let closed = running.close_with_timeout(FLUSH_BOUND).await;
    write.abort();
    match closed {
        Ok(Some(_)) => Ok(report),
        Ok(None) => {
            tracing::warn!("answers were left unwritten: the client does not read");
            Ok(report)
        }
        Err(error) => {
            tracing::error!(%error, "the protocol loop broke down");
            Err(ServeError::LoopFailed)
        }
    }
}

/// The tools over one client.
#[derive(Debug)]
struct Server {
    client: Client,
    tools: Vec<ShownTool>,
    outbox: Outbox,
    calls: Arc<AtomicUsize>,
    max_calls: usize,
}

impl Server {
    fn new(client: Client, outbox: Outbox, max_calls: usize) -> Self {
        Self {
            client,
            tools: shown_tools(),
            outbox,
            calls: Arc::default(),
            max_calls,
        }
    }

    /// Refuses a call while too many are under way, or too much of their answers is unread.
    fn admit(&self) -> Result<CallUnderWay, Failure> {
        let call = CallUnderWay::new(&self.calls);
        if call.number > self.max_calls {
            let message = format!(
                "too many calls are under way: {} of {}",
                call.number - 1,
                self.max_calls
            );
            return Err(Failure::new(Code::LimitReached, message)
                .with("limit", "calls")
                .with("configured", self.max_calls)
                .with("in_use", call.number - 1)
                .with("requested", 1));
        }
        if self.outbox.is_full() {
            return Err(
                Failure::new(Code::LimitReached, "too many answers are unread: read them first")
                    .with("limit", "unread_answer_bytes")
                    .with("configured", self.outbox.max_unsent_bytes())
                    .with("in_use", self.outbox.unsent_bytes()),
            );
        }
        Ok(call)
    }

    async fn answer(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let Some(tool) = tool(name) else {
            let shown: String = name.chars().take(64).collect();
            return Err(ErrorData::invalid_params(
                format!("there is no tool `{shown}`"),
                None,
            ));
        };
        let arguments = context
            .extensions
            .get::<HiddenArguments>()
            .map(|hidden| Arc::clone(&hidden.0));
        let arguments = arguments.map(Arc::unwrap_or_clone).unwrap_or_default();
        let under_way = self.admit();
        let answer = match &under_way {
            Ok(_) => call(&self.client, tool, arguments).await,
            Err(failure) => Err(failure.clone()),
        };
        Ok(match answer {
            Ok(value) => result(value, false),
            Err(failure) => result(failure.into_value(), true),
        })
    }
}

/// A value as structured content and, for clients that look there only, as text.
fn result(value: Value, is_error: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(value.to_string())];
    let mut result = if is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(value);
    result
}

/// Counts a call while it lives.
#[derive(Debug)]
struct CallUnderWay {
    calls: Arc<AtomicUsize>,
    /// How many there are with this one.
    number: usize,
}

impl CallUnderWay {
    fn new(calls: &Arc<AtomicUsize>) -> Self {
        Self {
            number: calls.fetch_add(1, Ordering::Relaxed) + 1,
            calls: Arc::clone(calls),
        }
    }
}

impl Drop for CallUnderWay {
    fn drop(&mut self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(
                Implementation::new("procession", env!("CARGO_PKG_VERSION")).with_title("Process sessions"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        let mut peer = request;
        peer.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(peer);
        Ok(answer)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tokio::select! {
            // A cancelled call is not answered; dropping its future ends its wait.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
            answer = self.answer(&request.name, &context) => answer.map(Into::into),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        const KNOWN: [&str; 4] = ["initialize", "ping", "tools/list", "tools/call"];
        if KNOWN.contains(&request.method.as_str()) {
            // A method that is known and comes here has parameters that do not fit.
            return Err(ErrorData::invalid_params(
                format!("the parameters of `{}` do not fit", request.method),
                None,
            ));
        }
        let shown: String = request.method.chars().take(64).collect();
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("there is no method `{shown}`"),
            None,
        ))
    }
}

#[cfg(test)]
mod tests;
