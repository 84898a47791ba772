//! What reads and writes a key keeps the expiry of its entry, unless it is told another.

use crate::expiry::{Append, TTL, World, expiring};
use siltdb::{
    Db, Durability, ErrorKind, Expiry, Family, FamilyOptions, Isolation, Read, Transaction,
    WriteBatch, WriteOptions,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

const LATER: Duration = Duration::from_millis(5000);

fn at(ms: u64) -> Option<Expiry> {
    Some(Expiry::At(SystemTime::UNIX_EPOCH + Duration::from_millis(ms)))
}

fn in_transaction(
    db: &Db,
    family: &Family,
    change: impl FnOnce(&Transaction) -> siltdb::Result<()>,
) {
    let transaction = db.begin(Isolation::Serializable).family(family).unwrap();
    change(&transaction).unwrap();
    transaction.commit().unwrap();
}

/// Replaces `old` under the key `k` by `new`.
type Change = fn(&Db, &Family, &WriteOptions);

const CHANGES: [(&str, Change); 10] = [
    ("compare_and_swap", |_, family, options| {
        let swap = family.compare_and_swap_with("k", Some(b"old"), Some(b"new"), options);
        assert!(swap.unwrap().is_swapped());
    }),
    ("fetch_and_update", |_, family, options| {
        let old = family.fetch_and_update_with("k", |_| Some("new"), options).unwrap();
        assert_eq!(old.as_deref(), Some(&b"old"[..]));
    }),
    ("update_and_fetch", |_, family, options| {
        let new = family.update_and_fetch_with("k", |_| Some("new"), options).unwrap();
        assert_eq!(new, Some("new"));
    }),
    ("of the database", |db, _, options| {
        let swap = db.compare_and_swap_with("k", Some(b"old"), Some(b"new"), options);
        assert!(swap.unwrap().is_swapped());
    }),
    ("fetch_and_update of the database", |db, _, options| {
        db.fetch_and_update_with("k", |_| Some("new"), options).unwrap();
    }),
    ("update_and_fetch of the database", |db, _, options| {
        db.update_and_fetch_with("k", |_| Some("new"), options).unwrap();
    }),
    ("compare_and_swap of a transaction", |db, family, options| {
        in_transaction(db, family, |step| {
            let swap = step.compare_and_swap_with("k", Some(b"old"), Some(b"new"), options)?;
            assert!(swap.is_swapped());
            Ok(())
        });
    }),
    ("fetch_and_update of a transaction", |db, family, options| {
        in_transaction(db, family, |step| {
            step.fetch_and_update_with("k", |_| Some("new"), options).map(drop)
        });
    }),
    ("update_and_fetch of a transaction", |db, family, options| {
        in_transaction(db, family, |step| {
            // Its own write has the expiry as well.
            step.update_and_fetch_with("k", |_| Some("newer"), options)?;
            step.update_and_fetch("k", |_| Some("new")).map(drop)
        });
    }),
    ("update_and_fetch of a typed family", |_, family, options| {
        let typed = family.typed::<Vec<u8>, String>().unwrap();
        let new = |old: Option<String>| old.map(|_| "new".to_owned());
        typed.update_and_fetch_with(&b"k".to_vec(), new, options).unwrap();
    }),
];

/// Values of a family that are short or separated, in a memtable or in a table.
#[test]
fn what_replaces_a_value_keeps_its_expiry_unless_told_otherwise() {
    for (name, change) in CHANGES {
        for (threshold, is_flushed) in [(0, false), (0, true), (32, true)] {
            let world = World::new();
            let db = world.open();
            let family = db.default_family();
            let options = FamilyOptions::new().value_threshold(threshold);
            family.set_options(&options).unwrap();
            let begin = |ttl: Option<Duration>| {
                match ttl {
                    Some(ttl) => family.put_for("k", "old", ttl).unwrap(),
                    None => family.put("k", "old").unwrap(),
                }
                if is_flushed {
                    db.flush().unwrap();
                }
            };
            // It keeps an expiry, and has none if the old one had none.
            begin(Some(TTL));
            world.pass(400);
            change(&db, &family, &WriteOptions::new());
            assert_eq!(family.get("k").unwrap().as_deref(), Some(&b"new"[..]), "{name}");
            assert_eq!(family.expires_at("k").unwrap(), at(1_001_000), "{name}");
            world.pass(600);
            assert_eq!(family.get("k").unwrap(), None, "{name}");
            begin(None);
            change(&db, &family, &WriteOptions::new());
            assert_eq!(family.expires_at("k").unwrap(), Some(Expiry::Never), "{name}");
            // Options decide otherwise.
            begin(Some(TTL));
            change(&db, &family, &WriteOptions::new().ttl(LATER));
            assert_eq!(family.expires_at("k").unwrap(), at(1_006_000), "{name}");
            begin(Some(TTL));
            change(&db, &family, &WriteOptions::new().expiry(Expiry::Never));
            assert_eq!(family.expires_at("k").unwrap(), Some(Expiry::Never), "{name}");
        }
    }
}

#[test]
fn separated_values_keep_their_expiry_as_well() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", FamilyOptions::new().value_threshold(32)).unwrap();
    family.put_for("k", [1; 100], TTL).unwrap();
    db.flush().unwrap();
    let grow = |old: Option<&[u8]>| old.map(|old| [old, &[2; 100]].concat());
    family.update_and_fetch("k", grow).unwrap();
    assert_eq!(family.expires_at("k").unwrap(), at(1_001_000));
    let found = family.get_expiring("k").unwrap().unwrap();
    assert_eq!((found.0.len(), Some(found.1)), (200, at(1_001_000)));
    world.pass(1000);
    assert_eq!(family.expires_at("k").unwrap(), None);
}

