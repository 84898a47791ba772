//! Small tools of this crate that know nothing of a database.
//!
//! They name no other room of the crate.

pub mod signal;
pub mod in_flight;
pub mod counters;
pub mod random;
pub mod turns;
pub mod id_blocks;
pub mod open_id;
pub mod copying;
