use procession_actors::{
    RegistryMessage, SessionMessage,
    error::{CallError, SearchLogError},
    report::{LogMatch, LogMatches, LogPattern, LogSearch, LogSummary, PollReport},
};
use procession_core::{
    Phase, SessionId, StreamId,
    admission::{LimitName, LimitReached, RetryWhen, Scope},
    text::ReadPosition,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::oneshot,
    task::JoinHandle,
};

use super::*;

/// A session whose polls are answered at once.
const READY: &str = "ps_0000000000000001";
/// A session whose polls are never answered.
const SILENT: &str = "ps_0000000000000002";

/// Plays a registry.
#[derive(Debug)]
struct Registry;

impl Actor for Registry {
    type Msg = RegistryMessage;
    /// Questions that are not answered while the registry lives.
    type State = Vec<SessionMessage>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _: ActorRef<RegistryMessage>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(Vec::new())
    }

    async fn handle(
        &self,
        _: ActorRef<RegistryMessage>,
        message: RegistryMessage,
        parked: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RegistryMessage::Start { reply, .. } => reply.send(Err(reached().into()))?,
            RegistryMessage::List { reply, .. } => reply.send(Ok(Vec::new()))?,
            RegistryMessage::Forward { session, request, .. } => {
                match (session.to_string().as_str(), request) {
                    (SILENT, request) => parked.push(request),
                    (READY, SessionMessage::Poll { reply, .. }) => reply.send(Ok(poll_report(session)))?,
                    (_, request) => request.refuse(CallError::NotFound),
                }
            }
            RegistryMessage::SearchLog { search, reply, .. } => reply.send(searched(&search))?,
            _ => {}
        }
        Ok(())
    }
}

fn reached() -> LimitReached {
    LimitReached {
        limit: LimitName::MaxSessions,
        scope: Scope::Host,
        configured: 1,
        in_use: 1,
        requested: 1,
        retry_when: RetryWhen::SessionEnds,
    }
}

/// Finds every text, and takes no expression.
fn searched(search: &LogSearch) -> Result<LogMatches, SearchLogError> {
    let LogPattern::Literal(text) = &search.pattern else {
        return Err(SearchLogError::BadPattern {
            reason: "unclosed group".to_owned(),
        });
    };
    Ok(LogMatches {
        matches: vec![LogMatch {
            offset: search.from_offset,
            stream: StreamId::Stdout,
            range: 0..text.len(),
            text: text.clone().into(),
        }],
        next_offset: search.max_matches,
        at_end: false,
    })
}

fn poll_report(session: SessionId) -> PollReport {
    PollReport {
        session,
        phase: Phase::Running,
        pid: Some(5),
        outcome: None,
        residual_pids: Vec::new(),
        stdout: "a\u{2028}b\n".to_owned(),
        stderr: String::new(),
        cursor: ReadPosition::START,
        omitted: Vec::new(),
        screen: None,
        log: LogSummary::default(),
    }
}

/// A client on the other side of a server.
#[derive(Debug)]
struct Peer {
    output: WriteHalf<DuplexStream>,
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<Result<ShutdownReport, ServeError>>,
    registry: ActorRef<RegistryMessage>,
}

