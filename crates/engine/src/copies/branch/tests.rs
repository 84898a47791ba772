//! A branch is whole or not there, keeps what it needs, and its families are not those of `main`.

use super::*;
use crate::{
    catalog::branches::{FamilyRole, MAIN},
    engine::Engine,
    fixture::{
        FaultyCall, Pairs, assert_sound, contents, crash_states, fail_each_call, files, filled,
        killed, open, pairs, put, put_range, tree_options,
    },
    read::{PinnedReader, ReadRange},
    transactions::conditional_commit::Conditions,
};
use siltdb_base::{
    fs::mem::{Crash, MemFs},
    limits::FAMILY_NAME_BYTES_MAX,
};

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
    engine.create_branch(name, parent, &heads(&engine.database().catalog, parent)?, None)
}

fn create(engine: &Engine, name: &str) -> Result<Arc<BranchRecord>> {
    create_of(engine, name, MAIN)
}

fn put_on(engine: &Engine, branch: &str, pair: (&[u8], &[u8])) {
    use crate::write::commit::Payload;
    let family =
        head(&engine.database().catalog, id_of(engine, branch).unwrap(), "default").unwrap();
    let payload = Payload::one(&family, siltdb_base::key::EntryKind::Put, pair.0, pair.1);
    engine.commit(&payload, None).unwrap();
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
fn a_branch_holds_what_its_parent_held_and_goes_its_own_way() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let before = held(&engine, MAIN);
    let record = create(&engine, "feature").unwrap();
    assert_eq!(record.families.len(), 2);
    assert!(held(&engine, "feature") == before);
    put_range(&engine, "a", 0..50, b"later");
    put_on(&engine, "feature", (b"own", b"1"));
    engine.compact_all().unwrap();
    let mut own = before.clone();
    own[0].1.push((b"own".to_vec(), b"1".to_vec()));
    assert!(held(&engine, "feature") == own);
    assert!(held(&engine, MAIN) != before);
    // The base still is what both had.
    let map = engine.database().catalog.families.load();
    let bases = record.families.iter().map(|part| map.get(part.base).unwrap());
    assert!(
        bases.map(|base| held_by(&engine, base)).eq(before.iter().map(|(_, held)| held.clone()))
    );
    let expected = (held(&engine, MAIN), held(&engine, "feature"));
    let all = |engine: &Engine| (held(engine, MAIN), held(engine, "feature"));
    assert!(all(&open(&killed(&fs))) == expected);
    engine.close().unwrap();
    assert!(all(&open(&fs)) == expected);
}

#[test]
fn families_of_branches_are_not_among_those_of_the_database() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let record = create(&engine, "feature").unwrap();
    assert_eq!(engine.family_names(), ["default", "other"]);
    let map = engine.database().catalog.families.load();
    let label = |id: FamilyId| map.label(map.get(id).unwrap()).to_string();
    assert_eq!(label(record.families[1].head), "feature/other");
    assert_eq!(label(record.families[1].base), "feature/other (base)");
    assert!(engine.family_by_id(record.families[0].head).is_ok());
    let base = engine.family_by_id(record.families[0].base).unwrap_err();
    assert_eq!(base.kind(), ErrorKind::NotFound);
    // The names stay free and taken as if there were no branch.
    engine.drop_family("other").unwrap();
    assert_eq!(engine.drop_family("other").unwrap_err().kind(), ErrorKind::NotFound);
    engine.create_family("other", tree_options()).unwrap();
    assert_eq!(held(&engine, "feature").len(), 2);
    assert!(contents(&engine, "other", None).is_empty());
    // A batch cannot take a family out of a branch.
    let dropped = vec![record.families[0].head];
    let changes = crate::catalog::family::FamilyChanges { dropped, ..Default::default() };
    let batch = siltdb_disk::batch::BatchBytes::new();
    let refused = engine
        .commit_with_families(&batch, &changes, &Conditions::none(&engine.database().options))
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let listed = crate::open::family_names::family_names(&killed(&fs), "db".as_ref()).unwrap();
    assert_eq!(listed, ["default", "other"]);
}

#[test]
fn a_branch_at_a_snapshot_sees_what_the_snapshot_sees() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let (moment, expected) = (engine.snapshot(), held(&engine, MAIN));
    put_range(&engine, "a", 50..400, b"later");
    engine.flush().unwrap();
    let sources = heads(&engine.database().catalog, BranchId::MAIN).unwrap();
    let record = engine.create_branch("at", BranchId::MAIN, &sources, Some(&moment)).unwrap();
    assert_eq!(record.begun, moment.sequence());
    drop(moment);
    assert!(held(&engine, "at") == expected);
    engine.compact_all().unwrap();
    assert!(held(&engine, "at") == expected);
    assert!(held(&open(&killed(&fs)), "at") == expected);
}

