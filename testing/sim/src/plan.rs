//! The next operations of a run: drawn from the seed, valid for the state of the model.
//!
//! It plans commits within the contracts of the API; `run` carries them out.

use crate::{
    buckets::is_bucket_key,
    draw::Draw,
    keys::{CLOCK_KEY, operand, single_key, value},
    model::{Clock, DEFAULT, FamilyIndex, Model, Operation, Shared},
    settings::Settings,
    watch::Activity,
};
use siltdb::Durability;
use std::collections::{BTreeMap, BTreeSet};

/// A commit to make.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The operations, in order.
    pub operations: Vec<(FamilyIndex, Operation)>,
    /// The API function that makes it.
    pub form: Form,
    /// Its durability class.
    pub durability: Durability,
    /// Whether it writes its number.
    pub clock: Clock,
}

/// The API function that makes a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One operation on a family, by the family's own method, at the default durability.
    Single,
    /// A batch.
    Batch,
    /// A sorted stream into one family, past the log.
    Ingest,
}

impl Form {
    /// The operation of the harness that makes such a commit.
    #[must_use]
    pub fn activity(self) -> Activity {
        match self {
            Self::Single | Self::Batch => Activity::Commit,
            Self::Ingest => Activity::Ingest,
        }
    }
}

/// The most operations of an ingest. Some make several tables.
const INGEST_MAX: u64 = 250;

/// The number of operations of a batch: mostly few, sometimes thousands.
fn batch_len(draw: &mut Draw) -> u64 {
    match draw.below(100) {
        0..60 => draw.within(1..=6),
        60..95 => draw.within(5..=40),
        95..99 => draw.within(40..=300),
        _ => draw.within(1000..=3000),
    }
}

/// Draws a commit on some of `families`; `number` is its future number.
#[must_use]
pub fn plan(
    settings: &Settings,
    model: &Model,
    families: &[FamilyIndex],
    now_ms: u64,
    number: u64,
    draw: &mut Draw,
) -> Planned {
    let single = draw.chance(3, 10);
    let met = BTreeSet::new();
    let mut planner = Planner { settings, model, now_ms, durability: Durability::Buffered, met };
    if draw.chance(1, 25) {
        let mut chosen = BTreeSet::from([draw.pick(families)]);
        if draw.chance(1, 2) {
            chosen.extend([draw.pick(families), draw.pick(families)]);
        }
        let operations = chosen.into_iter().flat_map(|family| planner.ingest(family, draw));
        let operations = operations.collect();
        let (form, durability) = (Form::Ingest, Durability::Synced);
        return Planned { operations, form, durability, clock: Clock::Silent };
    }
    if single {
        let family = draw.pick(families);
        let operation = match planner.clear(family, draw) {
            Some(clear) => clear,
            None => planner.single(draw),
        };
        let durability = Durability::Buffered;
        let operations = vec![(family, operation)];
        return Planned { operations, form: Form::Single, durability, clock: Clock::Silent };
    }
    let durability = draw.pick(&settings.durabilities);
    planner.durability = durability;
    let mut operations = match draw.below(50) {
        0 => planner.sweep(draw.pick(families), draw),
        1..6 => planner.tally(draw.pick(families), draw),
        _ => Vec::new(),
    };
    let len = batch_len(draw);
    let few = (len > 300).then_some(100);
    for _ in 0..len {
        let family = draw.pick(families);
        let operation = planner.operation(family, few, draw);
        operations.push((family, operation));
    }
    let clock = if draw.chance(4, 5) { Clock::Written } else { Clock::Silent };
    if clock == Clock::Written {
        let (key, value) = (Shared::from(CLOCK_KEY), Shared::from(number.to_le_bytes()));
        operations.push((DEFAULT, Operation::Put { key, value, expiry_ms: None }));
    }
    Planned { operations, form: Form::Batch, durability, clock }
}

/// Draws a few operations on a family without a merge operator, which are to be in a batch of this
/// durability, at about this time in ms.
#[must_use]
pub fn plan_without_merges(
    settings: &Settings,
    model: &Model,
    (family, durability, now_ms): (FamilyIndex, Durability, u64),
    draw: &mut Draw,
) -> Vec<(FamilyIndex, Operation)> {
    let mut planner = Planner { settings, model, now_ms, durability, met: BTreeSet::new() };
    let len = draw.within(1..=6);
    let planned = (0..len).map(|_| match planner.operation(family, None, draw) {
        Operation::Merge { key, operand } => {
            Operation::Put { key, value: operand, expiry_ms: None }
        }
        other => other,
    });
    planned.map(|operation| (family, operation)).collect()
}

/// Draws puts and deletions in one family, in the order of their keys, each key once.
#[must_use]
pub fn plan_sorted(
    settings: &Settings,
    model: &Model,
    (family, now_ms): (FamilyIndex, u64),
    draw: &mut Draw,
) -> Vec<(FamilyIndex, Operation)> {
    let (durability, met) = (Durability::Synced, BTreeSet::new());
    Planner { settings, model, now_ms, durability, met }.ingest(family, draw)
}

struct Planner<'a> {
    settings: &'a Settings,
    model: &'a Model,
    now_ms: u64,
    durability: Durability,
    /// Keys of single deletions that the commit has touched; the model does not contain them yet.
    met: BTreeSet<(FamilyIndex, Shared)>,
}

