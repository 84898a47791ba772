//! What a reader at a snapshot and a wall time sees of the entries.
//!
//! It neither finds the sources nor pins them.

pub mod bounds;
pub mod coverage;
pub mod resolve;
pub mod folding;
pub mod point;
pub mod reader;
mod plain;
mod deleted_run;
mod key_buffer;
pub mod iter;
mod separated;
mod skip;
mod walk;

#[cfg(test)]
pub(crate) mod model;
#[cfg(test)]
mod tests;
