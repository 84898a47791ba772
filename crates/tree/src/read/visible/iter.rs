//! An iterator over the user keys that a reader sees, with their values, in both directions.
//!
//! It does not pin its sources; it does not remember that it failed once it is positioned anew.
//!
//! Forward, a key is shown where it lies: its newest visible version comes first, and key and value
//! are borrowed from the cursor. Backward, its versions come oldest first. So the newest visible
//! one is known only when the cursor has gone on to the key before, and key and value are copied.
//! In both directions a stretch of plain entries is shown where it lies, unchecked. These are one
//! `Put` per key, none newer than the snapshot, no range tombstone, within the bounds.
//!
//! # Invariants
//! 1. `KeyPlace::Cursor`: the merge stands on the version that is shown.
//! 2. `KeyPlace::Buffer`: along the direction, the merge stands behind the version that is shown.
//!    Backward that is on a smaller key, forward perhaps still on the same key.
//! 3. `plain` more steps along the direction lead to plain entries, each of another key.

use crate::{
    read::merge::Merge,
    read::operands::Added,
    read::visible::{
        bounds::Bounds,
        coverage::{Cover, Coverage},
        deleted_run::{DeletedRun, HiddenRun},
        folding::Folding,
        key_buffer::{copy, successor_into},
        plain::{Outlook, Plain},
        reader::Reader,
        resolve::{Verdict, committed_expiry, expiry_of},
    },
};
use siltdb_base::{
    cursor::{Direction, EntryCursor, Fetch},
    error::Result,
    id::SequenceNumber,
    key::BlobPointer,
    slice::Slice,
    tombstone::Fragments,
};
use siltdb_disk::blob::window::BlobWindow;
use std::sync::Arc;

/// Entries walked over one by one before a seek is tried in their place.
const WALKED_MAX: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPlace {
    Nowhere,
    Cursor,
    Buffer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValuePlace {
    /// In the cursor's payload, from this offset on.
    Cursor(usize),
    Buffer,
    Pinned,
    /// A separated value that was not read.
    Unread(BlobPointer),
}

/// What a forward search has to pass over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// Nothing: the cursor stands where the search begins.
    Here,
    /// All further versions of the key in the buffer.
    NextKey,
}

/// What the versions of a key looked at so far say, from the oldest on.
#[derive(Clone, Copy, Debug)]
enum Found {
    Nothing,
    /// The value is in the buffer.
    Value,
    Blob(BlobPointer),
}

/// What a forward search came to.
#[derive(Clone, Copy, Debug)]
enum Sought {
    Nothing,
    /// What is shown lies under the cursor, the value where `value_place` says.
    Value,
    /// An operand lies under the cursor, below a range tombstone or not.
    Operand(Option<Cover>),
}

/// The user keys a reader sees, with their final values.
///
/// It stands nowhere at first, past either end, and after an error; `next` and `prev` then do
/// nothing.
#[derive(Debug)]
pub struct VisibleIter<C> {
    pub(super) merge: Merge<C>,
    pub(super) coverage: Coverage,
    pub(super) reader: Reader,
    pub(super) bounds: Bounds,
    pub(super) direction: Direction,
    pub(super) key_place: KeyPlace,
    pub(super) value_place: ValuePlace,
    pub(super) key: Vec<u8>,
    value: Vec<u8>,
    pub(super) pinned: Slice,
    /// On the files of separated values, once one was read.
    pub(super) blob_window: Option<Box<BlobWindow>>,
    /// Operands of the key at hand.
    folding: Folding,
    pub(super) plain: usize,
    /// `plain` is 0 because the iterator has not looked ahead yet; seeks alone need not.
    is_unexplored: bool,
    /// Steps until the cursor's span is worth a look.
    span_wait: usize,
    pub(super) hidden: HiddenRun,
    pub(super) deleted_run: DeletedRun,
    /// Where a seek goes to.
    pub(super) target: Vec<u8>,
}

impl<C: EntryCursor> VisibleIter<C> {
    /// What `reader` sees, within `bounds`, of the entries of `merge` and the range tombstones
    /// beside them.
    #[must_use]
    pub fn new(
        merge: Merge<C>,
        tombstones: Vec<Arc<Fragments>>,
        reader: Reader,
        bounds: Bounds,
    ) -> Self {
        let mut coverage = Coverage::new(tombstones, reader.snapshot);
        if let Some(own) = &reader.own {
            coverage.add(own.memtable.tombstone_lists(), own.last);
        }
        Self {
            merge,
            coverage,
            reader,
            bounds,
            direction: Direction::Forward,
            key_place: KeyPlace::Nowhere,
            value_place: ValuePlace::Buffer,
            key: Vec::new(),
            value: Vec::new(),
            pinned: Slice::default(),
            blob_window: None,
            folding: Folding::new(Added::NewestFirst),
            plain: 0,
            is_unexplored: false,
            span_wait: 0,
            hidden: HiddenRun::default(),
            deleted_run: DeletedRun::default(),
            target: Vec::new(),
        }
    }

