//! Steps of transactions in two phases: prepared now, decided later, perhaps after crashes.
//!
//! Their keys are touched by no other commit, so that no other waits for their locks.

use crate::{
    keys::{prepared_key, value},
    model::{Clock, DEFAULT, FamilyIndex, Operation},
    plan::{Form, Planned},
    prepared::{Waits, undecided},
    run::{Outcome, Run},
    violation::{Checked, Violation},
    watch::Activity,
};
use siltdb::{Durability, ErrorKind, Isolation, WriteOptions};

/// Undecided transactions at once.
const UNDECIDED_MAX: usize = 5;

impl Run {
    /// Prepares a transaction, decides one, or writes where one has locked.
    pub(crate) fn two_phases(&mut self) -> Checked<()> {
        if self.poisoned || self.visible > self.model.acknowledged() {
            return self.read();
        }
        self.check_waiting()?;
        let waiting = self.waiting.iter().filter(|(_, waits)| **waits == Waits::Always);
        let waiting: Vec<String> = waiting.map(|(id, _)| id.clone()).collect();
        if waiting.is_empty() || waiting.len() < UNDECIDED_MAX && self.draw.chance(1, 2) {
            return self.prepare();
        }
        let id = waiting[self.draw.index(waiting.len())].clone();
        match self.draw.below(6) {
            0..3 => self.commit_prepared(id),
            3 | 4 => self.roll_back_prepared(id),
            _ => self.write_locked(&id),
        }
    }

    /// Compares what waits with what must.
    fn check_waiting(&mut self) -> Checked<()> {
        let found = undecided(&self.database.db);
        for (id, waits) in &self.waiting {
            let is_wrong = match waits {
                Waits::Always => !found.contains(id),
                Waits::Maybe => false,
                Waits::Without(_) => found.contains(id),
            };
            if is_wrong {
                let message = format!("{found:?} wait for their decision; {id} waits {waits:?}");
                return Err(Violation::new(message));
            }
        }
        match found.iter().find(|id| !self.waiting.contains_key(*id)) {
            None => Ok(()),
            Some(id) => Err(Violation::new(format!("{id} waits for its decision"))),
        }
    }

    fn prepare(&mut self) -> Checked<()> {
        let number = self.prepared_count;
        self.prepared_count += 1;
        let (id, mut operations) = (format!("p{number:06}"), Vec::new());
        for index in 0..self.draw.within(1..=3) {
            let key = prepared_key(number, index as u8);
            let value = value(&mut self.draw, self.settings.value_bytes_max);
            // Each decision leaves a trace.
            let value = [&number.to_le_bytes()[..], &value].concat().into();
            operations.push((DEFAULT, Operation::Put { key, value, expiry_ms: None }));
        }
        let levels = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
        let isolation = self.draw.pick(&levels);
        self.note(format!("prepare {id} ({isolation:?}, {})", operations.len()));
        self.waiting.insert(id.clone(), Waits::Maybe);
        self.prepared.insert(id.clone(), operations.clone());
        let outcome = self.operate(Activity::Transaction, None, |database| {
            let transaction = database.db.begin(isolation);
            for (_, operation) in &operations {
                if let Operation::Put { key, value, .. } = operation {
                    transaction.put(key, value)?;
                }
            }
            transaction.prepare(&id).map(drop)
        })?;
        match outcome {
            Outcome::Done(()) => {
                self.waiting.insert(id, Waits::Always);
                self.synced();
                self.report.transactions.prepared += 1;
            }
            // A reopen tells.
            Outcome::Refused(ErrorKind::Poisoned) | Outcome::Replaced => return Ok(()),
            Outcome::Refused(_) => {
                self.waiting.remove(&id);
            }
        }
        self.check_waiting()?;
        self.compare_everything()
    }

    /// The log was synced up to its end.
    fn synced(&mut self) {
        self.written = true;
        self.durable = self.model.acknowledged();
    }

    fn commit_prepared(&mut self, id: String) -> Checked<()> {
        self.model.truncate(self.visible);
        let durabilities = self.settings.durabilities.iter().copied();
        let logged: Vec<_> = durabilities.filter(|one| *one != Durability::Volatile).collect();
        let durability = self.draw.pick(&logged);
        let operations: Vec<(FamilyIndex, Operation)> = self.prepared[&id].clone();
        let planned = Planned { operations, form: Form::Batch, durability, clock: Clock::Silent };
        let number = self.model.begin(durability, planned.clock, &planned.operations);
        self.note(format!("commit {number}: the prepared {id}, {durability:?}"));
        self.waiting.insert(id.clone(), Waits::Without(number));
        let options = WriteOptions::new().durability(durability);
        let outcome = self.operate(Activity::Transaction, None, |database| {
            database.db.commit_prepared_with(&id, &options)
        })?;
        match outcome {
            Outcome::Done(info) => {
                self.acknowledge(&planned)?;
                let sequence = self.database.db.snapshot().sequence();
                if info.sequence != sequence {
                    let told = info.sequence;
                    let message = format!("a decision told of {told}, readers see {sequence}");
                    return Err(Violation::new(message));
                }
                self.report.transactions.decided += 1;
                self.check_waiting()?;
                self.compare_everything()
            }
            Outcome::Refused(ErrorKind::Poisoned) => self.look_at_refused(),
            Outcome::Refused(_) => {
                self.model.truncate(self.visible);
                self.waiting.insert(id, Waits::Always);
                self.check_waiting()?;
                self.compare_everything()
            }
            Outcome::Replaced => Ok(()),
        }
    }

    fn roll_back_prepared(&mut self, id: String) -> Checked<()> {
        self.note(format!("roll back the prepared {id}"));
        self.waiting.insert(id.clone(), Waits::Maybe);
        let outcome = self
            .operate(Activity::Transaction, None, |database| database.db.rollback_prepared(&id))?;
        match outcome {
            Outcome::Done(()) => {
                self.waiting.remove(&id);
                self.synced();
                self.report.transactions.decided += 1;
            }
            Outcome::Refused(ErrorKind::Poisoned) | Outcome::Replaced => return Ok(()),
            Outcome::Refused(_) => {
                self.waiting.insert(id, Waits::Always);
            }
        }
        self.check_waiting()?;
        self.compare_everything()
    }

    /// What a prepared transaction has written is not for others.
    fn write_locked(&mut self, id: &str) -> Checked<()> {
        let Some((_, Operation::Put { key, .. })) = self.prepared[id].first().cloned() else {
            return Ok(());
        };
        self.note(format!("write what the prepared {id} has locked"));
        let outcome = self.operate(Activity::Commit, None, |database| {
            match database.db.put(&key, b"other") {
                Err(error) if error.kind() == ErrorKind::Busy => Ok(true),
                written => written.map(|()| false),
            }
        })?;
        self.written = true;
        match outcome {
            Outcome::Done(false) => Err(Violation::new(format!("a key of {id} was written"))),
            Outcome::Done(true) | Outcome::Refused(_) | Outcome::Replaced => Ok(()),
        }
    }
}
