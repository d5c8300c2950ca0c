//! One file for each subcommand.

mod backend;
pub mod check;
pub mod compare;
mod export;
pub mod hist;
mod live;
mod outputs;
pub mod record;
mod run;
mod service;
mod signals;
pub mod trace;