#[test]
fn in_a_family_with_a_ttl_an_update_does_not_prolong_a_value() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    // A value that is new gets the TTL.
    family.update_and_fetch("k", |_| Some("1")).unwrap();
    world.pass(400);
    family.update_and_fetch("k", |_| Some("2")).unwrap();
    assert_eq!(family.expires_at("k").unwrap(), at(1_001_000));
    family.persist("k").unwrap();
    family.update_and_fetch("k", |_| Some("3")).unwrap();
    assert_eq!(family.expires_at("k").unwrap(), Some(Expiry::Never));
    // A put is a new value.
    family.put("k", "4").unwrap();
    assert_eq!(family.expires_at("k").unwrap(), at(1_001_400));
    // What says nothing of it gives the TTL of the family.
    world.pass(100);
    assert!(family.touch_with("k", &WriteOptions::new()).unwrap());
    assert_eq!(family.expires_at("k").unwrap(), at(1_001_500));
}

#[test]
fn a_lock_with_a_lease_is_free_when_its_holder_is_late() {
    let world = World::new();
    let db = world.open();
    let lease = WriteOptions::new().ttl(TTL).durability(Durability::Synced);
    assert_eq!(db.put_if_absent_with("lock", "a", &lease).unwrap(), None);
    assert_eq!(db.put_if_absent_with("lock", "b", &lease).unwrap().as_deref(), Some(&b"a"[..]));
    world.pass(900);
    // Only the holder can renew the lease.
    assert!(db.compare_and_swap_with("lock", Some(b"a"), Some(b"a"), &lease).unwrap().is_swapped());
    assert!(
        !db.compare_and_swap_with("lock", Some(b"b"), Some(b"b"), &lease).unwrap().is_swapped()
    );
    world.pass(900);
    assert_eq!(db.put_if_absent_with("lock", "b", &lease).unwrap().as_deref(), Some(&b"a"[..]));
    world.pass(100);
    assert_eq!(db.put_if_absent_with("lock", "b", &lease).unwrap(), None);
    let typed = db.default_family().typed::<Vec<u8>, String>().unwrap();
    let (key, value) = (b"lock".to_vec(), "c".to_owned());
    let held = typed.put_if_absent_with(&key, &value, &lease).unwrap();
    assert_eq!(held.as_deref(), Some("b"));
    assert_eq!(typed.expires_at(&key).unwrap(), at(1_002_900));
}

