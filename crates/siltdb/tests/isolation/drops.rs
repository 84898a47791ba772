//! Families that are dropped while a transaction is open.

use crate::isolation::world::{Outcome, World, get, put};
use siltdb::{
    ErrorKind,
    Isolation::{RepeatableRead, Serializable},
    Read,
};

every_level_and_state! {
    read_of_dropped commit_on_dropped commit_on_dropped_range write_skew_by_drop write_to_dropped
    drop_beside_drop
}

/// What is read of a family at one moment stays, from `RepeatableRead` on.
fn read_of_dropped(world: &World) {
    let one = world.begin();
    let (second, snapshot) = (world.second(), world.db.snapshot());
    let in_second = one.family(&second).unwrap();
    assert_eq!(get(&in_second, "x"), Some(10));
    world.alone(|two| two.drop_family(&second).unwrap());
    match world.reads_newest() {
        true => assert_eq!(in_second.get("x").unwrap_err().kind(), ErrorKind::NotFound),
        false => assert_eq!(get(&in_second, "x"), Some(10)),
    }
    assert_eq!(get(&snapshot.family(&second).unwrap(), "x"), Some(10));
    world.commit(&one);
}

/// What a transaction writes because of a family. Another one has seen that it is gone.
fn commit_on_dropped(world: &World) {
    let one = world.begin();
    assert_eq!(get(&one.family(&world.second()).unwrap(), "x"), Some(10));
    put(&one, "x", 11);
    world.alone(|two| two.drop_family(&world.second()).unwrap());
    world.alone(|three| put(three, "y", 21));
    let outcome = world.commit_unless(&[RepeatableRead, Serializable], &one);
    let x = if outcome == Outcome::Committed { 11 } else { 10 };
    assert_eq!((get(&world.db, "x"), get(&world.db, "y")), (Some(x), Some(21)));
}

/// The same with a range without keys, of which only `Serializable` knows.
fn commit_on_dropped_range(world: &World) {
    let one = world.begin();
    assert!(one.family(&world.second()).unwrap().prefix("none").unwrap().next().is_none());
    put(&one, "x", 11);
    world.alone(|two| two.drop_family(&world.second()).unwrap());
    world.commit_unless(&[Serializable], &one);
}

/// One reads the family and writes a key; the other one reads that key and drops the family.
fn write_skew_by_drop(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    assert_eq!(get(&one.family(&world.second()).unwrap(), "x"), Some(10));
    assert_eq!(get(&two, "x"), Some(10));
    put(&one, "x", 11);
    two.drop_family(&world.second()).unwrap();
    world.commit(&one);
    let outcome = world.commit_unless(&[RepeatableRead, Serializable], &two);
    assert_eq!(world.db.family("second").is_err(), outcome == Outcome::Committed);
}

/// A commit into a family that is gone fails, at every level, and writes nothing.
fn write_to_dropped(world: &World) {
    let one = world.begin();
    put(&one.family(&world.second()).unwrap(), "x", 11);
    put(&one, "x", 11);
    world.alone(|two| two.drop_family(&world.second()).unwrap());
    assert_eq!(one.commit().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(get(&world.db, "x"), Some(10));
}

/// Two drop the same family: one of them does, and its writes alone are there.
fn drop_beside_drop(world: &World) {
    let (one, two) = (world.begin(), world.begin());
    for (transaction, value) in [(&one, 11), (&two, 12)] {
        put(transaction, "x", value);
        transaction.drop_family(&world.second()).unwrap();
    }
    world.commit(&one);
    assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(get(&world.db, "x"), Some(11));
}
