//! Steps of transactions: several are open at once, while others commit, flush and compact.
//!
//! `transaction` knows what a transaction sees and depends on.

use crate::{
    ending::Ending,
    keys::{CLOCK_KEY, operand, value},
    model::{Clock, DEFAULT, FamilyIndex, Operation, Shared},
    plan::{Form, Planned},
    run::{Outcome, Run},
    transaction::{Look, Notes, OpenTransaction, Used},
    violation::{Checked, Violation, must},
    watch::Activity,
};
use siltdb::{CommitInfo, ErrorKind, Isolation, Transaction, TransactionOptions};
use std::time::Duration;

/// At most this many transactions are open at once.
const OPEN_MAX: usize = 4;

/// The names of savepoints.
const SAVEPOINTS: [&str; 2] = ["a", "b"];

impl Run {
    /// Begins or continues a transaction, and sometimes ends it.
    pub(crate) fn transact(&mut self) -> Checked<()> {
        if self.visible > self.model.acknowledged() {
            // Readers see the commit in doubt. The database is poisoned and takes no other commit.
            return self.read();
        }
        if self.draw.chance(1, 30) {
            return self.deadlock();
        }
        let begins = self.transactions.len() < OPEN_MAX && self.draw.chance(1, 3);
        if self.transactions.is_empty() || begins {
            self.begin_transaction();
        }
        let index = self.draw.index(self.transactions.len());
        let mut open = self.transactions.swap_remove(index);
        for _ in 0..self.draw.within(1..=6) {
            self.act(&mut open)?;
        }
        match self.draw.below(10) {
            0 => self.roll_back(open),
            1..4 => {
                if self.settings.expiring > 0 && self.draw.chance(1, 3) {
                    let ms = self.draw.within(1..=3000);
                    self.advance(Duration::from_millis(ms));
                }
                self.commit_transaction(open)
            }
            _ => {
                self.transactions.push(open);
                Ok(())
            }
        }
    }

    fn jobs_so_far(&self) -> u64 {
        let done = self.database.jobs_done();
        done.flushes + done.compactions
    }

    fn begin_transaction(&mut self) {
        let isolation = self.draw.pick(Isolation::ALL);
        let durability = self.draw.pick(&self.settings.durabilities);
        let options = TransactionOptions::new().isolation(isolation).durability(durability);
        // A run has one thread, so a wait for a lock could not end.
        let options = options.lock_timeout(Duration::ZERO);
        self.read_clock();
        let transaction = self.database.db.begin_with(&options);
        self.note(format!("begin {isolation:?} at {}, {durability:?}", self.visible));
        self.begun(transaction, durability);
    }

    fn begun(&mut self, transaction: Transaction, durability: siltdb::Durability) {
        let (began, jobs_before) = (self.now(), self.jobs_so_far());
        let notes = self.draw.pick(&[Notes::Exact, Notes::Exact, Notes::Families]);
        let families = self.database.families.clone();
        let mut open = OpenTransaction::new(transaction, durability, began, families, notes);
        open.jobs_before = jobs_before;
        self.transactions.push(open);
    }

    fn act(&mut self, open: &mut OpenTransaction) -> Checked<()> {
        let name = self.draw.pick(&SAVEPOINTS);
        match self.draw.below(28) {
            0..8 => self.write_in(open),
            8..16 => self.read_in(open),
            16..18 => open.savepoint(name),
            18..21 => {
                let returned = open.use_savepoint(name, Used::Return)?;
                self.report.transactions.returns += u64::from(returned);
                Ok(())
            }
            21..23 => self.use_buckets_in(open),
            23..27 => self.lock_in(open),
            _ => open.use_savepoint(name, Used::Release).map(|_| ()),
        }
    }

    /// An operation of a transaction, and the time until its value expires.
    fn transaction_operation(&mut self) -> (Operation, Option<Duration>) {
        let (shape, count) = (self.settings.key_shape, self.settings.key_count);
        let key = shape.key(self.draw.below(count));
        let operation = match self.draw.below(20) {
            0..11 => {
                let value = value(&mut self.draw, self.settings.value_bytes_max);
                let expires = self.draw.chance(self.settings.expiring, 10);
                let time = expires.then(|| Duration::from_millis(self.draw.below(3000)));
                self.read_clock();
                let expiry_ms = time.map(|time| self.now().wall_ms + time.as_millis() as u64);
                return (Operation::Put { key, value, expiry_ms }, time);
            }
            11..14 => Operation::Delete { key },
            14 | 15 => {
                let other = shape.key(self.draw.below(count));
                let (start, end) = if key <= other { (key, other) } else { (other, key) };
                Operation::DeleteRange { start, end }
            }
            16 if !key.is_empty() => {
                let prefix = key[..1 + self.draw.index(key.len())].into();
                Operation::DeletePrefix { prefix }
            }
            _ => Operation::Merge { key, operand: operand(&mut self.draw) },
        };
        (operation, None)
    }