#[test]
fn the_expiry_is_changed_and_removed_without_the_value() {
    let world = World::new();
    let db = world.open();
    db.put("k", "value").unwrap();
    assert!(db.touch("k", TTL).unwrap());
    assert_eq!(db.expires_at("k").unwrap(), at(1_001_000));
    assert!(db.persist("k").unwrap());
    assert_eq!(db.expires_at("k").unwrap(), Some(Expiry::Never));
    assert!(db.touch_with("k", &WriteOptions::new().ttl(TTL)).unwrap());
    in_transaction(&db, &db.default_family(), |step| {
        assert!(step.touch("k", LATER)?);
        assert_eq!(step.expires_at("k")?, at(1_005_000));
        assert!(!step.touch("none", LATER)?);
        Ok(())
    });
    let snapshot = db.snapshot();
    world.pass(5000);
    assert_eq!((db.touch("k", TTL).unwrap(), db.persist("k").unwrap()), (false, false));
    assert_eq!(
        (db.expires_at("k").unwrap(), snapshot.expires_at("k").unwrap()),
        (None, at(1_005_000))
    );
    assert!(!db.contains("k").unwrap());
    // An expiry that the clock of a system cannot express never comes.
    db.put_for("k", "value", Duration::MAX).unwrap();
    assert!(db.expires_at("k").unwrap().is_some());
}

#[test]
fn options_give_every_single_put_its_expiry_and_deletions_refuse_one() {
    let world = World::new();
    let db = world.open();
    let (family, timed) = (db.default_family(), WriteOptions::new().ttl(TTL));
    family.put_with("put", "1", &timed).unwrap();
    family.put_reader_with("stream", 1, &b"1"[..], &timed).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_with(&family, "batch", "1", &timed).unwrap();
    db.write(&batch).unwrap();
    in_transaction(&db, &family, |step| step.put_with("transaction", "1", &timed));
    for key in ["put", "stream", "batch", "transaction"] {
        assert_eq!(family.expires_at(key).unwrap(), at(1_001_000), "{key}");
    }
    let refused = [
        family.delete_with("put", &timed),
        family.delete_range_with("a".."z", &timed),
        family.delete_prefix_with("p", &timed),
        family.take_with("put", &timed).map(drop),
        family.pop_first_with(&timed).map(drop),
        family.pop_last_with(&timed).map(drop),
        db.write_with(&batch, &timed),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(db.count(..).unwrap(), 4);
    let synced = WriteOptions::new().durability(Durability::Synced);
    assert_eq!(db.take_with("put", &synced).unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.pop_first_with(&synced).unwrap().unwrap().0, b"batch");
    assert_eq!(db.pop_last_with(&synced).unwrap().unwrap().0, b"transaction");
}

#[test]
fn operands_outlive_the_value_that_they_were_merged_into() {
    let world = World::new();
    let merging = FamilyOptions::new().merge_operator(Arc::new(Append));
    let options = world.options().merge_operator(Arc::new(Append)).default_family(merging);
    let db = options.open("db").unwrap();
    db.default_family().put_for("k", "base", TTL).unwrap();
    db.merge("k", "+").unwrap();
    assert_eq!(db.expires_at("k").unwrap(), Some(Expiry::Never));
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"base+"[..]));
    // An update folds them, and has the expiry that readers see: none.
    let before = db.snapshot();
    db.update_and_fetch("k", |old| old.map(<[u8]>::to_vec)).unwrap();
    world.pass(1000);
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"base+"[..]));
    // The time of a snapshot stands still.
    assert_eq!(before.get("k").unwrap().as_deref(), Some(&b"base+"[..]));
}
