//! Sessions on terminals.

use std::{
    process::{Child, Command},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use procession_core::{
    Field, Signal, Status, StreamId,
    outcome::StepEffect,
    spec::TerminalSize,
    terminal::{LineRules, MAX_LINE_BYTES, PendingLine, TerminalMode},
};
use procession_policy::Level;
use procession_process::{InputSink, OutputSource, ProcessPort, SpawnRequest, Spawned};

use super::support::{
    argv, bounded, exited, in_own_host, is_alive, output, port, read_some, read_to_end, spawn, until,
};

const SIZE: TerminalSize = TerminalSize { rows: 33, cols: 101 };
const QUIT: i32 = 3;
const USR1: i32 = 10;

fn on_terminal(mut request: SpawnRequest) -> SpawnRequest {
    request.terminal = Some(SIZE);
    request
}

fn sh(command: &str) -> SpawnRequest {
    on_terminal(argv(&["sh", "-c", command]))
}

/// A session on a terminal, read from as it goes.
struct OnTerminal {
    session: Spawned,
    seen: BytesMut,
}

impl OnTerminal {
    async fn start(port: &impl ProcessPort, request: SpawnRequest) -> Self {
        Self {
            session: spawn(port, request).await,
            seen: BytesMut::new(),
        }
    }

    fn output(&self) -> &dyn OutputSource {
        output(&self.session, StreamId::Stdout)
    }

    fn input(&self) -> &dyn InputSink {
        self.session.input.as_deref().expect("a terminal takes input")
    }

    /// Reads until the text is there, and forgets all up to its end.
    async fn expect(&mut self, text: &str) -> String {
        loop {
            let seen = String::from_utf8_lossy(&self.seen).into_owned();
            if let Some(at) = seen.find(text) {
                let _ = self.seen.split_to(at + text.len());
                return seen[..at].to_owned();
            }
            let mut more = std::mem::take(&mut self.seen);
            let read = read_some(self.output(), &mut more).await;
            self.seen = more;
            assert!(read > 0, "`{text}` did not come: {seen:?}");
        }
    }

    async fn write(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.input().try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    bounded("room", self.input().writable())
                        .await
                        .expect("a terminal that can be waited for");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Reads to the end, and tells the status.
    async fn end(self) -> (Status, String) {
        let (rest, (status, _)) = tokio::join!(read_to_end(self.output()), exited(&self.session));
        let mut all = self.seen.to_vec();
        all.extend(rest);
        self.session.leader.reap();
        (status, String::from_utf8_lossy(&all).into_owned())
    }
}

async fn run(port: &impl ProcessPort, request: SpawnRequest) -> (Status, String) {
    OnTerminal::start(port, request).await.end().await
}

/// Keeps both processors busy, with a low priority.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Self {
        let burn = || {
            let mut nice = Command::new("nice");
            nice.args(["-n", "19", "sh", "-c", "while :; do :; done"]);
            nice.spawn().expect("a burner")
        };
        Self((0..2).map(|_| burn()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for burner in &mut self.0 {
            let _ = burner.kill();
            let _ = burner.wait();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tail_of_a_fast_command_is_never_lost() {
    let port = port();
    let _load = Load::start();
    for round in 0..200 {
        let session = spawn(&port, sh("printf '%065536d' 0")).await;
        let source = output(&session, StreamId::Stdout);
        let mut all = BytesMut::new();
        // As long as the leader runs: what comes. At its exit: what is there without a wait, to the end.
        while session.leader.peek().is_none() {
            tokio::select! {
                read = read_some(source, &mut all) => assert!(read > 0, "the end comes with the exit"),
                exit = session.leader.exited() => exit.unwrap(),
            }
        }
        loop {
            all.reserve(64 * 1024);
            match source.try_read(&mut all) {
                Ok(0) => break,
                Ok(_) => {}
                // A process that another test starts at this moment has a copy of the child's end until its program runs.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("round {round}: {error} after {} bytes", all.len()),
            }
        }
        assert_eq!(all.len(), 65536, "round {round}");
        assert!(all.iter().all(|byte| *byte == b'0'), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_terminal_is_no_error_and_stays_the_end() {
    let mut session = OnTerminal::start(&port(), sh("echo x; exit 4")).await;
    session.expect("x\r\n").await;
    assert_eq!(exited(&session.session).await.0, Status::Exited { code: 4 });
    for _ in 0..3 {
        assert_eq!(read_to_end(session.output()).await, b"");
    }
    let written = session.input().try_write(b"a").unwrap_err();
    assert_eq!(written.kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(session.output().waiting_bytes(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_is_the_controlling_one_and_the_only_descriptors() {
    let port = port();
    let (status, shown) = run(
        &port,
        sh("tty; echo via >/dev/tty; ps -o sid=,tpgid=,pid= $$; exec ls /proc/self/fd"),
    )
    .await;
    assert_eq!(status, Status::Exited { code: 0 });
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("/dev/pts/"), "{shown:?}");
    assert_eq!(lines[1], "via");
    let numbers: Vec<_> = lines[2].split_whitespace().collect();
    assert!(
        numbers.len() == 3 && numbers.iter().all(|number| *number == numbers[0]),
        "{shown:?}"
    );
    let descriptors = lines[3..].join(" ");
    assert_eq!(
        descriptors.split_whitespace().collect::<Vec<_>>(),
        ["0", "1", "2", "3"]
    );
    // On pipes there is none, whatever the host has.
    let piped = spawn(
        &port,
        argv(&["sh", "-c", "(exec 3</dev/tty) 2>/dev/null; echo $?"]),
    )
    .await;
    let shown = read_to_end(output(&piped, StreamId::Stdout)).await;
    assert_ne!(shown, b"0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_is_there_from_the_first_instruction() {
    let port = port();
    let _load = Load::start();
    for _ in 0..50 {
        let (_, shown) = run(&port, on_terminal(argv(&["stty", "size"]))).await;
        assert_eq!(shown, "33 101\r\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_size_reaches_the_foreground() {
    let command = "trap 'stty size' WINCH; echo set; while :; do sleep 0.05; done";
    let mut session = OnTerminal::start(&port(), sh(command)).await;
    session.expect("set\r\n").await;
    let size = TerminalSize { rows: 40, cols: 132 };
    session.session.tree.resize(size).unwrap();
    session.expect("40 132\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_nobody_has_open_can_be_opened_again() {
    let command = "exec </dev/null >/dev/null 2>&1; sleep 0.3; echo late >/dev/tty; sleep 0.1; exit 3";
    let started = Instant::now();
    let (status, shown) = run(&port(), sh(command)).await;
    assert_eq!((status, shown.as_str()), (Status::Exited { code: 3 }, "late\r\n"));
    assert!(started.elapsed() >= Duration::from_millis(400));
}

#[tokio::test(flavor = "multi_thread")]
async fn output_goes_on_behind_the_leaders_exit() {
    let mut session = OnTerminal::start(&port(), sh("trap '' HUP; (sleep 0.3; echo late) & exit 0")).await;
    exited(&session.session).await;
    session.expect("late\r\n").await;
    assert_eq!(read_to_end(session.output()).await, b"");
}

/// Types, ends the file as often as is said to be needed, and tells what two readers got.
async fn two_readers(port: &impl ProcessPort, typed: &[u8]) -> (String, String) {
    let command = "stty -echo; echo rdy; wc -c; echo next; read -r x; echo \"<$x>\"";
    let mut session = OnTerminal::start(port, sh(command)).await;
    session.expect("rdy\r\n").await;
    let Some(TerminalMode::Lines(rules)) = session.input().terminal() else {
        panic!("a terminal in lines");
    };
    let mut line = PendingLine::default();
    line.follow(typed, &rules);
    session.write(typed).await;
    let end = rules.end_of_file().expect("an end of file");
    session.write(&vec![end; line.ends_of_file_needed()]).await;
    session.write(b"more\n").await;
    let first = session.expect("next\r\n").await;
    let (_, second) = session.end().await;
    (first.trim().to_owned(), second)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_file_is_seen_once_wherever_the_line_is() {
    let port = port();
    for (typed, expected_bytes) in [
        (&b""[..], "0"),
        (b"a\n", "2"),
        (b"abc", "3"),
        (b"a\nbc", "4"),
        (b"abc\x04", "3"),
        (b"abc\x7f", "2"),
        (b"abc\x7f\x7f\x7f\x7f", "0"),
        ("aä\u{7f}".as_bytes(), "1"),
        ("ä\u{7f}".as_bytes(), "0"),
        (b"ab cd\x17", "3"),
        (b"ab, \x17", "0"),
        (b"abc\x15", "0"),
        (b"abc\r", "4"),
        (b"ab\x16", "3"),
        (b"\x16\x04", "1"),
        (b"\x16\n", "1"),
        (b"\x13\x11", "0"),
    ] {
        let (first, second) = two_readers(&port, typed).await;
        assert_eq!(
            (first.as_str(), second.as_str()),
            (expected_bytes, "<more>\r\n"),
            "{typed:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_line_is_what_the_core_says() {
    let port = port();
    let most = usize::try_from(MAX_LINE_BYTES).unwrap();
    for (bytes, arrive) in [(most, most), (most + 1, most), (10_000, most)] {
        let command = "stty -echo; echo rdy; head -n 1 | wc -c";
        let mut session = OnTerminal::start(&port, sh(command)).await;
        session.expect("rdy\r\n").await;
        let mut line = vec![b'x'; bytes];
        line.push(b'\n');
        session.write(&line).await;
        let (_, shown) = session.end().await;
        assert_eq!(shown, format!("{}\r\n", arrive + 1), "a line of {bytes} bytes");
    }
    // Many lines together are no long line, whoever reads them late.
    let command = "stty -echo; echo rdy; sleep 0.2; head -n 40 | wc -c";
    let mut session = OnTerminal::start(&port, sh(command)).await;
    session.expect("rdy\r\n").await;
    let mut line = vec![b'x'; 3000];
    line.push(b'\n');
    let (session, lines) = (&session, line.repeat(40));
    session.write(&lines).await;
    let (shown, _) = tokio::join!(read_to_end(session.output()), exited(&session.session));
    assert_eq!(String::from_utf8_lossy(&shown), "120040\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raw_terminal_takes_bytes_as_they_are_and_says_what_it_is() {
    let port = port();
    let command = "read -r _; stty raw -echo; echo rdy; head -c 3 | od -An -tx1";
    let mut session = OnTerminal::start(&port, sh(command)).await;
    assert_eq!(
        session.input().terminal(),
        Some(TerminalMode::Lines(LineRules::default()))
    );
    session.write(b"\n").await;
    session.expect("rdy\n").await;
    assert_eq!(session.input().terminal(), Some(TerminalMode::Raw));
    session.write(b"A\nB").await;
    let (_, shown) = session.end().await;
    assert_eq!(shown.trim(), "41 0a 42");
    // A pipe is no terminal.
    let mut request = argv(&["true"]);
    request.stdin = procession_core::spec::StdinMode::Piped;
    let piped = spawn(&port, request).await;
    assert_eq!(piped.input.unwrap().terminal(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_nobody_reads_takes_no_more_until_somebody_does() {
    let command = "stty raw -echo; echo rdy; read -r x </dev/null; kill -STOP $$; head -c 200000 | wc -c";
    let mut session = OnTerminal::start(&port(), sh(command)).await;
    session.expect("rdy\n").await;
    let block = [b'x'; 1000];
    let mut written = 0;
    let refused = loop {
        match session.input().try_write(&block) {
            Ok(bytes) => written += bytes,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    assert!((4096..65536).contains(&written), "{written} bytes");
    session.session.tree.signal_all(Signal::CONT);
    // It may be that the stop comes only now.
    let pid = session.session.pid;
    let rest = vec![b'x'; 200_000 - written];
    let cont = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if super::support::state(pid) == Some('T') {
                session.session.tree.signal_all(Signal::CONT);
            }
        }
    };
    tokio::select! {
        () = session.write(&rest) => {}
        () = cont => {}
    }
    let (_, shown) = session.end().await;
    assert_eq!(shown.trim(), "200000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_goes_to_the_foreground_and_to_nobody_else() {
    let port = port();
    for number in [Signal::INT.number(), QUIT, USR1] {
        let signal = Signal::from_number(number).unwrap();
        let job = format!("trap 'echo job; exit 5' {number}; echo rdy; while :; do sleep 0.05; done");
        let command = format!("set -m; trap 'echo shell' {number}; sh -c \"{job}\"; echo \"rc=$?\"");
        let mut session = OnTerminal::start(
            &port,
            on_terminal(argv(&["bash", "--noprofile", "--norc", "-c", &command])),
        )
        .await;
        session.expect("rdy\r\n").await;
        assert_eq!(
            session.session.tree.signal_foreground(signal),
            StepEffect::Delivered,
            "{signal}"
        );
        let (status, shown) = session.end().await;
        assert_eq!(status, Status::Exited { code: 0 }, "{signal}");
        // Shells tell of signals that others died of.
        assert!(
            shown.ends_with("job\r\nrc=5\r\n") && !shown.contains("shell"),
            "{signal}: {shown:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_goes_to_the_leader_where_it_is_in_the_foreground_itself() {
    let port = port();
    for number in [Signal::INT.number(), USR1] {
        let command = format!("trap 'echo got; exit 5' {number}; echo rdy; while :; do sleep 0.05; done");
        let mut session = OnTerminal::start(&port, sh(&command)).await;
        session.expect("rdy\r\n").await;
        let signal = Signal::from_number(number).unwrap();
        assert_eq!(
            session.session.tree.signal_foreground(signal),
            StepEffect::Delivered
        );
        let tree = std::sync::Arc::clone(&session.session.tree);
        let (status, shown) = session.end().await;
        assert_eq!(status, Status::Exited { code: 5 });
        assert!(shown.ends_with("got\r\n"), "{shown:?}");
        assert_eq!(tree.signal_foreground(signal), StepEffect::MetNobody, "reaped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_typed_to_interrupt_interrupts() {
    let command = "trap 'echo INT; exit 5' INT; echo rdy; while :; do sleep 0.05; done";
    let mut session = OnTerminal::start(&port(), sh(command)).await;
    session.expect("rdy\r\n").await;
    session.write(b"\x03").await;
    assert_eq!(
        session.end().await,
        (Status::Exited { code: 5 }, "^CINT\r\n".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tree_does_not_keep_the_terminal_and_its_close_hangs_up() {
    let mut session = OnTerminal::start(&port(), sh("echo rdy; sleep 60")).await;
    session.expect("rdy\r\n").await;
    let Spawned {
        pid,
        outputs,
        input,
        leader,
        tree,
        guard: _guard,
        ..
    } = session.session;
    drop(outputs);
    tree.resize(SIZE).unwrap();
    assert!(is_alive(pid));
    drop(input);
    let error = tree.resize(SIZE).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    bounded("the hang-up", leader.exited()).await.unwrap();
    assert_eq!(
        leader.peek().unwrap().0,
        Status::Signaled {
            signal: Signal::HUP,
            core_dumped: false
        }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_session_on_a_terminal_comes_to_its_end() {
    let mut session = OnTerminal::start(&port(), sh("trap '' HUP TERM; echo rdy; sleep 60 & wait")).await;
    session.expect("rdy\r\n").await;
    session.session.tree.kill();
    exited(&session.session).await;
    let swept = bounded("a sweep", session.session.tree.sweep()).await;
    assert_eq!(swept.alive, [0_u32; 0]);
    assert_eq!(read_to_end(session.output()).await, b"");
}

#[test]
fn nothing_of_a_terminal_is_left_open_and_no_sibling_has_it() {
    in_own_host(
        "terminal::nothing_of_a_terminal_is_left_open_and_no_sibling_has_it",
        "",
        || async {
            let terminals = || {
                let entries = std::fs::read_dir("/proc/self/fd").unwrap();
                let targets = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
                targets
                    .filter(|target| {
                        let target = target.to_string_lossy().into_owned();
                        target.contains("ptmx") || target.contains("/pts/")
                    })
                    .count()
            };
            let before = terminals();
            let port = port();
            let one = OnTerminal::start(&port, sh("sleep 60")).await;
            let (_, shown) = run(&port, sh("ls -l /proc/self/fd; tty")).await;
            let own = shown.lines().last().unwrap().to_owned();
            assert_eq!(shown.matches("/dev/pts/").count(), 4, "{shown}");
            assert_eq!(shown.matches(&own).count(), 4, "{shown}");
            assert!(!shown.contains("ptmx"), "{shown}");
            drop(one);
            assert!(port.spawn(on_terminal(argv(&["/nonexistent"]))).await.is_err());
            let vanished = port.spawn(sh("sleep 60"));
            drop(vanished);
            until("all terminals are closed", || terminals() == before).await;
        },
    );
}

#[test]
fn the_port_says_that_it_has_terminals() {
    let capabilities = port().capabilities();
    for field in [Field::Tty, Field::TerminalSize] {
        assert_eq!(capabilities.get(field).unwrap().level, Level::Native, "{field}");
    }
}
