//! The table.

use super::{Alias, Argument, Effect, Kind, Presence, Tool};

const fn argument(name: &'static str, kind: Kind, presence: Presence, about: &'static str) -> Argument {
    Argument {
        name,
        kind,
        presence,
        aliases: &[],
        about,
    }
}

const fn aliased(
    name: &'static str,
    kind: Kind,
    presence: Presence,
    aliases: &'static [Alias],
    about: &'static str,
) -> Argument {
    Argument {
        name,
        kind,
        presence,
        aliases,
        about,
    }
}

const fn alias(name: &'static str) -> Alias {
    Alias { name, factor: 1 }
}

const SESSION_ID: Argument = aliased(
    "session_id",
    Kind::Text,
    Presence::Required,
    &[alias("task_id")],
    "The session's id, as `session_start` gave it.",
);

const MAX_OUTPUT: Argument = aliased(
    "max_output_bytes",
    Kind::Number,
    Presence::Optional,
    &[Alias {
        name: "max_output_tokens",
        factor: 4,
    }],
    "Most text to return, both streams together, 128 to 262144 bytes; the session's own budget when not given. What is left out of the middle is counted in `omitted_bytes` and can be read with `session_read_log`.",
);

const REQUEST_ID: Argument = argument(
    "request_id",
    Kind::Text,
    Presence::Optional,
    "Your own name for this request, up to 128 bytes: the same name again is the same request, done once.",
);

const SESSION_ANSWER: &str = "`session_id`, `phase` (`running`, `terminating`, `ended`), `pid`, `outcome` (`null` while it runs; else `cause`, `status`, `output_complete`, `swept_pids`, `residual_pids`, times, `ladder`, `usage`), `stdout`, `stderr`, `cursor`, `omitted_bytes`, `log`.";