    fn write_in(&mut self, open: &mut OpenTransaction) -> Checked<()> {
        for _ in 0..self.draw.within(1..=4) {
            let indexes: Vec<_> = self.database.families.keys().copied().collect();
            let family = self.draw.pick(&indexes);
            let (operation, time) = self.transaction_operation();
            let (family, operation) = match self.draw_locked_key() {
                Some((family, key)) => (family, Operation::Delete { key }),
                None => (family, operation),
            };
            self.write_one(open, family, operation, time)?;
        }
        Ok(())
    }

    fn write_one(
        &mut self,
        open: &mut OpenTransaction,
        family: FamilyIndex,
        operation: Operation,
        time: Option<Duration>,
    ) -> Checked<()> {
        let handle = &self.database.families[&family];
        let to = must(open.transaction.family(handle), "a family in a transaction")?;
        let written = match (&operation, time) {
            (Operation::Put { key, value, .. }, None) => to.put(key, value),
            (Operation::Put { key, value, .. }, Some(time)) => to.put_for(key, value, time),
            (Operation::Delete { key } | Operation::SingleDelete { key }, _) => to.delete(key),
            (Operation::DeleteRange { start, end }, _) => to.delete_range(&**start..&**end),
            (Operation::DeletePrefix { prefix }, _) => to.delete_prefix(prefix),
            (Operation::Merge { key, operand }, _) => to.merge(key, operand),
        };
        match written {
            Err(error) if self.excuse().kinds().contains(&error.kind()) => {}
            written => {
                must(written, "writing in a transaction")?;
                open.writes.push((family, operation));
            }
        }
        Ok(())
    }

    fn read_in(&mut self, open: &mut OpenTransaction) -> Checked<()> {
        let families = match self.draw.chance(1, 2) {
            true => &self.database.families,
            false if open.transaction.isolation() >= Isolation::RepeatableRead => &open.families,
            false => &self.database.families,
        };
        let indexes: Vec<_> = families.keys().copied().collect();
        let family = self.draw.pick(&indexes);
        let (shape, key_count) = (self.settings.key_shape, self.settings.key_count);
        let handle = families[&family].clone();
        let look = Look { family, handle: &handle, now: self.now(), shape, key_count };
        let mut draw = self.draw.fork();
        let walks = open.may_walk() && draw.chance(1, 3);
        let mut read = |open: &mut OpenTransaction| match walks {
            true => open.walk(&self.model, &look, &mut draw),
            false => open.read(&self.model, &look, &mut draw),
        };
        let faults = self.database.fs.faults();
        let mut compared = read(open);
        if self.database.fs.faults() > faults {
            // The harness does not know which keys a failed reader has read. No wrong state may
            // stay behind.
            open.read_anything(family);
            open.forget_walk();
            compared = read(open);
        }
        let what = || {
            let (isolation, began) = (open.transaction.isolation(), open.began.commit);
            format!("reading in a transaction, {isolation:?} since {began}")
        };
        self.report.reads += compared.map_err(|violation| violation.during(what()))?;
        Ok(())
    }

    fn roll_back(&mut self, open: OpenTransaction) -> Checked<()> {
        self.note("roll back".to_owned());
        must(open.transaction.rollback(), "rolling back")?;
        self.report.transactions.rolled_back += 1;
        self.ended(open)
    }

