//! The model: the version of each id, and the results that reads must therefore have.
//!
//! It replays plans and never reads an engine.

use crate::{
    job::Work,
    keys::{self, KeyMaker, KeyStyle},
    plan::{Plan, Step, Thread},
    values::{ABSENT, Shape},
};

/// The sum of what was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sum of the contributions of the values and of the keys shown with them, wrapping.
    pub sum: u64,
    /// Number of keys found and entries scanned.
    pub found: u64,
    /// Bytes of values, counted by length.
    pub value_bytes: u64,
}

impl Tally {
    /// Adds a value that was read.
    #[inline]
    pub fn add(&mut self, value: &[u8]) {
        self.sum = self.sum.wrapping_add(crate::values::fold(value));
        self.found += 1;
        self.value_bytes += value.len() as u64;
    }

    /// Adds an entry of which the key was read too.
    #[inline]
    pub fn add_entry(&mut self, key: &[u8], value: &[u8]) {
        self.add(value);
        self.add_key(key);
    }

    /// Adds a key that was read.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        self.sum = self.sum.wrapping_add(keys::fold(key));
    }

    /// Adds a read that found nothing.
    #[inline]
    pub fn miss(&mut self) {
        self.sum = self.sum.wrapping_add(ABSENT);
    }

    /// Adds the expected result of reading an id in a version; 0 stands for an absent one.
    fn expect(&mut self, values: Shape, id: u32, version: u32) {
        if version == 0 {
            return self.miss();
        }
        self.sum = self.sum.wrapping_add(values.fold_of(id, version));
        self.found += 1;
        self.value_bytes += u64::from(values.bytes);
    }

    /// Adds the reads of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.found += other.found;
        self.value_bytes += other.value_bytes;
    }
}

/// The versions of all ids; 0 for an absent one.
#[derive(Clone, Debug)]
pub struct Model {
    threads: u32,
    keys: KeyMaker,
    values: Shape,
    versions: Vec<Vec<u32>>,
}

/// The part of a model that one thread owns.
pub struct Own<'a> {
    threads: u32,
    values: Shape,
    versions: &'a mut Vec<u32>,
}

impl Model {
    /// An empty database for a workload.
    #[must_use]
    pub fn new(work: &Work) -> Self {
        let own = |thread: Thread| vec![0; thread.share(work.ids()) as usize];
        let versions = Thread::all(work.threads).map(own).collect();
        let keys = KeyMaker::new(work.key_style, work.key_bytes);
        Self { threads: work.threads, keys, values: work.values(), versions }
    }

    /// The parts of all threads.
    pub fn parts(&mut self) -> Vec<Own<'_>> {
        let (threads, values) = (self.threads, self.values);
        self.versions.iter_mut().map(|versions| Own { threads, values, versions }).collect()
    }

    /// The version of an id; 0 if it is absent.
    #[must_use]
    pub fn version(&self, id: u32) -> u32 {
        self.versions[(id % self.threads) as usize]
            .get((id / self.threads) as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Sets the version of an id.
    pub fn set(&mut self, id: u32, version: u32) {
        self.versions[(id % self.threads) as usize][(id / self.threads) as usize] = version;
    }

    /// Upper bound of the ids.
    #[must_use]
    pub fn ids(&self) -> u32 {
        self.versions.iter().map(|own| own.len() as u32).sum()
    }

    /// Adds the expected result of reading an id now.
    pub fn get(&self, id: u32, tally: &mut Tally) {
        tally.expect(self.values, id, self.version(id));
    }

    /// The present ids, and their versions, in the order of ids.
    pub fn live(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.ids()).map(|id| (id, self.version(id))).filter(|(_, version)| *version != 0)
    }
}

