//! Reads and verifies everything on disk, and changes nothing.
//!
//! It repairs nothing; the report says what is wrong.

use siltdb_base::{
    budget::Budget,
    cursor::EntryCursor,
    error::{Error, ErrorKind, Result},
    fs::{LockKind, ReadIo},
    key::{BlobPointer, EntryKind},
    sync::lock,
};
use siltdb_disk::{
    block::Block,
    cache::{Cache, TableMemory},
    edit::TableReference,
    log::recover::RecoveryMode,
    table::{Contents, LostEntries, LostList, SalvageCursor, TablePlace, TableSalvage},
};
use siltdb_engine::{
    blobs::{Blobs, KnownBlobs},
    catalog::family_map::Families,
    catalog::lazy_family::LazyFamily,
    catalog::log_state::LogState,
    catalog::manifest::{read_current, read_manifest},
    database::{Database, job_rooms::Waiting},
    install::{manifest_replay::ManifestReplay, target::Target},
    open::{
        cold::{ColdLocking, attach_to_read},
        directory::lock_directory,
        recovery,
    },
    options::EngineOptions,
    reports::{
        check_report::{CheckProgress, CheckReport},
        kept::LostFiles,
        lost::Lost,
        value_check::ValueCheck,
    },
};
use siltdb_tree::{
    files::open_files::{OpenFiles, OpenReference, TableId},
    memory::Memtables,
    merge_operator::{AbsentOperator, MergeOperator},
    read::visible::resolve::BlobSource,
};
use std::{collections::HashMap, path::Path, sync::Arc};

/// The references of families to one table, with the names of these.
type SharedTable<'v> = Vec<(&'v str, &'v Arc<OpenReference>)>;

/// Verifies every table of every family: each block, order, filter and count. Verifies every
/// separated value that tables and memtables point to.
///
/// # Errors
/// Failures of listing the directory; damage is in the report.
pub fn check(
    database: &Database,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    report.prepared = database.prepared.undecided().len() as u64;
    report.log_records = database.log.replayed_records;
    report.lost_files = LostFiles::of(&**database.catalog.files.directory())?;
    let (families, files) = (&database.catalog.families, &*database.catalog.files);
    check_tables(families, files, &database.blobs, &mut report, on_progress);
    Ok(report)
}

