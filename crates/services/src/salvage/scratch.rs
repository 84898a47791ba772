//! Sorts the operations of a log in bounded memory, into tables beside the new database.
//!
//! These are temporary files of that database. If a crash leaves some, its next opening removes
//! them. A dry run keeps them in memory.

use super::find::FoundTable;
use siltdb_base::{
    error::Result,
    fs::{Fs, mem::MemFs},
    id::{FamilyId, FileNumber, SequenceNumber, TableUid},
    key::{Entry, EntryKind},
    limits::FILE_NUMBER_MAX,
    slice::Slice,
    tombstone::RangeTombstone,
};
use siltdb_disk::{
    edit::TableReference, file_name::FileName, options::TableOptions, table::TableWriter,
};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The size of operations in memory at which they are written out, in bytes.
const BUFFER_BYTES_MAX: usize = if cfg!(test) { 16 << 10 } else { 64 << 20 };

/// The memory of an operation beyond its key and value, in bytes.
const OPERATION_BYTES: usize = 128;

/// The operations of one family, in the order of entries.
#[derive(Debug, Default)]
struct Buffer {
    entries: BTreeMap<(Slice, Reverse<SequenceNumber>), (EntryKind, Vec<u8>)>,
    tombstones: Vec<RangeTombstone>,
}

/// Operations that wait to be written to tables, and the tables written so far.
#[derive(Debug)]
pub struct ScratchTables {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    buffers: BTreeMap<FamilyId, Buffer>,
    bytes: usize,
    tables: BTreeMap<FamilyId, Vec<FoundTable>>,
    files: Vec<PathBuf>,
    /// What is added to the sequence numbers of tables that are written from now on.
    raised_by: u64,
    retired: Range<u64>,
}

impl ScratchTables {
    /// Scratch tables in the directory of the new database.
    #[must_use]
    pub fn new(fs: Arc<dyn Fs>, dir: &Path) -> Self {
        Self {
            fs,
            dir: dir.to_owned(),
            buffers: BTreeMap::new(),
            bytes: 0,
            tables: BTreeMap::new(),
            files: Vec::new(),
            raised_by: 0,
            retired: 0..0,
        }
    }

    /// Scratch tables in memory.
    ///
    /// # Errors
    /// None; the signature is that of a file system.
    pub fn in_memory() -> Result<Self> {
        let (fs, dir) = (MemFs::new(), Path::new("scratch"));
        fs.create_dir_all(dir)?;
        Ok(Self::new(Arc::new(fs), dir))
    }

    /// Adds an operation. If two have the same key and sequence number, the later one counts.
    ///
    /// # Errors
    /// Failures of writing a table.
    pub fn add(&mut self, family: FamilyId, entry: Entry<'_>) -> Result<()> {
        let buffer = self.buffers.entry(family).or_default();
        self.bytes += entry.key.len() + entry.value.len() + OPERATION_BYTES;
        let key = Slice::copy_from(entry.key);
        if entry.kind == EntryKind::RangeDelete {
            let (end, sequence) = (Slice::copy_from(entry.value), entry.sequence);
            buffer.tombstones.push(RangeTombstone { start: key, end, sequence });
        } else {
            let value = (entry.kind, entry.value.to_vec());
            buffer.entries.insert((key, Reverse(entry.sequence)), value);
        }
        if self.bytes > BUFFER_BYTES_MAX { self.write_out() } else { Ok(()) }
    }

    /// Writes the operations in memory to tables.
    ///
    /// # Errors
    /// Failures of writing a table.
    pub fn write_out(&mut self) -> Result<()> {
        self.bytes = 0;
        for (family, buffer) in std::mem::take(&mut self.buffers) {
            self.write_table(family, &buffer)?;
        }
        Ok(())
    }

    fn write_table(&mut self, family: FamilyId, buffer: &Buffer) -> Result<()> {
        let is_some = |tombstone: &&RangeTombstone| tombstone.start < tombstone.end;
        let mut tombstones = buffer.tombstones.iter().filter(is_some).peekable();
        if buffer.entries.is_empty() && tombstones.peek().is_none() {
            return Ok(());
        }
        // Numbers descend from the largest: the new database hands out none of these.
        let number = FileNumber(FILE_NUMBER_MAX - self.files.len() as u64);
        let path = self.dir.join(FileName::Temporary(number).to_string());
        let mut file = self.fs.create(&path)?;
        self.files.push(path.clone());
        let mut table = TableWriter::new(&mut *file, &TableOptions::default(), TableUid(number.0));
        for ((key, Reverse(sequence)), (kind, value)) in &buffer.entries {
            table.add(Entry { key, sequence: *sequence, kind: *kind, value })?;
        }
        tombstones.for_each(|tombstone| table.add_tombstone(tombstone));
        let meta = table.finish()?;
        file.flush()?;
        let reference = Arc::new(TableReference::whole(number, 0, meta));
        let (fs, hidden) = (Arc::clone(&self.fs), Vec::new());
        let raised_by = self.raised_by;
        let table = FoundTable { fs, path, reference, hidden, raised_by };
        self.tables.entry(family).or_default().push(table);
        Ok(())
    }

    /// Adds `by` to the sequence numbers of the operations that have been added so far, instead of
    /// what was added before.
    ///
    /// # Errors
    /// Failures of writing a table.
    pub fn raise(&mut self, by: u64) -> Result<()> {
        self.write_out()?;
        self.tables.values_mut().flatten().for_each(|table| table.raised_by = by);
        Ok(())
    }

    /// Adds `by` to the sequence numbers of the operations that are added from now on.
    ///
    /// # Errors
    /// Failures of writing a table.
    pub fn raise_next(&mut self, by: u64) -> Result<()> {
        self.write_out()?;
        self.raised_by = by;
        Ok(())
    }

    /// Notes which raised sequence numbers operations of retired segments have that stand above all
    /// tables.
    pub fn note_retired(&mut self, retired: Range<u64>) {
        self.retired = retired;
    }

    /// The raised sequence numbers of operations of retired segments that stand above all tables.
    #[must_use]
    pub fn retired(&self) -> Range<u64> {
        self.retired.clone()
    }

    /// The tables of a family.
    #[must_use]
    pub fn tables(&self, family: FamilyId) -> &[FoundTable] {
        self.tables.get(&family).map_or(&[], Vec::as_slice)
    }

    /// Removes all scratch files.
    pub fn remove(&mut self) {
        for path in self.files.drain(..) {
            // The next opening removes the remaining ones.
            let _ = self.fs.remove(&path);
        }
    }
}
