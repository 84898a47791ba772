//! An open transaction, with the state that it should see and the reads that it depends on.
//!
//! It reads, notes what it read, and predicts the result of its commit. `transactions` has the
//! steps.

use crate::{
    draw::Draw,
    ending::Ending,
    keys::KeyShape,
    model::{FamilyIndex, Model, Moment, Operation, Shared, Span, successor},
    reads::{Walk, compare_get, compare_get_many, compare_some},
    truth::{Pairs, Truth, compare_pairs},
    violation::{Checked, Violation, must},
};
use siltdb::{Durability, Family, Isolation, LockMode, Read, Transaction};
use siltdb_base::cursor::Direction;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// A lock that a transaction holds.
#[derive(Clone, Debug)]
pub struct HeldLock {
    /// The family.
    pub family: FamilyIndex,
    /// Its keys.
    pub span: Span,
    /// Its mode.
    pub mode: LockMode,
}

impl HeldLock {
    /// Whether it blocks a lock of `mode` by another transaction; with `None`, a write.
    #[must_use]
    pub fn blocks(&self, family: FamilyIndex, span: &Span, mode: Option<LockMode>) -> bool {
        let is_shared = self.mode == LockMode::Shared && mode == Some(LockMode::Shared);
        self.family == family && !is_shared && self.span.overlaps(span)
    }
}

/// The precision of the harness's notes on what a transaction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notes {
    /// It notes every key and range.
    Exact,
    /// It notes the families only.
    Families,
}

/// Keys of families that must not have changed.
#[derive(Clone, Debug, Default)]
struct Footprint {
    /// If one of them reads differently, the commit conflicts.
    certain: Vec<(FamilyIndex, Span)>,
    /// If none of them was touched, the commit does not conflict.
    possible: Vec<(FamilyIndex, Span)>,
    /// If a value that one of them had at begin has expired, the commit conflicts.
    shown: Vec<(FamilyIndex, Span)>,
}

impl Footprint {
    fn add(&mut self, family: FamilyIndex, span: Span) {
        self.certain.push((family, span.clone()));
        self.possible.push((family, span));
    }
}

/// The source of a transaction's reads, and the shape of its keys.
#[derive(Debug)]
pub struct Look<'a> {
    /// The family.
    pub family: FamilyIndex,
    /// A handle of the family.
    pub handle: &'a Family,
    /// The present moment.
    pub now: Moment,
    /// The shape of keys.
    pub shape: KeyShape,
    /// The number of different keys.
    pub key_count: u64,
}

/// An open transaction.
#[derive(Debug)]
pub struct OpenTransaction {
    /// The transaction.
    pub transaction: Transaction,
    /// The moment when the transaction began.
    pub began: Moment,
    /// Flushes and compactions finished by then.
    pub jobs_before: u64,
    /// The families when the transaction began.
    pub families: BTreeMap<FamilyIndex, Family>,
    /// Its durability class.
    pub durability: Durability,
    /// Its writes, in order.
    pub writes: Vec<(FamilyIndex, Operation)>,
    /// Its locks.
    pub locks: Vec<HeldLock>,
    savepoints: Vec<(String, usize)>,
    notes: Notes,
    reads: Footprint,
    /// A kept iterator, and the state that it reads.
    walk: Option<(Walk, Model)>,
}

impl OpenTransaction {
    /// A transaction that begins now, at `began`.
    #[must_use]
    pub fn new(
        transaction: Transaction,
        durability: Durability,
        began: Moment,
        families: BTreeMap<FamilyIndex, Family>,
        notes: Notes,
    ) -> Self {
        Self {
            transaction,
            began,
            jobs_before: 0,
            families,
            durability,
            writes: Vec::new(),
            locks: Vec::new(),
            savepoints: Vec::new(),
            notes,
            reads: Footprint::default(),
            walk: None,
        }
    }

    fn has_snapshot(&self) -> bool {
        self.transaction.isolation() >= Isolation::RepeatableRead
    }

    /// The state of a family as the transaction's reads see it.
    #[must_use]
    pub fn own_model(&self, model: &Model, look: &Look<'_>) -> Model {
        let commit = if self.has_snapshot() { self.began.commit } else { look.now.commit };
        model.with_own(look.family, commit, &self.writes)
    }