/// Verifies a database that no process has open. It replays manifest and log, then continues as
/// [`check`]. It writes only the lock file.
///
/// After damage in the log, tables are still verified, because the manifest names them. Without
/// `CURRENT` and the manifest nothing else can be. Of the damage in these and in the log only the
/// first is found. [`CheckReport::not_verified`] names the rest.
///
/// # Errors
/// `NotFound`; `Locked`, after the wait that `options` ask for; the system's. Damage is in the
/// report, whatever recovery mode `options` ask for.
pub fn check_closed(
    dir: &Path,
    options: EngineOptions,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    let options = EngineOptions { workers: 0, recovery: RecoveryMode::Strict, ..options };
    match recovery::inspect(dir, options.clone(), Waiting::RunJob(|_| Ok(false))) {
        Ok((database, _lock)) => check(&database, on_progress),
        Err(error) if error.kind() == ErrorKind::Corruption => {
            let mut report = CheckReport::default();
            report.errors.push(error);
            check_without_log(&options, dir, &mut report, on_progress)?;
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

/// Verifies the tables of a database that cannot be loaded, as far as the manifest names them.
fn check_without_log(
    options: &EngineOptions,
    dir: &Path,
    report: &mut CheckReport,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<()> {
    report.not_verified.push("log");
    // The failed load released the lock. Another process may have changed anything since.
    let directory = options.fs.open_dir(dir)?;
    let _lock = lock_directory(&*directory, options, LockKind::Shared)?;
    report.lost_files = LostFiles::of(&*directory)?;
    // Each block is read once, past the cache.
    let cache = Cache::new(Arc::new(Budget::new(usize::MAX)), 0, TableMemory::Beside);
    let blobs = Arc::new(Blobs::new(Arc::clone(&directory), KnownBlobs::Any));
    let files = OpenFiles::new(directory, ReadIo::Read, cache);
    let families = Families::default();
    let read = read_families(&families, &files).and_then(|log| {
        let map = families.load();
        attach_to_read(dir, options, log.cold.as_ref(), &files, &map, ColdLocking::Locks)
    });
    match read {
        // It is locked meanwhile.
        Ok(_cold) => check_tables(&families, &files, &blobs, report, on_progress),
        // The load failed with this error, which is in the report.
        Err(error) if error.kind() == ErrorKind::Corruption => report.not_verified.push("tables"),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Adds the families and tables that the manifest in force names. Returns what else it says.
///
/// # Errors
/// Corruption, also without a `CURRENT`; the system's.
fn read_families(families: &Families, files: &Arc<OpenFiles>) -> Result<LogState> {
    let directory = &**files.directory();
    let number = read_current(directory)?.ok_or_else(|| Error::corruption("CURRENT is missing"))?;
    let absent = |name: &str| -> Option<Arc<dyn MergeOperator>> {
        Some(Arc::new(AbsentOperator::new(name)))
    };
    let target = Target { families, files, operators: &[], absent };
    let mut replay = ManifestReplay::new(target);
    let mut log = LogState::default();
    read_manifest(directory, number, &mut |edit| {
        log.note(&edit);
        replay.note(edit)
    })?;
    replay.finish()?;
    Ok(log)
}

fn check_tables(
    families: &Families,
    files: &OpenFiles,
    blobs: &Arc<Blobs>,
    report: &mut CheckReport,
    on_progress: &mut dyn FnMut(CheckProgress),
) {
    let pin = || {
        let families = families.load();
        let view =
            |family: &Arc<LazyFamily>| (families.label(family.id, &family.name()), family.view());
        Ok(families.iter().map(view).collect::<Vec<_>>())
    };
    let pinned = blobs.pin_with(pin, || None);
    let Ok((views, source)) = pinned else { return };
    let source = source.as_deref();
    let named = views
        .iter()
        .flat_map(|(name, view)| view.version.tables().map(move |(_, table)| (&**name, table)));
    let references: usize = views.iter().map(|(_, view)| view.version.tables().count()).sum();
    let tables = shared_tables(named);
    let shared: usize = tables.iter().map(Vec::len).sum();
    assert_eq!(shared, references, "a check leaves a table out, or takes one twice");
    let bytes =
        tables.iter().filter_map(|shared| shared.first()).map(|(_, table)| table.file_bytes());
    let mut progress = CheckProgress::of(bytes.sum());
    report.errors.extend(families.load().check_branches().err());
    for (name, view) in &views {
        report.errors.extend(view.version.check().err());
        let values = source.map(|blobs| values_in_memory(&view.memory, blobs)).transpose();
        let values = values.map_err(|error| report.errors.push(error));
        if let Ok(Some(values)) = values {
            report.add_values(values, &|values| {
                values.lost.iter().map(|lost| Lost::values_of(name, duplicate(lost))).collect()
            });
        }
    }
    let before = report.tables + report.tables_damaged;
    let to_check = tables.len() as u64;
    for shared in tables {
        let Some((_, table)) = shared.first() else { continue };
        let checked = check_table(table, source, &mut |read| {
            progress.bytes_done += read.block;
            let CheckProgress { bytes_done, bytes_total, .. } = progress;
            assert!(bytes_done <= bytes_total, "{bytes_done} of {bytes_total} bytes were checked");
            on_progress(progress);
            Ok(())
        });
        note_table(report, files, &shared, checked);
    }
    let noted = report.tables + report.tables_damaged - before;
    assert_eq!(noted, to_check, "a table was checked and not noted");
}

/// Reads the separated values that entries of memtables point to.
fn values_in_memory(memory: &Memtables, blobs: &dyn BlobSource) -> Result<ValueCheck> {
    let mut values = ValueCheck::default();
    for table in memory.tables() {
        let mut cursor = table.memtable.cursor();
        cursor.seek_to_first()?;
        values.pass();
        while let Some(entry) = cursor.entry() {
            match entry.kind {
                EntryKind::BlobPointer => {
                    values.entry(entry.key, &BlobPointer::decode(entry.value)?, Some(blobs));
                }
                _ => values.pass(),
            }
            cursor.next()?;
        }
    }
    Ok(values)
}

fn duplicate(lost: &LostEntries) -> LostEntries {
    LostEntries {
        first: lost.first.clone(),
        last: lost.last.clone(),
        entries_max: lost.entries_max,
        error: lost.error.duplicate(),
    }
}

/// Bytes that were read to verify a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockRead {
    /// Of the block itself.
    pub block: u64,
    /// Of the separated values that it points to.
    pub values: u64,
}

/// What a check of one table has found.
#[derive(Debug)]
pub struct TableCheck {
    /// The number of its blocks, or its damage.
    pub blocks: Result<u64>,
    /// The separated values that its sound blocks point to.
    pub values: ValueCheck,
}

/// Verifies every block of a table, its order, index, filter and counts, and the separated values
/// that it points to. Calls `on_block` after each block; an error of that ends the check, and is
/// the damage in the result.
pub fn check_table(
    table: &OpenReference,
    blobs: Option<&dyn BlobSource>,
    on_block: &mut dyn FnMut(BlockRead) -> Result<()>,
) -> TableCheck {
    let mut values = ValueCheck::default();
    let blocks = table.pass().and_then(|passing| {
        passing.verify(&mut |_, info, block| {
            let read = match info.contents.has(Contents::BLOB_POINTERS) {
                true => check_values(block, blobs, &mut values)?,
                false => {
                    values.pass();
                    0
                }
            };
            on_block(BlockRead { block: info.bytes, values: read })
        })?;
        Ok(passing.block_count())
    });
    TableCheck { blocks, values }
}

/// Reads the separated values that the entries of a block point to; returns their stored bytes.
fn check_values(
    block: &Block,
    blobs: Option<&dyn BlobSource>,
    values: &mut ValueCheck,
) -> Result<u64> {
    let mut bytes = 0;
    let mut key = block.prefix().to_vec();
    for index in 0..block.count() {
        let entry = block.entry(index);
        if entry.kind != EntryKind::BlobPointer {
            values.pass();
            continue;
        }
        key.truncate(block.prefix().len());
        key.extend_from_slice(entry.suffix);
        let pointer = BlobPointer::decode(entry.value)?;
        values.entry(&key, &pointer, blobs);
        bytes += u64::from(pointer.stored_bytes);
    }
    Ok(bytes)
}

/// Adds the result for a table to a report: the number of its blocks, or its damage for each family
/// that refers to it; and the separated values that it points to.
pub fn note_table(
    report: &mut CheckReport,
    files: &OpenFiles,
    shared: &[(&str, &Arc<OpenReference>)],
    checked: TableCheck,
) {
    let Some((_, table)) = shared.first() else { return };
    match checked.blocks {
        Ok(blocks) => {
            let entries = table.meta().entries;
            assert!(blocks > 0 || entries == 0, "none of {entries} entries was looked at");
            report.tables += 1;
            report.blocks += blocks;
            report.entries += table.meta().entries;
            report.bytes += table.file_bytes();
        }
        Err(error) => {
            let path = files.path(table.id().file);
            let error = error.or_file(&path);
            report.tables_damaged += 1;
            for (family, table) in shared {
                report.damage.extend(damage(files, family, table, &path, &error));
            }
            report.errors.push(error);
        }
    }
    report.add_values(checked.values, &|values| {
        let of_family = |(family, table): &(&str, &Arc<OpenReference>)| {
            let seen = values.lost.iter().filter(|lost| is_seen(lost, table));
            seen.map(|lost| Lost::values_of(family, duplicate(lost))).collect::<Vec<_>>()
        };
        shared.iter().flat_map(of_family).collect()
    });
}

/// Whether any of the lost entries may be seen through a reference.
fn is_seen(lost: &LostEntries, table: &OpenReference) -> bool {
    let range = table.range();
    let is_before = lost.last.as_ref().is_some_and(|last| range.is_after(last));
    let is_after = lost.first.as_ref().is_some_and(|first| range.is_before(first));
    !is_before && !is_after
}

/// Puts together what refers to the same table, so that those of clones are verified once. What
/// says something else of it is verified for itself.
fn shared_tables<'v>(
    named: impl Iterator<Item = (&'v str, &'v Arc<OpenReference>)>,
) -> Vec<SharedTable<'v>> {
    let mut tables: Vec<SharedTable<'v>> = Vec::new();
    let mut places: HashMap<TableId, usize> = HashMap::new();
    for (name, table) in named {
        let place = *places.entry(table.id()).or_insert(tables.len());
        match tables.get_mut(place) {
            Some(shared) if shared.iter().all(|(_, other)| other.meta() == table.meta()) => {
                shared.push((name, table));
            }
            _ => tables.push(vec![(name, table)]),
        }
    }
    tables
}

/// The unreadable keys of a damaged table: those of its damaged blocks, or all if it cannot be
/// opened.
fn damage(
    files: &OpenFiles,
    family: &str,
    table: &OpenReference,
    path: &Path,
    error: &Error,
) -> Vec<Lost> {
    let (meta, range) = (table.meta(), table.range());
    let whole = |entries| LostEntries {
        first: Some(range.first.clone()),
        last: Some(range.last.clone()),
        entries_max: Some(entries),
        error: error.duplicate(),
    };
    let lost = LostList::default();
    let blocks = table.table().and_then(|_| {
        let TableReference { offset, length, .. } = **table.reference();
        let file = files.open_file(table.id().file)?;
        let place = TablePlace { offset, length };
        let salvage = TableSalvage::open(file, path, place, Some(meta), &lost)?;
        let mut cursor = SalvageCursor::new(Arc::new(salvage), Arc::clone(&lost));
        cursor.seek_to_first();
        while cursor.entry().is_some() {
            cursor.next();
        }
        Ok(())
    });
    let parts = match blocks {
        Ok(()) => std::mem::take(&mut *lock(&lost)),
        Err(_) => vec![whole(meta.entries + meta.range_tombstones)],
    };
    let parts = if parts.is_empty() { vec![whole(0)] } else { parts };
    parts.into_iter().map(|part| Lost::of(family, part)).collect()
}

#[cfg(test)]
mod tests;
