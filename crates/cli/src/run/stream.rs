//! The session's output to ours: byte for byte, as it comes.
//!
//! A thread of its own reads and writes in turn. It may wait in a write for as long as our reader likes, and the session
//! waits with it, since it reads only as far as we do.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use procession_actors::{
    Client,
    error::PollError,
    report::{RawPiece, ReadQuery},
};
use procession_core::{Outcome, Phase, SessionId, StreamId};
use rustix::event::{PollFd, PollFlags};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use super::start_thread;
use crate::error::CommandError;

/// How long one question for output waits; another follows.
const READ_WAIT: Duration = Duration::from_secs(3_600);
/// How much one question returns, in bytes.
const READ_BYTES: u64 = 1 << 20;

/// What came of the output.
#[derive(Debug, Default)]
pub(super) struct StreamEnd {
    /// How the session ended.
    pub(super) outcome: Option<Outcome>,
    /// Why writing ended before the output did.
    pub(super) failure: Option<WriteFailure>,
    /// Why reading ended before the output did.
    pub(super) unread: Option<PollError>,
    /// Output that was no longer there when it was asked for, in bytes.
    pub(super) lost_bytes: u64,
}

/// Why our own output took no more.
#[derive(Debug)]
pub(super) enum WriteFailure {
    /// Nobody reads it.
    BrokenPipe,
    /// Something else.
    Other(CommandError),
}

impl From<io::Error> for WriteFailure {
    fn from(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Other(CommandError::Output { source }),
        }
    }
}

/// The output while it is under way.
#[derive(Debug)]
pub(super) struct Stream {
    /// Gets the end.
    pub(super) end: oneshot::Receiver<StreamEnd>,
    written: Arc<AtomicU64>,
}

impl Stream {
    /// How much our own output has taken, in bytes.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// Begins to pass the session's output on; `broken` hears once when ours takes no more. What comes then is read all the
/// same, since the session could not end otherwise.
///
/// # Errors
/// When there is no thread or descriptor for it.
pub(super) fn begin(
    client: Client,
    session: SessionId,
    broken: mpsc::Sender<()>,
) -> Result<Stream, CommandError> {
    let open = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let sinks = open(io::stdout().as_fd()).and_then(|stdout| Ok((stdout, open(io::stderr().as_fd())?)));
    let (stdout, stderr) = sinks.map_err(|source| CommandError::Runtime { source })?;
    let (sender, end) = oneshot::channel();
    let written = Arc::new(AtomicU64::new(0));
    let mut output = Output {
        stdout,
        stderr,
        written: Arc::clone(&written),
        broken,
        end: StreamEnd::default(),
    };
    let runtime = Handle::current();
    start_thread("output", move || {
        runtime.block_on(output.pass_on(&client, session));
        // Nobody waits for it any more when the output was given up.
        let _ = sender.send(output.end);
    })?;
    Ok(Stream { end, written })
}

/// Rows and columns of the terminal that our output goes to, if it does.
pub(super) fn terminal_size() -> Option<(u16, u16)> {
    let size = |fd: BorrowedFd<'_>| rustix::termios::tcgetwinsize(fd).ok();
    let size = size(io::stdout().as_fd()).or_else(|| size(io::stderr().as_fd()))?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

struct Output {
    stdout: File,
    stderr: File,
    written: Arc<AtomicU64>,
    broken: mpsc::Sender<()>,
    end: StreamEnd,
}

impl Output {
    async fn pass_on(&mut self, client: &Client, session: SessionId) {
        let query = ReadQuery {
            cursor: None,
            wait: READ_WAIT,
            max_bytes: READ_BYTES,
        };
        loop {
            let read = match client.read_output(session, query).await {
                Ok(read) => read,
                Err(error) => {
                    self.end.unread = Some(error);
                    return;
                }
            };
            for piece in &read.pieces {
                self.write(piece);
            }
            if read.phase == Phase::Ended && read.pieces.is_empty() {
                self.end.outcome = read.outcome;
                return;
            }
        }
    }

    /// Writes a piece, unless an earlier one failed; waits for as long as that takes.
    fn write(&mut self, piece: &RawPiece) {
        self.end.lost_bytes = self.end.lost_bytes.saturating_add(piece.omitted_bytes);
        if self.end.failure.is_some() {
            return;
        }
        let file = match piece.stream {
            StreamId::Stdout => &mut self.stdout,
            StreamId::Stderr => &mut self.stderr,
        };
        if let Err(error) = write_all(file, &piece.bytes, &self.written) {
            self.end.failure = Some(error.into());
            // It holds one message, and one is all that is ever sent.
            let _ = self.broken.try_send(());
        }
    }
}

/// Writes all, also to a descriptor that somebody made non-blocking.
fn write_all(file: &mut File, mut bytes: &[u8], written: &AtomicU64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                written.fetch_add(u64::try_from(count).unwrap_or_default(), Ordering::Relaxed);
                bytes = bytes.get(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for(file, PollFlags::OUT)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until a descriptor is ready, or gone.
pub(super) fn wait_for(file: &File, flags: PollFlags) -> io::Result<()> {
    match rustix::event::poll(&mut [PollFd::new(file, flags)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
