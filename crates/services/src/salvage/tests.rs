//! Salvage of databases that are whole, damaged, or without their manifest.

use super::*;
use crate::{
    check::{check, check_closed},
    salvage::report::ManifestState,
};
use siltdb_base::{
    cancel::CancelToken,
    error::ErrorKind,
    fs::mem::{CallKind, Crash, FaultError, MemFs},
    key::EntryKind,
    slice::Slice,
};
use siltdb_disk::{batch::BatchBytes, log::recover::RecoveryMode};
use siltdb_engine::{
    catalog::family::{FamilyChanges, FamilyData},
    engine::Engine,
    fixture::{
        DIR, clone_family, commit_payload, commit_with_families, compact, compact_all, contents,
        create_family, fault, files, flush, killed, open, options, prepare_family, put, put_range,
        reform_record, run_job, snapshot, sync_wal, tree_options, try_put,
    },
    jobs::request::{CompactControl, CompactProgress, compact_range},
    options::Durability,
    transactions::conditional_commit::Conditions,
    write::commit::Payload,
};
use siltdb_tree::{
    merge_operator::MergeOperator, options::TreeOptions, read::visible::bounds::Bounds,
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

const NEW: &str = "new";

/// An odd number whose products look random.
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Joins operands.
#[derive(Debug)]
struct Joined;

impl MergeOperator for Joined {
    fn name(&self) -> &str {
        "joined"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

fn saved(fs: &MemFs) -> Result<SalvageReport> {
    salvage(Path::new(DIR), Path::new(NEW), options(fs), &mut |_| {})
}

fn joining(fs: &MemFs) -> EngineOptions {
    EngineOptions { merge_operators: vec![Arc::new(Joined)], ..options(fs) }
}

fn open_joining(fs: &MemFs) -> Engine {
    Engine::open(Path::new(DIR), joining(fs)).unwrap()
}

fn open_new(fs: &MemFs) -> Engine {
    Engine::open(Path::new(NEW), joining(fs)).unwrap()
}

fn bytes_of(fs: &MemFs) -> BTreeMap<PathBuf, Vec<u8>> {
    files(fs, "").into_iter().map(|path| (path.clone(), fs.read_all(&path).unwrap())).collect()
}

fn apply(engine: &Engine, family: &Arc<FamilyData>, kind: EntryKind, key: &[u8], payload: &[u8]) {
    commit_payload(engine, &Payload::one(family, kind, key, payload)).unwrap();
}

/// Two levels of tables in two families, with deletions of both kinds, and a log.
fn filled(fs: &MemFs) -> Engine {
    let engine = open_joining(fs);
    let options = TreeOptions { merge_operator: Some(Arc::new(Joined)), ..tree_options() };
    let other = create_family(&engine, "other", options).unwrap();
    put_range(&engine, "a", 0..300, &[1; 50]);
    apply(&engine, &other, EntryKind::Merge, b"joined", b"1");
    flush(&engine).unwrap();
    compact_all(&engine).unwrap();
    put_range(&engine, "a", 100..200, &[2; 50]);
    let default = engine.database().catalog.families.named("default").unwrap();
    apply(&engine, &default, EntryKind::RangeDelete, b"a00050", b"a00060");
    apply(&engine, &default, EntryKind::Delete, b"a00250", b"");
    apply(&engine, &other, EntryKind::Merge, b"joined", b"2");
    flush(&engine).unwrap();
    put_range(&engine, "b", 0..300, &[3; 50]);
    apply(&engine, &default, EntryKind::Delete, b"a00299", b"");
    apply(&engine, &default, EntryKind::RangeDelete, b"b00100", b"b00150");
    apply(&engine, &other, EntryKind::Merge, b"joined", b"3");
    apply(
        &engine,
        &other,
        EntryKind::PutExpiring,
        b"late",
        &[&u64::MAX.to_le_bytes()[..], b"v"].concat(),
    );
    engine
}

/// Compares the new database with what can be read of the old one.
fn assert_same(fs: &MemFs, expected: &[(&str, siltdb_engine::fixture::Pairs)]) {
    let engine = open_new(fs);
    let names: Vec<_> = expected.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(engine.database().catalog.families.names(), names);
    for (name, pairs) in expected {
        assert!(contents(&engine, name, None) == *pairs, "family {name}");
    }
    assert_eq!(files(fs, ".tmp"), [] as [PathBuf; 0]);
}

fn all_of(engine: &Engine) -> Vec<(&'static str, siltdb_engine::fixture::Pairs)> {
    ["default", "other"].map(|name| (name, contents(engine, name, None))).to_vec()
}

#[test]
fn all_of_a_whole_database_is_saved_and_nothing_of_it_is_touched() {
    for ends_closed in [true, false] {
        let fs = MemFs::new();
        let engine = filled(&fs);
        let expected = all_of(&engine);
        assert!(expected[1].1.contains(&(b"joined".to_vec(), b"123".to_vec())));
        let fs = if ends_closed {
            engine.close().unwrap();
            fs
        } else {
            killed(&fs)
        };
        let before = bytes_of(&fs);
        let report = saved(&fs).unwrap();
        assert!(report.is_complete() && report.manifest == ManifestState::Whole, "{report:?}");
        let entries: usize = expected.iter().map(|(_, pairs)| pairs.len()).sum();
        assert_eq!(report.entries, entries as u64);
        assert!(report.families.iter().all(|family| family.is_known));
        assert!(report.log_records > 0);
        assert_same(&fs, &expected);
        for (path, bytes) in before {
            assert!(fs.read_all(&path).unwrap() == bytes, "{} was written to", path.display());
        }
    }
}

/// What the manifest says of a retired log is no loss.
#[test]
fn a_database_whose_log_is_retired_is_whole() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..100, b"value");
    sync_wal(&engine).unwrap();
    flush(&engine).unwrap();
    engine.close().unwrap();
    let fs = killed(&fs);
    for process in 0..3 {
        drop(open(&fs));
        let fs = killed(&fs);
        let report = saved(&fs).unwrap();
        assert_eq!((report.entries, report.lost.len()), (100, 0), "{process}: {report:?}");
    }
}

#[test]
fn without_current_the_manifest_is_found() {
    let fs = MemFs::new();
    let expected = all_of(&filled(&fs));
    let fs = killed(&fs);
    fs.remove(&Path::new(DIR).join("CURRENT")).unwrap();
    let report = saved(&fs).unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_same(&fs, &expected);
}

#[test]
fn without_a_manifest_tables_and_log_tell_of_their_families() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let expected = all_of(&engine);
    let fs = killed(&fs);
    for path in files(&fs, ".manifest") {
        fs.remove(&path).unwrap();
    }
    let report = saved(&fs).unwrap();
    assert_eq!(report.manifest, ManifestState::Lost);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].to_string().contains("manifest"), "{report:?}");
    assert!(report.families.iter().all(|family| family.is_known));
    let engine = open_new(&fs);
    // No table was stale, so nothing that was found is stale either.
    for (name, pairs) in expected {
        let found = contents(&engine, name, None);
        for pair in &pairs {
            assert!(found.iter().any(|(key, _)| *key == pair.0), "{name}: {pair:?}");
        }
    }
}

