//! Backups: copies of a database in a directory of their own, each with a number.
//!
//! A backup needs no log: a flush comes first. Files of tables are immutable, so that backups share
//! them, and each is copied once.
//!
//! ```text
//! 000001.backup    the list of a backup: written last, synced, sealed by a checksum
//! UID-CRC.table    a file of tables, named by what it holds
//! *.partial        a file that is being written; worthless after a crash
//! 000001.made      empty: the list of this number was durable once
//! LOCK             exclusive for writing, shared for reading
//! ```
//!
//! # Invariants
//! 1. A backup exists if its list has its name. All files that the list names are durable then.
//! 2. A file of tables that has its name is whole: it was synced and verified before.
//! 3. A file goes only after the last list that names it is durably gone.
//! 4. The newest list is a past of each database that can add another one.

pub mod directory;
pub mod past;
pub mod create;
pub mod restore;
pub mod verify;
pub mod prune;
