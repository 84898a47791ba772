//! Steps on the guests: commits and ingests that write to them too, and reads at the present and in
//! snapshots.
//!
//! Flushes, compactions, tiers and options of guests are for the steps of all families.

use crate::{
    draw::Draw,
    guest_reads::{LOOKUPS_MAX, Seen},
    guests::{FIFO, GUESTS, NEWEST, TTL},
    keys::value,
    model::{FamilyIndex, Operation, Shared},
    plan::{Form, Planned, plan_sorted, plan_without_merges},
    reads::compare_all,
    run::{Held, Run},
    settings::FamilySettings,
    truth::{Pairs, Truth, collect, compare_pairs},
    violation::{Checked, Violation, must, show},
};
use siltdb::{Read, Snapshot};
use std::collections::BTreeMap;

/// Longest value of the FIFO family, in bytes.
const VALUE_BYTES_MAX: usize = 1500;

impl Run {
    /// Creates the guests.
    pub(crate) fn create_guests(&mut self) -> Checked<()> {
        for (name, index) in GUESTS {
            let added = self.model.add_family(None);
            assert_eq!(added, index, "guests come right after the default family");
            let settings = FamilySettings::new(&mut self.draw);
            self.note(format!("guest {name} (#{}): {settings:?}", index.0));
            let options = self.settings.guests.options(index, settings.options_without_merges());
            let family = must(self.database.db.create_family(name, options), "creating a guest")?;
            self.database.guests.insert(index, family);
        }
        self.times.made_durable();
        Ok(())
    }

    /// Sometimes, adds operations on the guests to a batch or an ingest.
    pub(crate) fn add_guests(&mut self, planned: &mut Planned, now_ms: u64) {
        match planned.form {
            Form::Single => return,
            Form::Ingest => return self.ingest_to_guests(planned, now_ms),
            Form::Batch => {}
        }
        if self.draw.chance(1, 3) {
            planned.operations.extend(self.plan_rows());
        }
        // Where a lost commit and an expired value could not be told apart, nothing expires.
        if self.settings.expiring > 0 && self.draw.chance(1, 3) {
            let (settings, model) = (&self.settings, &self.model);
            let durability = planned.durability;
            let drawn =
                plan_without_merges(settings, model, (TTL, durability, now_ms), &mut self.draw);
            self.report.guests.timed += drawn.len() as u64;
            planned.operations.extend(drawn);
        }
    }

    /// Sometimes, lets an ingest go to guests too, as table files, or to a guest alone, as a
    /// stream.
    fn ingest_to_guests(&mut self, planned: &mut Planned, now_ms: u64) {
        match self.draw.below(6) {
            choice @ 0..3 => {
                if choice == 0 {
                    planned.operations.clear();
                }
                let mut rows: BTreeMap<Shared, (FamilyIndex, Operation)> = BTreeMap::new();
                for (family, operation) in self.plan_rows() {
                    if let Operation::Put { key, .. } | Operation::Delete { key } = &operation {
                        rows.insert(key.clone(), (family, operation));
                    }
                }
                self.report.guests.ingested += rows.len() as u64;
                planned.operations.extend(rows.into_values());
            }
            choice @ 3..5 if self.settings.expiring > 0 => {
                let (settings, model) = (&self.settings, &self.model);
                let mut drawn = plan_sorted(settings, model, (TTL, now_ms), &mut self.draw);
                self.report.guests.ingested += drawn.len() as u64;
                if choice == 3 {
                    planned.operations = drawn;
                    return;
                }
                self.expire_all(&mut drawn, now_ms);
                self.report.guests.timed_in_files += drawn.len() as u64;
                planned.operations.extend(drawn);
            }
            _ => {}
        }
    }

    /// Gives each put an expiry: a table file has those of its own writer, and the family adds
    /// none.
    fn expire_all(&mut self, operations: &mut [(FamilyIndex, Operation)], now_ms: u64) {
        for (_, operation) in operations {
            if let Operation::Put { expiry_ms, .. } = operation {
                expiry_ms.get_or_insert_with(|| now_ms + self.draw.below(3000));
            }
        }
    }

