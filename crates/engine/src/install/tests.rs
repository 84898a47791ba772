//! Edits: a replay restores the state, an edit is durable before it is visible, and a failing one
//! changes nothing (laws M1 and M2).

use super::*;
use crate::{
    database::{Database, job_rooms::Waiting},
    engine::Engine,
    fixture::{
        DIR, FamilyPicture, Pairs, commit_payload, contents, create_family, drop_family, fault,
        files, flush, killed, leave_manifest_unfinished, open, options, picture, put, put_range,
        rename_family, run_job, settle, tree_options,
    },
    jobs::next::run_one,
    open::recovery,
    options::EngineOptions,
    write::commit::Payload,
};
use siltdb_base::{
    fs::{
        FileLock,
        mem::{Crash, FaultError, MemFs},
    },
    key::EntryKind,
    limits::FAMILY_NAME_BYTES_MAX,
};
use siltdb_disk::edit::TableReference;
use std::{path::Path, sync::Mutex};

/// One edit.
struct Step {
    name: &'static str,
    /// The steps that it needs before it.
    prepare: fn(&Engine),
    change: fn(&Engine) -> Result<()>,
}

const STEPS: [Step; 5] = [
    Step {
        name: "create",
        prepare: |_| {},
        change: |engine| create_family(engine, "first", tree_options()).map(|_| ()),
    },
    Step {
        name: "flush",
        prepare: |engine| {
            put_range(engine, "a", 0..200, &[1; 50]);
            put(engine, "first", b"key", b"value");
        },
        change: flush,
    },
    Step {
        name: "merge",
        prepare: |engine| {
            for value in 2..6 {
                put_range(engine, "a", 100..200, &[value; 50]);
                flush(engine).unwrap();
            }
        },
        change: |engine| run_job(engine).map(|_| ()),
    },
    Step {
        name: "rename",
        prepare: |_| {},
        change: |engine| rename_family(engine, "first", "second"),
    },
    Step { name: "drop", prepare: |_| {}, change: |engine| drop_family(engine, "second") },
];

impl Step {
    fn run(&self, engine: &Engine) {
        (self.prepare)(engine);
        let before = picture(engine);
        (self.change)(engine).unwrap();
        assert_ne!(picture(engine), before, "{} changed nothing", self.name);
    }
}

/// The state that the next process sees.
fn recovered(fs: &MemFs) -> Vec<FamilyPicture> {
    picture(&open(fs))
}

#[test]
fn replaying_the_manifest_gives_the_version_that_was() {
    let fs = MemFs::new();
    let mut engine = open(&fs);
    for step in &STEPS {
        step.run(&engine);
        let was = picture(&engine);
        assert_eq!(recovered(&killed(&fs)), was, "after {}", step.name);
        // The next edit begins a manifest with a snapshot of the whole state.
        if step.name == "flush" {
            engine.close().unwrap();
            leave_manifest_unfinished(&fs);
            engine = open(&fs);
            assert_eq!(picture(&engine), was);
        }
    }
}

#[test]
fn a_manifest_that_is_full_is_begun_anew_and_says_the_same() {
    let fs = MemFs::new();
    let engine = open(&fs);
    STEPS[..3].iter().for_each(|step| step.run(&engine));
    let names = ["n".repeat(FAMILY_NAME_BYTES_MAX), "m".repeat(FAMILY_NAME_BYTES_MAX)];
    rename_family(&engine, "first", &names[0]).unwrap();
    let old = files(&fs, ".manifest");
    let mut edits = 0;
    while files(&fs, ".manifest") == old {
        rename_family(&engine, &names[edits % 2], &names[(edits + 1) % 2]).unwrap();
        edits += 1;
        assert!(edits < 10_000, "the manifest grows without end");
    }
    assert_eq!(files(&fs, ".manifest").len(), 1);
    assert_eq!(recovered(&fs.crash_clone(Crash::PowerLoss { seed: 1 })), picture(&engine));
    rename_family(&engine, &names[edits % 2], "last").unwrap();
    assert_eq!(recovered(&killed(&fs)), picture(&engine));
}

