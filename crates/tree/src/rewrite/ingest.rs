//! Writes tables for an ingest: entries that arrive in order, or tables written elsewhere.
//!
//! It neither chooses the level of a table nor installs it. All entries of an ingest get one
//! sequence number when it is installed, so each key has one entry at most.

use crate::{
    options::{BYTEWISE, TreeOptions},
    order_name::present_name,
    rewrite::job::{JobContext, JobOutput, JobPart, NewFile, NewTable, NewTables, Opening},
    rewrite::output::origin_of,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{File, WriteFile},
    id::{FamilyId, SequenceNumber},
    key::{Entry, EntryKind},
    limits::{KEY_BYTES_MAX, LEVELS, VALUE_BYTES_MAX},
    sync::lock,
};
use siltdb_disk::{
    edit::TableReference,
    table::{AdoptedTable, Contents, TableScan, TableWriter, adopt},
    table_meta::TableMeta,
};
use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex},
};

/// Bytes of a key that an error shows.
const SHOWN_BYTES_MAX: usize = 64;

/// Checks an entry of an ingest against the limits and the key before it.
///
/// # Errors
/// `InvalidArgument`, if key or value are too long, or the key does not follow `last`.
pub fn check_entry(last: Option<&[u8]>, key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::invalid("key is too long")
            .with_mismatch(format_args!("at most {KEY_BYTES_MAX} bytes"), key.len()));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::invalid("value is too long")
            .with_mismatch(format_args!("at most {VALUE_BYTES_MAX} bytes"), value.len()));
    }
    match last {
        Some(last) if last >= key => {
            let message = if last == key { "key is there twice" } else { "keys are not sorted" };
            Err(Error::invalid(message)
                .with_mismatch(format_args!("a key after {}", shown(last)), shown(key)))
        }
        _ => Ok(()),
    }
}

fn shown(key: &[u8]) -> String {
    let start = &key[..key.len().min(SHOWN_BYTES_MAX)];
    let dots = if start.len() < key.len() { "..." } else { "" };
    format!("\"{}\"{dots}", start.escape_ascii())
}

/// Writes entries, which arrive in the order of their keys, to tables of the target size.
///
/// Dropping it removes its files.
pub struct IngestWriter {
    family: FamilyId,
    options: Arc<TreeOptions>,
    /// What entries have until the install gives them their own. It is older than that.
    provisional: SequenceNumber,
    tables: NewTables,
    open: Option<OpenTable>,
    last_key: Option<Vec<u8>>,
    entries: u64,
}

struct OpenTable {
    // Dropped before the file that it writes.
    table: TableWriter<'static>,
    file: NewFile,
}

/// A table of an ingest that is written and neither verified nor synced. That may happen on any
/// thread, while the next table is written.
///
/// Dropping it removes its file.
pub struct WrittenTable(Mutex<Option<Unverified>>);

/// What verifying a table needs; taken once.
struct Unverified {
    table: NewTable,
    file: NewFile,
    writer: Box<dyn WriteFile>,
}

impl fmt::Debug for WrittenTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenTable").finish_non_exhaustive()
    }
}

impl JobPart for WrittenTable {
    fn run(&self, context: &JobContext<'_>) -> Result<NewTables> {
        let mut tables = NewTables::default();
        if let Some(Unverified { table, file, writer }) = lock(&self.0).take() {
            tables.add_table(table);
            tables.add_file(file, writer, context)?;
            tables.sync()?;
        }
        Ok(tables)
    }
}

