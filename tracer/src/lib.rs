//! tracer: shows every process that a command, or a whole machine, runs.

pub mod check;
pub mod cli;
pub mod cmd;
pub mod launch;
pub mod model;
pub mod sink;
pub mod sys;
