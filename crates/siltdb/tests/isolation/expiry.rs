//! Values that expire while a transaction is open. An expiry is a change that no commit makes.

use crate::isolation::world::{Outcome, World, get, numbers, put};
use siltdb::{
    ErrorKind,
    Isolation::{RepeatableRead, Serializable, Snapshot},
    Read,
};

every_level_and_state! {
    fuzzy_read_by_expiry read_skew_by_expiry range_read_by_expiry commit_on_expired
    commit_on_expired_range prepare_on_expired lock_of_expired put_over_expired
}

/// A key that is read twice has the same value, from `RepeatableRead` on.
fn fuzzy_read_by_expiry(world: &World) {
    let (one, snapshot) = (world.begin(), world.db.snapshot());
    assert_eq!(get(&one, "e/1"), Some(10));
    world.expire();
    let expected = if world.reads_newest() { None } else { Some(10) };
    assert_eq!((get(&one, "e/1"), one.contains("e/1").unwrap()), (expected, expected.is_some()));
    // At no level does a snapshot lose it, and in no later state is it there.
    assert_eq!((get(&snapshot, "e/1"), get(&world.db, "e/1")), (Some(10), None));
    world.commit(&one);
}

/// Two keys that expire at once are seen both or not at all, from `RepeatableRead` on.
fn read_skew_by_expiry(world: &World) {
    let one = world.begin();
    assert_eq!(get(&one, "e/1"), Some(10));
    world.expire();
    assert_eq!(get(&one, "e/2"), if world.reads_newest() { None } else { Some(20) });
    world.commit(&one);
}

/// A range that is read twice has the same keys, from `RepeatableRead` on.
fn range_read_by_expiry(world: &World) {
    let one = world.begin();
    assert_eq!(numbers(&one, "e/"), [10, 20]);
    world.expire();
    match world.reads_newest() {
        true => assert_eq!(numbers(&one, "e/"), []),
        false => assert_eq!(numbers(&one, "e/"), [10, 20]),
    }
    world.commit(&one);
    assert_eq!(numbers(&world.db, "e/"), []);
}

/// What a transaction writes because a value is there. Another one has seen that it is gone.
fn commit_on_expired(world: &World) {
    let one = world.begin();
    assert_eq!(get(&one, "e/1"), Some(10));
    put(&one, "x", 11);
    world.expire();
    world.alone(|two| {
        assert_eq!(get(two, "e/1"), None);
        put(two, "y", 21);
    });
    let outcome = world.commit_unless(&[RepeatableRead, Serializable], &one);
    let x = if outcome == Outcome::Committed { 11 } else { 10 };
    assert_eq!((get(&world.db, "x"), get(&world.db, "y")), (Some(x), Some(21)));
}

/// The same with a range. Its keys were read one by one, so `RepeatableRead` refuses this, too.
fn commit_on_expired_range(world: &World) {
    let one = world.begin();
    put(&one, "x", numbers(&one, "e/").iter().sum());
    world.expire();
    let outcome = world.commit_unless(&[RepeatableRead, Serializable], &one);
    let x = if outcome == Outcome::Committed { 30 } else { 10 };
    assert_eq!(get(&world.db, "x"), Some(x));
}

/// A prepare is validated as a commit is.
fn prepare_on_expired(world: &World) {
    let one = world.begin();
    assert_eq!(get(&one, "e/1"), Some(10));
    put(&one, "x", 11);
    world.expire();
    let prepared = one.prepare("one");
    if world.is(&[RepeatableRead, Serializable]) {
        assert_eq!(prepared.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!((world.db.prepared().len(), get(&world.db, "x")), (0, Some(10)));
        // It holds no lock.
        world.alone(|two| put(two, "x", 12));
    } else {
        prepared.unwrap().commit().unwrap();
        assert_eq!(get(&world.db, "x"), Some(11));
    }
}

/// The newest value of a locked key is no expired one.
fn lock_of_expired(world: &World) {
    let one = world.begin();
    world.expire();
    let found = one.get_for_update("e/1");
    match world.is(&[RepeatableRead, Snapshot, Serializable]) {
        true => assert_eq!(found.unwrap_err().kind(), ErrorKind::Conflict),
        false => assert_eq!(found.unwrap(), None),
    }
    // Its own value hides it.
    put(&one, "e/2", 21);
    assert_eq!(one.get_for_update("e/2").unwrap().unwrap(), b"21");
}

/// Neither a blind write nor a read of what was gone before the begin depends on an expiry.
fn put_over_expired(world: &World) {
    let one = world.begin();
    put(&one, "e/1", 11);
    assert_eq!(get(&one, "e/1"), Some(11));
    world.expire();
    world.commit(&one);
    let two = world.begin();
    assert_eq!((get(&two, "e/1"), get(&two, "e/2")), (Some(11), None));
    put(&two, "e/2", 21);
    world.commit(&two);
    assert_eq!(numbers(&world.db, "e/"), [11, 21]);
}
