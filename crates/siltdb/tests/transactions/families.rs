//! Transactions that create and drop families, apply batches, and meet families that are dropped.

use super::{is_conflict, open};
use siltdb::{
    Db, Error, ErrorKind, FamilyOptions, Isolation, Options, Read, WriteBatch,
    testing::{Crash, MemFs},
};
use std::sync::Arc;

const LEVELS: [Isolation; 5] = [
    Isolation::ReadUncommitted,
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

/// A way to drop a family.
type Drop = fn(&Db);

const DROPS: [Drop; 3] = [
    |db| db.drop_family("users").expect("it drops"),
    |db| {
        let mut batch = WriteBatch::new();
        batch.drop_family(&db.family("users").expect("it exists")).expect("a batch may");
        db.write(&batch).expect("it drops");
    },
    |db| {
        let transaction = db.begin(Isolation::Serializable);
        transaction.drop_family(&db.family("users").expect("it exists")).expect("it may");
        transaction.commit().expect("it drops");
    },
];

#[test]
fn the_drop_of_a_family_that_was_read_conflicts_where_reads_are_validated() {
    let reads: [fn(&siltdb::Transaction); 3] = [
        |tx| assert!(tx.contains("1").expect("a read")),
        |tx| assert!(!tx.contains("none").expect("a read")),
        |tx| assert_eq!(tx.count(..).expect("a read"), 1),
    ];
    for drop in DROPS {
        for level in LEVELS {
            for (index, read) in reads.iter().enumerate() {
                let (_dir, db) = open();
                let users = db.create_family("users", FamilyOptions::new()).unwrap();
                users.put("1", "alice").unwrap();
                let transaction = db.begin(level);
                read(&transaction.family(&users).unwrap());
                transaction.put("seen", "1").unwrap();
                drop(&db);
                let validates =
                    matches!(level, Isolation::RepeatableRead | Isolation::Serializable);
                assert_eq!(is_conflict(&transaction), validates, "{level:?}, read {index}");
                assert_eq!(db.contains("seen").unwrap(), !validates);
            }
        }
    }
}

#[test]
fn the_drop_of_a_family_that_was_not_read_conflicts_at_no_level() {
    for drop in DROPS {
        for level in LEVELS {
            let (_dir, db) = open();
            db.create_family("users", FamilyOptions::new()).unwrap();
            let transaction = db.begin(level);
            assert!(!transaction.contains("k").unwrap());
            transaction.put("k", "v").unwrap();
            drop(&db);
            assert!(!is_conflict(&transaction), "{level:?}");
        }
    }
}

#[test]
fn a_transaction_creates_families_with_their_data_or_neither() {
    for level in LEVELS {
        let fs = MemFs::new();
        let db = Options::new().fs(Arc::new(fs.clone())).open("db").unwrap();
        let users = db.prepare_family("users", FamilyOptions::new()).unwrap();
        let transaction = db.begin(level);
        let in_users = transaction.family(&users).unwrap();
        assert_eq!(in_users.put("1", "alice").unwrap_err().kind(), ErrorKind::NotFound);
        transaction.create_family(&users).unwrap();
        in_users.put("1", "alice").unwrap();
        transaction.put("table:users", "id, name").unwrap();
        assert_eq!(in_users.get("1").unwrap().unwrap(), b"alice");
        assert!(!in_users.contains("2").unwrap());
        assert_eq!(in_users.count(..).unwrap(), 1);
        assert_eq!((db.families(), db.is_empty().unwrap()), (vec!["default".to_owned()], true));
        transaction.rollback().unwrap();
        assert_eq!(db.families(), ["default"]);

        transaction.reset();
        transaction.create_family(&users).unwrap();
        let kind = transaction.create_family(&users).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::AlreadyExists);
        in_users.put("1", "alice").unwrap();
        let sequence = transaction.commit().unwrap().sequence;
        assert!(sequence > 0 && sequence <= db.snapshot().sequence());
        users.put("2", "bob").unwrap();
        // It is durable, whatever the options say.
        let lost = fs.crash_clone(Crash::PowerLoss { seed: 7 });
        let again = Options::new().fs(Arc::new(lost)).open("db").unwrap();
        assert_eq!(again.family("users").unwrap().get("1").unwrap().unwrap(), b"alice");
    }
}

