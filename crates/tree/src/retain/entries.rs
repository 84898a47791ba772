//! Which point entries a flush or a compaction keeps: rules 1 to 10 and 13 of [`crate::retain`].
//!
//! It does not cut the output into tables.
//!
//! # Invariants
//! 1. `queue` holds entries of the key in `key`, in order; it is emptied before the cursor's entry
//!    is examined.
//! 2. `held` is a deletion of `key` newer than what the cursor stands on and older than everything
//!    written of `key`.
//! 3. `operands` are of the stripe `stripe`, added newest first, and newer than what the cursor
//!    stands on; they are there only in `Progress::Operands`.

use crate::{
    merge_operator::{Combined, MergeOperator, combine, full},
    read::operands::{Added, Operands},
    read::visible::resolve::{Verdict, judge},
    retain::{
        entry_filter::{EntryFilter, FilteredAs},
        may_copy::{PlainAhead, plain_ahead},
        stripes::{OlderEntries, Stripe, Stripes},
    },
};
use siltdb_base::{
    cursor::EntryCursor,
    error::{Error, Result},
    id::SequenceNumber,
    key::{Entry, EntryKind},
    seeded_fault,
    tombstone::Fragments,
};
use std::{collections::VecDeque, sync::Arc};

/// Memory for the operands of one key and stripe that wait to be folded, in bytes. More are
/// combined; what then takes more than half of it is kept as it is.
pub const OPERAND_BYTES_MAX: usize = 4 << 20;

/// An entry of the key at hand that is not written from where it lies.
#[derive(Clone, Debug)]
struct Piece {
    sequence: SequenceNumber,
    kind: EntryKind,
    value: Vec<u8>,
}

/// How far the stripe at hand of the key at hand is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing is known: the next version decides.
    Open,
    /// Operands wait for the next version.
    Operands,
    /// A `SingleDelete` waits for the next version.
    Single(Single),
    /// A value hides the rest, but not for a `SingleDelete` yet to come, which will take the value
    /// away. A `SingleDelete` of the rest still has its own value to cancel.
    Shadowed,
    /// No reader will ever see the rest.
    Closed,
}

/// A `SingleDelete` that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Single {
    sequence: SequenceNumber,
    above: Above,
}

/// What is newer in the stripe than a `SingleDelete`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    Nothing,
    Value,
}

/// What a version says to the snapshot of its stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// Hidden by a range tombstone of the stripe.
    Covered,
    /// No value: deleted, or expired.
    Deletion,
    SingleDelete,
    /// A value without an expiry, at hand.
    PlainValue,
    /// A value that expires or lies elsewhere.
    OtherValue,
    Operand,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    sequence: SequenceNumber,
    kind: EntryKind,
    says: Says,
}

/// What operands are applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Absent,
    /// The cursor's value.
    Cursor,
}

/// What becomes of the entry under the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is written from where it lies.
    Keep,
    /// It is not written, or not as it is.
    Drop,
    /// The queue must be written before this can be said.
    Again,
}

/// A `SingleDelete` that has met its value, and the stripe of both.
#[derive(Clone, Copy, Debug)]
struct Cancelled {
    single: SequenceNumber,
    stripe: Stripe,
}

/// Where the next entry to be written comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Cursor,
    Queue,
    End,
}

/// What the entries are judged by.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The snapshots and the present from which the database is looked at.
    pub stripes: Stripes,
    /// All range tombstones of the inputs.
    pub tombstones: Arc<Fragments>,
    /// The wall time that decides expiry, in ms since 1970.
    pub now_ms: u64,
    /// The family's merge operator.
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// The family's compaction filter, in a compaction.
    pub filter: Option<EntryFilter>,
}

/// The entries of a cursor that some reader can still see.
#[derive(Debug)]
pub struct CompactionIter<C, D> {
    cursor: C,
    rules: Rules,
    /// Whether something deeper has a key; asked in key order.
    below: D,
    key: Vec<u8>,
    /// Whether `key` is the key at hand; else the next entry begins a new one.
    has_key: bool,
    /// Whether something newer of the key at hand came before the cursor's entry.
    has_newer: bool,
    stripe: Option<Stripe>,
    progress: Progress,
    cancelled: Option<Cancelled>,
    held: Option<Piece>,
    operands: Operands,
    queue: VecDeque<Piece>,
    /// The entry yielded last, if it came from the queue.
    written: Option<Piece>,
    /// Entries after the cursor's that pass by rule 10.
    plain: usize,
    /// Entries until the cursor's span is worth a look.
    span_wait: usize,
    /// Whether the cursor's entry is dealt with.
    is_done: bool,
    failed: Option<Error>,
}

