//! What the kernel side and the user side share: record layouts, kinds,
//! configuration globals, offsets and loss indices.
//!
//! Every struct here is `repr(C)`, has no implicit padding and holds only
//! integers, so that each bit pattern is a valid value; the user side still
//! checks lengths and kinds before it reads one (see `tracer::decode`).
#![no_std]

pub mod config;
pub mod glob;
pub mod hist;
pub mod offsets;
pub mod record;
pub mod seed;
pub mod tracked;
