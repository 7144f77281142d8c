//! The host's end of a terminal.
//!
//! As with pipes, the system is asked first and the runtime is told only of what the system refused: at a leader's
//! exit bytes can wait that the runtime has not heard of.
#![expect(
    unsafe_code,
    reason = "reads go into memory that is not initialised, and two calls have no safe form"
)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::{BufMut, BytesMut};
use procession_core::{Signal, outcome::StepEffect, spec::TerminalSize, terminal::TerminalMode};
use tokio::io::{Interest, unix::AsyncFd};

use super::{is_hung_up, mode, to_winsize};
use crate::port::{BoxFuture, InputSink, OutputSource};

/// The host's end of a terminal: what the programs on it write is read here, and what is written here they read.
///
/// Its output is at its end when the system says that no process has the terminal open.
#[derive(Debug)]
pub struct TerminalMaster {
    master: AsyncFd<OwnedFd>,
    /// Whether the end was seen: the system would go on to take input that nobody can read any more.
    is_at_end: AtomicBool,
}

impl TerminalMaster {
    /// Registers the end, which must not block, with the runtime.
    pub(super) fn new(master: OwnedFd) -> io::Result<Self> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        // SAFETY: what is registered owns the descriptor, so that it stays open and the same until it is taken off.
        let watched = unsafe { AsyncFd::register_with_interest(master, interest) };
        Ok(Self {
            master: watched?,
            is_at_end: AtomicBool::new(false),
        })
    }

    /// Sets the size; the foreground group is told by a signal where that changed it.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        Ok(rustix::termios::tcsetwinsize(&self.master, to_winsize(size))?)
    }

    /// How it passes on what is typed, at this moment.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn mode(&self) -> io::Result<TerminalMode> {
        Ok(mode::of(&rustix::termios::tcgetattr(&self.master)?))
    }

    /// The process group in its foreground; none when there is none, as behind the leader's exit.
    #[must_use]
    pub fn foreground(&self) -> Option<i32> {
        let group = rustix::termios::tcgetpgrp(&self.master).ok()?;
        Some(group.as_raw_pid()).filter(|group| *group > 1)
    }

    /// Sends a signal to the foreground group; none where there is no such group, or it is the one given: that one is
    /// better signalled by who knows whether its number is still its own.
    pub(super) fn signal_foreground(&self, signal: Signal, but: u32) -> Option<StepEffect> {
        let group = self.foreground()?;
        if self.type_signal(signal) {
            return Some(StepEffect::Delivered);
        }
        if group.unsigned_abs() == but {
            return None;
        }
        // SAFETY: the call takes no pointers, and the number is that of a group, not 0 or 1.
        if unsafe { libc::killpg(group, signal.number()) } == 0 {
            return Some(StepEffect::Delivered);
        }
        Some(match io::Error::last_os_error().raw_os_error() {
            // It ended just now, and the leader's group is in its place soon.
            Some(libc::ESRCH) => return None,
            Some(libc::EPERM) => StepEffect::NotPermitted,
            _ => StepEffect::Failed,
        })
    }

    /// Has the terminal send one of the signals that can be typed: to whoever is in the foreground at that moment,
    /// and with no regard to permissions, just as the key would.
    fn type_signal(&self, signal: Signal) -> bool {
        if ![libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP].contains(&signal.number()) {
            return false;
        }
        // SAFETY: the request takes a number and no pointer.
        unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSIG, signal.number()) == 0 }
    }

    fn read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        let read =
            rustix::io::read(self.master.as_fd(), buffer.spare_capacity_mut()).map(|(read, _)| read.len())?;
        // SAFETY: this many bytes of the spare capacity were just written to.
        unsafe { buffer.advance_mut(read) };
        Ok(read)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.master.as_fd(), bytes)?)
    }
}

impl OutputSource for TerminalMaster {
    fn readable(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async { self.master.readable().await.map(drop) })
    }

    fn try_read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        if buffer.spare_capacity_mut().is_empty() {
            // To read nothing would look like the end.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        loop {
            let read = match self.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.master.try_io(Interest::READABLE, |_| self.read(buffer))
                }
                read => read,
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_hung_up(&error) => {
                    self.is_at_end.store(true, Ordering::Release);
                    return Ok(0);
                }
                read => return read,
            }
        }
    }

    fn waiting_bytes(&self) -> Option<u64> {
        None
    }
}

impl InputSink for TerminalMaster {
    fn writable(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async { self.master.writable().await.map(drop) })
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_at_end.load(Ordering::Acquire) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        loop {
            let written = match self.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.master.try_io(Interest::WRITABLE, |_| self.write(bytes))
                }
                written => written,
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_hung_up(&error) => return Err(io::ErrorKind::BrokenPipe.into()),
                written => return written,
            }
        }
    }

    fn terminal(&self) -> Option<TerminalMode> {
        // Where the mode is not told, nothing is promised of lines.
        Some(self.mode().unwrap_or(TerminalMode::Raw))
    }
}
