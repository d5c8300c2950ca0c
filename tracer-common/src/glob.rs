//! Evaluation of comm globs.
use crate::config::Glob;
#[inline(always)]
pub fn matches(_g: &Glob, _comm: &[u8; 16]) -> bool {
    true
}
