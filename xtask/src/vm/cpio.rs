//! Writes an initramfs: a cpio archive in the "newc" format that the kernel unpacks.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// File types as in `st_mode`.
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

/// An archive that is being written. Paths are relative to the root; a file's directories are made by themselves.
pub struct Archive<W> {
    out: W,
    directories: BTreeSet<PathBuf>,
    inode: u32,
    offset: usize,
}

impl<W: Write> Archive<W> {
    pub fn new(out: W) -> Self {
        Self {
            out,
            directories: BTreeSet::new(),
            inode: 0,
            offset: 0,
        }
    }

    pub fn directory(&mut self, path: &Path) -> io::Result<()> {
        let ancestors: Vec<_> = path
            .ancestors()
            .filter(|dir| !dir.as_os_str().is_empty())
            .collect();
        for dir in ancestors.into_iter().rev() {
            if self.directories.insert(dir.to_owned()) {
                self.entry(dir, DIRECTORY | 0o755, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    pub fn file(&mut self, path: &Path, permissions: u32, content: &[u8]) -> io::Result<()> {
        self.with_parents(path, REGULAR | permissions, (0, 0), content)
    }

    pub fn symlink(&mut self, path: &Path, target: &str) -> io::Result<()> {
        self.with_parents(path, SYMLINK | 0o777, (0, 0), target.as_bytes())
    }

    pub fn character_device(&mut self, path: &Path, device: (u32, u32)) -> io::Result<()> {
        self.with_parents(path, CHARACTER | 0o600, device, &[])
    }

    /// Writes the end mark and gives back the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry(Path::new("TRAILER!!!"), 0, (0, 0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn with_parents(
        &mut self,
        path: &Path,
        mode: u32,
        device: (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        self.entry(path, mode, device, content)
    }

    fn entry(
        &mut self,
        path: &Path,
        mode: u32,
        device: (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        self.inode += 1;
        let too_big = |_| {
            io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{} exceeds 4 GiB", path.display()),
            )
        };
        let size = u32::try_from(content.len()).map_err(too_big)?;
        let name = path.as_os_str().as_encoded_bytes();
        let name_size = u32::try_from(name.len() + 1).map_err(too_big)?;
        // ino, mode, uid, gid, nlink, mtime, filesize, dev major/minor, rdev major/minor, namesize, check
        let fields = [
            self.inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0,
        ];
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08x}"));
        }
        self.write(header.as_bytes())?;
        self.write(name)?;
        self.write(b"\0")?;
        self.align()?;
        self.write(content)?;
        self.align()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.offset += bytes.len();
        self.out.write_all(bytes)
    }

    /// Names and contents each end on a multiple of four bytes.
    fn align(&mut self) -> io::Result<()> {
        while !self.offset.is_multiple_of(4) {
            self.write(b"\0")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_laid_out_as_the_kernel_expects() {
        let mut archive = Archive::new(Vec::new());
        archive.file(Path::new("bin/a"), 0o755, b"hello").unwrap();
        let bytes = archive.finish().unwrap();
        let expected = concat!(
            "070701",
            "00000001",
            "000041ed",
            "00000000",
            "00000000",
            "00000001",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000004",
            "00000000",
            "bin\0\0\0",
            "070701",
            "00000002",
            "000081ed",
            "00000000",
            "00000000",
            "00000001",
            "00000000",
            "00000005",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000006",
            "00000000",
            "bin/a\0",
            "hello\0\0\0",
            "070701",
            "00000003",
            "00000000",
            "00000000",
            "00000000",
            "00000001",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "0000000b",
            "00000000",
            "TRAILER!!!\0\0\0\0",
        );
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
