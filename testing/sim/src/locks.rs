//! Steps of locks: open transactions against each other and against plain commits.
//!
//! A run has one thread, so a blocked request fails at once. A deadlock needs a second thread for a
//! moment. Its outcome is the same whichever thread is first.

use crate::{
    carry_out::{carry_out, describe},
    model::{FamilyIndex, Operation, Shared, Span},
    plan::Planned,
    run::{Outcome, Run},
    transaction::{HeldLock, Look, OpenTransaction},
    violation::{Checked, Violation, must, show_option},
    watch::Activity,
};
use siltdb::{ErrorKind, Isolation, LockMode, Transaction, TransactionOptions};
use std::{ops::Bound, thread, time::Duration};

/// Longer than any wait for a lock in a deadlock that is detected.
const PATIENCE: Duration = Duration::from_secs(20);

/// A lock request.
#[derive(Clone, Copy, Debug)]
enum LockCall {
    Key(LockMode),
    Range(LockMode),
    ReadForUpdate,
}

impl Run {
    /// Whether a lock of an open transaction blocks these operations.
    pub(crate) fn is_locked(&self, operations: &[(FamilyIndex, Operation)]) -> bool {
        let mut operations = operations.iter();
        operations.any(|(family, operation)| self.is_blocked(*family, &operation.span(), None))
    }

    /// Whether an open transaction has a lock in a family of these operations.
    pub(crate) fn has_locks_in(&self, operations: &[(FamilyIndex, Operation)]) -> bool {
        let mut locks = self.transactions.iter().flat_map(|open| &open.locks);
        locks.any(|lock| operations.iter().any(|(family, _)| *family == lock.family))
    }

    /// Whether a lock of an open transaction blocks a lock of `mode`; with `None`, a write.
    fn is_blocked(&self, family: FamilyIndex, span: &Span, mode: Option<LockMode>) -> bool {
        let mut locks = self.transactions.iter().flat_map(|open| &open.locks);
        locks.any(|lock| lock.blocks(family, span, mode))
    }

    /// Sometimes a key that an open transaction has locked, and its family: there locks meet.
    pub(crate) fn draw_locked_key(&mut self) -> Option<(FamilyIndex, Shared)> {
        let locks: Vec<_> = self.transactions.iter().flat_map(|open| &open.locks).collect();
        let is_wanted = self.draw.chance(1, 3) && !locks.is_empty();
        let lock = is_wanted.then(|| locks[self.draw.index(locks.len())])?;
        let is_there = self.database.families.contains_key(&lock.family);
        is_there.then(|| (lock.family, lock.span.lower.clone()))
    }

    /// Drops the transactions that hold locks.
    pub(crate) fn end_lockers(&mut self) {
        self.transactions.retain(|open| open.locks.is_empty());
    }

    /// A plain commit that a lock blocks. It must leave nothing.
    pub(crate) fn commit_locked(&mut self, planned: &Planned) -> Checked<()> {
        self.note(format!("kept out by a lock: {}", describe(self.visible + 1, planned)));
        let outcome =
            self.operate(Activity::Commit, None, |database| match carry_out(database, planned) {
                Err(error) if error.kind() == ErrorKind::Busy => Ok(true),
                written => written.map(|()| false),
            })?;
        match outcome {
            Outcome::Done(true) => self.report.locks.kept_out += 1,
            Outcome::Done(false) => {
                return Err(Violation::new("a commit has passed a lock of a transaction"));
            }
            Outcome::Refused(_) => {}
            Outcome::Replaced => return Ok(()),
        }
        self.compare_everything()
    }

    /// Locks a key or range in a transaction.
    pub(crate) fn lock_in(&mut self, open: &mut OpenTransaction) -> Checked<()> {
        let indexes: Vec<_> = self.database.families.keys().copied().collect();
        let (shape, key_count) = (self.settings.key_shape, self.settings.key_count);
        let (family, key) = match self.draw_locked_key() {
            Some(locked) => locked,
            None => (self.draw.pick(&indexes), shape.key(self.draw.below(key_count + 1))),
        };
        let handle = self.database.families[&family].clone();
        let look = Look { family, handle: &handle, now: self.now(), shape, key_count };
        let mode = self.draw.pick(&[LockMode::Shared, LockMode::Exclusive]);
        let call = self.draw.pick(&[
            LockCall::Key(mode),
            LockCall::Range(mode),
            LockCall::ReadForUpdate,
            LockCall::ReadForUpdate,
        ]);
        let to = must(open.transaction.family(&handle), "a family in a transaction")?;
        let (span, mode, result) = match call {
            LockCall::Key(mode) => (Span::of_key(&key), mode, to.lock_key(&key, mode)),
            LockCall::Range(mode) => {
                // Not up to the last key: prepared transactions hold locks there.
                let (mut span, (lower, upper)) = look.span(&mut self.draw);
                let last = Shared::from(&b"\xff"[..]);
                let end = span.upper.get_or_insert(last).clone();
                let upper = if upper == Bound::Unbounded { Bound::Excluded(end) } else { upper };
                let locked = to.lock_range((lower, upper), mode);
                (span, mode, locked)
            }
            LockCall::ReadForUpdate => return self.read_for_update(open, &look, &key),
        };
        let is_busy = self.is_blocked(family, &span, Some(mode));
        let counts = &mut self.report.locks;
        match (result, is_busy) {
            (Ok(()), false) => {
                match call {
                    LockCall::Range(_) => counts.ranges += 1,
                    _ => counts.keys += 1,
                }
                open.locks.push(HeldLock { family, span, mode });
                Ok(())
            }
            (result, is_busy) => self.not_locked(result.err(), is_busy, &span),
        }
    }

