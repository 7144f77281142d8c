//! Validation of a spec, before anything has happened.

use std::ffi::OsStr;

use super::{ExecLimits, MAX_ENV_KEYS, MAX_LABEL_BYTES, Program, SessionSpec, SpecError};
use crate::field::Field;

impl SessionSpec {
    /// Whether the spec can be carried out at all.
    ///
    /// The host's limits are not looked at, that is the policy's; neither is the file system.
    ///
    /// # Errors
    /// The first fault in the order program, working directory, environment, label, limits.
    pub fn check(&self, exec: ExecLimits) -> Result<(), SpecError> {
        self.check_program(exec)?;
        if let Some(cwd) = &self.cwd {
            check_string("cwd", cwd.as_os_str(), exec)?;
        }
        self.check_environment(exec)?;
        self.check_total(exec)?;
        if let Some(label) = &self.label {
            check_length("label", label.len(), MAX_LABEL_BYTES as u64)?;
        }
        if let Some(term) = self
            .terminal
            .as_ref()
            .and_then(|terminal| terminal.term.as_deref())
        {
            check_string("tty.term", OsStr::new(term), exec)?;
        }
        self.check_limits()
    }

    fn check_program(&self, exec: ExecLimits) -> Result<(), SpecError> {
        match &self.program {
            Program::Shell { command, .. } => check_string("command", command, exec),
            Program::Argv(argv) => {
                let program = argv.first().ok_or(SpecError::EmptyArgv)?;
                if program.is_empty() {
                    return Err(SpecError::EmptyProgram);
                }
                for (index, argument) in argv.iter().enumerate() {
                    check_string(&format!("argv[{index}]"), argument, exec)?;
                }
                Ok(())
            }
        }
    }

    fn check_environment(&self, exec: ExecLimits) -> Result<(), SpecError> {
        check_count("env", self.env.len())?;
        check_count("env_keys", self.env_keys.len())?;
        for key in &self.env_keys {
            check_string("env_keys", OsStr::new(key), exec)?;
        }
        for (name, value) in &self.env {
            let shown: String = name.to_string_lossy().chars().take(64).collect();
            let bytes = name.as_encoded_bytes();
            if bytes.is_empty() || bytes.contains(&b'=') {
                return Err(SpecError::BadVariableName { name: shown });
            }
            let place = format!("env.{shown}");
            check_nul(&place, name)?;
            check_nul(&place, value.reveal())?;
            // The system takes name, `=` and value as one string.
            check_length(&place, name.len() + 1 + value.reveal().len(), exec.string_bytes)?;
        }
        Ok(())
    }

    /// Arguments and literal variables together; what the host adds is small against the limit.
    fn check_total(&self, exec: ExecLimits) -> Result<(), SpecError> {
        // Each string costs its end and a pointer besides its bytes.
        const EACH: u64 = 1 + 8;
        let argv = self.program.to_argv();
        let arguments: u64 = argv.iter().map(|argument| argument.len() as u64 + EACH).sum();
        let variables: u64 = self
            .env
            .iter()
            .map(|(name, value)| (name.len() + 1 + value.reveal().len()) as u64 + EACH)
            .sum();
        let bytes = arguments.saturating_add(variables);
        if bytes <= exec.total_bytes {
            return Ok(());
        }
        let place = if arguments >= variables { "argv" } else { "env" };
        Err(SpecError::TooLong {
            place: place.to_owned(),
            bytes,
            limit_bytes: exec.total_bytes,
        })
    }

    fn check_limits(&self) -> Result<(), SpecError> {
        for (field, value) in &self.requested() {
            // Size and flag of the terminal are the policy's to put right; here only their form counts.
            field.check(value)?;
        }
        if self.terminal.is_none() && self.limits.contains_key(&Field::TerminalSize) {
            return Err(SpecError::Conflict {
                place: "terminal_size",
                other: "no terminal",
            });
        }
        Ok(())
    }
}

fn check_string(place: &str, text: &OsStr, exec: ExecLimits) -> Result<(), SpecError> {
    check_nul(place, text)?;
    check_length(place, text.len(), exec.string_bytes)
}

fn check_nul(place: &str, text: &OsStr) -> Result<(), SpecError> {
    if text.as_encoded_bytes().contains(&0) {
        return Err(SpecError::Nul {
            place: place.to_owned(),
        });
    }
    Ok(())
}

fn check_length(place: &str, bytes: usize, limit_bytes: u64) -> Result<(), SpecError> {
    let bytes = bytes as u64;
    if bytes > limit_bytes {
        return Err(SpecError::TooLong {
            place: place.to_owned(),
            bytes,
            limit_bytes,
        });
    }
    Ok(())
}

fn check_count(place: &str, count: usize) -> Result<(), SpecError> {
    if count > MAX_ENV_KEYS {
        return Err(SpecError::TooMany {
            place: place.to_owned(),
            count: count as u64,
            limit: MAX_ENV_KEYS as u64,
        });
    }
    Ok(())
}
