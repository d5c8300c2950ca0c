//! One file for each subcommand.

mod backend;
pub mod check;
pub mod compare;
mod live;
mod outputs;
pub mod record;
mod run;
mod signals;
pub mod trace;
