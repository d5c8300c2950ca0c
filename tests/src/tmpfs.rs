//! A small file system that can be full.

use std::ffi::CString;
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// Mounted until it is dropped.
pub struct Tmpfs(TempDir);

impl Tmpfs {
    /// Of so many bytes. Needs root.
    pub fn mount(bytes: u64) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let target = c(dir.path());
        let options = CString::new(format!("size={bytes},mode=700")).expect("no NUL");
        // SAFETY: all are strings that end with NUL and live through the call.
        let r = unsafe {
            libc::mount(
                c"tmpfs".as_ptr(),
                target.as_ptr(),
                c"tmpfs".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV,
                options.as_ptr().cast(),
            )
        };
        assert_eq!(r, 0, "mount tmpfs: {}", io::Error::last_os_error());
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let target = c(self.0.path());
        // SAFETY: the string ends with NUL and lives through the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    }
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).expect("a path has no NUL")
}
