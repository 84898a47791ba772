//! Cursors, which borrow keys and values, and iterators, which own them.
//!
//! The layers below decide visibility; this file only gives it a public shape.

use crate::{
    expiry::Expiry,
    read_options::ReadOptions,
    reads::{Move, Track},
    source::Pinned,
};
use siltdb_base::{
    cursor::{Direction, Fetch},
    error::{Error, Result},
    slice::{Copies, Slice},
};
use siltdb_engine::{
    blobs::PinnedBlobs,
    read::{ReadCursor, stream::ValueStream},
};
use std::{fmt, iter::FusedIterator, ops::ControlFlow};

/// A key and its value, borrowed from a [`Cursor`].
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// A position in a family at one sequence number. It walks in both directions without copies, and
/// is the fastest way to do so.
///
/// A new cursor has no position. It does not see later writes. It pins the memtables and tables
/// that it reads, so dropped data stays on disk until the cursor is dropped.
///
/// After an error the cursor has no position. If the error concerns one key, as when the family's
/// merge operator fails, a seek past that key continues.
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
    fetch: Fetch,
    /// Where values are read that the cursor left unread; `None` if it reads all.
    blobs: Option<PinnedBlobs>,
    /// Records what was read. Boxed, because few cursors have one, and a cursor should be cheap to
    /// move.
    track: Option<Box<Track>>,
}

impl Cursor {
    /// Opens a cursor over a range of a pinned state, without a position.
    pub(crate) fn open(pinned: &Pinned, options: ReadOptions) -> Result<Self> {
        let ReadOptions { range, fetch, streamed_from } = options;
        let track = pinned.reads.as_ref().map(|reads| Box::new(reads.track(range.clone())));
        let reader = pinned.reader.clone().fetching(fetch).streaming_from(streamed_from);
        let blobs = streamed_from.and_then(|_| pinned.reader.blobs().cloned());
        Ok(Self { inner: reader.cursor(range)?, fetch, blobs, track })
    }

    /// Records the movement that led to the present position.
    #[inline]
    fn noted(&mut self, moved: Result<()>, way: Move<'_>) -> Result<()> {
        match &mut self.track {
            None => moved,
            Some(track) => track.note(self.inner.key(), moved, &way),
        }
    }

