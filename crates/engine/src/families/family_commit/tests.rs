//! A family and its row in a schema are created and dropped together, at any crash (law A14).

use super::*;
use crate::{
    engine::Engine,
    fixture::{
        DIR, commit_payload, commit_with_families, compact_all, contents, crash_states,
        create_family, drop_family, fault, files, flush, get, held_up, killed,
        leave_manifest_unfinished, on_segments, open, picture, prepare_family, put, put_range,
        rename_family, snapshot, stop_call, tree_options,
    },
    open::family_names::family_names,
    options::Durability,
    read::PinnedReader,
    transactions::footprint::Footprint,
    write::commit::Payload,
};
use siltdb_base::{
    fs::mem::{CallKind, Crash, FaultError, MemFs},
    key::EntryKind,
};
use std::{path::Path, sync::Mutex};

/// The value under `key` in each family of these tests, which the schema repeats: the family's
/// name, and a counter of families of that name.
fn value(name: &str, version: u8) -> Vec<u8> {
    [name.as_bytes(), &[version]].concat()
}

/// The effect of a commit on the tables of a schema.
struct Tables<'a> {
    engine: &'a Engine,
    batch: BatchBytes,
    changes: FamilyChanges,
}

impl<'a> Tables<'a> {
    fn of(engine: &'a Engine) -> Self {
        Self { engine, batch: BatchBytes::new(), changes: FamilyChanges::default() }
    }

    fn create(mut self, name: &str, version: u8) -> Self {
        let family = prepare_family(self.engine, name, tree_options()).unwrap();
        let value = value(name, version);
        self.batch
            .put(
                self.engine.database().catalog.families.named("default").unwrap().id,
                name.as_bytes(),
                &value,
            )
            .unwrap();
        self.batch.put(family.id, b"key", &value).unwrap();
        self.changes.created.push(family);
        self
    }

    fn drop(mut self, name: &str) -> Self {
        let default = self.engine.database().catalog.families.named("default").unwrap().id;
        self.batch.delete(default, name.as_bytes()).unwrap();
        self.changes.dropped.push(self.engine.database().catalog.families.named(name).unwrap().id);
        self
    }

    fn commit(self) -> Result<()> {
        let conditions = Conditions::none(&self.engine.database().options);
        commit_with_families(self.engine, &self.batch, &self.changes, &conditions).map(drop)
    }
}

/// The schema, which must name the existing families and their values.
fn schema(engine: &Engine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows: Vec<_> =
        contents(engine, "default", None).into_iter().filter(|(key, _)| key[0] == b't').collect();
    let mut names = engine.database().catalog.families.names();
    names.retain(|name| name != "default");
    let said: Vec<_> =
        rows.iter().map(|(key, _)| String::from_utf8(key.clone()).unwrap()).collect();
    assert_eq!(said, names, "the schema and the families differ");
    for (name, row) in said.iter().zip(&rows) {
        assert_eq!(get(engine, name, b"key").as_ref(), Some(&row.1), "{name}");
    }
    rows
}

fn rows(rows: &[(&str, u8)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    rows.iter().map(|(name, version)| (name.as_bytes().to_vec(), value(name, *version))).collect()
}

/// Commits of each kind, one after the other, and the schema after each.
type Step = (fn(&Engine) -> Result<()>, &'static [(&'static str, u8)]);

const STEPS: [Step; 4] = [
    (|engine| Tables::of(engine).create("t1", 1).commit(), &[("t1", 1)]),
    (
        |engine| Tables::of(engine).create("t2", 1).create("t3", 1).commit(),
        &[("t1", 1), ("t2", 1), ("t3", 1)],
    ),
    (
        |engine| Tables::of(engine).drop("t1").create("t1", 2).drop("t3").commit(),
        &[("t1", 2), ("t2", 1)],
    ),
    (|engine| Tables::of(engine).drop("t2").commit(), &[("t1", 2)]),
];

#[test]
fn families_come_and_go_with_their_rows() {
    let fs = MemFs::new();
    let engine = open(&fs);
    for (step, after) in STEPS {
        step(&engine).unwrap();
        assert_eq!(schema(&engine), rows(after));
        // Durable on return; the log still has the records, the manifest their changes.
        for seed in 0..4 {
            let lost = fs.crash_clone(Crash::PowerLoss { seed });
            assert_eq!(schema(&open(&lost)), rows(after), "seed {seed}");
        }
        assert_eq!(picture(&open(&killed(&fs))), picture(&engine));
    }
    flush(&engine).unwrap();
    assert_eq!(picture(&open(&killed(&fs))), picture(&engine));
    engine.close().unwrap();
    assert_eq!(schema(&open(&fs)), rows(STEPS[3].1));
}

