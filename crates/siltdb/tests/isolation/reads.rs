//! A transaction that reads while others write. It must always commit if it only reads.

use crate::isolation::world::{Outcome, World, get, list, put};
use siltdb::Isolation::{RepeatableRead, Serializable, Snapshot};

every_level_and_state! {
    aborted_read intermediate_read circular_information_flow observed_transaction_vanishes
    predicate_many_preceders_read fuzzy_read read_skew
}

/// G1a: a write that is rolled back is never read.
fn aborted_read(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    put(&one, "x", 101);
    put(&one, "k/3", 30);
    assert_eq!((get(&two, "x"), list(&two)), (Some(10), vec![10, 20]));
    one.rollback().unwrap();
    assert_eq!((get(&two, "x"), list(&two)), (Some(10), vec![10, 20]));
    put(&two, "y", 21);
    world.commit(&two);
    assert_eq!((get(&world.db, "x"), get(&world.db, "y")), (Some(10), Some(21)));
}

/// G1b: of a key that is written twice, the first value is never read.
fn intermediate_read(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    put(&one, "x", 101);
    assert_eq!(get(&two, "x"), Some(10));
    put(&one, "x", 11);
    assert_eq!(get(&two, "x"), Some(10));
    world.commit(&one);
    let expected = if world.reads_newest() { 11 } else { 10 };
    assert_eq!(get(&two, "x"), Some(expected));
    world.commit(&two);
}

/// G1c: of two transactions, at most one sees the other.
fn circular_information_flow(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    put(&one, "x", 11);
    put(&two, "y", 22);
    assert_eq!((get(&one, "y"), get(&two, "x")), (Some(20), Some(10)));
    world.commit(&one);
    let outcome = world.commit_unless(&[RepeatableRead, Serializable], &two);
    let y = if outcome == Outcome::Committed { 22 } else { 20 };
    assert_eq!((get(&world.db, "x"), get(&world.db, "y")), (Some(11), Some(y)));
}

/// OTV: what a transaction has seen of another one stays while it reads the rest.
fn observed_transaction_vanishes(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    for (transaction, x, y) in [(&one, 11, 19), (&two, 12, 18)] {
        put(transaction, "x", x);
        put(transaction, "y", y);
    }
    world.commit(&one);
    let three = world.begin();
    assert_eq!(get(&three, "x"), Some(11));
    let sees_two = world.commit_unless(&[Snapshot], &two) == Outcome::Committed;
    let expected = match sees_two && world.reads_newest() {
        true => (Some(18), Some(12)),
        false => (Some(19), Some(11)),
    };
    // Both values are of the same transaction.
    assert_eq!((get(&three, "y"), get(&three, "x")), expected);
    world.commit(&three);
}

/// PMP: a range that is read twice shows no new keys, from `RepeatableRead` on.
fn predicate_many_preceders_read(world: &World) {
    let one = world.begin();
    assert_eq!(list(&one), [10, 20]);
    world.alone(|two| put(two, "k/3", 30));
    world.alone(|two| two.delete("k/1").unwrap());
    match world.reads_newest() {
        true => assert_eq!(list(&one), [20, 30]),
        false => assert_eq!(list(&one), [10, 20]),
    }
    world.commit(&one);
    assert_eq!(list(&world.db), [20, 30]);
}

/// P2: a key that is read twice has the same value, from `RepeatableRead` on. A transaction that
/// then writes may commit only if the level does not check its reads.
fn fuzzy_read(world: &World) {
    let (reader, writer) = (world.begin(), world.begin());
    assert_eq!((get(&reader, "x"), get(&writer, "x")), (Some(10), Some(10)));
    world.alone(|two| put(two, "x", 11));
    let expected = if world.reads_newest() { 11 } else { 10 };
    assert_eq!((get(&reader, "x"), get(&writer, "x")), (Some(expected), Some(expected)));
    world.commit(&reader);
    put(&writer, "z", expected);
    world.commit_unless(&[RepeatableRead, Serializable], &writer);
}

/// A5A, G-single: two keys are read from one state, from `RepeatableRead` on.
fn read_skew(world: &World) {
    let one = world.begin();
    assert_eq!(get(&one, "x"), Some(10));
    world.alone(|two| {
        put(two, "x", 12);
        put(two, "y", 18);
    });
    let expected = if world.reads_newest() { 18 } else { 20 };
    assert_eq!(get(&one, "y"), Some(expected));
    world.commit(&one);
}
