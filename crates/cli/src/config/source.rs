//! Which file is the configuration, and where values come from.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::error::ConfigError;

/// The variable that names a configuration file.
pub(crate) const CONFIG_VARIABLE: &str = "PROCESSION_CONFIG";

/// The longest configuration file, in bytes, inclusive.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The environment of this program, as a function so that tests need none.
pub(crate) type HostEnvironment<'e> = &'e dyn Fn(&str) -> Option<OsString>;

/// The text of the configuration file and which it is; none when there is no file and none was named.
///
/// The file that was named on the command line, else the one that `PROCESSION_CONFIG` names, else `config.toml` in the
/// user's configuration directory. One that was named has to be there.
///
/// # Errors
/// [`ConfigError::Read`] and [`ConfigError::TooLong`].
pub(super) fn read(
    named: Option<&Path>,
    environment: HostEnvironment<'_>,
) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let by_variable = || {
        environment(CONFIG_VARIABLE)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let (file, is_named) = match named.map(Path::to_path_buf).or_else(by_variable) {
        Some(file) => (file, true),
        None => match user_directory(environment, "XDG_CONFIG_HOME", ".config") {
            Some(directory) => (directory.join("procession/config.toml"), false),
            None => return Ok(None),
        },
    };
    match read_file(&file) {
        Ok(text) => Ok(Some((file, text))),
        Err(ConfigError::Read { source, .. })
            if !is_named
                && matches!(
                    source.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A directory of the user's by the XDG rules: the variable where it holds an absolute path, else below the home.
pub(crate) fn user_directory(
    environment: HostEnvironment<'_>,
    variable: &str,
    below_home: &str,
) -> Option<PathBuf> {
    let absolute = |name: &str| {
        environment(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))
}

fn read_file(file: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read {
        file: file.to_path_buf(),
        source,
    };
    let mut text = String::new();
    let opened = File::open(file).map_err(failed)?;
    opened
        .take(MAX_FILE_BYTES.saturating_add(1))
        .read_to_string(&mut text)
        .map_err(failed)?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes <= MAX_FILE_BYTES) {
        return Ok(text);
    }
    Err(ConfigError::TooLong {
        file: file.to_path_buf(),
        limit_bytes: MAX_FILE_BYTES,
    })
}
