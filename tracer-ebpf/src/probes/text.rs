//! Text of an exec: file name, working directory, argv and environment, put
//! together in per-CPU scratch memory and sent in pieces.

use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use aya_ebpf::helpers::generated::{
    bpf_probe_read_kernel_str, bpf_probe_read_user, bpf_ringbuf_output,
};
use tracer_common::offsets::NONE;
use tracer_common::record::{Counters, Header, Text, flags, kind, section};

use crate::emit;
use crate::globals::{config, offset};
use crate::maps::{RING, SCRATCH, SCRATCH_LEN};
use crate::task::{Task, peek};

const HEAD: usize = size_of::<Text>();

/// File names are at most PATH_MAX with their NUL.
const FILENAME_MAX: usize = 4096;
/// Room for the working directory; a deeper one is marked as cut.
const CWD_MAX: usize = 4096;
const CWD_DEPTH: usize = 40;
/// NAME_MAX and a NUL.
const NAME_ROOM: usize = 256;
/// A piece's largest text, see Config::piece.
const PIECE_MAX: usize = 16 << 10;
/// Pieces of one argv or environment: 2 MiB of the largest.
const PIECES: usize = 128;

const _: () = assert!(HEAD + FILENAME_MAX + CWD_MAX + NAME_ROOM + PIECE_MAX <= SCRATCH_LEN);

/// What became of an exec's text.
pub struct Sent {
    pub pieces: u16,
    pub lost: u16,
    pub flags: u8,
}

/// Puts text pieces of one exec into the ring.
pub struct Writer {
    scratch: *mut u8,
    counters: *mut Counters,
    header: Header,
    pub sent: Sent,
}

impl Writer {
    /// `header`: that of the exec record, whose `seq` the pieces repeat.
    #[inline(always)]
    pub fn new(header: Header) -> Option<Self> {
        Some(Self {
            scratch: SCRATCH.get_ptr_mut(0)?.cast(),
            counters: emit::counters()?,
            header,
            sent: Sent {
                pieces: 0,
                lost: 0,
                flags: 0,
            },
        })
    }

    /// File name, cwd and as much of argv (at `start`, `want` bytes) as fits
    /// into one piece. Returns the bytes of argv taken.
    #[inline(always)]
    pub fn first(&mut self, filename: *const u8, task: Task, start: u64, want: usize) -> usize {
        // SAFETY: the scratch value is SCRATCH_LEN long; the asserted sum bounds every offset.
        let text = unsafe { self.scratch.add(HEAD) };
        // SAFETY: as above.
        let n =
            unsafe { bpf_probe_read_kernel_str(text.cast(), FILENAME_MAX as u32, filename.cast()) };
        let filename_len = if n > 0 {
            (n as usize - 1) & (FILENAME_MAX - 1)
        } else {
            0
        };
        let cwd_len = self.cwd(text, filename_len, task);
        let used = (filename_len + cwd_len) & (FILENAME_MAX + CWD_MAX - 1);
        let room = (config!(piece) as usize).saturating_sub(used);
        let len = want.min(room).min(PIECE_MAX);
        // SAFETY: as above.
        let len = unsafe { self.user(text.add(used), start, len) };
        self.put(section::FIRST, filename_len, cwd_len, 0, used + len);
        len
    }

    /// The rest of argv or the whole environment, from `offset` to `want`.
    #[inline(always)]
    pub fn rest(&mut self, which: u8, start: u64, mut offset: usize, want: usize) {
        let piece = (config!(piece) as usize).min(PIECE_MAX);
        for _ in 0..PIECES {
            if offset >= want {
                break;
            }
            let len = (want - offset).min(piece);
            // SAFETY: the scratch value has PIECE_MAX bytes after HEAD.
            let got = unsafe { self.user(self.scratch.add(HEAD), start + offset as u64, len) };
            if got == 0 {
                break;
            }
            self.put(which, 0, 0, offset, got);
            offset += len;
        }
    }

    /// Reads `len` bytes of user memory; 0 when it could not. The one place
    /// that looks at a read's result: a failed read must not pass for a row of
    /// empty arguments.
    #[inline(always)]
    unsafe fn user(&mut self, to: *mut u8, address: u64, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        let len = len.min(PIECE_MAX);
        // SAFETY: the caller gives room for PIECE_MAX bytes.
        if unsafe { bpf_probe_read_user(to.cast(), len as u32, address as *const _) } != 0 {
            self.sent.flags |= flags::USER_FAULT;
            return 0;
        }
        len
    }

