//! Inspection: shows the content of database files line by line, without opening the database.
//!
//! It takes no lock, changes nothing and repairs nothing. Beside a running database it may find
//! files that are being written or removed. It reports them as it finds them.

pub mod line;
pub mod manifest;
pub mod wal;
pub mod table;
pub mod blob;
