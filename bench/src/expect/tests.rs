//! Tests of the model: a replay gives the expected result of each read.

use super::{Live, Model, Tally};
use crate::{
    engine::Isolation,
    job::{Op, Run, State, Waits, Work},
    keys::{self, KeyMaker, KeyStyle},
    order::Order,
    plan::{Commit, Length, Plan, Step, Steps},
    values::{ABSENT, ValueStyle},
};

fn work(keys: u32, threads: u32) -> Work {
    let (op, order) = (Op::Put, Order::Random);
    let run = Run {
        op,
        order,
        ops: 1,
        batch: 1,
        reads_percent: 50,
        range: 1,
        open_loop_percent: 0,
        open_loop_per_s: 0,
        waits: Waits::default(),
        isolation: Isolation::Serializable,
        held: 0,
    };
    Work {
        keys,
        key_style: KeyStyle::Sparse,
        key_bytes: 16,
        value_style: ValueStyle::Marked,
        value_bytes: 100,
        compressible_percent: 50,
        threads,
        seed: Vec::new(),
        state: State::AsIs,
        warm_up: false,
        run,
    }
}

fn fold_of(id: u32, version: u32) -> u64 {
    work(1, 1).values().fold_of(id, version)
}

/// The contribution of an entry of which the key is read too.
fn entry(id: u32, version: u32) -> u64 {
    let mut maker = KeyMaker::new(KeyStyle::Sparse, 16);
    fold_of(id, version).wrapping_add(keys::fold(maker.key(id)))
}

fn plan(steps: &[(Step, u32)], batch: u32) -> Plan {
    Plan {
        ids: steps.iter().map(|(_, id)| *id).collect(),
        steps: Steps::Each(steps.iter().map(|(step, _)| *step).collect()),
        length: Length::Fixed(2),
        batch,
        commit: Commit::Batch,
        first_version: 10,
    }
}

fn replay(steps: &[(Step, u32)], batch: u32) -> (Model, Tally) {
    let mut model = Model::new(&work(10, 1));
    let live = Live::new(&model);
    let plan = plan(steps, batch);
    let tally = model.parts()[0].replay(&plan, steps.len(), &live);
    (model, tally)
}

#[test]
fn a_get_gives_what_was_committed_last() {
    let steps = [(Step::Put, 3), (Step::Get, 3), (Step::Put, 3), (Step::Get, 3)];
    let (model, tally) = replay(&steps, 1);
    assert_eq!(tally.sum, fold_of(3, 10).wrapping_add(fold_of(3, 12)));
    assert_eq!((tally.found, tally.value_bytes, model.version(3)), (2, 200, 12));
    // A write that waits in a batch is not visible yet.
    let (model, tally) = replay(&steps, 3);
    assert_eq!(tally.sum, ABSENT.wrapping_mul(2));
    assert_eq!((tally.found, model.version(3)), (0, 12));
}

#[test]
fn a_deleted_key_is_a_miss() {
    let (model, tally) = replay(&[(Step::Put, 1), (Step::Delete, 1), (Step::Get, 1)], 1);
    assert_eq!((tally.sum, tally.found), (ABSENT, 0));
    assert_eq!(model.live().count(), 0);
}

#[test]
fn ranges_skip_what_is_not_there_and_end_at_the_end() {
    let mut model = Model::new(&work(10, 2));
    for id in [1, 4, 9] {
        model.set(id, id + 1);
    }
    let live = Live::new(&model);
    let tally = |id, step| {
        let mut model = Model::new(&work(10, 1));
        model.parts()[0].replay(&plan(&[(step, id)], 1), 1, &live)
    };
    assert_eq!(tally(2, Step::Range).sum, entry(4, 5).wrapping_add(entry(9, 10)));
    assert_eq!(tally(2, Step::Seek).sum, entry(4, 5));
    assert_eq!(tally(9, Step::Range).found, 1);
    assert_eq!(live.from(5, 7), [(9, 10)]);
}

#[test]
fn entries_stand_in_the_order_of_their_keys() {
    for key_style in [KeyStyle::Sparse, KeyStyle::Counter, KeyStyle::ReversedCounter] {
        let mut model = Model::new(&Work { key_style, ..work(1000, 3) });
        (0..1000).step_by(7).for_each(|id| model.set(id, 1));
        let live = Live::new(&model);
        let key = |id: u32| KeyMaker::new(key_style, 16).key(id).to_vec();
        let keys: Vec<_> = live.entries().iter().map(|(id, _)| key(*id)).collect();
        assert!(keys.is_sorted(), "{key_style:?}");
        // A seek to an absent key finds the next key above.
        let next = keys.into_iter().find(|other| *other > key(300));
        let found = live.from(300, 1).first().map(|(id, _)| key(*id));
        assert_eq!(found, next, "{key_style:?}");
        assert!(found.is_some());
    }
}
