//! Floor 0 of SiltDB: the types that all floors share, and the only access to files and time.
//!
//! Nothing here knows what a memtable, a table or a log is.
#![deny(unsafe_code)]

pub mod invariant;
pub mod seeded_fault;
pub mod sync;
pub mod budget;
#[allow(unsafe_code)]
pub mod hint;
#[allow(unsafe_code)]
pub mod memory;
pub mod error;
#[allow(unsafe_code)]
pub mod process;
pub mod cancel;
pub mod limits;
pub mod id;
pub mod codec;
pub mod checksum;
pub mod key;
pub mod slice;
pub mod shared_list;
pub mod tombstone;
pub mod cursor;
pub mod rate;
pub mod clock;
pub mod fs;