/// Power fails, or the process is killed, before each call of the commit and of the opening that
/// follows.
#[test]
fn a_crash_leaves_both_or_neither() {
    for flushed in [false, true] {
        let fs = MemFs::new();
        let engine = open(&fs);
        let (mut before, mut kept, mut states_seen) = (rows(&[]), 0, 0);
        for (step, after) in STEPS {
            if flushed {
                flush(&engine).unwrap();
            }
            let states = crash_states(&fs, || step(&engine).unwrap());
            assert!(states.len() >= 6, "{}", states.len());
            for state in &states {
                let again = crash_states(state, || {
                    let found = schema(&open(state));
                    assert!(found == before || found == rows(after), "{found:?}");
                    kept += usize::from(found == rows(after));
                });
                states_seen += 1 + again.len();
                let found = schema(&open(state));
                for state in &again {
                    let again = schema(&open(state));
                    assert!(again == before || again == rows(after), "{again:?}");
                }
                // The next opening shows the same, and so does a flush.
                let engine = open(state);
                assert_eq!(schema(&engine), found);
                flush(&engine).unwrap();
                drop(engine);
                assert_eq!(schema(&open(&killed(state))), found);
            }
            before = rows(after);
        }
        assert!(kept > 4 && states_seen > 50, "{kept} of {states_seen}");
    }
}

#[test]
fn a_failing_call_leaves_both_or_neither() {
    for error in [FaultError::Io, FaultError::NoSpace] {
        let (mut failures, mut resumed) = (0, 0);
        for nth in 1.. {
            let fs = MemFs::new();
            let engine = open(&fs);
            STEPS[0].0(&engine).unwrap();
            STEPS[1].0(&engine).unwrap();
            flush(&engine).unwrap();
            fs.set_fault(fault(None, nth, error));
            let result = STEPS[2].0(&engine);
            fs.set_fault(None);
            if fs.faults() == 0 {
                break;
            }
            failures += 1;
            let (before, after) = (rows(STEPS[1].1), rows(STEPS[2].1));
            let found = schema(&engine);
            assert!(found == before || found == after, "call {nth}: {found:?}");
            match &result {
                Ok(()) => assert_eq!(found, after, "call {nth}"),
                Err(error) if error.kind() == ErrorKind::Poisoned => {}
                Err(_) => assert_eq!(found, before, "call {nth}"),
            }
            if engine.database().background_error().is_none() && flush(&engine).is_ok() {
                // Nothing is poisoned: the database continues, and the commit can be repeated.
                if result.is_err() {
                    STEPS[2].0(&engine).unwrap();
                }
                assert_eq!(schema(&engine), after, "call {nth}");
                let lost = fs.crash_clone(Crash::PowerLoss { seed: nth });
                assert_eq!(schema(&open(&lost)), after, "call {nth}");
                resumed += 1;
            }
            for crash in [Crash::Kill, Crash::PowerLoss { seed: nth }] {
                let found = schema(&open(&fs.crash_clone(crash)));
                assert!(found == before || found == after, "call {nth}: {found:?}");
                assert!(result.is_err() || found == after, "call {nth}");
            }
        }
        assert!(failures >= 3, "{failures}");
        assert!(error != FaultError::NoSpace || resumed > 0);
    }
}

/// The manifest has no space for the edit: the commit succeeds, and the flush that retires its log
/// records the changes.
#[test]
fn changes_that_the_manifest_owes_come_with_the_next_edit() {
    for begun_anew in [false, true] {
        let fs = MemFs::new();
        drop(open(&fs));
        if begun_anew {
            leave_manifest_unfinished(&fs);
        }
        let engine = open(&fs);
        if !begun_anew {
            create_family(&engine, "t0", tree_options()).unwrap();
            drop_family(&engine, "t0").unwrap();
        }
        let (disk, synced) = (fs.clone(), Arc::new(Mutex::new(false)));
        let seen = Arc::clone(&synced);
        // The call after the sync of the log is the manifest's.
        fs.on_call(Some(Arc::new(move |call| {
            let is_log = call.path.extension().is_some_and(|name| name == "log");
            let mut synced = lock(&seen);
            if call.kind == CallKind::Sync && is_log && !*synced {
                *synced = true;
                disk.set_fault(fault(None, 2, FaultError::NoSpace));
            }
        })));
        STEPS[0].0(&engine).unwrap();
        fs.on_call(None);
        assert!(*lock(&synced), "the log was not synced");
        assert_eq!(fs.faults(), 1);
        fs.set_fault(None);
        let said = family_names(&fs, Path::new(DIR)).unwrap();
        assert_eq!(said, ["default"], "the manifest was told");
        assert_eq!(schema(&engine), rows(STEPS[0].1));
        assert_eq!(schema(&open(&killed(&fs))), rows(STEPS[0].1));
        put_range(&engine, "a", 0..10, b"value");
        flush(&engine).unwrap();
        let lost = fs.crash_clone(Crash::PowerLoss { seed: 1 });
        assert_eq!(schema(&open(&lost)), rows(STEPS[0].1));
        assert_eq!(picture(&open(&lost)), picture(&engine));
    }
}

