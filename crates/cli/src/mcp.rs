//! `procession mcp`: the MCP server on standard input and output.

use std::{
    fmt,
    io::{self, Write},
    path::Path,
};

use procession_core::environment::Preset;
use procession_mcp::{ServeOptions, serve, stdio};
use tokio::runtime;
use tracing::{Level, Metadata};
use tracing_subscriber::{
    EnvFilter, Layer, filter::filter_fn, fmt::MakeWriter, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::{
    cli::McpOptions,
    config::{Configuration, HostEnvironment},
    error::CommandError,
    host::HostSetup,
    port,
    run::signals::Signals,
};

/// Libraries that show whole messages below this level, and with them what is written to sessions.
const TALKATIVE: [&str; 3] = ["rmcp", "ractor_cluster", "ractor"];

/// Serves sessions until standard input ends or a signal asks for the end; all sessions end with the server.
///
/// # Errors
/// When the server could not be started, or failed.
pub(crate) fn mcp(
    options: &McpOptions,
    configuration: &Configuration,
    environment: HostEnvironment<'_>,
) -> Result<u8, CommandError> {
    log_to_stderr();
    let root = options.root.as_deref();
    let is_configured = [&configuration.policy.defaults, &configuration.policy.ceilings]
        .iter()
        .any(|values| values.contains_key(&procession_core::Field::CwdRoot));
    // Where the server was started, unless somebody says otherwise.
    let root = root.or_else(|| (!is_configured).then_some(Path::new(".")));
    let setup = HostSetup::new(configuration, root, Preset::Agent, environment)?;
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| CommandError::Runtime { source })?;
    let served = runtime.block_on(serve_sessions(&setup));
    // A read of standard input may still be waiting.
    runtime.shutdown_background();
    setup.retire();
    served.map(|()| 0)
}

async fn serve_sessions(setup: &HostSetup) -> Result<(), CommandError> {
    let mut signals = Signals::listen().map_err(|source| CommandError::Runtime { source })?;
    let port = port::start(setup.containment)?;
    let system = setup.builder(port).start().await?;
    setup.sweep_in_background();
    let mut options = ServeOptions::default();
    if let Some(grace) = setup.shutdown_grace {
        options.shutdown_grace = grace;
    }
    let (input, output) = stdio();
    let stop = async move {
        signals.next().await;
    };
    let report = serve(system, HostSetup::owner("mcp")?, options, input, output, stop).await?;
    for left in &report.left {
        tracing::warn!(session = %left.session, pid = left.pid, "a session could not be ended");
    }
    Ok(())
}

/// Sends traces to standard error, warnings unless `RUST_LOG` says otherwise, and never what sessions read or write.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Quiet)
        .with_ansi(false)
        // It would tell of its own failed writes on standard error, and panic where that is closed.
        .log_internal_errors(false)
        .with_filter(filter_fn(is_discreet));
    // A second subscriber is refused; there is none before.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}

fn is_discreet(metadata: &Metadata<'_>) -> bool {
    let belongs_to = |name: &str| {
        metadata
            .target()
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    *metadata.level() <= Level::INFO || !TALKATIVE.iter().any(|name| belongs_to(name))
}

/// Standard error, whose failures are nobody's.
#[derive(Debug, Clone, Copy)]
struct Quiet;

impl Write for Quiet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().lock().write_all(bytes);
        Ok(bytes.len())
    }

    fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> io::Result<()> {
        let _ = io::stderr().lock().write_fmt(arguments);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Quiet {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Collects the targets of the events that pass.
    #[derive(Debug, Clone, Default)]
    struct Passed(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Passed {
        fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            self.0.lock().expect("no panic").push(format!(
                "{} {}",
                event.metadata().level(),
                event.metadata().target()
            ));
        }
    }

    #[test]
    fn what_shows_whole_messages_is_never_traced() {
        let passed = Passed::default();
        let subscriber =
            tracing_subscriber::registry().with(passed.clone().with_filter(filter_fn(is_discreet)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::trace!(target: "rmcp::service", "a request");
            tracing::debug!(target: "rmcp", "a response");
            tracing::debug!(target: "ractor_cluster::node", "a frame");
            tracing::info!(target: "rmcp", "no payload");
            tracing::trace!(target: "procession_actors", "no payload either");
            tracing::trace!(target: "rmcpx", "another library");
        });
        let passed = passed.0.lock().expect("no panic");
        assert_eq!(*passed, ["INFO rmcp", "TRACE procession_actors", "TRACE rmcpx"]);
    }
}
