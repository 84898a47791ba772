//! The time of snapshots and transactions is fixed when they begin.

use crate::expiry::{TTL, World, expiring};
use siltdb::{Db, ErrorKind, Family, Isolation, Read};

const LEVELS: [Isolation; 5] = [
    Isolation::ReadUncommitted,
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

fn has_fixed_time(level: Isolation) -> bool {
    !matches!(level, Isolation::ReadUncommitted | Isolation::ReadCommitted)
}

fn filled(world: &World) -> (Db, Family) {
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    family.put("a", "1").unwrap();
    family.put("b", "2").unwrap();
    family.put_for("c", "3", 1000 * TTL).unwrap();
    (db, family)
}

/// What each way of reading shows.
fn shown(source: &impl Read) -> [Vec<String>; 4] {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let names = ["a", "b", "c"];
    let many = source.get_many(&names).unwrap();
    let backward = source.iter().unwrap().rev().map(|entry| text(&entry.unwrap().0));
    let mut backward: Vec<_> = backward.collect();
    backward.reverse();
    [
        names
            .iter()
            .filter(|key| source.contains(key).unwrap())
            .map(|key| key.to_string())
            .collect(),
        names
            .iter()
            .zip(many)
            .filter(|(_, value)| value.is_some())
            .map(|(k, _)| k.to_string())
            .collect(),
        source.iter().unwrap().keys().map(|key| text(&key.unwrap())).collect(),
        backward,
    ]
}

#[test]
fn what_was_there_at_begin_is_there_at_every_level_with_a_snapshot() {
    for moved in ["nothing", "flush", "compact"] {
        for level in LEVELS {
            let world = World::new();
            let (db, family) = filled(&world);
            let transaction = db.begin(level).family(&family).unwrap();
            let snapshot = db.snapshot().family(&family).unwrap();
            let late = transaction.iter().unwrap();
            world.pass(TTL.as_millis() as u64 + 1);
            match moved {
                "flush" => db.flush().unwrap(),
                "compact" => db.compact().unwrap(),
                _ => {}
            }
            let (all, left) = (vec!["a", "b", "c"], vec!["c"]);
            assert_eq!(shown(&family), [(); 4].map(|()| left.clone()), "{level:?}, {moved}");
            assert_eq!(shown(&snapshot), [(); 4].map(|()| all.clone()), "{level:?}, {moved}");
            let expected = if has_fixed_time(level) { all } else { left };
            assert_eq!(
                shown(&transaction),
                [(); 4].map(|()| expected.clone()),
                "{level:?}, {moved}"
            );
            assert_eq!(late.count(), expected.len(), "{level:?}, {moved}");
            drop((transaction, snapshot));
            db.compact().unwrap();
            assert_eq!(shown(&db.snapshot().family(&family).unwrap())[0], ["c"]);
        }
    }
}

#[test]
fn a_commit_that_relied_on_what_expired_conflicts_where_reads_are_validated() {
    for level in LEVELS {
        let world = World::new();
        let (db, family) = filled(&world);
        let transaction = db.begin(level).family(&family).unwrap();
        let reads_only = db.begin(level).family(&family).unwrap();
        for reader in [&transaction, &reads_only] {
            assert_eq!(reader.get("a").unwrap().unwrap(), b"1");
        }
        transaction.put("relied", "on a").unwrap();
        world.pass(TTL.as_millis() as u64 + 1);
        let validates = matches!(level, Isolation::RepeatableRead | Isolation::Serializable);
        let kind = transaction.commit().err().map(|error| error.kind());
        assert_eq!(kind, validates.then_some(ErrorKind::Conflict), "{level:?}");
        reads_only.commit().unwrap();
        // Unread, unvalidated and own values may expire.
        let other = db.begin(level).family(&family).unwrap();
        other.put_for("own", "1", TTL).unwrap();
        assert!(other.contains("own").unwrap());
        assert!(!other.contains("a").unwrap());
        world.pass(TTL.as_millis() as u64 + 1);
        other.commit().unwrap();
    }
}

#[test]
fn what_is_hidden_may_expire_before_the_commit() {
    for way in ["get", "forward", "backward"] {
        let world = World::new();
        let db = world.open();
        let family = db.create_family("f", expiring()).unwrap();
        for key in ["deleted", "in a range", "newer", "own"] {
            family.put_for(key, "hidden", TTL).unwrap();
        }
        // The hidden versions stay.
        let snapshot = db.snapshot();
        family.delete("deleted").unwrap();
        family.delete_range("i".."j").unwrap();
        family.put_for("newer", "newer", 1000 * TTL).unwrap();
        let transaction = db.begin(Isolation::Serializable).family(&family).unwrap();
        transaction.put_for("own", "own", TTL).unwrap();
        let pairs = transaction.iter().unwrap();
        let keys: Vec<_> = match way {
            "get" => ["deleted", "in a range", "newer", "own"]
                .into_iter()
                .filter(|key| transaction.contains(key).unwrap())
                .map(|key| key.as_bytes().to_vec())
                .collect(),
            "forward" => pairs.map(|pair| pair.unwrap().0.to_vec()).collect(),
            _ => pairs.rev().map(|pair| pair.unwrap().0.to_vec()).collect(),
        };
        assert_eq!(keys.len(), 2, "{way}");
        world.pass(TTL.as_millis() as u64 + 1);
        transaction.commit().unwrap_or_else(|error| panic!("{way}: {error}"));
        drop(snapshot);
    }
}

/// The closure's own error of a conflict.
#[derive(Debug)]
struct Failed;

impl From<siltdb::Error> for Failed {
    fn from(_: siltdb::Error) -> Self {
        Self
    }
}

#[test]
fn an_update_runs_again_after_a_locked_read_of_what_expired_or_changed() {
    for change in ["expiry", "put"] {
        let world = World::new();
        let (db, family) = filled(&world);
        let (mut runs, mut found) = (0, None);
        let updated: Result<(), Failed> = db.update(|transaction| {
            runs += 1;
            match (runs, change) {
                (1, "expiry") => world.pass(TTL.as_millis() as u64 + 1),
                (1, _) => family.put("a", "changed")?,
                _ => {}
            }
            found = transaction.family(&family)?.get_for_update("a")?;
            transaction.put("k", "v")?;
            Ok(())
        });
        updated.unwrap();
        let expected = (change == "put").then_some(&b"changed"[..]);
        assert_eq!((runs, found.as_deref()), (2, expected), "{change}");
    }
}