#[test]
fn a_conflict_creates_and_drops_no_family() {
    let (_dir, db) = open();
    let old = db.create_family("old", FamilyOptions::new()).unwrap();
    let users = db.prepare_family("users", FamilyOptions::new()).unwrap();
    let mut runs = 0;
    db.update(|tx| {
        runs += 1;
        let seen = tx.get("k")?;
        if runs < 3 {
            db.put("k", runs.to_string())?;
        }
        tx.create_family(&users)?;
        tx.drop_family(&old)?;
        tx.family(&users)?.put("seen", seen.unwrap_or_default())?;
        if runs < 3 {
            assert_eq!(db.families(), ["default", "old"]);
        }
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!((runs, db.families()), (3, vec!["default".to_owned(), "users".to_owned()]));
    assert_eq!(users.get("seen").unwrap().unwrap(), b"2");
    assert_eq!(old.put("k", "v").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn two_transactions_that_create_the_same_name_do_not_both_commit() {
    let (_dir, db) = open();
    let [one, two] = [1, 2].map(|_| db.prepare_family("users", FamilyOptions::new()).unwrap());
    let [first, second] = [&one, &two].map(|family| {
        let transaction = db.begin(Isolation::Serializable);
        transaction.create_family(family).unwrap();
        transaction
    });
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(one.is_empty().unwrap());
    assert_eq!(two.put("k", "v").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_savepoint_takes_back_changes_of_families() {
    let (_dir, db) = open();
    let old = db.create_family("old", FamilyOptions::new()).unwrap();
    let [kept, not] =
        ["kept", "not"].map(|name| db.prepare_family(name, FamilyOptions::new()).unwrap());
    let transaction = db.begin(Isolation::Snapshot);
    transaction.create_family(&kept).unwrap();
    transaction.savepoint("here").unwrap();
    transaction.create_family(&not).unwrap();
    transaction.family(&not).unwrap().put("k", "v").unwrap();
    transaction.drop_family(&old).unwrap();
    transaction.rollback_to("here").unwrap();
    let refused = transaction.family(&not).unwrap().put("k", "v").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    transaction.commit().unwrap();
    assert_eq!(db.families(), ["default", "kept", "old"]);
}

#[test]
fn what_changes_families_cannot_be_prepared() {
    let (_dir, db) = open();
    let users = db.prepare_family("users", FamilyOptions::new()).unwrap();
    let transaction = db.begin(Isolation::Serializable);
    transaction.create_family(&users).unwrap();
    let error = transaction.prepare("id").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    // It goes on.
    transaction.commit().unwrap();
    assert_eq!(db.families(), ["default", "users"]);
}

#[test]
fn a_batch_is_applied_whole_and_belongs_to_its_database() {
    let (_dir, db) = open();
    let (_other_dir, other) = open();
    let users = db.prepare_family("users", FamilyOptions::new()).unwrap();
    let mut batch = WriteBatch::new();
    batch.create_family(&users).unwrap();
    batch.put(&users, "1", "alice").unwrap();
    batch.put(&db.default_family(), "a", "1").unwrap();
    batch.merge(&db.default_family(), "a", "2").unwrap();
    batch.delete_range(&db.default_family(), "b".."c").unwrap();
    db.put("b1", "v").unwrap();
    let transaction = db.begin(Isolation::Serializable);
    transaction.put("a", "0").unwrap();
    transaction.apply(&batch).unwrap();
    assert_eq!(transaction.apply(&batch).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(transaction.get("a").unwrap().unwrap(), b"12");
    assert!(!transaction.contains("b1").unwrap());
    assert!(transaction.family(&users).unwrap().contains("1").unwrap());
    transaction.commit().unwrap();
    assert_eq!((db.count(..).unwrap(), users.count(..).unwrap()), (1, 1));

    let foreign = other.begin(Isolation::Serializable);
    foreign.put("k", "v").unwrap();
    assert_eq!(foreign.apply(&batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let fresh = other.begin(Isolation::Serializable);
    assert_eq!(fresh.apply(&batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
