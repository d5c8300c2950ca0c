//! The formats of the few files of /proc that the tracer reads.

use crate::model::{Bytes, Comm};

/// The members of /proc/PID/stat that are used, as proc_pid_stat(5) has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub comm: Comm,
    pub ppid: u32,
    pub pgid: u32,
    pub sid: u32,
    pub tty: u32,
    pub minflt: u64,
    /// Faults of the children that it waited for.
    pub cminflt: u64,
    pub majflt: u64,
    /// Clock ticks.
    pub utime: u64,
    pub stime: u64,
    /// Clock ticks since boot.
    pub start: u64,
    /// A thread other than the leader: its exit signal is −1.
    pub thread: bool,
    /// Where the vectors, argv and the environment lie; 0 if that may not be known.
    pub start_stack: u64,
    pub arg_start: u64,
    pub arg_end: u64,
    pub env_start: u64,
    pub env_end: u64,
}

pub fn numbers<'a, T: std::str::FromStr + 'a>(text: &'a [u8]) -> impl Iterator<Item = T> + 'a {
    text.split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty())
        .filter_map(number)
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// comm may hold any byte, `)` and newline too: it ends at the last `)`.
pub fn stat(text: &[u8]) -> Option<Stat> {
    let open = memchr::memchr(b'(', text)?;
    let close = memchr::memrchr(b')', text)?;
    let comm = Comm::new(text.get(open + 1..close)?);
    let mut word = text
        .get(close + 1..)?
        .split(|b| *b == b' ' || *b == b'\n')
        .filter(|w| !w.is_empty());
    // Position in `word` of the field that the manual counts as `n` is n − 3.
    let mut at = 3;
    let mut field = |n: usize| {
        let w = word.nth(n - at);
        at = n + 1;
        w
    };
    Some(Stat {
        comm,
        ppid: number(field(4)?)?,
        pgid: number(field(5)?)?,
        sid: number(field(6)?)?,
        tty: number::<i32>(field(7)?)?.cast_unsigned(),
        minflt: number(field(10)?)?,
        cminflt: number(field(11)?)?,
        majflt: number(field(12)?)?,
        utime: number(field(14)?)?,
        stime: number(field(15)?)?,
        start: number(field(22)?)?,
        start_stack: number(field(28)?)?,
        thread: field(38)? == b"-1",
        arg_start: number(field(48)?)?,
        arg_end: number(field(49)?)?,
        env_start: number(field(50)?)?,
        env_end: number(field(51)?)?,
    })
}

/// The members of /proc/PID/status that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub comm: Comm,
    pub tgid: u32,
    pub ppid: u32,
    pub uid: u32,
    pub euid: u32,
    pub gid: u32,
    pub egid: u32,
    /// Pid in the innermost namespace, if it has more than one.
    pub ns_pid: Option<u32>,
    /// Peak resident set, bytes; absent once the memory is gone.
    pub max_rss: Option<u64>,
    /// Who traces it; 0: nobody.
    pub tracer_pid: u32,
    pub no_new_privs: bool,
    /// Effective capabilities.
    pub cap_eff: u64,
    /// Masks of the signals that are ignored and caught.
    pub ignored: u64,
    pub caught: u64,
    /// Context switches of this thread.
    pub nvcsw: u64,
    pub nivcsw: u64,
}

