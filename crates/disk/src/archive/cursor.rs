//! A cursor over a family of an archive: one table after the other, one open at a time.
//!
//! It reads past every cache.

use crate::{
    archive::{
        directory::ArchivedTable,
        reader::{ArchiveFile, damaged},
    },
    table::ScanCursor,
};
use siltdb_base::{
    cursor::{EntryCursor, Stretch},
    error::{Error, ErrorKind, Result},
    id::SequenceNumber,
    key::Entry,
};
use std::sync::Arc;

/// A position among the entries of a family. It keeps the archive open.
///
/// # Invariants
/// 1. If `current` is there, it is a cursor of the table `index`.
/// 2. Between two calls, `current` stands on an entry, or the cursor stands nowhere.
#[derive(Debug)]
pub struct ArchiveCursor {
    archive: Arc<ArchiveFile>,
    family: usize,
    index: usize,
    current: Option<ScanCursor>,
}

impl ArchiveFile {
    /// A cursor over the family of this name, standing nowhere.
    ///
    /// # Errors
    /// `NotFound`, if the archive has no such family.
    pub fn cursor(self: &Arc<Self>, name: &str) -> Result<ArchiveCursor> {
        let families = &self.directory().families;
        let found = families.binary_search_by(|family| family.name.as_str().cmp(name));
        let family = found.map_err(|_| {
            let message = format!("the archive has no family {name:?}");
            Error::new(ErrorKind::NotFound, message).with_file(self.path())
        })?;
        Ok(ArchiveCursor { archive: Arc::clone(self), family, index: 0, current: None })
    }
}

impl ArchiveCursor {
    fn tables(&self) -> &[ArchivedTable] {
        &self.archive.directory().families[self.family].tables
    }

    /// The cursor of the table `index`; nothing if there is no such table.
    fn enter(&mut self, index: usize) -> Result<Option<&mut ScanCursor>> {
        let Some(table) = self.tables().get(index) else {
            self.current = None;
            return Ok(None);
        };
        if self.index != index || self.current.is_none() {
            let cursor = self.archive.open_table(table)?.cursor()?;
            (self.current, self.index) = (Some(cursor), index);
        }
        Ok(self.current.as_mut())
    }

    fn is_at_end(&self) -> bool {
        self.current.as_ref().is_some_and(|cursor| cursor.entry().is_none())
    }

    fn settle_forward(&mut self) -> Result<()> {
        while self.is_at_end() {
            if let Some(cursor) = self.enter(self.index + 1)? {
                cursor.seek_to_first()?;
            }
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        while self.is_at_end() {
            // Before the first table there is `usize::MAX`, which is no table.
            if let Some(cursor) = self.enter(self.index.wrapping_sub(1))? {
                cursor.seek_to_last()?;
            }
        }
        Ok(())
    }

    /// The first table that does not end before `key`.
    fn index_reaching(&self, key: &[u8]) -> usize {
        self.tables().partition_point(|table| table.meta.range.is_before(key))
    }

    /// Goes to a place by `go`, or stands nowhere after an error.
    fn try_go(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let result = go(self);
        if result.is_err() {
            self.current = None;
        }
        result.map_err(damaged)
    }
}

impl EntryCursor for ArchiveCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref()?.entry()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.try_go(|cursor| {
            if let Some(table) = cursor.enter(0)? {
                table.seek_to_first()?;
            }
            cursor.settle_forward()
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.try_go(|cursor| {
            if let Some(table) = cursor.enter(cursor.tables().len().wrapping_sub(1))? {
                table.seek_to_last()?;
            }
            cursor.settle_backward()
        })
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.try_go(|cursor| {
            if let Some(table) = cursor.enter(cursor.index_reaching(key))? {
                table.seek(key, sequence)?;
            }
            cursor.settle_forward()
        })
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.try_go(|cursor| {
            // The table that reaches the key, or else the last one: it may begin after the key.
            let last = cursor.tables().len().wrapping_sub(1);
            if let Some(table) = cursor.enter(cursor.index_reaching(key).min(last))? {
                table.seek_before(key, sequence)?;
            }
            cursor.settle_backward()
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.try_go(|cursor| {
            let Some(table) = &mut cursor.current else { return Ok(()) };
            table.next()?;
            cursor.settle_forward()
        })
    }

    fn prev(&mut self) -> Result<()> {
        self.try_go(|cursor| {
            let Some(table) = &mut cursor.current else { return Ok(()) };
            table.prev()?;
            cursor.settle_backward()
        })
    }

    fn stretch(&self) -> Option<Stretch<'_>> {
        self.current.as_ref()?.stretch()
    }
}