impl<C: EntryCursor, D: FnMut(&[u8]) -> OlderEntries> CompactionIter<C, D> {
    /// Goes over the entries of `cursor` from where it stands to its end.
    ///
    /// All versions of a key must be on one side of where it stands.
    pub fn new(cursor: C, rules: Rules, below: D) -> Self {
        Self {
            cursor,
            rules,
            below,
            key: Vec::new(),
            has_key: false,
            has_newer: false,
            stripe: None,
            progress: Progress::Open,
            cancelled: None,
            held: None,
            operands: Operands::default(),
            queue: VecDeque::new(),
            written: None,
            plain: 0,
            span_wait: 0,
            is_done: false,
            failed: None,
        }
    }

    /// The next entry to be written, in the order of entries; `None` after the last.
    ///
    /// # Errors
    /// What reading fails with; corruption. It then fails for good: what it yielded is not all.
    #[expect(clippy::should_implement_trait, reason = "it lends what it yields")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        let origin = if self.plain > 0 { self.pass() } else { self.advance() };
        match origin {
            Ok(Origin::Cursor) => Ok(self.cursor.entry()),
            Ok(Origin::Queue) => Ok(self.written.as_ref().map(|piece| {
                let Piece { sequence, kind, ref value } = *piece;
                Entry { key: &self.key, sequence, kind, value }
            })),
            Ok(Origin::End) => Ok(None),
            Err(error) => {
                self.plain = 0;
                self.failed = Some(error.duplicate());
                Err(error)
            }
        }
    }

    /// Goes on within a stretch of plain entries.
    #[inline]
    fn pass(&mut self) -> Result<Origin> {
        self.plain -= 1;
        self.cursor.next()?;
        if self.cursor.entry().is_none() {
            return Err(Error::corruption("source ends within a span"));
        }
        Ok(Origin::Cursor)
    }

    /// Goes on to the next entry to be written.
    fn advance(&mut self) -> Result<Origin> {
        if let Some(error) = &self.failed {
            return Err(error.duplicate());
        }
        loop {
            if let Some(piece) = self.queue.pop_front() {
                self.written = Some(piece);
                return Ok(Origin::Queue);
            }
            if std::mem::replace(&mut self.is_done, false) {
                self.cursor.next()?;
            }
            let Some(entry) = self.cursor.entry() else {
                if !self.has_key {
                    return Ok(Origin::End);
                }
                self.finish_key();
                continue;
            };
            if self.has_key && entry.key != self.key {
                self.finish_key();
                continue;
            }
            if !self.has_key {
                if self.span_wait > 0 {
                    self.span_wait -= 1;
                } else {
                    match self.rules.plain_ahead(&self.cursor) {
                        PlainAhead::Steps(steps) => {
                            self.plain = steps;
                            self.is_done = true;
                            return Ok(Origin::Cursor);
                        }
                        PlainAhead::NotFor(entries) => self.span_wait = entries,
                        PlainAhead::Unknown => {}
                    }
                }
                self.key.clear();
                self.key.extend_from_slice(entry.key);
                (self.has_key, self.has_newer) = (true, false);
            }
            let fate = self.examine()?;
            self.is_done = fate != Fate::Again;
            if fate == Fate::Keep {
                return Ok(Origin::Cursor);
            }
        }
    }

    /// Says what becomes of the cursor's entry.
    fn examine(&mut self) -> Result<Fate> {
        let Some(entry) = self.cursor.entry() else { return Ok(Fate::Drop) };
        let Some(stripe) = self.rules.stripes.find(entry.sequence) else {
            self.has_newer = true;
            return Ok(Fate::Keep);
        };
        let says = self.rules.classify(&entry, stripe)?;
        let version = Version { sequence: entry.sequence, kind: entry.kind, says };
        if self.stripe != Some(stripe) {
            self.leave_stripe();
            self.stripe = Some(stripe);
        }
        if !self.queue.is_empty() {
            return Ok(Fate::Again);
        }
        if let Some(cancelled) = self.cancelled.take() {
            self.check_contract(cancelled, stripe)?;
        }
        let fate = match self.progress {
            Progress::Closed => Fate::Drop,
            Progress::Open => self.meet_open(version),
            Progress::Operands => self.meet_operands(version),
            Progress::Shadowed => self.meet_shadowed(version),
            Progress::Single(single) => self.meet_single(single, stripe, version),
        };
        self.has_newer = true;
        Ok(fate)
    }

    /// Rules 2 to 5, and 8 without an operator: nothing waits for the version.
    fn meet_open(&mut self, version: Version) -> Fate {
        if self.rules.filter.is_some()
            && let Some(fate) = self.filter(version)
        {
            return fate;
        }
        match version.says {
            Says::Covered => self.progress = Progress::Closed,
            Says::SingleDelete => self.wait_for_put(version.sequence, Above::Nothing),
            Says::Deletion => {
                self.hold(version.sequence, EntryKind::Delete);
                self.progress = Progress::Closed;
            }
            Says::Operand if self.rules.operator.is_some() => self.collect_operand(),
            Says::Operand | Says::PlainValue | Says::OtherValue => {
                if let Some(held) = self.held.take() {
                    self.queue.push_back(held);
                    return Fate::Again;
                }
                if version.says != Says::Operand {
                    self.progress = Progress::Shadowed;
                }
                return Fate::Keep;
            }
        }
        Fate::Drop
    }

    /// Rule 13: what the compaction filter makes of the version, if it makes anything of it.
    fn filter(&mut self, version: Version) -> Option<Fate> {
        let Version { sequence, says, .. } = version;
        let is_value = matches!(says, Says::PlainValue | Says::OtherValue);
        if !is_value || self.has_newer || !self.rules.stripes.may_filter(sequence) {
            return None;
        }
        let (filter, entry) = (self.rules.filter.as_ref()?, self.cursor.entry()?);
        match filter.decide(&entry) {
            FilteredAs::Same => return None,
            FilteredAs::Deletion => {
                self.hold(sequence, EntryKind::Delete);
                self.progress = Progress::Closed;
            }
            FilteredAs::Changed(kind, value) => {
                self.write(Piece { sequence, kind, value });
                self.progress = Progress::Shadowed;
            }
        }
        Some(Fate::Drop)
    }

    /// The rest of rule 3: a value of the stripe is kept.
    fn meet_shadowed(&mut self, version: Version) -> Fate {
        match version.says {
            Says::SingleDelete => self.wait_for_put(version.sequence, Above::Value),
            Says::Covered => self.progress = Progress::Closed,
            Says::Deletion | Says::PlainValue | Says::OtherValue | Says::Operand => {}
        }
        Fate::Drop
    }

    fn wait_for_put(&mut self, sequence: SequenceNumber, above: Above) {
        self.progress = Progress::Single(Single { sequence, above });
    }

    /// Rule 6: a `SingleDelete` waits for the version.
    fn meet_single(&mut self, single: Single, stripe: Stripe, version: Version) -> Fate {
        let is_put = matches!(
            version.kind,
            EntryKind::Put | EntryKind::PutExpiring | EntryKind::BlobPointer
        );
        match version.says {
            // The newer has nothing to cancel.
            Says::SingleDelete => {
                self.wait_for_put(version.sequence, single.above);
                return Fate::Drop;
            }
            Says::Covered => {
                self.progress = Progress::Closed;
                return Fate::Drop;
            }
            _ if is_put => {}
            _ => {
                self.hold(single.sequence, EntryKind::Delete);
                self.progress = Progress::Closed;
                return Fate::Drop;
            }
        }
        self.progress = match single.above {
            Above::Nothing => {
                self.cancelled = Some(Cancelled { single: single.sequence, stripe });
                Progress::Open
            }
            Above::Value => Progress::Shadowed,
        };
        Fate::Drop
    }

    /// The end of rule 6: if the pair would uncover a value, a `Delete` takes its place.
    fn check_contract(&mut self, pair: Cancelled, stripe: Stripe) -> Result<()> {
        let Some(entry) = self.cursor.entry() else { return Ok(()) };
        match self.rules.classify(&entry, pair.stripe)? {
            Says::Covered | Says::Deletion | Says::SingleDelete => {}
            Says::PlainValue | Says::OtherValue | Says::Operand => {
                self.hold(pair.single, EntryKind::Delete);
                if pair.stripe == stripe {
                    self.progress = Progress::Closed;
                }
            }
        }
        Ok(())
    }

    /// Rules 7 and 8: operands wait for the version.
    fn meet_operands(&mut self, version: Version) -> Fate {
        let is_folded = match version.says {
            Says::Operand => {
                self.collect_operand();
                return Fate::Drop;
            }
            Says::PlainValue => self.fold(Base::Cursor),
            Says::Covered | Says::Deletion | Says::SingleDelete => self.fold(Base::Absent),
            Says::OtherValue => false,
        };
        if is_folded {
            self.progress = Progress::Closed;
            return Fate::Drop;
        }
        self.release_operands();
        Fate::Again
    }

    /// Adds the cursor's operand to those that wait.
    fn collect_operand(&mut self) {
        let Some(entry) = self.cursor.entry() else { return };
        self.operands.push(entry.sequence, entry.value);
        self.progress = Progress::Operands;
        if self.operands.memory_bytes() > OPERAND_BYTES_MAX {
            self.combine_operands();
            // Half, so that each operand is combined twice on average, and no more.
            if self.operands.memory_bytes() > OPERAND_BYTES_MAX / 2 {
                // By the first law of the operator the rest of the stripe may do without these.
                self.write_operands();
            }
        }
    }

    /// Makes one put of the operands, if the operator can.
    fn fold(&mut self, base: Base) -> bool {
        let Some(operator) = &self.rules.operator else { return false };
        let base = match base {
            Base::Absent => None,
            Base::Cursor => self.cursor.entry().map(|entry| entry.value),
        };
        let Some(sequence) = self.operands.newest(Added::NewestFirst) else { return false };
        let oldest_first = self.operands.oldest_first(Added::NewestFirst);
        let folded = full(&**operator, &self.key, base, &oldest_first);
        let Ok(value) = folded else { return false };
        self.operands.clear();
        self.write(Piece { sequence, kind: EntryKind::Put, value });
        true
    }

    /// Writes the operands as they are, combined where the operator can.
    fn release_operands(&mut self) {
        self.combine_operands();
        self.write_operands();
    }

    /// Combines neighbouring operands where the operator can; each result has the sequence number
    /// of the newest that it stands for.
    fn combine_operands(&mut self) {
        let Some(operator) = self.rules.operator.as_deref() else { return };
        let oldest_first = self.operands.oldest_first(Added::NewestFirst);
        let combined = combine(operator, &self.key, &oldest_first);
        let mut waiting = self.operands.iter();
        let mut fewer = Operands::default();
        for next in combined.into_iter().rev() {
            let Some((sequence, operand)) = waiting.next() else { break };
            match next {
                Combined::Kept => fewer.push(sequence, operand),
                Combined::Joined { count, operand } => {
                    fewer.push(sequence, &operand);
                    waiting.by_ref().take(count - 1).for_each(drop);
                }
            }
        }
        drop(waiting);
        self.operands = fewer;
    }

    /// Writes the operands as they are.
    fn write_operands(&mut self) {
        self.progress = Progress::Open;
        let operands = std::mem::take(&mut self.operands);
        for (sequence, operand) in operands.iter() {
            self.write(Piece { sequence, kind: EntryKind::Merge, value: operand.to_vec() });
        }
    }

    /// Lets a deletion wait for what it hides. Of two that meet the older says it for both.
    fn hold(&mut self, sequence: SequenceNumber, kind: EntryKind) {
        // A `Delete` says more than a `SingleDelete`, whichever of the two is older.
        let kind = self.held.as_ref().map_or(kind, |newer| match newer.kind {
            EntryKind::SingleDelete => kind,
            _ => EntryKind::Delete,
        });
        self.held = Some(Piece { sequence, kind, value: Vec::new() });
    }

    /// Queues an entry that is not a deletion, after the deletion that waits for it.
    fn write(&mut self, piece: Piece) {
        self.queue.extend(self.held.take());
        self.queue.push_back(piece);
    }

    /// Ends the stripe at hand: what waits for a version of it will get none.
    fn leave_stripe(&mut self) {
        match self.progress {
            Progress::Operands => self.release_operands(),
            Progress::Single(single) => self.hold(single.sequence, EntryKind::SingleDelete),
            Progress::Open | Progress::Shadowed | Progress::Closed => {}
        }
        self.progress = Progress::Open;
    }

    /// Ends the key at hand: what waits for an older version will get none from here.
    fn finish_key(&mut self) {
        if self.progress == Progress::Operands
            && (self.below)(&self.key) == OlderEntries::None
            && self.fold(Base::Absent)
        {
            self.progress = Progress::Closed;
        }
        self.leave_stripe();
        if let Some(held) = self.held.take()
            && !seeded_fault!("forget_tombstone_in_merge")
            && (self.below)(&self.key) == OlderEntries::Possible
        {
            self.queue.push_back(held);
        }
        self.has_key = false;
        self.stripe = None;
        self.cancelled = None;
    }
}

impl Rules {
    /// Rule 10, which does not hold for values that a filter is to see.
    fn plain_ahead(&self, cursor: &impl EntryCursor) -> PlainAhead {
        match (&self.filter, cursor.stretch()) {
            (Some(_), Some(span)) => PlainAhead::NotFor(span.after),
            _ => plain_ahead(cursor, &self.tombstones),
        }
    }

    /// What `entry` says to the snapshot of `stripe`, if nothing newer speaks before it.
    fn classify(&self, entry: &Entry<'_>, stripe: Stripe) -> Result<Says> {
        let Entry { key, sequence, kind, value } = *entry;
        let covering = self.tombstones.covering(key, stripe.end);
        Ok(match judge(kind, value, sequence, covering, self.now_ms)? {
            Verdict::Absent if covering.is_some_and(|tombstone| tombstone > sequence) => {
                Says::Covered
            }
            Verdict::Absent if kind == EntryKind::SingleDelete => Says::SingleDelete,
            Verdict::Absent => Says::Deletion,
            Verdict::Operand(_) => Says::Operand,
            Verdict::Value(_) if kind == EntryKind::Put => Says::PlainValue,
            Verdict::Value(_) | Verdict::Blob(_) => Says::OtherValue,
        })
    }
}
