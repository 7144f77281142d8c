use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Place, Running, text};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

fn serve(place: &Place) -> Running {
    let mut server = place.start(&["mcp"]);
    server.write(&format!("{INITIALIZE}\n"));
    assert!(answer(&mut server)["result"]["serverInfo"].is_object());
    server.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    server
}

fn answer(server: &mut Running) -> Value {
    serde_json::from_str(&server.line()).expect("a line of JSON")
}

fn call(server: &mut Running, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    server.write(&format!("{request}\n"));
    answer(server)["result"]["structuredContent"].clone()
}

#[test]
fn a_server_ends_with_its_input() {
    let place = Place::new();
    let mut server = serve(&place);
    server.close_input();
    assert_eq!(server.code(), Some(0));
}

#[test]
fn a_signal_is_like_the_end_of_the_input() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let server = &mut serve(&place);
        let started = call(
            server,
            "session_start",
            &json!({ "command": "sleep 60", "background": true }),
        );
        assert_eq!(started["phase"], "running", "{started}");
        server.signal(signal);
        assert_eq!(server.code(), Some(0), "{signal:?}");
    }
}

#[test]
fn sessions_start_in_the_folder_of_the_server_with_the_preset_for_agents() {
    let place = Place::new();
    let mut server = serve(&place);
    let ended = call(
        &mut server,
        "session_start",
        &json!({ "command": "pwd; echo $PAGER" }),
    );
    let here = place.path("").canonicalize().expect("it is there");
    assert_eq!(ended["stdout"], format!("{}\ncat\n", here.display()), "{ended}");
    let log = ended["log"]["path"].as_str().expect("a path");
    assert!(log.starts_with(place.state().to_str().expect("text")), "{log}");
}

#[test]
fn two_roots_are_refused() {
    let place = Place::new();
    place.configure("[ceilings]\ncwd_root = \"/\"\n");
    let output = place.run(&["mcp", "--root", "."]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("--root"));
    assert_eq!(
        Place::new().run(&["mcp", "--root", "/nonexistent"]).status.code(),
        Some(125)
    );
}