    /// Returns `value`, or an empty one if only keys are wanted: the cursor below shows some values
    /// then.
    #[inline]
    fn wanted<'a>(&self, value: &'a [u8]) -> &'a [u8] {
        match self.fetch {
            Fetch::Values => value,
            Fetch::KeysOnly => b"",
        }
    }

    fn walk_along(
        &mut self,
        direction: Direction,
        limit: u64,
        mut seen: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        if self.track.is_some() {
            return self.walk_noted(direction, limit, seen);
        }
        match self.fetch {
            Fetch::Values => self.inner.walk(direction, limit, seen),
            Fetch::KeysOnly => self.inner.walk(direction, limit, |key, _| seen(key, b"")),
        }
    }

    #[cold]
    fn walk_noted(
        &mut self,
        direction: Direction,
        limit: u64,
        mut seen: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        let (track, fetch) = (self.track.as_deref(), self.fetch);
        let reached = track.and_then(|track| track.begin_walk(direction));
        let walked = self.inner.walk(direction, limit, |key, value| {
            if let Some(track) = track {
                track.passing(key);
            }
            seen(key, if fetch == Fetch::Values { value } else { b"" })
        });
        if let Some(track) = track {
            track.end_walk(reached);
        }
        let (moved, shown) = match walked {
            Ok(shown) => (Ok(()), shown),
            Err(error) => (Err(error), 0),
        };
        let way = match direction {
            Direction::Forward => Move::On,
            Direction::Backward => Move::Back,
        };
        self.noted(moved, way)?;
        Ok(shown)
    }

    /// Returns the key and value under the cursor; `None` past either end of its range. The value
    /// is empty if the cursor reads only keys, and if [`Cursor::value_reader`] has it.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<Pair<'_>> {
        self.inner.entry().map(|(key, value)| (key, self.wanted(value)))
    }

    /// Returns the key under the cursor; `None` past either end of its range.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.inner.key()
    }

    /// Returns the value under the cursor; empty if the cursor reads only keys, and if
    /// [`Cursor::value_reader`] has it.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.inner.value().map(|value| self.wanted(value))
    }

    /// Returns the value under the cursor as a stream if
    /// [`stream_from`](ReadOptions::stream_from) left it unread; `None` if [`Cursor::value`] has
    /// it, and past either end of the range.
    ///
    /// The stream reads the value that the cursor sees, also after the cursor has moved on or is
    /// dropped; see [`Read::get_reader`](crate::Read::get_reader). A value in a compressed blob is
    /// read as a whole by this call. Otherwise the call opens the blob file if that is not open,
    /// and reads nothing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Read as _, ReadOptions};
    /// use std::io::{Read, copy, repeat, sink};
    ///
    /// let family = db.default_family();
    /// family.put("a", "short")?;
    /// family.put_reader("b", 3 << 20, repeat(7).take(3 << 20))?;
    /// let mut cursor = db.cursor_with(&ReadOptions::new().stream_from(1 << 20))?;
    /// cursor.seek_to_first()?;
    /// assert!(cursor.value_reader()?.is_none());
    /// assert_eq!(cursor.value(), Some(&b"short"[..]));
    /// cursor.next()?;
    /// let mut stream = cursor.value_reader()?.expect("a long value");
    /// assert_eq!(cursor.value(), Some(&b""[..]));
    /// assert_eq!(copy(&mut stream, &mut sink())?, 3 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption` with file and offset; `Io`. The cursor keeps its position.
    #[inline]
    pub fn value_reader(&self) -> Result<Option<ValueStream>> {
        match (self.inner.unread(), &self.blobs) {
            (Some(pointer), Some(blobs)) => ValueStream::open(blobs, pointer).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns when the value under the cursor expires; `None` past either end of its range. It
    /// reads nothing.
    ///
    /// # Errors
    /// `InvalidArgument` after a movement backward, which does not tell: [`Read::expires_at`] does.
    ///
    /// [`Read::expires_at`]: crate::Read::expires_at
    pub fn expires_at(&self) -> Result<Option<Expiry>> {
        if self.inner.key().is_none() {
            return Ok(None);
        }
        if self.inner.direction() == Direction::Backward {
            return Err(Error::invalid("a cursor that moved backward does not know an expiry"));
        }
        Ok(Some(Expiry::stored(self.inner.expiry_ms()?)))
    }

    /// Moves to the first key of the range.
    ///
    /// # Errors
    /// `Corruption` with file and offset, `Io`, or the error of the merge operator. The cursor then
    /// has no position.
    pub fn seek_to_first(&mut self) -> Result<()> {
        let moved = self.inner.seek_to_first();
        self.noted(moved, Move::First)
    }

    /// Moves to the last key of the range.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        let moved = self.inner.seek_to_last();
        self.noted(moved, Move::Last)
    }

    /// Moves to the first key at or after `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let moved = self.inner.seek(key);
        self.noted(moved, Move::From(key))
    }

    /// Moves to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let moved = self.inner.seek_for_prev(key);
        self.noted(moved, Move::BackFrom(key))
    }

    /// Moves to the next key. Without a position it does nothing.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "a lending walk, as every engine names it")]
    pub fn next(&mut self) -> Result<()> {
        let moved = self.inner.next();
        self.noted(moved, Move::On)
    }

    /// Calls `seen` with the key and value under the cursor and those after it, until `limit` pairs
    /// were passed or `seen` breaks. The cursor then stands on the first pair that was not passed.
    /// Returns the number of pairs passed.
    ///
    /// Does the same as [`entry`](Self::entry) and [`next`](Self::next) in turns, at half the cost
    /// or less.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`]; pairs passed before the error are valid.
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
        self.walk_along(Direction::Forward, limit, seen)
    }

    /// Walks as [`Cursor::walk`], but to smaller keys: the same as [`entry`](Self::entry) and
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
        self.walk_along(Direction::Backward, limit, seen)
    }

    /// Moves to the previous key. Without a position it does nothing.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        let moved = self.inner.prev();
        self.noted(moved, Move::Back)
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("entry", &self.entry()).finish()
    }
}

