//! Table files that are written outside of any database, to be ingested by one.
//!
//! They open no database, so any process on any machine can write them.

use crate::{
    expiry::ExpiryRule,
    options::{FamilyOptions, Options},
    source::whole_ms,
    write_options::WriteOptions,
};
use siltdb_base::{
    checksum::xxh3,
    clock::Clock,
    error::{Error, Result},
    fs::Fs,
    id::{SequenceNumber, TableUid},
    key::{Entry, EntryKind},
    limits::LEVELS,
};
use siltdb_disk::table::{ExternalTable, TableWriter};
use siltdb_engine::kit::random::Random;
use siltdb_tree::{options::BYTEWISE, rewrite::ingest::check_entry};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A writer of a table file for [`Db::ingest`](crate::Db::ingest).
///
/// Keys ascend strictly. Dropping the writer before [`TableFileWriter::finish`] removes the file; a
/// killed process leaves one that every ingest refuses.
pub struct TableFileWriter {
    /// The directory of the file.
    directory: Arc<dyn Fs>,
    /// The name of the file in it.
    name: PathBuf,
    /// `None` once it is complete, or after a failure.
    table: Option<TableWriter<'static>>,
    last_key: Option<Vec<u8>>,
    is_complete: bool,
    clock: Arc<dyn Clock>,
    /// Time from a put to the expiry of its value; 0 for no expiry.
    ttl_ms: u64,
}

/// A complete table file.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFileInfo {
    /// The number of entries, deletions included.
    pub entries: u64,
    /// The size of the file, in bytes.
    pub bytes: u64,
    /// The first key.
    pub first_key: Vec<u8>,
    /// The last key.
    pub last_key: Vec<u8>,
}

impl fmt::Debug for TableFileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TableFileWriter").field(&self.directory.full_path(&self.name)).finish()
    }
}

impl TableFileWriter {
    /// Creates the file `path`. Of `options`, table kind, compression, block size, filter, key
    /// order and TTL count. Only families of that [key order](FamilyOptions::key_order) take the
    /// file. Keys are given encoded: [`Key::to_key`](crate::Key::to_key) does that.
    ///
    /// # Errors
    /// As [`Options::table_file`].
    pub fn create(path: impl AsRef<Path>, options: &FamilyOptions) -> Result<Self> {
        Options::new().table_file(path, options)
    }

    /// Adds a key and its value. The key must be greater than the one before. With a
    /// [TTL](FamilyOptions::ttl) in the options the value expires that long after this call.
    ///
    /// # Errors
    /// - `InvalidArgument`, if the key is not greater than the one before, with both keys; if key
    ///   or value are too long. The entry is left out, and the writer can go on.
    /// - `NoSpace`, `Io`. Every later call then fails.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::new())
    }

    /// Adds a key and its value, with the expiry of `options`. Their durability does not count.
    ///
    /// # Errors
    /// As [`TableFileWriter::put`].
    pub fn put_with(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let after = |time_ms| Some(self.clock.wall_ms().saturating_add(time_ms));
        let expiry_ms = match options.expiry_rule {
            ExpiryRule::Unsaid if self.ttl_ms == 0 => None,
            ExpiryRule::Unsaid => after(self.ttl_ms),
            ExpiryRule::For(time) => after(whole_ms(time)),
            ExpiryRule::Is(expiry_ms) => expiry_ms,
        };
        let Some(expiry_ms) = expiry_ms else { return self.add(EntryKind::Put, key, value) };
        let payload = [&expiry_ms.to_le_bytes()[..], value].concat();
        self.add(EntryKind::PutExpiring, key, &payload)
    }

    /// Adds the deletion of a key, which must be greater than the one before.
    ///
    /// # Errors
    /// As [`TableFileWriter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(EntryKind::Delete, key.as_ref(), b"")
    }

    fn add(&mut self, kind: EntryKind, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.table.as_mut().ok_or_else(failed_before)?;
        check_entry(self.last_key.as_deref(), key, value)?;
        let entry = Entry { key, sequence: SequenceNumber::ZERO, kind, value };
        if let Err(error) = table.add(entry) {
            self.table = None;
            return Err(error);
        }
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    /// Completes the file, durably.
    ///
    /// # Errors
    /// `InvalidArgument`, if nothing was added; `NoSpace`, `Io`. The file is removed then.
    pub fn finish(mut self) -> Result<TableFileInfo> {
        let table = self.table.take().ok_or_else(failed_before)?;
        let (meta, mut file) = table.finish_file()?;
        file.sync()?;
        drop(file);
        self.directory.sync_dir(Path::new(""))?;
        self.is_complete = true;
        Ok(TableFileInfo {
            entries: meta.entries,
            bytes: meta.file_bytes,
            first_key: meta.range.first.to_vec(),
            last_key: meta.range.last.to_vec(),
        })
    }
}

impl Drop for TableFileWriter {
    fn drop(&mut self) {
        if !self.is_complete {
            self.table = None;
            // The error is dropped, because there is no caller to return it to. The file has no
            // footer, or a caller that knows of the failure.
            let _ = self.directory.remove(&self.name);
        }
    }
}

#[cold]
fn failed_before() -> Error {
    Error::invalid("the table file has failed before").with_hint("create another")
}

impl Options {
    /// Creates a table file as [`TableFileWriter::create`] does, with the file system of these
    /// options.
    ///
    /// # Errors
    /// `AlreadyExists`; `Unsupported`, for a codec that this build cannot write; `InvalidArgument`,
    /// if an option is out of range or `path` does not end in a name; `NotFound`, if the directory
    /// is missing; `ReadOnly`, `NoSpace`, `Io`.
    pub fn table_file(
        &self,
        path: impl AsRef<Path>,
        options: &FamilyOptions,
    ) -> Result<TableFileWriter> {
        let path = path.as_ref();
        options.tree.check()?;
        options.tree.check_writable()?;
        let name = path.file_name().map(PathBuf::from).ok_or_else(|| {
            Error::invalid("the path of a table file does not end in a name").with_file(path)
        })?;
        let directory = self.engine.fs.open_dir(path.parent().unwrap_or(Path::new("")))?;
        let file = directory.create(&name)?;
        // A seed gives each path its own uid.
        let seed = self.engine.seed.map(|seed| seed ^ xxh3(path.as_os_str().as_encoded_bytes()));
        let uid = TableUid(Random::new(seed).next_u64());
        let order = options.tree.key_order.as_deref().unwrap_or(BYTEWISE);
        let clock = Arc::clone(&self.engine.clock);
        let table = TableWriter::owning(file, &options.tree.table_at(LEVELS - 1), uid)
            .with_external(ExternalTable::current(order))
            .with_created_ms(clock.wall_ms());
        Ok(TableFileWriter {
            directory,
            name,
            table: Some(table),
            last_key: None,
            is_complete: false,
            clock,
            ttl_ms: options.tree.ttl_ms,
        })
    }
}
