//! Opening of the tables of a file, which all references to a table share.

use super::{OpenFiles, SharedFile};
use siltdb_base::error::{Error, Result};
use siltdb_disk::{
    edit::TableReference,
    table::{Table, TableFilter, TableLocation},
    table_meta::TableMeta,
};
use std::{path::Path, sync::Arc};

impl SharedFile {
    /// Opens the table at a place of this file, or finds it open. So a clone of a family reads the
    /// tables of its source without holding their indexes twice.
    pub(super) fn table(
        &self,
        files: &Arc<OpenFiles>,
        reference: &TableReference,
    ) -> Result<Arc<Table>> {
        if let Some(table) = self.find_open(reference.offset) {
            expect_meta(table.meta(), &reference.meta, &files.path(self.number))?;
            return Ok(table);
        }
        let table = Table::open(
            TableLocation::new(
                self.open(files)?.clone(),
                &files.path(self.number),
                reference.offset,
                reference.length,
            ),
            Some(&reference.meta),
            files.read_io,
            &files.cache,
        )?;
        self.tables.insert(reference.offset, &table);
        Ok(table)
    }

    /// As [`SharedFile::table`], with an index that stays in the file.
    pub(super) fn lean_table(
        &self,
        files: &Arc<OpenFiles>,
        reference: &TableReference,
    ) -> Result<Arc<Table>> {
        let path = files.path(self.number);
        if let Some(table) = self.lean.get(&reference.offset) {
            expect_meta(table.meta(), &reference.meta, &path)?;
            return Ok(table);
        }
        let file = self.open(files)?.clone();
        let table = Table::open_by_frames(
            TableLocation::new(file, &path, reference.offset, reference.length),
            Some(&reference.meta),
            files.read_io,
            &files.cache,
        )?;
        self.lean.insert(reference.offset, &table);
        Ok(table)
    }

    /// The filter of the table at a place of this file: that of the open table, or read without
    /// opening it.
    pub(super) fn filter(
        &self,
        files: &Arc<OpenFiles>,
        reference: &TableReference,
    ) -> Result<TableFilter> {
        let path = files.path(self.number);
        let meta = &reference.meta;
        if let Some(table) = self.find_open(reference.offset) {
            expect_meta(table.meta(), meta, &path)?;
            return table.filter().cloned();
        }
        let file = self.open(files)?.clone();
        TableFilter::read(
            TableLocation::new(file, &path, reference.offset, reference.length),
            meta,
            &files.cache,
        )
    }
}

fn expect_meta(found: &TableMeta, expected: &TableMeta, path: &Path) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corruption("a table is not the one the manifest names")
        .with_file(path)
        .with_mismatch(expected.uid, found.uid))
}
