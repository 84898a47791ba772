//! Transactions that write different keys, each after reading what the other writes.

use crate::isolation::world::{Outcome, World, get, list, put};
use siltdb::Isolation::{RepeatableRead, Serializable};

every_level_and_state! {
    write_skew_on_keys write_skew_on_ranges write_skew_by_deletions read_only_anomaly
}

/// A5B, G2-item: `x + y` must stay at least 10; each takes 20 of one of them.
fn write_skew_on_keys(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    for (transaction, key) in [(&one, "x"), (&two, "y")] {
        let (x, y) = (get(transaction, "x").unwrap(), get(transaction, "y").unwrap());
        assert!(x + y - 20 >= 10);
        put(transaction, key, if key == "x" { x - 20 } else { y - 20 });
    }
    world.commit(&one);
    let skewed = world.commit_unless(&[RepeatableRead, Serializable], &two) == Outcome::Committed;
    let sum = get(&world.db, "x").unwrap() + get(&world.db, "y").unwrap();
    assert_eq!(sum, if skewed { -10 } else { 10 });
}

/// G2, phantoms: each transaction appends the sum of a range to the range.
fn write_skew_on_ranges(world: &World) {
    let (one, two, beside) = (world.begin(), world.begin(), world.begin());
    for (transaction, key) in [(&one, "k/3"), (&two, "k/4"), (&beside, "l")] {
        let sum = list(transaction).iter().sum();
        assert_eq!(sum, 30);
        put(transaction, key, sum);
    }
    // The range has not changed so far.
    world.commit(&beside);
    world.commit(&one);
    match world.commit_unless(&[Serializable], &two) {
        Outcome::Committed => assert_eq!(list(&world.db), [10, 20, 30, 30]),
        Outcome::Conflict => {
            assert_eq!(list(&world.db), [10, 20, 30]);
            world.alone(|again| put(again, "k/4", list(again).iter().sum()));
            assert_eq!(list(&world.db), [10, 20, 30, 60]);
        }
    }
}

/// G2: one key of a range must stay, and each transaction deletes one because it sees two. The keys
/// are read individually, so `RepeatableRead` refuses this, too.
fn write_skew_by_deletions(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    for (transaction, key) in [(&one, "k/1"), (&two, "k/2")] {
        assert_eq!(list(transaction).len(), 2);
        transaction.delete(key).unwrap();
    }
    world.commit(&one);
    match world.commit_unless(&[RepeatableRead, Serializable], &two) {
        Outcome::Committed => assert_eq!(list(&world.db), []),
        Outcome::Conflict => assert_eq!(list(&world.db), [20]),
    }
}

/// Fekete, O'Neil and O'Neil, 2004: two writers would be serializable without a reader that sees
/// the first and not the second.
fn read_only_anomaly(world: &World) {
    world.alone(|first| {
        put(first, "x", 0);
        put(first, "y", 0);
    });
    let withdrawal = world.begin();
    assert_eq!((get(&withdrawal, "x"), get(&withdrawal, "y")), (Some(0), Some(0)));
    world.alone(|deposit| {
        let y = get(deposit, "y").unwrap();
        put(deposit, "y", y + 20);
    });
    let report = world.begin();
    assert_eq!((get(&report, "x"), get(&report, "y")), (Some(0), Some(20)));
    world.commit(&report);
    // 10 and a fee of 1, since both were 0. After the report there should be no fee.
    put(&withdrawal, "x", -11);
    let outcome = world.commit_unless(&[RepeatableRead, Serializable], &withdrawal);
    let x = if outcome == Outcome::Committed { -11 } else { 0 };
    assert_eq!((get(&world.db, "x"), get(&world.db, "y")), (Some(x), Some(20)));
}
