//! Steps on single keys of a family: swap, update, touch, take, pop, and ids.
//!
//! Each makes one commit, or none if it writes nothing.

use crate::{
    buckets::is_bucket_key,
    keys::value,
    model::{Clock, DEFAULT, FamilyIndex, Operation, Shared},
    plan::{Form, Planned},
    reads::compare_get,
    run::Run,
    truth::Truth,
    violation::{Checked, Violation, show_option},
};
use siltdb::{Durability, Family, Slice, Swap, WriteOptions};
use std::time::Duration;

/// Keys of counters: no deletion of a range reaches them.
const COUNTERS: [&[u8]; 2] = [b"\xff\xf0", b"\xff\xf1"];

/// Ids that a counter reserves at a time.
const BLOCK_IDS: u64 = 4096;

/// Longest value that a step puts, in bytes.
const VALUE_BYTES_MAX: usize = 1000;

/// A step on one key.
#[derive(Clone, Debug)]
enum KeyStep {
    Swap { expected: Option<Shared>, new: Option<Shared> },
    PutIfAbsent(Shared),
    FetchAndUpdate(Option<Shared>),
    UpdateAndFetch(Option<Shared>),
    Touch,
    Take,
    PopFirst,
    PopLast,
}

/// The answer of a step: whether it swapped, and the value that it returns.
type Answer = (bool, Option<Shared>);

impl Run {
    /// Does a step on a key of a family, or takes ids.
    pub(crate) fn step_on_key(&mut self) -> Checked<()> {
        if self.visible > self.model.acknowledged() {
            // Readers see the commit in doubt: the database is poisoned, and takes no other.
            return self.read();
        }
        if self.draw.chance(1, 4) {
            let key = Shared::from(self.draw.pick(&COUNTERS));
            for _ in 0..self.draw.within(1..=4) {
                self.take_id(&key)?;
            }
            return Ok(());
        }
        self.read_clock();
        let indexes: Vec<_> = self.database.families.keys().copied().collect();
        let family = self.draw.pick(&indexes);
        let key = self.draw_key(family);
        let Some((key, step)) = self.draw_key_step(family, key) else { return self.read() };
        let current = self.model.value(family, &key, self.now());
        let (answer, new) = answer_of(&step, current.as_ref());
        let ttl = self.draw_ttl();
        let expiry_ms =
            self.expiry_after(&step, ttl, self.model.expiry_ms(family, &key, self.now()));
        let operation = new.map(|new| match new {
            Some(value) => Operation::Put { key: key.clone(), value, expiry_ms },
            None => Operation::Delete { key: key.clone() },
        });
        let operations: Vec<_> = operation.into_iter().map(|one| (family, one)).collect();
        if self.is_locked(&operations) {
            // Such a call waits longer than a run can.
            self.end_lockers();
        }
        self.note(format!("{} of #{}: {step:?}, ttl {ttl:?}", key.escape_ascii(), family.0));
        let (form, durability) = (Form::Batch, Durability::Buffered);
        let planned = Planned { operations, form, durability, clock: Clock::Silent };
        let handle = self.database.families[&family].clone();
        let done = self.commit_planned(&planned, |_| carry_out(&handle, &key, (&step, ttl)))?;
        let Some(found) = done else { return Ok(()) };
        if found != answer {
            let [found, expected] =
                [&found, &answer].map(|of| format!("{} {}", of.0, show_option(of.1.as_deref())));
            let message = format!("{step:?} answered {found}, expected {expected}");
            return Err(Violation::new(message));
        }
        self.count_step(&step, &found, !planned.operations.is_empty());
        let truth = Truth { model: &self.model, family, at: self.now() };
        let faults = self.database.fs.faults();
        match compare_get(&handle, truth, &key) {
            // A call failed meanwhile.
            Err(_) if self.database.fs.faults() > faults => Ok(()),
            compared => compared,
        }
    }