/// All tools.
pub(crate) static TOOLS: [Tool; 12] = [
    Tool {
        name: "session_start",
        title: "Start a session",
        about: "Runs a command as a session and waits for its end, up to `yield_time_ms`. If `phase` is still `running` then, the command goes on: use the `session_id` with the other tools. A command that fails is no error of the call: look at `outcome.status`.",
        arguments: &[
            aliased(
                "command",
                Kind::Text,
                Presence::Optional,
                &[alias("cmd")],
                "A command line for a shell. Either this or `argv`.",
            ),
            argument(
                "argv",
                Kind::Texts,
                Presence::Optional,
                "A program and its arguments, without a shell.",
            ),
            argument(
                "shell",
                Kind::Word(&["sh", "bash", "zsh"]),
                Presence::Default("\"sh\""),
                "Which shell runs `command`; it reads no start-up files.",
            ),
            aliased(
                "cwd",
                Kind::Text,
                Presence::Optional,
                &[alias("workdir")],
                "Working directory; relative paths start at the server's root.",
            ),
            argument(
                "env",
                Kind::TextMap,
                Presence::Optional,
                "Variables for this session. Values are never shown in any record.",
            ),
            argument(
                "env_keys",
                Kind::Texts,
                Presence::Optional,
                "Names of variables that the host has configured; their values are never shown.",
            ),
            argument(
                "stdin",
                Kind::Flag,
                Presence::Default("false"),
                "Whether to keep standard input open for `session_write`; else a reader sees end of file.",
            ),
            argument(
                "tty",
                Kind::Terminal,
                Presence::Default("false"),
                "Whether to run on a terminal, and its size. All output is in `stdout` then.",
            ),
            argument(
                "merge_stderr",
                Kind::Flag,
                Presence::Default("false"),
                "Whether standard error goes into `stdout`, in the order of the writes.",
            ),
            aliased(
                "background",
                Kind::Flag,
                Presence::Default("false"),
                &[alias("run_in_background")],
                "Whether to answer at once instead of waiting for the end.",
            ),
            argument(
                "yield_time_ms",
                Kind::Number,
                Presence::Default("10000"),
                "How long to wait for the end before answering, up to 30000. The command runs on.",
            ),
            argument(
                "timeout_ms",
                Kind::Number,
                Presence::Default("600000"),
                "After how long the session is ended, from its start.",
            ),
            argument(
                "idle_timeout_ms",
                Kind::Number,
                Presence::Optional,
                "After how long without output the session is ended.",
            ),
            argument(
                "grace_ms",
                Kind::Number,
                Presence::Default("2000"),
                "How long the session has between TERM and KILL whenever it is ended.",
            ),
            aliased(
                "max_output_bytes",
                Kind::Number,
                Presence::Default("32768"),
                &[Alias {
                    name: "max_output_tokens",
                    factor: 4,
                }],
                "Most text that this and later answers return, both streams together, 128 to 262144 bytes.",
            ),
            argument(
                "max_log_bytes",
                Kind::Number,
                Presence::Default("33554432"),
                "Disk that the session's log may take.",
            ),
            argument(
                "leftovers",
                Kind::Word(&["sweep", "keep"]),
                Presence::Default("\"sweep\""),
                "What happens to processes that are left when the command has exited: they are killed, or kept until `session_stop`.",
            ),
            argument(
                "label",
                Kind::Text,
                Presence::Optional,
                "A name for people, up to 256 bytes.",
            ),
            argument(
                "limits",
                Kind::Limits,
                Presence::Optional,
                "Further limits by policy field. Those that other arguments name too must say the same.",
            ),
            REQUEST_ID,
        ],
        answer: "`session_id`, `phase` (`running`, `terminating`, `ended`), `pid`, `outcome` (`null` while it runs; else `cause`, `status`, `output_complete`, `swept_pids`, `residual_pids`, times, `ladder`, `usage`), `stdout`, `stderr`, `cursor`, `omitted_bytes`, `log`, and `policy`: every limit that is not a plain default, with what was requested and what holds.",
        effect: Effect::Acts,
    },
    Tool {
        name: "session_poll",
        title: "Read output",
        about: "Reads a session's output and state. Without `cursor` it goes on where the last answer ended. Returns with the first new output, with the end, or when the time is up.",
        arguments: &[
            SESSION_ID,
            argument(
                "cursor",
                Kind::Text,
                Presence::Optional,
                "A `cursor` of an earlier answer: reads from there and moves nothing.",
            ),
            argument(
                "yield_time_ms",
                Kind::Number,
                Presence::Default("5000"),
                "How long to wait for output or the end, up to 30000; 0 answers at once.",
            ),
            MAX_OUTPUT,
            argument(
                "render",
                Kind::Word(&["raw", "plain", "screen"]),
                Presence::Default("\"raw\""),
                "How output is shown: `raw` as it was written; `plain` in lines, with carriage returns, backspace and colour codes resolved; `screen` the grid that a session on a terminal shows now, under `screen`, in place of text.",
            ),
        ],
        answer: SESSION_ANSWER,
        effect: Effect::Reads,
    },
    Tool {
        name: "session_write",
        title: "Write input",
        about: "Writes to a session's standard input (started with `stdin` or `tty`) and returns what it prints next. `accepted_bytes` tells how much the session took; the rest was not written. Send a line end to complete a line.",
        arguments: &[
            SESSION_ID,
            aliased(
                "input",
                Kind::Text,
                Presence::Optional,
                &[alias("chars")],
                "Text to write, up to 65536 bytes. Either this or `input_base64`. Empty text writes nothing and only reads.",
            ),
            argument(
                "input_base64",
                Kind::Text,
                Presence::Optional,
                "Bytes to write, in base 64.",
            ),
            argument(
                "wait_ms",
                Kind::Number,
                Presence::Default("2000"),
                "How long to wait for the input to be accepted, up to 30000.",
            ),
            argument(
                "yield_time_ms",
                Kind::Number,
                Presence::Default("250"),
                "How long to wait for output afterwards, up to 30000.",
            ),
            MAX_OUTPUT,
            REQUEST_ID,
        ],
        answer: "what `session_poll` answers, and `accepted_bytes`; `timed_out` where not all was accepted in time.",
        effect: Effect::Acts,
    },
    Tool {
        name: "session_close_stdin",
        title: "Close input",
        about: "Closes a session's standard input behind everything that was written, so that the program sees end of file. On a terminal the end of file is typed, and later input goes to whoever reads next.",
        arguments: &[SESSION_ID],
        answer: "`session_id`, `stdin` (`closed`).",
        effect: Effect::Sets,
    },
    Tool {
        name: "session_signal",
        title: "Send a signal",
        about: "Sends a signal to what runs in the foreground of a session. To end a session for sure, use `session_stop`.",
        arguments: &[
            SESSION_ID,
            argument(
                "signal",
                Kind::Signal,
                Presence::Required,
                "`INT`, `SIGINT` or a number from 1 to 64.",
            ),
        ],
        answer: "`session_id`, `signal`, `signal_name`.",
        effect: Effect::Acts,
    },
    Tool {
        name: "session_resize",
        title: "Resize a terminal",
        about: "Sets the size of a session's terminal.",
        arguments: &[
            SESSION_ID,
            argument("rows", Kind::Number, Presence::Required, "Rows, 1 to 65535."),
            argument("cols", Kind::Number, Presence::Required, "Columns, 1 to 65535."),
        ],
        answer: "`session_id`, `rows`, `cols`.",
        effect: Effect::Sets,
    },
    Tool {
        name: "session_stop",
        title: "Stop a session",
        about: "Ends a session with all its processes: TERM, then KILL after the grace. Answers when they are gone, or with `residual_pids` where they cannot be killed. Stopping twice is fine.",
        arguments: &[
            SESSION_ID,
            argument(
                "force",
                Kind::Flag,
                Presence::Default("false"),
                "Whether to KILL at once.",
            ),
            argument(
                "grace_ms",
                Kind::Number,
                Presence::Optional,
                "Time between TERM and KILL, up to 60000; the session's own when not given.",
            ),
            MAX_OUTPUT,
        ],
        answer: "what `session_poll` answers.",
        effect: Effect::Ends,
    },
    Tool {
        name: "session_read_log",
        title: "Read the log",
        about: "Reads a page of everything a session wrote, both streams in the order of the writes, from any offset. Reading takes nothing away.",
        arguments: &[
            SESSION_ID,
            argument(
                "offset",
                Kind::Number,
                Presence::Default("0"),
                "From which byte of the merged output; go on with `next_offset`.",
            ),
            argument(
                "max_bytes",
                Kind::Number,
                Presence::Default("32768"),
                "Most bytes to return, up to 262144.",
            ),
            argument(
                "stream",
                Kind::Word(&["stdout", "stderr"]),
                Presence::Optional,
                "Only this stream.",
            ),
            argument(
                "encoding",
                Kind::Word(&["text", "base64"]),
                Presence::Default("\"text\""),
                "`base64` gives the bytes exactly as they were written.",
            ),
        ],
        answer: "`runs` (each `offset`, `stream`, `time_ms`, `text` or `base64`), `next_offset`, `total_bytes`, `at_end`, `gap` (what the log's cap dropped at the offset, or `null`), `beyond_end` where the offset lies there.",
        effect: Effect::Reads,
    },
    Tool {
        name: "session_search_log",
        title: "Search the log",
        about: "Finds a text or a regular expression in all that a session wrote. One call looks through 16 MiB at the most; go on with `next_offset` until `at_end`.",
        arguments: &[
            SESSION_ID,
            argument("pattern", Kind::Text, Presence::Required, "What to look for."),
            argument(
                "regex",
                Kind::Flag,
                Presence::Default("false"),
                "Whether `pattern` is a regular expression; `^` and `$` match at lines, and a match lies within one stream.",
            ),
            argument(
                "from_offset",
                Kind::Number,
                Presence::Default("0"),
                "From which byte of the merged output; go on with `next_offset`.",
            ),
            argument(
                "max_matches",
                Kind::Number,
                Presence::Default("100"),
                "Most matches to return, up to 1000.",
            ),
            argument(
                "context_bytes",
                Kind::Number,
                Presence::Default("80"),
                "How much to show on either side of a match, up to 4096 bytes.",
            ),
        ],
        answer: "`matches` (each `offset`, `stream`, `text`), `next_offset`, `at_end`.",
        effect: Effect::Reads,
    },
    Tool {
        name: "session_list",
        title: "List sessions",
        about: "Lists your sessions in the order of their starts, those that ended as long as they can be read.",
        arguments: &[argument(
            "include_ended",
            Kind::Flag,
            Presence::Default("true"),
            "Whether to list sessions that have ended.",
        )],
        answer: "`sessions` (each `session_id`, `label`, `phase`, `outcome`, `age_ms`, `idle_ms`, `unread_bytes`).",
        effect: Effect::Reads,
    },
    Tool {
        name: "session_wait",
        title: "Wait for sessions",
        about: "Waits for one or several sessions instead of polling. Time up is no error: `timed_out` says so. `until` takes `exited` (the command itself), `closed` (no more output), `quiescent` (no process left); the other conditions answer `unsupported` at present.",
        arguments: &[
            argument(
                "sessions",
                Kind::Texts,
                Presence::Required,
                "Ids of the sessions, 1 to 256.",
            ),
            argument(
                "until",
                Kind::Conditions,
                Presence::Default("[\"exited\"]"),
                "For what to wait in each session; any of these will do.",
            ),
            argument(
                "mode",
                Kind::Word(&["any", "all"]),
                Presence::Default("\"any\""),
                "Whether one session will do, or all have to get there.",
            ),
            argument(
                "timeout_ms",
                Kind::Number,
                Presence::Default("30000"),
                "How long to wait, up to 300000.",
            ),
        ],
        answer: "`fired` (each `session_id`, `condition`, `cursor`), `timed_out`, and `impossible` for what can no longer come.",
        effect: Effect::Reads,
    },
    Tool {
        name: "session_inspect",
        title: "Inspect a session",
        about: "Tells all that is known of a session: every limit as requested and as it holds, by what means its processes are held, what was observed.",
        arguments: &[SESSION_ID],
        answer: "`session_id`, `label`, `phase`, `pid`, `outcome`, `decisions`, `receipt`, `containment`, `environment_names`, `residual_pids`, `output_bytes`, `redactions` (secrets of the host that were replaced in the output), `log`.",
        effect: Effect::Reads,
    },
];
