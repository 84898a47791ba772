//! What a transaction reads of its own writes, what a commit checks, and how a transaction ends.

#[path = "transactions/drops.rs"]
mod drops;
#[path = "transactions/families.rs"]
mod families;
#[path = "transactions/memory.rs"]
mod memory;

use siltdb::{
    Db, ErrorKind, FamilyOptions, Isolation, Options, Read, Transaction, TransactionOptions,
};
use std::{
    ops::ControlFlow,
    time::{Duration, SystemTime},
};

fn open() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let append =
        siltdb::merge::associative("append", |_, older, newer| Ok([older, newer].concat()));
    let options = Options::new().default_family(FamilyOptions::new().merge_operator(append));
    let db = options.open(dir.path()).unwrap();
    (dir, db)
}

fn keys(source: &impl Read) -> Vec<String> {
    let text =
        |key: siltdb::Result<siltdb::Slice>| String::from_utf8(key.unwrap().to_vec()).unwrap();
    source.iter().unwrap().keys().map(text).collect()
}

fn is_conflict(transaction: &Transaction) -> bool {
    match transaction.commit() {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            true
        }
    }
}

#[test]
fn own_writes_are_read_at_once_and_by_none_else() {
    let (_dir, db) = open();
    for key in ["a", "b", "c", "d"] {
        db.put(key, "old").unwrap();
    }
    for &isolation in Isolation::ALL {
        let transaction = db.begin(isolation);
        transaction.put("bb", "new").unwrap();
        transaction.delete("c").unwrap();
        transaction.merge("d", "er").unwrap();
        transaction.put_for("e", "short", Duration::from_secs(3600)).unwrap();
        assert_eq!(keys(&transaction), ["a", "b", "bb", "d", "e"], "{isolation:?}");
        assert_eq!(transaction.get("d").unwrap().unwrap().as_bytes(), b"older");
        assert_eq!(transaction.get("c").unwrap(), None);
        transaction.delete_range("a".."bb").unwrap();
        transaction.put("aa", "again").unwrap();
        assert_eq!(keys(&transaction), ["aa", "bb", "d", "e"]);
        let back: Vec<_> = transaction.iter().unwrap().keys().rev().map(Result::unwrap).collect();
        assert_eq!(back, ["e", "d", "bb", "aa"].map(str::as_bytes));
        assert_eq!(transaction.get_gt("aa").unwrap().unwrap().0.as_bytes(), b"bb");
        let mut cursor = transaction.cursor().unwrap();
        cursor.seek_to_first().unwrap();
        let mut seen = Vec::new();
        cursor
            .walk(10, |key, value| {
                seen.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(seen.len(), 4);
        assert_eq!(seen[2], (b"d".to_vec(), b"older".to_vec()));
        assert_eq!(keys(&db), ["a", "b", "c", "d"]);
        transaction.rollback().unwrap();
    }
    assert_eq!(keys(&db), ["a", "b", "c", "d"]);
}

#[test]
fn a_cursor_does_not_see_own_writes_that_come_after_it() {
    let (_dir, db) = open();
    db.put("a", "1").unwrap();
    let transaction = db.begin(Isolation::Snapshot);
    transaction.put("b", "1").unwrap();
    let mut cursor = transaction.cursor().unwrap();
    transaction.put("b", "2").unwrap();
    transaction.put("c", "2").unwrap();
    // A read indexes the own writes for cursors.
    assert!(transaction.contains("c").unwrap());
    cursor.seek("b").unwrap();
    assert_eq!(cursor.entry(), Some((&b"b"[..], &b"1"[..])));
    cursor.next().unwrap();
    assert_eq!(cursor.key(), None);
    assert_eq!(transaction.get("b").unwrap().unwrap().as_bytes(), b"2");
}

#[test]
fn a_transaction_over_families_happens_as_a_whole() {
    let (_dir, db) = open();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let transaction = db.begin(Isolation::Serializable);
    let of_users = transaction.family(&users).unwrap();
    of_users.put("alice", "1").unwrap();
    transaction.put("count", "1").unwrap();
    assert!(users.is_empty().unwrap() && of_users.contains("alice").unwrap());
    let commit = transaction.commit().unwrap();
    assert_eq!(commit.sequence, db.snapshot().sequence());
    db.wait_durable(commit.sequence).unwrap();
    assert_eq!(
        db.wait_durable(commit.sequence + 1).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert!(users.contains("alice").unwrap() && db.contains("count").unwrap());
}

#[test]
fn repeatable_reads_see_one_moment_and_committed_reads_the_newest() {
    let (_dir, db) = open();
    db.put("a", "1").unwrap();
    for &isolation in Isolation::ALL {
        let transaction = db.begin(isolation);
        let before = transaction.get("a").unwrap();
        db.merge("a", "+").unwrap();
        let same = transaction.get("a").unwrap() == before;
        assert_eq!(same, isolation >= Isolation::RepeatableRead, "{isolation:?}");
    }
}

#[test]
fn who_only_reads_always_commits() {
    let (_dir, db) = open();
    db.put("a", "1").unwrap();
    for &isolation in Isolation::ALL {
        let transaction = db.begin(isolation);
        keys(&transaction);
        let before = db.snapshot().sequence();
        db.put("a", "2").unwrap();
        let commit = transaction.commit().unwrap();
        let seen = if isolation >= Isolation::RepeatableRead { before } else { before + 1 };
        assert_eq!(commit.sequence, seen, "{isolation:?}");
    }
}

#[test]
fn an_ended_transaction_says_so_and_reset_begins_another() {
    let (_dir, db) = open();
    let transaction = db.begin(Isolation::Snapshot);
    transaction.put("a", "1").unwrap();
    transaction.commit().unwrap();
    let ended = [
        transaction.put("a", "2").unwrap_err(),
        transaction.get("a").unwrap_err(),
        transaction.iter().unwrap_err(),
        transaction.commit().unwrap_err(),
        transaction.rollback().unwrap_err(),
        transaction.savepoint("s").unwrap_err(),
    ];
    for error in ended {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("was committed"), "{error}");
    }
    transaction.reset();
    transaction.put("a", "3").unwrap();
    transaction.commit().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap().as_bytes(), b"3");
}

#[test]
fn a_transaction_takes_no_more_memory_than_it_may() {
    let (_dir, db) = open();
    let options = TransactionOptions::new().memory_bytes(10_000);
    let transaction = db.begin_with(&options);
    transaction.put("a", [0; 4_000]).unwrap();
    let error = transaction.put("b", [0; 8_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("memory"), "{error}");
    transaction.commit().unwrap();
    assert!(db.contains("a").unwrap() && !db.contains("b").unwrap());
}

#[test]
fn savepoints_nest_and_hide_each_other() {
    let (_dir, db) = open();
    let transaction = db.begin(Isolation::Snapshot);
    transaction.put("a", "").unwrap();
    transaction.savepoint("s").unwrap();
    transaction.put("b", "").unwrap();
    transaction.savepoint("s").unwrap();
    transaction.put("c", "").unwrap();
    transaction.rollback_to("s").unwrap();
    assert_eq!(keys(&transaction), ["a", "b"]);
    transaction.put("d", "").unwrap();
    transaction.release("s").unwrap();
    assert_eq!(keys(&transaction), ["a", "b", "d"]);
    transaction.rollback_to("s").unwrap();
    assert_eq!(keys(&transaction), ["a"]);
    transaction.release("s").unwrap();
    assert_eq!(transaction.rollback_to("s").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(transaction.release("x").unwrap_err().kind(), ErrorKind::NotFound);
    transaction.commit().unwrap();
    assert_eq!(keys(&db), ["a"]);
}

#[test]
fn what_was_read_before_a_rollback_to_a_savepoint_stays_read() {
    let (_dir, db) = open();
    db.put("a", "1").unwrap();
    let transaction = db.begin(Isolation::Serializable);
    transaction.savepoint("s").unwrap();
    let read = transaction.get("a").unwrap().unwrap();
    transaction.rollback_to("s").unwrap();
    db.put("a", "2").unwrap();
    transaction.put("b", read).unwrap();
    assert!(is_conflict(&transaction));
    assert!(!db.contains("b").unwrap());
}

#[test]
fn a_conflict_is_found_however_the_range_was_read() {
    type Reader = fn(&Transaction);
    let readers: [(&str, Reader); 9] = [
        ("iter", |t| drop(keys(t))),
        ("range", |t| assert_eq!(t.range("b".."f").unwrap().count(), 2)),
        ("back", |t| assert_eq!(t.range("b".."f").unwrap().rev().count(), 2)),
        ("prefix", |t| assert_eq!(t.prefix("").unwrap().count(), 4)),
        ("count", |t| assert_eq!(t.count("b".."f").unwrap(), 2)),
        ("get_gt", |t| assert_eq!(t.get_gt("b").unwrap().unwrap().0.as_bytes(), b"e")),
        ("get_le", |t| assert_eq!(t.get_le("d").unwrap().unwrap().0.as_bytes(), b"b")),
        ("seek and back", |t| {
            let mut cursor = t.cursor().unwrap();
            cursor.seek("e").unwrap();
            cursor.prev().unwrap();
        }),
        ("first of a part", |t| {
            let mut rest = t.range("c"..).unwrap();
            rest.next().unwrap().unwrap();
        }),
    ];
    for (name, read) in readers {
        for is_deletion in [false, true] {
            let (_dir, db) = open();
            for key in ["a", "b", "e", "g"] {
                db.put(key, "").unwrap();
            }
            let transaction = db.begin(Isolation::Serializable);
            read(&transaction);
            transaction.put("x", "").unwrap();
            let unrelated = db.begin(Isolation::Serializable);
            read(&unrelated);
            unrelated.put("y", "").unwrap();
            if is_deletion {
                db.delete_range("bb".."ee").unwrap();
            } else {
                db.put("c", "phantom").unwrap();
            }
            assert!(is_conflict(&transaction), "{name}, {is_deletion}");
            drop(unrelated);
        }
    }
}

#[test]
fn what_lies_beside_the_range_that_was_read_is_no_conflict() {
    let (_dir, db) = open();
    for key in ["a", "b", "e", "g"] {
        db.put(key, "").unwrap();
    }
    let transaction = db.begin(Isolation::Serializable);
    let mut cursor = transaction.cursor().unwrap();
    cursor.seek("b").unwrap();
    cursor.next().unwrap();
    assert_eq!(cursor.key(), Some(&b"e"[..]));
    transaction.put("x", "").unwrap();
    for key in ["aa", "ee", "f", "z"] {
        db.put(key, "").unwrap();
    }
    assert!(!is_conflict(&transaction));
}

#[test]
fn the_bounds_of_ranges_that_were_read_count_as_memory() {
    let (_dir, db) = open();
    let options = TransactionOptions::new().memory_bytes(100_000);
    let transaction = db.begin_with(&options);
    let reads =
        (0..100_u8).map(|number| transaction.get_ge([vec![number], vec![0; 10_000]].concat()));
    let error = reads.filter_map(Result::err).next().unwrap();
    assert!(error.to_string().contains("memory"), "{error}");
}

#[test]
fn own_writes_lie_over_the_moment_that_is_read_not_over_later_commits() {
    let (_dir, db) = open();
    for key in ["a", "c", "e", "g"] {
        db.put(key, "old").unwrap();
    }
    for &isolation in &[Isolation::RepeatableRead, Isolation::Snapshot, Isolation::Serializable] {
        let transaction = db.begin(isolation);
        transaction.merge("c", "er").unwrap();
        transaction.put("d", "own").unwrap();
        // Later commits are placed before, at, between and behind the own writes.
        for key in ["a", "b", "c", "d", "e", "h"] {
            db.put(key, "later").unwrap();
        }
        db.merge("c", "+").unwrap();
        db.delete("g").unwrap();
        let expected = [("a", "old"), ("c", "older"), ("d", "own"), ("e", "old"), ("g", "old")];
        let pair =
            |(key, value): (&str, &str)| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        let mut expected = expected.map(pair).to_vec();
        let read = |pairs: &mut dyn Iterator<Item = siltdb::Result<_>>| -> Vec<_> {
            let copy =
                |(key, value): (siltdb::Slice, siltdb::Slice)| (key.to_vec(), value.to_vec());
            pairs.map(|pair| copy(pair.unwrap())).collect()
        };
        assert_eq!(read(&mut transaction.iter().unwrap()), expected, "{isolation:?}");
        let (mut cursor, mut walked) = (transaction.cursor().unwrap(), Vec::new());
        cursor.seek_to_first().unwrap();
        let walk = cursor.walk(10, |key, value| {
            walked.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        assert_eq!((walk.unwrap(), walked), (5, expected.clone()), "{isolation:?}");
        for (key, value) in &expected {
            assert_eq!(transaction.get(key).unwrap().unwrap().as_bytes(), value);
        }
        assert!(!transaction.contains("b").unwrap() && !transaction.contains("h").unwrap());
        expected.reverse();
        assert_eq!(read(&mut transaction.iter().unwrap().rev()), expected, "{isolation:?}");
        transaction.rollback().unwrap();
        for key in ["b", "d", "h"] {
            db.delete(key).unwrap();
        }
        for key in ["a", "c", "e", "g"] {
            db.put(key, "old").unwrap();
        }
    }
}

#[test]
fn a_repeatable_read_of_a_walk_is_checked_for_each_key_that_it_showed() {
    type Reader = fn(&Transaction);
    let readers: [(&str, Reader); 3] = [
        ("iter", |t| drop(keys(t))),
        ("back", |t| assert_eq!(t.iter().unwrap().rev().count(), 3)),
        ("walk", |t| {
            let mut cursor = t.cursor().unwrap();
            cursor.seek_to_first().unwrap();
            let shown = cursor.walk(10, |_, _| ControlFlow::Continue(())).unwrap();
            assert_eq!((shown, cursor.key()), (3, None));
        }),
    ];
    for (name, read) in readers {
        for (changed, is_read) in [("a", true), ("b", true), ("c", true), ("bb", false)] {
            let (_dir, db) = open();
            for key in ["a", "b", "c"] {
                db.put(key, "").unwrap();
            }
            let transaction = db.begin(Isolation::RepeatableRead);
            read(&transaction);
            transaction.put("x", "").unwrap();
            db.put(changed, "later").unwrap();
            assert_eq!(is_conflict(&transaction), is_read, "{name}, {changed}");
        }
    }
}

/// A caller that keeps what a walk showed and leaves it by a panic has read that all the same.
#[test]
fn what_a_walk_showed_before_a_panic_counts_as_read() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        for (direction, from) in [("forward", "a"), ("backward", "d")] {
            let (_dir, db) = open();
            for key in ["a", "b", "c", "d"] {
                db.put(key, "old").unwrap();
            }
            let transaction = db.begin(isolation);
            let mut cursor = transaction.cursor().unwrap();
            cursor.seek(from).unwrap();
            let mut shown = 0;
            let walk = std::panic::AssertUnwindSafe(|| {
                let see = |_: &[u8], _: &[u8]| {
                    shown += 1;
                    assert!(shown < 3, "as it should");
                    ControlFlow::Continue(())
                };
                match direction {
                    "forward" => cursor.walk(10, see),
                    _ => cursor.walk_back(10, see),
                }
            });
            assert!(std::panic::catch_unwind(walk).is_err());
            assert_eq!(shown, 3);
            transaction.put("x", "").unwrap();
            let second = if direction == "forward" { "b" } else { "c" };
            db.put(second, "new").unwrap();
            assert!(is_conflict(&transaction), "{isolation:?} {direction}");
        }
    }
}

#[test]
fn snapshot_reads_see_what_the_transaction_sees_and_are_not_validated() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        let (_dir, db) = open();
        for key in ["a", "b", "c"] {
            db.put(key, "old").unwrap();
        }
        let transaction = db.begin(isolation);
        transaction.put("bb", "own").unwrap();
        db.put("a", "new").unwrap();
        let reads = transaction.snapshot_reads();
        assert_eq!(reads.get("a").unwrap().unwrap(), b"old", "{isolation:?}");
        assert_eq!(reads.get("bb").unwrap().unwrap(), b"own");
        assert_eq!(keys(&reads), ["a", "b", "bb", "c"]);
        assert_eq!(reads.get_many(&["a", "b"]).unwrap().len(), 2);
        assert_eq!(reads.first().unwrap().unwrap().1, b"old");
        assert_eq!(reads.value_len("a").unwrap(), Some(3));
        assert!(reads.expires_at("a").unwrap().is_some());
        let mut cursor = reads.cursor().unwrap();
        cursor.seek("a").unwrap();
        cursor.next().unwrap();
        db.put("aa", "a phantom").unwrap();
        assert!(!is_conflict(&transaction), "{isolation:?}");
        assert_eq!(db.get("bb").unwrap().unwrap(), b"own");
        assert_eq!(reads.get("a").unwrap_err().kind(), ErrorKind::InvalidArgument);

        // One read of the transaction itself is validated, whatever the others are.
        for read in ["get", "many", "length"] {
            let transaction = db.begin(isolation);
            transaction.snapshot_reads().get("b").unwrap();
            match read {
                "get" => drop(transaction.get("c").unwrap()),
                "many" => drop(transaction.get_many(&["a", "c"]).unwrap()),
                _ => drop(transaction.value_len("c").unwrap()),
            }
            transaction.put("d", "v").unwrap();
            db.put("b", "newer").unwrap();
            db.put("c", "newer").unwrap();
            assert!(is_conflict(&transaction), "{isolation:?}, {read}");
        }
    }
}

#[test]
fn a_transaction_puts_until_a_time_and_deletes_singly() {
    let (_dir, db) = open();
    db.put("once", "v").unwrap();
    let (past, later) = (SystemTime::UNIX_EPOCH, SystemTime::now() + Duration::from_secs(3600));
    for &isolation in Isolation::ALL {
        let transaction = db.begin(isolation);
        transaction.put_until("over", "v", past).unwrap();
        transaction.put_until("lasting", "v", later).unwrap();
        transaction.single_delete("once").unwrap();
        assert_eq!(keys(&transaction), ["lasting"], "{isolation:?}");
        assert!(transaction.expires_at("lasting").unwrap().unwrap().time().is_some());
        assert!(db.contains("once").unwrap(), "{isolation:?}");
        transaction.rollback().unwrap();
    }
    let transaction = db.begin(Isolation::Serializable);
    transaction.put_until("lasting", "v", later).unwrap();
    transaction.single_delete("once").unwrap();
    transaction.commit().unwrap();
    db.compact().unwrap();
    assert_eq!(keys(&db), ["lasting"]);
}
