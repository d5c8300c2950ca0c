//! What is shown: comm globs for the kernel side, and the sink-side half of
//! `--failed`.

pub mod failed;
pub mod glob;
