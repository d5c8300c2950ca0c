//! Hist triggers in eBPF: the generic program of `tracer-ebpf/src/hist`.

mod attach;
mod clock;
mod compile;
mod error;
mod load;
mod map;
mod pattern;
mod rows;
#[cfg(test)]
mod tests;
mod unsupported;

pub use compile::Compiled;
pub use error::HistError;
pub use load::{Counter, RawRow, Shared, Tree};
pub use rows::{rows, trim_stacks};
pub use unsupported::Unsupported;

/// Waits until no program runs any more that ran when this was called.
pub fn grace_period() {
    const MEMBARRIER_CMD_GLOBAL: i32 = 1;
    // SAFETY: takes numbers only; the kernel waits for an RCU grace period.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
}
