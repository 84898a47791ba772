//! SiltDB: an embedded, transactional, ordered key-value storage engine.
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
//! Limits: keys up to 64 KiB, values up to 4 GiB - 1 MiB - 1, both may be empty; batches up to
//! 4 GiB - 1.
#![forbid(unsafe_code)]

pub mod iter;
pub mod read;
pub mod family;
pub mod batch;
pub mod snapshot;
pub mod options;
pub mod db;
pub mod inspect;

/// The examples of the project's front page are compiled with those of the library.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

pub use batch::{WriteBatch, WriteOptions};
pub use db::{Db, check};
pub use family::Family;
pub use iter::{Cursor, Iter};
pub use options::{
    Compression, Create, Durability, FamilyOptions, LogIo, MergeOperator, Options, RecoveryMode,
};
pub use read::Read;
pub use siltdb_base::{
    error::{Error, ErrorKind, Result},
    slice::Slice,
};
pub use siltdb_engine::{
    check::{CheckProgress, CheckReport},
    stats::Stats,
};
pub use snapshot::Snapshot;