#[test]
fn a_branch_is_whole_or_not_there_when_it_is_created() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    engine.sync_wal().unwrap();
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
            engine.drop_branch("feature").unwrap();
        }
        assert_eq!(engine.database().catalog.families.load().len(), 2, "state {number}");
        create(&engine, "feature").unwrap();
        assert!(held(&engine, "feature") == expected, "state {number}");
        assert_sound(&engine);
    }
    assert!(whole > 5 && whole < states.len(), "{whole} of {}", states.len());
}

/// Crashes at each call of a change, and counts the states before and after it.
fn crash_at(change: impl Fn(&Engine) -> Result<()>) {
    let fs = MemFs::new();
    let engine = filled(&fs);
    create(&engine, "feature").unwrap();
    create_of(&engine, "child", "feature").unwrap();
    put_on(&engine, "feature", (b"own", b"1"));
    engine.sync_wal().unwrap();
    let look = |engine: &Engine| {
        let (names, checked_out) = names(engine);
        let held: Vec<_> = names.iter().map(|name| held(engine, name)).collect();
        (names, checked_out, held, held_main(engine))
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
        assert_sound(&engine);
        drop(engine);
        // No file is left over, and none is missing.
        let tables = files(state, ".table");
        drop(open(state));
        assert_eq!(files(state, ".table"), tables, "state {number}");
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

fn held_main(engine: &Engine) -> Held {
    held(engine, MAIN)
}

#[test]
fn a_branch_is_dropped_as_a_whole_or_not_at_all() {
    crash_at(|engine| engine.drop_branch("feature"));
}

#[test]
fn a_branch_is_renamed_or_not() {
    crash_at(|engine| engine.rename_branch("feature", "renamed"));
}

#[test]
fn a_branch_is_checked_out_or_not() {
    crash_at(|engine| engine.check_out("child"));
}

#[test]
fn a_branch_that_cannot_be_created_leaves_no_family_and_no_file() {
    let ready = MemFs::new();
    drop(filled(&ready));
    let before = |engine: &Engine| held(engine, MAIN);
    fail_each_call(
        &ready,
        5,
        before,
        |engine| create(engine, "feature"),
        |call| {
            let FaultyCall { fs, engine, before, is_err, nth } = call;
            if is_err {
                assert_eq!(engine.database().catalog.families.load().len(), 2, "call {nth}");
                assert!(held(&engine, MAIN) == before, "call {nth}");
            }
            let is_poisoned = engine.database().health.failure().is_some();
            assert!(is_poisoned || create(&engine, "again").is_ok(), "call {nth}");
            drop(engine);
            let engine = open(&fs);
            assert!(names(&engine).0.len() <= 2 && held(&engine, MAIN) == before, "call {nth}");
        },
    );
}

#[test]
fn a_branch_of_a_branch_outlives_its_parent_and_the_space_comes_back_with_the_last() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    engine.flush().unwrap();
    let (expected, shared) = (held(&engine, MAIN), files(&fs, ".table"));
    create(&engine, "parent").unwrap();
    put_on(&engine, "parent", (b"own", b"1"));
    let with_own = held(&engine, "parent");
    let child = create_of(&engine, "child", "parent").unwrap();
    engine.drop_branch("parent").unwrap();
    assert!(held(&engine, "child") == with_own && with_own != expected);
    assert!(engine.database().catalog.families.load().branches().name(child.parent).is_none());
    let families = [b"a", b"k"].map(|key| (key, [key[0] + 1]));
    for (from, to) in families {
        for name in ["default", "other"] {
            let family = engine.database().catalog.families.named(name).unwrap();
            let kind = siltdb_base::key::EntryKind::RangeDelete;
            let payload = crate::write::commit::Payload::one(&family, kind, from, &to);
            engine.commit(&payload, None).unwrap();
        }
    }
    engine.compact_all().unwrap();
    engine.settle().unwrap();
    assert!(held(&engine, MAIN).iter().all(|(_, held)| held.is_empty()));
    for state in [killed(&fs), fs.crash_clone(Crash::PowerLoss { seed: 1 })] {
        assert!(held(&open(&state), "child") == with_own);
    }
    engine.drop_branch("child").unwrap();
    // The purge comes with the next job.
    put(&engine, "default", b"next", b"");
    engine.flush().unwrap();
    let left = files(&fs, ".table");
    assert!(shared.iter().all(|file| !left.contains(file)), "{shared:?} and {left:?}");
    drop(engine);
    drop(open(&fs));
    assert_eq!(files(&fs, ".table"), left, "an orphan");
}

/// With runs in level 0 that are due for a compaction.
#[test]
fn a_base_is_never_compacted_and_delays_no_writer() {
    let fs = MemFs::new();
    let engine = open(&fs);
    for value in 0..12 {
        let pause = engine.pause_background().unwrap();
        put_range(&engine, "a", 0..100, &[value; 50]);
        engine.flush().unwrap();
        drop(pause);
    }
    let record = create(&engine, "feature").unwrap();
    let part = record.families[0];
    let references = |engine: &Engine, id| {
        let view = engine.database().catalog.families.load().get(id).unwrap().tree.view().clone();
        let found = view.version.references().map(|(level, table)| (level, table.clone()));
        found.collect::<Vec<_>>()
    };
    let before = references(&engine, part.base);
    assert!(!before.is_empty() && before == references(&engine, part.head));
    engine.settle().unwrap();
    engine.compact_all().unwrap();
    assert!(references(&engine, part.head) != before);
    assert!(references(&engine, part.base) == before);
    assert!(references(&open(&killed(&fs)), part.base) == before);
    engine.settle().unwrap();
    assert_eq!(
        engine.database().catalog.families.load().get(part.base).unwrap().role,
        FamilyRole::Base
    );
}

#[test]
fn a_manifest_that_is_begun_anew_has_the_branches() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    create(&engine, "feature").unwrap();
    put_on(&engine, "feature", (b"own", b"1"));
    create_of(&engine, "child", "feature").unwrap();
    engine.check_out("child").unwrap();
    let look = |engine: &Engine| {
        (names(engine), held(engine, MAIN), held(engine, "feature"), held(engine, "child"))
    };
    let expected = look(&engine);
    engine.close().unwrap();
    crate::fixture::leave_manifest_unfinished(&fs);
    let engine = open(&fs);
    // The next edit begins a manifest with a snapshot of all there was.
    engine.create_family("another", tree_options()).unwrap();
    engine.drop_family("another").unwrap();
    assert!(look(&engine) == expected);
    assert!(look(&open(&killed(&fs))) == expected);
}

