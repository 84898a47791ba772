//! SiltDB: an embedded, ordered key-value storage engine.
//!
//! A database is a directory. It holds *families*, each an ordered map from byte strings to byte
//! strings; a batch over any number of families happens as a whole or not at all, also when the
//! process is killed. Readers never wait for writers and see one consistent state.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("data");
//! use siltdb::{Db, Read};
//!
//! let db = Db::open(path)?;
//! db.put(b"key", b"value")?;
//! assert_eq!(db.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What was written survives a process that is killed; a power cut it survives if it was synced
//! ([`Durability`]).
//!
//! Limits: keys up to 64 KiB ([`KEY_BYTES_MAX`]), values up to 4 GiB - 1 MiB - 1
//! ([`VALUE_BYTES_MAX`]), both may be empty; batches up to 4 GiB - 5; 65,536 families.
#![forbid(unsafe_code)]

mod iter;
mod read;
mod write_options;
mod family;
mod batch;
mod snapshot;
mod options;
mod db;
pub mod inspect;
pub mod salvage;
mod upgrade;
pub mod testing;

/// The examples of the project's front page are compiled with those of the library.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

pub use batch::WriteBatch;
pub use db::{Db, check};
pub use family::Family;
pub use iter::{Cursor, Iter};
pub use options::{
    Compression, Create, Durability, FamilyOptions, LogIo, MergeOperator, Options, ReadIo,
    RecoveryMode,
};
pub use read::Read;
pub use siltdb_base::{
    error::{Error, ErrorKind, Result},
    limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    slice::Slice,
};
pub use siltdb_engine::{
    check::{CheckProgress, CheckReport},
    checkpoint::Checkpoint,
    stats::Stats,
};
pub use snapshot::Snapshot;
pub use upgrade::{DatabaseFormat, upgrade};
pub use write_options::WriteOptions;