    /// The moment at which the transaction's reads see its own model.
    #[must_use]
    pub fn sees(&self, own: &Model, look: &Look<'_>) -> Moment {
        let at = if self.has_snapshot() { self.began } else { look.now };
        Moment { commit: own.possible(), ..at }
    }

    /// Reads a little and compares it. Returns the number of reads compared.
    ///
    /// # Errors
    /// If anything differs.
    pub fn read(&mut self, model: &Model, look: &Look<'_>, draw: &mut Draw) -> Checked<u64> {
        let own = self.own_model(model, look);
        let at = self.sees(&own, look);
        let truth = Truth { model: &own, family: look.family, at };
        let source = must(self.transaction.family(look.handle), "a family in a transaction")?;
        let read = match self.notes {
            Notes::Families => {
                self.read_anything(look.family);
                compare_some(&source, truth, look.shape, look.key_count, draw)
            }
            Notes::Exact => match draw.below(6) {
                0 | 1 => self.read_keys(&source, truth, look, draw),
                2 | 3 => self.scan(&source, truth, look, draw),
                4 => self.count(&source, truth, look, draw),
                _ => self.move_cursor(&source, truth, look, draw),
            },
        };
        read.map_err(|violation| truth.blame(violation))
    }

    /// Notes that the transaction has read a key, existing or not.
    pub fn read_key(&mut self, family: FamilyIndex, key: &Shared) {
        self.add(family, Span::of_key(key));
    }

    /// Notes that the transaction read all keys of a span.
    fn add(&mut self, family: FamilyIndex, span: Span) {
        let is_of_span = |(of, operation): &(FamilyIndex, Operation)| {
            *of == family && operation.span().overlaps(&span)
        };
        // Own writes may hide what expires.
        if !self.writes.iter().any(is_of_span) {
            self.reads.shown.push((family, span.clone()));
        }
        self.reads.add(family, span);
    }

    /// Notes a scan of keys alone. That what operands are applied to expires changes no key.
    fn covered_keys(&mut self, truth: Truth<'_>, covered: Span, shown: &Pairs) {
        let before = self.reads.shown.len();
        self.covered(truth.family, covered, shown);
        let expiries = truth.model.expiries(truth.family, truth.at);
        let seen: Vec<_> = self.reads.shown.drain(before..).collect();
        let expires = |key: &Shared| seen.iter().any(|(_, span)| span.contains(key));
        let expiring = shown.iter().map(|(key, _)| key);
        let expiring = expiring.filter(|key| expiries.contains_key(*key) && expires(key));
        self.reads.shown.extend(expiring.map(|key| (truth.family, Span::of_key(key))));
    }

    /// Notes that the transaction may have read any key of a family.
    pub fn read_anything(&mut self, family: FamilyIndex) {
        self.reads.possible.push((family, Span::all()));
    }

    /// Opens an iterator and keeps it, or advances a kept one. The transaction's notes must be by
    /// family.
    ///
    /// # Errors
    /// If it yields anything that the transaction did not see when the iterator was opened.
    pub fn walk(&mut self, model: &Model, look: &Look<'_>, draw: &mut Draw) -> Checked<u64> {
        let has_snapshot = self.has_snapshot();
        let Some((walk, own)) = &mut self.walk else {
            let own = self.own_model(model, look);
            let at = self.sees(&own, look);
            let truth = Truth { model: &own, family: look.family, at };
            let source = must(self.transaction.family(look.handle), "a family in a transaction")?;
            let walk = Walk::new(must(source.iter(), "iter")?, truth, |_| true);
            self.read_anything(look.family);
            self.walk = Some((walk, own));
            return Ok(0);
        };
        let steps = draw.pick(&[1, 5, 50, u64::MAX]);
        let at = if has_snapshot { self.began } else { look.now };
        let walked = walk.go(steps, own, at, draw)?;
        if steps == u64::MAX || walked.is_err() {
            self.walk = None;
        }
        must(walked, "walking an iterator of a transaction")
    }

    /// Whether it may keep an iterator.
    #[must_use]
    pub fn may_walk(&self) -> bool {
        self.notes == Notes::Families
    }

