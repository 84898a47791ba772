//! Background work, one piece at a time: a worker, a simulator or a waiting writer calls it.
//!
//! What is worth doing is decided in `tree`, by pure functions; here it is carried out: inputs are
//! pinned, the tree writes files, `install` makes them count, and what they replace is given up.

pub mod context;
pub mod shared;
pub mod space;
pub mod flush;
pub mod compact;
pub mod next;
pub mod log_keeper;
pub mod request;
pub mod replayed;
pub mod workers;
