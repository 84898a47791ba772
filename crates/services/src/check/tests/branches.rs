//! After a crash at any call that changes branches, a check finds nothing wrong, and the change is
//! made or not.

use super::assert_clean;
use siltdb_base::{
    error::Result,
    fs::mem::{Crash, MemFs},
};
use siltdb_engine::{
    catalog::branches::MAIN,
    engine::Engine,
    fixture::{
        branches::{
            check_out, create, create_of, drop_branch, held, id_of, names, put_on, rename_branch,
        },
        crash_states, files, filled, killed, open, sync_wal,
    },
};

/// The states after a call has returned.
fn states_after(fs: &MemFs) -> Vec<MemFs> {
    (0..5).map(|seed| fs.crash_clone(Crash::PowerLoss { seed })).chain([killed(fs)]).collect()
}

#[test]
fn a_branch_is_whole_or_not_there_when_it_is_created() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    sync_wal(&engine).unwrap();
    let expected = held(&engine, MAIN);
    let mut states = crash_states(&fs, || drop(create(&engine, "feature").unwrap()));
    let inside = states.len();
    assert!(inside > 10, "{inside}");
    states.extend(states_after(&fs));
    let mut whole = 0;
    for (number, state) in states.iter().enumerate() {
        let engine = open(state);
        let is_there = id_of(&engine, "feature").is_some();
        assert!(is_there || number < inside, "a branch that was created is lost");
        assert!(held(&engine, MAIN) == expected, "state {number}");
        if is_there {
            whole += 1;
            assert!(held(&engine, "feature") == expected, "state {number}");
            drop_branch(&engine, "feature").unwrap();
        }
        assert_eq!(engine.database().catalog.families.load().len(), 2, "state {number}");
        create(&engine, "feature").unwrap();
        assert!(held(&engine, "feature") == expected, "state {number}");
        assert_clean(&engine);
    }
    assert!(whole > 5 && whole < states.len(), "{whole} of {}", states.len());
}

/// Crashes at each call of a change, and counts the states before and after it.
fn crash_at(change: impl Fn(&Engine) -> Result<()>) {
    let fs = MemFs::new();
    let engine = filled(&fs);
    create(&engine, "feature").unwrap();
    create_of(&engine, "child", "feature").unwrap();
    put_on(&engine, "feature", b"own", b"1");
    sync_wal(&engine).unwrap();
    let look = |engine: &Engine| {
        let (names, checked_out) = names(engine);
        let of_branches: Vec<_> = names.iter().map(|name| held(engine, name)).collect();
        (names, checked_out, of_branches, held(engine, MAIN))
    };
    let before = look(&engine);
    let mut states = crash_states(&fs, || change(&engine).unwrap());
    let (inside, after) = (states.len(), look(&engine));
    assert!(before != after && inside > 0);
    states.extend(states_after(&fs));
    let mut counts = [0, 0];
    for (number, state) in states.iter().enumerate() {
        let engine = open(state);
        let found = look(&engine);
        assert!(found == before && number < inside || found == after, "state {number}");
        counts[usize::from(found == after)] += 1;
        assert_clean(&engine);
        drop(engine);
        // No file is left over, and none is missing.
        let tables = files(state, ".table");
        drop(open(state));
        assert_eq!(files(state, ".table"), tables, "state {number}");
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_branch_is_dropped_as_a_whole_or_not_at_all() {
    crash_at(|engine| drop_branch(engine, "feature"));
}

#[test]
fn a_branch_is_renamed_or_not() {
    crash_at(|engine| rename_branch(engine, "feature", "renamed"));
}

#[test]
fn a_branch_is_checked_out_or_not() {
    crash_at(|engine| check_out(engine, "child"));
}
