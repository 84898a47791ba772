//! The locks of transactions, and the prepared transactions that hold them.
//!
//! It takes no part in a commit and reads no file.

pub mod lock_table;
pub mod prepared_set;
