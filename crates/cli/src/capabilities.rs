//! `procession capabilities`.

use std::io::Write;

use procession_policy::{CapabilitiesView, explain_capabilities};

use crate::{
    cli::Format,
    config::Configuration,
    error::CommandError,
    output::{print, print_json},
    port,
};

/// Prints what this machine can enforce, as it was found by trying.
///
/// # Errors
/// When processes cannot be started here, or standard output cannot be written.
pub(crate) fn capabilities(format: Format, configuration: &Configuration) -> Result<u8, CommandError> {
    let capabilities = port::start(configuration.containment)?.capabilities();
    if format.json {
        print_json(&CapabilitiesView(&capabilities))
    } else {
        print(|out| out.write_all(explain_capabilities(&capabilities).as_bytes()))
    }
}
