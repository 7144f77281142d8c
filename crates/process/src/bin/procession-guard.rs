//! The guard as a program of its own, for hosts that do not hook it into their `main`.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    procession_process::guard::run_if_asked();
    // Whoever starts it by hand has no use for it.
    ExitCode::from(2)
}
