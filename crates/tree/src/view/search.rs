//! The versions of one key, from the newest source to the oldest, one at a time.
//!
//! It judges none of them; it stops where no older version can matter.

use crate::{
    memory::Memory, open_files::OpenReference, version::Version as Tables, visible::point::Version,
};
use siltdb_base::{error::Result, id::SequenceNumber, slice::Slice};

/// Where a search looks: the memtables, the tables of level 0, then one table of each level.
#[derive(Clone, Copy, Debug)]
enum Place {
    Memtable(usize),
    Level0(usize),
    Level(usize),
    End,
}

/// A search for the versions of one key that a reader sees.
#[derive(Debug)]
pub struct Search<'v> {
    memory: &'v Memory,
    tables: &'v Tables,
    key: &'v [u8],
    snapshot: SequenceNumber,
    place: Place,
    /// Versions up to this one have not been shown.
    upto: SequenceNumber,
    covering: Option<SequenceNumber>,
}

impl<'v> Search<'v> {
    /// A search that has not looked anywhere yet.
    #[inline]
    pub fn new(
        memory: &'v Memory,
        tables: &'v Tables,
        key: &'v [u8],
        snapshot: SequenceNumber,
    ) -> Self {
        let place = Place::Memtable(0);
        Self { memory, tables, key, snapshot, place, upto: snapshot, covering: None }
    }

    /// The newest range tombstone over the key in the sources searched so far.
    pub fn covering(&self) -> Option<SequenceNumber> {
        self.covering
    }

    /// The next older version of the key.
    ///
    /// # Errors
    /// What reading a table fails with.
    #[inline]
    pub fn next_older(&mut self) -> Result<Option<Version>> {
        loop {
            let found = match self.place {
                Place::Memtable(index) => match self.memory.tables().get(index) {
                    Some(table) => {
                        self.cover(table.memtable.covering(self.key, self.snapshot));
                        table.memtable.get(self.key, self.upto).map(|entry| Version {
                            sequence: entry.sequence,
                            kind: entry.kind,
                            value: Slice::copy_from(entry.value),
                            covering: self.covering,
                        })
                    }
                    None => {
                        self.place = Place::Level0(0);
                        continue;
                    }
                },
                Place::Level0(index) => match self.tables.levels()[0].tables().get(index) {
                    Some(table) if table.range().contains(self.key) => self.look_into(table)?,
                    Some(_) => None,
                    None => {
                        self.place = Place::Level(1);
                        continue;
                    }
                },
                Place::Level(number) => match self.tables.levels().get(number) {
                    Some(level) => match level.find(self.key) {
                        Some(table) => self.look_into(table)?,
                        None => None,
                    },
                    None => return Ok(None),
                },
                Place::End => return Ok(None),
            };
            if let Some(version) = found {
                // Should another be wanted, it may be in the same source.
                match version.sequence.0.checked_sub(1) {
                    Some(below) => self.upto = SequenceNumber(below),
                    None => self.place = Place::End,
                }
                return Ok(Some(version));
            }
            self.leave();
        }
    }

    /// Goes on to the next source; none is worth it once a tombstone covers the key, for it hides
    /// everything in older sources.
    #[inline]
    fn leave(&mut self) {
        self.place = match self.place {
            _ if self.covering.is_some() => Place::End,
            Place::Memtable(index) => Place::Memtable(index + 1),
            Place::Level0(index) => Place::Level0(index + 1),
            Place::Level(number) => Place::Level(number + 1),
            Place::End => Place::End,
        };
    }

    #[inline]
    fn cover(&mut self, tombstone: Option<SequenceNumber>) {
        self.covering = self.covering.max(tombstone);
    }

    fn look_into(&mut self, table: &OpenReference) -> Result<Option<Version>> {
        if table.has_range_tombstones() {
            self.cover(table.tombstones()?.covering(self.key, self.snapshot));
        }
        let found = if table.is_whole() {
            table.table()?.get(self.key, self.upto)?
        } else {
            table.get_narrow(self.key, self.upto)?
        };
        Ok(found.map(|found| Version {
            sequence: found.sequence,
            kind: found.kind,
            value: found.value,
            covering: self.covering,
        }))
    }
}
