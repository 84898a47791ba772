//! Tests of stores: a store is filled once and copied as often as requested.

use super::*;
use crate::{engine::Failure, measure::disk_bytes};
use std::os::unix::fs::FileExt;

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

#[test]
fn a_fresh_copy_has_nothing_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let (store, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let make = |database: &Path| {
        fs::write(database.join("log"), "commits")?;
        Ok(((), vec![phase(1)]))
    };
    fill(&store, make).unwrap();
    copy_anew(&copy, &store).unwrap();
    fs::write(copy.join("log"), "").unwrap();
    fs::write(copy.join("table"), "flushed").unwrap();
    copy_anew(&copy, &store).unwrap();
    assert_eq!(fs::read_to_string(copy.join("log")).unwrap(), "commits");
    assert!(!copy.join("table").exists());
}

#[test]
fn holes_stay_holes() {
    const LENGTH: u64 = 1 << 30;
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for folder in [&from, &to] {
        fs::create_dir(folder).unwrap();
    }
    let pieces = [(0, "at the front"), (300 << 20, "in the middle")];
    let file = File::create(from.join("log")).unwrap();
    file.set_len(LENGTH).unwrap();
    pieces.iter().for_each(|(at, text)| file.write_all_at(text.as_bytes(), *at).unwrap());
    File::create(from.join("empty")).unwrap();
    copy(&from, &to).unwrap();
    let copied = File::open(to.join("log")).unwrap();
    for (at, text) in pieces {
        // Larger than the text, to see the zeros around it.
        let mut found = vec![1; text.len() + 100];
        copied.read_exact_at(&mut found, at).unwrap();
        assert_eq!(found, [text.as_bytes(), &[0; 100]].concat());
    }
    assert_eq!(copied.metadata().unwrap().len(), LENGTH);
    assert_eq!(fs::metadata(to.join("empty")).unwrap().len(), 0);
    assert!(disk_bytes(&to).unwrap() <= 1 << 20);
}
