//! The ends of pipes that the host holds.
//!
//! A runtime remembers whether a descriptor was ready and learns of changes only when it polls the system. What it
//! remembers is good for waiting and not for telling what is in a pipe now: at a leader's exit bytes can lie in the
//! pipe that the runtime has not heard of. So both ends ask the system first, and tell the runtime only of what the
//! system refused.
#![expect(unsafe_code, reason = "reads go into memory that is not initialised")]

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use bytes::{BufMut, BytesMut};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::signal::write_without_sigpipe;
use crate::port::{BoxFuture, InputSink, OutputSource};

/// The reading end of an output pipe.
#[derive(Debug)]
pub(crate) struct PipeOutput(Receiver);

impl PipeOutput {
    /// Registers the end with the runtime and makes it one that does not block.
    ///
    /// # Errors
    /// Where the runtime cannot take another descriptor.
    pub(crate) fn new(reader: OwnedFd) -> io::Result<Self> {
        Receiver::from_owned_fd(reader).map(Self)
    }

    fn read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        let read = rustix::io::read(&self.0, buffer.spare_capacity_mut()).map(|(read, _)| read.len())?;
        // SAFETY: this many bytes of the spare capacity were just written to.
        unsafe { buffer.advance_mut(read) };
        Ok(read)
    }
}

impl OutputSource for PipeOutput {
    fn readable(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(self.0.readable())
    }

    fn try_read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        if buffer.spare_capacity_mut().is_empty() {
            // To read nothing would look like the end.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        loop {
            let read = match self.read(buffer) {
                // Reads once more: what came in between is not missed, and readiness is taken back only for the
                // moment before this read.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.0.try_io(|| self.read(buffer))
                }
                read => read,
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn waiting_bytes(&self) -> Option<u64> {
        rustix::io::ioctl_fionread(self.0.as_fd()).ok()
    }
}

/// The writing end of an input pipe.
#[derive(Debug)]
pub(crate) struct PipeInput(Sender);

impl PipeInput {
    /// Registers the end with the runtime and makes it one that does not block.
    ///
    /// # Errors
    /// Where the runtime cannot take another descriptor.
    pub(crate) fn new(writer: OwnedFd) -> io::Result<Self> {
        Sender::from_owned_fd(writer).map(Self)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        write_without_sigpipe(self.0.as_fd(), bytes)
    }
}

impl InputSink for PipeInput {
    fn writable(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(self.0.writable())
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = match self.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.0.try_io(|| self.write(bytes))
                }
                written => written,
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return written,
            }
        }
    }
}
