//! sys_exit of execve and execveat with an error. File name and arguments are
//! read when the call returns: the kernel has just read them itself, so their
//! pages are there. An exec that fails past the point of no return does not
//! get here: the process ends with a signal.

use aya_ebpf::helpers::generated::{bpf_probe_read_user, bpf_probe_read_user_str};
use aya_ebpf::programs::BtfTracePointContext;
use tracer_common::offsets::NONE;
use tracer_common::record::{ExecFailedRecord, FAILED_TEXT, flags, kind};

use crate::emit;
use crate::globals::offset;
use crate::task::{Task, peek};
use crate::tracked;

/// x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
const NR_EXECVE: u64 = 59;
const NR_EXECVEAT: u64 = 322;
/// Those of 32-bit system calls (arch/x86/entry/syscalls/syscall_32.tbl).
const NR_EXECVE_32: u64 = 11;
const NR_EXECVEAT_32: u64 = 358;
/// `TS_COMPAT` of `thread_info::status`: a 32-bit system call.
const TS_COMPAT: u32 = 2;

const FILENAME_ROOM: usize = 256;
const ARG_ROOM: usize = 128;
const MAX_ARGS: usize = 16;

const _: () = assert!(FAILED_TEXT.is_power_of_two() && FILENAME_ROOM + 2 * ARG_ROOM <= FAILED_TEXT);

#[inline(always)]
pub fn sys_exit(ctx: &BtfTracePointContext) {
    let result = ctx.arg::<i64>(1);
    if result >= 0 {
        return;
    }
    let regs: *const u8 = ctx.arg(0);
    let nr = register(regs, offset!(regs_nr));
    // Seldom passed: so the other calls are not asked for their width.
    if !matches!(nr, NR_EXECVE | NR_EXECVEAT | NR_EXECVE_32 | NR_EXECVEAT_32) {
        return;
    }
    let task = Task::current();
    let status = offset!(task_thread_info_status);
    // SAFETY: peek() reads nothing that is not readable.
    let compat =
        status != NONE && unsafe { peek::<u32>(task.0.add(status as usize)) } & TS_COMPAT != 0;
    let (bx, cx, dx) = (offset!(regs_bx), offset!(regs_cx), offset!(regs_dx));
    let (di, si) = (offset!(regs_di), offset!(regs_si));
    let (filename, argv) = match (nr, compat) {
        (NR_EXECVE, false) => (di, si),
        (NR_EXECVEAT, false) => (si, dx),
        (NR_EXECVE_32, true) => (bx, cx),
        (NR_EXECVEAT_32, true) => (cx, dx),
        _ => return,
    };
    let (filename, argv) = (register(regs, filename), register(regs, argv));
    let key = task.key();
    if !tracked::is_wanted(&key) {
        return;
    }
    let Some(entry) = emit::begin::<ExecFailedRecord>(kind::EXEC_FAILED, &key, task.pid()) else {
        return;
    };
    let r = entry.as_ptr();
    // SAFETY: the entry is ours until it is submitted.
    let text_flags = unsafe {
        (*r).comm = task.comm();
        (*r).errno = (-result) as u32;
        (*r)._pad = [0; 5];
        text(r, filename, argv, if compat { 4 } else { 8 })
    };
    entry.set_flags(text_flags);
    entry.submit();
}

#[inline(always)]
fn register(regs: *const u8, off: u32) -> u64 {
    if off == NONE {
        return 0;
    }
    // SAFETY: peek() reads nothing that is not readable.
    unsafe { peek(regs.add(off as usize)) }
}

/// Fills in `text` and the lengths that belong to it; a pointer of the caller is `width`
/// bytes wide. Returns what could not be read, or not whole, as flags.
#[inline(always)]
unsafe fn text(r: *mut ExecFailedRecord, filename: u64, argv: u64, width: u32) -> u8 {
    // SAFETY: `text` is FAILED_TEXT long and each offset is bounded by it.
    unsafe {
        let text = (&raw mut (*r).text).cast::<u8>();
        let n = bpf_probe_read_user_str(text.cast(), FILENAME_ROOM as u32, filename as *const _);
        let filename_len = if n > 0 {
            (n as usize - 1) & (FILENAME_ROOM - 1)
        } else {
            0
        };
        let mut at = filename_len;
        let mut argc = 0;
        let mut cut = 1;
        let mut fault = n <= 0;
        // It filled its room, so it was cut.
        let filename_cut = n as usize == FILENAME_ROOM;
        for i in 0..MAX_ARGS {
            let mut pointer = 0u64;
            let unreadable = bpf_probe_read_user(
                (&raw mut pointer).cast(),
                width,
                argv.wrapping_add(i as u64 * u64::from(width)) as *const _,
            ) != 0;
            if pointer == 0 {
                // Linux takes no vector for an empty one. A failed read leaves
                // zeroes too, and must not pass for the end.
                let readable = argv == 0 || !unreadable;
                cut = u8::from(!readable);
                fault |= !readable;
                break;
            }
            if at > FAILED_TEXT - ARG_ROOM {
                break;
            }
            let to = text.add(at & (FAILED_TEXT - 1)).cast();
            if at & (FAILED_TEXT - 1) > FAILED_TEXT - ARG_ROOM {
                break;
            }
            let n = bpf_probe_read_user_str(to, ARG_ROOM as u32, pointer as *const _);
            if n <= 0 {
                fault = true;
                break;
            }
            at += n as usize & (2 * ARG_ROOM - 1);
            argc += 1;
            if n as usize == ARG_ROOM {
                // It filled its room, so it was cut; the next ones are not asked for.
                break;
            }
        }
        (*r).filename_len = filename_len as u16;
        (*r).argv_len = (at - filename_len) as u16;
        (*r).argc = argc;
        (*r).argv_cut = cut;
        u8::from(filename_cut) * flags::FILENAME_CUT + u8::from(fault) * flags::USER_FAULT
    }
}