/// Iterates over the keys and values of a range from both ends, as owned copies. Neighbours share
/// memory: a pair that is kept may keep 4 KiB; copy what is to be kept for long (`to_vec`).
///
/// It sees the state at its creation. It ends with the first error, also if a merge operator fails
/// for one key only. A [`Cursor`] can continue behind that key.
pub struct Iter {
    pinned: Pinned,
    options: ReadOptions,
    /// At each end of the range a cursor on the last pair that was yielded there; `None` if none
    /// was yet.
    front: Option<Box<Cursor>>,
    back: Option<Box<Cursor>>,
    copies: Copies,
    finished: bool,
}

impl Iter {
    pub(crate) fn new(pinned: Pinned, options: ReadOptions) -> Self {
        // It owns its values, so it reads all of them.
        let options = ReadOptions { streamed_from: None, ..options };
        let copies = Copies::default();
        Self { pinned, options, front: None, back: None, copies, finished: false }
    }

    /// Converts to an iterator over the keys that are left. Values are neither copied nor merged,
    /// and those with a block of their own are not read; see
    /// [`ReadOptions::keys_only`](crate::ReadOptions::keys_only).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// db.put("photo:1", [7; 100_000])?;
    /// db.put("photo:2", [8; 100_000])?;
    /// let keys: siltdb::Result<Vec<_>> = db.prefix("photo:")?.keys().collect();
    /// assert_eq!(keys?, [b"photo:1", b"photo:2"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keys(self) -> Keys {
        Keys { iter: self.keys_only() }
    }

    /// Leaves the values out of the pairs that are left.
    pub(crate) fn keys_only(self) -> Self {
        let options = self.options.keys_only(true);
        Self { options, ..self }
    }

    /// Opens a cursor at one end of the range.
    fn open(&self, direction: Direction) -> Result<Box<Cursor>> {
        let mut cursor = Box::new(Cursor::open(&self.pinned, self.options.clone())?);
        match direction {
            Direction::Forward => cursor.seek_to_first()?,
            Direction::Backward => cursor.seek_to_last()?,
        }
        Ok(cursor)
    }

    fn step(&mut self, direction: Direction) -> Result<Option<(Slice, Slice)>> {
        let side = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        match (side, direction) {
            (Some(cursor), Direction::Forward) => cursor.next()?,
            (Some(cursor), Direction::Backward) => cursor.prev()?,
            (None, Direction::Forward) => self.front = Some(self.open(direction)?),
            (None, Direction::Backward) => self.back = Some(self.open(direction)?),
        }
        let (side, other) = match direction {
            Direction::Forward => (&self.front, &self.back),
            Direction::Backward => (&self.back, &self.front),
        };
        let pair = side.as_ref().and_then(|cursor| cursor.entry());
        let Some((key, value)) = pair else { return Ok(None) };
        if let Some(met) = other.as_ref().and_then(|other| other.key()) {
            let crossed = match direction {
                Direction::Forward => key >= met,
                Direction::Backward => key <= met,
            };
            if crossed {
                return Ok(None);
            }
        }
        let value = match self.options.fetch {
            Fetch::Values => self.copies.copy(value),
            Fetch::KeysOnly => Slice::default(),
        };
        Ok(Some((self.copies.copy(key), value)))
    }

    fn step_once(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        if self.finished {
            return None;
        }
        let step = self.step(direction).transpose();
        if !matches!(step, Some(Ok(_))) {
            self.finished = true;
            (self.front, self.back) = (None, None);
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

/// Iterates over the keys of a range from both ends, like [`Iter`]; made by [`Iter::keys`].
#[derive(Debug)]
pub struct Keys {
    iter: Iter,
}

impl Iterator for Keys {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        self.iter.next().map(|pair| pair.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.iter.next_back().map(|pair| pair.map(|(key, _)| key))
    }
}

impl FusedIterator for Keys {}