    /// The key; `None` if the iterator stands nowhere.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        match self.key_place {
            KeyPlace::Cursor => self.merge.entry().map(|entry| entry.key),
            KeyPlace::Buffer => Some(&self.key),
            KeyPlace::Nowhere => None,
        }
    }

    /// The value; `None` if the iterator stands nowhere. Empty, if [`VisibleIter::unread`] says
    /// where it lies.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        match (self.key_place, self.value_place) {
            (KeyPlace::Nowhere, _) => None,
            (_, ValuePlace::Cursor(start)) => self.merge.entry().map(|entry| &entry.value[start..]),
            (_, ValuePlace::Buffer) => Some(&self.value),
            (_, ValuePlace::Pinned) => Some(&self.pinned),
            (_, ValuePlace::Unread(_)) => Some(&[]),
        }
    }

    /// The key and the value; `None` if the iterator stands nowhere.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        match (self.key_place, self.value_place) {
            (KeyPlace::Cursor, ValuePlace::Cursor(start)) => {
                self.merge.entry().map(|entry| (entry.key, &entry.value[start..]))
            }
            _ => Some((self.key()?, self.value()?)),
        }
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// What reading the sources or building the value fails with; the same for all movements.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.set_out(Direction::Forward);
        let cover = self.bounds.lower.as_ref().and_then(|lower| self.coverage.find(lower));
        match (&self.bounds.lower, cover) {
            (Some(lower), None) => self.merge.seek(lower, self.reader.newest())?,
            (Some(lower), Some(cover)) => self.seek_past(&lower.clone(), cover)?,
            (None, _) => self.merge.seek_to_first()?,
        }
        self.find_forward(From::Here)
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// The errors of [`VisibleIter::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.set_out(Direction::Backward);
        match &self.bounds.upper {
            Some(upper) => self.merge.seek_before(upper, SequenceNumber::MAX)?,
            None => self.merge.seek_to_last()?,
        }
        self.find_backward()
    }

    /// Goes to the first key at or after `key`.
    ///
    /// # Errors
    /// The errors of [`VisibleIter::seek_to_first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.is_before(key) {
            return self.seek_to_first();
        }
        self.set_out(Direction::Forward);
        self.seek_merge(key)?;
        self.find_forward(From::Here)
    }

    /// Goes to the last key at or before `key`.
    ///
    /// # Errors
    /// The errors of [`VisibleIter::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.is_after(key) {
            return self.seek_to_last();
        }
        self.set_out(Direction::Backward);
        self.seek_merge_for_prev(key)?;
        self.find_backward()
    }

    /// Goes to the next key; does nothing if the iterator stands nowhere.
    ///
    /// # Errors
    /// The errors of [`VisibleIter::seek_to_first`].
    #[expect(clippy::should_implement_trait, reason = "the word of every cursor; it lends")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        self.look_ahead();
        if self.plain > 0 && self.direction == Direction::Forward {
            self.plain -= 1;
            let moved = self.merge.next();
            return self.noted(moved);
        }
        self.next_checked()
    }

    /// Goes to the previous key; does nothing if the iterator stands nowhere.
    ///
    /// # Errors
    /// The errors of [`VisibleIter::seek_to_first`].
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if self.plain > 0 && self.direction == Direction::Backward {
            self.plain -= 1;
            let moved = self.merge.prev();
            return self.noted(moved);
        }
        self.prev_checked()
    }

    #[inline(always)]
    fn next_checked(&mut self) -> Result<()> {
        let place = std::mem::replace(&mut self.key_place, KeyPlace::Nowhere);
        if place == KeyPlace::Nowhere {
            return Ok(());
        }
        if place == KeyPlace::Cursor
            && let Some(entry) = self.merge.entry()
        {
            copy(&mut self.key, entry.key);
        }
        if self.direction == Direction::Backward {
            self.set_out(Direction::Forward);
            successor_into(&mut self.target, &self.key);
            self.merge.seek(&self.target, SequenceNumber::MAX)?;
            return self.find_forward(From::Here);
        }
        if place == KeyPlace::Cursor {
            self.merge.next()?;
        }
        self.find_forward(From::NextKey)
    }

    fn prev_checked(&mut self) -> Result<()> {
        let place = std::mem::replace(&mut self.key_place, KeyPlace::Nowhere);
        if place == KeyPlace::Nowhere {
            return Ok(());
        }
        if self.direction == Direction::Forward {
            if place == KeyPlace::Cursor
                && let Some(entry) = self.merge.entry()
            {
                copy(&mut self.key, entry.key);
            }
            self.set_out(Direction::Backward);
            self.merge.seek_before(&self.key, SequenceNumber::MAX)?;
        } else if place == KeyPlace::Cursor {
            // A plain entry: the only version of its key.
            self.merge.prev()?;
        }
        self.find_backward()
    }

    fn set_out(&mut self, direction: Direction) {
        self.direction = direction;
        self.key_place = KeyPlace::Nowhere;
        (self.plain, self.is_unexplored) = (0, false);
        self.span_wait = 0;
        self.hidden = HiddenRun::default();
        // A panic may have ended it.
        self.deleted_run.clear();
    }

    /// Stands nowhere if the cursor does.
    #[inline]
    fn noted<T>(&mut self, moved: Result<T>) -> Result<T> {
        if moved.is_err() {
            self.key_place = KeyPlace::Nowhere;
        }
        moved
    }

    /// Goes on from the cursor's entry to the next visible one.
    pub(super) fn find_forward(&mut self, from: From) -> Result<()> {
        // Until something is found; also if an error comes first.
        self.key_place = KeyPlace::Nowhere;
        let sought = self.search_forward(from);
        match self.arrive(sought)? {
            Sought::Nothing => Ok(()),
            Sought::Value => {
                self.key_place = KeyPlace::Cursor;
                self.is_unexplored = true;
                Ok(())
            }
            Sought::Operand(cover) => self.combine_forward(cover),
        }
    }

    #[inline]
    fn search_forward(&mut self, mut from: From) -> Result<Sought> {
        let mut walked = 0;
        let sight = self.reader.sight();
        loop {
            let Some(entry) = self.merge.entry() else { return Ok(Sought::Nothing) };
            if self.bounds.is_after(entry.key) {
                return Ok(Sought::Nothing);
            }
            let is_passed = from == From::NextKey && entry.key == self.key;
            if is_passed || !sight.sees(entry.sequence) {
                walked += 1;
                if walked < WALKED_MAX {
                    self.merge.next()?;
                    continue;
                }
                walked = 0;
                let sequence = if is_passed {
                    successor_into(&mut self.target, entry.key);
                    SequenceNumber::MAX
                } else {
                    copy(&mut self.target, entry.key);
                    sight.newest_below(entry.sequence)
                };
                self.merge.seek(&self.target, sequence)?;
                continue;
            }
            let cover = self.coverage.find(entry.key);
            match self.reader.decide(&entry, cover)? {
                Verdict::Value(value) => {
                    self.value_place = ValuePlace::Cursor(entry.value.len() - value.len());
                }
                Verdict::Blob(pointer) => self.fetch(&pointer)?,
                Verdict::Operand(_) if self.reader.fetch == Fetch::Values => {
                    return Ok(Sought::Operand(cover));
                }
                Verdict::Operand(_) => self.value_place = ValuePlace::Cursor(0),
                Verdict::Absent => {
                    copy(&mut self.key, entry.key);
                    from = From::NextKey;
                    let sequence = entry.sequence;
                    if !self.skip_deleted()? && !self.skip_hidden(cover, sequence)? {
                        self.merge.next()?;
                    }
                    continue;
                }
            }
            return Ok(Sought::Value);
        }
    }

    /// Combines the operand under the cursor with the older versions of its key.
    fn combine_forward(&mut self, cover: Option<Cover>) -> Result<()> {
        self.key.clear();
        self.folding.restart(Added::NewestFirst);
        let (resolver, sight) = (self.reader.resolver(), self.reader.sight());
        let fetched;
        let base = loop {
            let Some(entry) = self.merge.entry() else { break None };
            if self.folding.is_empty() {
                copy(&mut self.key, entry.key);
            } else if entry.key != self.key {
                break None;
            }
            if !sight.sees(entry.sequence) {
                self.merge.next()?;
                continue;
            }
            let verdict = self.reader.decide(&entry, cover)?;
            if let Verdict::Operand(operand) = verdict {
                let known = self.folding.add(&self.key, entry.sequence, operand, || resolver);
                if let Some(value) = known {
                    self.reader.note_unexpired(self.folding.expiry_ms());
                    fetched = value;
                    break Some(fetched.as_bytes());
                }
                self.merge.next()?;
                continue;
            }
            break match verdict {
                Verdict::Value(value) => {
                    self.folding.pass(expiry_of(entry.kind, entry.value)?);
                    Some(value)
                }
                Verdict::Blob(pointer) => {
                    self.folding.pass(pointer.expiry_ms);
                    fetched = resolver.fetch(&pointer)?;
                    Some(fetched.as_bytes())
                }
                Verdict::Absent | Verdict::Operand(_) => {
                    self.folding.pass_absent(expiry_of(entry.kind, entry.value)?);
                    None
                }
            };
        };
        match base {
            Some(base) if self.folding.is_empty() => copy(&mut self.value, base),
            _ => self.value = self.folding.finish(&self.key, base, &resolver)?,
        }
        self.key_place = KeyPlace::Buffer;
        self.value_place = ValuePlace::Buffer;
        Ok(())
    }

    /// Goes back from the cursor's entry, the oldest of its key, to a key with a visible value.
    fn find_backward(&mut self) -> Result<()> {
        // Until something is found; also if an error comes first.
        self.key_place = KeyPlace::Nowhere;
        let searched = self.search_backward();
        self.arrive(searched)
    }

    #[inline]
    fn search_backward(&mut self) -> Result<()> {
        loop {
            let Some(entry) = self.merge.entry() else { return Ok(()) };
            if self.bounds.is_before(entry.key) {
                return Ok(());
            }
            copy(&mut self.key, entry.key);
            if self.find_plain() {
                self.key_place = KeyPlace::Cursor;
                self.value_place = ValuePlace::Cursor(0);
                return Ok(());
            }
            let found = self.gather_backward()?;
            if self.show(found)? {
                return Ok(());
            }
            self.skip_deleted()?;
        }
    }

    /// Walks back over the versions of the key in the buffer, and says what they amount to.
    fn gather_backward(&mut self) -> Result<Found> {
        let cover = self.coverage.find(&self.key);
        let sight = self.reader.sight();
        let (mut found, mut alive_until) = (Found::Nothing, None);
        self.folding.restart(Added::OldestFirst);
        while let Some(entry) = self.merge.entry() {
            if entry.key != self.key {
                break;
            }
            if sight.sees(entry.sequence) {
                let sequence = entry.sequence;
                match self.reader.verdict(&entry, cover)? {
                    Verdict::Operand(operand) => {
                        let resolver = || self.reader.resolver();
                        let known = self.folding.add(&self.key, sequence, operand, resolver);
                        if let Some(known) = known {
                            copy(&mut self.value, &known);
                            (found, alive_until) = (Found::Value, self.folding.expiry_ms());
                        }
                    }
                    Verdict::Value(value) => {
                        self.folding.pass(expiry_of(entry.kind, entry.value)?);
                        copy(&mut self.value, value);
                        (found, alive_until) = (Found::Value, committed_expiry(&entry)?);
                    }
                    Verdict::Blob(pointer) => {
                        self.folding.pass(pointer.expiry_ms);
                        (found, alive_until) = (Found::Blob(pointer), committed_expiry(&entry)?);
                    }
                    Verdict::Absent => {
                        self.folding.pass_absent(expiry_of(entry.kind, entry.value)?);
                        (found, alive_until) = (Found::Nothing, None);
                    }
                }
                if self.skip_hidden(cover, sequence)? {
                    continue;
                }
            }
            self.merge.prev()?;
        }
        self.reader.note_unexpired(alive_until);
        Ok(found)
    }

    /// Shows the key in the buffer, if it has a value.
    fn show(&mut self, found: Found) -> Result<bool> {
        let is_operand = !self.folding.is_empty();
        self.value_place = ValuePlace::Buffer;
        match found {
            Found::Nothing if !is_operand => return Ok(false),
            Found::Nothing | Found::Value => {}
            Found::Blob(pointer) if is_operand => self.read_pinned(&pointer)?,
            Found::Blob(pointer) => self.fetch(&pointer)?,
        }
        if is_operand && self.reader.fetch == Fetch::Values {
            let base = match found {
                Found::Nothing => None,
                Found::Value => Some(self.value.as_slice()),
                Found::Blob(_) => Some(self.pinned.as_bytes()),
            };
            self.value = self.folding.finish(&self.key, base, &self.reader.resolver())?;
            self.value_place = ValuePlace::Buffer;
        }
        self.key_place = KeyPlace::Buffer;
        Ok(true)
    }

    /// Finds out how many steps along the direction need no check, unless that is known.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if std::mem::take(&mut self.is_unexplored) {
            self.find_plain();
        }
    }

    /// Says whether the cursor's entry is plain, and counts the plain ones that follow it, if it is
    /// not known to be in vain.
    #[inline]
    fn find_plain(&mut self) -> bool {
        if self.span_wait > 0 {
            self.span_wait -= 1;
            return false;
        }
        let snapshot = self.reader.snapshot;
        let outlook = Outlook { snapshot, bounds: &self.bounds, coverage: &self.coverage };
        match outlook.ahead(&self.merge, self.direction) {
            Plain::Steps(steps) => {
                self.plain = steps;
                true
            }
            Plain::NotFor(steps) => {
                self.span_wait = steps;
                false
            }
        }
    }
}
