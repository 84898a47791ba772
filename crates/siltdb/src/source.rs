//! What [`Read`](crate::Read) is built on: the value of one key, and a pinned moment.
//!
//! A source with writes of its own on top can give both. Nothing outside can implement it, so that
//! reading may grow.

use crate::reads::Reads;
use siltdb_base::{
    error::Result,
    id::SequenceNumber,
    slice::{Pinnable, Slice},
};
use siltdb_engine::{
    catalog::family::FamilyData,
    engine::Engine,
    open_id::OpenId,
    read::{self, PinnedReader},
};
use std::{fmt, sync::Arc};

/// What can be read from.
pub trait ReadSource {
    /// Calls `look` with the value of a key, if it has one.
    ///
    /// # Errors
    /// As [`Read::get`](crate::Read::get).
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>>;

    /// All keys and values as they are now, pinned.
    ///
    /// # Errors
    /// As [`Read::get`](crate::Read::get).
    fn pin(&self) -> Result<Pinned>;
}

/// A family at one moment, pinned.
#[derive(Clone, Debug)]
pub struct Pinned {
    pub(crate) reader: PinnedReader,
    /// Where it is noted what is read; `None`: nowhere.
    pub(crate) reads: Option<Reads>,
}

impl Pinned {
    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        if let Some(reads) = &self.reads {
            reads.key(key);
        }
        self.reader.get(key)
    }
}

/// A family now, or at a moment: what a reader of a database, a family or a snapshot reads.
#[derive(Clone)]
pub(crate) struct ReadPlace {
    pub(crate) engine: Engine,
    /// Which of the open databases that is.
    pub(crate) open_id: OpenId,
    pub(crate) family: Arc<FamilyData>,
    /// `None`: now.
    pub(crate) sequence: Option<SequenceNumber>,
}

impl fmt::Debug for ReadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("ReadPlace");
        fields.field("dir", &self.engine.dir).field("family", &self.family.name());
        if let Some(sequence) = self.sequence {
            fields.field("sequence", &sequence.0);
        }
        fields.finish()
    }
}

impl ReadSource for ReadPlace {
    #[inline]
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>> {
        read::get(&self.engine, &self.family, key, self.sequence, look)
    }

    fn pin(&self) -> Result<Pinned> {
        Ok(Pinned {
            reader: PinnedReader::new(&self.engine, &self.family, self.sequence)?,
            reads: None,
        })
    }
}