    /// Drops its iterator, after a call has failed under it.
    pub fn forget_walk(&mut self) {
        self.walk = None;
    }

    fn read_keys(
        &mut self,
        source: &Transaction,
        truth: Truth<'_>,
        look: &Look<'_>,
        draw: &mut Draw,
    ) -> Checked<u64> {
        let count = draw.within(1..=5);
        let mut keys: Vec<Shared> = (0..count).map(|_| look.key(draw)).collect();
        let expiring = truth.expiring();
        if !expiring.is_empty() && draw.chance(1, 2) {
            keys[0] = expiring[draw.index(expiring.len())].clone();
        }
        for key in &keys {
            self.add(look.family, Span::of_key(key));
        }
        match draw.chance(1, 2) {
            true => compare_get_many(source, truth, &keys),
            false => {
                keys.iter().try_for_each(|key| compare_get(source, truth, key)).map(|()| count)
            }
        }
    }

    /// Notes a scan over `covered` that showed `shown`.
    fn covered(&mut self, family: FamilyIndex, covered: Span, shown: &Pairs) {
        if self.transaction.isolation() == Isolation::Serializable {
            self.add(family, covered);
            return;
        }
        for (key, _) in shown {
            self.add(family, Span::of_key(key));
        }
    }

    /// Iterates over a range from one end, to the other end or less far.
    fn scan(
        &mut self,
        source: &Transaction,
        truth: Truth<'_>,
        look: &Look<'_>,
        draw: &mut Draw,
    ) -> Checked<u64> {
        let (mut span, range) = look.span(draw);
        let direction = draw.pick(&[Direction::Forward, Direction::Backward]);
        let steps = draw.pick(&[1, 5, 1000]);
        let mut expected = truth.pairs();
        expected.retain(|(key, _)| span.contains(key));
        if direction == Direction::Backward {
            expected.reverse();
        }
        let is_whole = expected.len() < steps;
        expected.truncate(steps);
        let mut iter = must(source.range(range), "range")?;
        let mut found = Pairs::new();
        for _ in 0..steps {
            let pair = match direction {
                Direction::Forward => iter.next(),
                Direction::Backward => iter.next_back(),
            };
            let Some(pair) = pair else { break };
            let (key, value) = must(pair, "iterating in a transaction")?;
            found.push((Shared::from(&*key), Shared::from(&*value)));
        }
        let what = format!("{direction:?} over {span:?}");
        compare_pairs(&found, &expected).map_err(|violation| violation.during(what))?;
        if let Some((last, _)) = expected.last().filter(|_| !is_whole) {
            match direction {
                Direction::Forward => span.upper = Some(successor(last)),
                Direction::Backward => span.lower = Arc::clone(last),
            }
        }
        self.covered(look.family, span, &expected);
        Ok(expected.len() as u64)
    }

    fn count(
        &mut self,
        source: &Transaction,
        truth: Truth<'_>,
        look: &Look<'_>,
        draw: &mut Draw,
    ) -> Checked<u64> {
        let (span, range) = look.span(draw);
        let mut expected = truth.pairs();
        expected.retain(|(key, _)| span.contains(key));
        let count = must(source.count(range), "count")?;
        if count != expected.len() as u64 {
            let message = format!("{count} keys counted in {span:?}, expected {}", expected.len());
            return Err(Violation::new(message));
        }
        self.covered_keys(truth, span, &expected);
        Ok(1)
    }