/// Power fails before each call that reaches the disk. What was visible by then is there
/// afterwards, and at most the pending edit in addition.
#[test]
fn an_edit_is_durable_first_and_visible_then() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let seen = Arc::new(Mutex::new(Vec::new()));
    {
        let (disk, engine, seen) = (fs.clone(), engine.clone(), Arc::clone(&seen));
        fs.on_call(Some(Arc::new(move |call| {
            let lost = disk.crash_clone(Crash::PowerLoss { seed: call.number });
            lock(&seen).push((picture(&engine), recovered(&lost)));
        })));
    }
    STEPS.iter().for_each(|step| step.run(&engine));
    fs.on_call(None);
    let mut seen = std::mem::take(&mut *lock(&seen));
    seen.push((picture(&engine), recovered(&killed(&fs))));
    let mut ahead = 0;
    for (index, (visible, durable)) in seen.iter().enumerate() {
        let later = seen[index..].iter().map(|(visible, _)| visible);
        let next = later.into_iter().find(|later| *later != visible);
        let is_ahead = next == Some(durable);
        assert!(visible == durable || is_ahead, "{visible:#?} is visible, {durable:#?} durable");
        ahead += usize::from(is_ahead);
    }
    assert!(ahead >= STEPS.len(), "no edit is durable and visible at once");
}

#[test]
fn a_failing_edit_leaves_everything_as_it_was() {
    for error in [FaultError::Io, FaultError::NoSpace] {
        for (index, step) in STEPS.iter().enumerate() {
            let mut calls = 0;
            while fail_at_call(index, calls + 1, error) {
                calls += 1;
            }
            assert!(calls >= 3, "{} made only {calls} calls", step.name);
        }
    }
}

/// A database in which everything is ready for a step.
fn ready_for(index: usize) -> (MemFs, Engine) {
    let fs = MemFs::new();
    let mut engine = open(&fs);
    STEPS[..index].iter().for_each(|step| step.run(&engine));
    if index % 2 == 1 {
        // So that the step begins a manifest.
        drop(engine);
        leave_manifest_unfinished(&fs);
        engine = open(&fs);
    }
    (STEPS[index].prepare)(&engine);
    (fs, engine)
}

/// Carries out a step of which the `nth` call fails. Returns whether there was such a call.
fn fail_at_call(index: usize, nth: u64, error: FaultError) -> bool {
    let change = STEPS[index].change;
    let (fs, engine) = ready_for(index);
    let (before, shown) = (picture(&engine), contents(&engine, "default", None));
    fs.set_fault(fault(None, nth, error));
    let result = change(&engine);
    fs.set_fault(None);
    if fs.faults() == 0 {
        result.unwrap();
        return false;
    }
    let place = format!("{}, call {nth}, {error:?}", STEPS[index].name);
    let durable = || recovered(&killed(&fs));
    match result.map_err(|error| error.kind()) {
        // A file that was to be removed stays for a while.
        Ok(()) => assert_ne!(picture(&engine), before, "{place}"),
        Err(ErrorKind::Poisoned) => {
            assert_eq!(picture(&engine), before, "{place}");
            let (_, undisturbed) = ready_for(index);
            change(&undisturbed).unwrap();
            let durable = durable();
            assert!(durable == before || durable == picture(&undisturbed), "{place}");
        }
        Err(_) => {
            assert_eq!(picture(&engine), before, "{place}");
            assert_eq!(durable(), before, "{place}");
            change(&engine).unwrap();
            assert_ne!(picture(&engine), before, "{place}");
            assert_eq!(durable(), picture(&engine), "{place}");
        }
    }
    assert_eq!(contents(&engine, "default", None), shown, "{place}");
    assert_eq!(contents(&open(&killed(&fs)), "default", None), shown, "{place}");
    true
}

