//! A BPF program that prints at each system call of one kind, into the kernel's
//! trace buffer: so that there is an event (`bpf_trace:bpf_trace_printk`) while a
//! program runs.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_PROG_TYPE_TRACEPOINT: u32 = 5;
const BPF_PROG_TYPE_PERF_EVENT: u32 = 7;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const BPF_FUNC_TRACE_PRINTK: i32 = 6;
const PERF_EVENT_IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
/// The first word of `struct perf_event_attr`: the size of its first version, and PERF_TYPE_TRACEPOINT, whose next
/// word is the event's number, or PERF_TYPE_SOFTWARE, whose event 0 is the clock.
const TRACEPOINT: u64 = 64 << 32 | 2;
const CPU_CLOCK: u64 = 64 << 32 | 1;
const EVENT: &str = "/sys/kernel/tracing/events/bpf_trace/bpf_trace_printk";

/// Prints until it is dropped.
pub struct Printer {
    _open: Vec<OwnedFd>,
    /// Whether the kernel's own buffer recorded what is printed, before a program switched that on.
    recorded: String,
}

/// `struct bpf_insn`
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination, and source in the high half.
    registers: u8,
    offset: i16,
    constant: i32,
}

const fn instruction(code: u8, registers: u8, offset: i16, constant: i32) -> Instruction {
    Instruction {
        code,
        registers,
        offset,
        constant,
    }
}

/// Prints "x".
const PRINT: [Instruction; 7] = [
    instruction(0x7a, 0x0a, -8, b'x' as i32), // *(u64 *)(r10 - 8) = "x"
    instruction(0xbf, 0xa1, 0, 0),            // r1 = r10
    instruction(0x07, 0x01, 0, -8),           // r1 += -8
    instruction(0xb7, 0x02, 0, 2),            // r2 = 2
    instruction(0x85, 0x00, 0, BPF_FUNC_TRACE_PRINTK),
    instruction(0xb7, 0x00, 0, 0), // r0 = 0
    instruction(0x95, 0x00, 0, 0), // exit
];

impl Printer {
    /// On the system call's tracepoint: the kernel runs no other program on
    /// tracepoints meanwhile.
    pub fn on_tracepoint(call: &str) -> io::Result<Self> {
        let recorded = recorded();
        let id = fs::read_to_string(format!(
            "/sys/kernel/tracing/events/syscalls/sys_enter_{call}/id"
        ))?;
        let id: u64 = id.trim().parse().map_err(io::Error::other)?;
        let program = load(BPF_PROG_TYPE_TRACEPOINT, PRINT.into())?;
        let event = event([TRACEPOINT, id, 0, 0, 0, 0, 0, 0], 0, &program)?;
        Ok(Self {
            _open: vec![event, program],
            recorded,
        })
    }

    /// At each millisecond that a CPU works, in the clock's interrupt.
    pub fn on_clock() -> io::Result<Self> {
        const MILLISECOND: u64 = 1_000_000;
        let recorded = recorded();
        let mut open = Vec::new();
        for cpu in 0..std::thread::available_parallelism()?.get() {
            let program = load(BPF_PROG_TYPE_PERF_EVENT, PRINT.into())?;
            let attr = [CPU_CLOCK, 0, MILLISECOND, 0, 0, 0, 0, 0];
            open.push(event(attr, cpu, &program)?);
            open.push(program);
        }
        Ok(Self {
            _open: open,
            recorded,
        })
    }

    /// On the raw tracepoint of all system calls, for one of them: other programs
    /// run meanwhile.
    pub fn on_raw_tracepoint(call: libc::c_long) -> io::Result<Self> {
        let recorded = recorded();
        let call = i32::try_from(call).map_err(io::Error::other)?;
        let mut code = vec![
            instruction(0x79, 0x12, 8, 0),    // r2 = *(u64 *)(r1 + 8)
            instruction(0x55, 0x02, 5, call), // if r2 != call goto r0 = 0
        ];
        code.extend(PRINT);
        let program = load(BPF_PROG_TYPE_RAW_TRACEPOINT, code)?;
        let name: &CStr = c"sys_enter";
        let attr: [u64; 2] = [
            name.as_ptr() as u64,
            u64::from(program.as_raw_fd().unsigned_abs()),
        ];
        // SAFETY: the kernel reads the 16 bytes that `attr` has, and the name.
        let link = descriptor(unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_RAW_TRACEPOINT_OPEN,
                attr.as_ptr(),
                size_of_val(&attr),
            )
        })?;
        Ok(Self {
            _open: vec![link, program],
            recorded,
        })
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        // Loading a program that prints switches this on.
        let _as_before = fs::write(format!("{EVENT}/enable"), self.recorded.trim());
    }
}

/// An event that runs the program. Those of tracepoints run it on all CPUs.
fn event(attr: [u64; 8], cpu: usize, program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the 64 bytes that `attr` has; the rest are numbers.
    let event = descriptor(unsafe {
        libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), -1, cpu, -1, 0)
    })?;
    for (request, argument) in [
        (PERF_EVENT_IOC_SET_BPF, program.as_raw_fd()),
        (PERF_EVENT_IOC_ENABLE, 0),
    ] {
        // SAFETY: both requests take a number.
        if unsafe { libc::ioctl(event.as_raw_fd(), request, argument) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(event)
}

fn recorded() -> String {
    fs::read_to_string(format!("{EVENT}/enable")).unwrap_or_default()
}

fn load(kind: u32, code: Vec<Instruction>) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let count = code.len() as u64;
    let mut attr = [0_u64; 16];
    attr[0] = u64::from(kind) | count << 32;
    attr[1] = code.as_ptr() as u64;
    attr[2] = license.as_ptr() as u64;
    // SAFETY: the kernel reads `attr`, and the code and the licence, which outlive the call.
    descriptor(unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_LOAD,
            attr.as_ptr(),
            size_of_val(&attr),
        )
    })
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the kernel has just given it to us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
