//! Separated values under an iterator: read, or left where they lie.
//!
//! It knows no files: a reader's source of separated values reads them.

use crate::read::visible::iter::{KeyPlace, ValuePlace, VisibleIter};
use siltdb_base::{
    cursor::{EntryCursor, Fetch},
    error::Result,
    key::BlobPointer,
    slice::Slice,
};
use siltdb_disk::blob::window::BlobWindow;

impl<C: EntryCursor> VisibleIter<C> {
    /// Where the value lies, if it was not read because of
    /// [`Reader::streamed_from`](crate::read::visible::reader::Reader::streamed_from). The iterator
    /// shows an empty value in its place.
    #[must_use]
    pub fn unread(&self) -> Option<&BlobPointer> {
        match (self.key_place, &self.value_place) {
            (KeyPlace::Cursor | KeyPlace::Buffer, ValuePlace::Unread(pointer)) => Some(pointer),
            _ => None,
        }
    }

    /// Comes to a separated value that no operand is applied to.
    pub(super) fn fetch(&mut self, pointer: &BlobPointer) -> Result<()> {
        let from = self.reader.streamed_from.unwrap_or(u64::MAX);
        if self.reader.fetch == Fetch::Values && u64::from(pointer.length) >= from {
            self.value_place = ValuePlace::Unread(*pointer);
            return Ok(());
        }
        self.read_pinned(pointer)
    }

    /// Reads a separated value, if values are wanted.
    pub(super) fn read_pinned(&mut self, pointer: &BlobPointer) -> Result<()> {
        self.pinned = match (self.reader.fetch, &self.reader.blobs, &self.reader.budget) {
            (Fetch::KeysOnly, ..) => Slice::default(),
            (Fetch::Values, Some(blobs), Some(budget)) => {
                let window = &mut self.blob_window;
                let window = window.get_or_insert_with(|| Box::new(BlobWindow::new(budget)));
                blobs.read_on_walk(pointer, window)?
            }
            (Fetch::Values, ..) => self.reader.resolver().fetch(pointer)?,
        };
        self.value_place = ValuePlace::Pinned;
        Ok(())
    }
}