pub fn status(text: &[u8]) -> Option<Status> {
    let mut s = Status::default();
    let mut tgid = None;
    let mut rest = text;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (line, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        // A first look at one byte skips most of some sixty lines.
        if !matches!(
            line.first(),
            Some(b'C' | b'N' | b'T' | b'P' | b'U' | b'G' | b'V' | b'S' | b'v' | b'n')
        ) {
            continue;
        }
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        let (key, value) = line.split_at(colon);
        let value = value.get(2..).unwrap_or_default();
        let first = || numbers::<u64>(value).next().unwrap_or(0);
        match key {
            b"Name" => s.comm = Comm::new(&unescape(value)),
            b"Tgid" => tgid = numbers(value).next(),
            b"PPid" => s.ppid = numbers(value).next()?,
            b"Uid" => (s.uid, s.euid) = two(value)?,
            b"Gid" => (s.gid, s.egid) = two(value)?,
            b"NSpid" => s.ns_pid = numbers(value).skip(1).last(),
            b"VmHWM" => s.max_rss = Some(first() * 1024),
            b"NoNewPrivs" => s.no_new_privs = first() != 0,
            b"TracerPid" => s.tracer_pid = numbers(value).next()?,
            b"CapEff" => s.cap_eff = mask(value),
            b"SigIgn" => s.ignored = mask(value),
            b"SigCgt" => s.caught = mask(value),
            b"voluntary_ctxt_switches" => s.nvcsw = first(),
            b"nonvoluntary_ctxt_switches" => s.nivcsw = first(),
            _ => {}
        }
    }
    s.tgid = tgid?;
    Some(s)
}

fn two(value: &[u8]) -> Option<(u32, u32)> {
    let mut n = numbers(value);
    Some((n.next()?, n.next()?))
}

fn mask(value: &[u8]) -> u64 {
    std::str::from_utf8(value)
        .ok()
        .and_then(|v| u64::from_str_radix(v.trim(), 16).ok())
        .unwrap_or(0)
}

/// `Name:` writes a newline as `\n` and a backslash as `\\`.
fn unescape(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(b) = bytes.next() {
        match (b, bytes.as_slice().first()) {
            (b'\\', Some(b'n')) => {
                out.push(b'\n');
                bytes.next();
            }
            (b'\\', Some(b'\\')) => {
                out.push(b'\\');
                bytes.next();
            }
            _ => out.push(*b),
        }
    }
    out
}

/// /proc/PID/io, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    pub rchar: u64,
    pub wchar: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub cancelled_write_bytes: u64,
}

pub fn io(text: &[u8]) -> Option<Io> {
    let mut io = Io::default();
    let mut members = 0;
    for line in text.split(|b| *b == b'\n') {
        let mut words = line.split(|b| *b == b' ');
        let (Some(key), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        let to = match key {
            b"rchar:" => &mut io.rchar,
            b"wchar:" => &mut io.wchar,
            b"read_bytes:" => &mut io.read_bytes,
            b"write_bytes:" => &mut io.write_bytes,
            b"cancelled_write_bytes:" => &mut io.cancelled_write_bytes,
            _ => continue,
        };
        *to = number(value)?;
        members += 1;
    }
    (members == 5).then_some(io)
}

/// The first two members of /proc/PID/schedstat, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sched {
    pub cpu: u64,
    pub run_delay: u64,
}

pub fn sched(text: &[u8]) -> Option<Sched> {
    let mut n = numbers(text);
    Some(Sched {
        cpu: n.next()?,
        run_delay: n.next()?,
    })
}

/// `None` where it was never set.
pub fn loginuid(text: &[u8]) -> Option<u32> {
    number(text).filter(|uid| *uid != u32::MAX)
}

/// The line `0::PATH` of /proc/PID/cgroup.
pub fn cgroup(text: &[u8]) -> Option<Bytes> {
    let line = text
        .split(|b| *b == b'\n')
        .find_map(|l| l.strip_prefix(b"0::"))?;
    Some(Bytes::from(line))
}

