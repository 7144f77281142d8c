//! What starts processes: the guard, by the means that the configuration prefers.

use std::sync::Arc;

use procession_core::containment::Mechanism;
use procession_process::{GuardOptions, GuardPort, Preference, ProcessPort};

use crate::{config::ContainmentChoice, error::CommandError};

/// Starts the guard; where none can be had and no means was asked for, processes are started without one, and the
/// capabilities say so.
///
/// # Errors
/// When the means that was asked for is not to be had here, or not even the port without a guard is.
pub(crate) fn start(choice: ContainmentChoice) -> Result<Arc<dyn ProcessPort>, CommandError> {
    let mechanism = match choice {
        ContainmentChoice::Auto => return Ok(GuardPort::start_or_fall_back(GuardOptions::default())?),
        ContainmentChoice::Cgroup => Mechanism::Cgroup,
        ContainmentChoice::PidNamespace => Mechanism::PidNamespace,
        ContainmentChoice::PgidLock => Mechanism::PgidLock,
        ContainmentChoice::Subreaper => Mechanism::Subreaper,
        ContainmentChoice::ProcessGroup => Mechanism::ProcessGroup,
    };
    let options = GuardOptions::default().prefer(Preference::Only(mechanism));
    Ok(Arc::new(GuardPort::start(options)?))
}
