//! Descriptors that never take the place of standard input, output or error.

use std::{io, os::fd::OwnedFd};

use rustix::{
    fs::{Mode, OFlags},
    pipe::PipeFlags,
};

/// The first number that is not one of the standard streams.
const FIRST_ABOVE_STDIO: i32 = 3;

/// A pipe, both ends closed on exec and blocking.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
}

/// Makes a pipe.
pub(crate) fn pipe() -> io::Result<Pipe> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    Ok(Pipe {
        reader: above_stdio(reader)?,
        writer: above_stdio(writer)?,
    })
}

/// Opens `/dev/null` for reading.
pub(crate) fn null() -> io::Result<OwnedFd> {
    above_stdio(rustix::fs::open(
        "/dev/null",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// The same descriptor with a number above those of the standard streams.
///
/// A host whose own 0, 1 or 2 are closed gets those numbers for whatever it opens next. Left there, a pipe would be
/// overwritten by the child's `dup2` of another one, and what the host prints would end up in a session.
pub(crate) fn above_stdio(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;

    if descriptor.as_raw_fd() >= FIRST_ABOVE_STDIO {
        return Ok(descriptor);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&descriptor, FIRST_ABOVE_STDIO)?)
}
