//! Output and input through pipes.

use std::{future::poll_fn, io, task::Poll};

use bytes::BytesMut;
use procession_core::{Status, StreamId};
use procession_process::InputSink;

use crate::support::{
    Adjust, argv, bash, bounded, exited, finish, output, port, read_line, read_to_end, run, spawn, until,
};

async fn write_all(input: &dyn InputSink, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match input.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                bounded("room for input", input.writable())
                    .await
                    .expect("an input that can be waited for");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_arrives_whole() {
    let port = port();
    let done = run(&port, bash("seq 1 300000; seq 1 1000 >&2")).await;
    let expected =
        |last: u32| (1..=last).fold(String::new(), |text, number| text + &number.to_string() + "\n");
    assert!(done.stdout == expected(300_000), "{} bytes", done.stdout.len());
    assert!(done.stderr == expected(1000), "{} bytes", done.stderr.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_in_a_pipe_is_read_without_waiting_for_the_runtime() {
    let port = port();
    for _ in 0..50 {
        let session = spawn(&port, argv(&["echo", "last words"])).await;
        // The exit is seen by a look, so that the runtime has no occasion to hear of the pipe.
        while session.leader.peek().is_none() {
            std::thread::yield_now();
        }
        let output = output(&session, StreamId::Stdout);
        assert_eq!(output.waiting_bytes(), Some(11));
        let mut buffer = BytesMut::with_capacity(64);
        assert_eq!(output.try_read(&mut buffer).unwrap(), 11);
        assert_eq!(&buffer[..], b"last words\n");
        // Another process that is just being started may hold the pipe for a moment.
        assert_eq!(read_to_end(output).await, b"");
        assert_eq!(output.waiting_bytes(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_read_loses_no_readiness_and_leaves_none_that_is_false() {
    let port = port();
    let session = spawn(&port, argv(&["cat"]).stdin()).await;
    let (input, output) = (
        session.input.as_ref().unwrap(),
        output(&session, StreamId::Stdout),
    );
    let mut buffer = BytesMut::with_capacity(64);
    assert_eq!(
        output.try_read(&mut buffer).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    for round in 0..200 {
        write_all(input.as_ref(), format!("{round}\n").as_bytes()).await;
        assert_eq!(read_line(output).await, round.to_string());
        // The runtime may hear once more of what was read already, and after that it has to wait.
        let mut false_alarms = 0;
        loop {
            assert_eq!(
                output.try_read(&mut buffer).unwrap_err().kind(),
                io::ErrorKind::WouldBlock
            );
            let mut readable = output.readable();
            if poll_fn(|context| Poll::Ready(readable.as_mut().poll(context).is_pending())).await {
                break;
            }
            false_alarms += 1;
            assert!(false_alarms < 10, "a reader would never rest");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buffer_without_room_is_no_end_of_output() {
    let port = port();
    let session = spawn(&port, argv(&["echo", "text"])).await;
    let refused = output(&session, StreamId::Stdout).try_read(&mut BytesMut::new());
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn input_arrives_whole_and_ends_with_its_last_reference() {
    let port = port();
    let mut session = spawn(&port, argv(&["md5sum"]).stdin()).await;
    let input = session.input.take().unwrap();
    let bytes = vec![b'x'; 1 << 20];
    write_all(input.as_ref(), &bytes).await;
    assert_eq!(session.leader.peek(), None);
    drop(input);
    let done = finish(session).await;
    let expected = run(&port, bash("head -c 1048576 /dev/zero | tr '\\0' x | md5sum")).await;
    assert_eq!(done.stdout, expected.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_input_is_refused_and_the_reader_gone_is_told() {
    let port = port();
    let session = spawn(&port, argv(&["sleep", "60"]).stdin()).await;
    let input = session.input.as_ref().unwrap();
    let mut accepted = 0;
    let refused = loop {
        match input.try_write(&[0; 4096]) {
            Ok(written) => accepted += written,
            Err(error) => break error,
        }
    };
    assert_eq!((refused.kind(), accepted), (io::ErrorKind::WouldBlock, 65_536));
    session.tree.kill();
    exited(&session).await;
    bounded("the reader's end", input.writable()).await.unwrap();
    assert_eq!(
        input.try_write(b"x").unwrap_err().kind(),
        io::ErrorKind::BrokenPipe
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_closes_its_input_is_told_apart_from_its_end() {
    let port = port();
    let session = spawn(&port, bash("exec <&-; echo closed; sleep 60").stdin()).await;
    assert_eq!(read_line(output(&session, StreamId::Stdout)).await, "closed");
    let input = session.input.as_ref().unwrap();
    assert_eq!(
        input.try_write(b"x").unwrap_err().kind(),
        io::ErrorKind::BrokenPipe
    );
    assert_eq!(session.leader.peek(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_output_closes_our_end() {
    let port = port();
    let mut session = spawn(&port, argv(&["yes"])).await;
    session.outputs.clear();
    let (status, _) = exited(&session).await;
    assert!(
        matches!(status, Status::Signaled { signal, .. } if signal.number() == 13),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn output_ends_when_the_last_who_holds_it_has_gone() {
    let port = port();
    let session = spawn(&port, bash("sleep 0.2 & echo here")).await;
    let output = output(&session, StreamId::Stdout);
    assert_eq!(read_to_end(output).await, b"here\n");
    until("an exit", || session.leader.peek().is_some()).await;
}
