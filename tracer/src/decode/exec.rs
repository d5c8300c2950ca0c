//! Puts an exec together out of its record and the text records after it.

use std::sync::Arc;

use tracer_common::record::{ExecRecord, Inline, Text, flags, section};

use super::convert::{known_id, parent};
use super::error::DecodeError;
use super::read::{read, rest};
use super::recent::Recent;
use super::settings::Settings;
use crate::model::{Args, Bytes, Comm, Event, Exec, Field, ProcId, Reason};

/// Most text of one exec that is kept. The kernel itself takes at most 6 MiB of
/// argv and environment (three quarters of `_STK_LIM`, fs/exec.c); the rest is
/// room for file name and cwd.
const MAX_TEXT: usize = (6 << 20) + (64 << 10);

/// Bytes that arrive in pieces, in order.
#[derive(Default)]
struct Pieces {
    bytes: Vec<u8>,
    /// A piece is missing: what came after it is of no use.
    hole: bool,
}

impl Pieces {
    fn add(&mut self, offset: u32, piece: &[u8]) {
        if self.hole || offset as usize != self.bytes.len() {
            self.hole = true;
            return;
        }
        self.bytes.reserve_exact(piece.len());
        self.bytes.extend_from_slice(piece);
    }

    fn finish(self, true_len: u32, fault: bool, lost: bool) -> Field<Args> {
        let whole = self.bytes.len() == true_len as usize && !self.hole;
        let nothing = self.bytes.is_empty();
        let args = Args(self.bytes.into());
        match (whole && !fault, nothing) {
            (true, _) => Field::Full(args),
            (false, true) if fault => Field::Missing(Reason::Fault),
            (false, true) if lost || self.hole => Field::Missing(Reason::Lost),
            (false, _) => Field::Truncated(args),
        }
    }
}

/// Paths that execs named lately.
pub(super) struct Paths {
    files: Recent,
    /// Those that are whole.
    directories: Recent,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            files: Recent::new(|raw| raw.into()),
            directories: Recent::new(|raw| path(raw, false)),
        }
    }
}

/// An exec whose text records are still to come.
pub(super) struct Pending {
    /// Its place in the ring.
    order: u64,
    record: ExecRecord,
    left: u16,
    /// File name and cwd, once the first piece has come.
    first: Option<(Bytes, Bytes)>,
    argv: Pieces,
    env: Pieces,
}

impl Pending {
    pub fn new(order: u64, record: ExecRecord) -> Self {
        let (argv, env) = (Pieces::default(), Pieces::default());
        Self {
            order,
            record,
            left: record.pieces,
            first: None,
            argv,
            env,
        }
    }

    pub const fn is_complete(&self) -> bool {
        self.left == 0
    }

    pub const fn ts(&self) -> u64 {
        self.record.h.ts
    }

    pub const fn seq(&self) -> u32 {
        self.record.h.seq
    }

    /// Takes one text record; `body` is what lies behind the struct.
    pub fn add(&mut self, text: &Text, body: &[u8], paths: &mut Paths) -> Result<(), DecodeError> {
        self.left = self.left.saturating_sub(1);
        let bad = DecodeError::Length { kind: text.h.kind };
        let held = self.argv.bytes.len() + self.env.bytes.len();
        let body = body
            .get(..text.len as usize)
            .filter(|b| held + b.len() <= MAX_TEXT)
            .ok_or(bad)?;
        match text.section {
            section::FIRST => self
                .first(text.filename_len, text.cwd_len, body, paths)
                .ok_or(bad)?,
            section::ARGV => self.argv.add(text.offset, body),
            section::ENV => self.env.add(text.offset, body),
            _ => return Err(bad),
        }
        Ok(())
    }

    /// Takes the text of a short one; `behind` is what lies behind its fixed part.
    pub fn inline(&mut self, behind: &[u8], paths: &mut Paths) -> Option<()> {
        let text: Inline = read(behind)?;
        let body = rest::<Inline>(behind).get(..text.len as usize)?;
        self.first(text.filename_len, text.cwd_len, body, paths)
    }

    fn first(&mut self, filename: u16, cwd: u16, body: &[u8], paths: &mut Paths) -> Option<()> {
        let (filename, body) = body.split_at_checked(usize::from(filename))?;
        let (cwd, argv) = body.split_at_checked(usize::from(cwd))?;
        let has = |flag| self.record.h.flags & flag != 0;
        let cwd = if has(flags::CWD_CUT) {
            path(cwd, true)
        } else {
            paths.directories.get(cwd)
        };
        let cwd = if has(flags::CWD_DELETED) {
            // As d_path() in the kernel marks it, and so /proc.
            [cwd.as_slice(), b" (deleted)"].concat().into()
        } else {
            cwd
        };
        self.first = Some((paths.files.get(filename), cwd));
        self.argv.add(0, argv);
        Some(())
    }

