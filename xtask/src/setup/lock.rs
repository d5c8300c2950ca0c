//! One setup at a time on a machine.

use std::fs::{File, TryLockError};

use anyhow::{Context as _, Result};

use crate::paths;

/// Waits until no other process sets up; others wait until the file is dropped.
pub fn take() -> Result<File> {
    let path = paths::cache()?.join("setup.lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("xtask: another xtask is setting up this machine; waiting for it");
            file.lock()
                .with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    Ok(file)
}