    /// A transaction that has ended takes no operation until it is renewed.
    fn ended(&mut self, open: OpenTransaction) -> Checked<()> {
        let OpenTransaction { transaction, durability, .. } = open;
        let late = transaction.put(b"late", b"");
        if !late.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidArgument) {
            return Err(Violation::new(format!("writing after the end gave {late:?}")));
        }
        if self.draw.chance(1, 4) {
            self.read_clock();
            transaction.reset();
            self.note(format!("begin {:?} again", transaction.isolation()));
            self.begun(transaction, durability);
        }
        Ok(())
    }

    /// Sometimes makes the transaction write its commit number. All that do so meet on the clock
    /// key.
    fn write_clock(&mut self, open: &mut OpenTransaction) -> Checked<Clock> {
        let wanted = match open.transaction.isolation() {
            Isolation::Snapshot => self.draw.chance(1, 8),
            _ => self.draw.chance(3, 4),
        };
        if !wanted || open.transaction.written() == 0 {
            return Ok(Clock::Silent);
        }
        let before = open.writes.len();
        let number = (self.visible + 1).to_le_bytes();
        let (key, value) = (Shared::from(CLOCK_KEY), Shared::from(number));
        self.write_one(open, DEFAULT, Operation::Put { key, value, expiry_ms: None }, None)?;
        Ok(if open.writes.len() > before { Clock::Written } else { Clock::Silent })
    }

    fn commit_transaction(&mut self, mut open: OpenTransaction) -> Checked<()> {
        let saved = self.poisoned.then(|| self.model.clone());
        self.model.truncate(self.visible);
        let clock = self.write_clock(&mut open)?;
        let ending = open.ending(&self.model, self.now(), &self.database.families);
        let ending = if self.is_locked(&open.writes) { ending.locked() } else { ending };
        let writes = open.transaction.written() > 0;
        let (number, isolation) = (self.visible + 1, open.transaction.isolation());
        let count = open.writes.len();
        self.note(format!(
            "commit {number} ({isolation:?} since {}, {:?}, clock {clock:?}, {count}): {ending:?}",
            open.began.commit, open.durability
        ));
        let (operations, durability) = (open.writes.clone(), open.durability);
        let planned = Planned { operations, form: Form::Batch, durability, clock };
        if writes && matches!(ending, Ending::Commit | Ending::Either) {
            self.model.begin(planned.durability, planned.clock, &planned.operations);
        }
        let transaction = open.transaction.clone();
        let outcome =
            self.operate(Activity::Transaction, None, |_| match transaction.commit() {
                Ok(info) => Ok(Ok(info)),
                Err(error) => match error.kind() {
                    ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Busy => Ok(Err(error)),
                    _ => Err(error),
                },
            })?;
        // A delay may have let something expire before the check.
        let ending = open.delayed(ending, &self.model, self.now());
        match outcome {
            Outcome::Done(Ok(info)) if writes => self.committed(&open, &planned, ending, info)?,
            Outcome::Done(result) => {
                match saved {
                    // The earlier commit is still in doubt.
                    Some(saved) => self.model = saved,
                    None => self.model.truncate(self.visible),
                }
                self.not_written(ending, writes, result)?;
            }
            Outcome::Refused(ErrorKind::Poisoned) => {
                // A poisoned database did not try the commit, so the earlier one is still in doubt.
                if let Some(saved) = saved {
                    self.model = saved;
                }
                return self.look_at_refused();
            }
            Outcome::Refused(_) => {
                // The commit never got a sequence number: it is absent, and no recovery finds it.
                self.model.truncate(self.visible);
                self.compare_everything()?;
            }
            Outcome::Replaced => return Ok(()),
        }
        self.ended(open)
    }

    fn committed(
        &mut self,
        open: &OpenTransaction,
        planned: &Planned,
        ending: Ending,
        info: CommitInfo,
    ) -> Checked<()> {
        if !matches!(ending, Ending::Commit | Ending::Either) {
            let message = format!("a transaction committed where {ending:?} was to come");
            return Err(Violation::new(message));
        }
        let overtaken = open.began.commit < self.visible;
        self.acknowledge(planned)?;
        let sequence = self.database.db.snapshot().sequence();
        if info.sequence != sequence {
            let message = format!("a commit reported {}, readers see {sequence}", info.sequence);
            return Err(Violation::new(message));
        }
        let counts = &mut self.report.transactions;
        counts.committed += 1;
        counts.overtaken += u64::from(overtaken);
        let across_jobs = self.jobs_so_far() > open.jobs_before;
        self.report.transactions.across_jobs += u64::from(across_jobs);
        Ok(())
    }

    /// The transaction had no writes or was refused, so none of them is present.
    fn not_written(
        &mut self,
        ending: Ending,
        writes: bool,
        result: siltdb::Result<CommitInfo>,
    ) -> Checked<()> {
        let counts = &mut self.report.transactions;
        match (&result, ending) {
            (Ok(_), _) => counts.read_only += 1,
            (Err(error), Ending::Dropped) if error.kind() == ErrorKind::NotFound => {
                counts.dropped += 1;
            }
            (Err(error), Ending::Conflict | Ending::Either | Ending::ConflictOrBusy)
                if error.kind() == ErrorKind::Conflict && writes =>
            {
                counts.conflicts += 1;
                counts.expired += u64::from(error.message().contains("has expired"));
            }
            (Err(error), Ending::Busy | Ending::ConflictOrBusy)
                if error.kind() == ErrorKind::Busy && writes =>
            {
                self.report.locks.transactions_kept_out += 1;
            }
            (Err(error), _) => {
                let message = format!("{ending:?} was to come, but: {error}");
                return Err(Violation::new(message));
            }
        }
        if let Ok(info) = result {
            let sequence = self.database.db.snapshot().sequence();
            if info.sequence > sequence {
                let message =
                    format!("a reader reported {}, the last is {sequence}", info.sequence);
                return Err(Violation::new(message));
            }
        }
        self.compare_everything()
    }
}
