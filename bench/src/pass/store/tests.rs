//! A store is filled once and copied as often as asked.

use super::*;
use crate::engine::Failure;

fn phase(ops: u64) -> Phase {
    Phase { ops, seconds: 1.0 }
}

#[test]
fn a_store_is_filled_once_and_each_copy_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let make = |database: &Path| {
        fs::create_dir(database.join("inner"))?;
        fs::write(database.join("inner/table"), "rows")?;
        Ok(vec![phase(7)])
    };
    let first = dir.path().join("first");
    assert_eq!(copy_to(&first, &store, make).unwrap()[0].ops, 7);
    fs::write(first.join("inner/table"), "changed").unwrap();
    let second = dir.path().join("second");
    let again = |_: &Path| -> Result<Vec<Phase>> { unreachable!("it is filled") };
    assert_eq!(copy_to(&second, &store, again).unwrap()[0].ops, 7);
    assert_eq!(fs::read_to_string(second.join("inner/table")).unwrap(), "rows");
}

#[test]
fn what_an_attempt_that_failed_left_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (store, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let fails = |database: &Path| {
        fs::write(database.join("half"), "")?;
        Err(Failure::error("full"))
    };
    assert!(copy_to(&copy, &store, fails).is_err() && !copy.exists());
    copy_to(&copy, &store, |_| Ok(vec![phase(1)])).unwrap();
    assert_eq!(fs::read_dir(&copy).unwrap().count(), 0);
}