/// Its record is still in the log when the manifest renames or drops the family.
#[test]
fn what_happened_to_a_family_later_is_not_undone_by_its_record() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let family = |name: &str| prepare_family(&engine, name, tree_options()).unwrap();
    let created = vec![family("a"), family("b"), family("c")];
    let changes = FamilyChanges { created, ..FamilyChanges::default() };
    commit_with_families(
        &engine,
        &BatchBytes::new(),
        &changes,
        &Conditions::none(&engine.database().options),
    )
    .unwrap();
    put(&engine, "b", b"key", b"kept");
    drop_family(&engine, "a").unwrap();
    rename_family(&engine, "b", "d").unwrap();
    drop_family(&engine, "c").unwrap();
    create_family(&engine, "c", tree_options()).unwrap();
    let again = open(&killed(&fs));
    assert_eq!(again.database().catalog.families.names(), ["c", "d", "default"]);
    assert_eq!(picture(&again), picture(&engine));
    assert_eq!(get(&again, "d", b"key").unwrap(), b"kept");
    assert!(contents(&again, "c", None).is_empty());
    // No id is given twice.
    let ids: Vec<_> = picture(&again).into_iter().map(|family| format!("{family:?}")).collect();
    let next = prepare_family(&again, "e", tree_options()).unwrap().id;
    assert!(changes.created.iter().all(|family| family.id < next), "{ids:?}");
}

#[test]
fn a_prepared_family_is_in_nobodys_way() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let calls = fs.calls();
    let first = prepare_family(&engine, "t1", tree_options()).unwrap();
    let second = prepare_family(&engine, "t1", tree_options()).unwrap();
    assert_eq!(fs.calls(), calls, "preparing a family touches files");
    assert_eq!(engine.database().catalog.families.names(), ["default"]);
    let kind = |result: Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(engine.database().catalog.families.named("t1").map(drop)), ErrorKind::NotFound);
    assert_eq!(
        kind(engine.database().catalog.families.of_id(first.id).map(drop)),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(PinnedReader::new(&engine.database().read_rooms(), &first, None).map(drop)),
        ErrorKind::NotFound
    );
    let write = Payload::one(&first, EntryKind::Put, b"key", b"value");
    assert_eq!(kind(commit_payload(&engine, &write)), ErrorKind::NotFound);
    let mut batch = BatchBytes::new();
    batch.put(first.id, b"key", b"value").unwrap();
    assert_eq!(kind(commit_payload(&engine, &Payload::batch(&batch))), ErrorKind::NotFound);
    // Of two commits with one name the second changes nothing, and neither does a repetition.
    let create = |family: &Arc<FamilyData>| {
        let changes =
            FamilyChanges { created: vec![Arc::clone(family)], ..FamilyChanges::default() };
        let mut batch = BatchBytes::new();
        batch.put(family.id, b"key", b"value").unwrap();
        commit_with_families(
            &engine,
            &batch,
            &changes,
            &Conditions::none(&engine.database().options),
        )
        .map(drop)
    };
    create(&first).unwrap();
    assert_eq!(get(&engine, "t1", b"key").unwrap(), b"value");
    let last = engine.database().stats().sequence;
    assert_eq!(kind(create(&second)), ErrorKind::AlreadyExists);
    assert_eq!(kind(create(&first)), ErrorKind::AlreadyExists);
    drop_family(&engine, "t1").unwrap();
    assert_eq!(kind(create(&first)), ErrorKind::AlreadyExists);
    assert_eq!(engine.database().stats().sequence, last);
    create(&second).unwrap();
    assert_eq!(open(&killed(&fs)).database().catalog.families.named("t1").unwrap().id, second.id);
}