/// Name of a terminal from the device number in /proc/PID/stat, as ps(1)
/// prints it: `pts/3`, `tty1`, `ttyS0`.
pub fn tty(device: u32) -> Option<Bytes> {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xfff00);
    let name = match (major, minor) {
        (0, _) => return None,
        (4, 0..64) => format!("tty{minor}"),
        (4, _) => format!("ttyS{}", minor - 64),
        (5, 1) => "console".to_owned(),
        // UNIX98 pseudo-terminals have eight majors.
        (136..144, _) => format!("pts/{}", (major - 136) * 256 + minor),
        _ => format!("{major}:{minor}"),
    };
    Some(Bytes::from(name.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"8947 (a) b\n) R 8945 8946 6314 34817 -1 4194304 103 4 5 0 6 7 0 0 20 0 1 0 94970 3133440 384 \
        18446744073709551615 94 95 140 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 942 944 946 1000 1061 1061 1999 0\n";

    #[test]
    fn stat_with_a_comm_made_to_confuse() {
        let s = stat(STAT).unwrap();
        assert_eq!(s.comm.as_slice(), b"a) b\n");
        assert_eq!((s.ppid, s.pgid, s.sid, s.tty), (8945, 8946, 6314, 34817));
        assert_eq!(
            (s.minflt, s.cminflt, s.majflt, s.utime, s.stime, s.start),
            (103, 4, 5, 6, 7, 94970)
        );
        assert_eq!(
            (s.arg_start, s.arg_end, s.env_start, s.env_end),
            (1000, 1061, 1061, 1999)
        );
        assert!(!s.thread);
        for n in 0..STAT.len() - 4 {
            assert_eq!(
                stat(&STAT[..n]).filter(|s| s.env_end == 1999),
                None,
                "cut at {n}"
            );
        }
    }

    #[test]
    fn status_members() {
        let s = status(
            b"Name:\ta\\nb\\\\\nTgid:\t7\nPPid:\t3\nUid:\t1\t2\t2\t2\nGid:\t4\t5\t5\t5\nNSpid:\t7\t1\n\
            VmHWM:\t    1756 kB\nSigIgn:\t0000000000000001\nSigCgt:\t8000000000000000\nCapEff:\t0000000000080000\nNoNewPrivs:\t1\n\
            voluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t8\n",
        )
        .unwrap();
        assert_eq!(s.comm.as_slice(), b"a\nb\\");
        assert_eq!(
            (s.tgid, s.ppid, s.ns_pid, s.max_rss),
            (7, 3, Some(1), Some(1756 * 1024))
        );
        assert_eq!((s.uid, s.euid, s.gid, s.egid), (1, 2, 4, 5));
        assert_eq!((s.nvcsw, s.nivcsw, s.ignored, s.caught), (9, 8, 1, 1 << 63));
        assert!(s.no_new_privs);
        assert_eq!(s.cap_eff, 1 << 19);
        assert_eq!(status(b"Name:\tx\n"), None);
    }

    #[test]
    fn small_files() {
        let io = io(b"rchar: 1\nwchar: 2\nsyscr: 9\nsyscw: 9\nread_bytes: 3\nwrite_bytes: 4\ncancelled_write_bytes: 5\n");
        let want = Io {
            rchar: 1,
            wchar: 2,
            read_bytes: 3,
            write_bytes: 4,
            cancelled_write_bytes: 5,
        };
        assert_eq!(io, Some(want));
        assert_eq!(super::io(b"rchar: 1\n"), None);
        assert_eq!(
            sched(b"852435 17 1\n"),
            Some(Sched {
                cpu: 852_435,
                run_delay: 17
            })
        );
        assert_eq!(
            (loginuid(b"4294967295"), loginuid(b"1000")),
            (None, Some(1000))
        );
        assert_eq!(
            cgroup(b"1:cpu:/x\n0::/a b\n"),
            Some(Bytes::from(&b"/a b"[..]))
        );
        let name = |d| tty(d).map(|b| String::from_utf8(b.0.to_vec()).unwrap());
        assert_eq!(name(0), None);
        assert_eq!(name(0x8803).as_deref(), Some("pts/3"));
        assert_eq!(name(0x8901).as_deref(), Some("pts/257"));
        assert_eq!(name(0x0441).as_deref(), Some("ttyS1"));
    }
}