    /// Any key, or one whose value expires.
    fn draw_key(&mut self, family: FamilyIndex) -> Shared {
        let key = self.settings.key_shape.key(self.draw.below(self.settings.key_count));
        if self.settings.expiring == 0 || self.draw.chance(1, 2) {
            return key;
        }
        let (model, now) = (&self.model, self.now());
        let is_free = |key: &&Shared| key.first() != Some(&0xff) && !is_bucket_key(key);
        let expires = |key: &&Shared| model.expiry_ms(family, key, now).is_some();
        let expiring: Vec<_> = model.keys(family).filter(is_free).filter(expires).collect();
        if expiring.is_empty() { key } else { expiring[self.draw.index(expiring.len())].clone() }
    }

    /// How long what a step puts lasts, if the step says so.
    fn draw_ttl(&mut self) -> Option<Duration> {
        let expires = self.draw.chance(self.settings.expiring, 20);
        expires.then(|| Duration::from_millis(self.draw.below(3000)))
    }

    /// The expiry of what a step puts in the place of a value that has `kept_ms`.
    fn expiry_after(
        &self,
        step: &KeyStep,
        ttl: Option<Duration>,
        kept_ms: Option<u64>,
    ) -> Option<u64> {
        match (ttl, step) {
            (Some(ttl), _) => Some(self.now().wall_ms + ttl.as_millis() as u64),
            (None, KeyStep::Touch) => None,
            (None, _) => kept_ms,
        }
    }

    /// Draws a step, and the key that it will find.
    fn draw_key_step(&mut self, family: FamilyIndex, key: Shared) -> Option<(Shared, KeyStep)> {
        let current = self.model.value(family, &key, self.now());
        let new = value(&mut self.draw, VALUE_BYTES_MAX);
        let new_or_none = Some(new.clone()).filter(|_| self.draw.chance(3, 4));
        Some(match self.draw.below(14) {
            0..3 => {
                let expected = if self.draw.chance(2, 3) { current } else { new_or_none.clone() };
                (key, KeyStep::Swap { expected, new: new_or_none })
            }
            3..5 => (key, KeyStep::PutIfAbsent(new)),
            5..7 => (key, KeyStep::FetchAndUpdate(new_or_none)),
            7..9 => (key, KeyStep::UpdateAndFetch(new_or_none)),
            9 | 10 => (key, KeyStep::Take),
            11 | 12 => (key, KeyStep::Touch),
            _ => {
                let pairs = self.model.pairs(family, self.now());
                let (pair, step) = match self.draw.chance(1, 2) {
                    true => (pairs.first(), KeyStep::PopFirst),
                    false => (pairs.last(), KeyStep::PopLast),
                };
                // Keys of counters, buckets and single deletions have contracts of their own.
                let is_free = |key: &Shared| key.first() != Some(&0xff) && !is_bucket_key(key);
                (pair.map(|(key, _)| key.clone()).filter(is_free)?, step)
            }
        })
    }

    fn count_step(&mut self, step: &KeyStep, found: &Answer, has_written: bool) {
        let counts = &mut self.report.single_keys;
        match step {
            KeyStep::Swap { .. } if found.0 => counts.swapped += 1,
            KeyStep::Swap { .. } => counts.differed += 1,
            KeyStep::PutIfAbsent(_) => counts.inserted += u64::from(has_written),
            KeyStep::FetchAndUpdate(_) | KeyStep::UpdateAndFetch(_) => counts.updated += 1,
            KeyStep::Touch => counts.touched += u64::from(has_written),
            KeyStep::Take => counts.taken += u64::from(has_written),
            KeyStep::PopFirst | KeyStep::PopLast => counts.popped += 1,
        }
    }

