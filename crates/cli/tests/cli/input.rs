use std::{
    io::{Read, Write},
    process::Stdio,
    thread,
};

use crate::support::{Place, text};

#[test]
fn eight_mebibytes_go_through_unchanged() {
    let place = Place::new();
    let given: Vec<u8> = (0..8_u32 << 20)
        .map(|index| u8::try_from(index.wrapping_mul(index) % 251).expect("below 251"))
        .collect();
    let mut child = place
        .program(&["run", "--stdin", "--", "cat"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    let sent = given.clone();
    let writer = thread::spawn(move || input.write_all(&sent));
    let mut got = Vec::new();
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_to_end(&mut got)
        .expect("a pipe");
    writer.join().expect("no panic").expect("all is taken");
    assert!(
        got == given,
        "{} bytes came back, {} were sent",
        got.len(),
        given.len()
    );
    assert_eq!(child.wait().expect("it is ours").code(), Some(0));
}

#[test]
fn the_end_of_input_comes_behind_all_of_it() {
    let place = Place::new();
    let mut running = place.start(&["run", "-c", "read first; wc -c"]);
    running.write("a line\n");
    running.write(&"x".repeat(200_000));
    running.close_input();
    assert_eq!(running.line().trim(), "200000");
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_file_is_passed_on_too() {
    let place = Place::new();
    std::fs::write(place.path("given"), "from a file").expect("a file");
    let given = std::fs::File::open(place.path("given")).expect("a file");
    let output = place
        .program(&["run", "--", "cat"])
        .stdin(given)
        .output()
        .expect("it starts");
    assert_eq!(text(&output.stdout), "from a file");
}

#[test]
fn nothing_is_nothing() {
    let output = Place::new().run(&["run", "-c", "readlink /proc/self/fd/0; cat"]);
    assert_eq!(text(&output.stdout), "/dev/null\n");
}

#[test]
fn an_input_that_stays_open_does_not_hold_the_end_up() {
    let place = Place::new();
    let mut running = place.start(&["run", "--", "true"]);
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_program_that_closes_its_input_does_no_harm() {
    let place = Place::new();
    let mut running = place.start(&["run", "-c", "exec <&-; echo closed; sleep 0.2; exit 5"]);
    assert_eq!(running.line(), "closed\n");
    running.write("nobody reads this\n");
    running.close_input();
    assert_eq!(running.code(), Some(5));
}

#[test]
fn a_host_that_forbids_input_passes_none_on() {
    let place = Place::new();
    place.configure("[ceilings]\nstdin = \"null\"\n");
    let mut running = place.start(&["run", "-c", "readlink /proc/self/fd/0"]);
    assert_eq!(running.line(), "/dev/null\n");
    let refused = place.run(&["run", "--stdin", "--", "cat"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(text(&refused.stderr).contains("stdin"));
}