    /// Places a cursor and moves it to and fro, until it has no position.
    fn move_cursor(
        &mut self,
        source: &Transaction,
        truth: Truth<'_>,
        look: &Look<'_>,
        draw: &mut Draw,
    ) -> Checked<u64> {
        let pairs = truth.pairs();
        let key = look.key(draw);
        let mut cursor = must(source.cursor(), "cursor")?;
        let mut way = draw.pick(&[Direction::Forward, Direction::Backward]);
        let (mut span, mut shown) = (Span::of_key(&key), Pairs::new());
        let mut position = match way {
            Direction::Forward => {
                must(cursor.seek(&key), "seek")?;
                let index = pairs.partition_point(|(other, _)| *other < key);
                Some(index).filter(|index| *index < pairs.len())
            }
            Direction::Backward => {
                must(cursor.seek_for_prev(&key), "seek_for_prev")?;
                pairs.partition_point(|(other, _)| *other <= key).checked_sub(1)
            }
        };
        for step in 0..draw.within(1..=12) {
            let pair = |(key, value): (&[u8], &[u8])| (Shared::from(key), Shared::from(value));
            let found: Pairs = cursor.entry().map(pair).into_iter().collect();
            let expected: Pairs = position.map(|at| pairs[at].clone()).into_iter().collect();
            let what = || format!("a cursor {step} steps from {:?}", key.escape_ascii());
            compare_pairs(&found, &expected).map_err(|violation| violation.during(what()))?;
            let at = expected.first().map(|(key, _)| key);
            match (way, at) {
                (Direction::Forward, Some(at)) => {
                    span.upper = span.upper.map(|upper| upper.max(successor(at)));
                }
                (Direction::Forward, None) => span.upper = None,
                (Direction::Backward, Some(at)) => {
                    span.lower = span.lower.min(Arc::clone(at));
                }
                (Direction::Backward, None) => span.lower = Span::all().lower,
            }
            shown.extend(expected);
            let Some(at) = position else { break };
            way = draw.pick(&[way, way, Direction::Forward, Direction::Backward]);
            position = match way {
                Direction::Forward => {
                    must(cursor.next(), "next")?;
                    Some(at + 1).filter(|at| *at < pairs.len())
                }
                Direction::Backward => {
                    must(cursor.prev(), "prev")?;
                    at.checked_sub(1)
                }
            };
        }
        // The last position was not compared, but it was read.
        let last = position.map(|at| pairs[at].clone());
        match (way, &last) {
            (Direction::Forward, Some((at, _))) => {
                span.upper = span.upper.map(|upper| upper.max(successor(at)));
            }
            (Direction::Forward, None) => span.upper = None,
            (Direction::Backward, Some((at, _))) => span.lower = span.lower.min(Arc::clone(at)),
            (Direction::Backward, None) => span.lower = Span::all().lower,
        }
        shown.extend(last);
        self.covered(look.family, span, &shown);
        Ok(shown.len() as u64)
    }

    /// Creates a savepoint.
    ///
    /// # Errors
    /// If that fails.
    pub fn savepoint(&mut self, name: &str) -> Checked<()> {
        must(self.transaction.savepoint(name), "savepoint")?;
        self.savepoints.push((name.to_owned(), self.writes.len()));
        Ok(())
    }

    /// Returns to a savepoint, or releases it. Returns whether the name existed.
    ///
    /// # Errors
    /// If the savepoint exists and the call fails, or if it does not exist and the call succeeds.
    pub fn use_savepoint(&mut self, name: &str, used: Used) -> Checked<bool> {
        let result = match used {
            Used::Return => self.transaction.rollback_to(name),
            Used::Release => self.transaction.release(name),
        };
        let index = self.savepoints.iter().rposition(|(known, _)| known == name);
        let Some(index) = index else {
            let is_unknown =
                result.as_ref().is_err_and(|e| e.kind() == siltdb::ErrorKind::NotFound);
            let message = || Violation::new(format!("an unknown savepoint gave {result:?}"));
            return if is_unknown { Ok(false) } else { Err(message()) };
        };
        must(result, "using a savepoint")?;
        match used {
            Used::Return => {
                self.writes.truncate(self.savepoints[index].1);
                self.savepoints.truncate(index + 1);
            }
            Used::Release => self.savepoints.truncate(index),
        }
        Ok(true)
    }

    /// Whether a key is unchanged since the transaction began; `None`, if it was written and has
    /// the same value.
    #[must_use]
    pub fn is_unchanged(
        &self,
        model: &Model,
        now: Moment,
        (family, key): (FamilyIndex, &Shared),
    ) -> Option<bool> {
        let span = Span::of_key(key);
        let moments = [Moment { commit: self.began.commit, ..now }, now];
        let is_own = |(of, operation): &(FamilyIndex, Operation)| {
            *of == family && operation.span().overlaps(&span)
        };
        let has_expired = self.has_expired(model, now, (family, &span));
        let is_hidden = self.writes.iter().any(is_own);
        if model.differs(family, &span, moments) || has_expired && !is_hidden {
            return Some(false);
        }
        let is_touched = model.touched(family, &span, self.began.commit);
        (!is_touched && !has_expired).then_some(true)
    }