/// A database of which the default family has tables, opened for edits made by hand.
fn with_tables(fs: &MemFs) -> (Database, Box<dyn FileLock>) {
    let engine = open(fs);
    put_range(&engine, "a", 0..100, b"value");
    flush(&engine).unwrap();
    put_range(&engine, "b", 0..100, b"value");
    engine.close().unwrap();
    recovery::open(Path::new(DIR), options(fs), Waiting::RunJob(run_one)).unwrap()
}

/// The creation of the family `name`, and its id.
fn creation(database: &Database, name: &str) -> (FamilyId, Change) {
    let id = database.catalog.ids.family().unwrap();
    (id, create_change(id, name, &tree_options()))
}

#[test]
fn a_family_and_its_tables_come_in_one_edit() {
    let fs = MemFs::new();
    let (database, lock) = with_tables(&fs);
    let source = database.catalog.families.named("default").unwrap();
    let (family, created) = creation(&database, "copy");
    let mut changes = vec![created];
    for (level, table) in source.tree.view().version.references() {
        changes.push(Change::AddTable { family, level, table: table.clone() });
    }
    assert!(changes.len() > 1);
    // Whatever the order.
    changes.reverse();
    changes.push(Change::RenameFamily { id: family, name: "second".to_owned() });
    install(&database.installer(), changes, None).unwrap();
    let copy = database.catalog.families.named("second").unwrap();
    assert_eq!(&*copy.name(), "second");
    let references = |family: &FamilyData| {
        let view = family.tree.view();
        view.version.references().map(|(level, table)| (level, table.clone())).collect::<Vec<_>>()
    };
    assert_eq!(references(&copy), references(&source));
    drop((database, lock));
    let engine = open(&killed(&fs));
    let expected: Pairs = contents(&engine, "default", None);
    let flushed: Pairs = expected.into_iter().filter(|(key, _)| key.starts_with(b"a")).collect();
    assert_eq!(contents(&engine, "second", None), flushed);
}

#[test]
fn an_edit_that_does_not_fit_becomes_neither_durable_nor_visible() {
    let fs = MemFs::new();
    let (database, lock) = with_tables(&fs);
    install(&database.installer(), vec![creation(&database, "first").1], None).unwrap();
    let (id, other) = creation(&database, "other");
    let first = database.catalog.families.named("first").unwrap().id;
    let absent = FamilyId(id.0 + 100);
    let table = |family| {
        let source = database.catalog.families.named("default").unwrap();
        let table = source.tree.view().version.references().next().unwrap().1.clone();
        Change::AddTable { family, level: 1, table }
    };
    let misfits = [
        creation(&database, "first").1,
        other.clone(),
        table(absent),
        Change::RenameFamily { id: first, name: "other".to_owned() },
        Change::DropFamily { id: absent },
        Change::FamilyOptions { id: absent, options: Vec::new() },
        Change::FamilyOptions { id: first, options: vec![0xff; 3] },
    ];
    for misfit in misfits {
        let what = format!("{misfit:?}");
        // A part of it that fits must not stay, either.
        let error = install(&database.installer(), vec![other.clone(), misfit], None).unwrap_err();
        assert_ne!(error.kind(), ErrorKind::Poisoned, "{what}");
        assert!(database.catalog.families.named("other").is_err(), "{what}");
    }
    drop((database, lock));
    assert_eq!(open(&killed(&fs)).database().catalog.families.names(), ["default", "first"]);
}

#[test]
fn a_family_that_is_renamed_and_dropped_in_one_edit_is_gone() {
    let fs = MemFs::new();
    let (database, lock) = with_tables(&fs);
    install(&database.installer(), vec![creation(&database, "first").1], None).unwrap();
    let first = database.catalog.families.named("first").unwrap();
    let (_, second) = creation(&database, "first");
    let edit = vec![
        Change::RenameFamily { id: first.id, name: "gone".to_owned() },
        Change::DropFamily { id: first.id },
    ];
    install(&database.installer(), edit, None).unwrap();
    assert!(first.is_dropped() && database.catalog.families.get(first.id).is_none());
    for name in ["first", "gone"] {
        assert!(database.catalog.families.named(name).is_err(), "{name}");
    }
    install(&database.installer(), vec![second], None).unwrap();
    drop((database, lock));
    assert_eq!(open(&killed(&fs)).database().catalog.families.names(), ["default", "first"]);
}

