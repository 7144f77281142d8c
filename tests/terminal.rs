//! Input on a terminal: the end of file is typed, lines that would be cut are refused, signals go to the foreground.
#![cfg(test)]

use std::time::Duration;

use procession_actors::{
    error::{CloseStdinError, ResizeError, SignalError, WriteError},
    report::{WriteEnd, WriteRequest, Written},
};
use procession_core::{
    SessionSpec, Signal,
    spec::{Terminal, TerminalSize},
    terminal::{LineRules, TerminalMode},
};
use procession_testkit::{Harness, HarnessSession, Target, fixture};
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);
const SIZE: TerminalSize = TerminalSize { rows: 24, cols: 80 };

fn on_terminal() -> SessionSpec {
    SessionSpec {
        terminal: Some(Terminal {
            size: Some(SIZE),
            term: None,
        }),
        ..fixture::spec()
    }
}

async fn start() -> (Harness, HarnessSession) {
    let harness = Harness::start().await;
    let session = harness.start_session(on_terminal()).await;
    (harness, session)
}

async fn write(session: &HarnessSession, input: &str) -> Result<Written, WriteError> {
    session
        .client
        .write(session.id, fixture::write(input.to_owned(), SECOND))
        .await
}

async fn close_stdin(session: &HarnessSession) -> Result<(), CloseStdinError> {
    session.client.close_stdin(session.id).await
}

fn spawn_write(session: &HarnessSession, request: WriteRequest) -> JoinHandle<Result<Written, WriteError>> {
    let session = session.clone();
    tokio::spawn(async move { session.client.write(session.id, request).await })
}

fn spawn_close(session: &HarnessSession) -> JoinHandle<Result<(), CloseStdinError>> {
    let session = session.clone();
    tokio::spawn(async move { session.client.close_stdin(session.id).await })
}