impl fmt::Debug for IngestWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IngestWriter").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl IngestWriter {
    /// A writer for `family` that has written nothing.
    #[must_use]
    pub fn new(family: FamilyId, options: Arc<TreeOptions>, provisional: SequenceNumber) -> Self {
        let (tables, open, last_key) = (NewTables::default(), None, None);
        Self { family, options, provisional, tables, open, last_key, entries: 0 }
    }

    /// The family, and its options.
    #[must_use]
    pub fn family(&self) -> (FamilyId, &TreeOptions) {
        (self.family, &self.options)
    }

    /// The number of entries added.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether [`IngestWriter::turn`] must be called before the next entry is added.
    #[must_use]
    pub fn is_turn_due(&self) -> bool {
        let target = self.options.table_bytes_target;
        self.open.as_ref().is_none_or(|open| open.table.estimated_bytes() >= target)
    }

    /// Ends the open table, if there is one, and begins the next. The caller runs what it returns,
    /// and gives the output to [`IngestWriter::add_verified`] in this order.
    ///
    /// # Errors
    /// What writing and creating a file fail with.
    pub fn turn(&mut self, context: &JobContext<'_>) -> Result<Option<WrittenTable>> {
        let written = self.end_table()?;
        let (file, writer) = NewFile::create(context)?;
        // The level is chosen when it is installed, and most often the last.
        let options = self.options.table_at(LEVELS - 1);
        let table = TableWriter::owning(writer, &options, (context.uids)());
        let origin = origin_of(self.family, &self.options, context);
        let table = table.with_origin(origin, self.options.table.compression);
        let table = table.with_created_ms(context.clock.wall_ms());
        let table = table.with_charge(context.files.cache());
        self.open = Some(OpenTable { table, file });
        Ok(written)
    }

    /// Adds the tables that a [`WrittenTable`] returned.
    pub fn add_verified(&mut self, tables: NewTables) {
        self.tables.append(tables);
    }

    /// Adds an entry of `kind`, a put or a delete. A refused entry leaves the writer as it was.
    ///
    /// # Errors
    /// As [`check_entry`]; what writing the file fails with.
    ///
    /// # Panics
    /// If a turn is due.
    pub fn add(&mut self, kind: EntryKind, key: &[u8], value: &[u8]) -> Result<()> {
        check_entry(self.last_key.as_deref(), key, value)?;
        let open = self.open.as_mut().expect("the caller makes a turn when it is due");
        open.table.add(Entry { key, sequence: self.provisional, kind, value })?;
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.entries += 1;
        Ok(())
    }

    fn end_table(&mut self) -> Result<Option<WrittenTable>> {
        let Some(OpenTable { table, file }) = self.open.take() else { return Ok(None) };
        if table.is_empty() {
            return Ok(None);
        }
        let (meta, writer) = table.finish_file()?;
        let table = new_table(self.family, &file, meta);
        Ok(Some(WrittenTable(Mutex::new(Some(Unverified { table, file, writer })))))
    }

    /// Ends the last table, and makes all of them durable: those before were added as verified.
    ///
    /// # Errors
    /// As [`NewTables::add_file`] and [`NewTables::finish`]; no file is left then.
    pub fn finish(mut self, context: &JobContext<'_>) -> Result<JobOutput> {
        if let Some(written) = self.end_table()? {
            self.tables.append(written.run(context)?);
        }
        self.tables.finish([], context)
    }

    /// Leaves the files to the next opening, as [`NewFile::abandon`] does.
    pub fn abandon(self) {
        if let Some(OpenTable { file, .. }) = self.open {
            file.abandon();
        }
        self.tables.abandon();
    }
}

fn new_table(family: FamilyId, file: &NewFile, meta: TableMeta) -> NewTable {
    let reference = TableReference::whole(file.number(), 0, meta);
    // The level is chosen when it is installed.
    NewTable { family, level: 0, reference, opening: Opening::WhenRead }
}

/// Copies a table that was written outside of any database, all of `source` at `path`, into the
/// database. It is durable once the output that `tables` gives is.
///
/// # Errors
/// `InvalidArgument`, if it was not written to be ingested, or its keys have another order than the
/// family; `Unsupported`, if a later version wrote it; `Corruption`, naming file and offset; what
/// reading and writing fail with. No file is left then.
pub fn copy_external(
    family: FamilyId,
    options: &TreeOptions,
    source: &Arc<dyn File>,
    path: &Path,
    tables: &mut NewTables,
    context: &JobContext<'_>,
) -> Result<()> {
    let table = TableScan::open_file(Arc::clone(source), path)?;
    check_external(&table, options, path)?;
    let (file, mut writer) = NewFile::create(context)?;
    let origin = origin_of(family, options, context);
    let (uid, usual) = ((context.uids)(), options.table.compression);
    // A FIFO family counts the age from here: it does not matter when the table was written.
    let adopted = AdoptedTable { uid, origin, usual, created_ms: context.clock.wall_ms() };
    let meta = adopt(&table, &mut *writer, adopted, &mut || context.go_on())?;
    tables.add_table(new_table(family, &file, meta));
    // Reads all of the copy and compares it with index, filter and summary. That each key has one
    // entry follows from the order of entries, because all have one sequence number.
    tables.add_file(file, writer, context).map_err(|error| match error.kind() {
        // The copy has the same bytes at the same offsets, and is about to be removed.
        ErrorKind::Corruption => error.with_file(path),
        _ => error,
    })
}

fn check_external(table: &Arc<TableScan>, options: &TreeOptions, path: &Path) -> Result<()> {
    let Some(external) = table.external() else {
        return Err(Error::invalid("the table was not written to be ingested")
            .with_file(path)
            .with_hint("write one with a `TableFileWriter`"));
    };
    external.check().map_err(|error| error.or_file(path))?;
    let order = options.key_order.as_deref().unwrap_or(BYTEWISE);
    if present_name(&external.key_order) != order {
        return Err(Error::invalid("the table has another key order than the family")
            .with_file(path)
            .with_mismatch(order, external.key_order.escape_debug())
            .with_hint("write it with the key order of the family in its options"));
    }
    let meta = table.meta();
    let mut is_fit = meta.sequence_max == SequenceNumber::ZERO && meta.range_tombstones == 0;
    let mut blocks = table.blocks()?;
    while let Some(info) = blocks.block() {
        let unfit = [Contents::VERSIONS, Contents::MERGES, Contents::BLOB_POINTERS];
        is_fit &= !unfit.iter().any(|&kind| info.contents.has(kind));
        blocks.advance()?;
    }
    if is_fit {
        return Ok(());
    }
    Err(Error::corruption("the table has entries that no ingest takes").with_file(path))
}

#[cfg(test)]
mod tests;