#[test]
fn a_family_of_which_only_the_commit_that_created_it_is_left_is_saved_by_name() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let created = ["users", "gone"].map(|name| {
        let options = TreeOptions { level0_runs_trigger: 7, ..tree_options() };
        prepare_family(&engine, name, options).unwrap()
    });
    let mut batch = BatchBytes::new();
    batch.put(created[0].id, b"key", b"value").unwrap();
    batch.put(created[1].id, b"key", b"value").unwrap();
    let dropped = vec![created[1].id];
    let changes = FamilyChanges { created: created.to_vec(), ..FamilyChanges::default() };
    commit_with_families(&engine, &batch, &changes, &Conditions::none(&engine.database().options))
        .unwrap();
    let changes = FamilyChanges { dropped, ..FamilyChanges::default() };
    commit_with_families(
        &engine,
        &BatchBytes::new(),
        &changes,
        &Conditions::none(&engine.database().options),
    )
    .unwrap();
    for has_manifest in [true, false] {
        let fs = killed(&fs);
        if !has_manifest {
            files(&fs, ".manifest").iter().for_each(|path| fs.remove(path).unwrap());
        }
        let report = saved(&fs).unwrap();
        let names: Vec<_> =
            report.families.iter().map(|family| (&family.name[..], family.is_known)).collect();
        assert_eq!(names, [("default", has_manifest), ("users", true)]);
        let saved = open_new(&fs);
        assert_eq!(contents(&saved, "users", None).len(), 1);
        assert_eq!(
            saved
                .database()
                .catalog
                .families
                .named("users")
                .unwrap()
                .tree
                .options()
                .level0_runs_trigger,
            7
        );
    }
}

