//! Answers on their way out: one task writes them, each as one whole line.

use std::{
    io,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Serialize;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::{AbortHandle, JoinHandle},
};

/// What the task is told.
#[derive(Debug)]
enum Outgoing {
    Line(Vec<u8>),
    /// Nothing follows.
    End,
}

/// Takes answers; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    lines: mpsc::UnboundedSender<Outgoing>,
    unsent: Arc<AtomicU64>,
    max_unsent_bytes: u64,
}

impl Outbox {
    /// Queues a message as one line.
    pub(crate) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let line = to_line(message)?;
        let bytes = line.len() as u64;
        self.unsent.fetch_add(bytes, Ordering::Relaxed);
        self.lines
            .send(Outgoing::Line(line))
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// Queues the answer to a line that was none, unless so much is queued that nobody can be reading.
    pub(crate) fn answer_fault(&self, answer: &impl Serialize) {
        if self.is_full() || self.send(answer).is_err() {
            tracing::debug!("an answer was dropped: nobody reads");
        }
    }

    /// Whether more is queued than a client that reads would let pile up.
    pub(crate) fn is_full(&self) -> bool {
        self.unsent_bytes() > self.max_unsent_bytes
    }

    /// How much is queued, in bytes.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// How much may be queued before calls are refused, in bytes.
    pub(crate) const fn max_unsent_bytes(&self) -> u64 {
        self.max_unsent_bytes
    }
}

/// The task that writes.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    outbox: Outbox,
    task: JoinHandle<io::Result<()>>,
    output: PhantomData<fn(W)>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> Writer<W> {
    /// Starts the task.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub(crate) fn spawn(output: W, max_unsent_bytes: u64) -> Self {
        let (lines, queue) = mpsc::unbounded_channel();
        let unsent = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(write_lines(output, queue, Arc::clone(&unsent)));
        Self {
            outbox: Outbox {
                lines,
                unsent,
                max_unsent_bytes,
            },
            task,
            output: PhantomData,
        }
    }
}

impl<W> Writer<W> {
    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Ends the task although lines are left, for a client that does not read.
    pub(crate) fn abort_handle(&self) -> AbortHandle {
        self.task.abort_handle()
    }

    /// Waits until everything that was queued before is written; nothing is taken afterwards.
    pub(crate) async fn finish(self) -> io::Result<()> {
        // Fails when the task has ended, which is what the next line tells.
        let _ = self.outbox.lines.send(Outgoing::End);
        self.task
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

async fn write_lines<W: AsyncWrite + Unpin>(
    mut output: W,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    unsent: Arc<AtomicU64>,
) -> io::Result<()> {
    while let Some(Outgoing::Line(line)) = queue.recv().await {
        output.write_all(&line).await?;
        unsent.fetch_sub(line.len() as u64, Ordering::Relaxed);
        if queue.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}

/// A message as one line, also for readers that take U+2028 and U+2029 for line ends.
fn to_line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    let is_separator = |window: &[u8]| matches!(window, [0xe2, 0x80, 0xa8 | 0xa9]);
    if line.windows(3).any(is_separator) {
        // Such a character can stand inside of a string only, where its escape means the same.
        let text = String::from_utf8_lossy(&line)
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029");
        line = text.into_bytes();
    }
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn a_message_is_one_line_for_every_reader() {
        let message = json!({ "a": "x\n\u{2028}\u{2029}é\u{0}" });
        let line = to_line(&message).expect("plain");
        assert_eq!(
            String::from_utf8_lossy(&line),
            "{\"a\":\"x\\n\\u2028\\u2029é\\u0000\"}\n"
        );
        assert_eq!(serde_json::from_slice::<Value>(&line).expect("JSON"), message);
    }

    #[tokio::test]
    async fn everything_queued_is_written_before_the_end() {
        let (here, mut there) = tokio::io::duplex(8);
        let writer = Writer::spawn(here, 10);
        let outbox = writer.outbox();
        for number in 0..50 {
            outbox.send(&json!(number)).expect("open");
        }
        assert!(outbox.is_full());
        let mut text = String::new();
        let (finished, read) = tokio::join!(writer.finish(), there.read_to_string(&mut text));
        finished.expect("written");
        read.expect("read");
        let expected = (0..50)
            .map(|number| number.to_string())
            .collect::<Vec<_>>()
            .join("\n")
            + "\n";
        assert_eq!(text, expected);
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_is_an_error_and_no_more() {
        let (here, there) = tokio::io::duplex(8);
        drop(there);
        let writer = Writer::spawn(here, 10);
        let outbox = writer.outbox();
        outbox.send(&json!("x")).expect("queued");
        assert!(writer.finish().await.is_err());
    }
}
