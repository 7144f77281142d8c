//! What starts processes: the guard, by the means that the configuration prefers.

use std::sync::Arc;

use procession_core::containment::Mechanism;
use procession_process::{GuardOptions, GuardPort, Preference, ProcessPort, UnixPort};

use crate::{config::ContainmentChoice, error::CommandError};

/// Whether processes are to outlive the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outliving {
    /// None is.
    Nobody,
    /// Those that a session keeps.
    Kept,
}

impl From<bool> for Outliving {
    fn from(keep: bool) -> Self {
        if keep { Self::Kept } else { Self::Nobody }
    }
}

/// Starts the guard; where none can be had and no means was asked for, processes are started without one, and the
/// capabilities say so.
///
/// What is to outlive the program cannot be held by a guard, which ends everything with its host.
///
/// # Errors
/// When the means that was asked for is not to be had here, or not even the port without a guard is.
pub(crate) fn start(
    choice: ContainmentChoice,
    outliving: Outliving,
) -> Result<Arc<dyn ProcessPort>, CommandError> {
    if outliving == Outliving::Kept {
        return match choice {
            ContainmentChoice::Auto | ContainmentChoice::ProcessGroup => Ok(Arc::new(UnixPort::start()?)),
            _ => Err(CommandError::Conflict {
                given: "--keep",
                reason: "the containment that is configured ends everything with the program",
            }),
        };
    }
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
