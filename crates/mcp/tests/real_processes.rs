//! A server over real processes, in this process.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::sync::Arc;

use procession_actors::{System, report::ShutdownReport};
use procession_core::Owner;
use procession_mcp::{ServeError, ServeOptions, serve};
use procession_process::UnixPort;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
};

struct Peer {
    output: WriteHalf<DuplexStream>,
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinHandle<Result<ShutdownReport, ServeError>>,
    calls: u64,
}

impl Peer {
    async fn new() -> Self {
        let port = UnixPort::start().expect("a port");
        let system = System::builder(Arc::new(port)).start().await.expect("a system");
        let (here, there) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(there);
        let owner = Owner::new("p", "a", "s");
        let server = tokio::spawn(serve(
            system,
            owner,
            ServeOptions::default(),
            input,
            output,
            std::future::pending(),
        ));
        let (input, output) = tokio::io::split(here);
        Self {
            output,
            input: BufReader::new(input).lines(),
            server,
            calls: 0,
        }
    }

    /// The structured content of one call's answer.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.calls += 1;
        let request = json!({
            "jsonrpc": "2.0", "id": self.calls, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments },
        });
        self.output
            .write_all(format!("{request}\n").as_bytes())
            .await
            .expect("open");
        let line = self.input.next_line().await.expect("open").expect("a line");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["id"], self.calls, "{answer}");
        answer["result"]["structuredContent"].clone()
    }
}

