//! The bytes of plans, read as `told` describes them.

use super::*;
use crate::{
    expect::Live,
    job::SeedOp,
    trial::{self, OPS, TRANSACTIONS},
};
use std::path::Path;

/// Reads numbers from the front of bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes(&mut self, count: usize) -> &[u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap())
    }

    fn wide(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }

    /// The ids, steps and lengths of a plan, and its head.
    fn plan(&mut self) -> ([u32; 6], Vec<u32>, Vec<u8>, Vec<u32>) {
        let head = [(); 6].map(|()| self.number());
        let ids = (0..head[0]).map(|_| self.number()).collect();
        let steps = self.bytes(head[4] as usize).to_vec();
        let lengths = (0..head[5]).map(|_| self.number()).collect();
        (head, ids, steps, lengths)
    }
}

fn work(op: Op) -> Work {
    let mut work = trial::job(op, Path::new("nowhere")).work;
    let mut gone = trial::job(Op::Get, Path::new("nowhere")).work.seed[0].clone();
    (gone.op, gone.percent) = (SeedOp::Delete, 10);
    work.seed.push(gone);
    work
}

fn written(work: &Work) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(work, &mut bytes).unwrap();
    bytes
}

#[test]
fn every_plan_is_told_as_it_is_drawn() {
    for op in OPS.into_iter().chain(TRANSACTIONS) {
        let work = work(op);
        let drawn = prepare::draw(&work).unwrap();
        let bytes = written(&work);
        let mut told = Reader(&bytes);
        let special = matches!(op, Op::Open | Op::RangeDelete);
        for plan in drawn.seeds.iter().flatten().chain(&drawn.plans) {
            let (head, ids, steps, lengths) = told.plan();
            assert_eq!((head[1], head[2]), (plan.first_version, plan.batch));
            assert_eq!(head[3] == 2, matches!(plan.commit, Commit::Transaction(_)));
            assert!(special || ids == plan.ids, "{op:?}");
            let of = |all: usize, index: usize| if all == 1 { 0 } else { index };
            for index in 0..plan.ids.len() {
                assert_eq!(steps[of(steps.len(), index)], plan.step(index) as u8, "{op:?}");
                let length = u64::from(lengths[of(lengths.len(), index)]);
                assert_eq!(length, plan.range(index), "{op:?}");
            }
        }
        let witness = Witness { entries: told.wide(), sum: told.wide(), samples: told.wide() };
        assert_eq!(witness, Witness::of(&work, &drawn.model));
        assert!(told.0.is_empty());
    }
}

#[test]
fn openings_and_range_deletes_are_told_their_ids() {
    for (op, wanted) in [(Op::Open, vec![3, 0]), (Op::RangeDelete, vec![10, 10])] {
        let work = work(op);
        let bytes = written(&work);
        let mut told = Reader(&bytes);
        let seeds: Vec<_> = (0..4).map(|_| told.plan()).collect();
        assert!(seeds.iter().all(|(head, ..)| head[0] > 0));
        let ids: Vec<_> = (0..2).map(|_| told.plan().1).collect();
        assert_eq!(ids.iter().map(Vec::len).collect::<Vec<_>>(), wanted, "{op:?}");
        match op {
            Op::Open => assert!(special::opened_ids(&work, 3).eq(ids[0].iter().copied())),
            _ => assert!(ids.iter().flatten().all(|id| id % work.run.range == 0)),
        }
    }
}

#[test]
fn a_witness_shows_other_keys_values_and_contents() {
    let seeded = |work: &Work| prepare::draw(work).unwrap().model;
    let usual = work(Op::Get);
    let model = seeded(&usual);
    let live = Live::new(&model);
    let all = live.between(0, live.len(), usual.value_bytes);
    let witness = Witness::of(&usual, &model);
    assert_eq!((witness.entries, witness.sum), (all.found, all.sum));
    let changes: [fn(&mut Work); 4] = [
        |work| work.key_bytes = 17,
        |work| work.value_bytes = 101,
        |work| work.compressible_percent = 51,
        |work| work.seed.truncate(1),
    ];
    for change in changes {
        let mut other = usual.clone();
        change(&mut other);
        assert_ne!(Witness::of(&other, &seeded(&other)), witness, "{other:?}");
    }
}

#[test]
fn a_workload_without_sense_is_not_told() {
    let mut work = work(Op::Put);
    work.threads = 0;
    let mut bytes = Vec::new();
    assert!(write(&work, &mut bytes).unwrap_err().message.contains("makes no sense"));
    assert!(bytes.is_empty());
}
