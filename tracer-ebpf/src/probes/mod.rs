//! One file per probe; `main.rs` holds the entry points.

pub mod debug;
pub mod exec;
pub mod exec_failed;
pub mod exit;
pub mod fork;
pub mod free;
pub mod seed;
pub mod signal;
pub mod text;
