//! Text of an exec: file name, working directory, argv and environment, put
//! together in per-CPU scratch memory and sent in pieces, or, where it is short, in
//! the record of the exec itself.
//!
//! The two loops are bpf_loop callbacks, which the verifier looks at once and
//! not once a turn (Linux ≥ 5.17). Their state lies in the scratch memory,
//! whose content the verifier does not track: so its states do not multiply
//! with each piece that may or may not fit.

mod cwd;

use core::ffi::c_void;

use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use aya_ebpf::helpers::generated::{
    bpf_loop, bpf_probe_read_kernel, bpf_probe_read_kernel_str, bpf_probe_read_user,
    bpf_ringbuf_output,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use tracer_common::record::{
    ExecRecord, ExecShort, Header, Inline, SHORT_TEXT, Text, flags, kind, section,
};

use crate::emit;
use crate::globals::config;
use crate::maps::RING;
use crate::task::Task;

/// File names are at most PATH_MAX with their NUL.
const FILENAME_MAX: usize = 4096;
/// Room for the working directory; a deeper one is marked as cut.
const CWD_MAX: usize = 4096;
/// NAME_MAX and a NUL.
const NAME_ROOM: usize = 256;
/// A piece's largest text, see Config::piece.
const PIECE_MAX: usize = 16 << 10;
/// Pieces of one argv or environment: 2 MiB of those of the smallest ring.
const PIECES: u32 = 2048;

/// Masks the offset of what follows file name and cwd.
const HEAD_MASK: usize = FILENAME_MAX + CWD_MAX - 1;

/// One exec's text in the making.
#[repr(C)]
struct Scratch {
    /// Where in user memory the present vector starts, and how much is wanted.
    start: u64,
    want: usize,
    /// Offset of the first byte that the first piece did not take.
    taken: usize,
    which: u8,
    /// Flags for the exec record.
    flags: u8,
    pieces: u16,
    lost: u16,
    _pad: u16,
    /// The exec itself, but for its header.
    exec: ExecRecord,
    /// The walk from the working directory to the root.
    filename_len: usize,
    cwd_len: usize,
    vfsmnt: usize,
    dentry: usize,
    top: usize,
    stop_vfsmnt: usize,
    stop_dentry: usize,
    /// The record: `head` and the bytes that follow it.
    head: Text,
    bytes: [u8; FILENAME_MAX + CWD_MAX + NAME_ROOM + PIECE_MAX],
}

/// Only sched_process_exec uses it, which cannot interrupt itself.
#[map]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// What is to be sent.
pub struct Request {
    pub filename: *const u8,
    pub task: Task,
    pub arg_start: u64,
    pub arg_len: usize,
    pub env_start: u64,
    /// 0: no environment.
    pub env_len: usize,
}

/// An exec in the making, in this CPU's scratch memory.
#[derive(Clone, Copy)]
pub struct Draft(*mut Scratch);

/// One whose text was read.
pub struct Read {
    s: *mut Scratch,
    /// Bytes of file name and working directory.
    used: usize,
    /// Bytes of argv after them.
    argv: usize,
}

impl Draft {
    /// `flags` are those of the record that do not come from the text.
    #[inline(always)]
    pub fn new(flags: u8) -> Option<Self> {
        let s = SCRATCH.get_ptr_mut(0)?;
        // SAFETY: this CPU's value of our map.
        unsafe { (*s).flags = flags };
        Some(Self(s))
    }

    /// The record, to be filled in but for its header and pieces.
    #[inline(always)]
    pub fn record(self) -> *mut ExecRecord {
        // SAFETY: this CPU's value of our map.
        unsafe { &raw mut (*self.0).exec }
    }

    /// Reads file name, cwd and as much of argv as fits into one piece.
    #[inline(always)]
    pub fn read(self, request: &Request) -> Read {
        let s = self.0;
        // SAFETY: this CPU's value of our map; offsets into `bytes` are masked to what
        // it holds.
        unsafe {
            let bytes = (&raw mut (*s).bytes).cast::<u8>();
            let n = bpf_probe_read_kernel_str(
                bytes.cast(),
                FILENAME_MAX as u32,
                request.filename.cast(),
            );
            (*s).filename_len = if n > 0 { n as usize - 1 } else { 0 };
            (*s).cwd_len = 0;
            cwd::append(s, request.task);
            let used = ((*s).filename_len + (*s).cwd_len) & HEAD_MASK;
            let room = (config!(piece) as usize).saturating_sub(used);
            let argv = user(
                s,
                bytes.add(used),
                request.arg_start,
                request.arg_len.min(room),
            );
            Read { s, used, argv }
        }
    }
}

impl Read {
    /// Whether there is nothing else to send, and it fits into a short record.
    #[inline(always)]
    pub fn is_short(&self, request: &Request) -> bool {
        // SAFETY: this CPU's value of our map.
        let fault = unsafe { (*self.s).flags } & flags::USER_FAULT != 0;
        let whole = self.argv == request.arg_len && request.env_len == 0;
        (whole || fault) && self.used + self.argv <= SHORT_TEXT
    }

    /// Fills in a record with all its text, which is short.
    #[inline(always)]
    pub fn fill_short(&self, to: *mut ExecShort) {
        // SAFETY: the record is reserved until its owner submits it, and has room for
        // SHORT_TEXT bytes; the scratch has more.
        unsafe {
            self.fill(&raw mut (*to).exec);
            let len = bounded(self.used + self.argv, SHORT_TEXT);
            bpf_probe_read_kernel(
                (&raw mut (*to).bytes).cast(),
                len as u32,
                (&raw const (*self.s).bytes).cast(),
            );
            (*to).text = Inline {
                filename_len: (*self.s).filename_len as u16,
                cwd_len: (*self.s).cwd_len as u16,
                len: len as u32,
            };
            (*to).exec.h.flags = (*self.s).flags;
        }
    }

    /// Fills in a record, and sends its text.
    #[inline(always)]
    pub fn fill_and_send(&self, to: *mut ExecRecord, request: &Request) {
        let s = self.s;
        // SAFETY: this CPU's value of our map; the record is reserved until its
        // owner submits it.
        unsafe {
            self.fill(to);
            // In words: for a copy of bytes the compiler would call a loop.
            const _: () = assert!(size_of::<Header>() == 32);
            let (from, head) = (to.cast::<u64>(), (&raw mut (*s).head.h).cast::<u64>());
            for word in 0..4 {
                head.add(word)
                    .write_volatile(from.add(word).read_volatile());
            }
            (*s).head.h.kind = kind::TEXT;
            (*s).head.h.flags = 0;
            (*s).head.exec_seq = (*to).h.seq;
            (*s).pieces = 0;
            (*s).lost = 0;
            (*s).taken = self.argv;
            put(s, section::FIRST, 0, self.used + self.argv);
            rest(s, section::ARGV, request.arg_start, request.arg_len);
            if request.env_len > 0 {
                (*s).taken = 0;
                rest(s, section::ENV, request.env_start, request.env_len);
            }
            (*to).h.flags = (*s).flags;
            (*to).pieces = (*s).pieces;
            (*to).pieces_lost = (*s).lost;
        }
    }

    /// Copies all of the record but its header.
    #[inline(always)]
    unsafe fn fill(&self, to: *mut ExecRecord) {
        const WORDS: usize = size_of::<ExecRecord>() / 8;
        const _: () = assert!(size_of::<ExecRecord>().is_multiple_of(8));
        // SAFETY: the caller gives a record that is reserved; both are of so many words.
        unsafe {
            let from = (&raw const (*self.s).exec).cast::<u64>();
            for word in size_of::<Header>() / 8..WORDS {
                let value = from.add(word).read_volatile();
                to.cast::<u64>().add(word).write_volatile(value);
            }
        }
    }
}

/// What `read` left of argv, or the environment.
#[inline(always)]
unsafe fn rest(s: *mut Scratch, which: u8, start: u64, want: usize) {
    // SAFETY: the caller gives this CPU's scratch.
    unsafe {
        if (*s).flags & flags::USER_FAULT != 0 || (*s).taken >= want {
            return;
        }
        (*s).which = which;
        (*s).start = start;
        (*s).want = want;
        bpf_loop(PIECES, piece as *mut c_void, core::ptr::null_mut(), 0);
    }
}

/// bpf_loop callback: sends piece `index`. Returns 1 to stop.
unsafe extern "C" fn piece(index: u64, _context: *mut c_void) -> i64 {
    let Some(s) = SCRATCH.get_ptr_mut(0) else {
        return 1;
    };
    // SAFETY: this CPU's value of our map, with room for PIECE_MAX bytes.
    unsafe {
        let size = config!(piece) as usize;
        let at = (*s).taken + index as usize * size;
        if at >= (*s).want {
            return 1;
        }
        let bytes = (&raw mut (*s).bytes).cast::<u8>();
        let len = user(s, bytes, (*s).start + at as u64, ((*s).want - at).min(size));
        if len == 0 {
            return 1;
        }
        (*s).filename_len = 0;
        (*s).cwd_len = 0;
        put(s, (*s).which, at, len);
    }
    0
}

/// Reads `len` bytes of user memory; returns 0 when it could not. The one place
/// that looks at a read's result: a failed read must not pass for a row of
/// empty arguments.
#[inline(always)]
unsafe fn user(s: *mut Scratch, to: *mut u8, address: u64, len: usize) -> usize {
    let len = len.min(PIECE_MAX);
    // SAFETY: the caller gives room for PIECE_MAX bytes, and its scratch.
    unsafe {
        if bpf_probe_read_user(to.cast(), len as u32, address as *const _) != 0 {
            (*s).flags |= flags::USER_FAULT;
            return 0;
        }
    }
    len
}

/// The smaller of the two, for a verifier as well that does not see all that the compiler
/// sees: what that could prove, and so leave out, stays.
#[inline(always)]
fn bounded(len: usize, most: usize) -> usize {
    let mut len = len;
    // SAFETY: a register is copied to itself.
    unsafe { core::arch::asm!("{v} = {v}", v = inout(reg) len) };
    len.min(most)
}

/// Puts `len` bytes of text into the ring.
#[inline(always)]
unsafe fn put(s: *mut Scratch, which: u8, offset: usize, len: usize) {
    let Some(counters) = emit::counters() else {
        return;
    };
    // SAFETY: the caller gives this CPU's scratch; head and bytes adjoin, and
    // as much of them is read as they hold.
    unsafe {
        (*s).head.h.seq = emit::next_seq(counters, kind::TEXT);
        // With its padding in one store: for three bytes the compiler would call memset.
        (&raw mut (*s).head.section)
            .cast::<u32>()
            .write(u32::from_ne_bytes([which, 0, 0, 0]));
        (*s).head.filename_len = (*s).filename_len as u16;
        (*s).head.cwd_len = (*s).cwd_len as u16;
        (*s).head.offset = offset as u32;
        (*s).head.len = len as u32;
        (*s).head._pad2 = 0;
        let total = size_of::<Text>() + bounded(len, FILENAME_MAX + CWD_MAX + PIECE_MAX);
        let r = bpf_ringbuf_output(
            (&raw const RING).cast_mut().cast(),
            (&raw mut (*s).head).cast(),
            total as u64,
            u64::from(BPF_RB_NO_WAKEUP),
        );
        if r == 0 {
            (*s).pieces += 1;
        } else {
            (*s).lost += 1;
            emit::count_lost(counters, kind::TEXT);
        }
    }
}
