//! Walking a family: a cursor that borrows, and an iterator that owns.
//!
//! What is visible was decided below; here is only the shape that callers like.

use siltdb_base::{cursor::Course, error::Result, slice::Slice};
use siltdb_engine::read::ReadCursor;
use std::{fmt, iter::FusedIterator, ops::ControlFlow};

/// A key and its value, borrowed from a [`Cursor`].
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// A position in a family at one moment: the fastest way to walk, both ways, without copying.
///
/// A new cursor stands nowhere. Later writes are not seen. It holds the memtables and tables it
/// walks, so dropped data stays on disk until the cursor is dropped.
///
/// After an error it stands nowhere. Where only one key is at fault, as when the family's merge
/// operator fails for it, those behind it can be read still: seek past that key.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::Read;
/// db.put(b"a", b"1")?;
/// db.put(b"c", b"3")?;
/// let mut cursor = db.cursor()?;
/// cursor.seek(b"b")?;
/// assert_eq!(cursor.entry(), Some((&b"c"[..], &b"3"[..])));
/// cursor.prev()?;
/// assert_eq!(cursor.entry(), Some((&b"a"[..], &b"1"[..])));
/// cursor.prev()?;
/// assert_eq!(cursor.entry(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cursor {
    inner: ReadCursor,
}

impl Cursor {
    pub(crate) fn new(inner: ReadCursor) -> Self {
        Self { inner }
    }

    /// The key and value under the cursor; `None` past either end.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<Pair<'_>> {
        self.inner.entry()
    }

    /// The key under the cursor.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.inner.key()
    }

    /// The value under the cursor.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.inner.value()
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// What reading fails with, or the family's merge operator; the cursor then stands nowhere.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.inner.seek_to_first()
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.inner.seek_to_last()
    }

    /// Goes to the first key at or after `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.seek(key.as_ref())
    }

    /// Goes to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.seek_for_prev(key.as_ref())
    }

    /// Goes to the next key; stays nowhere if it stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "a lending walk, as every engine names it")]
    pub fn next(&mut self) -> Result<()> {
        self.inner.next()
    }

    /// Shows the key under the cursor and those after it, with their values, until `limit` were
    /// shown or `seen` breaks; the cursor then stands on the first that was not shown. Returns how
    /// many were shown.
    ///
    /// The same as [`entry`](Self::entry) and [`next`](Self::next) in turns, at half the cost or
    /// less.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`]; what was shown before was right.
    ///
    /// ```
    /// use siltdb::{Db, Read};
    /// use std::ops::ControlFlow;
    ///
    /// let dir = tempfile::tempdir()?;
    /// let db = Db::open(dir.path())?;
    /// for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
    ///     db.put(key, value)?;
    /// }
    /// let mut cursor = db.cursor()?;
    /// cursor.seek_to_first()?;
    /// let mut bytes = 0;
    /// let shown = cursor.walk(2, |key, value| {
    ///     bytes += key.len() + value.len();
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!((shown, bytes, cursor.key()), (2, 4, Some(&b"c"[..])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn walk(
        &mut self,
        limit: u64,
        seen: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.inner.walk(Course::Forward, limit, seen)
    }

    /// As [`Cursor::walk`], but to earlier keys: the same as [`entry`](Self::entry) and
    /// [`prev`](Self::prev) in turns.
    ///
    /// # Errors
    /// As [`Cursor::walk`].
    ///
    /// ```
    /// use siltdb::{Db, Read};
    /// use std::ops::ControlFlow;
    ///
    /// let dir = tempfile::tempdir()?;
    /// let db = Db::open(dir.path())?;
    /// for key in ["a", "b", "c", "d"] {
    ///     db.put(key, "")?;
    /// }
    /// let mut cursor = db.cursor()?;
    /// cursor.seek_for_prev("c")?;
    /// let mut last_two = Vec::new();
    /// cursor.walk_back(2, |key, _| {
    ///     last_two.push(key.to_vec());
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(last_two, [b"c", b"b"]);
    /// assert_eq!(cursor.key(), Some(&b"a"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn walk_back(
        &mut self,
        limit: u64,
        seen: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.inner.walk(Course::Backward, limit, seen)
    }

    /// Goes to the previous key; stays nowhere if it stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.inner.prev()
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("entry", &self.entry()).finish()
    }
}

/// The keys and values of a range, from both ends, owned by the caller.
///
/// It sees the state at its creation. After an error it yields nothing more, not even keys that
/// could be read: a merge operator that fails for one key ends it. A [`Cursor`] can go on from
/// behind that key.
pub struct Iter {
    open: Box<dyn Fn() -> Result<ReadCursor> + Send>,
    front: Side,
    back: Side,
    finished: bool,
}

/// One end of an [`Iter`].
enum Side {
    /// Not asked for yet.
    Unused,
    /// On the last pair it yielded, which it owns the key of.
    On { cursor: Box<ReadCursor>, key: Slice },
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Backward,
}

impl Iter {
    pub(crate) fn new(open: impl Fn() -> Result<ReadCursor> + Send + 'static) -> Self {
        Self { open: Box::new(open), front: Side::Unused, back: Side::Unused, finished: false }
    }

    fn step(&mut self, direction: Direction) -> Result<Option<(Slice, Slice)>> {
        let (side, other) = match direction {
            Direction::Forward => (&mut self.front, &self.back),
            Direction::Backward => (&mut self.back, &self.front),
        };
        let cursor = match std::mem::replace(side, Side::Unused) {
            Side::Unused => {
                let mut cursor = Box::new((self.open)()?);
                match direction {
                    Direction::Forward => cursor.seek_to_first()?,
                    Direction::Backward => cursor.seek_to_last()?,
                }
                cursor
            }
            Side::On { mut cursor, .. } => {
                match direction {
                    Direction::Forward => cursor.next()?,
                    Direction::Backward => cursor.prev()?,
                }
                cursor
            }
        };
        let (Some(key), Some(value)) = (cursor.key(), cursor.value()) else { return Ok(None) };
        if let Side::On { key: met, .. } = other {
            let crossed = match direction {
                Direction::Forward => key >= met.as_bytes(),
                Direction::Backward => key <= met.as_bytes(),
            };
            if crossed {
                return Ok(None);
            }
        }
        let pair = (Slice::copy_from(key), Slice::copy_from(value));
        *side = Side::On { cursor, key: pair.0.clone() };
        Ok(Some(pair))
    }

    fn step_once(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        if self.finished {
            return None;
        }
        let step = self.step(direction).transpose();
        if !matches!(step, Some(Ok(_))) {
            self.finished = true;
            (self.front, self.back) = (Side::Unused, Side::Unused);
        }
        step
    }
}

impl Iterator for Iter {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step_once(Direction::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step_once(Direction::Backward)
    }
}

impl FusedIterator for Iter {}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("finished", &self.finished).finish_non_exhaustive()
    }
}