const fn complete(accepted_bytes: u64) -> Written {
    Written {
        accepted_bytes,
        end: WriteEnd::Complete,
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminal_takes_input_although_none_was_asked_for() {
    let (_harness, session) = start().await;
    let process = &session.process;
    assert_eq!(process.request().terminal, Some(SIZE));
    assert_eq!(write(&session, "a\r\n\x03").await, Ok(complete(4)));
    assert_eq!(process.input(), b"a\r\n\x03");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_file_is_typed_so_that_a_program_sees_it() {
    for (written, expected) in [
        ("", "\x04"),
        ("a\n", "a\n\x04"),
        ("a", "a\x04\x04"),
        ("a\x7f", "a\x7f\x04"),
    ] {
        let (_harness, session) = start().await;
        let process = &session.process;
        if !written.is_empty() {
            write(&session, written).await.unwrap();
        }
        assert_eq!(close_stdin(&session).await, Ok(()));
        assert_eq!(process.input(), expected.as_bytes(), "{written:?}");
        assert!(!process.is_input_closed(), "the terminal stays");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_end_of_file_is_typed_only_behind_something_else() {
    let (_harness, session) = start().await;
    let process = &session.process;
    for _ in 0..3 {
        assert_eq!(close_stdin(&session).await, Ok(()));
    }
    assert_eq!(process.input(), b"\x04");
    assert_eq!(write(&session, "for the next\n").await, Ok(complete(13)));
    for _ in 0..3 {
        assert_eq!(close_stdin(&session).await, Ok(()));
    }
    assert_eq!(process.input(), b"\x04for the next\n\x04");
}

#[tokio::test(start_paused = true)]
async fn a_raw_terminal_has_no_end_of_file() {
    let (_harness, session) = start().await;
    let process = &session.process;
    for mode in [TerminalMode::Raw, TerminalMode::Lines(LineRules::none())] {
        process.set_terminal_mode(mode);
        assert_eq!(close_stdin(&session).await, Err(CloseStdinError::TerminalRaw));
    }
    assert_eq!(process.input(), b"");
    // Nothing has changed by it.
    assert_eq!(write(&session, "x").await, Ok(complete(1)));
    process.set_terminal_mode(TerminalMode::Lines(LineRules::default()));
    assert_eq!(close_stdin(&session).await, Ok(()));
    assert_eq!(process.input(), b"x\x04\x04");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_file_comes_behind_what_was_accepted() {
    let (harness, session) = start().await;
    let process = &session.process;
    process.limit_input(4);
    let waits = spawn_write(&session, fixture::write("abcdefgh", SECOND * 60));
    harness.settle().await;
    let closes = spawn_close(&session);
    let mut read = Vec::new();
    while !closes.is_finished() {
        harness.settle().await;
        read.extend(process.take_input());
    }
    assert_eq!(waits.await.unwrap(), Ok(complete(8)));
    assert_eq!(closes.await.unwrap(), Ok(()));
    assert_eq!(read, b"abcdefgh\x04\x04");
}

#[tokio::test(start_paused = true)]
async fn an_end_of_file_waits_for_room_and_nobody_else_does() {
    let (harness, session) = start().await;
    let process = &session.process;
    process.limit_input(3);
    assert_eq!(write(&session, "ab").await, Ok(complete(2)));
    // Of the two that are needed one has room.
    let closes = spawn_close(&session);
    harness.settle().await;
    assert!(!closes.is_finished());
    assert_eq!(
        write(&session, "x").await,
        Err(WriteError::StdinClosed { accepted_bytes: 0 })
    );
    assert_eq!(process.take_input(), b"ab\x04");
    assert_eq!(closes.await.unwrap(), Ok(()));
    assert_eq!(process.take_input(), b"\x04");
    assert_eq!(write(&session, "x").await, Ok(complete(1)));
}

#[tokio::test(start_paused = true)]
async fn a_line_that_the_terminal_would_cut_is_refused_before_anything_is_written() {
    let (_harness, session) = start().await;
    let process = &session.process;
    let too_long = |bytes| {
        Err(WriteError::LineTooLong {
            bytes,
            limit_bytes: 4095,
        })
    };
    let line = "x".repeat(4095);
    assert_eq!(write(&session, &line).await, Ok(complete(4095)));
    // With what is there of the line already.
    assert_eq!(write(&session, "y").await, too_long(4096));
    assert_eq!(write(&session, "\n").await, Ok(complete(1)));
    assert_eq!(write(&session, &format!("ok\n{line}y\n")).await, too_long(4096));
    assert_eq!(process.input().len(), 4096);
    // Where nothing is passed on in lines there is no such limit.
    process.set_terminal_mode(TerminalMode::Raw);
    assert_eq!(write(&session, &format!("{line}yy")).await, Ok(complete(4097)));
}

#[tokio::test(start_paused = true)]
async fn a_line_counts_with_what_waits_before_it() {
    let (harness, session) = start().await;
    let process = &session.process;
    process.limit_input(4000);
    let first = spawn_write(&session, fixture::write("x".repeat(4090), SECOND * 60));
    harness.settle().await;
    let second = spawn_write(&session, fixture::write("123456", SECOND * 60));
    harness.settle().await;
    let third = spawn_write(&session, fixture::write("\n123456", SECOND * 60));
    harness.settle().await;
    assert_eq!(process.take_input().len(), 4000);
    assert_eq!(first.await.unwrap(), Ok(complete(4090)));
    assert_eq!(
        second.await.unwrap(),
        Err(WriteError::LineTooLong {
            bytes: 4096,
            limit_bytes: 4095
        })
    );
    assert_eq!(third.await.unwrap(), Ok(complete(7)));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_read_any_more_is_told() {
    let (_harness, session) = start().await;
    let process = &session.process;
    process.close_input();
    assert_eq!(close_stdin(&session).await, Ok(()));
    assert_eq!(
        write(&session, "x").await,
        Err(WriteError::ReaderClosed { accepted_bytes: 0 })
    );
}

#[tokio::test(start_paused = true)]
async fn a_signal_goes_to_the_foreground_and_a_size_to_the_terminal() {
    let (_harness, session) = start().await;
    let process = &session.process;
    process.ignore(Signal::INT);
    assert_eq!(session.client.signal(session.id, Signal::INT).await, Ok(()));
    let targets: Vec<_> = process.signals().iter().map(|sent| sent.target).collect();
    assert_eq!(targets, [Target::Foreground]);
    let size = TerminalSize { rows: 40, cols: 132 };
    assert_eq!(session.client.resize(session.id, size).await, Ok(()));
    assert_eq!(process.resizes(), [size]);
    process.exit(0);
    session.outcome().await;
    assert!(matches!(
        session.client.resize(session.id, size).await,
        Err(ResizeError::SessionEnded { .. })
    ));
    assert!(matches!(
        session.client.signal(session.id, Signal::INT).await,
        Err(SignalError::SessionEnded { .. })
    ));
    assert_eq!(close_stdin(&session).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn without_a_terminal_there_is_none_to_resize() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::piped_spec()).await;
    let resized = session.client.resize(session.id, SIZE).await;
    assert_eq!(resized, Err(ResizeError::NoTerminal));
}
