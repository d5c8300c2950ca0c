//! The files of a rotated output: their names, their order, and which may go.
//!
//! `-o run.jsonl.zst` becomes `run-000001-20261130T034500Z.jsonl.zst`, then
//! `run-000002-…`. The number goes on after a restart, so names sort as the files
//! began, whatever the clock did; the time is for people. No file is ever opened that
//! exists already.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::output::part::{Part, Publish};

/// Digits of the number, at least.
const DIGITS: usize = 6;
/// `20261130T034500Z`.
const STAMP: usize = 16;
/// What the name of a file ends with that cannot be read before it is complete.
const UNFINISHED: &str = ".tmp";

/// Which finished files stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    All,
    /// So many parts.
    Number(u64),
    /// So many bytes together.
    Bytes(u64),
}

/// The files of one output.
#[derive(Clone, Debug)]
pub struct Series {
    dir: PathBuf,
    /// Before the number; the first is that of the files that are made here, the others'
    /// files are kept and removed with them.
    stems: Vec<OsString>,
    /// After the time, with its dots.
    ending: OsString,
    /// Unreadable before they are complete.
    unfinished: bool,
    keep: Keep,
    next: u64,
}

/// A file of the series.
#[derive(Debug)]
struct Found {
    number: u64,
    path: PathBuf,
    bytes: u64,
    unfinished: bool,
}

impl Series {
    /// The series of `path`, of whose name `ending` is the end.
    pub fn new(path: &Path, ending: &str, unfinished: bool, keep: Keep) -> Self {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let stem = name.strip_suffix(ending.as_bytes()).unwrap_or(name);
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.into(),
            _ => PathBuf::from("."),
        };
        Self {
            dir,
            stems: vec![OsString::from_vec(stem.into())],
            ending: ending.into(),
            unfinished,
            keep,
            next: 1,
        }
    }

    /// Another series beside this one, `run` beside `run.events`, with the same numbers.
    /// What stays is decided by this one, for both.
    pub fn beside(&mut self, suffix: &str) -> Self {
        let mut stem = self.stems.first().cloned().unwrap_or_default();
        stem.push(suffix);
        self.stems.push(stem.clone());
        Self {
            stems: vec![stem],
            keep: Keep::All,
            ..self.clone()
        }
    }

    /// Continues the numbers of the files that are there, and removes what a tracer that
    /// was killed left unfinished.
    pub fn resume(&mut self) -> io::Result<()> {
        for found in self.scan()? {
            self.next = self.next.max(found.number.saturating_add(1));
            if found.unfinished {
                remove_unless_open(&found.path)?;
            }
        }
        Ok(())
    }

    /// The number that the next file will have at least.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    pub fn set_next(&mut self, number: u64) {
        self.next = number;
    }

    /// Makes the next file, with mode 0600.
    pub fn create(&mut self) -> io::Result<Part> {
        loop {
            let mut name = self.stems.first().cloned().unwrap_or_default();
            name.push(format!("-{:0DIGITS$}-{}", self.next, stamp()));
            name.push(&self.ending);
            let path = self.dir.join(&name);
            name.push(UNFINISHED);
            let (at, publish) = match self.unfinished {
                true => (self.dir.join(name), Publish::Add(path)),
                false => (path, Publish::Named),
            };
            let open = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&at);
            match open {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    self.next = self.next.saturating_add(1);
                }
                Err(e) => return Err(e),
                Ok(file) => {
                    self.next = self.next.saturating_add(1);
                    // Says to others that it is not finished. A file system without locks
                    // has none to tell.
                    let _ = file.try_lock();
                    return Ok(Part::new(file, at, publish));
                }
            }
        }
    }

    /// Removes the oldest finished files that are too many. `open` is being written.
    pub fn prune(&self, open: &Path) -> io::Result<()> {
        if self.keep == Keep::All {
            return Ok(());
        }
        let mut found: Vec<Found> = self.scan()?;
        found.retain(|f| !f.unfinished && f.path != open);
        found.sort_by_key(|f| std::cmp::Reverse(f.number));
        let mut parts = 0;
        let mut bytes = 0_u64;
        let mut last = None;
        for file in found {
            if last != Some(file.number) {
                parts += 1;
                last = Some(file.number);
            }
            bytes = bytes.saturating_add(file.bytes);
            let stays = match self.keep {
                Keep::All => true,
                Keep::Number(most) => parts <= most,
                Keep::Bytes(most) => bytes <= most,
            };
            if !stays {
                remove_unless_open(&file.path)?;
            }
        }
        Ok(())
    }

    /// The regular files whose whole name is of this series.
    fn scan(&self) -> io::Result<Vec<Found>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Some((number, unfinished)) = self.parse(&entry.file_name()) else {
                continue;
            };
            match fs::symlink_metadata(entry.path()) {
                Ok(meta) if meta.is_file() => all.push(Found {
                    number,
                    path: entry.path(),
                    bytes: meta.len(),
                    unfinished,
                }),
                _ => {}
            }
        }
        Ok(all)
    }

    /// The number in a name of this series, and whether the file is unfinished.
    fn parse(&self, name: &OsStr) -> Option<(u64, bool)> {
        let name = name.as_bytes();
        let (name, unfinished) = match name.strip_suffix(UNFINISHED.as_bytes()) {
            Some(name) if self.unfinished => (name, true),
            _ => (name, false),
        };
        let name = name.strip_suffix(self.ending.as_bytes())?;
        let of = |stem: &OsString| number(name.strip_prefix(stem.as_bytes())?);
        Some((self.stems.iter().find_map(of)?, unfinished))
    }
}

