//! What can be read from, and how: one trait for a database, a family and a snapshot.
//!
//! Whoever implements it names a family and a moment; the rest follows.

use crate::iter::{Cursor, Iter};
use siltdb_base::{
    error::Result,
    id::SequenceNumber,
    slice::{Pinnable, Slice},
};
use siltdb_engine::{
    catalog::family::Family as EngineFamily, engine::Engine, instance::Instance, read::ReadRange,
};
use std::{
    fmt,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

/// Keeps others from implementing [`Read`], so that it may grow.
pub(crate) mod sealed {
    /// What can be read from.
    pub trait Sealed {}
}

/// A family at a moment: what a reader reads.
#[derive(Clone)]
pub struct Source {
    pub(crate) engine: Engine,
    /// Which of the open databases that is.
    pub(crate) instance: Instance,
    pub(crate) family: Arc<EngineFamily>,
    /// `None`: now.
    pub(crate) sequence: Option<SequenceNumber>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Source");
        fields.field("dir", &self.engine.dir()).field("family", &self.family.name());
        if let Some(sequence) = self.sequence {
            fields.field("sequence", &sequence.0);
        }
        fields.finish()
    }
}

/// Reading, from a [`Db`](crate::Db) (its default family), a [`Family`](crate::Family), or either
/// in a
/// [`Snapshot`](crate::Snapshot).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::Read;
///
/// fn total(source: &impl Read) -> siltdb::Result<usize> {
///     source.prefix(b"order:")?.try_fold(0, |sum, pair| Ok(sum + pair?.1.len()))
/// }
///
/// db.put(b"order:1", b"abc")?;
/// db.put(b"order:2", b"de")?;
/// let before = db.snapshot();
/// db.delete(b"order:1")?;
/// assert_eq!((total(&db)?, total(&before)?), (2, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Read: sealed::Sealed {
    /// The family and the moment that are read.
    #[doc(hidden)]
    fn source(&self) -> &Source;

    /// The value of a key, pinned, without a copy where it lies in a table.
    ///
    /// Costs at most one block read for each level, and each run of level 0, that the filters do
    /// not rule out; and what opening a table costs that nobody has read yet. The value keeps its
    /// block in memory for as long as it lives.
    ///
    /// # Errors
    /// `Corruption` with file and offset; `Closed`; `NotFound`, if the family was dropped; what the
    /// merge operator fails with; the system's.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let source = self.source();
        source.engine.get(&source.family, key.as_ref(), source.sequence, |value| value.pin())
    }

    /// Looks at the value of a key where it lies, and returns what `look` made of it; `None` if the
    /// key has no value.
    ///
    /// Costs less than [`Read::get`]: nothing is copied, and nothing pinned but for the time of
    /// `look`. That may use the database, but what it reads then may be newer.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// db.put(b"visits", &7_u64.to_le_bytes())?;
    /// let visits = db.get_with(b"visits", |value| u64::from(value[0]))?;
    /// assert_eq!(visits, Some(7));
    /// assert_eq!(db.get_with(b"sales", |value| value.len())?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let source = self.source();
        let look = |value: Pinnable<'_>| look(value.bytes());
        source.engine.get(&source.family, key.as_ref(), source.sequence, look)
    }

    /// The values of many keys, all at one moment, in the order of `keys`.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        let source = self.source();
        source.engine.get_many(&source.family, keys, source.sequence)
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// A cursor over all keys; it stands nowhere yet.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn cursor(&self) -> Result<Cursor> {
        let source = self.source();
        let range = ReadRange::default();
        Ok(Cursor::new(source.engine.cursor(&source.family, range, source.sequence)?))
    }

    /// All keys and values, in order.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn iter(&self) -> Result<Iter> {
        iter_over(self.source(), ReadRange::default())
    }

    /// The keys and values of a range, in order, from either end. A range whose start lies behind
    /// its end is empty.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// for key in [b"a", b"b", b"c"] {
    ///     db.put(key, b"")?;
    /// }
    /// let keys: Vec<_> = db.range(&b"b"[..]..)?.rev().map(|pair| pair.unwrap().0).collect();
    /// assert_eq!(keys, [b"c", b"b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        let (start, end) = (owned(range.start_bound()), owned(range.end_bound()));
        iter_over(self.source(), ReadRange { start, end })
    }

    /// The keys that begin with `prefix`, and their values, in order.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        iter_over(self.source(), ReadRange::prefix(prefix.as_ref()))
    }

    /// The first key and its value.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn first(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter()?.next().transpose()
    }

    /// The last key and its value.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn last(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter()?.next_back().transpose()
    }
}

fn iter_over(source: &Source, range: ReadRange) -> Result<Iter> {
    let reader = source.engine.reader(&source.family, source.sequence)?;
    Ok(Iter::new(move || reader.cursor(range.clone())))
}

fn owned<K: AsRef<[u8]>>(bound: Bound<&K>) -> Bound<Slice> {
    bound.map(|key| Slice::copy_from(key.as_ref()))
}