#[test]
fn a_family_of_which_only_the_log_is_left_gets_a_name() {
    let fs = MemFs::new();
    let engine = open(&fs);
    create_family(&engine, "users", tree_options()).unwrap();
    put(&engine, "users", b"key", b"value");
    let fs = killed(&fs);
    for path in files(&fs, ".manifest") {
        fs.remove(&path).unwrap();
    }
    let report = saved(&fs).unwrap();
    let names: Vec<_> =
        report.families.iter().map(|family| (&family.name[..], family.is_known)).collect();
    assert_eq!(names, [("default", false), ("family-1", false)]);
    assert_eq!(contents(&open_new(&fs), "family-1", None).len(), 1);
}

#[test]
fn what_a_damaged_block_held_is_named_and_the_rest_is_saved() {
    let fs = MemFs::new();
    let expected = all_of(&filled(&fs));
    let fs = killed(&fs);
    let mut damaged = 0;
    for path in files(&fs, ".table") {
        let fs = killed(&fs);
        fs.bytes_flip(&path, 30, 0x10).unwrap();
        let report = saved(&fs).unwrap();
        let engine = open_new(&fs);
        damaged += report.lost.len();
        for lost in &report.lost {
            let text = lost.to_string();
            assert!(text.contains("entries: corruption: bad checksum"), "{text}");
            assert!(lost.first.is_some() && lost.last.is_some() && lost.entries_max > Some(0));
        }
        let mut missing = 0;
        for (name, pairs) in &expected {
            let found = contents(&engine, name, None);
            for pair in pairs {
                if report.lost.iter().any(|lost| lost.may_hold(name, &pair.0)) {
                    missing += usize::from(!found.contains(pair));
                } else {
                    assert!(found.contains(pair), "{name}: {pair:?} is missing");
                }
            }
        }
        assert!(missing > 0 || report.is_complete(), "{report:?}");
    }
    assert!(damaged >= 2, "{damaged}");
}

#[test]
fn a_check_names_the_keys_that_cannot_be_read() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..200, &[1; 50]);
    engine.close().unwrap();
    let check = |fs: &MemFs| {
        let db = open(fs);
        flush(&db).unwrap();
        check(db.database(), &mut |_| {}).unwrap()
    };
    let engine = open(&fs);
    flush(&engine).unwrap();
    drop(engine);
    let tables = check(&fs).tables;
    let path = files(&fs, ".table").remove(0);
    fs.bytes_flip(&path, 30, 1).unwrap();
    let report = check(&fs);
    assert_eq!((report.tables, report.tables_damaged), (tables - 1, 1));
    let [block] = &report.damage[..] else { panic!("{report:?}") };
    assert!(block.may_hold("default", b"a00000") && !block.may_hold("default", b"a00199"));
    assert!(!block.may_hold("other", b"a00000"), "{block}");
    // Without its footer, none of the table can be read.
    let len = fs.read_all(&path).unwrap().len();
    fs.bytes_flip(&path, len as u64 - 20, 1).unwrap();
    let report = check(&fs);
    assert_eq!(report.damage.len(), 1);
    let [table] = &report.damage[..] else { panic!("{report:?}") };
    assert!(table.entries_max > block.entries_max || block.entries_max.is_none(), "{table}");
}

#[test]
fn records_behind_a_damaged_one_are_saved() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..100, b"value");
    sync_wal(&engine).unwrap();
    // Says that those before it are durable.
    put(&engine, "default", b"b", b"value");
    let fs = killed(&fs);
    let path = files(&fs, ".log").remove(0);
    let bytes = fs.read_all(&path).unwrap();
    let at = bytes.windows(6).position(|bytes| bytes == b"a00050").unwrap();
    fs.bytes_flip(&path, at as u64, 1).unwrap();
    assert!(Engine::open(Path::new(DIR), options(&fs)).is_err());
    let report = saved(&fs).unwrap();
    assert_eq!(report.entries, 100);
    let [lost] = &report.lost[..] else { panic!("{report:?}") };
    assert_eq!(lost.entries_max, Some(1));
    assert_eq!(lost.error.file(), Some(&path.display().to_string()[..]));
}

#[test]
fn a_void_record_is_neither_saved_nor_lost() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..100, b"value");
    let fs = killed(&fs);
    reform_record(&fs, b"a00050", |_| 6);
    let report = saved(&fs).unwrap();
    assert_eq!((report.entries, report.lost.len()), (99, 0), "{report:?}");
}

