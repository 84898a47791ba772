//! What the tables of all families come to, brought up to date by each edit: so that a job which
//! asks need not look at each family and table.
//!
//! It knows tables by their references, and no files. It counts how many families have a table, if
//! the table has separated values or is small. The others are not needed, and most of a large
//! database.
//!
//! # Seeded fault
//! `blob_references_miss_a_sharer`: a table that several families share is gone with the first of
//! them.

use siltdb_base::{id::FileNumber, seeded_fault, sync::lock};
use siltdb_disk::edit::TableReference;
use siltdb_tree::{
    files::open_files::TableId, options::TreeOptions, planning::pick_leveled::is_worth_syncs,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Longest small table, in bytes: twice the largest memtable that shares a file with others
/// ([`SHARED_MEMTABLE_BYTES_MAX`](siltdb_tree::rewrite::flush::SHARED_MEMTABLE_BYTES_MAX)).
pub const SMALL_TABLE_BYTES_MAX: u64 = 2 << 20;

/// What the tables of all families come to.
///
/// # Thread safety
/// Any thread may ask. The tables of an edit are added and removed under the lock of the manifest.
#[derive(Debug)]
pub struct Usage {
    counts: Mutex<Counts>,
    /// What no family has had less of since the opening, in bytes.
    base_level_bytes_min: AtomicU64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { counts: Mutex::default(), base_level_bytes_min: AtomicU64::new(u64::MAX) }
    }
}

#[derive(Debug, Default)]
struct Counts {
    /// How many families have each table that is counted.
    tables: HashMap<TableId, CountedTable>,
    /// What tables refer to in blob files. A table that several families share counts once.
    blob_bytes: BTreeMap<FileNumber, u64>,
    /// Bytes of small tables that no family has any more, since the opening.
    left_bytes: u64,
}

#[derive(Debug)]
struct CountedTable {
    reference: Arc<TableReference>,
    families: usize,
}

impl Usage {
    /// A family has a table that it had not.
    pub fn add(&self, table: &Arc<TableReference>) {
        if table.meta.blobs.is_empty() && table.length > SMALL_TABLE_BYTES_MAX {
            return;
        }
        let counts = &mut *lock(&self.counts);
        let new = || CountedTable { reference: Arc::clone(table), families: 0 };
        let counted = counts.tables.entry(id_of(table)).or_insert_with(new);
        counted.families += 1;
        if counted.families == 1 {
            for reference in table.meta.blobs.files() {
                *counts.blob_bytes.entry(reference.file).or_insert(0) += reference.bytes;
            }
        }
    }

    /// A family has a table no more.
    pub fn remove(&self, id: TableId) {
        let counts = &mut *lock(&self.counts);
        let Some(counted) = counts.tables.get_mut(&id) else { return };
        counted.families -= 1;
        if counted.families > 0 && !seeded_fault!("blob_references_miss_a_sharer") {
            return;
        }
        let Some(CountedTable { reference: table, .. }) = counts.tables.remove(&id) else { return };
        if table.length <= SMALL_TABLE_BYTES_MAX {
            counts.left_bytes += table.length;
        }
        for reference in table.meta.blobs.files() {
            let Some(bytes) = counts.blob_bytes.get_mut(&reference.file) else { continue };
            *bytes -= reference.bytes;
            if *bytes == 0 {
                counts.blob_bytes.remove(&reference.file);
            }
        }
    }

    /// What tables refer to in each blob file, in bytes. A table that several families share counts
    /// once.
    #[must_use]
    pub fn blob_bytes(&self) -> BTreeMap<FileNumber, u64> {
        lock(&self.counts).blob_bytes.clone()
    }

    /// A family has these options now.
    pub fn note_options(&self, options: &TreeOptions) {
        // Relaxed, here and below: a bound that saves a look at all families.
        self.base_level_bytes_min.fetch_min(options.base_level_bytes, Ordering::Relaxed);
    }

    /// Whether so many bytes may be worth the syncs of new files to any family. `false` is certain.
    #[must_use]
    pub fn may_be_worth_syncs(&self, bytes: u64) -> bool {
        is_worth_syncs(bytes, self.base_level_bytes_min.load(Ordering::Relaxed))
    }

    /// Bytes of small tables that no family has any more, since the opening. It never falls.
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        lock(&self.counts).left_bytes
    }
}

/// Where a table lies.
#[must_use]
pub fn id_of(table: &TableReference) -> TableId {
    TableId { file: table.file, offset: table.offset }
}

#[cfg(test)]
mod tests;
