//! Harness of the end-to-end tests: runs the built binary over workloads that
//! count for themselves, and reads back what it recorded.
//!
//! | variable | meaning |
//! |---|---|
//! | `TRACER_BIN` | the binary; else `release/tracer`, else `debug/tracer` of the target directory |
//! | `TRACER_FIXTURES` | compiled workloads; else they are compiled into `fixtures` of the target directory |
//! | `TRACER_EXTRAS` | what `cargo xtask setup --extras` fetched; else it is looked for in the cache |
//! | `TRACER_TEST_SCALE` | counts are divided by it (1) |
//! | `TRACER_TEST_VM` | 1 in a guest that has nothing but busybox |
//! | `TRACER_TEST_BACKEND` | source to test (`ebpf`) |

pub mod beside;
pub mod capture;
pub mod cgroup;
pub mod clock;
pub mod ext4;
pub mod fixtures;
pub mod hist;
pub mod host;
pub mod http;
pub mod knows;
pub mod otlp;
pub mod parts;
pub mod ports;
pub mod printer;
pub mod pty;
pub mod run;
pub mod tmpfs;
pub mod tree;
pub mod truth;

pub use capture::{Capture, Record};
pub use fixtures::{copy_program, fixture};
pub use run::{Outcome, Trace};
pub use truth::Truth;

/// Ends the test, saying why, where the machine cannot run it.
#[macro_export]
macro_rules! require {
    ($($need:ident),+) => {
        $(if let Err(reason) = $crate::host::$need() {
            $crate::host::skipped(&reason);
            return;
        })+
    };
}
