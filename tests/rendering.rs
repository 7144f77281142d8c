//! How output is shown: in lines as a terminal would show them, and as its grid; what is kept never changes.

use std::time::Duration;

use procession_actors::{error::PollError, report::PollQuery, session::PROMPT_PAUSE};
use procession_core::{
    SessionSpec, StreamId,
    render::{MAX_SCREEN_CELLS, Render},
    spec::{Terminal, TerminalSize},
    text::ReadPosition,
};
use procession_testkit::{Harness, fixture};
use tokio::time::Instant;

const STDOUT: StreamId = StreamId::Stdout;
const MILLISECOND: Duration = Duration::from_millis(1);

fn plain() -> PollQuery {
    PollQuery::now().render(Render::Plain)
}

fn long_plain() -> PollQuery {
    fixture::long_poll().render(Render::Plain)
}

fn on_terminal(rows: u16, cols: u16) -> SessionSpec {
    SessionSpec {
        terminal: Some(Terminal {
            size: Some(TerminalSize { rows, cols }),
            term: None,
        }),
        ..fixture::spec()
    }
}

#[tokio::test(start_paused = true)]
async fn sequences_that_fall_between_reads_are_resolved() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let (mut text, mut raw) = (String::new(), String::new());
    let (mut cursor, mut raw_cursor) = (ReadPosition::START, ReadPosition::START);
    for piece in ["\x1b[3", "1mred\x1b[0", "m\r", "\nx\n"] {
        session.process.emit(STDOUT, piece);
        harness.settle().await;
        let wait = PollQuery::wait(50 * MILLISECOND).render(Render::Plain);
        let report = session.poll(wait.from(cursor)).await;
        (text, cursor) = (text + &report.stdout, report.cursor);
        let report = session.poll(PollQuery::now().from(raw_cursor)).await;
        (raw, raw_cursor) = (raw + &report.stdout, report.cursor);
    }
    session.process.exit(0);
    session.outcome().await;
    let report = session.poll(plain().from(cursor)).await;
    assert_eq!(text + &report.stdout, "red\nx\n");
    assert_eq!(raw, "\x1b[31mred\x1b[0m\r\nx\n");
    assert_eq!(report.log.total_bytes, 16);
}

#[tokio::test(start_paused = true)]
async fn a_progress_bar_is_shown_as_it_ended() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    for percent in 0..=100 {
        session
            .process
            .emit(STDOUT, format!("\rDownloading {percent:3}%"));
    }
    session.process.emit(STDOUT, "\nok\n");
    session.process.exit(0);
    session.outcome().await;
    let report = session.poll(plain().from(ReadPosition::START)).await;
    assert_eq!(report.stdout, "Downloading 100%\nok\n");
    assert_eq!((report.log.total_bytes, report.omitted), (1_721, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_poll_for_lines_waits_for_a_whole_line() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let (client, id) = (session.client.clone(), session.id);
    let begin = Instant::now();
    let frame = PROMPT_PAUSE.saturating_sub(MILLISECOND);
    let waiting = tokio::spawn(async move { client.poll(id, long_plain()).await });
    // A bar that is drawn again and again is not told frame by frame.
    for percent in 0..20 {
        harness.settle().await;
        assert!(!waiting.is_finished(), "{percent}");
        session.process.emit(STDOUT, format!("\r{percent}%"));
        harness.advance(frame).await;
    }
    session.process.emit(STDOUT, "\rdone\nnext");
    let report = waiting.await.unwrap().unwrap();
    assert_eq!(report.stdout, "done\n");
    assert_eq!(begin.elapsed(), 20 * frame);
    session.process.emit(STDOUT, " line\n");
    harness.settle().await;
    assert_eq!(session.poll(plain()).await.stdout, "next line\n");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_shown_when_the_output_pauses() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(STDOUT, "name: ");
    harness.settle().await;
    let begin = Instant::now();
    let report = session.poll(long_plain()).await;
    assert_eq!(
        (report.stdout.as_str(), begin.elapsed()),
        ("name: ", PROMPT_PAUSE)
    );
    session.process.emit(STDOUT, "Ada\n");
    harness.settle().await;
    assert_eq!(session.poll(plain()).await.stdout, "Ada\n");
}

#[tokio::test(start_paused = true)]
async fn a_poll_for_lines_is_not_answered_early_with_nothing() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    session.process.emit(STDOUT, "\x1b[?25l\r");
    harness.settle().await;
    let begin = Instant::now();
    let wait = Duration::from_secs(5);
    let report = session.poll(PollQuery::wait(wait).render(Render::Plain)).await;
    assert_eq!((report.stdout.as_str(), begin.elapsed()), ("", wait));
}

#[tokio::test(start_paused = true)]
async fn the_grid_of_a_terminal_is_shown() {
    let harness = Harness::start().await;
    let session = harness.start_session(on_terminal(3, 12)).await;
    session
        .process
        .emit(STDOUT, "one\r\ntwo\r\nthree\r\nfour\x1b[1;1HTWO\x1b]2;title\x07");
    harness.settle().await;
    let query = PollQuery::now().render(Render::Screen);
    let report = session.poll(query).await;
    let screen = report.screen.as_ref().unwrap();
    assert_eq!((screen.rows, screen.cols), (3, 12));
    assert_eq!((screen.cursor_row, screen.cursor_col), (0, 3));
    assert_eq!(screen.lines, ["TWO", "three", "four"]);
    assert_eq!(screen.title.as_deref(), Some("title"));
    assert_eq!((report.stdout.as_str(), report.omitted_bytes()), ("", 0));
    // It was seen: the session's own cursor is behind it. What was written is all there.
    let again = session.poll(PollQuery::now()).await;
    assert_eq!((again.stdout.as_str(), again.screen), ("", None));
    let raw = session.poll(PollQuery::now().from(ReadPosition::START)).await;
    assert!(raw.stdout.starts_with("one\r\ntwo\r\n"), "{}", raw.stdout);

    let size = TerminalSize { rows: 2, cols: 20 };
    session.client.resize(session.id, size).await.unwrap();
    session.process.emit(STDOUT, "\x1b[H\x1b[2Jresized");
    session.process.exit(0);
    session.outcome().await;
    // It can be looked at after the end too.
    let screen = session.poll(query).await.screen.unwrap();
    assert_eq!((screen.rows, screen.cols), (2, 20));
    assert_eq!(screen.lines, ["resized", ""]);
}

#[tokio::test(start_paused = true)]
async fn without_a_terminal_there_is_no_screen() {
    let harness = Harness::start().await;
    let session = harness.start_session(fixture::spec()).await;
    let query = fixture::long_poll().render(Render::Screen);
    let refused = session.client.poll(session.id, query).await;
    assert_eq!(refused, Err(PollError::NoTerminal));

    let session = harness.start_session(on_terminal(4_000, 4_000)).await;
    let refused = session.client.poll(session.id, query).await;
    let max_cells = MAX_SCREEN_CELLS;
    assert_eq!(refused, Err(PollError::ScreenTooLarge { max_cells }));
}
