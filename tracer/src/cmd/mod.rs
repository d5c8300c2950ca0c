//! One file for each subcommand.

pub mod check;
mod outputs;
pub mod trace;
