//! A table that is read once, from front to back: by a job, or to be verified.
//!
//! Unlike [`Table`](crate::table::Table) it holds neither index nor filter, and caches nothing:
//! merging takes as little memory as the tables are many. It cannot look up keys.

use crate::options::Compression;
use crate::table::format::block_info::BlockInfo;
use crate::table::format::properties::{ExternalTable, Properties, TableOrigin};
use crate::table::format::sealed::SealedBlock;
use crate::table::read::dictionary::TableDictionary;
use crate::table::read::source::{TableLocation, TableSource};
use crate::table_meta::TableMeta;
use siltdb_base::{error::Result, fs::File, tombstone::Fragments};
use std::{path::Path, sync::Arc};

/// A table whose properties and range tombstones are in memory, and nothing else.
///
/// # Thread safety
/// It is immutable. Each walk over it has its own frame of the index in memory.
#[derive(Debug)]
pub struct TableScan {
    pub(in crate::table) source: TableSource,
    pub(in crate::table) properties: Properties,
    tombstones: Arc<Fragments>,
}

impl TableScan {
    /// Opens a table.
    ///
    /// Footer, properties and range tombstones are read and verified, and compared with what is
    /// `expected`. Frames of the index are verified when a walk comes to them, data blocks when
    /// they are read.
    ///
    /// # Errors
    /// Corruption, if the table is damaged, or another one than expected; `Unsupported`, if a newer
    /// version wrote it; what reading fails with.
    pub fn open(location: TableLocation<'_>, expected: &TableMeta) -> Result<Arc<Self>> {
        Self::read(TableSource::new(location, Some(expected))?, Some(expected))
    }

    /// Opens the table that is all of `file`, which lies at `path`, whichever it is; otherwise as
    /// [`TableScan::open`].
    ///
    /// # Errors
    /// As [`TableScan::open`].
    pub fn open_file(file: Arc<dyn File>, path: &Path) -> Result<Arc<Self>> {
        let length = file.len();
        Self::read(TableSource::new(TableLocation::new(file, path, 0, length), None)?, None)
    }

    /// The table at `source`.
    pub(in crate::table) fn read(
        mut source: TableSource,
        expected: Option<&TableMeta>,
    ) -> Result<Arc<Self>> {
        let properties = source.read_properties(expected)?;
        source.dictionary = TableDictionary::of(&properties, None);
        let tombstones = Arc::new(source.read_tombstones(&properties)?);
        Ok(Arc::new(Self { source, properties, tombstones }))
    }

    /// What is known of the table without opening it.
    #[must_use]
    pub fn meta(&self) -> &TableMeta {
        &self.properties.meta
    }

    /// What it says of the family it was written for, and of what it replaced.
    #[must_use]
    pub fn origin(&self) -> Option<&TableOrigin> {
        self.properties.origin.as_ref()
    }

    /// What it was compressed with, if that does not follow from its origin.
    #[must_use]
    pub fn stated_compression(&self) -> Option<Compression> {
        self.properties.compression
    }

    /// Whether its blocks need a dictionary, which no other table has.
    #[must_use]
    pub fn has_dictionary(&self) -> bool {
        self.properties.dictionary_bytes > 0
    }

    /// Set if it was written outside of any database.
    #[must_use]
    pub fn external(&self) -> Option<&ExternalTable> {
        self.properties.external.as_ref()
    }

    /// The range tombstones.
    #[must_use]
    pub fn tombstones(&self) -> &Arc<Fragments> {
        &self.tombstones
    }

    /// The number of data blocks.
    #[must_use]
    pub fn block_count(&self) -> u64 {
        self.properties.data_frames
    }

    /// Reads a data block, verifies it, and returns it ready to be copied.
    ///
    /// # Errors
    /// Corruption, if it is damaged or not what the index says; what reading fails with.
    pub fn read_sealed(&self, info: &BlockInfo<'_>) -> Result<SealedBlock> {
        self.source.read_sealed(info)
    }
}