#[test]
fn a_segment_without_its_header_is_read() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..100, b"value");
    let fs = killed(&fs);
    let path = files(&fs, ".log").remove(0);
    fs.bytes_flip(&path, 20, 1).unwrap();
    let whole = killed(&fs);
    let report = saved(&whole).unwrap();
    assert_eq!((report.entries, report.lost.len()), (100, 0), "{report:?}");
    // Of records before the first remaining one, only their existence is known.
    fs.bytes_flip(&path, 70, 1).unwrap();
    let report = saved(&fs).unwrap();
    assert_eq!((report.entries, report.lost.len()), (99, 1), "{report:?}");
}

#[test]
fn the_new_database_must_be_new_and_the_old_one_closed() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    assert_eq!(saved(&fs).unwrap_err().kind(), ErrorKind::Locked);
    drop(engine);
    let into = |new: &str| {
        salvage(Path::new(DIR), Path::new(new), options(&fs), &mut |_| {}).unwrap_err().kind()
    };
    assert_eq!(into(DIR), ErrorKind::InvalidArgument);
    assert_eq!(into("db/new"), ErrorKind::InvalidArgument);
    saved(&fs).unwrap();
    assert_eq!(into(NEW), ErrorKind::AlreadyExists);
    fs.create_dir_all(Path::new("empty")).unwrap();
    let nothing = salvage(Path::new("empty"), Path::new("other"), options(&fs), &mut |_| {});
    assert_eq!(nothing.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs.metadata(Path::new("other")).unwrap(), None);
}

#[test]
fn a_salvage_that_is_killed_is_whole_or_replaced_by_the_next() {
    let fs = MemFs::new();
    let expected = all_of(&filled(&fs));
    let calls = {
        let fs = killed(&fs);
        let before = fs.calls();
        saved(&fs).unwrap();
        fs.calls() - before
    };
    assert!(calls > 20, "{calls}");
    let fs = killed(&fs);
    let crashed = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (seen, device) = (Arc::clone(&crashed), fs.clone());
    fs.on_call(Some(Arc::new(move |call| {
        if call.number % 7 == 0 {
            siltdb_base::sync::lock(&seen).push(device.crash_clone(Crash::Kill));
        }
    })));
    saved(&fs).unwrap();
    fs.on_call(None);
    let crashed = std::mem::take(&mut *siltdb_base::sync::lock(&crashed));
    assert!(crashed.len() > 3);
    for fs in crashed {
        let is_whole = fs.metadata(Path::new(NEW)).unwrap().is_some();
        // What a kill has left is replaced.
        assert_eq!(saved(&fs).is_ok(), !is_whole);
        assert_same(&fs, &expected);
        assert_eq!(fs.metadata(Path::new("new.partial")).unwrap(), None);
        // The old database is unchanged.
        drop(open_joining(&fs));
    }
}

/// Tables of small memtables share one file, which stays while any of them counts. Values in the
/// last level have smaller sequence numbers than those with which they were written.
#[test]
fn without_a_manifest_what_was_replaced_is_not_taken_for_what_counts() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let other = create_family(&engine, "other", tree_options()).unwrap();
    let default = engine.database().catalog.families.named("default").unwrap();
    for round in 0..4_u8 {
        put_range(&engine, "a", 0..50, &[round; 20]);
        apply(&engine, &default, EntryKind::Delete, b"a00007", b"");
        apply(&engine, &default, EntryKind::RangeDelete, b"a00010", b"a00020");
        put_range(&engine, "a", 10..15, &[round; 20]);
        // This keeps the file of the flush in use.
        apply(&engine, &other, EntryKind::Put, &[round], b"value");
        flush(&engine).unwrap();
        compact(&engine, &default).unwrap();
    }
    let expected = contents(&engine, "default", None);
    let live = check(engine.database(), &mut |_| {}).unwrap().tables;
    let fs = killed(&fs);
    let there: usize = files(&fs, ".table")
        .iter()
        .map(|path| {
            let file = siltdb_base::fs::Fs::open(&fs, path).unwrap();
            siltdb_disk::table::find_tables(&*file).len()
        })
        .sum();
    assert!(there as u64 > live, "{there} tables are there, and {live} count");
    for path in files(&fs, ".manifest") {
        fs.remove(&path).unwrap();
    }
    let report = saved(&fs).unwrap();
    assert_eq!(report.lost.len(), 1, "{report:?}");
    let engine = open_new(&fs);
    assert!(contents(&engine, "default", None) == expected);
    assert_eq!(contents(&engine, "other", None).len(), 4);
}

