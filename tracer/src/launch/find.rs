//! Finds a program as execvp(3) does.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{LaunchError, c_string};

/// Where to look without a `PATH`; confstr(_CS_PATH) of the C library.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The files to try, best first. More than one where `PATH` has several: the
/// user that the command runs as may not be allowed to execute the first.
pub(super) fn programs(name: &OsStr, path: Option<&OsStr>) -> Result<Vec<CString>, LaunchError> {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return Err(LaunchError::NotFound(name.to_owned()));
    }
    if bytes.contains(&b'/') {
        check(Path::new(name)).map_err(|errno| LaunchError::Exec {
            name: name.to_owned(),
            errno,
        })?;
        return Ok(vec![c_string(name)?]);
    }
    let mut found = Vec::new();
    let mut refused = None;
    for directory in path
        .unwrap_or(OsStr::new(DEFAULT_PATH))
        .as_bytes()
        .split(|b| *b == b':')
    {
        // An empty entry is the current directory.
        let file = Path::new(OsStr::from_bytes(directory)).join(name);
        match check(&file) {
            Ok(()) => found.push(c_string(file.as_os_str())?),
            Err(libc::EACCES) => refused = Some(libc::EACCES),
            Err(_) => {}
        }
    }
    match (found.is_empty(), refused) {
        (false, _) => Ok(found),
        (true, Some(errno)) => Err(LaunchError::Exec {
            name: name.to_owned(),
            errno,
        }),
        (true, None) => Err(LaunchError::NotFound(name.to_owned())),
    }
}

/// The errno with which exec would refuse `file`, as far as its mode tells.
fn check(file: &Path) -> Result<(), i32> {
    let metadata = fs::metadata(file).map_err(|e| e.raw_os_error().unwrap_or(libc::ENOENT))?;
    if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
        Ok(())
    } else {
        Err(libc::EACCES)
    }
}
