//! A program on a tracepoint of tracefs: through a perf event, which the kernel
//! wants for that, by the event's number. It needs no mounted tracefs.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: u64 = 8;
const BPF_LINK_CREATE: i32 = 28;
/// `enum bpf_attach_type`
const BPF_PERF_EVENT: u32 = 41;

/// `struct perf_event_attr` as its first version had it (PERF_ATTR_SIZE_VER0).
#[repr(C)]
struct PerfAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// The start of `union bpf_attr` for BPF_LINK_CREATE.
#[repr(C)]
struct LinkAttr {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

/// A program that runs at each event until this is dropped.
#[derive(Debug)]
pub struct Attachment {
    _link: OwnedFd,
    _event: OwnedFd,
}

impl Attachment {
    /// Attaches `program` to the event with number `id` (its file `id`), on all CPUs.
    ///
    /// # Errors
    /// EACCES: the program reads beyond the event's record.
    pub fn new(program: BorrowedFd<'_>, id: u64) -> io::Result<Self> {
        let event = open(id)?;
        let attr = LinkAttr {
            prog_fd: number(program.as_raw_fd())?,
            target_fd: number(event.as_raw_fd())?,
            attach_type: BPF_PERF_EVENT,
            flags: 0,
        };
        // SAFETY: the kernel reads as many bytes as `attr` has.
        let link = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_LINK_CREATE,
                &raw const attr,
                size_of_val(&attr),
            )
        };
        Ok(Self {
            _link: descriptor(link)?,
            _event: event,
        })
    }
}

/// A perf event of the tracepoint. Its CPU does not matter to programs: they run on all.
fn open(id: u64) -> io::Result<OwnedFd> {
    let attr = PerfAttr {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<PerfAttr>() as u32,
        config: id,
        sample_period: 0,
        sample_type: 0,
        read_format: 0,
        flags: 0,
        wakeup_events: 0,
        bp_type: 0,
        config1: 0,
    };
    let (every_process, cpu, no_group) = (-1, 0, -1);
    // SAFETY: the kernel reads as many bytes as `attr.size` says; the rest are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            every_process,
            cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    descriptor(fd)
}

fn number(fd: i32) -> io::Result<u32> {
    u32::try_from(fd).map_err(io::Error::other)
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the kernel has just given it to us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