impl Peer {
    async fn new(options: ServeOptions, pipe_bytes: usize) -> Self {
        let (registry, _) = Actor::spawn(None, Registry, ()).await.expect("starts");
        let client = Client::new(registry.clone(), Owner::new("p", "a", "s"));
        let (here, there) = tokio::io::duplex(pipe_bytes);
        let (input, output) = tokio::io::split(there);
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(async move {
            let stop = async {
                // A sender that is dropped asks for nothing.
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            serve_client(client, &options, input, output, stop, async {
                ShutdownReport::default()
            })
            .await
        });
        let (input, output) = tokio::io::split(here);
        Self {
            output,
            input: BufReader::new(input).lines(),
            stop: Some(stop),
            server,
            registry,
        }
    }

    async fn connected() -> Self {
        let mut peer = Self::new(ServeOptions::default(), 1 << 20).await;
        let answer = peer
            .ask(json!({
                "id": 0, "method": "initialize", "params": {
                    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
                },
            }))
            .await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        assert_eq!(answer["result"]["serverInfo"]["name"], "procession");
        peer.send(json!({ "method": "notifications/initialized" })).await;
        peer
    }

    async fn line(&mut self, line: &[u8]) {
        self.output.write_all(line).await.expect("open");
        self.output.write_all(b"\n").await.expect("open");
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        self.line(message.to_string().as_bytes()).await;
    }

    async fn receive(&mut self) -> Value {
        let line = self.input.next_line().await.expect("open").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    async fn ask(&mut self, message: Value) -> Value {
        let id = message["id"].clone();
        self.send(message).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn call(&mut self, id: i64, tool: &str, arguments: Value) {
        self.send(
            json!({ "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments } }),
        )
        .await;
    }

    async fn answer(&mut self, id: i64, tool: &str, arguments: Value) -> Value {
        self.call(id, tool, arguments).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }
}

#[tokio::test]
async fn nothing_that_comes_in_ends_the_server() {
    let mut peer = Peer::new(
        ServeOptions {
            max_line_bytes: 500,
            ..ServeOptions::default()
        },
        1 << 20,
    )
    .await;
    for (line, id, code) in [
        (&b"this is not JSON"[..], Value::Null, -32700),
        (b"\xff\xfe\x00", Value::Null, -32700),
        (b"[1]", Value::Null, -32600),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"no/such/method","params":{}}"#,
            json!(1),
            -32601,
        ),
        (
            br#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":[]}}"#,
            json!(2),
            -32602,
        ),
        (
            br#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"no_such_tool"}}"#,
            json!(3),
            -32602,
        ),
        (
            br#"{"jsonrpc":"2.0","id":4,"method":"initialize","params":{}}"#,
            json!(4),
            -32602,
        ),
        (&[b'x'; 501], Value::Null, -32600),
    ] {
        peer.line(line).await;
        let answer = peer.receive().await;
        let shown = String::from_utf8_lossy(line).into_owned();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(code)),
            "{shown}: {answer}"
        );
    }
    for line in [
        &br#"{"jsonrpc":"2.0","method":"notifications/no_such"}"#[..],
        b"",
        br#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
    ] {
        peer.line(line).await;
    }
    assert_eq!(
        peer.ask(json!({ "id": "p", "method": "ping" })).await["result"],
        json!({})
    );
}

#[tokio::test]
async fn tools_are_listed_with_schema_and_hints() {
    let mut peer = Peer::connected().await;
    let answer = peer.ask(json!({ "id": 1, "method": "tools/list" })).await;
    let tools = answer["result"]["tools"].as_array().expect("tools").clone();
    assert_eq!(tools.len(), 12);
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
    }
}

#[tokio::test]
async fn an_answer_is_structured_and_the_same_as_text() {
    let mut peer = Peer::connected().await;
    let answer = peer
        .answer(
            1,
            "session_poll",
            json!({ "session_id": READY, "yield_time_ms": 99_000 }),
        )
        .await;
    let content = &answer["result"]["structuredContent"];
    assert_eq!(answer["result"]["isError"], false);
    assert_eq!(
        (&content["phase"], &content["stdout"]),
        (&json!("running"), &json!("a\u{2028}b\n"))
    );
    assert_eq!(content["policy"][0]["effective"], 30_000);
    let text = answer["result"]["content"][0]["text"].as_str().expect("text");
    assert_eq!(&serde_json::from_str::<Value>(text).expect("JSON"), content);
}

