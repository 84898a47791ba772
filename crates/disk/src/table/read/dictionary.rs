//! The dictionary of a table: read when a block first needs it, and kept while there is room.
//!
//! It does not read the file: its caller does.

use crate::table::format::properties::Properties;
use crate::{cache::Cache, zstd::Dictionary};
use siltdb_base::{
    budget::{Charge, Part},
    error::Result,
    id::TableUid,
};
use std::{
    cell::Cell,
    ops::{Deref, Range},
    sync::{Arc, OnceLock},
};

thread_local! {
    /// The dictionary that this thread used last and that its table does not keep.
    static LAST: Cell<Option<Passing>> = Cell::default();
}

/// Where the dictionary of a table lies, and itself if it is kept.
#[derive(Debug)]
pub struct TableDictionary {
    offset: u64,
    bytes: u64,
    /// What it takes its memory from; nothing, for a pass over the table.
    cache: Option<Arc<Cache>>,
    loaded: OnceLock<(Dictionary, Option<Charge>)>,
}

/// A dictionary that is lent for a frame.
#[derive(Debug)]
pub enum LentDictionary<'t> {
    /// One that its table keeps.
    Kept(&'t Dictionary),
    /// One that the thread keeps until it uses another. It is there until it is dropped.
    Passing(Option<Passing>),
}

/// A dictionary, and the table that it belongs to.
#[derive(Debug)]
pub struct Passing {
    table: TableUid,
    dictionary: Box<Dictionary>,
}

impl TableDictionary {
    /// The one at `offset`, whose frame takes `bytes`; none, if it takes 0. It is charged to the
    /// budget of `cache`, as that of a table.
    pub fn at(offset: u64, bytes: u64, cache: Option<&Arc<Cache>>) -> Option<Arc<Self>> {
        let (cache, loaded) = (cache.map(Arc::clone), OnceLock::new());
        (bytes > 0).then(|| Arc::new(Self { offset, bytes, cache, loaded }))
    }

    /// The one that `properties` lead to.
    pub fn of(properties: &Properties, cache: Option<&Arc<Cache>>) -> Option<Arc<Self>> {
        Self::at(properties.dictionary_offset(), properties.dictionary_bytes, cache)
    }

    /// Lends the dictionary of `table`. Calls `read` with the place of its frame if neither the
    /// table nor the thread has it. Threads that come at once may all read it; one is kept.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn lend(
        &self,
        table: TableUid,
        read: impl FnOnce(Range<u64>) -> Result<Dictionary>,
    ) -> Result<LentDictionary<'_>> {
        if let Some((loaded, _)) = self.loaded.get() {
            return Ok(LentDictionary::Kept(loaded));
        }
        let place = self.offset..self.offset + self.bytes;
        if self.cache.as_ref().is_none_or(|cache| cache.has_room_for_tables()) {
            let read = read(place)?;
            let bytes = Dictionary::memory_bytes(self.bytes as usize);
            let charge = |cache: &Arc<Cache>| {
                let charge = Charge::new(cache.budget(), Part::Tables, bytes);
                cache.fit();
                charge
            };
            let kept = || (read, self.cache.as_ref().map(charge));
            return Ok(LentDictionary::Kept(&self.loaded.get_or_init(kept).0));
        }
        let last = LAST.take().filter(|last| last.table == table);
        let passing = match last {
            Some(last) => last,
            None => Passing { table, dictionary: Box::new(read(place)?) },
        };
        Ok(LentDictionary::Passing(Some(passing)))
    }
}

impl Deref for LentDictionary<'_> {
    type Target = Dictionary;

    fn deref(&self) -> &Dictionary {
        match self {
            Self::Kept(dictionary) => dictionary,
            Self::Passing(passing) => {
                &passing.as_ref().expect("it is there until it is dropped").dictionary
            }
        }
    }
}

impl Drop for LentDictionary<'_> {
    fn drop(&mut self) {
        if let Self::Passing(passing) = self {
            let passing = passing.take();
            // A thread that ends has no use for it any more.
            let _ = LAST.try_with(|last| last.set(passing));
        }
    }
}
