//! Tests of kept databases: which rows share them, and how long they stay.

use super::Stores;
use crate::{
    engine::{Arm, Failure},
    pass::store,
    suite::{Chosen, Overrides, suites},
};

fn rows(ids: &[&str]) -> Vec<Chosen> {
    let arm = Arm::Equal;
    let overrides = Overrides { scale: 0.001, arm, ..Overrides::default() };
    let suites = suites();
    let suite = suites.iter().find(|suite| suite.suite == "tidesdb-v7").unwrap();
    let row = |id: &&str| suite.rows.iter().find(|row| row.id == *id).unwrap();
    let engines = vec!["siltdb".to_owned(), "null".to_owned()];
    let choose = |id| Chosen { engines: engines.clone(), ..suite.choose(row(id), &overrides) };
    ids.iter().map(choose).collect()
}

#[test]
fn rows_share_what_was_made_alike_until_the_last_of_them() {
    let rows = rows(&["random-get", "random-get/compacted", "get-miss", "random-write/batch-1000"]);
    let dir = tempfile::tempdir().unwrap();
    let mut stores = Stores::new(&rows, dir.path().to_owned());
    let first = stores.of("siltdb", &rows[0]).unwrap().unwrap();
    let compacted = stores.of("siltdb", &rows[1]).unwrap().unwrap();
    assert_eq!(stores.of("siltdb", &rows[2]).unwrap().unwrap(), first);
    assert_ne!(first, compacted, "another state");
    assert_ne!(stores.of("null", &rows[0]).unwrap().unwrap(), first, "another engine");
    assert_eq!(stores.of("siltdb", &rows[3]).unwrap(), None, "it writes into an empty database");
    stores.done(1);
    assert!(first.exists() && !compacted.exists());
    stores.done(2);
    assert!(!first.exists());
    let bytes = rows[0].config.bytes_max * 4;
    let at: Vec<u64> = (0..4).map(|index| stores.bytes_at(index)).collect();
    assert_eq!(at, [bytes, bytes * 2, bytes, 0], "two engines, twice their bytes");
}

#[test]
fn what_cannot_be_had_is_not_tried_again() {
    let rows = rows(&["random-get", "get-miss"]);
    let dir = tempfile::tempdir().unwrap();
    let mut stores = Stores::new(&rows, dir.path().to_owned());
    let path = stores.of("siltdb", &rows[0]).unwrap().unwrap();
    stores.refuse("siltdb", &rows[0], Failure::capped("too slow"));
    assert_eq!(stores.of("siltdb", &rows[1]), Err(Failure::capped("too slow")));
    assert!(!path.exists() && stores.of("null", &rows[1]).is_ok());
}

#[test]
fn a_row_that_was_cut_off_after_its_seed_leaves_the_database_to_those_to_come() {
    let rows = rows(&["random-get", "get-miss"]);
    let dir = tempfile::tempdir().unwrap();
    let mut stores = Stores::new(&rows, dir.path().to_owned());
    let failure = Failure::capped("too slow");
    let path = stores.of("siltdb", &rows[0]).unwrap().unwrap();
    store::fill(&path, |_| Ok(((), Vec::new()))).unwrap();
    stores.cut_off("siltdb", &rows[0], &failure);
    assert_eq!(stores.of("siltdb", &rows[1]), Ok(Some(path)));
    let unfilled = stores.of("null", &rows[0]).unwrap().unwrap();
    stores.cut_off("null", &rows[0], &failure);
    assert_eq!(stores.of("null", &rows[1]), Err(failure));
    assert!(!unfilled.exists());
}
