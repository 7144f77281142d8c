//! The line transport: one JSON-RPC message a line, whatever comes in.
//!
//! What cannot be read as a message is answered with a JSON-RPC error and forgotten; no line ends the connection.
//! Lines are bounded, answers are written by one task in whole lines, and arguments of calls are kept out of the sight
//! of the protocol's own tracing, because they hold what must be in no trace.

mod lines;
mod outbox;

use std::{fmt, io, sync::Arc};

use rmcp::{
    RoleServer,
    model::{ClientNotification, ClientRequest, JsonObject, JsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Notify, watch},
};

use self::lines::{Line, Lines};
pub(crate) use self::outbox::{Outbox, Writer};

/// Arguments of a call, where only the call itself looks.
#[derive(Clone)]
pub(crate) struct HiddenArguments(pub(crate) Arc<JsonObject>);

impl fmt::Debug for HiddenArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// JSON-RPC messages over a pair of byte streams.
#[derive(Debug)]
pub(crate) struct LineTransport<R, W> {
    lines: Lines<R>,
    outbox: Outbox,
    writer: Option<Writer<W>>,
    /// Whether no more lines are to be read.
    closing: watch::Receiver<bool>,
    input_ended: EndNotice,
}

/// Tells that no more lines will be read, also when the one who reads them breaks down.
#[derive(Debug)]
struct EndNotice(Arc<Notify>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl<R, W> LineTransport<R, W> {
    pub(crate) fn new(
        input: R,
        writer: Writer<W>,
        max_line_bytes: usize,
        closing: watch::Receiver<bool>,
        input_ended: Arc<Notify>,
    ) -> Self
    where
        R: AsyncRead,
    {
        let outbox = writer.outbox();
        let lines = Lines::new(input, max_line_bytes);
        Self {
            lines,
            outbox,
            writer: Some(writer),
            closing,
            input_ended: EndNotice(input_ended),
        }
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let outbox = self.outbox.clone();
        async move { outbox.send(&message) }
    }

    /// # Cancel safety
    /// Cancel safe: what was read of a line is kept.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let line = tokio::select! {
                biased;
                _ = self.closing.wait_for(|closing| *closing) => None,
                line = self.lines.next() => line,
            };
            let Some(line) = line else {
                self.input_ended.0.notify_one();
                return None;
            };
            match message(&line) {
                Ok(message) => return Some(hide_arguments(message)),
                Err(Some(answer)) => self.outbox.answer_fault(&answer),
                Err(None) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        match self.writer.take() {
            Some(writer) => writer.finish().await,
            None => Ok(()),
        }
    }
}

/// The message of a line, or what to answer, if anything.
fn message(line: &Line<'_>) -> Result<RxJsonRpcMessage<RoleServer>, Option<Value>> {
    let bytes: &[u8] = match line {
        Line::Whole(bytes) => bytes,
        Line::TooLong { limit_bytes } => {
            tracing::warn!(limit_bytes, "a line that is too long was dropped");
            let told = format!("the line is too long: the limit is {limit_bytes} bytes");
            return Err(Some(fault(None, -32600, &told)));
        }
    };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii();
    if bytes.is_empty() {
        return Err(None);
    }
    serde_json::from_slice(bytes).map_err(|_| answer_to(bytes))
}

/// What to answer to a line that is no message: nothing to a notification, else an error under its id.
fn answer_to(bytes: &[u8]) -> Option<Value> {
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => {
            tracing::debug!(%error, "a line that is not JSON was dropped");
            return Some(fault(None, -32700, &format!("the line is not JSON: {error}")));
        }
    };
    let id = value
        .get("id")
        .filter(|id| id.is_string() || id.is_i64() || id.is_u64());
    if value.get("method").is_some_and(Value::is_string) {
        value.get("id")?; // A notification.
        if id.is_some() && value.get("jsonrpc").is_some_and(|version| version == "2.0") {
            return Some(fault(id, -32602, "invalid params"));
        }
    }
    tracing::debug!("a line that is no JSON-RPC message was dropped");
    Some(fault(id, -32600, "the line is no JSON-RPC 2.0 message"))
}