/// What the first steps of a merge have written is merged again; the rest of its inputs counts.
#[test]
fn without_a_manifest_a_step_of_a_merge_replaces_no_more_than_its_keys() {
    for nth in [5, 8] {
        let fs = MemFs::new();
        let engine = open(&fs);
        for round in 0..5_u64 {
            // Tables of different runs end at different keys, so that all of them overlap.
            for number in round * 7..400 {
                // It does not compress.
                let word = |word: u64| (round << 32 | number << 8 | word).wrapping_mul(MIXER);
                let value: Vec<u8> = (1..8).flat_map(|at| word(at).to_le_bytes()).collect();
                put(&engine, "default", format!("a{number:05}").as_bytes(), &value);
            }
            flush(&engine).unwrap();
        }
        fs.set_fault(fault(Some(CallKind::Create), nth, FaultError::NoSpace));
        let error = run_job(&engine).err().map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::NoSpace), "create {nth}");
        assert!(engine.database().stats().compaction_steps > 1);
        let default = engine.database().catalog.families.named("default").unwrap();
        let narrow = || {
            let view = default.tree.view();
            let tables = view.version.tables();
            tables.filter(|(_, table)| table.reference().key_slice.is_some()).count()
        };
        put_range(&engine, "a", 0..5, b"newest");
        let token = CancelToken::new();
        let bounds = Bounds { lower: None, upper: Some(Slice::copy_from(b"a00005")) };
        let mut ignore = |_: CompactProgress| ();
        let mut control = CompactControl::new(&token, &mut ignore);
        let writable = engine.writable().unwrap();
        compact_range(&writable.job_rooms(), &default, &bounds, &mut control).unwrap();
        assert!(narrow() > 3, "create {nth}: {}, the rest of the inputs was merged", narrow());
        let expected = contents(&engine, "default", None);
        let fs = killed(&fs);
        for path in files(&fs, ".manifest") {
            fs.remove(&path).unwrap();
        }
        let report = saved(&fs).unwrap();
        assert_eq!(report.manifest, ManifestState::Lost);
        assert!(contents(&open_new(&fs), "default", None) == expected, "create {nth}");
    }
}

/// A table that a clone shares counts for each family, whatever the other does with it.
#[test]
fn clones_are_saved_as_families_of_their_own() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..300, &[1; 50]);
    let moment = snapshot(&engine);
    put_range(&engine, "a", 100..400, &[2; 50]);
    flush(&engine).unwrap();
    let default = engine.database().catalog.families.named("default").unwrap();
    clone_family(&engine, &default, "at", Some(&moment)).unwrap();
    clone_family(&engine, &default, "copy", None).unwrap();
    put(&engine, "copy", b"own", b"1");
    // The source gives up the tables, the clone at the moment alone keeps them.
    compact(&engine, &default).unwrap();
    let names = ["at", "copy", "default"];
    let expected = names.map(|name| (name, contents(&engine, name, None)));
    assert!(expected[0].1.len() == 300 && expected[1].1.len() == 401);
    let fs = killed(&fs);
    let report = saved(&fs).unwrap();
    assert!(report.is_complete() && report.manifest == ManifestState::Whole, "{report:?}");
    assert_same(&fs, &expected);
}

#[test]
fn without_a_manifest_what_a_clone_has_merged_is_not_replaced_in_its_source() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..300, &[1; 50]);
    compact_all(&engine).unwrap();
    let default = engine.database().catalog.families.named("default").unwrap();
    let copy = clone_family(&engine, &default, "copy", None).unwrap();
    for number in (0..300).step_by(2) {
        put(&engine, "copy", format!("a{number:05}").as_bytes(), b"of the clone");
    }
    compact(&engine, &copy).unwrap();
    let shared = |family: &FamilyData| -> Vec<_> {
        let view = family.tree.view();
        view.version.tables().map(|(_, table)| table.id()).collect()
    };
    assert!(shared(&copy).iter().all(|id| !shared(&default).contains(id)), "nothing was merged");
    let expected = ["copy", "default"].map(|name| (name, contents(&engine, name, None)));
    let fs = killed(&fs);
    for path in files(&fs, ".manifest") {
        fs.remove(&path).unwrap();
    }
    let report = saved(&fs).unwrap();
    assert_eq!(report.manifest, ManifestState::Lost);
    assert_same(&fs, &expected);
}

