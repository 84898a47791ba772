//! Names of transactions, and which one is current.

use super::*;
use siltdb::Db;

#[test]
fn the_current_one_is_the_one_that_began_last_or_was_switched_to() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db")).unwrap();
    let mut transactions = Transactions::default();
    let begin = |transactions: &mut Transactions, name: &str| {
        transactions.check_new(name).unwrap();
        let transaction = db.begin(Isolation::Snapshot);
        let durability = Durability::Buffered;
        transactions.add(Open { name: name.to_owned(), transaction, durability });
    };
    assert_eq!(transactions.free_name(), "t1");
    begin(&mut transactions, "t1");
    begin(&mut transactions, "a");
    assert_eq!(transactions.free_name(), "t2");
    assert_eq!(transactions.current(), Some("a"));
    // A command in another transaction leaves the current one current, unless it ends it.
    transactions.switch(Some("t1")).unwrap();
    transactions.go_back("t1", Some("a".to_owned()));
    assert_eq!(transactions.current(), Some("a"));
    assert_eq!(transactions.take(None).unwrap().name, "a");
    assert_eq!(transactions.current(), None);
    transactions.go_back("a", Some("a".to_owned()));
    assert_eq!(transactions.current(), None);
    assert!(transactions.find(None).is_err() && transactions.switch(Some("a")).is_err());
    assert_eq!(transactions.take(Some("t1")).unwrap().name, "t1");
}

#[test]
fn names_and_their_number_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db")).unwrap();
    let mut transactions = Transactions::default();
    for bad in ["", "to", "TO", "a b", "a:", "é", &"n".repeat(NAME_BYTES_MAX + 1)] {
        assert!(transactions.check_new(bad).is_err(), "{bad}");
    }
    transactions.check_new(&"n".repeat(NAME_BYTES_MAX)).unwrap();
    for _ in 0..OPEN_MAX {
        let name = transactions.free_name();
        transactions.check_new(&name).unwrap();
        let transaction = db.begin(Isolation::Snapshot);
        transactions.add(Open { name, transaction, durability: Durability::Buffered });
    }
    assert!(transactions.check_new("one-more").is_err());
    assert!(transactions.roll_back_all().is_some_and(|text| text.contains("t100, 0 operations")));
    transactions.check_new("t1").unwrap();
    assert_eq!(transactions.roll_back_all(), None);
}