impl Own<'_> {
    fn version(&mut self, id: u32) -> &mut u32 {
        &mut self.versions[(id / self.threads) as usize]
    }

    /// Replays the first `done` steps of a plan and returns the expected sum of its reads. Ranges
    /// and seeks read `live`.
    pub fn replay(&mut self, plan: &Plan, done: usize, live: &Live) -> Tally {
        let mut tally = Tally::default();
        let mut pending: Vec<(u32, u32)> = Vec::new();
        for (index, &id) in plan.ids[..done].iter().enumerate() {
            match plan.step(index) {
                Step::Put => pending.push((id, plan.version(index))),
                Step::Delete => pending.push((id, 0)),
                Step::Get => tally.expect(self.values, id, self.committed(id)),
                Step::Miss => tally.miss(),
                Step::Seek => live.tally(id, 1, self.values.bytes, &mut tally),
                Step::Range => live.tally(id, plan.range(index), self.values.bytes, &mut tally),
                Step::DeleteRange => {
                    pending.extend((id..id + plan.range(index) as u32).map(|id| (id, 0)));
                }
                Step::Modify => {
                    tally.expect(self.values, id, self.committed(id));
                    pending.push((id, plan.version(index)));
                }
            }
            if pending.len() >= plan.batch as usize {
                self.apply(&mut pending);
            }
        }
        self.apply(&mut pending);
        tally
    }

    /// The version of a thread's own id.
    #[must_use]
    pub fn committed(&mut self, id: u32) -> u32 {
        *self.version(id)
    }

    /// Applies the writes of a commit: id and version.
    pub fn apply(&mut self, pending: &mut Vec<(u32, u32)>) {
        for (id, version) in pending.drain(..) {
            *self.version(id) = version;
        }
    }
}

/// The ids present at a moment, in the order of their keys, with sums up to each.
#[derive(Clone, Debug, Default)]
pub struct Live {
    keys: KeyStyle,
    entries: Vec<(u32, u32)>,
    sums: Vec<u64>,
}

impl Live {
    /// The present contents of a model.
    #[must_use]
    pub fn new(model: &Model) -> Self {
        let mut maker = model.keys.clone();
        let keys = maker.style();
        let mut entries: Vec<(u32, u32)> = model.live().collect();
        if keys == KeyStyle::ReversedCounter {
            entries.sort_unstable_by_key(|(id, _)| keys.rank(*id));
        }
        let mut sums = Vec::with_capacity(entries.len() + 1);
        let mut sum = 0_u64;
        sums.push(sum);
        for (id, version) in &entries {
            let entry = model.values.fold_of(*id, *version);
            sum = sum.wrapping_add(entry).wrapping_add(keys::fold(maker.key(*id)));
            sums.push(sum);
        }
        Self { keys, entries, sums }
    }

    /// The number of present ids.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no id is present.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The position of the first entry whose key is not below that of an id.
    fn position(&self, id: u32) -> usize {
        let rank = self.keys.rank(id);
        self.entries.partition_point(|(live, _)| self.keys.rank(*live) < rank)
    }

    /// Up to `count` ids and versions, from that of an id on.
    #[must_use]
    pub fn from(&self, id: u32, count: u64) -> &[(u32, u32)] {
        let start = self.position(id);
        let end = (start as u64).saturating_add(count).min(self.entries.len() as u64) as usize;
        &self.entries[start..end]
    }

    /// The expected result of reading up to `count` entries from an id on.
    fn tally(&self, id: u32, count: u64, value_bytes: u32, tally: &mut Tally) {
        if self.sums.is_empty() {
            return tally.miss();
        }
        let start = self.position(id);
        let found = self.from(id, count).len();
        if found == 0 {
            return tally.miss();
        }
        let sum = self.sums[start + found].wrapping_sub(self.sums[start]);
        tally.sum = tally.sum.wrapping_add(sum);
        tally.found += found as u64;
        tally.value_bytes += u64::from(value_bytes) * found as u64;
    }

    /// The expected result of reading the entries between two positions.
    #[must_use]
    pub fn between(&self, start: usize, end: usize, value_bytes: u32) -> Tally {
        let found = (end - start) as u64;
        Tally {
            sum: self.sums[end].wrapping_sub(self.sums[start]),
            found,
            value_bytes: found * u64::from(value_bytes),
        }
    }

    /// All ids and versions.
    #[must_use]
    pub fn entries(&self) -> &[(u32, u32)] {
        &self.entries
    }
}

#[cfg(test)]
mod tests;
