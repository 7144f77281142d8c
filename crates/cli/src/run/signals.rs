//! Signals that ask this program to end.

use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The number of SIGHUP on every system that this runs on.
const HANGUP: i32 = 1;

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    /// Its number.
    pub(crate) number: i32,
    /// Whether it asks for an end at once: QUIT does.
    pub(crate) is_force: bool,
}

/// INT, TERM, QUIT and HUP; HUP only where whoever started us did not have it ignored, as `nohup` does.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// Takes the signals over; none ends the program by itself any more. Has to be called within a runtime.
    ///
    /// # Errors
    /// When the system does not let them be taken over.
    pub(crate) fn listen() -> io::Result<Self> {
        let is_ignored = ignored_signals() & (1 << (HANGUP - 1)) != 0;
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hangup: if is_ignored {
                None
            } else {
                Some(signal(SignalKind::hangup())?)
            },
        })
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Received {
        let kind = tokio::select! {
            Some(()) = self.interrupt.recv() => SignalKind::interrupt(),
            Some(()) = self.terminate.recv() => SignalKind::terminate(),
            Some(()) = self.quit.recv() => SignalKind::quit(),
            Some(()) = next_of(self.hangup.as_mut()) => SignalKind::hangup(),
            else => std::future::pending().await,
        };
        Received {
            number: kind.as_raw_value(),
            is_force: kind == SignalKind::quit(),
        }
    }
}

async fn next_of(signal: Option<&mut Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// The signals that this program was started to ignore, bit 0 being signal 1; none where the system does not tell.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
