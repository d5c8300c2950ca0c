//! A small ext4 of the test's own, which can become read-only while it is written.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Mounted until it is dropped.
pub struct Ext4(TempDir);

impl Ext4 {
    /// Of so many bytes. Needs root.
    ///
    /// # Errors
    /// Why there can be none here.
    pub fn mount(bytes: u64) -> Result<Self, String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (image, target) = (dir.path().join("image"), dir.path().join("fs"));
        let file = File::create(&image).expect("a file in our own directory");
        file.set_len(bytes).expect("a file with a hole");
        std::fs::create_dir(&target).expect("our own directory");
        run(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
        let mount = ["-o", "loop,errors=remount-ro"];
        run(Command::new("mount").args(mount).args([&image, &target]))?;
        Ok(Self(dir))
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.0.path().join("fs")
    }

    /// From now on every write fails with EROFS, to files that are open, too, as after
    /// an error of the disk. There is no way back.
    pub fn make_read_only(&self) {
        let mount = ["-o", "remount,abort"];
        run(Command::new("mount").args(mount).arg(self.path())).expect("ext4 has this option");
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("--lazy").arg(self.path()));
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = Path::new(command.get_program()).display().to_string();
    let out = command.output().map_err(|e| format!("{program}: {e}"))?;
    let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    out.status
        .success()
        .then_some(())
        .ok_or(format!("{program}: {said}"))
}
