//! Sessions as JSON: the same names in answers of tools and in reports of the command line.
//!
//! All names are in `snake_case` and end in their unit. Times `*_at_ms` count from the session's spawn, so that they
//! can be compared with its limits; what is not known is `null`, and a neighbour `*_reason` tells why where one can.

mod log;
mod matches;
mod outcome;
mod screen;
mod session;
mod time;

pub use self::{
    log::{LogPageText, log_page_base64, log_page_text, log_value},
    matches::log_matches_value,
    outcome::{outcome_value, status_value},
    session::{
        containment_value, decisions_value, field_value, inspection_value, notable_value, phase_str,
        poll_value, receipt_value, report_value, summary_value,
    },
    time::rfc3339,
};
