//! The plan of a job as bytes, for workers that draw none: it follows the request on their input.
//!
//! So a worker in another language has no copy of the orders and of what each operation is made of.
//! All numbers are little-endian.
//!
//! Each seed phase in turn and then the measured phase have, for each thread:
//!
//! `| ids | first version | batch | commit | steps | lengths, u32 each | ids, u32 each
//! | steps, u8 each | lengths, u32 each |`
//!
//! The first, fifth and sixth number count what follows: one step or length is that of all
//! operations. Range deletes have the first id of each range, openings the id that is read after
//! each, on the first thread. A [`Witness`] ends the bytes: the worker compares it with its own
//! before any clock starts.

use crate::{
    engine::Result,
    expect::Model,
    job::{Op, Work},
    keys::{self, KeyMaker, splitmix64},
    pass::{
        prepare::{self, Drawn},
        special,
    },
    plan::{Commit, Length, Plan, Steps, Thread},
    values::ValueMaker,
};
use std::io::{BufWriter, Write};

/// The ids whose keys and values are sampled.
const SAMPLED_IDS: [u32; 4] = [0, 77, 1_000_000, u32::MAX];
/// The versions of sampled values.
const SAMPLED_VERSIONS: [u32; 3] = [1, 2, u32::MAX];

/// What both sides must make of a job: other bytes of keys or values, or another replay of the seed
/// would make another workload of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Entries that the seed leaves.
    pub entries: u64,
    /// The sum of reading each of them with its key.
    pub sum: u64,
    /// The digest of each byte of sampled keys, of missing ones beside them, and of their values.
    pub samples: u64,
}

impl Witness {
    /// The witness of a job whose seed leaves these contents.
    #[must_use]
    pub fn of(work: &Work, seeded: &Model) -> Self {
        let mut made = KeyMaker::new(work.key_style, work.key_bytes);
        let (mut entries, mut sum) = (0, 0_u64);
        for (id, version) in seeded.live() {
            let value = work.values().fold_of(id, version);
            sum = sum.wrapping_add(value).wrapping_add(keys::fold(made.key(id)));
            entries += 1;
        }
        Self { entries, sum, samples: samples(work, made) }
    }
}

fn samples(work: &Work, mut made: KeyMaker) -> u64 {
    let mut values = ValueMaker::new(work.values());
    let mut digest = 0;
    for id in SAMPLED_IDS {
        add(&mut digest, made.key(id));
        add(&mut digest, made.missing(id));
        for version in SAMPLED_VERSIONS {
            add(&mut digest, values.value(id, version));
        }
    }
    digest
}

fn add(digest: &mut u64, bytes: &[u8]) {
    *digest = bytes.iter().fold(*digest, |digest, byte| splitmix64(digest ^ u64::from(*byte)));
}

/// Draws the plan of a job and writes it.
///
/// # Errors
/// If the workload is invalid; errors of the system.
pub fn write(work: &Work, out: impl Write) -> Result<()> {
    let Drawn { seeds, plans, model } = prepare::draw(work)?;
    let mut out = BufWriter::new(out);
    for plan in seeds.into_iter().flatten() {
        write_plan(&mut out, &plan)?;
    }
    for (thread, mut plan) in Thread::all(work.threads).zip(plans) {
        match work.run.op {
            Op::RangeDelete => plan.ids = special::range_starts(work, thread),
            Op::Open if thread.index == 0 => {
                plan.ids = special::opened_ids(work, work.run.ops).collect();
            }
            _ => {}
        }
        write_plan(&mut out, &plan)?;
    }
    let Witness { entries, sum, samples } = Witness::of(work, &model);
    for number in [entries, sum, samples] {
        out.write_all(&number.to_le_bytes())?;
    }
    Ok(out.flush()?)
}

fn write_plan(out: &mut impl Write, plan: &Plan) -> Result<()> {
    let commit = match plan.commit {
        Commit::Batch => 0,
        Commit::Ingest => 1,
        Commit::Transaction(_) => 2,
    };
    let steps: Vec<u8> = match &plan.steps {
        Steps::All(step) => vec![*step as u8],
        Steps::Each(steps) => steps.iter().map(|step| *step as u8).collect(),
    };
    let lengths: Vec<u32> = match plan.length {
        Length::Fixed(length) => vec![length],
        Length::UpTo(_) => (0..plan.ids.len()).map(|index| plan.range(index) as u32).collect(),
    };
    let count = |length: usize| length as u32;
    let (ids, kinds) = (count(plan.ids.len()), count(steps.len()));
    let head = [ids, plan.first_version, plan.batch, commit, kinds, count(lengths.len())];
    write_numbers(out, &head)?;
    write_numbers(out, &plan.ids)?;
    out.write_all(&steps)?;
    write_numbers(out, &lengths)
}

fn write_numbers(out: &mut impl Write, numbers: &[u32]) -> Result<()> {
    for number in numbers {
        out.write_all(&number.to_le_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