#[tokio::test]
async fn a_call_that_cannot_be_done_is_an_error_with_code_and_numbers() {
    let mut peer = Peer::connected().await;
    for (tool, arguments, expected) in [
        (
            "session_start",
            json!({ "command": "x" }),
            json!({ "code": "limit_reached", "limit": "max_sessions", "in_use": 1 }),
        ),
        (
            "session_start",
            json!({}),
            json!({ "code": "invalid_argument", "field": "command" }),
        ),
        (
            "session_poll",
            json!({ "session_id": "ps_0000000000000003" }),
            json!({ "code": "not_found" }),
        ),
        (
            "session_poll",
            json!({ "session_id": "17" }),
            json!({ "code": "not_found" }),
        ),
        (
            "session_search_log",
            json!({ "session_id": READY, "pattern": "(", "regex": true }),
            json!({ "code": "invalid_argument", "field": "pattern", "message": "invalid `pattern`: unclosed group" }),
        ),
    ] {
        let answer = peer.answer(1, tool, arguments).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let error = &answer["result"]["structuredContent"]["error"];
        for (key, value) in expected.as_object().expect("an object") {
            assert_eq!(&error[key], value, "{key}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_search_tells_its_matches_and_what_was_clamped() {
    let mut peer = Peer::connected().await;
    let arguments = json!({ "session_id": READY, "pattern": "x", "from_offset": 3, "max_matches": 5000 });
    let answer = peer.answer(1, "session_search_log", arguments).await;
    let content = &answer["result"]["structuredContent"];
    assert_eq!(
        content["matches"],
        json!([{ "offset": 3, "stream": "stdout", "text": "x" }])
    );
    assert_eq!(
        (&content["next_offset"], &content["at_end"]),
        (&json!(1000), &json!(false))
    );
    assert_eq!(content["policy"][0]["field"], "max_matches");
}

#[tokio::test]
async fn a_long_poll_delays_nothing_and_a_cancelled_one_is_never_answered() {
    let mut peer = Peer::connected().await;
    peer.call(1, "session_poll", json!({ "session_id": SILENT }))
        .await;
    peer.call(2, "session_poll", json!({ "session_id": SILENT }))
        .await;
    let answer = peer.answer(3, "session_list", json!({})).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "sessions": [] }));
    for id in [json!(1), json!(1), json!(999), json!("nobody")] {
        peer.send(json!({ "method": "notifications/cancelled", "params": { "requestId": id } }))
            .await;
    }
    peer.answer(4, "session_list", json!({})).await;
    // The registry's end drops both questions: the one that was not cancelled is answered, the other is not.
    peer.registry.stop(None);
    let answer = peer.receive().await;
    assert_eq!(answer["id"], 2);
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(
        peer.ask(json!({ "id": 5, "method": "ping" })).await["result"],
        json!({})
    );
}

#[tokio::test]
async fn calls_beyond_the_bound_are_refused() {
    let mut peer = Peer::new(
        ServeOptions {
            max_calls: 1,
            ..ServeOptions::default()
        },
        1 << 20,
    )
    .await;
    peer.call(1, "session_poll", json!({ "session_id": SILENT }))
        .await;
    let answer = peer.answer(2, "session_list", json!({})).await;
    let error = &answer["result"]["structuredContent"]["error"];
    assert_eq!(
        (&error["code"], &error["limit"], &error["configured"]),
        (&json!("limit_reached"), &json!("calls"), &json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_input_ends_the_server_whatever_is_under_way() {
    // A pipe that holds no whole answer, and a client that reads none.
    let mut peer = Peer::new(ServeOptions::default(), 100).await;
    peer.call(1, "session_poll", json!({ "session_id": SILENT }))
        .await;
    peer.call(2, "session_poll", json!({ "session_id": READY })).await;
    let begin = tokio::time::Instant::now();
    peer.output.shutdown().await.expect("open");
    assert_eq!(
        peer.server.await.expect("no panic").expect("in order"),
        ShutdownReport::default()
    );
    assert!(
        begin.elapsed() <= Duration::from_millis(500),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn a_stop_ends_the_server_while_the_input_is_open() {
    let mut peer = Peer::connected().await;
    peer.stop.take().expect("there").send(()).expect("waited for");
    assert!(peer.server.await.expect("no panic").is_ok());
    assert_eq!(peer.input.next_line().await.expect("closed"), None);
}
