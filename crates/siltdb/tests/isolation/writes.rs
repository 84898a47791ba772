//! Two transactions that write the same keys.

use crate::isolation::world::{Outcome, State, World, get, put};
use siltdb::Isolation::Snapshot;

every_level_and_state! {
    dirty_write blind_write_write blind_merges range_delete_put put_range_delete
    put_after_deletion_of_nothing range_after_deletion_of_nothing
}

/// G0: the writes of two transactions must not be mixed.
fn dirty_write(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    put(&one, "x", 11);
    put(&two, "x", 12);
    put(&one, "y", 21);
    world.commit(&one);
    assert_eq!((get(&world.db, "x"), get(&world.db, "y")), (Some(11), Some(21)));
    put(&two, "y", 22);
    let expected = match world.commit_unless(&[Snapshot], &two) {
        Outcome::Committed => (Some(12), Some(22)),
        Outcome::Conflict => (Some(11), Some(21)),
    };
    assert_eq!((get(&world.db, "x"), get(&world.db, "y")), expected);
}

/// At `Snapshot` the first to commit wins, although neither has read anything. At the other levels
/// both commit, and the order of their commits is a serial execution.
fn blind_write_write(world: &World) {
    let (one, two, beside) = (world.begin(), world.begin(), world.begin());
    put(&one, "x", 11);
    put(&two, "x", 12);
    put(&beside, "y", 21);
    world.commit(&two);
    let expected = match world.commit_unless(&[Snapshot], &one) {
        Outcome::Committed => 11,
        Outcome::Conflict => 12,
    };
    assert_eq!(get(&world.db, "x"), Some(expected));
    world.commit(&beside);
    assert_eq!(get(&world.db, "y"), Some(21));
}

/// Merge operands are never lost.
fn blind_merges(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    one.merge("x", "1").unwrap();
    two.merge("x", "2").unwrap();
    world.commit(&one);
    let expected = match world.commit_unless(&[Snapshot], &two) {
        Outcome::Committed => 13,
        Outcome::Conflict => 11,
    };
    assert_eq!(get(&world.db, "x"), Some(expected));
    world.alone(|three| three.merge("x", "100").unwrap());
    assert_eq!(get(&world.db, "x"), Some(expected + 100));
}

/// A range deletion, then a put into the range.
fn range_delete_put(world: &World) {
    let (one, two, beside) = (world.begin(), world.begin(), world.begin());
    one.delete_range("k".."l").unwrap();
    put(&two, "k/3", 30);
    put(&beside, "l", 1);
    world.commit(&one);
    let committed = world.commit_unless(&[Snapshot], &two) == Outcome::Committed;
    assert_eq!(get(&world.db, "k/3"), committed.then_some(30));
    assert_eq!(get(&world.db, "k/1"), None);
    world.commit(&beside);
}

/// A put, then a deletion of a range with its key.
fn put_range_delete(world: &World) {
    let (one, two, beside) = (world.begin(), world.begin(), world.begin());
    put(&one, "k/3", 30);
    two.delete_range("k".."l").unwrap();
    beside.delete_range("x"..).unwrap();
    world.commit(&one);
    let committed = world.commit_unless(&[Snapshot], &two) == Outcome::Committed;
    assert_eq!(get(&world.db, "k/3"), (!committed).then_some(30));
    assert_eq!(get(&world.db, "k/1"), (!committed).then_some(10));
    world.commit(&beside);
    assert_eq!(get(&world.db, "x"), None);
}

/// The first deletes a key that does not exist, the second puts it. A compaction drops the
/// deletion, because no reader sees a difference; then there is no conflict.
fn put_after_deletion_of_nothing(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    one.delete("nothing").unwrap();
    put(&two, "nothing", 1);
    world.commit(&one);
    let checked = if world.state == State::CompactedMeanwhile { &[][..] } else { &[Snapshot] };
    let committed = world.commit_unless(checked, &two) == Outcome::Committed;
    assert_eq!(get(&world.db, "nothing"), committed.then_some(1));
}

/// The first deletes a range without keys, the second puts a key of it.
fn range_after_deletion_of_nothing(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    one.delete_range("nothing".."nothinh").unwrap();
    put(&two, "nothing/1", 1);
    world.commit(&one);
    let committed = world.commit_unless(&[Snapshot], &two) == Outcome::Committed;
    assert_eq!(get(&world.db, "nothing/1"), committed.then_some(1));
}
