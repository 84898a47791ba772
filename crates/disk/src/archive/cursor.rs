//! A forward cursor over a family of an archive: one table after the other, one open at a time.
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
    cursor::{EntryCursor, ForwardCursor, Stretch},
    error::{Error, ErrorKind, Result},
    id::SequenceNumber,
    key::Entry,
};
use std::sync::Arc;

/// A position among the entries of a family. It keeps the archive open.
///
/// # Invariants
/// 1. If `current` is there, it is a cursor of the table `index`.
/// 2. Between two calls, `current` is at an entry, or it is `None`.
#[derive(Debug)]
pub struct ArchiveCursor {
    archive: Arc<ArchiveFile>,
    family: usize,
    index: usize,
    current: Option<ScanCursor>,
}

impl ArchiveFile {
    /// A cursor over the family of this name, not positioned yet.
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

    /// Goes to a place by `go`, and to the next table at the end of one. After an error the cursor
    /// is not positioned.
    fn go(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let went = go(self).and_then(|()| {
            while self.current.as_ref().is_some_and(|cursor| cursor.entry().is_none()) {
                if let Some(cursor) = self.enter(self.index + 1)? {
                    cursor.seek_to_first()?;
                }
            }
            Ok(())
        });
        went.map_err(|error| {
            self.current = None;
            damaged(error)
        })
    }

    /// Goes to the first entry at or after `key`.
    ///
    /// # Errors
    /// Corruption; the errors of reading the file.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let index = self.tables().partition_point(|table| table.meta.range.is_before(key));
        self.go(|cursor| match cursor.enter(index)? {
            Some(table) => table.seek(key, SequenceNumber::MAX),
            None => Ok(()),
        })
    }
}

impl ForwardCursor for ArchiveCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref()?.entry()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.go(|cursor| match cursor.enter(0)? {
            Some(table) => table.seek_to_first(),
            None => Ok(()),
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.go(|cursor| match &mut cursor.current {
            Some(table) => table.next(),
            None => Ok(()),
        })
    }

    fn stretch(&self) -> Option<Stretch<'_>> {
        self.current.as_ref()?.stretch()
    }
}
