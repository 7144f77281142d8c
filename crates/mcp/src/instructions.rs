//! What a model is told about the server as a whole.

/// Short, because it is part of every conversation.
pub(crate) const INSTRUCTIONS: &str = "\
Every command is a session. `session_start` waits up to `yield_time_ms` for its end; if `phase` is `running` then, the \
command goes on and you go on with its `session_id`: `session_poll` for output, `session_wait` for its end (cheaper than \
polling), `session_write` for input (start it with `stdin` or `tty`), `session_stop` to end it with all its processes.
A command that fails is no error: `outcome.status` has the exit code or the signal, `outcome.cause` why it ended. `isError` \
means that the call itself could not be done; `error.code` and `error.field` say what to mend.
Output that an answer left out is counted in `omitted_bytes`; all of it is in the log: `session_read_log`.
Servers and watchers: `background: true`. Several commands: start them all, then one `session_wait`. Limits that were cut \
are in `policy`. All sessions end with this connection.";
