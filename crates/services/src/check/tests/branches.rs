//! After a crash at any call that changes branches, a check finds nothing wrong, and the change is
//! made or not.

use super::assert_clean;
use siltdb_base::{
    error::Result,
    fs::mem::{Crash, MemFs},
    id::BranchId,
    key::EntryKind,
};
use siltdb_disk::branch_record::BranchRecord;
use siltdb_engine::{
    catalog::{branches::MAIN, family::FamilyData},
    copies::branch::{self, create_branch, head, heads},
    engine::Engine,
    fixture::{
        Pairs, commit_payload, crash_states, files, filled, killed, open, pairs, snapshot, sync_wal,
    },
    read::{PinnedReader, ReadRange},
    write::commit::Payload,
};
use std::sync::Arc;

/// All families of a branch with what they hold.
type Held = Vec<(String, Pairs)>;

fn id_of(engine: &Engine, name: &str) -> Option<BranchId> {
    let families = engine.database().catalog.families.load();
    let record = families.branches().named(name).ok()?;
    Some(record.map_or(BranchId::MAIN, |record| record.id))
}

fn held_by(engine: &Engine, family: &FamilyData) -> Pairs {
    let reader = PinnedReader::new(&engine.database().read_rooms(), family, None).unwrap();
    pairs(reader.cursor(ReadRange::default()).unwrap())
}

fn held(engine: &Engine, branch: &str) -> Held {
    let heads = heads(&engine.database().catalog, id_of(engine, branch).unwrap()).unwrap();
    heads.iter().map(|head| (head.name().to_string(), held_by(engine, head))).collect()
}

fn create_of(engine: &Engine, name: &str, parent: &str) -> Result<Arc<BranchRecord>> {
    let parent = id_of(engine, parent).unwrap();
    create_with(engine, name, parent, &heads(&engine.database().catalog, parent)?)
}

fn create_with(
    engine: &Engine,
    name: &str,
    parent: BranchId,
    sources: &[Arc<FamilyData>],
) -> Result<Arc<BranchRecord>> {
    let now = snapshot(engine);
    engine.at_work(|database| create_branch(&database.job_rooms(), name, parent, sources, &now))
}

fn drop_branch(engine: &Engine, name: &str) -> Result<()> {
    engine.at_work(|database| branch::drop_branch(&database.installer(), name))
}

fn rename_branch(engine: &Engine, name: &str, to: &str) -> Result<()> {
    engine.at_work(|database| branch::rename_branch(&database.installer(), name, to))
}

fn check_out(engine: &Engine, name: &str) -> Result<()> {
    engine.at_work(|database| branch::check_out(&database.installer(), name))
}

fn create(engine: &Engine, name: &str) -> Result<Arc<BranchRecord>> {
    create_of(engine, name, MAIN)
}

fn put_on(engine: &Engine, branch: &str, key: &[u8], value: &[u8]) {
    let family =
        head(&engine.database().catalog, id_of(engine, branch).unwrap(), "default").unwrap();
    let payload = Payload::one(&family, EntryKind::Put, key, value);
    commit_payload(engine, &payload).unwrap();
}

/// The names of all branches but `main`, the parent's name of each, and what is checked out.
fn names(engine: &Engine) -> (Vec<String>, String) {
    let families = engine.database().catalog.families.load();
    let branches = families.branches();
    let mut names: Vec<String> = branches.iter().map(|record| record.name.clone()).collect();
    names.sort();
    (names, branches.name(branches.checked_out()).unwrap().to_owned())
}

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