#[test]
fn what_cannot_be_dropped_is_refused_and_nothing_changes() {
    let fs = MemFs::new();
    let engine = open(&fs);
    STEPS[0].0(&engine).unwrap();
    let (last, before) = (engine.database().stats().sequence, picture(&engine));
    let default = engine.database().catalog.families.named("default").unwrap().id;
    let dropped = |dropped| {
        let changes = FamilyChanges { dropped, ..FamilyChanges::default() };
        commit_with_families(
            &engine,
            &BatchBytes::new(),
            &changes,
            &Conditions::none(&engine.database().options),
        )
        .unwrap_err()
        .kind()
    };
    let table = engine.database().catalog.families.named("t1").unwrap().id;
    assert_eq!(dropped(vec![default]), ErrorKind::InvalidArgument);
    assert_eq!(dropped(vec![table, table]), ErrorKind::NotFound);
    let prepared = prepare_family(&engine, "t2", tree_options()).unwrap();
    assert_eq!(dropped(vec![prepared.id]), ErrorKind::NotFound);
    assert_eq!((engine.database().stats().sequence, picture(&engine)), (last, before));
}

#[test]
fn a_snapshot_sees_nothing_of_a_family_that_came_after_it() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let before = snapshot(&engine);
    STEPS[0].0(&engine).unwrap();
    assert!(contents(&engine, "t1", Some(before.sequence())).is_empty());
    flush(&engine).unwrap();
    assert!(contents(&engine, "t1", Some(before.sequence())).is_empty());
    assert_eq!(contents(&engine, "t1", None).len(), 1);
}

#[test]
fn the_files_of_a_dropped_family_go() {
    let fs = MemFs::new();
    let engine = open(&fs);
    STEPS[0].0(&engine).unwrap();
    put(&engine, "t1", b"other", b"value");
    flush(&engine).unwrap();
    let of_family = files(&fs, ".table");
    // Families that are flushed together share a file.
    put(&engine, "default", b"a", b"value");
    compact_all(&engine).unwrap();
    Tables::of(&engine).drop("t1").commit().unwrap();
    put(&engine, "default", b"a", b"value");
    flush(&engine).unwrap();
    compact_all(&engine).unwrap();
    let left = files(&fs, ".table");
    assert!(left.len() == 1 && !of_family.contains(&left[0]), "{left:?}");
}

#[test]
fn other_commits_before_and_after_stay_in_order() {
    let fs = MemFs::new();
    let engine = open(&fs);
    for round in 0..3_u8 {
        put_range(&engine, "a", 0..300, &[round; 100]);
        let before = engine.database().stats().sequence;
        let tables = match round {
            0 => Tables::of(&engine).create("t1", round),
            _ => Tables::of(&engine).drop("t1").create("t1", round),
        };
        // The changes take a sequence number of their own.
        let count = u64::from(tables.batch.count()) + 1;
        tables.commit().unwrap();
        assert_eq!(engine.database().stats().sequence, before + count);
        let write =
            |key: &[u8]| crate::fixture::try_put(&engine, "t1", key, b"1", Durability::Buffered);
        write(b"later").unwrap();
        let again = open(&killed(&fs));
        assert_eq!(schema(&again), rows(&[("t1", round)]));
        assert_eq!(get(&again, "t1", b"later").unwrap(), b"1");
        assert_eq!(contents(&again, "default", None), contents(&engine, "default", None));
    }
}

/// The other commit has its place and is in no memtable yet: the first check cannot see it.
///
/// # Seeded fault
/// `change_of_families_validated_once`: such a commit is checked before it has its place only.
#[test]
fn a_commit_before_the_place_of_a_change_of_families_is_checked() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"k", b"read");
    let snapshot = snapshot(&engine);
    let sequence = snapshot.sequence();
    let fill = stop_call(&fs, on_segments(CallKind::Fill));
    let other = engine.clone();
    let before = held_up(move || put(&other, "default", b"k", b"changed"));
    fill.wait();
    let other = engine.clone();
    let changing = held_up(move || {
        let mut reads = Footprint::default();
        reads.add_key(&other.database().catalog.families.named("default").unwrap(), b"k");
        let conditions = Conditions {
            snapshot: Some(sequence),
            reads: Some(&reads),
            ..Conditions::none(&other.database().options)
        };
        let created = vec![prepare_family(&other, "new", tree_options()).unwrap()];
        let changes = FamilyChanges { created, ..FamilyChanges::default() };
        commit_with_families(&other, &BatchBytes::new(), &changes, &conditions)
    });
    fill.go_on();
    before.recv().unwrap();
    assert_eq!(changing.recv().unwrap().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(engine.database().catalog.families.names(), ["default"]);
    assert_eq!(open(&killed(&fs)).database().catalog.families.names(), ["default"]);
    drop(snapshot);
}
