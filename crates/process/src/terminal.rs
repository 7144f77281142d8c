//! Terminals: a pair of ends, of which the child gets one and the host keeps the other.
//!
//! What both ports do is: [`TerminalPair::open`], start the child with [`TerminalPair::slave`] as its three standard
//! streams and as its controlling terminal, and [`TerminalPair::attach`] what was started.
//!
//! The host holds the child's end open too, until the leader's exit is seen. Otherwise the output would end as soon as
//! no process has the terminal open, although any of the session can open it again as `/dev/tty`: what asks for a
//! password with its standard streams redirected does just that.
//!
//! The host's end is closed when neither output nor input is held any more, which hangs up whoever still has the
//! terminal. A session lets go of both only behind the sweep.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use procession_core::{Field, StreamId, spec::TerminalSize};
use procession_policy::{Capability, Channel, Level};
use rustix::{
    fs::OFlags,
    io::Errno,
    pty::OpenptFlags,
    termios::{InputModes, OptionalActions, Winsize},
};

use crate::{port::Spawned, unix::descriptor::above_stdio};

mod attached;
mod master;
mod mode;

pub use master::TerminalMaster;

use attached::{AttachedLeader, AttachedTree};

/// A new terminal that no process has yet.
#[derive(Debug)]
pub struct TerminalPair {
    master: OwnedFd,
    slave: OwnedFd,
}

impl TerminalPair {
    /// Makes a terminal of this size, in the modes of a new one, for text in UTF-8.
    ///
    /// Needs no runtime. Neither end is inherited by anybody, nor is one of them 0, 1 or 2, nor does the host get the
    /// terminal as its own. The child's end is had without a path, so that it is the right one in any container.
    ///
    /// # Errors
    /// Where the system has no terminal left, or none at all: no `/dev/ptmx`.
    pub fn open(size: TerminalSize) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        // The crate has no name for this one, and passes it on.
        let nonblocking = OpenptFlags::from_bits_retain(OFlags::NONBLOCK.bits());
        let master = above_stdio(rustix::pty::openpt(flags | nonblocking)?)?;
        rustix::pty::unlockpt(&master)?;
        let slave = above_stdio(rustix::pty::ioctl_tiocgptpeer(&master, flags)?)?;
        rustix::termios::tcsetwinsize(&master, to_winsize(size))?;
        let mut modes = rustix::termios::tcgetattr(&slave)?;
        // To erase a character is to erase all its bytes.
        modes.input_modes |= InputModes::IUTF8;
        rustix::termios::tcsetattr(&slave, OptionalActions::Now, &modes)?;
        Ok(Self { master, slave })
    }

    /// The child's end, which blocks.
    #[must_use]
    pub fn slave(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }

    /// Makes the host's end the output and the input of what was started on the child's, in the runtime that this runs
    /// in.
    ///
    /// The output ends no sooner than the leader's exit was seen, by its `exited`, `peek` or `reap`. Signals to the
    /// foreground go to the terminal's foreground group where it has one.
    ///
    /// # Errors
    /// Where the runtime cannot take another descriptor; what was started is killed then.
    pub fn attach(self, spawned: Spawned) -> io::Result<Spawned> {
        let master = Arc::new(TerminalMaster::new(self.master)?);
        let Spawned {
            pid,
            leader,
            tree,
            guard,
            containment,
            ..
        } = spawned;
        Ok(Spawned {
            pid,
            leader: Arc::new(AttachedLeader::new(leader, self.slave)),
            tree: Arc::new(AttachedTree::new(tree, pid, Arc::downgrade(&master))),
            outputs: vec![(StreamId::Stdout, Arc::clone(&master) as _)],
            input: Some(master),
            guard,
            containment,
        })
    }
}

/// What can be done about terminals here, as it is found by making one.
#[must_use]
pub fn capabilities() -> [(Field, Capability); 2] {
    let size = TerminalSize { rows: 24, cols: 80 };
    match TerminalPair::open(size) {
        Ok(_) => {
            let native = || Capability::new(Level::Native, Channel::Supervisor);
            [
                (Field::Tty, native().inheriting(false)),
                (Field::TerminalSize, native()),
            ]
        }
        Err(error) => unsupported(&format!("no terminal can be made: {error}")),
    }
}

/// The same where there are none, for this reason.
pub(crate) fn unsupported(reason: &str) -> [(Field, Capability); 2] {
    let none = || Capability::new(Level::Unsupported, Channel::None).with_note(reason);
    [
        (Field::Tty, none().inheriting(false)),
        (Field::TerminalSize, none()),
    ]
}

fn to_winsize(size: TerminalSize) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Whether an error of the host's end says that nobody has the other one.
fn is_hung_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}