    /// Takes the next id of a counter of the default family.
    fn take_id(&mut self, key: &Shared) -> Checked<()> {
        if self.poisoned || !self.database.families.contains_key(&DEFAULT) {
            return Ok(());
        }
        let counter = self.ids.entry(key.clone()).or_default().clone();
        let mut block = counter.block.clone();
        let mut operations = Vec::new();
        if block.is_empty() {
            let stored = self.model.value(DEFAULT, key, self.now());
            let stored = stored.and_then(|value| value.first_chunk().copied());
            let start = stored.map_or(1, u64::from_be_bytes).max(block.end);
            block = start..start + BLOCK_IDS;
            let (key, value) = (key.clone(), Shared::from(block.end.to_be_bytes()));
            operations.push((DEFAULT, Operation::Put { key, value, expiry_ms: None }));
        }
        if self.is_locked(&operations) {
            self.end_lockers();
        }
        let (form, durability) = (Form::Batch, Durability::Synced);
        let planned = Planned { operations, form, durability, clock: Clock::Silent };
        let handle = self.database.families[&DEFAULT].clone();
        let Some(id) = self.commit_planned(&planned, |_| handle.next_id(key))? else {
            return Ok(());
        };
        self.note(format!("id {id} of {}", key.escape_ascii()));
        // The counter is never deleted, so ids ascend also across crashes.
        if id != block.start || id <= counter.given {
            let message = format!("id {id} after {}, expected {}", counter.given, block.start);
            return Err(Violation::new(message));
        }
        block.start += 1;
        let is_first = counter.is_reopened && counter.given > 0;
        self.report.single_keys.ids += 1;
        self.report.single_keys.ids_after_opening += u64::from(is_first);
        let counter = self.ids.entry(key.clone()).or_default();
        (counter.given, counter.block, counter.is_reopened) = (id, block, false);
        Ok(())
    }
}

/// The answer of a step on a key with this value, and its write, if it makes one: a value or a
/// deletion.
fn answer_of(step: &KeyStep, current: Option<&Shared>) -> (Answer, Option<Option<Shared>>) {
    let current = current.cloned();
    match step {
        KeyStep::Swap { expected, new } if *expected == current => {
            ((true, None), Some(new.clone()))
        }
        KeyStep::Swap { .. } => ((false, current), None),
        KeyStep::PutIfAbsent(new) => {
            let written = current.is_none().then(|| Some(new.clone()));
            ((false, current), written)
        }
        KeyStep::FetchAndUpdate(new) => ((false, current), Some(new.clone())),
        KeyStep::UpdateAndFetch(new) => ((false, new.clone()), Some(new.clone())),
        KeyStep::Touch => ((current.is_some(), None), current.map(Some)),
        KeyStep::Take | KeyStep::PopFirst | KeyStep::PopLast => {
            let written = current.is_some().then_some(None);
            ((false, current), written)
        }
    }
}

fn carry_out(
    family: &Family,
    key: &Shared,
    (step, ttl): (&KeyStep, Option<Duration>),
) -> siltdb::Result<Answer> {
    let options = ttl.map_or_else(WriteOptions::new, |ttl| WriteOptions::new().ttl(ttl));
    let options = &options;
    let shared = |value: Option<Slice>| value.map(|value| Shared::from(&*value));
    let new_of = |new: &Option<Shared>| new.clone();
    Ok(match step {
        KeyStep::Swap { expected, new } => {
            let (expected, new) = (expected.as_deref(), new.as_deref());
            match family.compare_and_swap_with(key, expected, new, options)? {
                Swap::Swapped => (true, None),
                Swap::Differs(current) => (false, shared(current)),
            }
        }
        KeyStep::PutIfAbsent(new) => (false, shared(family.put_if_absent_with(key, new, options)?)),
        KeyStep::FetchAndUpdate(new) => {
            (false, shared(family.fetch_and_update_with(key, |_| new_of(new), options)?))
        }
        KeyStep::UpdateAndFetch(new) => {
            (false, family.update_and_fetch_with(key, |_| new_of(new), options)?)
        }
        KeyStep::Touch => (family.touch_with(key, options)?, None),
        KeyStep::Take => (false, shared(family.take(key)?)),
        KeyStep::PopFirst | KeyStep::PopLast => {
            let pair = match step {
                KeyStep::PopFirst => family.pop_first()?,
                _ => family.pop_last()?,
            };
            let of_key = pair.filter(|(popped, _)| **popped == **key);
            (false, shared(of_key.map(|(_, value)| value)))
        }
    })
}
