//! Archives: the visible entries of some families in one portable, sorted, checksummed file.
//!
//! It names no family to read and decides nothing about expiry; where archives lie is for callers.
//!
//! ```text
//! | header | table, ... | directory | footer |
//!
//! header     | magic u8[8] | version u32 le | id u64 le | checksum u32 le |
//! directory  fields, see `directory`
//! footer     | id u64 le | directory length u64 le | content checksum u32 le |
//!            | directory checksum u32 le | version u32 le | checksum u32 le | magic u8[8] |
//! ```
//!
//! The parts touch, and the footer ends where the file does. Tables are those of
//! [`table`](crate::table), in the order of the directory: those of a family follow each other, in
//! key order. The *content checksum* is the CRC-32C of everything before the footer, the
//! *directory checksum* that of the directory. The checksums of header and footer are the CRC-32C
//! of what precedes them there. The id is random; header and footer have the same.
//!
//! Every entry of a table is a put, with or without expiry, and has the sequence number 0: an
//! archive does not keep the order of writes.
//!
//! # Invariants
//! 1. A footer is written last, so a file that is cut short has none.
//! 2. No byte of the file is without a checksum.

pub mod name;
pub mod envelope;
pub mod directory;
pub mod writer;
pub mod reader;
pub mod cursor;

#[cfg(test)]
mod tests;
