//! tracer: shows every process that a command, or a whole machine, runs.

// First: its macro holds in the modules after it.
#[macro_use]
pub mod say;

pub mod check;
pub mod cli;
pub mod cmd;
pub mod compare;
pub mod decode;
pub mod filter;
pub mod hist;
pub mod launch;
pub mod metrics;
pub mod model;
#[cfg(test)]
mod own_process;
pub mod pipeline;
pub mod sink;
pub mod source;
pub mod state;
pub mod sys;