/// `-NNNNNN-YYYYMMDDTHHMMSSZ` → NNNNNN.
fn number(rest: &[u8]) -> Option<u64> {
    let rest = rest.strip_prefix(b"-")?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, stamp) = rest.split_at(digits);
    let stamp = stamp.strip_prefix(b"-")?;
    let is_stamp = stamp.len() == STAMP
        && stamp.iter().enumerate().all(|(at, b)| match at {
            8 => *b == b'T',
            15 => *b == b'Z',
            _ => b.is_ascii_digit(),
        });
    if digits < DIGITS || !is_stamp {
        return None;
    }
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Now, in UTC.
fn stamp() -> String {
    let mut text = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    text.retain(|c| c != '-' && c != ':');
    text
}

/// Removes a file unless a tracer that runs has it open.
fn remove_unless_open(path: &Path) -> io::Result<()> {
    let gone = |e: io::Error| match e.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(e),
    };
    match File::open(path) {
        Err(e) => gone(e),
        Ok(file) if file.try_lock().is_err() => Ok(()),
        Ok(_) => fs::remove_file(path).or_else(gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .expect("read")
            .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn series(dir: &Path, keep: Keep) -> Series {
        Series::new(&dir.join("run.jsonl.zst"), ".jsonl.zst", false, keep)
    }

    #[test]
    fn numbers_go_on_after_a_restart() {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut first = series(dir.path(), Keep::All);
        first.resume().expect("resume");
        let paths = [1, 2].map(|_| first.create().expect("create").path().to_owned());
        assert!(paths[0].to_string_lossy().contains("/run-000001-2"));
        let mut second = series(dir.path(), Keep::All);
        second.resume().expect("resume");
        let third = second.create().expect("create");
        assert!(third.path().to_string_lossy().contains("/run-000003-2"));
    }

    #[test]
    fn only_whole_names_are_of_the_series() {
        let series = series(Path::new("/x"), Keep::All);
        let parse = |name: &str| series.parse(OsStr::new(name));
        assert_eq!(
            parse("run-000012-20261130T034500Z.jsonl.zst"),
            Some((12, false))
        );
        assert_eq!(
            parse("run-1000000-20261130T034500Z.jsonl.zst"),
            Some((1_000_000, false))
        );
        for foreign in [
            "run.jsonl.zst",
            "run-000012-20261130T034500Z.jsonl",
            "run-000012-20261130T034500Z.jsonl.zst.tmp",
            "run-12-20261130T034500Z.jsonl.zst",
            "run-000012-20261130X034500Z.jsonl.zst",
            "run-000012.jsonl.zst",
            "running-000012-20261130T034500Z.jsonl.zst",
            "run-99999999999999999999999-20261130T034500Z.jsonl.zst",
        ] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_oldest_go_and_what_is_not_ours_stays() {
        let dir = tempfile::tempdir().expect("tempdir");
        let foreign = ["run.jsonl.zst", "run-000001-mine.jsonl.zst"];
        for name in foreign {
            fs::write(dir.path().join(name), "mine").expect("write");
        }
        let mut series = series(dir.path(), Keep::Number(2));
        for _ in 0..4 {
            // Finished at once: dropped.
            let mut part = series.create().expect("create");
            part.append(&[0; 100]).expect("append");
        }
        let open = series.create().expect("create");
        series.prune(open.path()).expect("prune");
        let left = names(dir.path());
        assert_eq!(left.len(), 5, "{left:?}");
        for number in ["000003", "000004", "000005"] {
            assert!(left.iter().any(|n| n.contains(number)), "{left:?}");
        }
        series.keep = Keep::Bytes(150);
        series.prune(open.path()).expect("prune");
        let left = names(dir.path());
        assert_eq!(left.len(), 4, "{left:?}");
        assert!(foreign.iter().all(|f| left.iter().any(|l| l == f)));
    }

    #[test]
    fn pairs_share_numbers_and_go_together() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("x.parquet");
        let mut rows = Series::new(&path, ".parquet", true, Keep::Number(1));
        let mut events = rows.beside(".events");
        for _ in 0..3 {
            for series in [&mut rows, &mut events] {
                let mut part = series.create().expect("create");
                part.publish().expect("publish");
            }
        }
        rows.prune(Path::new("")).expect("prune");
        let left = names(dir.path());
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left[0].starts_with("x-000003-") && left[1].starts_with("x.events-000003-"));
    }

    #[test]
    fn leftovers_go_unless_they_are_being_written() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("x.parquet");
        let stale = "x-000007-20261130T034500Z.parquet.tmp";
        fs::write(dir.path().join(stale), "half").expect("write");
        let mut first = Series::new(&path, ".parquet", true, Keep::All);
        first.resume().expect("resume");
        let open = first.create().expect("create");
        let mut second = Series::new(&path, ".parquet", true, Keep::All);
        second.resume().expect("resume");
        let left = names(dir.path());
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(open.path().exists() && left[0].starts_with("x-000008-"));
    }
}
