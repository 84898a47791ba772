//! Ingestion: sorted entries and table files become part of families at once, past the log and the
//! memtables.
//!
//! It chooses neither levels nor sequence numbers: the engine does.

use crate::{db::Db, family::Family, source::ReadPlace, write_options::WriteOptions};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    key::EntryKind,
};
use siltdb_engine::copies::ingest::{self, IngestStream, Ingested};
use std::{fmt, path::Path};

/// A stream of sorted entries into a family; see [`Family::ingest`].
///
/// Nothing is visible before [`Ingestion::finish`]. Dropping it removes what it has written.
pub struct Ingestion {
    place: ReadPlace,
    /// `None` after a failure.
    stream: Option<IngestStream>,
}

impl fmt::Debug for Ingestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.describe(f, "Ingestion").field("entries", &self.entries()).finish()
    }
}

impl Ingestion {
    /// Adds a key and its value, with the expiry of a [`Family::put`]. The key must be greater than
    /// the one before.
    ///
    /// # Errors
    /// - `InvalidArgument`, if the key is not greater than the one before, with both keys; if key
    ///   or value are too long. The entry is left out, and the stream can go on.
    /// - `NoSpace`, `Poisoned`, `Closed`, `Io`. Every later call then fails.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::new())
    }

    /// Adds a key and its value, with the expiry of `options`. Their durability does not count.
    ///
    /// # Errors
    /// As [`Ingestion::put`].
    pub fn put_with(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        match options.expiry_rule.expiry_ms(&self.place) {
            None => self.add(EntryKind::Put, key, value),
            Some(expiry_ms) => {
                let payload = [&expiry_ms.to_le_bytes()[..], value].concat();
                self.add(EntryKind::PutExpiring, key, &payload)
            }
        }
    }

    /// Adds the deletion of a key, which must be greater than the one before.
    ///
    /// # Errors
    /// As [`Ingestion::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(EntryKind::Delete, key.as_ref(), b"")
    }

    fn add(&mut self, kind: EntryKind, key: &[u8], value: &[u8]) -> Result<()> {
        let stream = self.stream.as_mut().ok_or_else(failed_before)?;
        let added = self.place.engine.at_work(|database| {
            let memory = &database.database().memory;
            ingest::add(memory, &database.job_rooms(), stream, kind, key, value)
        });
        if let Err(error) = &added
            && error.kind() != ErrorKind::InvalidArgument
        {
            self.cancel();
        }
        added
    }

    /// The number of entries added so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.stream.as_ref().map_or(0, IngestStream::entries)
    }

    /// Makes all entries visible at once, durably on return. They are newer than every commit
    /// published before, and have one sequence number.
    ///
    /// Memtables with entries of the same keys are flushed first. Other commits wait while the log
    /// is synced and the manifest is written: two or three syncs.
    ///
    /// # Errors
    /// - `Busy`, if a transaction holds a lock on keys of the ingest for longer than
    ///   [`Options::lock_timeout`](crate::Options::lock_timeout).
    /// - `NotFound`, if the family was dropped.
    /// - `NoSpace`, `Poisoned`, `Closed`, `Io`.
    ///
    /// After an error nothing is ingested, except after `Poisoned`: a reopen may then find all of
    /// it or nothing.
    pub fn finish(mut self) -> Result<Ingested> {
        let (ReadPlace { engine, family, .. }, stream) = (&self.place, &mut self.stream);
        // Where the work is refused, dropping this cancels the stream.
        engine.at_work(|database| {
            ingest::finish(database, family, stream.take().ok_or_else(failed_before)?)
        })
    }

    fn cancel(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        match self.place.engine.writable() {
            Ok(database) => ingest::cancel(&database.installer(), stream),
            // In a forked child.
            Err(_) => stream.abandon(),
        }
    }
}

