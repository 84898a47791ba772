//! Shows what the files of a database say, line by line, without opening the database.
//!
//! It reads files as they are: it takes no lock, changes nothing and mends nothing. Beside a
//! running database it may meet files that are being written or removed: what it then reports is
//! what it met.

pub mod line;
pub mod manifest;
pub mod wal;
pub mod table;
