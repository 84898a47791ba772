//! Reads of one family at one moment.
//!
//! `tree` decides which entries are visible. This module chooses the moment: it pins the view
//! first, then reads the published sequence number. In this order everything up to the number is in
//! the view.

use crate::{
    blobs::PinnedBlobs,
    catalog::family::FamilyData,
    database::Database,
    database::read_rooms::ReadRooms,
    health::Health,
    log::Log,
    snapshots::{KeptView, LiveSnapshot, Snapshots, read_point::ReadPoint},
};
use arc_swap::Guard;
use siltdb_base::{
    clock::Clock,
    cursor::Fetch,
    error::{Error, ErrorKind, Result},
    id::SequenceNumber,
    key::successor,
    seeded_fault,
    slice::{Pinnable, Slice},
};
use siltdb_tree::{
    read::range_size::{self, RangeSize},
    read::view::{View, ViewIter},
    read::visible::{
        bounds::Bounds,
        reader::{OwnWrites, Reader as TreeReader},
        resolve::{BlobSource, Resolver},
    },
};
use std::{
    cell::{Cell, OnceCell},
    ops::Bound,
    sync::Arc,
};

pub mod feed;
pub(crate) mod many;
pub mod stream;

/// A range of keys as callers give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRange {
    /// The lower bound.
    pub start: Bound<Slice>,
    /// The upper bound.
    pub end: Bound<Slice>,
}

impl Default for ReadRange {
    fn default() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }
}

impl ReadRange {
    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        let Bounds { lower, upper } = Bounds::prefix(prefix);
        Self {
            start: lower.map_or(Bound::Unbounded, Bound::Included),
            end: upper.map_or(Bound::Unbounded, Bound::Excluded),
        }
    }

    /// The range in the form of the tree.
    #[must_use]
    pub fn bounds(self) -> Bounds {
        Bounds {
            lower: match self.start {
                Bound::Unbounded => None,
                Bound::Included(key) => Some(key),
                Bound::Excluded(key) => Some(successor(&key).into()),
            },
            upper: match self.end {
                Bound::Unbounded => None,
                Bound::Included(key) => Some(successor(&key).into()),
                Bound::Excluded(key) => Some(key),
            },
        }
    }
}

/// A cursor over the visible entries of a family. It owns its view.
pub type ReadCursor = ViewIter;

/// A value, and when it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiringValue {
    /// The value.
    pub value: Slice,
    /// When it expires, in ms since 1970. A value that operands were applied to does not expire.
    pub expiry_ms: Option<u64>,
}

/// A family at one moment, pinned.
#[derive(Clone, Debug)]
pub struct PinnedReader {
    view: Arc<View>,
    reader: TreeReader,
    /// Where separated values are read; `None` if there are none.
    blobs: Option<PinnedBlobs>,
}

impl PinnedReader {
    /// `family` as it is now, or at `point`, which a live snapshot must hold.
    ///
    /// # Errors
    /// `Closed`; `NotFound`, if the family was dropped and there is no snapshot.
    pub fn new(
        reading: &ReadRooms<'_>,
        family: &FamilyData,
        point: Option<&ReadPoint>,
    ) -> Result<Self> {
        let PinnedView { view, snapshot, blobs, is_kept } =
            pin_with_blobs(reading, family, point.map(|point| point.sequence))?;
        let options = family.tree.options();
        // What readers remember may differ from what a snapshot sees of values that were filtered.
        let is_stable = options.compaction_filter.is_none() && !is_kept;
        let reader = TreeReader {
            snapshot,
            clock: match point {
                Some(point) => Arc::new(point.clock(&reading.options.clock)),
                None => Arc::clone(&reading.options.clock),
            },
            operator: options.merge_operator.clone(),
            blobs: blobs.as_ref().map(PinnedBlobs::source),
            budget: blobs.as_ref().map(|_| Arc::clone(reading.catalog.files.cache().budget())),
            fetch: Fetch::Values,
            streamed_from: None,
            empty_ranges: is_stable.then(|| Arc::clone(family.tree.empty_ranges())),
            sequence_lock: Some(reading.log.sequencer.sequence_lock()),
            folds: is_stable.then(|| Arc::clone(family.tree.folds())),
            own: None,
        };
        Ok(Self { view, reader, blobs })
    }

    /// The same reader with the writes of `own` as the newest.
    #[must_use]
    pub fn with_own(mut self, own: OwnWrites) -> Self {
        // Empty ranges and folds are valid only for committed data.
        (self.reader.empty_ranges, self.reader.folds) = (None, None);
        self.reader.own = Some(own);
        self
    }

