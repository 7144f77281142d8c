//! Standard output of the commands that print.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::{error::CommandError, run::exit_code::BROKEN_PIPE};

/// Prints by `write`, buffered; the exit code is 0, or that of a broken pipe when nobody reads any more.
///
/// # Errors
/// [`CommandError::Output`] when standard output cannot be written for another reason.
pub(crate) fn print(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> io::Result<()>,
) -> Result<u8, CommandError> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(BROKEN_PIPE),
        Err(source) => Err(CommandError::Output { source }),
    }
}

/// Prints a value as JSON with line breaks.
///
/// # Errors
/// As [`fn@print`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<u8, CommandError> {
    print(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    })
}