/// The last operand.
#[derive(Debug)]
struct Last;

impl MergeOperator for Last {
    fn name(&self) -> &str {
        "last"
    }

    fn full(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok(operands.last().map_or_else(Vec::new, |last| last.to_vec()))
    }
}

#[test]
fn the_merge_operator_of_a_dropped_family_is_let_go() {
    let fs = MemFs::new();
    let given = EngineOptions { merge_operators: vec![Arc::new(Last)], ..options(&fs) };
    let engine = Engine::open(Path::new(DIR), given).unwrap();
    for flushed in [false, true] {
        let operator: Arc<dyn MergeOperator> = Arc::new(Last);
        let options = TreeOptions { merge_operator: Some(operator.clone()), ..tree_options() };
        let family = create_family(&engine, "short", options).unwrap();
        let merge = Payload::one(&family, EntryKind::Merge, b"key", b"operand");
        commit_payload(&engine, &merge).unwrap();
        if flushed {
            flush(&engine).unwrap();
        }
        assert_eq!(crate::fixture::get(&engine, "short", b"key").unwrap(), b"operand");
        drop_family(&engine, "short").unwrap();
        drop(family);
        // The rest of the generation is flushed without it.
        flush(&engine).unwrap();
        settle(&engine).unwrap();
        assert_eq!(Arc::strong_count(&operator), 1);
    }
}

/// The same change as a later version writes it, with an optional field behind the known ones.
fn later(change: Change, field: &[u8]) -> Change {
    let mut bytes = Vec::new();
    Edit { changes: vec![change] }.encode(&mut bytes);
    // The tag, and a length of two bytes, which then counts the field as well.
    assert!(bytes[1] & 0x80 != 0 && bytes[2] < 0x80, "{bytes:?}");
    bytes[1] += u8::try_from(field.len()).unwrap();
    assert!(bytes[1] & 0x80 != 0, "the length has carried");
    bytes.extend_from_slice(field);
    Edit::decode(&bytes).unwrap().changes.remove(0)
}

#[test]
fn what_a_later_version_says_survives_edits_snapshots_and_replays() {
    let fs = MemFs::new();
    let (database, lock) = with_tables(&fs);
    let source = database.catalog.families.named("default").unwrap();
    let (family, _) = creation(&database, "copy");
    let mut later_options = Vec::new();
    tree_options().encode(&mut later_options);
    later_options.extend_from_slice(&[100, 2, 7, 7]);
    let (name, options) = ("copy".to_owned(), later_options.clone());
    let mut changes = vec![Change::CreateFamily { id: family, name, options }];
    for (level, table) in source.tree.view().version.references() {
        let add = Change::AddTable { family, level, table: table.clone() };
        changes.push(later(add, &[101, 1, 9]));
    }
    changes.push(Change::Unknown { tag: 102, value: vec![1] });
    install(&database.installer(), changes, None).unwrap();
    drop((database, lock));
    let mut fs = killed(&fs);
    for _ in 0..2 {
        leave_manifest_unfinished(&fs);
        let engine = open(&fs);
        // It begins a new manifest with a snapshot.
        create_family(&engine, "another", tree_options()).unwrap();
        drop_family(&engine, "another").unwrap();
        let copy = engine.database().catalog.families.named("copy").unwrap();
        let mut found = Vec::new();
        copy.tree.options().encode(&mut found);
        assert_eq!(found, later_options);
        let view = copy.tree.view();
        let tags = |table: &TableReference| table.unknown.tags().collect::<Vec<_>>();
        assert!(view.version.references().count() > 0);
        assert!(view.version.references().all(|(_, table)| tags(table) == [101]));
        assert!(!contents(&engine, "copy", None).is_empty());
        fs = killed(&fs);
    }
}
