//! The only reader of kernel structures.
//!
//! Every pointer here comes from a BTF-typed argument, at offsets that the
//! verifier knows as constants: it follows the types itself and turns each
//! load into one that yields 0 when the address is bad. So no helper is called
//! and nothing is checked. What has no type left (container_of, array elements
//! past the declared size) is read with bpf_probe_read_kernel, whose result is
//! not looked at: it clears the destination when it fails.

use core::mem::MaybeUninit;
use core::ptr::read_volatile;

use aya_ebpf::helpers::bpf_get_current_task_btf;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use tracer_common::config::opt;
use tracer_common::offsets::NONE;
use tracer_common::record::COMM_LEN;
use tracer_common::tracked::{Acc, Key};

use crate::globals::{config, has, offset};

mod cgroup;
mod members;
mod mm;
mod signal;

pub use members::{Cgroup, Cred, Mm, Signal, Task};
pub use members::{PF_IO_WORKER, PF_KTHREAD, PF_USER_WORKER};

/// A `T` at `base + off`, through the verifier's typed load.
#[inline(always)]
pub unsafe fn load<T: Copy>(base: *const u8, off: u32) -> T {
    // SAFETY: the verifier checks the access, see the module's head.
    unsafe { read_volatile(base.add(off as usize).cast::<T>()) }
}

/// As [`load`], 0 where this kernel lacks the member.
#[inline(always)]
unsafe fn load_u64(base: *const u8, off: u32) -> u64 {
    if off == NONE {
        return 0;
    }
    // SAFETY: as load().
    unsafe { load(base, off) }
}

/// A `T` at a kernel address without a type; zeroes when it cannot be read.
#[inline(always)]
pub unsafe fn peek<T: Copy>(address: *const u8) -> T {
    let mut v = MaybeUninit::<T>::uninit();
    let size = size_of::<T>() as u32;
    // SAFETY: the destination is ours and as long as said. The helper fills it in
    // any case, with zeroes where it fails; callers ask for integers only.
    unsafe {
        bpf_probe_read_kernel(v.as_mut_ptr().cast(), size, address.cast());
        v.assume_init()
    }
}

/// `linux_binprm::filename`: an address, as the verifier has no type for text.
#[inline(always)]
pub fn filename(bprm: *const u8) -> *const u8 {
    // SAFETY: as load().
    unsafe { load(bprm, offset!(bprm_filename)) }
}

/// A task and what hangs on it.
///
/// Each pointer is loaded once, in a straight line, at a probe's start: for
/// each load of a pointer out of a trusted one the verifier searches the
/// kernel's whole BTF by name several times (btf_nested_type_is_trusted, some
/// 0.3 ms), and again on every path that leads there. So what is needed seldom
/// is read with peek() instead.
#[derive(Clone, Copy)]
pub struct View {
    pub task: Task,
    pub leader: Task,
    pub parent: Task,
    pub parent_leader: Task,
    pub signal: Signal,
    pub mm: Mm,
    pub cred: Cred,
}

impl View {
    #[inline(always)]
    pub fn of(task: Task) -> Self {
        let parent = task.real_parent();
        Self {
            task,
            leader: task.leader(),
            parent,
            parent_leader: parent.leader(),
            signal: task.signal(),
            // SAFETY: as load().
            mm: Mm(unsafe { load(task.0, offset!(task_mm)) }),
            cred: task.cred(),
        }
    }

    /// The identity of the process.
    #[inline(always)]
    pub fn key(&self) -> Key {
        self.task.key_with(self.leader)
    }

    /// The identity of its parent (`real_parent`: ptrace does not change it).
    #[inline(always)]
    pub fn parent_key(&self) -> Key {
        self.parent.key_with(self.parent_leader)
    }
}

/// (pid, namespace inode) of a `struct pid` at `level`. `numbers[]` is declared
/// shorter than it is, hence the untyped reads.
#[inline(always)]
fn number(pid: *const u8, level: u32) -> (u32, u32) {
    let (numbers, nr, ns, inum) = (
        offset!(pid_numbers),
        offset!(upid_nr),
        offset!(upid_ns),
        offset!(pidns_inum),
    );
    if numbers == NONE || nr == NONE || ns == NONE || inum == NONE {
        return (0, 0);
    }
    // struct upid is an int and a pointer, so 16 bytes (include/linux/pid.h).
    let upid = pid.wrapping_add(numbers as usize + (level & 31) as usize * 16);
    // SAFETY: peek() reads nothing that is not readable.
    unsafe {
        let namespace: usize = peek(upid.wrapping_add(ns as usize));
        (
            peek(upid.wrapping_add(nr as usize)),
            peek((namespace as *const u8).wrapping_add(inum as usize)),
        )
    }
}

