//! Tests of plans: the ids of each thread, and the composition of workloads.

use super::{Step, Thread, run, seed};
use crate::{
    engine::Isolation,
    job::{Op, Run, Seed, SeedOp, State, Waits, Work},
    keys::KeyStyle,
    order::Order,
    values::ValueStyle,
};

fn work(op: Op, order: Order, ops: u64) -> Work {
    let run = Run {
        op,
        order,
        ops,
        batch: 1,
        reads_percent: 30,
        range: 10,
        open_loop_percent: 0,
        open_loop_per_s: 0,
        waits: Waits::default(),
        isolation: Isolation::Serializable,
        held: 0,
    };
    Work {
        keys: 1001,
        key_style: KeyStyle::Sparse,
        key_bytes: 16,
        value_style: ValueStyle::Marked,
        value_bytes: 100,
        compressible_percent: 50,
        threads: 3,
        seed: Vec::new(),
        state: State::AsIs,
        warm_up: false,
        run,
    }
}

#[test]
fn threads_own_disjoint_ids_that_make_up_all() {
    let phase = Seed { op: SeedOp::Put, order: Order::Random, percent: 100, batch: 10 };
    let work = work(Op::Put, Order::Random, 1001);
    let mut all = Vec::new();
    for thread in Thread::all(3) {
        let plan = seed(&work, &phase, thread, 1);
        assert!(plan.ids.iter().all(|id| id % 3 == thread.index));
        all.extend(plan.ids);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..1001));
}

#[test]
fn operations_are_all_given_out() {
    for op in [Op::Put, Op::Get, Op::Seek, Op::Mixed, Op::YcsbE, Op::YcsbF] {
        let work = work(op, Order::Uniform, 1000);
        let count: usize = Thread::all(3).map(|thread| run(&work, thread, 1).ids.len()).sum();
        assert_eq!(count, 1000, "{op:?}");
    }
}

#[test]
fn mixed_is_interleaved_as_asked() {
    let plan = run(&work(Op::Mixed, Order::Random, 30_000), Thread { index: 1, count: 3 }, 1);
    let steps: Vec<Step> = (0..10_000).map(|index| plan.step(index)).collect();
    for stretch in steps.chunks(1000) {
        let reads = stretch.iter().filter(|step| **step == Step::Get).count();
        assert!((250..350).contains(&reads), "{reads} reads of 1,000");
    }
    assert!(steps.iter().all(|step| matches!(step, Step::Get | Step::Put)));
}

#[test]
fn what_is_deleted_is_there_and_deleted_once() {
    let mut ids = run(&work(Op::Delete, Order::Random, 5000), Thread { index: 0, count: 3 }, 1).ids;
    assert_eq!(ids.len(), 334);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 334);
}

#[test]
fn inserts_take_new_ids_and_reads_only_what_is_there() {
    for op in [Op::YcsbD, Op::YcsbE, Op::MixedInsert] {
        let work = work(op, Order::Zipfian, 3000);
        let thread = Thread { index: 2, count: 3 };
        let plan = run(&work, thread, 1);
        let mut next = thread.share(1001) as u32;
        for (index, &id) in plan.ids.iter().enumerate() {
            match plan.step(index) {
                Step::Put => {
                    assert_eq!(id, thread.id(next));
                    next += 1;
                }
                Step::Get => assert!(id < thread.id(next) && id % 3 == 2),
                // No thread writes in the whole range.
                step => {
                    assert_eq!(step, Step::Range);
                    assert!(u64::from(id) + plan.range(index) <= 1001);
                }
            }
        }
        assert!(u64::from(thread.id(next)) <= work.ids());
    }
}