    /// New rows of the FIFO family, whose keys ascend, deletions of old ones, and its newest pair
    /// at the end.
    fn plan_rows(&mut self) -> Vec<(FamilyIndex, Operation)> {
        let number = (self.visible + 1).to_be_bytes();
        let put = |key: &[u8], draw: &mut Draw| {
            let value = [&number[..], &value(draw, VALUE_BYTES_MAX)].concat().into();
            (FIFO, Operation::Put { key: key.into(), value, expiry_ms: None })
        };
        let count = self.draw.within(1..=6) as u8;
        let new = (0..count).map(|index| put(&[&number[..], &[index]].concat(), &mut self.draw));
        let mut operations: Vec<_> = new.collect();
        self.report.guests.rows += u64::from(count);
        let rows: Vec<&Shared> = self.model.keys(FIFO).filter(|key| key[..] != NEWEST).collect();
        if !rows.is_empty() && self.draw.chance(1, 3) {
            let mut row = || rows[self.draw.index(rows.len())].clone();
            let (key, other) = (row(), row());
            operations.push((FIFO, Operation::Delete { key: key.clone() }));
            if self.draw.chance(1, 8) {
                let (start, end) = if key <= other { (key, other) } else { (other, key) };
                operations.push((FIFO, Operation::DeleteRange { start, end }));
            }
        }
        operations.push(put(&NEWEST, &mut self.draw));
        operations
    }

    /// The operations of a commit that is made now. Those of the TTL family have their expiries.
    pub(crate) fn with_expiries(&mut self, planned: &Planned) -> Vec<(FamilyIndex, Operation)> {
        let mut operations = planned.operations.clone();
        if operations.iter().all(|(family, _)| *family != TTL) {
            return operations;
        }
        self.read_clock();
        let ttl_ms = self.settings.guests.ttl.as_millis() as u64;
        let given_ms = self.now().wall_ms + ttl_ms;
        for (family, operation) in &mut operations {
            if let (TTL, Operation::Put { expiry_ms, .. }) = (*family, operation) {
                expiry_ms.get_or_insert(given_ms);
            }
        }
        operations
    }

    /// Compares the guests at the present and at each snapshot held.
    pub(crate) fn read_guests(&mut self) -> Checked<()> {
        let mut draw = self.draw.fork();
        let faults = self.database.fs.faults();
        let mut compared = self.compare_guests_held(&mut draw);
        if self.database.fs.faults() > faults {
            // A call failed meanwhile: nothing wrong may have stayed behind.
            compared = self.compare_guests_held(&mut draw);
        }
        let (seen, first_row) = compared?;
        self.count_guests(seen);
        self.report.guests.snapshots += self.snapshots.len() as u64;
        self.first_row = first_row.or(self.first_row.take());
        Ok(())
    }

    fn compare_guests_held(&self, draw: &mut Draw) -> Checked<(Seen, Option<Shared>)> {
        let seen =
            self.database.compare_guests(self.settings.guests, (&self.model, self.now()), draw)?;
        for held in &self.snapshots {
            self.compare_guests_of(held, draw)
                .map_err(|violation| violation.during("guests in a snapshot"))?;
        }
        let first = must(self.database.guests[&FIFO].first(), "first")?;
        let first = first.map(|(key, _)| Shared::from(&*key)).filter(|key| key[..] != NEWEST);
        match (&first, &self.first_row) {
            (Some(first), Some(before)) if first < before => {
                let (first, before) = (show(first), show(before));
                Err(Violation::new(format!("row {first} came back, {before} was the first")))
            }
            _ => Ok((seen, first)),
        }
    }

    /// The pairs of the FIFO family in a snapshot.
    pub(crate) fn rows_in(&self, snapshot: &Snapshot) -> Checked<Pairs> {
        let family = must(snapshot.family(&self.database.guests[&FIFO]), "a guest")?;
        let faults = self.database.fs.faults();
        match collect(&family) {
            Err(_) if self.database.fs.faults() > faults => collect(&family),
            found => found,
        }
    }

    fn compare_guests_of(&self, held: &Held, draw: &mut Draw) -> Checked<()> {
        let family = |index: FamilyIndex| {
            must(held.snapshot.family(&self.database.guests[&index]), "a guest")
        };
        compare_pairs(&collect(&family(FIFO)?)?, &held.rows)?;
        let truth = Truth { model: &self.model, family: TTL, at: held.at };
        compare_all(&family(TTL)?, truth, draw, LOOKUPS_MAX).map(drop)
    }

    pub(crate) fn count_guests(&mut self, seen: Seen) {
        self.report.reads += seen.reads;
        self.report.guests.left = self.report.guests.left.max(seen.left);
        self.report.guests.expired = self.report.guests.expired.max(seen.expired);
    }
}