impl Task {
    #[inline(always)]
    pub fn current() -> Self {
        // SAFETY: a helper without arguments; its result is a typed pointer.
        Self(unsafe { bpf_get_current_task_btf() }.cast_const().cast())
    }

    #[inline(always)]
    pub fn real_parent(self) -> Self {
        // SAFETY: as load().
        Self(unsafe { load(self.0, offset!(task_real_parent)) })
    }

    #[inline(always)]
    pub fn signal(self) -> Signal {
        // SAFETY: as load().
        Signal(unsafe { load(self.0, offset!(task_signal)) })
    }

    #[inline(always)]
    pub fn cred(self) -> Cred {
        // SAFETY: as load().
        Cred(unsafe { load(self.0, offset!(task_cred)) })
    }

    /// Whether fork has not let it run yet: `TASK_NEW` of include/linux/sched.h.
    #[inline(always)]
    pub fn is_new(self) -> bool {
        const TASK_NEW: u32 = 0x800;
        let off = offset!(task_state);
        // SAFETY: as load().
        off != NONE && unsafe { load::<u32>(self.0, off) } & TASK_NEW != 0
    }

    /// Whether exit_notify() of kernel/exit.c, which comes after
    /// sched_process_exit, has made it a zombie; `true` where this kernel does
    /// not tell.
    #[inline(always)]
    pub fn is_zombie(self) -> bool {
        let off = offset!(task_exit_state);
        // SAFETY: as load().
        off == NONE || unsafe { load::<u32>(self.0, off) } != 0
    }

    /// Whether it has been reaped: `__unhash_process` of kernel/exit.c has taken
    /// its pid away.
    #[inline(always)]
    pub fn is_released(self) -> bool {
        let off = offset!(task_thread_pid);
        // SAFETY: peek() reads nothing that is not readable.
        off != NONE && unsafe { peek::<usize>(self.0.add(off as usize)) } == 0
    }

    /// Pid in the PID namespace of the current task, 0 where that does not see it.
    #[inline(always)]
    pub fn pid_for_current(self) -> u32 {
        let (thread_pid, level) = (offset!(task_thread_pid), offset!(pid_level));
        if thread_pid == NONE || level == NONE {
            return self.pid();
        }
        // SAFETY: peek() reads nothing that is not readable.
        unsafe {
            let of = |task: Self| {
                let leader: usize = peek(task.0.add(offset!(task_group_leader) as usize));
                peek::<usize>((leader as *const u8).wrapping_add(thread_pid as usize)) as *const u8
            };
            let (ours, its) = (of(Self::current()), of(self));
            let depth: u32 = peek(ours.wrapping_add(level as usize));
            let (nr, namespace) = number(its, depth);
            if namespace == number(ours, depth).1 {
                nr
            } else {
                0
            }
        }
    }

    /// As [`Self::real_parent`], for a task without a type.
    #[inline(always)]
    pub fn peek_real_parent(self) -> Self {
        let at = self.0.wrapping_add(offset!(task_real_parent) as usize);
        // SAFETY: peek() reads nothing that is not readable.
        Self(unsafe { peek::<usize>(at) } as *const u8)
    }

    /// The head of the list of its children, a ring; `None`: this kernel does not
    /// tell.
    #[inline(always)]
    pub fn children(self) -> Option<*const u8> {
        let children = offset!(task_children);
        (children != NONE).then(|| self.0.wrapping_add(children as usize))
    }

    /// The task whose `sibling`, a place in such a list, is at `node`.
    #[inline(always)]
    pub fn at_sibling(node: *const u8) -> Self {
        Self(node.wrapping_sub(offset!(task_sibling) as usize))
    }

    /// As [`Self::key`], for a task without a type.
    #[inline(always)]
    pub fn peek_key(self) -> Key {
        let at = |task: *const u8, off: u32| task.wrapping_add(off as usize);
        // SAFETY: peek() reads nothing that is not readable.
        unsafe {
            let leader: usize = peek(at(self.0, offset!(task_group_leader)));
            Key {
                tgid: peek(at(self.0, offset!(task_tgid))),
                _pad: 0,
                start: peek(at(leader as *const u8, offset!(task_start))),
            }
        }
    }