#[test]
fn what_cannot_be_done_with_branches_is_refused_by_name() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    create(&engine, "feature").unwrap();
    create(&engine, "other").unwrap();
    let flushes = engine.database().stats().flushes;
    let kind = |result: Result<()>| result.unwrap_err().kind();
    let made = |name: &str| create(&engine, name).map(drop);
    let long = "n".repeat(FAMILY_NAME_BYTES_MAX + 1);
    assert_eq!(kind(made("feature")), ErrorKind::AlreadyExists);
    assert_eq!(kind(made(MAIN)), ErrorKind::AlreadyExists);
    for name in ["", "a\nb", &long] {
        assert_eq!(kind(made(name)), ErrorKind::InvalidArgument);
        assert_eq!(kind(engine.rename_branch("feature", name)), ErrorKind::InvalidArgument);
    }
    let none = engine.create_branch("none", BranchId::MAIN, &[], None).map(drop);
    assert_eq!(kind(none), ErrorKind::InvalidArgument);
    assert_eq!(kind(engine.drop_branch("unknown")), ErrorKind::NotFound);
    assert_eq!(kind(engine.check_out("unknown")), ErrorKind::NotFound);
    assert_eq!(kind(engine.rename_branch("unknown", "x")), ErrorKind::NotFound);
    assert_eq!(kind(engine.rename_branch("feature", "other")), ErrorKind::AlreadyExists);
    assert_eq!(kind(engine.rename_branch("feature", MAIN)), ErrorKind::AlreadyExists);
    assert_eq!(kind(engine.rename_branch(MAIN, "x")), ErrorKind::InvalidArgument);
    assert_eq!(kind(engine.drop_branch(MAIN)), ErrorKind::InvalidArgument);
    engine.check_out("feature").unwrap();
    assert_eq!(kind(engine.drop_branch("feature")), ErrorKind::InvalidArgument);
    assert_eq!(
        engine.database().stats().flushes,
        flushes,
        "a branch that cannot be was flushed for"
    );
    assert_eq!(names(&engine), (vec!["feature".into(), "other".into()], "feature".into()));
    let missing = head(&engine.database().catalog, id_of(&engine, "feature").unwrap(), "unknown")
        .unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    made(&long[1..]).unwrap();
    engine.check_out(MAIN).unwrap();
    engine.drop_branch("feature").unwrap();
    engine.close().unwrap();
    assert_eq!(kind(made("late")), ErrorKind::Closed);
}

#[test]
fn the_families_of_branches_count_among_those_of_the_database() {
    assert!(check_room(FAMILIES_MAX).is_ok());
    let error = check_room(FAMILIES_MAX + 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("counts as two"), "{error}");
}
