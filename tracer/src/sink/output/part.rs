//! One file of an output. What is appended is there as a whole or not at all: a file
//! system that has no room for it must not leave half a line.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether the error may go away by itself, when somebody makes room.
pub fn is_passing(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem
    )
}

/// What becomes of the file's name when it is complete.
#[derive(Debug)]
pub enum Publish {
    /// It has its name already.
    Named,
    /// It gets this name, and what had it before goes.
    Replace(PathBuf),
    /// It gets this name unless somebody else has it.
    Add(PathBuf),
}

#[derive(Debug)]
pub struct Part {
    file: File,
    path: PathBuf,
    /// Up to here all is whole.
    good: u64,
    publish: Publish,
}

impl Part {
    /// `file` is empty, a regular file, and lies at `path`.
    pub fn new(file: File, path: PathBuf, publish: Publish) -> Self {
        Self {
            file,
            path,
            good: 0,
            publish,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of `bytes`, or takes back what it has written.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.good += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Shrinking needs no room; should it fail all the same, the next attempt
                // overwrites what is there.
                let _ = self.file.set_len(self.good);
                self.file.seek(SeekFrom::Start(self.good))?;
                Err(error)
            }
        }
    }

    /// Gives a complete file its name. May be called again after an error.
    pub fn publish(&mut self) -> io::Result<()> {
        match &self.publish {
            Publish::Named => return Ok(()),
            Publish::Replace(name) => fs::rename(&self.path, name)?,
            Publish::Add(name) => {
                // Its name says that it is complete; it must be so after a power cut too.
                self.file.sync_data()?;
                rename_new(&self.path, name)?;
            }
        }
        self.publish = Publish::Named;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Not complete, it can be read by nobody, and takes room that may be what is missing.
        if !matches!(self.publish, Publish::Named) {
            let _ = fs::remove_file(&self.path);
        }
        // Whoever holds the file's lock lets go of it here and not with the descriptor, of which
        // a child has a copy that is being forked just now. Where there is none, it is no error.
        let _ = self.file.unlock();
    }
}

/// rename(2) that replaces nothing.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let c = |path: &Path| std::ffi::CString::new(path.as_os_str().as_bytes());
    let (from_c, to_c) = (c(from)?, c(to)?);
    // SAFETY: both are strings that end with NUL and live through the call.
    let result = unsafe {
        libc::renameat2(
            libc::AT_FDCWD,
            from_c.as_ptr(),
            libc::AT_FDCWD,
            to_c.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // The file system cannot (NFS, some FUSE).
        Some(libc::EINVAL | libc::ENOSYS) => {
            if to.try_exists()? {
                return Err(ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(dir: &Path, publish: Publish) -> Part {
        let path = dir.join("x.tmp");
        let file = File::create(&path).expect("create");
        Part::new(file, path, publish)
    }

    #[test]
    fn a_complete_file_replaces_or_is_added() {
        let dir = tempfile::tempdir().expect("tempdir");
        let name = dir.path().join("x");
        for round in ["one", "two"] {
            let mut part = part(dir.path(), Publish::Replace(name.clone()));
            part.append(round.as_bytes()).expect("append");
            part.publish().expect("publish");
            drop(part);
            assert_eq!(fs::read(&name).expect("read"), round.as_bytes());
        }
        let mut part = part(dir.path(), Publish::Add(name.clone()));
        let error = part.publish().expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        fs::remove_file(&name).expect("remove");
        part.publish().expect("free now");
        assert!(name.exists());
    }

    #[test]
    fn its_lock_ends_with_it() {
        let dir = tempfile::tempdir().expect("tempdir");
        let part = part(dir.path(), Publish::Named);
        part.file.try_lock().expect("lock");
        // As a child has it until its exec.
        let copy = part.file.try_clone().expect("copy");
        let path = part.path().to_owned();
        drop(part);
        let file = File::open(path).expect("open");
        assert!(file.try_lock().is_ok(), "nobody writes it any more");
        drop(copy);
    }

    #[test]
    fn an_incomplete_file_does_not_stay() {
        let dir = tempfile::tempdir().expect("tempdir");
        drop(part(dir.path(), Publish::Replace(dir.path().join("x"))));
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 0);
    }
}
