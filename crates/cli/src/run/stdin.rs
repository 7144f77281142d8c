//! Our standard input to the session's: in pieces, of any size, as fast as the session takes it.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsFd,
    time::Duration,
};

use bytes::Bytes;
use procession_actors::{
    Client,
    report::{WriteEnd, WriteRequest},
};
use procession_core::SessionId;
use rustix::{event::PollFlags, fs::FileType};
use tokio::sync::mpsc;

use super::{start_thread, stream::wait_for};
use crate::error::CommandError;

/// How much is read and written at once, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// How many pieces wait to be written.
const PIECES: usize = 4;
/// How long a write waits for the session to take it: as long as it lives.
const WRITE_WAIT: Duration = Duration::from_secs(366 * 86_400);

/// Whether somebody gives us input: a pipe, a socket or a file. A terminal or `/dev/null` does not.
pub(super) fn is_given() -> bool {
    let kind = rustix::fs::fstat(io::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(
        kind,
        Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile)
    )
}

/// Our input on its way to a session.
pub(super) struct Passing {
    pub(super) client: Client,
    pub(super) session: SessionId,
    /// What one write may hold, in bytes.
    pub(super) most_bytes: u64,
}

impl Passing {
    /// Begins to pass our input on, up to its end, which then is the session's.
    ///
    /// Nobody waits for it: a read that is under way ends with the program.
    ///
    /// # Errors
    /// When there is no thread or descriptor for it.
    pub(super) fn begin(self) -> Result<(), CommandError> {
        let input = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| CommandError::Runtime { source })?;
        let piece_bytes = usize::try_from(self.most_bytes)
            .unwrap_or(PIECE_BYTES)
            .clamp(1, PIECE_BYTES);
        let (sender, receiver) = mpsc::channel(PIECES);
        start_thread("input", move || read(File::from(input), piece_bytes, &sender))?;
        tokio::spawn(self.feed(receiver));
        Ok(())
    }

    async fn feed(self, mut pieces: mpsc::Receiver<Bytes>) {
        while let Some(input) = pieces.recv().await {
            let request = WriteRequest {
                input,
                wait: WRITE_WAIT,
                request_id: None,
            };
            match self.client.write(self.session, request).await {
                Ok(written) if written.end == WriteEnd::Complete => {}
                // The session has ended, or nobody in it reads: what else comes has no taker.
                _ => return,
            }
        }
        // An error means that there is nothing to close any more.
        let _ = self.client.close_stdin(self.session).await;
    }
}

/// Reads to the end, or until nobody takes it; an input that cannot be read is at its end.
fn read(mut input: File, piece_bytes: usize, pieces: &mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; piece_bytes];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                let piece = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
                if pieces.blocking_send(piece).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if wait_for(&input, PollFlags::IN).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
