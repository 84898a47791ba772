//! The operations of each thread, step by step, drawn before any clock starts.
//!
//! A thread writes and gets only ids of its own (t modulo T), so that replaying its plan alone
//! gives the version of every value. Ranges, seeks and scans read ids that no thread writes
//! meanwhile. This file does not use an engine.

use crate::{
    engine::Isolation,
    job::{Op, Run, Seed, SeedOp, Work},
    keys::splitmix64,
    order::{Order, Zipf, draw, uniform},
};

/// The longest range of YCSB E.
pub const YCSB_RANGE_MAX: u32 = 100;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sets a value.
    Put,
    /// Deletes a key.
    Delete,
    /// Reads a key.
    Get,
    /// Reads an absent key.
    Miss,
    /// Seeks a key.
    Seek,
    /// Reads entries from a key.
    Range,
    /// Reads a key and sets its value.
    Modify,
    /// Deletes the ids of a range in one operation.
    DeleteRange,
}

/// The kinds of operations of a plan.
#[derive(Clone, Debug)]
pub enum Steps {
    /// All of the same kind.
    All(Step),
    /// A kind for each operation.
    Each(Vec<Step>),
}

/// How a batch of writes is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commit {
    /// As a batch of the engine.
    #[default]
    Batch,
    /// As a bulk load.
    Ingest,
    /// In a transaction of this level.
    Transaction(Isolation),
}

/// The lengths of ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// All of the same length.
    Fixed(u32),
    /// From 1 to this.
    UpTo(u32),
}

/// The operations of one thread in one phase.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The ids, one for each operation.
    pub ids: Vec<u32>,
    /// The operations on them.
    pub steps: Steps,
    /// The lengths of ranges.
    pub length: Length,
    /// Writes of a commit.
    pub batch: u32,
    /// How they are committed.
    pub commit: Commit,
    /// The version that the first operation writes; each later one is higher by one.
    pub first_version: u32,
}

impl Plan {
    /// The operation at an index.
    #[inline]
    #[must_use]
    pub fn step(&self, index: usize) -> Step {
        match &self.steps {
            Steps::All(step) => *step,
            Steps::Each(steps) => steps[index],
        }
    }

    /// The version that the operation at an index writes.
    #[inline]
    #[must_use]
    pub fn version(&self, index: usize) -> u32 {
        self.first_version + index as u32
    }

    /// Entries that the range at an index reads at most.
    #[inline]
    #[must_use]
    pub fn range(&self, index: usize) -> u64 {
        match self.length {
            Length::Fixed(count) => u64::from(count),
            Length::UpTo(most) => 1 + splitmix64(index as u64) % u64::from(most),
        }
    }

    /// Removes all operations but the first `done`.
    pub fn truncate(&mut self, done: usize) {
        self.ids.truncate(done);
        if let Steps::Each(steps) = &mut self.steps {
            steps.truncate(done);
        }
    }

    /// The same operations again, with later versions.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { first_version: self.next_version(), ..self.clone() }
    }

    /// Number of puts and number of deletes.
    #[must_use]
    pub fn writes(&self) -> (u64, u64) {
        let count = |wanted: &[Step]| match &self.steps {
            Steps::All(step) if wanted.contains(step) => self.ids.len() as u64,
            Steps::All(_) => 0,
            Steps::Each(steps) => steps.iter().filter(|step| wanted.contains(step)).count() as u64,
        };
        (count(&[Step::Put, Step::Modify]), count(&[Step::Delete, Step::DeleteRange]))
    }

    /// The first version of the phase after this one.
    #[must_use]
    pub fn next_version(&self) -> u32 {
        self.first_version + self.ids.len() as u32
    }
}

/// One of several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its index, from 0.
    pub index: u32,
    /// The number of threads.
    pub count: u32,
}

impl Thread {
    /// All threads.
    pub fn all(count: u32) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count })
    }

    /// Number of its own ids below `ids`.
    #[must_use]
    pub fn share(self, ids: u64) -> u64 {
        (ids + u64::from(self.count) - 1 - u64::from(self.index)) / u64::from(self.count)
    }

    /// Its own id at an index.
    #[must_use]
    pub fn id(self, own: u32) -> u32 {
        own * self.count + self.index
    }
}

/// A seed phase of one thread.
#[must_use]
pub fn seed(work: &Work, seed: &Seed, thread: Thread, first_version: u32) -> Plan {
    let own = thread.share(u64::from(work.keys));
    let count = own * u64::from(seed.percent) / 100;
    let salt = u64::from(thread.index) ^ 0x5eed;
    let drawn = || own_ids(thread, draw(seed.order, own as u32, count, salt));
    let (step, ids, length) = match seed.op {
        SeedOp::Put => (Step::Put, drawn(), 1),
        SeedOp::Delete => (Step::Delete, drawn(), 1),
        // There is one thread.
        SeedOp::DeleteRange => (Step::DeleteRange, vec![0], count as u32),
    };
    Plan {
        ids,
        steps: Steps::All(step),
        length: Length::Fixed(length),
        batch: seed.batch,
        commit: Commit::Batch,
        first_version,
    }
}

