//! One file for each subcommand.

mod backend;
pub mod check;
mod outputs;
pub mod trace;
