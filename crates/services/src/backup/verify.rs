//! Reading backups and verifying them: lists, checksums of files, and every block of their tables.
//!
//! It mends nothing.

use crate::{
    backup::{
        directory::{BackupDirectory, damaged},
        restore::{check_checksum, open_object},
    },
    copy_files::verify_tables,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::LockKind,
};
use siltdb_disk::{
    backup_list::{BackupFileName, BackupList, BackupObject, ObjectName},
    edit::TableReference,
};
use siltdb_engine::{
    kit::copying::{FileCopy, OnProgress},
    options::EngineOptions,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Numbers that a report names of one gap between lists: a foreign file may make it wide.
const MISSING_SHOWN_MAX: usize = 100;

/// The result of a verification.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Backups that were verified.
    pub backups: u64,
    /// Files of theirs; one that they share is read once.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The numbers of the backups that cannot be restored, ascending.
    pub damaged: Vec<u64>,
    /// Everything that is wrong; empty if nothing is.
    pub errors: Vec<Error>,
}

impl VerifyReport {
    /// Adds the lists that are missing.
    fn note_missing(&mut self, directory: &BackupDirectory) -> Result<()> {
        for gap in directory.missing()? {
            let name = BackupFileName::List(gap.start).to_path();
            self.damaged.extend(gap.clone().take(MISSING_SHOWN_MAX));
            let error = Error::corruption("the list of a backup is missing")
                .with_file(&directory.fs().full_path(&name));
            self.errors.push(damaged(error).with_mismatch(gap.start, gap.end));
        }
        Ok(())
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }
}

/// Verifies the backup with this number in `dir`, or all of them.
///
/// # Errors
/// As [`BackupDirectory::open`]; `NotFound`, if there is no such backup; `Cancelled`. Damage, and
/// what cannot be read, is in the report.
pub fn verify_backups(
    dir: &Path,
    number: Option<u64>,
    options: &EngineOptions,
    on_progress: OnProgress<'_>,
) -> Result<VerifyReport> {
    let mut copying = FileCopy::new(&*options.clock, None, on_progress)?;
    let directory = BackupDirectory::open(dir, options, LockKind::Shared)?;
    let mut numbers = directory.numbers()?;
    let mut report = VerifyReport::default();
    if let Some(number) = number {
        if !numbers.contains(&number) {
            directory.pick(Some(number))?;
        }
        numbers = vec![number];
    } else {
        report.note_missing(&directory)?;
    }
    let mut lists = Vec::new();
    for number in numbers {
        report.backups += 1;
        match directory.list(number) {
            Ok(list) => lists.push(list),
            Err(error) => {
                report.damaged.push(number);
                report.errors.push(error);
            }
        }
    }
    let objects = objects(&lists);
    copying.begin(objects.values().map(|(object, _)| object.bytes).sum())?;
    let mut bad: BTreeSet<(ObjectName, u64)> = BTreeSet::new();
    for (key, (object, tables)) in &objects {
        match verify_object(&directory, object, tables, &mut copying) {
            Ok(()) => {
                report.files += 1;
                report.bytes += object.bytes;
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(error) => {
                bad.insert(*key);
                report.errors.push(error);
            }
        }
    }
    let is_bad = |object: &BackupObject| bad.contains(&(object.name, object.bytes));
    let damaged = lists.iter().filter(|list| list.all_objects().any(is_bad));
    report.damaged.extend(damaged.map(|list| list.number));
    report.damaged.sort_unstable();
    Ok(report)
}

/// A file of backups, and its tables as the lists refer to them.
type Listed<'a> = (&'a BackupObject, BTreeMap<u64, &'a TableReference>);

/// The files that the lists name, each once.
fn objects(lists: &[BackupList]) -> BTreeMap<(ObjectName, u64), Listed<'_>> {
    let mut objects: BTreeMap<_, Listed<'_>> = BTreeMap::new();
    for (object, table) in lists.iter().flat_map(BackupList::tables) {
        let entry = objects.entry((object.name, object.bytes));
        let (_, tables) = entry.or_insert_with(|| (object, BTreeMap::new()));
        tables.insert(table.offset, table);
    }
    for blob in lists.iter().flat_map(|list| &list.blobs) {
        objects.entry((blob.name, blob.bytes)).or_insert_with(|| (blob, BTreeMap::new()));
    }
    objects
}

fn verify_object(
    directory: &BackupDirectory,
    object: &BackupObject,
    tables: &BTreeMap<u64, &TableReference>,
    copying: &mut FileCopy<'_>,
) -> Result<()> {
    let file = open_object(directory.fs(), object)?;
    check_checksum(directory.fs(), object, copying.checksum(&*file)?)?;
    let tables: Vec<_> = tables.values().copied().collect();
    verify_tables(directory.fs(), &BackupFileName::Object(object.name).to_path(), &tables)
}
