//! A branch is whole or not there, keeps what it needs, and its families are not those of `main`.

use super::*;
use crate::{
    catalog::branches::{FamilyRole, MAIN},
    database::writable::Writable,
    engine::{Engine, pause::BackgroundPause},
    fixture::{
        FaultyCall,
        branches::{
            check_out, create, create_of, create_with, drop_branch, held, held_by, id_of, names,
            put_on, rename_branch,
        },
        commit_payload, commit_with_families, compact_all, contents, create_family, drop_family,
        fail_each_call, files, filled, flush, killed, open, put, put_range, settle, snapshot,
        tree_options,
    },
    transactions::conditional_commit::Conditions,
};
use siltdb_base::{
    fs::mem::{Crash, MemFs},
    limits::FAMILY_NAME_BYTES_MAX,
};

#[test]
fn a_branch_holds_what_its_parent_held_and_goes_its_own_way() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let before = held(&engine, MAIN);
    let record = create(&engine, "feature").unwrap();
    assert_eq!(record.families.len(), 2);
    assert!(held(&engine, "feature") == before);
    put_range(&engine, "a", 0..50, b"later");
    put_on(&engine, "feature", b"own", b"1");
    compact_all(&engine).unwrap();
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
    assert_eq!(engine.database().catalog.families.names(), ["default", "other"]);
    let map = engine.database().catalog.families.load();
    let label = |id: FamilyId| map.label(id, &map.name(id).unwrap()).to_string();
    assert_eq!(label(record.families[1].head), "feature/other");
    assert_eq!(label(record.families[1].base), "feature/other (base)");
    assert!(engine.database().catalog.families.of_id(record.families[0].head).is_ok());
    let base = engine.database().catalog.families.of_id(record.families[0].base).unwrap_err();
    assert_eq!(base.kind(), ErrorKind::NotFound);
    // The names stay free and taken as if there were no branch.
    drop_family(&engine, "other").unwrap();
    assert_eq!(drop_family(&engine, "other").unwrap_err().kind(), ErrorKind::NotFound);
    create_family(&engine, "other", tree_options()).unwrap();
    assert_eq!(held(&engine, "feature").len(), 2);
    assert!(contents(&engine, "other", None).is_empty());
    // A batch cannot take a family out of a branch.
    let dropped = vec![record.families[0].head];
    let changes = crate::catalog::family::FamilyChanges { dropped, ..Default::default() };
    let batch = siltdb_disk::batch::BatchBytes::new();
    let refused = commit_with_families(
        &engine,
        &batch,
        &changes,
        &Conditions::none(&engine.database().options),
    )
    .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let listed = crate::open::family_names::family_names(&killed(&fs), "db".as_ref()).unwrap();
    assert_eq!(listed, ["default", "other"]);
}

#[test]
fn a_branch_at_a_snapshot_sees_what_the_snapshot_sees() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let (moment, expected) = (snapshot(&engine), held(&engine, MAIN));
    put_range(&engine, "a", 50..400, b"later");
    flush(&engine).unwrap();
    let sources = heads(&engine.database().catalog, BranchId::MAIN).unwrap();
    let create = |database: Writable<'_>| {
        create_branch(&database.job_rooms(), "at", BranchId::MAIN, &sources, &moment)
    };
    let record = engine.at_work(create).unwrap();
    assert_eq!(record.begun, moment.sequence());
    drop(moment);
    assert!(held(&engine, "at") == expected);
    compact_all(&engine).unwrap();
    assert!(held(&engine, "at") == expected);
    assert!(held(&open(&killed(&fs)), "at") == expected);
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
    flush(&engine).unwrap();
    let (expected, shared) = (held(&engine, MAIN), files(&fs, ".table"));
    create(&engine, "parent").unwrap();
    put_on(&engine, "parent", b"own", b"1");
    let with_own = held(&engine, "parent");
    let child = create_of(&engine, "child", "parent").unwrap();
    drop_branch(&engine, "parent").unwrap();
    assert!(held(&engine, "child") == with_own && with_own != expected);
    assert!(engine.database().catalog.families.load().branches().name(child.parent).is_none());
    let families = [b"a", b"k"].map(|key| (key, [key[0] + 1]));
    for (from, to) in families {
        for name in ["default", "other"] {
            let family = engine.database().catalog.families.named(name).unwrap();
            let kind = siltdb_base::key::EntryKind::RangeDelete;
            let payload = crate::write::commit::Payload::one(&family, kind, from, &to);
            commit_payload(&engine, &payload).unwrap();
        }
    }
    compact_all(&engine).unwrap();
    settle(&engine).unwrap();
    assert!(held(&engine, MAIN).iter().all(|(_, held)| held.is_empty()));
    for state in [killed(&fs), fs.crash_clone(Crash::PowerLoss { seed: 1 })] {
        assert!(held(&open(&state), "child") == with_own);
    }
    drop_branch(&engine, "child").unwrap();
    // The purge comes with the next job.
    put(&engine, "default", b"next", b"");
    flush(&engine).unwrap();
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
        let pause = BackgroundPause::begin(&engine).unwrap();
        put_range(&engine, "a", 0..100, &[value; 50]);
        flush(&engine).unwrap();
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
    settle(&engine).unwrap();
    compact_all(&engine).unwrap();
    assert!(references(&engine, part.head) != before);
    assert!(references(&engine, part.base) == before);
    assert!(references(&open(&killed(&fs)), part.base) == before);
    settle(&engine).unwrap();
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
    put_on(&engine, "feature", b"own", b"1");
    create_of(&engine, "child", "feature").unwrap();
    check_out(&engine, "child").unwrap();
    let look = |engine: &Engine| {
        (names(engine), held(engine, MAIN), held(engine, "feature"), held(engine, "child"))
    };
    let expected = look(&engine);
    engine.close().unwrap();
    crate::fixture::leave_manifest_unfinished(&fs);
    let engine = open(&fs);
    // The next edit begins a manifest with a snapshot of all there was.
    create_family(&engine, "another", tree_options()).unwrap();
    drop_family(&engine, "another").unwrap();
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
        assert_eq!(kind(rename_branch(&engine, "feature", name)), ErrorKind::InvalidArgument);
    }
    let none = create_with(&engine, "none", BranchId::MAIN, &[]).map(drop);
    assert_eq!(kind(none), ErrorKind::InvalidArgument);
    assert_eq!(kind(drop_branch(&engine, "unknown")), ErrorKind::NotFound);
    assert_eq!(kind(check_out(&engine, "unknown")), ErrorKind::NotFound);
    assert_eq!(kind(rename_branch(&engine, "unknown", "x")), ErrorKind::NotFound);
    assert_eq!(kind(rename_branch(&engine, "feature", "other")), ErrorKind::AlreadyExists);
    assert_eq!(kind(rename_branch(&engine, "feature", MAIN)), ErrorKind::AlreadyExists);
    assert_eq!(kind(rename_branch(&engine, MAIN, "x")), ErrorKind::InvalidArgument);
    assert_eq!(kind(drop_branch(&engine, MAIN)), ErrorKind::InvalidArgument);
    check_out(&engine, "feature").unwrap();
    assert_eq!(kind(drop_branch(&engine, "feature")), ErrorKind::InvalidArgument);
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
    check_out(&engine, MAIN).unwrap();
    drop_branch(&engine, "feature").unwrap();
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
