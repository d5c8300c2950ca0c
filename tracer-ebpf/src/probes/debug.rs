//! The kernel side's own diagnostics, through aya-log; only with `opt::DEBUG`.
//! Each message is a function of its own, out of the hot path.

use aya_ebpf::helpers::bpf_get_current_task;
use aya_ebpf::programs::BtfTracePointContext;
use aya_log_ebpf::{debug, info};

/// The log macros want a context, of which they use nothing.
fn context() -> BtfTracePointContext {
    // SAFETY: a helper without arguments; the pointer is never followed.
    BtfTracePointContext::new(unsafe { bpf_get_current_task() } as *mut _)
}

#[inline(never)]
pub fn lost(kind: u8) {
    debug!(
        &context(),
        "no room in the ring for a record of kind {}", kind
    );
}

#[inline(never)]
pub fn root(tgid: u32) {
    info!(&context(), "the command is process {}", tgid);
}

#[inline(never)]
pub fn table_full(tgid: u32) {
    info!(
        &context(),
        "the tracked set is full: process {} is not followed", tgid
    );
}
