//! The walk from the working directory to the root.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_loop, bpf_probe_read_kernel_str};
use tracer_common::offsets::NONE;
use tracer_common::record::flags;

use super::{CWD_MAX, HEAD_MASK, NAME_ROOM, SCRATCH, Scratch};
use crate::globals::offset;
use crate::task::{Task, load, peek};

/// Steps at most.
const CWD_DEPTH: u32 = 128;
/// Steps taken before the loop that can go on to another mount.
const CWD_NEAR: u32 = 6;

/// Appends the names from the working directory up to the process's root, each
/// with a NUL. As prepend_path() walks (fs/d_path.c), without its locks: a
/// rename at that very moment may show a mixed path.
#[inline(always)]
pub(super) unsafe fn append(s: *mut Scratch, task: Task) {
    let (fs, pwd_mnt, pwd_dentry) = (
        offset!(task_fs),
        offset!(fs_pwd_mnt),
        offset!(fs_pwd_dentry),
    );
    let (root_mnt, root_dentry) = (offset!(fs_root_mnt), offset!(fs_root_dentry));
    if fs == NONE
        || pwd_mnt == NONE
        || pwd_dentry == NONE
        || root_mnt == NONE
        || root_dentry == NONE
    {
        return;
    }
    if offset!(dentry_parent) == NONE || offset!(dentry_name) == NONE || offset!(mount_mnt) == NONE
    {
        return;
    }
    if offset!(mount_parent) == NONE
        || offset!(mount_mountpoint) == NONE
        || offset!(vfsmount_root) == NONE
    {
        return;
    }
    // SAFETY: as load(); the caller gives this CPU's scratch.
    unsafe {
        let fs = task.fs();
        let vfsmnt: *const u8 = load(fs, pwd_mnt);
        let mut dentry: *const u8 = load(fs, pwd_dentry);
        (*s).vfsmnt = vfsmnt as usize;
        (*s).stop_vfsmnt = load(fs, root_mnt);
        (*s).stop_dentry = load(fs, root_dentry);
        (*s).top = load(vfsmnt, offset!(vfsmount_root));
        // Most directories are near the root and on its file system. Here the
        // verifier still knows the types, and each step up is a plain load.
        for step in 0..CWD_NEAR {
            if is_root(s, dentry as usize) {
                return;
            }
            let up: *const u8 = load(dentry, offset!(dentry_parent));
            // d_unlinked(): no longer hashed, as the root of a file system never is.
            let hashed = offset!(dentry_hashed);
            if step == 0 && hashed != NONE && up != dentry && load::<usize>(dentry, hashed) == 0 {
                (*s).flags |= flags::CWD_DELETED;
            }
            if dentry as usize == (*s).top
                || up == dentry
                || !append_name(s, load(dentry, offset!(dentry_name)))
            {
                break;
            }
            dentry = up;
        }
        (*s).dentry = dentry as usize;
        (*s).flags |= flags::CWD_CUT;
        bpf_loop(CWD_DEPTH, cwd_step as *mut c_void, core::ptr::null_mut(), 0);
    }
}

/// Whether the walk has come to the process's root directory.
#[inline(always)]
unsafe fn is_root(s: *const Scratch, dentry: usize) -> bool {
    // SAFETY: the caller gives this CPU's scratch.
    unsafe { dentry == (*s).stop_dentry && (*s).vfsmnt == (*s).stop_vfsmnt }
}

/// Appends a directory's name; `false`: there is no room, or it cannot be read.
#[inline(always)]
unsafe fn append_name(s: *mut Scratch, name: usize) -> bool {
    // SAFETY: the caller gives this CPU's scratch; the offset into `bytes` is masked.
    unsafe {
        if (*s).cwd_len > CWD_MAX - 2 * NAME_ROOM {
            return false;
        }
        let to = (&raw mut (*s).bytes)
            .cast::<u8>()
            .add(((*s).filename_len + (*s).cwd_len) & HEAD_MASK);
        let n = bpf_probe_read_kernel_str(to.cast(), NAME_ROOM as u32, name as *const _);
        if n <= 0 {
            return false;
        }
        (*s).cwd_len += n as usize;
    }
    true
}

/// The pointer at `offset` from `base`.
#[inline(always)]
unsafe fn at(base: usize, offset: u32) -> usize {
    // SAFETY: peek() reads nothing that is not readable.
    unsafe { peek(base.wrapping_add(offset as usize) as *const u8) }
}

/// The dentry above and the address of the name; in one read where `d_name.name`
/// lies 16 bytes after `d_parent`, as on 64-bit machines since d_name exists.
#[inline(always)]
unsafe fn parent_and_name(dentry: usize) -> (usize, usize) {
    let (parent, name) = (offset!(dentry_parent), offset!(dentry_name));
    // SAFETY: peek() reads nothing that is not readable.
    unsafe {
        if name == parent + 16 {
            let [parent, _hash, name]: [usize; 3] =
                peek(dentry.wrapping_add(parent as usize) as *const u8);
            return (parent, name);
        }
        (at(dentry, parent), at(dentry, name))
    }
}

/// bpf_loop callback: one name, or one mount, upward. Returns 1 to stop; what
/// ends at the root takes CWD_CUT away.
unsafe extern "C" fn cwd_step(_index: u64, _context: *mut c_void) -> i64 {
    let Some(s) = SCRATCH.get_ptr_mut(0) else {
        return 1;
    };
    // SAFETY: this CPU's value of our map.
    unsafe {
        let (dentry, vfsmnt) = ((*s).dentry, (*s).vfsmnt);
        if is_root(s, dentry) {
            (*s).flags &= !flags::CWD_CUT;
            return 1;
        }
        let (up, name) = parent_and_name(dentry);
        if dentry == (*s).top || up == dentry {
            // A mount's root: go on at its mount point, if there is one.
            let mount = vfsmnt.wrapping_sub(offset!(mount_mnt) as usize);
            let above = at(mount, offset!(mount_parent));
            if above != mount && above != 0 {
                let vfsmnt = above.wrapping_add(offset!(mount_mnt) as usize);
                (*s).dentry = at(mount, offset!(mount_mountpoint));
                (*s).vfsmnt = vfsmnt;
                (*s).top = at(vfsmnt, offset!(vfsmount_root));
                return 0;
            }
            (*s).flags &= !flags::CWD_CUT;
            return 1;
        }
        if !append_name(s, name) {
            return 1;
        }
        (*s).dentry = up;
    }
    0
}
