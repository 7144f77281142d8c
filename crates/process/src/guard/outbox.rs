//! What a guard has to tell: sent at once where the host takes it, else kept in order until it does.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{
    packet::{self, Wait},
    wire::Reply,
};

/// From how many on nothing more is read from the host, so that there is an end to what has to be kept: what comes
/// in by itself is at most one message a session.
const FULL: usize = 256;

/// Messages that wait for the host.
#[derive(Debug, Default)]
pub(super) struct Outbox(VecDeque<(Vec<u8>, Vec<OwnedFd>)>);

impl Outbox {
    /// Sends a message now or later.
    pub(super) fn send(&mut self, link: BorrowedFd<'_>, reply: &Reply, descriptors: Vec<OwnedFd>) {
        self.0.push_back((reply.encode(), descriptors));
        self.flush(link);
    }

    /// Sends what the host takes.
    pub(super) fn flush(&mut self, link: BorrowedFd<'_>) {
        while let Some((bytes, descriptors)) = self.0.front() {
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match packet::send(link, bytes, &descriptors, Wait::No) {
                Err(error) if is_passing(&error) => return,
                // That there is no host any more is seen where it is read from.
                Ok(()) | Err(_) => drop(self.0.pop_front()),
            }
        }
    }

    /// Whether something waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether so much waits that nothing more is to be taken on.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= FULL
    }
}

/// Whether the same message may be taken a moment later: the host is slow, or memory or the system's room for
/// descriptors on their way is short.
fn is_passing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || [libc::ETOOMANYREFS, libc::ENOBUFS, libc::ENOMEM]
            .map(Some)
            .contains(&error.raw_os_error())
}
