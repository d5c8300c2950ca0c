//! Names of system calls, as the kernel's own metadata has them.
//!
//! They are those of the functions that implement them, so some differ from what
//! the C library calls them: `newstat`, `sendfile64`. Which of them a kernel has
//! in its metadata is seen in tracefs, which has an event for each.

use std::fs;
use std::path::Path;

/// Names by number. Empty where the processor is not an x86-64.
#[derive(Clone, Debug, Default)]
pub struct Syscalls {
    names: Vec<Option<String>>,
}

/// From number 0 on; `-` has no function.
const FIRST: &str = "\
    read write open close newstat newfstat newlstat poll lseek mmap mprotect munmap brk \
    rt_sigaction rt_sigprocmask rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe \
    select sched_yield mremap msync mincore madvise shmget shmat shmctl dup dup2 pause nanosleep \
    getitimer alarm setitimer getpid sendfile64 socket connect accept sendto recvfrom sendmsg \
    recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt getsockopt clone \
    fork vfork execve exit wait4 kill newuname semget semop semctl shmdt msgget msgsnd msgrcv \
    msgctl fcntl flock fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename \
    mkdir rmdir creat link unlink symlink readlink chmod fchmod chown fchown lchown umask \
    gettimeofday getrlimit getrusage sysinfo times ptrace getuid syslog getgid setuid setgid \
    geteuid getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups \
    setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset \
    rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod - \
    personality ustat statfs fstatfs sysfs getpriority setpriority sched_setparam sched_getparam \
    sched_setscheduler sched_getscheduler sched_get_priority_max sched_get_priority_min \
    sched_rr_get_interval mlock munlock mlockall munlockall vhangup modify_ldt pivot_root - \
    prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday mount umount swapon \
    swapoff reboot sethostname setdomainname iopl ioperm - init_module delete_module - - \
    quotactl - - - - - - gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr \
    fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time \
    futex sched_setaffinity sched_getaffinity - io_setup io_destroy io_getevents io_submit \
    io_cancel - lookup_dcookie epoll_create - - remap_file_pages getdents64 set_tid_address \
    restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime \
    timer_getoverrun timer_delete clock_settime clock_gettime clock_getres clock_nanosleep \
    exit_group epoll_wait epoll_ctl tgkill utimes - mbind set_mempolicy get_mempolicy mq_open \
    mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load waitid add_key \
    request_key keyctl ioprio_set ioprio_get inotify_init inotify_add_watch inotify_rm_watch \
    migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat \
    symlinkat readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list \
    get_robust_list splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait \
    signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 \
    eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo \
    perf_event_open recvmmsg fanotify_init fanotify_mark prlimit64 name_to_handle_at \
    open_by_handle_at clock_adjtime syncfs sendmmsg setns getcpu process_vm_readv \
    process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom \
    memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range \
    preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq uretprobe \
    uprobe";

/// The next ones begin with this number.
const SECOND_BEGINS: usize = 424;
const SECOND: &str = "\
    pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount \
    fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 \
    process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset \
    landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv \
    set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait \
    futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal \
    setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr";

impl Syscalls {
    /// All that are known.
    pub fn known() -> Self {
        if !cfg!(target_arch = "x86_64") {
            return Self::default();
        }
        let mut names: Vec<&str> = FIRST.split_ascii_whitespace().collect();
        names.resize(SECOND_BEGINS, "-");
        names.extend(SECOND.split_ascii_whitespace());
        let name = |n: &str| (n != "-").then(|| format!("sys_{n}"));
        Self {
            names: names.into_iter().map(name).collect(),
        }
    }

    /// Those that this kernel has in its metadata, by `events/syscalls` of a
    /// tracefs; all that are known where it has no such events.
    pub fn read(tracefs: &Path) -> Self {
        let mut known = Self::known();
        let events = tracefs.join("events/syscalls");
        if fs::exists(&events).unwrap_or(false) {
            for name in &mut known.names {
                let event =
                    |n: &String| events.join(format!("sys_enter_{}", n.trim_start_matches("sys_")));
                *name = name
                    .take()
                    .filter(|n| fs::exists(event(n)).unwrap_or(false));
            }
        }
        known
    }

    /// `sys_openat`; `None`: the kernel would call it `unknown_syscall`.
    pub fn name(&self, number: u64) -> Option<&str> {
        self.names.get(usize::try_from(number).ok()?)?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn names_are_the_kernels() {
        let known = Syscalls::known();
        for (number, name) in [
            (0, Some("sys_read")),
            (4, Some("sys_newstat")),
            (40, Some("sys_sendfile64")),
            (59, Some("sys_execve")),
            (63, Some("sys_newuname")),
            (166, Some("sys_umount")),
            (205, None),
            (231, Some("sys_exit_group")),
            (334, Some("sys_rseq")),
            (336, Some("sys_uprobe")),
            (337, None),
            (423, None),
            (435, Some("sys_clone3")),
            (469, Some("sys_file_setattr")),
            (470, None),
            (u64::MAX, None),
        ] {
            assert_eq!(known.name(number), name, "{number}");
        }
        // libc numbers them the same way.
        for (number, name) in [
            (libc::SYS_openat, "sys_openat"),
            (libc::SYS_fsync, "sys_fsync"),
            (libc::SYS_renameat2, "sys_renameat2"),
            (
                libc::SYS_landlock_restrict_self,
                "sys_landlock_restrict_self",
            ),
            (libc::SYS_futex_waitv, "sys_futex_waitv"),
        ] {
            assert_eq!(known.name(number.cast_unsigned()), Some(name));
        }
    }

    #[test]
    fn only_those_that_have_an_event_are_named() {
        let tracefs = tempfile::tempdir().unwrap();
        let events = tracefs.path().join("events/syscalls");
        assert_eq!(
            Syscalls::read(tracefs.path()).names,
            Syscalls::known().names
        );
        fs::create_dir_all(events.join("sys_enter_read")).unwrap();
        let read = Syscalls::read(tracefs.path());
        let expected = cfg!(target_arch = "x86_64").then_some("sys_read");
        assert_eq!(read.name(0), expected);
        assert_eq!(read.name(1), None);
    }
}