    /// Judges a lock request that failed.
    fn not_locked(
        &mut self,
        error: Option<siltdb::Error>,
        is_busy: bool,
        span: &Span,
    ) -> Checked<()> {
        let kind = error.as_ref().map(siltdb::Error::kind);
        if is_busy && kind == Some(ErrorKind::Busy) {
            self.report.locks.busy += 1;
            return Ok(());
        }
        if kind.is_some_and(|kind| self.excuse().kinds().contains(&kind)) {
            return Ok(());
        }
        let expected = if is_busy { "held by another" } else { "free" };
        Err(Violation::new(format!("{span:?} is {expected}, locking it gave {error:?}")))
    }

    /// Locks a key and reads its newest value.
    fn read_for_update(
        &mut self,
        open: &mut OpenTransaction,
        look: &Look<'_>,
        key: &Shared,
    ) -> Checked<()> {
        let (family, mode) = (look.family, LockMode::Exclusive);
        let span = Span::of_key(key);
        let to = must(open.transaction.family(look.handle), "a family in a transaction")?;
        let result = to.get_for_update(key);
        let is_busy = self.is_blocked(family, &span, Some(mode));
        if is_busy {
            return self.not_locked(result.err(), is_busy, &span);
        }
        let has_snapshot = open.transaction.isolation() >= Isolation::RepeatableRead;
        let is_unchanged = match has_snapshot {
            true => open.is_unchanged(&self.model, look.now, (family, key)),
            false => Some(true),
        };
        match (result, is_unchanged) {
            (Ok(found), Some(true) | None) => {
                let own = open.own_model(&self.model, look);
                let expected = own.value(family, key, open.sees(&own, look));
                if found.as_deref() != expected.as_deref() {
                    let shown = [found.as_deref(), expected.as_deref()].map(show_option);
                    let message = format!("reading with a lock: {} for {}", shown[0], shown[1]);
                    return Err(Violation::new(message));
                }
                open.read_key(family, key);
                open.locks.push(HeldLock { family, span, mode });
                self.report.locks.reads += 1;
                Ok(())
            }
            (Err(error), Some(false) | None) if error.kind() == ErrorKind::Conflict => {
                // The lock stays.
                open.locks.push(HeldLock { family, span, mode });
                self.report.locks.late += 1;
                Ok(())
            }
            (result, _) => {
                let kind = result.as_ref().err().map(siltdb::Error::kind);
                if kind.is_some_and(|kind| self.excuse().kinds().contains(&kind)) {
                    // A read failed after the lock was granted. A poisoned database grants none,
                    // and refuses all commits as well.
                    open.read_anything(family);
                    open.locks.push(HeldLock { family, span, mode });
                    return Ok(());
                }
                let message = format!("unchanged {is_unchanged:?}, reading it gave {result:?}");
                Err(Violation::new(message))
            }
        }
    }

    /// Two transactions lock two keys in opposite orders. One of them must fail.
    pub(crate) fn deadlock(&mut self) -> Checked<()> {
        if self.has_failed() {
            return Ok(());
        }
        self.end_lockers();
        let indexes: Vec<_> = self.database.families.keys().copied().collect();
        let family = self.draw.pick(&indexes);
        let handle = self.database.families[&family].clone();
        let key = self.settings.key_shape.key(self.draw.below(self.settings.key_count));
        let keys = [key.clone(), [&key[..key.len() / 2], b"\x01other"].concat().into()];
        self.note(format!("deadlock in #{}", family.0));
        let isolation = self.draw.pick(Isolation::ALL);
        let options = TransactionOptions::new().isolation(isolation).lock_timeout(PATIENCE);
        let begin = |key: &Shared| -> Checked<Transaction> {
            let transaction = self.database.db.begin_with(&options);
            let transaction = must(transaction.family(&handle), "a family in a transaction")?;
            must(transaction.lock_key(key, LockMode::Exclusive), "locking a free key")?;
            Ok(transaction)
        };
        let (one, other) = (begin(&keys[0])?, begin(&keys[1])?);
        let lock = |transaction: &Transaction, key: &Shared| {
            let locked = transaction.lock_key(key, LockMode::Exclusive);
            // The rollback of the victim lets the other transaction continue.
            transaction.rollback().and(locked)
        };
        let results = thread::scope(|scope| {
            let other = scope.spawn(|| lock(&other, &keys[0]));
            let here = lock(&one, &keys[1]);
            other.join().map(|there| [here, there])
        });
        let results = results.map_err(|_| Violation::new("a transaction that locks panicked"))?;
        let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        match refused[..] {
            [error] if error.kind() == ErrorKind::Conflict => {
                self.report.locks.deadlocks += 1;
                Ok(())
            }
            _ => Err(Violation::new(format!("a cycle of two transactions gave {results:?}"))),
        }
    }
}
