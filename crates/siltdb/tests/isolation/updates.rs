//! Transactions that write a key which changed after they read it.

use crate::isolation::world::{Outcome, State, World, get, list, put};
use siltdb::{
    Isolation::{self, RepeatableRead, Serializable, Snapshot},
    Read,
};

every_level_and_state! {
    lost_update read_skew_before_a_write predicate_many_preceders_write insert_insert delete_put
    put_delete gone_again
}

/// The levels that never lose an update of a key that was read.
const UPDATES_KEPT: &[Isolation] = &[RepeatableRead, Snapshot, Serializable];

/// P4: two transactions add to one number.
fn lost_update(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    for transaction in [&one, &two] {
        let x = get(transaction, "x").unwrap();
        put(transaction, "x", x + 1);
    }
    world.commit(&one);
    let lost = world.commit_unless(UPDATES_KEPT, &two) == Outcome::Committed;
    assert_eq!(get(&world.db, "x"), Some(11));
    if !lost {
        two.reset();
        let x = get(&two, "x").unwrap();
        put(&two, "x", x + 1);
        world.commit(&two);
        assert_eq!(get(&world.db, "x"), Some(12));
    }
}

/// G-single: a transaction reads a key before another commit, and writes another key after it.
fn read_skew_before_a_write(world: &World) {
    let one = world.begin();
    assert_eq!(get(&one, "x"), Some(10));
    world.alone(|two| {
        put(two, "x", 12);
        put(two, "y", 18);
    });
    one.delete("y").unwrap();
    let kept = world.commit_unless(UPDATES_KEPT, &one) == Outcome::Conflict;
    assert_eq!((get(&world.db, "x"), get(&world.db, "y")), (Some(12), kept.then_some(18)));
}

/// PMP: one transaction adds to all numbers, another deletes those that are 20.
fn predicate_many_preceders_write(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    for (key, value) in [("k/1", 20), ("k/2", 30)] {
        assert_eq!(get(&one, key), Some(value - 10));
        put(&one, key, value);
    }
    let found: Vec<_> = two.prefix("k/").unwrap().map(Result::unwrap).collect();
    for (key, _) in found.iter().filter(|(_, value)| value.as_bytes() == b"20") {
        two.delete(key).unwrap();
    }
    world.commit(&one);
    match world.commit_unless(UPDATES_KEPT, &two) {
        // It deleted the key with 30, and not the one with 20.
        Outcome::Committed => assert_eq!(list(&world.db), [20]),
        Outcome::Conflict => assert_eq!(list(&world.db), [20, 30]),
    }
}

/// Two transactions insert a key because it is missing.
fn insert_insert(world: &World) {
    let (one, two, beside) = (world.begin(), world.begin(), world.begin());
    for (transaction, key, value) in [(&one, "u", 1), (&two, "u", 2), (&beside, "uu", 3)] {
        assert_eq!(get(transaction, key), None);
        put(transaction, key, value);
    }
    world.commit(&one);
    let both = world.commit_unless(UPDATES_KEPT, &two) == Outcome::Committed;
    assert_eq!(get(&world.db, "u"), Some(if both { 2 } else { 1 }));
    world.commit(&beside);
    assert_eq!(get(&world.db, "uu"), Some(3));
}

/// A deletion, and an update that has not seen it.
fn delete_put(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    assert_eq!(get(&two, "x"), Some(10));
    one.delete("x").unwrap();
    put(&two, "x", 11);
    world.commit(&one);
    assert_eq!(get(&world.db, "x"), None);
    let both = world.commit_unless(UPDATES_KEPT, &two) == Outcome::Committed;
    assert_eq!(get(&world.db, "x"), both.then_some(11));
}

/// An update, and a deletion that has not seen it.
fn put_delete(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    assert_eq!(get(&two, "x"), Some(10));
    put(&one, "x", 11);
    two.delete("x").unwrap();
    world.commit(&one);
    assert_eq!(get(&world.db, "x"), Some(11));
    let both = world.commit_unless(UPDATES_KEPT, &two) == Outcome::Committed;
    assert_eq!(get(&world.db, "x"), (!both).then_some(11));
}

/// A key that was missing at the start, and was put and deleted since. A compaction may drop both,
/// because no reader sees them; then there is no conflict.
fn gone_again(world: &World) {
    let one = world.begin();
    assert_eq!(get(&one, "u"), None);
    put(&one, "u", 1);
    world.alone(|two| put(two, "u", 2));
    world.alone(|two| two.delete("u").unwrap());
    let checked = if world.state == State::CompactedMeanwhile { &[] } else { UPDATES_KEPT };
    let kept = world.commit_unless(checked, &one) == Outcome::Conflict;
    assert_eq!(get(&world.db, "u"), (!kept).then_some(1));
}