impl Drop for Ingestion {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[cold]
fn failed_before() -> Error {
    Error::invalid("the ingestion has failed before").with_hint("begin another")
}

impl Family {
    /// Begins a stream of entries in the order of their keys, for bulk loading. They go to tables
    /// directly, past the log and the memtables, and into the lowest level where no older entry
    /// shadows them. Mostly no compaction rewrites them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    ///
    /// let mut ingestion = db.default_family().ingest()?;
    /// for number in 0..1000_u32 {
    ///     ingestion.put(number.to_be_bytes(), b"value")?;
    /// }
    /// assert!(ingestion.put(7_u32.to_be_bytes(), b"value").is_err());
    /// let ingested = ingestion.finish()?;
    /// assert_eq!(ingested.entries, 1000);
    /// assert_eq!(db.get(7_u32.to_be_bytes())?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Snapshots taken before the end do not see the entries. A transaction that has read their
    /// keys conflicts. A [`Subscription`](crate::Subscription) reports the one sequence number of
    /// the ingest as missing from the log.
    ///
    /// Memory: one block, the index of a table, and 8 bytes per key of a table.
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped; `ReadOnly`, `Poisoned`, `Closed`.
    pub fn ingest(&self) -> Result<Ingestion> {
        self.place.check_writable()?;
        let stream = ingest::begin(&self.place.engine.database().log, &self.place.family);
        Ok(Ingestion { place: self.place.clone(), stream: Some(stream) })
    }

    /// Ingests keys and values, which `entries` must give in the order of their keys, as
    /// [`Family::ingest`] does.
    ///
    /// # Errors
    /// As [`Ingestion::put`] and [`Ingestion::finish`]. After an error nothing is ingested.
    pub fn ingest_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Ingested> {
        let mut ingestion = self.ingest()?;
        for (key, value) in entries {
            ingestion.put(key, value)?;
        }
        ingestion.finish()
    }
}

impl Db {
    /// Ingests table files that a [`TableFileWriter`](crate::TableFileWriter) has written, each
    /// into the family beside it: all of them in one edit, or none. Durable on return.
    ///
    /// The files are copied, and stay as they are. Every block is read and verified. All entries
    /// are newer than every commit published before, and have one sequence number. Values keep the
    /// expiries that the files give them, whatever the TTL of the family. Otherwise as
    /// [`Family::ingest`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path().join("data"))?;
    /// use siltdb::{FamilyOptions, Read, TableFileWriter};
    ///
    /// let path = dir.path().join("users.table");
    /// let mut table = TableFileWriter::create(&path, &FamilyOptions::new())?;
    /// table.put(b"alice", b"1")?;
    /// table.put(b"bob", b"2")?;
    /// table.finish()?;
    /// db.ingest(&[(db.default_family(), &path)])?;
    /// assert_eq!(db.get(b"bob")?.as_deref(), Some(&b"2"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - `NotFound`, if a file is missing or a family was dropped.
    /// - `InvalidArgument`, if a file was not written to be ingested, has another
    ///   [key order](crate::FamilyOptions::key_order) than the family, two files of one family
    ///   overlap, or a family is of another database.
    /// - `Unsupported`, if a later version wrote a file.
    /// - `Corruption`, with file and offset.
    /// - As [`Ingestion::finish`].
    ///
    /// After an error nothing is ingested, except after `Poisoned`, as with [`Ingestion::finish`].
    pub fn ingest<P: AsRef<Path>>(&self, files: &[(Family, P)]) -> Result<Ingested> {
        let open_id = self.default.place.open_id;
        if files.iter().any(|(family, _)| family.place.open_id != open_id) {
            return Err(Error::invalid("a family of an ingest belongs to another database"));
        }
        let files = files.iter().map(|(family, path)| {
            (std::sync::Arc::clone(&family.place.family), path.as_ref().to_owned())
        });
        let files = files.collect::<Vec<_>>();
        self.engine().at_work(|database| ingest::ingest_files(database, &files))
    }
}
