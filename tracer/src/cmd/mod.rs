//! One file for each subcommand.

mod outputs;
pub mod trace;