    #[inline(always)]
    fn put(&mut self, which: u8, filename_len: usize, cwd_len: usize, offset: usize, len: usize) {
        let head = self.scratch.cast::<Text>();
        let seq = emit::next_seq(self.counters, kind::TEXT);
        // SAFETY: the scratch value begins with room for the struct.
        unsafe {
            (*head).h = Header {
                kind: kind::TEXT,
                seq,
                ..self.header
            };
            (*head).section = which;
            (*head)._pad = [0; 3];
            (*head).exec_seq = self.header.seq;
            (*head).filename_len = filename_len as u16;
            (*head).cwd_len = cwd_len as u16;
            (*head).offset = offset as u32;
            (*head).len = len as u32;
            (*head)._pad2 = 0;
        }
        let total = HEAD + len.min(SCRATCH_LEN - HEAD);
        let ring = (&raw const RING).cast_mut().cast();
        // SAFETY: `total` bytes of the scratch value are readable.
        let r = unsafe {
            bpf_ringbuf_output(
                ring,
                self.scratch.cast(),
                total as u64,
                u64::from(BPF_RB_NO_WAKEUP),
            )
        };
        if r == 0 {
            self.sent.pieces += 1;
        } else {
            self.sent.lost += 1;
            emit::count_lost(self.counters, kind::TEXT);
        }
    }

    /// Appends the names from the working directory up to the process's root,
    /// each with a NUL. As d_path() walks (fs/d_path.c, prepend_path), without
    /// its locks: a rename at that moment may show a mixed path.
    #[inline(always)]
    fn cwd(&mut self, text: *mut u8, from: usize, task: Task) -> usize {
        let (fs, pwd_mnt, pwd_dentry) = (
            offset!(task_fs),
            offset!(fs_pwd_mnt),
            offset!(fs_pwd_dentry),
        );
        let (root_mnt, root_dentry) = (offset!(fs_root_mnt), offset!(fs_root_dentry));
        let (parent, name) = (offset!(dentry_parent), offset!(dentry_name));
        let (mnt, mnt_parent) = (offset!(mount_mnt), offset!(mount_parent));
        let (mountpoint, mnt_root) = (offset!(mount_mountpoint), offset!(vfsmount_root));
        if fs == NONE
            || pwd_mnt == NONE
            || parent == NONE
            || name == NONE
            || mnt == NONE
            || mnt_parent == NONE
        {
            return 0;
        }
        if pwd_dentry == NONE
            || root_mnt == NONE
            || root_dentry == NONE
            || mountpoint == NONE
            || mnt_root == NONE
        {
            return 0;
        }
        let mut len = 0;
        // SAFETY: peek() reads nothing that is not readable; the scratch value
        // has room for what is written, as the offsets are masked.
        unsafe {
            let fs = peek::<usize>(task.0.add(fs as usize)) as *const u8;
            let mut vfsmnt = peek::<usize>(fs.add(pwd_mnt as usize));
            let mut dentry = peek::<usize>(fs.add(pwd_dentry as usize));
            let stop_mnt = peek::<usize>(fs.add(root_mnt as usize));
            let stop_dentry = peek::<usize>(fs.add(root_dentry as usize));
            let mut top = peek::<usize>((vfsmnt as *const u8).add(mnt_root as usize));
            for _ in 0..CWD_DEPTH {
                if dentry == stop_dentry && vfsmnt == stop_mnt {
                    return len;
                }
                let up = peek::<usize>((dentry as *const u8).add(parent as usize));
                if dentry == top || up == dentry {
                    // A mount's root: go on at its mount point, if there is one.
                    let mount = (vfsmnt as *const u8).wrapping_sub(mnt as usize);
                    let above = peek::<usize>(mount.wrapping_add(mnt_parent as usize));
                    if above == mount as usize || above == 0 {
                        return len;
                    }
                    dentry = peek(mount.wrapping_add(mountpoint as usize));
                    vfsmnt = above.wrapping_add(mnt as usize);
                    top = peek((vfsmnt as *const u8).wrapping_add(mnt_root as usize));
                    continue;
                }
                if len > CWD_MAX - 2 * NAME_ROOM {
                    break;
                }
                let at = text.add((from + len) & (FILENAME_MAX + CWD_MAX - 1));
                let s = peek::<usize>((dentry as *const u8).add(name as usize));
                let n = bpf_probe_read_kernel_str(at.cast(), NAME_ROOM as u32, s as *const _);
                if n <= 0 {
                    break;
                }
                len += n as usize & (2 * NAME_ROOM - 1);
                dentry = up;
            }
        }
        self.sent.flags |= flags::CWD_CUT;
        len
    }
}