#[test]
fn a_salvage_that_fails_leaves_nothing() {
    let fs = MemFs::new();
    drop(filled(&fs));
    let before = bytes_of(&fs);
    let mut failed = 0;
    for kind in [CallKind::Create, CallKind::Write, CallKind::Sync, CallKind::Rename] {
        for nth in 1.. {
            let fs = killed(&fs);
            fs.set_fault(fault(Some(kind), nth, FaultError::NoSpace));
            let faults = fs.faults();
            let result = saved(&fs);
            let is_met = fs.faults() > faults;
            fs.set_fault(None);
            let names = fs.list(Path::new("")).unwrap().into_iter().map(|entry| entry.name);
            let names: Vec<_> = names.collect();
            match result {
                Ok(_) => assert_eq!(names, [DIR, NEW]),
                Err(error) => {
                    failed += 1;
                    // The last sync is that of the new name.
                    let is_named = kind == CallKind::Sync && names == [DIR, NEW];
                    assert!(names == [DIR] || is_named, "{kind:?} {nth}: {names:?} {error}");
                }
            }
            assert!(bytes_of(&fs) == before);
            if !is_met {
                break;
            }
        }
    }
    assert!(failed > 20, "{failed}");
}

/// Cuts the manifest to every length. What an opening refuses then is saved whole. Returns how many
/// were refused.
fn saved_of_cut(whole: &MemFs) -> usize {
    let all = contents(&open(&killed(whole)), "default", None);
    let path = files(whole, ".manifest").pop().unwrap();
    let mut refused = 0;
    for cut in 0..whole.read_all(&path).unwrap().len() as u64 {
        let fs = killed(whole);
        fs.truncate(&path, cut).unwrap();
        let lenient = EngineOptions { recovery: RecoveryMode::PointInTime, ..options(&fs) };
        if Engine::open(Path::new(DIR), lenient).is_ok() {
            continue;
        }
        assert!(!check_closed(Path::new(DIR), options(&fs), &mut |_| ()).unwrap().is_clean());
        assert_eq!(saved(&fs).unwrap().manifest, ManifestState::Lost, "cut to {cut}");
        assert!(contents(&open_new(&fs), "default", None) == all, "cut to {cut}");
        refused += 1;
    }
    refused
}

#[test]
fn a_database_whose_manifest_lost_its_last_edits_is_saved_whole() {
    // A flush retires the log, and a later put begins another.
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..200, &[1; 50]);
    flush(&engine).unwrap();
    engine.close().unwrap();
    let engine = open(&fs);
    try_put(&engine, "default", b"later", b"value", Durability::Synced).unwrap();
    engine.close().unwrap();
    let refused = saved_of_cut(&killed(&fs));
    assert!(refused > 100, "{refused}");
    // Two flushes, and no log.
    let fs = MemFs::new();
    let engine = open(&fs);
    for prefix in ["a", "b"] {
        put_range(&engine, prefix, 0..200, &[1; 50]);
        flush(&engine).unwrap();
    }
    engine.close().unwrap();
    open(&fs).close().unwrap();
    assert!(files(&fs, ".log").is_empty());
    let refused = saved_of_cut(&killed(&fs));
    assert!(refused > 100, "{refused}");
}

/// The tables of the last flush are all that is left: neither manifest nor log knows them.
#[test]
fn what_an_opening_kept_in_lost_is_counted_by_a_check_and_saved() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..200, &[1; 50]);
    let path = files(&fs, ".manifest").pop().unwrap();
    let bytes = fs.read_all(&path).unwrap().len() as u64;
    flush(&engine).unwrap();
    engine.close().unwrap();
    let fs = killed(&fs);
    fs.truncate(&path, bytes).unwrap();
    files(&fs, ".log").iter().for_each(|log| fs.remove(log).unwrap());
    let tables = files(&fs, ".table").len() as u64;
    open(&fs).close().unwrap();
    let report = check_closed(Path::new(DIR), options(&fs), &mut |_| ()).unwrap();
    assert!(report.is_clean() && tables > 0 && report.lost_files.files == tables);
    let lost = Path::new(DIR).join("lost");
    let report = salvage(&lost, Path::new(NEW), options(&fs), &mut |_| {}).unwrap();
    assert_eq!(report.entries, 200);
}
