//! Packets with descriptors over a socket that keeps their borders.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::wire::MAX_MESSAGE_BYTES;

/// The most descriptors that come with one packet.
const MAX_DESCRIPTORS: usize = 5;

/// Whether a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// It does.
    Yes,
    /// It fails with `WouldBlock` instead.
    No,
}

/// What came.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Two ends that are connected, both closed on exec.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Whether this is an end of such a pair.
pub(super) fn is_end(descriptor: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_type(descriptor).is_ok_and(|kind| kind == SocketType::SEQPACKET)
        && rustix::net::sockopt::socket_domain(descriptor).is_ok_and(|domain| domain == AddressFamily::UNIX)
}

/// Sends a packet, whole or not at all.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    wait: Wait,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut flags = SendFlags::NOSIGNAL;
    if wait == Wait::No {
        flags |= SendFlags::DONTWAIT;
    }
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags))?;
    Ok(())
}

/// Receives a packet; an empty one is the end.
pub(super) fn receive(socket: BorrowedFd<'_>, wait: Wait) -> io::Result<Packet> {
    let mut bytes = vec![0; MAX_MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut flags = RecvFlags::CMSG_CLOEXEC;
    if wait == Wait::No {
        flags |= RecvFlags::DONTWAIT;
    }
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)
    })?;
    bytes.truncate(received.bytes);
    let descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    Ok(Packet { bytes, descriptors })
}

/// Ends the talk in both directions, whoever else has the same end open.
pub(super) fn shut_down(socket: impl AsFd) {
    // It fails where the other end is gone already.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_their_borders_and_descriptors() {
        let (one, other) = pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert!(is_end(one.as_fd()) && !is_end(reader.as_fd()));
        send(one.as_fd(), b"first", &[reader.as_fd(), writer.as_fd()], Wait::No).unwrap();
        send(one.as_fd(), &vec![7; MAX_MESSAGE_BYTES], &[], Wait::No).unwrap();
        let first = receive(other.as_fd(), Wait::No).unwrap();
        assert_eq!(
            (first.bytes.as_slice(), first.descriptors.len()),
            (&b"first"[..], 2)
        );
        assert_eq!(
            receive(other.as_fd(), Wait::No).unwrap().bytes.len(),
            MAX_MESSAGE_BYTES
        );
        assert_eq!(
            receive(other.as_fd(), Wait::No).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let same = one.try_clone().unwrap();
        shut_down(&one);
        assert!(receive(other.as_fd(), Wait::Yes).unwrap().bytes.is_empty());
        assert!(send(other.as_fd(), b"x", &[], Wait::No).is_err());
        drop(same);
    }
}
