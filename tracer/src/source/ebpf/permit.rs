//! Whether programs such as ours may be loaded at all, asked before anything that takes time.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

const BPF_PROG_LOAD: i32 = 5;
/// A kind that needs the same capabilities as BTF tracepoints, and nothing else.
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
/// `r0 = 0; exit`, as the kernel runs it: in native byte order.
static NOTHING: [u64; 2] = if cfg!(target_endian = "little") {
    [0xb7, 0x95]
} else {
    [0xb7 << 56, 0x95 << 56]
};

/// The start of `union bpf_attr` for BPF_PROG_LOAD; the kernel takes the rest as zero.
#[repr(C)]
struct Attr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log: [u64; 2],
}

/// Loads a program that does nothing, and lets it go.
///
/// # Errors
/// bpf() is refused (EPERM). Any other trouble is left to who loads the real ones.
pub fn ask() -> Result<(), io::Error> {
    let attr = Attr {
        prog_type: BPF_PROG_TYPE_RAW_TRACEPOINT,
        insn_cnt: NOTHING.len() as u32,
        insns: (&raw const NOTHING) as u64,
        license: c"GPL".as_ptr() as u64,
        log: [0; 2],
    };
    // SAFETY: the kernel reads as many bytes as `attr` has, and what it points to; all of it
    // outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_LOAD,
            &raw const attr,
            size_of_val(&attr),
        )
    };
    if let Some(fd) = i32::try_from(fd).ok().filter(|fd| *fd >= 0) {
        // SAFETY: new, and nobody else's.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EPERM) => Err(error),
        _ => Ok(()),
    }
}