/// The measured phase of one thread, for operations that are made of steps.
#[must_use]
pub fn run(work: &Work, thread: Thread, first_version: u32) -> Plan {
    let run = &work.run;
    let count = thread.share(run.ops);
    let salt = u64::from(thread.index) ^ 0x00d0_17e5;
    let steps = steps(run, count, salt);
    let ids = match run.op {
        Op::YcsbD | Op::YcsbE | Op::MixedInsert => inserting(work, thread, &steps, salt),
        // A deleted key is not deleted again.
        Op::Delete => {
            let own = thread.share(u64::from(work.keys));
            own_ids(thread, draw(run.order, own as u32, count.min(own), salt))
        }
        Op::Scan
        | Op::ScanReverse
        | Op::Iterate
        | Op::Queue
        | Op::RangeDelete
        | Op::Open
        | Op::Compact
        | Op::Increment
        | Op::RangeIncrement
        | Op::Transfer
        | Op::InsertAbsent => Vec::new(),
        Op::Seek | Op::Range => draw(run.order, work.keys, count, salt),
        _ => {
            let own = thread.share(u64::from(work.keys));
            own_ids(thread, draw(run.order, own as u32, count, salt))
        }
    };
    let length = match run.op {
        Op::YcsbE => Length::UpTo(YCSB_RANGE_MAX),
        _ => Length::Fixed(run.range),
    };
    let commit = match run.op {
        Op::TransactionPut => Commit::Transaction(run.isolation),
        Op::Ingest => Commit::Ingest,
        _ => Commit::Batch,
    };
    Plan { ids, steps, length, batch: run.batch, commit, first_version }
}

fn own_ids(thread: Thread, mut own: Vec<u32>) -> Vec<u32> {
    own.iter_mut().for_each(|index| *index = thread.id(*index));
    own
}

/// Interleaved as the workload says, from a random stream of their own.
fn steps(run: &Run, count: u64, salt: u64) -> Steps {
    let (first, percent, second) = match run.op {
        Op::Put | Op::Ingest | Op::TransactionPut => return Steps::All(Step::Put),
        Op::Delete => return Steps::All(Step::Delete),
        Op::Get | Op::YcsbC => return Steps::All(Step::Get),
        Op::GetMiss => return Steps::All(Step::Miss),
        Op::Seek => return Steps::All(Step::Seek),
        Op::Range => return Steps::All(Step::Range),
        Op::Mixed | Op::MixedInsert => (Step::Get, run.reads_percent, Step::Put),
        Op::PutDelete => (Step::Delete, 50, Step::Put),
        Op::YcsbA => (Step::Get, 50, Step::Put),
        Op::YcsbB | Op::YcsbD => (Step::Get, 95, Step::Put),
        Op::YcsbE => (Step::Range, 95, Step::Put),
        Op::YcsbF => (Step::Get, 50, Step::Modify),
        Op::Scan
        | Op::ScanReverse
        | Op::Iterate
        | Op::Queue
        | Op::RangeDelete
        | Op::Open
        | Op::Compact
        | Op::Increment
        | Op::RangeIncrement
        | Op::Transfer
        | Op::InsertAbsent => {
            return Steps::Each(Vec::new());
        }
    };
    let share = f64::from(percent) / 100.0;
    let stream = salt ^ (1 << 32);
    let step = |i| if uniform(stream, i) < share { first } else { second };
    Steps::Each((0..count).map(step).collect())
}

/// Puts take new ids. Gets read any present id, in YCSB D mostly the latest. Ranges stay within the
/// seeded ids.
fn inserting(work: &Work, thread: Thread, steps: &Steps, salt: u64) -> Vec<u32> {
    let Steps::Each(steps) = steps else { return Vec::new() };
    let own = thread.share(u64::from(work.keys)) as u32;
    let range_starts = work.keys.saturating_sub(YCSB_RANGE_MAX).max(1);
    let latest = Zipf::new(own.max(1));
    let ranges = draw(Order::Zipfian, range_starts, steps.len() as u64, salt);
    let mut next = own;
    let mut id = |(index, step): (usize, &Step)| match step {
        Step::Range => ranges[index],
        Step::Put => {
            next += 1;
            thread.id(next - 1)
        }
        _ => {
            let number = uniform(salt, index as u64);
            let back = match work.run.op {
                Op::YcsbD => latest.rank(number),
                _ => (number * f64::from(next)) as u32,
            };
            thread.id(next - 1 - back.min(next - 1))
        }
    };
    steps.iter().enumerate().map(&mut id).collect()
}

#[cfg(test)]
mod tests;
