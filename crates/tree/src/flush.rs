//! Writes the memtables of one generation into tables of level 0.
//!
//! It decides neither when nor what is flushed, and takes nothing out of memory.

use crate::{
    copies::Copies,
    deeper::DeeperTables,
    job::{JobContext, JobOutput, NewFile, NewTables},
    memory::Generation,
    options::TreeOptions,
    output::{Destination, Place, Stream, sync_table_file, write_tables},
    plan::Borders,
    retain::{
        entries::{Retain, Rules},
        range::retain_tombstones,
        stripes::Stripes,
    },
    view::View,
    watched::WatchedCursor,
};
use siltdb_base::{cursor::Cursor, error::Result, id::FamilyId, tombstone::Fragments};
use siltdb_memtable::memtable::Memtable;
use std::sync::Arc;

/// Memtables up to this size share a file with others of their generation, in bytes: a thousand
/// families must not make a thousand files of each flush.
pub const SHARED_MEMTABLE_BYTES_MAX: usize = 1 << 20;

/// The memtable of one family.
#[derive(Clone, Debug)]
pub struct FlushInput {
    /// The family.
    pub family: FamilyId,
    /// Its options.
    pub options: Arc<TreeOptions>,
    /// The generation that is flushed.
    pub generation: Generation,
    /// The family's memtable of it, complete: no writer is at work on it any more.
    pub memtable: Arc<Memtable>,
    /// The tree when the flush began: what is older than the memtable is in it.
    pub view: Arc<View>,
}

impl FlushInput {
    /// What is deeper than the memtable: all tables; and what they will be joined by, if an older
    /// generation is still in memory, nobody knows.
    fn deeper(&self) -> DeeperTables {
        let oldest = self.view.memory.oldest();
        if oldest.is_some_and(|oldest| oldest < self.generation) {
            return DeeperTables::anything();
        }
        let [level0, runs @ ..] = self.view.version.levels();
        DeeperTables::new(level0.tables().to_vec(), runs)
    }
}

/// Writes what somebody can still see of `inputs`, memtables of one generation, into tables of
/// level
/// 0. A family of which nothing is left gets no table.
///
/// `stripes` must have been taken after everything in the memtables was published. On return the
/// tables are synced, with their directory entries, read back and verified.
///
/// # Errors
/// What writing or reading the files fails with; `Closed`, if the job was cancelled. No file is
/// left then.
pub fn flush(
    inputs: &[FlushInput],
    stripes: &Stripes,
    context: &JobContext<'_>,
) -> Result<JobOutput> {
    let is_small = |input: &&FlushInput| input.memtable.bytes() <= SHARED_MEMTABLE_BYTES_MAX;
    let (small, large): (Vec<_>, Vec<_>) = inputs.iter().partition(is_small);
    let mut tables = NewTables::default();
    for input in large {
        tables.append(flush_one(input, stripes, &mut Place::OwnFile, context)?);
    }
    tables.append(flush_small(&small, stripes, context)?);
    tables.verify(context)?;
    tables.finish([], context)
}

/// Writes small memtables into one file.
fn flush_small(
    inputs: &[&FlushInput],
    stripes: &Stripes,
    context: &JobContext<'_>,
) -> Result<NewTables> {
    let mut tables = NewTables::default();
    if inputs.is_empty() {
        return Ok(tables);
    }
    let (file, mut writer) = NewFile::create(context)?;
    for input in inputs {
        let mut place = Place::Shared(&file, &mut *writer);
        tables.append(flush_one(input, stripes, &mut place, context)?);
    }
    // Without a table, the file goes as it came.
    if !tables.tables().is_empty() {
        sync_table_file(&mut *writer)?;
        tables.add_file(file);
    }
    Ok(tables)
}

fn flush_one(
    input: &FlushInput,
    stripes: &Stripes,
    place: &mut Place<'_>,
    context: &JobContext<'_>,
) -> Result<NewTables> {
    let tombstones = input.memtable.tombstones();
    let mut deeper = input.deeper();
    let kept = retain_tombstones(&tombstones, stripes, |fragment| deeper.has_in(fragment));
    let kept = Fragments::new(&kept);
    let mut cursor = input.memtable.cursor();
    cursor.seek_to_first()?;
    let rules = Rules {
        stripes: stripes.clone(),
        tombstones,
        now_ms: context.clock.wall_ms(),
        operator: input.options.merge_operator.clone(),
    };
    let cursor = WatchedCursor::new(cursor, context);
    let mut retain = Retain::new(cursor, rules, |key: &[u8]| deeper.has(key));
    let stream = Stream::new(&mut retain, &kept, Borders::default(), Copies::default())?;
    let destination =
        Destination { family: input.family, level: 0, options: &input.options, under: &[] };
    write_tables(stream, &destination, place, context)
}

#[cfg(test)]
mod tests;
