//! Where file systems are mounted: `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of mountinfo, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub fs_type: String,
    pub point: PathBuf,
}

/// The mounts that this process sees, in the order they were made; `proc` is
/// where procfs is.
pub fn mounts(proc: &Path) -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read(proc.join("self/mountinfo"))?))
}

/// Lines that are not understood are left out.
fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n').filter_map(line).collect()
}

fn line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|b| *b == b' ');
    // id, parent, device, root, mount point, options, any number of tags, "-", type.
    let point = unescape(words.nth(4)?);
    words.find(|w| *w == b"-")?;
    let fs_type = String::from_utf8(words.next()?.to_vec()).ok()?;
    Some(Mount {
        fs_type,
        point: PathBuf::from(OsString::from_vec(point)),
    })
}

/// The kernel writes space, tab, newline and backslash as `\` and three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        let octal = match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if *first == b'\\' => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        out.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_tags_and_with_strange_names() {
        let text = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            41 31 0:40 / /sys/fs/a\\040b\\134 rw shared:9 master:1 - cgroup2 none rw\n\
            \n42 31 0:40 / /cut\n";
        let found = parse(text);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[1],
            Mount {
                fs_type: "cgroup2".into(),
                point: "/sys/fs/a b\\".into()
            }
        );
        assert_eq!(unescape(b"\\04"), b"\\04");
        assert_eq!(unescape(b"\\777"), b"\\777");
    }

    #[test]
    fn this_machine_has_proc() {
        let all = mounts(Path::new("/proc")).unwrap();
        assert!(
            all.iter()
                .any(|m| m.fs_type == "proc" && m.point == Path::new("/proc"))
        );
    }
}