impl Planner<'_> {
    fn key(&self, draw: &mut Draw) -> Shared {
        self.settings.key_shape.key(draw.below(self.settings.key_count))
    }

    /// The expiry of a put; most have none.
    fn expiry_ms(&self, draw: &mut Draw) -> Option<u64> {
        let expires = draw.chance(self.settings.expiring, 10);
        expires.then(|| (self.now_ms + draw.below(3000)).max(1))
    }

    /// A unique value, so that each commit leaves a trace.
    fn single(&self, draw: &mut Draw) -> Operation {
        let key = self.key(draw);
        match draw.below(20) {
            0..14 => {
                let mut bytes = draw.bytes(9);
                bytes.extend_from_slice(&value(draw, self.settings.value_bytes_max));
                Operation::Put { key, value: bytes.into(), expiry_ms: None }
            }
            14..19 => Operation::Delete { key },
            _ => self.delete_range(draw),
        }
    }

    /// Puts and deletions in one family, in the order of their keys, each key once.
    fn ingest(&self, family: FamilyIndex, draw: &mut Draw) -> Vec<(FamilyIndex, Operation)> {
        let mut operations = BTreeMap::new();
        let count = match draw.below(4) {
            0 => draw.within(20..=INGEST_MAX),
            _ => draw.within(1..=20),
        };
        for _ in 0..count {
            let key = self.key(draw);
            let operation = if draw.chance(1, 6) {
                Operation::Delete { key: key.clone() }
            } else {
                // As in `single`: each ingest leaves a trace.
                let mut bytes = draw.bytes(9);
                bytes.extend_from_slice(&value(draw, self.settings.value_bytes_max.min(500)));
                let expiry_ms = self.expiry_ms(draw);
                Operation::Put { key: key.clone(), value: bytes.into(), expiry_ms }
            };
            operations.insert(key, (family, operation));
        }
        operations.into_values().collect()
    }

    /// Sometimes, the deletion of all keys by an unbounded range. The family must hold no key that
    /// is reserved for single deletion.
    fn clear(&self, family: FamilyIndex, draw: &mut Draw) -> Option<Operation> {
        let is_free = || !self.model.keys(family).any(|key| key.first() == Some(&0xff));
        let is_due = draw.chance(1, 60) && family != DEFAULT && is_free();
        is_due.then(|| Operation::DeletePrefix { prefix: Shared::from(&b""[..]) })
    }

    /// Point deletions of adjacent keys, which readers have to skip.
    fn sweep(&self, family: FamilyIndex, draw: &mut Draw) -> Vec<(FamilyIndex, Operation)> {
        let (start, count) = (self.key(draw), draw.within(50..=200) as usize);
        let is_free = |key: &Shared| key.first() != Some(&0xff) && !is_bucket_key(key);
        let is_swept = |key: &&Shared| **key >= start && is_free(key);
        let keys = self.model.keys(family).filter(is_swept);
        keys.take(count).map(|key| (family, Operation::Delete { key: key.clone() })).collect()
    }

    /// Many operands on one key, whose fold readers keep.
    fn tally(&self, family: FamilyIndex, draw: &mut Draw) -> Vec<(FamilyIndex, Operation)> {
        let key = self.key(draw);
        let merge = |draw: &mut Draw| Operation::Merge { key: key.clone(), operand: operand(draw) };
        (0..draw.within(2..=40)).map(|_| (family, merge(draw))).collect()
    }

    fn delete_range(&self, draw: &mut Draw) -> Operation {
        let key = self.key(draw);
        if !key.is_empty() && draw.chance(1, 4) {
            // The keys of single deletions and the clock key begin with another byte.
            let prefix = key[..1 + draw.index(key.len())].into();
            return Operation::DeletePrefix { prefix };
        }
        let (mut start, mut end) = (key, self.key(draw));
        if start > end && draw.chance(9, 10) {
            std::mem::swap(&mut start, &mut end);
        }
        Operation::DeleteRange { start, end }
    }

    /// One operation of a batch. Values are at most `value_bytes_max` bytes long, if that is given.
    fn operation(
        &mut self,
        family: FamilyIndex,
        value_bytes_max: Option<usize>,
        draw: &mut Draw,
    ) -> Operation {
        let key = self.key(draw);
        match draw.below(100) {
            0..60 => {
                let bytes_max = value_bytes_max.unwrap_or(self.settings.value_bytes_max);
                let value = value(draw, bytes_max);
                Operation::Put { key, value, expiry_ms: self.expiry_ms(draw) }
            }
            60..70 => Operation::Delete { key },
            70..80 => self.single_delete(family, value_bytes_max, draw),
            80..84 => self.delete_range(draw),
            _ => Operation::Merge { key, operand: operand(draw) },
        }
    }

    /// A put, or the single deletion of that put. A third operation on the key would break the
    /// contract. Neither may be volatile, because a crash could take one and leave the other.
    fn single_delete(
        &mut self,
        family: FamilyIndex,
        value_bytes_max: Option<usize>,
        draw: &mut Draw,
    ) -> Operation {
        let key = single_key(draw.next() as u8);
        if self.durability == Durability::Volatile || !self.met.insert((family, key.clone())) {
            return Operation::Delete { key: self.key(draw) };
        }
        if self.model.was_put_once(family, &key) {
            return Operation::SingleDelete { key };
        }
        let bytes_max = value_bytes_max.unwrap_or(self.settings.value_bytes_max);
        Operation::Put { key, value: value(draw, bytes_max), expiry_ms: None }
    }
}
