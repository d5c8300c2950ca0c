//! The stack that execve builds: argc, argv, environment and auxiliary vector
//! as pointers and numbers, above them the strings (fs/binfmt_elf.c,
//! create_elf_tables; fs/exec.c, copy_strings). Between exec and the first
//! instruction of the program nobody has changed it.

use std::io;

use super::parse::Stat;
use super::proc::read_memory;
use crate::model::{Args, Bytes, Field, Reason};

/// Longest file name that execve(2) takes.
const FILENAME_MAX: usize = 4096;

/// More pointers than this are not read; /proc tells the ids then.
const VECTORS_MAX: usize = 32 * 1024;

/// Real and effective ids as the process itself sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    pub uid: u32,
    pub euid: u32,
    pub gid: u32,
    pub egid: u32,
}

pub struct Stack {
    pub argv: Field<Args>,
    pub env: Option<Field<Args>>,
    /// As execve got it.
    pub filename: Field<Bytes>,
    pub ids: Option<Ids>,
}

impl Stack {
    pub const fn missing(reason: Reason, env: bool) -> Self {
        Self {
            argv: Field::Missing(reason),
            env: if env {
                Some(Field::Missing(reason))
            } else {
                None
            },
            filename: Field::Missing(reason),
            ids: None,
        }
    }

    /// Whether `stat` tells where the strings are; it does not where the
    /// program is not readable to us, and then its memory is neither.
    pub const fn is_told(stat: &Stat) -> bool {
        stat.arg_start != 0 && stat.arg_end > stat.arg_start && stat.env_end >= stat.env_start
    }

    /// Reads all with one call. `cap` limits argv, and the environment if it
    /// is wanted, each; `buf` is memory to reuse.
    pub fn read(
        pid: u32,
        stat: &Stat,
        cap: usize,
        env: bool,
        buf: &mut Vec<u8>,
    ) -> io::Result<Self> {
        let length =
            |from: u64, to: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        let vectors = length(stat.start_stack, stat.arg_start);
        let vectors = if vectors > VECTORS_MAX { 0 } else { vectors };
        let arg_len = length(stat.arg_start, stat.arg_end);
        let env_len = length(stat.env_start, stat.env_end);
        let arg_take = arg_len.min(cap);
        let env_take = if env { env_len.min(cap) } else { 0 };
        let want = vectors + arg_take + env_take + FILENAME_MAX;
        if buf.len() < want {
            buf.resize(want, 0);
        }
        let ranges = [
            (stat.start_stack, vectors),
            (stat.arg_start, arg_take),
            (stat.env_start, env_take),
            (stat.env_end, FILENAME_MAX),
        ];
        // The stack ends behind the file name: fewer bytes than asked for is usual.
        let n = read_memory(pid, &ranges, buf.get_mut(..want).unwrap_or_default())?;
        let read = buf.get(..n).unwrap_or_default();
        let (head, rest) = read.split_at(vectors.min(read.len()));
        let (argv, rest) = rest.split_at(arg_take.min(rest.len()));
        let (envp, rest) = rest.split_at(env_take.min(rest.len()));
        let filename = match memchr::memchr(0, rest) {
            Some(end) => Field::Full(Bytes::from(rest.get(..end).unwrap_or_default())),
            None if rest.is_empty() => Field::Missing(Reason::Fault),
            None => Field::Truncated(Bytes::from(rest)),
        };
        Ok(Self {
            argv: args(argv, arg_take, arg_len),
            env: env.then(|| args(envp, env_take, env_len)),
            filename,
            ids: ids(head, stat.arg_start),
        })
    }
}

/// What was read of a vector of which `wanted` bytes were asked for.
fn args(bytes: &[u8], wanted: usize, whole: usize) -> Field<Args> {
    let args = Args(bytes.into());
    if bytes.len() == whole {
        Field::Full(args)
    } else if bytes.is_empty() && wanted > 0 {
        Field::Missing(Reason::Fault)
    } else {
        Field::Truncated(args)
    }
}

/// The ids in the auxiliary vector. `None` where `head` is not laid out in
/// words of this machine's size (a 32-bit program).
fn ids(head: &[u8], arg_start: u64) -> Option<Ids> {
    const WORD: usize = size_of::<usize>();
    let mut words = head
        .as_chunks::<WORD>()
        .0
        .iter()
        .map(|w| usize::from_ne_bytes(*w));
    let argc = words.next()?;
    // The first argument's pointer proves the layout.
    if argc == 0 || words.next()? as u64 != arg_start {
        return None;
    }
    // The rest of argv, its end, the environment and its end.
    (words.nth(argc - 1)? == 0).then_some(())?;
    words.find(|w| *w == 0)?;
    let (mut uid, mut euid, mut gid, mut egid) = (None, None, None, None);
    loop {
        let (key, value) = (words.next()?, words.next()?);
        let to = match key as u64 {
            libc::AT_NULL => break,
            libc::AT_UID => &mut uid,
            libc::AT_EUID => &mut euid,
            libc::AT_GID => &mut gid,
            libc::AT_EGID => &mut egid,
            _ => continue,
        };
        *to = u32::try_from(value).ok();
    }
    Some(Ids {
        uid: uid?,
        euid: euid?,
        gid: gid?,
        egid: egid?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(words: &[usize]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn what_was_not_asked_for_is_cut_and_no_fault() {
        let cut = Field::Truncated(Args(b"".as_slice().into()));
        assert_eq!(args(b"", 0, 5), cut);
        assert_eq!(args(b"", 5, 5), Field::Missing(Reason::Fault));
        assert_eq!(args(b"", 0, 0), Field::Full(Args(b"".as_slice().into())));
    }

    #[test]
    fn ids_behind_argv_and_environment() {
        let whole = head(&[
            2, 0x7000, 0x7005, 0, 0x7009, 0, 6, 4096, 11, 1, 12, 2, 13, 3, 14, 4, 0, 0, 99,
        ]);
        let want = Ids {
            uid: 1,
            euid: 2,
            gid: 3,
            egid: 4,
        };
        assert_eq!(ids(&whole, 0x7000), Some(want));
        assert_eq!(ids(&whole, 0x7001), None, "another layout");
        assert_eq!(
            ids(&head(&[1, 0x7000, 7, 0]), 0x7000),
            None,
            "argv does not end"
        );
        assert_eq!(ids(&head(&[usize::MAX, 0x7000, 0]), 0x7000), None);
        assert_eq!(ids(&head(&[0, 0, 0]), 0), None);
        for n in 0..whole.len() - 24 {
            assert_eq!(ids(&whole[..n], 0x7000), None, "cut at {n}");
        }
    }
}