    /// Gives the exec out, with what has come; what has not is marked.
    pub fn emit(self, settings: &mut Settings, out: &mut impl FnMut(u64, Event)) {
        let order = self.order;
        out(order, Event::Exec(Arc::new(self.finish(settings))));
    }

    fn finish(self, settings: &mut Settings) -> Exec {
        let r = &self.record;
        let has = |flag: u8| r.h.flags & flag != 0;
        let fault = has(flags::USER_FAULT);
        let lost = r.pieces_lost != 0 || self.left != 0;
        let mark = |bytes, cut| {
            if cut {
                Field::Truncated(bytes)
            } else {
                Field::Full(bytes)
            }
        };
        let (filename, cwd, argv) = match self.first {
            Some((filename, cwd)) => (
                mark(filename, has(flags::FILENAME_CUT)),
                if settings.known.cwd {
                    mark(cwd, has(flags::CWD_CUT))
                } else {
                    Field::Missing(Reason::Kernel)
                },
                self.argv.finish(r.argv_len, fault, lost),
            ),
            None => (
                Field::Missing(Reason::Lost),
                Field::Missing(Reason::Lost),
                Field::Missing(Reason::Lost),
            ),
        };
        Exec {
            ts: r.h.ts,
            cpu: Some(u32::from(r.h.cpu)),
            id: ProcId::exact(r.h.tgid, r.h.start),
            tid: r.h.tid,
            old_tid: Some(r.old_tid).filter(|tid| *tid != 0 && *tid != r.h.tgid),
            parent: parent(r.ppid, r.parent_start),
            comm: Comm(r.comm),
            filename,
            argv,
            env: settings
                .env
                .then(|| self.env.finish(r.env_len, fault, lost)),
            cwd,
            uid: known_id(r.uid),
            euid: known_id(r.euid),
            gid: known_id(r.gid),
            egid: known_id(r.egid),
            loginuid: known_id(r.loginuid),
            sid: Some(r.sid).filter(|id| *id != 0),
            pgid: Some(r.pgid).filter(|id| *id != 0),
            tty: terminal(&r.tty),
            cgroup: settings.cgroup_path(r.cgroup_id),
            ns_pid: Some(r.ns_pid).filter(|id| *id != 0),
            by_kernel: has(flags::KTHREAD),
            root: has(flags::ROOT),
        }
    }
}

/// The kernel's name of a terminal as that of its file in /dev, and as ps(1) has it:
/// they differ for pseudo-terminals, `pts3` and `pts/3`.
fn terminal(name: &[u8]) -> Option<Bytes> {
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    match name.strip_prefix(b"pts") {
        Some(number) if number.first().is_some_and(u8::is_ascii_digit) => {
            Some([b"pts/", number].concat().into())
        }
        _ => (!name.is_empty()).then(|| name.into()),
    }
}

/// `"b\0a\0"` → `/a/b`. Where the upper end was cut, the path does not begin
/// with a slash.
fn path(leaf_first: &[u8], cut: bool) -> Bytes {
    let mut path = Vec::with_capacity(leaf_first.len() + 1);
    let parts = leaf_first
        .split(|b| *b == 0)
        .rev()
        .filter(|part| !part.is_empty() && *part != b"/");
    for part in parts {
        if !(cut && path.is_empty()) {
            path.push(b'/');
        }
        path.extend_from_slice(part);
    }
    if path.is_empty() && !cut {
        path.push(b'/');
    }
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_have_the_names_of_their_files() {
        let name = |kernel: &[u8]| terminal(kernel).map(|n| n.as_slice().to_vec());
        assert_eq!(name(b"pts12\0\0"), Some(b"pts/12".to_vec()));
        assert_eq!(name(b"ttyS0\0"), Some(b"ttyS0".to_vec()));
        assert_eq!(name(b"\0\0"), None);
    }

    #[test]
    fn cwd_is_joined_from_the_leaf_up() {
        assert_eq!(path(b"b\0a\0", false).as_slice(), b"/a/b");
        assert_eq!(path(b"", false).as_slice(), b"/");
        assert_eq!(path(b"/\0", false).as_slice(), b"/");
        assert_eq!(path(b"c\0b\0", true).as_slice(), b"b/c");
        assert_eq!(path(b"", true).as_slice(), b"");
    }
}
