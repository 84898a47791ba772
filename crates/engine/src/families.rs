//! Families as data: their options, and batches that create and drop them.
//!
//! Clones and branches are copies; see `copies`.

pub mod family_options;
pub mod family_commit;
