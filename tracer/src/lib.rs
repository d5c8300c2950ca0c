//! tracer: shows every process that a command, or a whole machine, runs.

pub mod decode;
pub mod filter;
pub mod model;
pub mod sink;
pub mod state;
pub mod sys;
