//! Compiles comm globs for the kernel side.
