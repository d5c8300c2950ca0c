//! What is known while a capture runs: the order of events, and the living.

mod entry;
#[cfg(test)]
mod odd_lives_tests;
pub mod reorder;
pub mod table;
#[cfg(test)]
mod table_tests;

pub use reorder::Reorder;
pub use table::Table;