fn fault(id: Option<&Value>, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// Moves a call's arguments to where tracing does not look, and drops parameters that nobody will read.
fn hide_arguments(mut message: RxJsonRpcMessage<RoleServer>) -> RxJsonRpcMessage<RoleServer> {
    match &mut message {
        JsonRpcMessage::Request(request) => match &mut request.request {
            ClientRequest::CallToolRequest(call) => {
                let arguments = call.params.arguments.take().unwrap_or_default();
                call.extensions.insert(HiddenArguments(Arc::new(arguments)));
            }
            // Also a call whose parameters do not fit.
            ClientRequest::CustomRequest(request) => request.params = None,
            _ => {}
        },
        JsonRpcMessage::Notification(notification) => {
            if let ClientNotification::CustomNotification(notification) = &mut notification.notification {
                notification.params = None;
            }
        }
        _ => {}
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &[u8]) -> Option<Value> {
        message(&Line::Whole(line)).expect_err("no message")
    }

    #[track_caller]
    fn check(line: &[u8], id: &Value, code: i32) {
        let answer = answer(line).expect("answered");
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (id, &json!(code)),
            "{}",
            String::from_utf8_lossy(line)
        );
    }

    #[test]
    fn what_is_no_message_is_answered_under_its_id_where_it_has_one() {
        check(b"this is not JSON", &Value::Null, -32700);
        check(
            b"{\"jsonrpc\": \"2.0\", \"id\": \"x\", \"method\"",
            &Value::Null,
            -32700,
        );
        check(b"\xff\xfe\x00", &Value::Null, -32700);
        check(b"[]", &Value::Null, -32600);
        check(b"5", &Value::Null, -32600);
        check(b"{}", &Value::Null, -32600);
        check(br#"{"jsonrpc":"2.0","id":7}"#, &json!(7), -32600);
        check(
            br#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#,
            &json!("a"),
            -32600,
        );
        check(
            br#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
            &Value::Null,
            -32600,
        );
    }

    #[test]
    fn a_notification_is_never_answered() {
        assert_eq!(answer(br#"{"method":"notifications/x","params":5}"#), None);
        assert_eq!(answer(b""), None);
        assert_eq!(answer(b" \r"), None);
    }

    #[test]
    fn a_line_that_is_too_long_is_answered() {
        let answer = message(&Line::TooLong { limit_bytes: 5 })
            .expect_err("too long")
            .expect("answered");
        assert_eq!(answer["error"]["code"], -32600);
    }

    #[test]
    fn arguments_of_a_call_are_seen_by_the_call_alone() {
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"env":{"A":"zz-top"}}}}"#;
        let message = hide_arguments(message(&Line::Whole(line)).expect("a message"));
        assert!(!format!("{message:?}").contains("zz-top"), "{message:?}");
        let JsonRpcMessage::Request(request) = message else {
            panic!("a request")
        };
        let ClientRequest::CallToolRequest(call) = request.request else {
            panic!("a call")
        };
        let hidden = call.extensions.get::<HiddenArguments>().expect("hidden");
        assert_eq!(
            Value::Object(hidden.0.as_ref().clone()),
            json!({ "env": { "A": "zz-top" } })
        );
    }

    #[test]
    fn parameters_that_nobody_reads_are_dropped() {
        for line in [
            &br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5,"arguments":{"A":"zz-top"}}}"#[..],
            br#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{"A":"zz-top"}}"#,
            br#"{"jsonrpc":"2.0","method":"notifications/no_such","params":{"A":"zz-top"}}"#,
        ] {
            let message = hide_arguments(message(&Line::Whole(line)).expect("a message"));
            assert!(!format!("{message:?}").contains("zz-top"), "{message:?}");
        }
    }
}