#[tokio::test]
async fn a_command_is_told_with_output_status_log_and_limits() {
    let mut peer = Peer::new().await;
    let started = json!({ "command": "printf 'a\\303'; printf b >&2; exit 3", "timeout_ms": 20_000 });
    let ended = peer.call("session_start", started).await;
    assert_eq!(ended["phase"], "ended", "{ended}");
    assert_eq!(ended["outcome"]["status"], json!({ "kind": "exited", "code": 3 }));
    assert_eq!(
        (&ended["stdout"], &ended["stderr"]),
        (&json!("a\u{fffd}"), &json!("b"))
    );
    assert_eq!(ended["log"]["total_bytes"], 3);
    let policy = ended["policy"].as_array().expect("a list");
    let wall = policy
        .iter()
        .find(|entry| entry["field"] == "wall_time_ms")
        .expect("told");
    assert_eq!(
        (&wall["requested"], &wall["effective"]),
        (&json!(20_000), &json!(20_000))
    );

    let session = json!({ "session_id": ended["session_id"] });
    let inspected = peer.call("session_inspect", session.clone()).await;
    assert_eq!(inspected["outcome"], ended["outcome"]);
    assert!(
        inspected["receipt"].is_object() && inspected["decisions"].is_array(),
        "{inspected}"
    );
    let mut only_stdout = session;
    only_stdout["stream"] = "stdout".into();
    let page = peer.call("session_read_log", only_stdout).await;
    let text: String = page["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .filter_map(|run| run["text"].as_str())
        .collect();
    assert_eq!(
        (text.as_str(), &page["at_end"]),
        ("a\u{fffd}", &json!(true)),
        "{page}"
    );
}

#[tokio::test]
async fn input_goes_in_and_a_stop_ends_it() {
    let mut peer = Peer::new().await;
    let started = peer
        .call(
            "session_start",
            json!({ "argv": ["cat"], "stdin": true, "background": true }),
        )
        .await;
    let id = started["session_id"].clone();
    assert_eq!(started["phase"], "running", "{started}");
    let written = peer
        .call(
            "session_write",
            json!({ "session_id": id, "input": "hello\n", "yield_time_ms": 10_000 }),
        )
        .await;
    assert_eq!(
        (&written["accepted_bytes"], &written["stdout"]),
        (&json!(6), &json!("hello\n"))
    );
    let resized = peer
        .call(
            "session_resize",
            json!({ "session_id": id, "rows": 5, "cols": 6 }),
        )
        .await;
    assert_eq!(resized["error"]["code"], "no_terminal");
    let stopped = peer.call("session_stop", json!({ "session_id": id })).await;
    assert_eq!(
        (&stopped["phase"], &stopped["outcome"]["cause"]),
        (&json!("ended"), &json!("stop")),
        "{stopped}"
    );
    let refused = peer
        .call("session_write", json!({ "session_id": id, "input": "x" }))
        .await;
    assert_eq!(refused["error"]["code"], "session_ended");
    assert_eq!(refused["error"]["outcome"], stopped["outcome"]);
    let listed = peer.call("session_list", json!({})).await;
    assert_eq!(listed["sessions"][0]["session_id"], id);
}

#[tokio::test]
async fn several_sessions_are_waited_for_at_once() {
    let mut peer = Peer::new().await;
    let mut ids = Vec::new();
    for command in ["exit 0", "exec sleep 60"] {
        ids.push(
            peer.call("session_start", json!({ "command": command, "yield_time_ms": 0 }))
                .await["session_id"]
                .clone(),
        );
    }
    let any = peer
        .call(
            "session_wait",
            json!({ "sessions": ids, "until": ["exited"], "timeout_ms": 20_000 }),
        )
        .await;
    assert_eq!(any["timed_out"], false, "{any}");
    assert_eq!(
        (&any["fired"][0]["session_id"], &any["fired"][0]["condition"]),
        (&ids[0], &json!("exited"))
    );
    let all = peer
        .call(
            "session_wait",
            json!({ "sessions": ids, "mode": "all", "timeout_ms": 0 }),
        )
        .await;
    assert_eq!(all["timed_out"], true, "{all}");
}

#[tokio::test]
async fn the_end_of_the_input_ends_every_session() {
    let mut peer = Peer::new().await;
    peer.call(
        "session_start",
        json!({ "command": "exec sleep 60", "yield_time_ms": 0 }),
    )
    .await;
    peer.output.shutdown().await.expect("open");
    let report = peer.server.await.expect("no panic").expect("in order");
    assert_eq!(
        report,
        ShutdownReport {
            ended: 1,
            left: Vec::new()
        }
    );
}

impl Peer {
    /// Starts a command on a terminal and waits for its first line to be `rdy`.
    async fn on_terminal(&mut self, command: &str) -> Value {
        let arguments = json!({ "command": command, "tty": { "rows": 24, "cols": 80 }, "yield_time_ms": 0, "timeout_ms": 20_000 });
        let started = self.call("session_start", arguments).await;
        let id = started["session_id"].clone();
        let mut shown = started["stdout"].as_str().expect("text").to_owned();
        while !shown.contains("rdy") {
            let polled = self.call("session_poll", json!({ "session_id": id })).await;
            assert_eq!(polled["phase"], "running", "{polled}");
            shown.push_str(polled["stdout"].as_str().expect("text"));
        }
        id
    }

    /// Waits for the end, and tells what came until then.
    async fn end(&mut self, id: &Value) -> (Value, String) {
        let mut shown = String::new();
        loop {
            let polled = self.call("session_poll", json!({ "session_id": id })).await;
            shown.push_str(polled["stdout"].as_str().expect("text"));
            if polled["phase"] == "ended" {
                return (polled["outcome"].clone(), shown);
            }
        }
    }
}

#[tokio::test]
async fn a_program_on_a_terminal_sees_the_end_of_its_input() {
    let mut peer = Peer::new().await;
    let id = peer
        .on_terminal("stty -echo; echo rdy; wc -c; read -r x; echo \"<$x>\"")
        .await;
    let part = json!({ "session_id": id, "input": "no line end", "yield_time_ms": 0 });
    assert_eq!(peer.call("session_write", part).await["accepted_bytes"], 11);
    for _ in 0..2 {
        let closed = peer
            .call("session_close_stdin", json!({ "session_id": id }))
            .await;
        assert_eq!(closed["stdin"], "closed", "{closed}");
    }
    let next = json!({ "session_id": id, "input": "next\n", "yield_time_ms": 0, "max_output_bytes": 128 });
    let written = peer.call("session_write", next).await;
    let (outcome, shown) = peer.end(&id).await;
    let shown = format!("{}{shown}", written["stdout"].as_str().expect("text"));
    assert_eq!(
        outcome["status"],
        json!({ "kind": "exited", "code": 0 }),
        "{outcome}"
    );
    assert_eq!(outcome["output_complete"], true, "{outcome}");
    assert_eq!(shown, "11\r\n<next>\r\n");
}

#[tokio::test]
async fn what_a_terminal_cannot_take_is_refused_with_a_code() {
    let mut peer = Peer::new().await;
    let id = peer
        .on_terminal("echo rdy; read -r x; stty raw -echo; echo raw; exec cat")
        .await;
    let long = json!({ "session_id": id, "input": "x".repeat(5000) });
    let refused = peer.call("session_write", long.clone()).await;
    let told =
        ["code", "bytes", "limit_bytes", "accepted_bytes", "field"].map(|key| refused["error"][key].clone());
    assert_eq!(
        told,
        [
            json!("line_too_long"),
            json!(5000),
            json!(4095),
            json!(0),
            json!("input")
        ],
        "{refused}"
    );
    let line = json!({ "session_id": id, "input": "\n", "yield_time_ms": 0, "max_output_bytes": 128 });
    let mut shown = peer.call("session_write", line).await["stdout"].to_string();
    while !shown.contains("raw") {
        let polled = peer.call("session_poll", json!({ "session_id": id })).await;
        shown.push_str(polled["stdout"].as_str().expect("text"));
    }
    let refused = peer
        .call("session_close_stdin", json!({ "session_id": id }))
        .await;
    assert_eq!(refused["error"]["code"], "terminal_raw", "{refused}");
    assert_eq!(peer.call("session_write", long).await["accepted_bytes"], 5000);
}

#[tokio::test]
async fn a_terminal_takes_another_size_and_a_pipe_none() {
    let mut peer = Peer::new().await;
    let command = "trap 'stty size; exit 0' WINCH; echo rdy; while :; do sleep 0.05; done";
    let id = peer.on_terminal(command).await;
    let size = json!({ "session_id": id, "rows": 40, "cols": 132 });
    assert_eq!(peer.call("session_resize", size).await["rows"], 40);
    assert_eq!(peer.end(&id).await.1, "40 132\r\n");
    let piped = peer
        .call(
            "session_start",
            json!({ "command": "exec sleep 60", "yield_time_ms": 0 }),
        )
        .await;
    let size = json!({ "session_id": piped["session_id"], "rows": 40, "cols": 132 });
    assert_eq!(
        peer.call("session_resize", size).await["error"]["code"],
        "no_terminal"
    );
}
