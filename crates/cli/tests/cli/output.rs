use std::{fs, io::Read, process::Stdio};

use crate::support::{Place, pipe, text};

#[test]
fn each_stream_comes_out_as_itself_and_nothing_else() {
    let output = Place::new().run(&["run", "-c", "printf 'out\\0\\377'; printf err >&2; exit 3"]);
    assert_eq!(output.stdout, b"out\0\xff");
    assert_eq!(output.stderr, b"err");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn merged_output_keeps_its_order_on_standard_output() {
    let output = Place::new().run(&[
        "run",
        "--merge-stderr",
        "-c",
        "for i in 1 2 3; do echo o$i; echo e$i >&2; done",
    ]);
    assert_eq!(text(&output.stdout), "o1\ne1\no2\ne2\no3\ne3\n");
    assert_eq!(output.stderr, b"");
}

#[test]
fn output_comes_as_it_is_written() {
    let place = Place::new();
    pipe(&place.path("gate"));
    let mut running = place.start(&["run", "-c", "echo one; read go < gate; echo two"]);
    running.close_input();
    assert_eq!(running.line(), "one\n");
    fs::write(place.path("gate"), "go\n").expect("the command reads");
    assert_eq!(running.line(), "two\n");
    assert_eq!(running.line(), "");
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_flood_comes_out_whole_whatever_the_log_keeps() {
    let place = Place::new();
    let bytes = 48_000_000;
    let command = format!("yes 0123456 | head -c {bytes}");
    let mut child = place
        .program(&["run", "--log-bytes", "1MiB", "-c", &command])
        .spawn()
        .expect("it starts");
    let mut output = child.stdout.take().expect("a pipe");
    let (mut total, mut buffer) = (0, vec![0; 100_000]);
    loop {
        let count = output.read(&mut buffer).expect("a pipe");
        if count == 0 {
            break;
        }
        for (place, byte) in buffer[..count].iter().enumerate() {
            assert_eq!(*byte, b"0123456\n"[(total + place) % 8], "at {}", total + place);
        }
        total += count;
    }
    assert_eq!(total, bytes);
    assert_eq!(child.wait().expect("it is ours").code(), Some(0));
}

#[test]
fn a_reader_that_goes_away_ends_the_session_like_sigpipe() {
    let place = Place::new();
    let mut running = place.start(&["run", "--", "yes"]);
    assert_eq!(running.line(), "y\n");
    running.close_output();
    assert_eq!(running.code(), Some(141));
}

#[test]
fn closed_streams_do_no_harm() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_procession");
    for (closed, expected) in [(">&-", ""), ("2>&-", "x\n"), ("<&-", "x\n")] {
        let command = format!("{program} run -c 'echo x; echo y >&2' {closed}");
        let output = std::process::Command::new("sh")
            .args(["-c", &command])
            .env("XDG_STATE_HOME", place.path("state"))
            .env("HOME", place.path(""))
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(0), expected),
            "{closed}"
        );
    }
}

#[test]
fn the_decisions_are_shown_before_any_output() {
    let output = Place::new().run(&["run", "--explain", "--timeout", "9s", "-c", "echo err >&2"]);
    let told = text(&output.stderr);
    assert!(told.contains("wall_time_ms") && told.contains("9000"), "{told}");
    assert!(told.ends_with("\nerr\n"), "{told}");
}
