//! Floor 1 of SiltDB: every byte that lies on disk.
//!
//! It reads and writes formats; it does not decide what is written when.
#![deny(unsafe_code)]

pub mod filter_keys;
pub mod options;
pub mod fields;
pub mod file_name;
pub mod zstd;
pub mod compress;
pub mod blob;
pub mod frame;
pub mod cache;
pub mod filter;
pub mod maplet;
pub mod key_sketch;
pub mod block;
pub mod log;
pub mod batch;
pub mod prepared;
pub mod garbage;
pub mod table_meta;
pub mod table;
pub mod branch_record;
pub mod edit;
pub mod backup_list;
pub mod archive;
pub mod family_batch;