    /// Whether a value that a key of a span had at begin has expired.
    fn has_expired(
        &self,
        model: &Model,
        now: Moment,
        (family, span): (FamilyIndex, &Span),
    ) -> bool {
        let later = Moment { wall_ms: now.wall_ms.max(self.began.wall_ms), ..self.began };
        model.differs(family, span, [self.began, later])
    }

    /// Whether the level validates reads, and a value of a family that was read has expired.
    fn may_rely_on_expired(&self, model: &Model, now: Moment) -> bool {
        let read: BTreeSet<FamilyIndex> = self.reads.possible.iter().map(|(of, _)| *of).collect();
        let all = Span::all();
        self.validates_reads()
            && read.into_iter().any(|family| self.has_expired(model, now, (family, &all)))
    }

    fn validates_reads(&self) -> bool {
        matches!(self.transaction.isolation(), Isolation::RepeatableRead | Isolation::Serializable)
    }

    /// The result of a commit at this moment, if no lock blocks it. `families` are the existing
    /// ones.
    #[must_use]
    pub fn ending(
        &self,
        model: &Model,
        now: Moment,
        families: &BTreeMap<FamilyIndex, Family>,
    ) -> Ending {
        if self.transaction.written() == 0 {
            return Ending::Commit;
        }
        let is_effective = |operation: &Operation| operation.span().overlaps(&operation.span());
        let mut written = self.writes.iter().filter(|(_, operation)| is_effective(operation));
        if written.any(|(family, _)| !families.contains_key(family)) {
            return Ending::Dropped;
        }
        let checked = match self.transaction.isolation() {
            _ if self.validates_reads() => self.reads.clone(),
            Isolation::Snapshot => {
                let mut writes = Footprint::default();
                for (family, operation) in &self.writes {
                    writes.add(*family, operation.span());
                }
                writes
            }
            _ => Footprint::default(),
        };
        let is_gone =
            |family: &FamilyIndex| self.validates_reads() && !families.contains_key(family);
        let mut certain = checked.certain.iter().filter(|(_, span)| span.overlaps(span));
        if certain.any(|(family, _)| is_gone(family)) {
            return Ending::Conflict;
        }
        let began = self.began.commit;
        let moments = [Moment { commit: began, ..now }, now];
        if checked.certain.iter().any(|(family, span)| model.differs(*family, span, moments)) {
            return Ending::Conflict;
        }
        let mut shown = checked.shown.iter();
        if shown.any(|(family, span)| self.has_expired(model, now, (*family, span))) {
            return Ending::Conflict;
        }
        let mut possible = checked.possible.iter();
        match possible.any(|(family, span)| is_gone(family) || model.touched(*family, span, began))
            || self.may_rely_on_expired(model, now)
        {
            true => Ending::Either,
            false => Ending::Commit,
        }
    }

    /// The result of a commit that was delayed until `now`.
    #[must_use]
    pub fn delayed(&self, ending: Ending, model: &Model, now: Moment) -> Ending {
        match ending {
            Ending::Commit if self.may_rely_on_expired(model, now) => Ending::Either,
            Ending::Busy if self.may_rely_on_expired(model, now) => Ending::ConflictOrBusy,
            other => other,
        }
    }
}

/// The use of a savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    /// All writes since then are undone.
    Return,
    /// The savepoint is removed.
    Release,
}

impl Look<'_> {
    /// One of the keys of the run.
    pub fn key(&self, draw: &mut Draw) -> Shared {
        self.shape.key(draw.below(self.key_count + 1))
    }

    /// A range of keys, mostly a part of all.
    pub fn span(&self, draw: &mut Draw) -> (Span, (Bound<Shared>, Bound<Shared>)) {
        let (one, other) = (self.key(draw), self.key(draw));
        let (lower, upper) = if one <= other { (one, other) } else { (other, one) };
        let upper = Some(upper).filter(|_| draw.chance(9, 10));
        let end = upper.clone().map_or(Bound::Unbounded, Bound::Excluded);
        (Span { lower: Arc::clone(&lower), upper }, (Bound::Included(lower), end))
    }
}