    /// Whether this kernel accounts block-I/O delay for it.
    #[inline(always)]
    pub fn has_delays(self) -> bool {
        let delays = offset!(task_delays);
        // SAFETY: peek() reads nothing that is not readable.
        delays != NONE && unsafe { peek::<usize>(self.0.add(delays as usize)) } != 0
    }

    /// Pid in the innermost PID namespace, 0 where that is the initial one.
    #[inline(always)]
    pub fn ns_pid(self) -> u32 {
        let (thread_pid, level) = (offset!(task_thread_pid), offset!(pid_level));
        if thread_pid == NONE || level == NONE {
            return 0;
        }
        // SAFETY: as load().
        unsafe {
            let pid: *const u8 = load(self.0, thread_pid);
            match load(pid, level) {
                0 => 0,
                level => number(pid, level).0,
            }
        }
    }

    /// `fs_struct`, where the working directory is.
    #[inline(always)]
    pub fn fs(self) -> *const u8 {
        // SAFETY: as load().
        unsafe { load(self.0, offset!(task_fs)) }
    }

    /// What the kernel keeps for this thread alone.
    #[inline(always)]
    pub fn acc(self) -> Acc {
        Acc {
            rchar: self.rchar(),
            wchar: self.wchar(),
            read_bytes: self.read_bytes(),
            write_bytes: self.write_bytes(),
            cancelled_write_bytes: self.cancelled_write_bytes(),
            run_delay_ns: self.run_delay(),
            blkio_delay_ns: self.blkio_delay(),
        }
    }

    /// ns; 0 where the kernel does not account it (`delays` is NULL then).
    #[inline(always)]
    fn blkio_delay(self) -> u64 {
        let (delays, blkio) = (offset!(task_delays), offset!(delays_blkio));
        if !has(opt::DELAYACCT) || delays == NONE || blkio == NONE {
            return 0;
        }
        // SAFETY: peek() reads nothing that is not readable.
        unsafe {
            let delays: usize = peek(self.0.add(delays as usize));
            peek((delays as *const u8).wrapping_add(blkio as usize))
        }
    }

    #[inline(always)]
    pub fn leader(self) -> Self {
        // SAFETY: as load().
        Self(unsafe { load(self.0, offset!(task_group_leader)) })
    }

    /// Asks for the cache lines of [`Self::acc`]: a load whose value nobody
    /// waits for does not stop the processor.
    #[inline(always)]
    pub fn prefetch(self) {
        self.rchar();
        self.cancelled_write_bytes();
        self.run_delay();
    }

    /// The identity of the process that this task belongs to.
    #[inline(always)]
    pub fn key(self) -> Key {
        self.key_with(self.leader())
    }

    /// Whether this is a task of tracer itself, as the kernel sees it: our own
    /// getpid() counts in our own PID namespace.
    #[inline(always)]
    pub fn is_tracer(self) -> bool {
        let (thread_pid, level) = (offset!(task_thread_pid), offset!(pid_level));
        if thread_pid == NONE || level == NONE {
            return self.tgid() == config!(tracer_pid);
        }
        // SAFETY: peek() reads nothing that is not readable.
        unsafe {
            let leader: usize = peek(self.0.add(offset!(task_group_leader) as usize));
            let pid: usize = peek((leader as *const u8).wrapping_add(thread_pid as usize));
            let pid = pid as *const u8;
            number(pid, peek(pid.wrapping_add(level as usize)))
                == (config!(tracer_pid), config!(pidns_ino))
        }
    }

    /// As [`Self::key`], with the leader at hand.
    #[inline(always)]
    pub fn key_with(self, leader: Self) -> Key {
        Key {
            tgid: self.tgid(),
            _pad: 0,
            start: leader.start(),
        }
    }

    #[inline(always)]
    pub fn comm(self) -> [u8; COMM_LEN] {
        let off = offset!(task_comm);
        // SAFETY: as load(); comm is an array of 16 bytes, read in halves.
        let halves: [u64; 2] = unsafe { [load(self.0, off), load(self.0, off + 8)] };
        // SAFETY: both types are 16 bytes of integers.
        unsafe { core::mem::transmute(halves) }
    }

    /// `u32::MAX`: not set, or this kernel has no audit.
    #[inline(always)]
    pub fn loginuid(self) -> u32 {
        let off = offset!(task_loginuid);
        if off == NONE {
            return u32::MAX;
        }
        // SAFETY: as load().
        unsafe { load(self.0, off) }
    }
}
