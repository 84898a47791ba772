//! Commits that create and drop families together with data.

use crate::{
    database::families_by_name,
    keys::{CLOCK_KEY, value},
    model::{Clock, DEFAULT, Operation, Shared},
    plan::{Form, Planned},
    run::{Excuse, Outcome, Run},
    settings::FamilySettings,
    violation::{Checked, Violation, must},
    watch::Activity,
};
use siltdb::{Durability, ErrorKind, Isolation, WriteBatch};

/// The levels of the transactions that create and drop families.
const LEVELS: [Isolation; 5] = [
    Isolation::ReadUncommitted,
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

/// A new family gets at most this many keys in the commit that creates it.
const KEYS_MAX: u64 = 40;

impl Run {
    /// Creates the family `name` with data. `old`, if given, is dropped in the same commit. After a
    /// crash, commit and families must agree.
    pub(crate) fn commit_family(&mut self, name: &str, old: Option<&str>) -> Checked<()> {
        if self.excuse() == Excuse::Fault {
            return self.crash();
        }
        self.end_lockers();
        let number = self.visible + 1;
        self.model.truncate(self.visible);
        let settings = FamilySettings::new_family(&mut self.draw);
        let index = self.model.add_family(settings.key_order);
        let old = old.and_then(|old| Some((old, *self.database.names.get(old)?)));
        self.note(format!("commit {number} creates {name} (#{}), drops {old:?}", index.0));
        let planned = self.plan_data(index, number);
        let options = settings.options(self.settings.operator);
        let family = must(self.database.db.prepare_family(name, options), "preparing a family")?;
        let batch = must(self.family_batch(&planned, &family, old.map(|old| old.0)), "a batch")?;
        let (before, mut names) = (self.database.names.clone(), self.database.names.clone());
        if let Some((old, _)) = old {
            names.remove(old);
        }
        names.insert(name.to_owned(), index);
        self.model.begin(planned.durability, planned.clock, &planned.operations);
        self.joined = Some(number);
        let level = self.draw.chance(1, 2).then(|| self.draw.pick(&LEVELS));
        let work = |database: &crate::database::Database| match level {
            None => database.db.write(&batch),
            Some(level) => {
                let transaction = database.db.begin(level);
                transaction.apply(&batch)?;
                transaction.commit().map(drop)
            }
        };
        let outcome = self.operate(Activity::Commit, Some(names.clone()), work);
        self.joined = None;
        let kind = match outcome? {
            Outcome::Done(()) => {
                self.report.families_committed += 1;
                self.report.families_of_transactions += u64::from(level.is_some());
                self.database.families.insert(index, family);
                self.acknowledge(&planned)?;
                return match old {
                    Some((_, old)) => self.dropped(names, old),
                    None => {
                        self.database.names = names;
                        Ok(())
                    }
                };
            }
            Outcome::Replaced => return Ok(()),
            Outcome::Refused(kind) => kind,
        };
        let found = must(families_by_name(&self.database.db), "opening the families")?;
        let found: Vec<String> = found.into_keys().collect();
        if kind == ErrorKind::Poisoned && names.keys().eq(found.iter()) {
            // The families are in force, and the commit is visible with them. A crash may leave
            // neither.
            self.visible = self.model.possible();
            self.half_changed = Some(before);
            self.database.families.insert(index, family);
            if let Some((_, old)) = old {
                self.database.families.remove(&old);
            }
            self.database.names = names;
        } else if !before.keys().eq(found.iter()) {
            return Err(Violation::new(format!("families {found:?} after a commit was refused")));
        } else if kind != ErrorKind::Poisoned {
            self.model.truncate(self.visible);
        }
        self.compare_everything()
    }

    /// The operations of commit `number` on a new family; the commit writes its number.
    fn plan_data(&mut self, index: crate::model::FamilyIndex, number: u64) -> Planned {
        let (shape, count) = (self.settings.key_shape, self.settings.key_count);
        let mut operations = Vec::new();
        for _ in 0..self.draw.within(0..=KEYS_MAX) {
            let key = shape.key(self.draw.below(count));
            let value = value(&mut self.draw, self.settings.value_bytes_max);
            operations.push((index, Operation::Put { key, value, expiry_ms: None }));
        }
        let (key, value) = (Shared::from(CLOCK_KEY), Shared::from(number.to_le_bytes()));
        operations.push((DEFAULT, Operation::Put { key, value, expiry_ms: None }));
        let (durability, clock) = (Durability::Synced, Clock::Written);
        Planned { operations, form: Form::Batch, durability, clock }
    }

    fn family_batch(
        &self,
        planned: &Planned,
        family: &siltdb::Family,
        old: Option<&str>,
    ) -> siltdb::Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        for (index, operation) in &planned.operations {
            let to = if *index == DEFAULT { &self.database.families[index] } else { family };
            if let Operation::Put { key, value, .. } = operation {
                batch.put(to, key, value)?;
            }
        }
        if let Some(old) = old {
            batch.drop_family(&self.database.db.family(old)?)?;
        }
        batch.create_family(family)?;
        Ok(batch)
    }
}