    /// The view, for what is known of it without reading.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The same reader, whose cursors fetch what `fetch` says.
    #[must_use]
    pub fn fetching(mut self, fetch: Fetch) -> Self {
        self.reader.fetch = fetch;
        self
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Corruption`; `Unsupported`, for operands without an operator; the system's.
    pub fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.look(key, |value| value.pin())
    }

    /// Calls `look` with the value of a key, if the key has one.
    ///
    /// # Errors
    /// As [`PinnedReader::get`].
    pub fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>> {
        self.look_with(key, || self.reader.resolver(), look)
    }

    /// The value of a key, and when it expires.
    ///
    /// # Errors
    /// As [`PinnedReader::get`].
    pub fn get_expiring(&self, key: &[u8]) -> Result<Option<ExpiringValue>> {
        let noted = Cell::new(None);
        let resolver = || Resolver { expiry_ms: Some(&noted), ..self.reader.resolver() };
        let found = self.look_with(key, resolver, |value| value.pin())?;
        Ok(found.map(|value| ExpiringValue { value, expiry_ms: noted.get() }))
    }

    fn look_with<'r, R>(
        &'r self,
        key: &[u8],
        resolver: impl Fn() -> Resolver<'r>,
        look: impl FnOnce(Pinnable<'_>) -> R,
    ) -> Result<Option<R>> {
        let snapshot = self.reader.snapshot;
        match &self.reader.own {
            Some(own) => self.view.get_with_own(key, own, snapshot, resolver, look),
            None => self.view.get(key, snapshot, resolver, look),
        }
    }

    /// A cursor over a range, not positioned yet.
    ///
    /// # Errors
    /// As [`PinnedReader::get`].
    pub fn cursor(&self, range: ReadRange) -> Result<ReadCursor> {
        self.cursor_within(range.bounds())
    }

    /// As [`PinnedReader::cursor`].
    ///
    /// # Errors
    /// As [`PinnedReader::get`].
    pub fn cursor_within(&self, bounds: Bounds) -> Result<ReadCursor> {
        self.view.iter(self.reader.clone(), bounds)
    }
}

/// How often a read pins a newer view because the blob file of its value was removed between the
/// two. Each needs a removal just then.
const PINS_MAX: u32 = 16;

/// What is not found behind a pointer of the newest view is damage.
#[cold]
fn absent_as_damage(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::corruption("a separated value is missing").with_source(error),
        _ => error,
    }
}

/// Calls `look` with the value of a key, if it has one. The moment is now, or `point`, which a live
/// snapshot must hold.
///
/// # Errors
/// As [`PinnedReader::new`] and [`PinnedReader::get`].
#[inline]
pub fn get<R>(
    database: &Database,
    family: &FamilyData,
    key: &[u8],
    point: Option<&ReadPoint>,
    look: impl FnOnce(Pinnable<'_>) -> R,
) -> Result<Option<R>> {
    let sequence = point.map(|point| point.sequence);
    if sequence.is_some_and(|sequence| is_kept(&database.snapshots, family, sequence)) {
        return look_in_snapshot(&database.read_rooms(), family, key, point, look);
    }
    let mut look = Some(look);
    match try_get(&database.read_rooms(), family, key, point, &*database.blobs, &mut look)? {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            get_again(&database.read_rooms(), family, key, point, &mut look, error)
        }
        found => found,
    }
}

/// As [`get`], with the views of now, after the value was not where the view said.
#[cold]
fn get_again<R, L: FnOnce(Pinnable<'_>) -> R>(
    reading: &ReadRooms<'_>,
    family: &FamilyData,
    key: &[u8],
    point: Option<&ReadPoint>,
    look: &mut Option<L>,
    mut error: Error,
) -> Result<Option<R>> {
    for _ in 0..PINS_MAX {
        // Since the view was pinned, the value was moved, and its blob file was removed. Before the
        // view is pinned: a dropped family does not change, so it keeps all of its view.
        let kept = family.kept_blobs();
        let blobs: &dyn BlobSource = match kept {
            None => &**reading.blobs,
            Some(kept) => kept,
        };
        match try_get(reading, family, key, point, blobs, look)? {
            Err(again) if again.kind() == ErrorKind::NotFound => error = again,
            result => return result,
        }
    }
    Err(absent_as_damage(error))
}

/// As [`get`], once. `look` stays where no value is found. The inner error is that of the lookup in
/// the view: `NotFound`, if the blob file of the value is gone.
#[inline(always)]
fn try_get<R, L: FnOnce(Pinnable<'_>) -> R>(
    reading: &ReadRooms<'_>,
    family: &FamilyData,
    key: &[u8],
    point: Option<&ReadPoint>,
    blobs: &dyn BlobSource,
    look: &mut Option<L>,
) -> Result<Result<Option<R>>> {
    let still = OnceCell::new();
    let clock = || match point {
        Some(point) => still.get_or_init(|| point.clock(&reading.options.clock)) as &dyn Clock,
        None => &*reading.options.clock,
    };
    let sequence = point.map(|point| point.sequence);
    let (view, snapshot) = pin(reading.health, reading.log, family, sequence)?;
    let options = OnceCell::new();
    let resolver = || {
        let options = options.get_or_init(|| family.tree.peek_options());
        Resolver {
            now_ms: clock().wall_ms(),
            operator: options.merge_operator.as_deref(),
            blobs: Some(blobs),
            // As in `PinnedReader::new`.
            folds: options.compaction_filter.is_none().then(|| &**family.tree.folds()),
            clock: Some(clock()),
            expiry_ms: None,
        }
    };
    let look = |value: Pinnable<'_>| look.take().expect("a value is found once")(value);
    Ok(view.get(key, snapshot, resolver, look))
}

/// What a reader has pinned.
pub(crate) struct PinnedView {
    /// Memtables and tables.
    pub(crate) view: Arc<View>,
    /// What is read of them.
    pub(crate) snapshot: SequenceNumber,
    /// The blob files that they refer to, if there are any.
    blobs: Option<PinnedBlobs>,
    /// Whether a snapshot keeps the view.
    is_kept: bool,
}

/// Pins a view with the blob files that it refers to: the one that a snapshot keeps, else that of
/// now.
pub(crate) fn pin_with_blobs(
    reading: &ReadRooms<'_>,
    family: &FamilyData,
    sequence: Option<SequenceNumber>,
) -> Result<PinnedView> {
    if let Some(snapshot) = sequence
        && let Some(KeptView { view, blobs }) = reading.snapshots.kept_view(snapshot, family.id)
    {
        reading.health.check_open()?;
        return Ok(PinnedView { view, snapshot, blobs, is_kept: true });
    }
    let pin = || pin(reading.health, reading.log, family, sequence);
    let pinned = reading.blobs.pin_with(pin, || family.kept_blobs())?;
    let ((view, snapshot), blobs) = pinned;
    Ok(PinnedView { view: Guard::into_inner(view), snapshot, blobs, is_kept: false })
}

#[inline]
fn is_kept(snapshots: &Snapshots, family: &FamilyData, sequence: SequenceNumber) -> bool {
    snapshots.kept_view(sequence, family.id).is_some()
}

#[inline]
fn pin(
    health: &Health,
    log: &Log,
    family: &FamilyData,
    sequence: Option<SequenceNumber>,
) -> Result<(Guard<Arc<View>>, SequenceNumber)> {
    health.check_open()?;
    match sequence {
        Some(sequence) => Ok((family.tree.view(), sequence)),
        None => {
            family.check()?;
            Ok(family.tree.pin(|| log.publisher.published()))
        }
    }
}

/// As [`get`], in a snapshot while a view is kept for any.
#[cold]
fn look_in_snapshot<R>(
    reading: &ReadRooms<'_>,
    family: &FamilyData,
    key: &[u8],
    point: Option<&ReadPoint>,
    look: impl FnOnce(Pinnable<'_>) -> R,
) -> Result<Option<R>> {
    PinnedReader::new(reading, family, point)?.look(key, look)
}

/// The approximate size of a range of a family.
///
/// # Errors
/// `Closed`; `NotFound`, if the family was dropped; failures of opening a table.
pub fn range_size(health: &Health, family: &FamilyData, range: ReadRange) -> Result<RangeSize> {
    health.check_open()?;
    family.check()?;
    range_size::range_size(&family.tree.view(), &range.bounds())
}

/// Registers a snapshot of the present. It keeps its views of families that are being filtered,
/// because the compactions at work do not know of it.
#[must_use]
pub fn begin_snapshot(reading: &ReadRooms<'_>) -> LiveSnapshot {
    let now_ms = || reading.options.clock.wall_ms();
    let snapshot = reading.snapshots.take(|| reading.log.publisher.published(), now_ms);
    keep_views(reading, &snapshot);
    snapshot
}

/// As [`begin_snapshot`], at `sequence`.
///
/// # Errors
/// As [`Snapshots::take_at`](crate::snapshots::Snapshots::take_at).
pub fn begin_snapshot_at(
    reading: &ReadRooms<'_>,
    sequence: SequenceNumber,
) -> Result<LiveSnapshot> {
    let published = || reading.log.publisher.published();
    let snapshot =
        reading.snapshots.take_at(sequence, published, || reading.options.clock.wall_ms())?;
    keep_views(reading, &snapshot);
    Ok(snapshot)
}

fn keep_views(reading: &ReadRooms<'_>, snapshot: &LiveSnapshot) {
    if !reading.catalog.filters.are_given() || seeded_fault!("filtered_under_a_snapshot") {
        return;
    }
    let families = reading.catalog.families.load();
    let filtering = reading.snapshots.filtering();
    for family in filtering.into_iter().filter_map(|id| families.get(id)) {
        let pin = || Ok(Guard::into_inner(family.tree.view()));
        let pinned = reading.blobs.pin_with(pin, || family.kept_blobs());
        let Ok((view, blobs)) = pinned else { continue };
        reading.snapshots.keep_view(snapshot, family.id, KeptView { view, blobs });
    }
}

#[cfg(test)]
mod tests;
