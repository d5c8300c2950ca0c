//! What is shown: comm globs for the kernel side, the same filters for sources
//! that have no such side, and the sink-side half of `--failed`.

pub mod failed;
pub mod glob;
pub mod select;
