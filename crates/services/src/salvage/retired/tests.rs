//! Salvage of databases of which tables are lost, and log segments that the manifest calls retired
//! are still there.

use crate::{
    archive::{
        create::{ArchiveRequest, create_archive},
        import::{ImportRequest, import_archive},
    },
    salvage::{report::SalvageReport, salvage},
};
use siltdb_base::{
    error::Result,
    fs::{Fs, mem::MemFs},
    key::EntryKind,
};
use siltdb_engine::{
    catalog::family::FamilyData,
    engine::Engine,
    fixture::{
        DIR, Pairs, clone_family, commit_payload, compact_all, contents, create_family, files,
        flush, killed, options, put, put_range, tree_options, try_put,
    },
    options::{Durability, EngineOptions},
    write::commit::Payload,
};
use siltdb_tree::{merge_operator::MergeOperator, options::TreeOptions};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

const NEW: &str = "new";
const FAMILIES: [&str; 3] = ["default", "joined", "other"];

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

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

/// Options with which the whole log stays.
fn retaining(fs: &MemFs) -> EngineOptions {
    let mut options = EngineOptions { retain_log_bytes: 1 << 30, ..options(fs) };
    options.merge_operators.push(Arc::new(Joined));
    options
}

fn open(fs: &MemFs) -> Engine {
    Engine::open(Path::new(DIR), retaining(fs)).unwrap()
}

/// A database with the families of [`FAMILIES`]. Values of 40 bytes and more are separated in one.
fn created(fs: &MemFs) -> Engine {
    let engine = open(fs);
    let joined = TreeOptions { merge_operator: Some(Arc::new(Joined)), ..tree_options() };
    create_family(&engine, "joined", joined).unwrap();
    let separating = TreeOptions { value_threshold: 40, ..tree_options() };
    create_family(&engine, "other", separating).unwrap();
    engine
}

fn family(engine: &Engine, name: &str) -> Arc<FamilyData> {
    engine.database().catalog.families.named(name).unwrap()
}

fn apply(engine: &Engine, name: &str, kind: EntryKind, key: &[u8], payload: &[u8]) {
    commit_payload(engine, &Payload::one(&family(engine, name), kind, key, payload)).unwrap();
}

fn saved(fs: &MemFs) -> SalvageReport {
    let mut options = options(fs);
    options.merge_operators.push(Arc::new(Joined));
    salvage(Path::new(DIR), Path::new(NEW), options, &mut |_| {}).unwrap()
}

fn contents_of(fs: &MemFs, dir: &str) -> Vec<Pairs> {
    let engine = Engine::open(Path::new(dir), retaining(fs)).unwrap();
    let names = engine.database().catalog.families.names();
    names.iter().map(|name| contents(&engine, name, None)).collect()
}

fn all_of(engine: &Engine) -> Vec<Pairs> {
    engine
        .database()
        .catalog
        .families
        .names()
        .iter()
        .map(|name| contents(engine, name, None))
        .collect()
}

/// The database with each of its tables lost or damaged in turn, and with all of them lost.
fn damaged(fs: &MemFs) -> Vec<(String, MemFs)> {
    let tables = files(fs, ".table");
    let mut all = Vec::new();
    for table in &tables {
        let (lost, footless, flipped) = (killed(fs), killed(fs), killed(fs));
        let len = fs.read_all(table).unwrap().len() as u64;
        lost.remove(table).unwrap();
        footless.bytes_flip(table, len - 20, 1).unwrap();
        flipped.bytes_flip(table, 30, 1).unwrap();
        all.push((format!("{} is lost", table.display()), lost));
        all.push((format!("{} has no footer", table.display()), footless));
        all.push((format!("{} has a bad block", table.display()), flipped));
    }
    let none = killed(fs);
    tables.iter().for_each(|table| none.remove(table).unwrap());
    all.push(("all tables are lost".to_owned(), none));
    all
}

fn remove_retired(fs: &MemFs, live: &[PathBuf]) {
    for path in files(fs, ".log") {
        if !live.contains(&path) {
            fs.remove(&path).unwrap();
        }
    }
}

/// Expiring values: the payload is the time and the value.
fn expiring(value: &[u8]) -> Vec<u8> {
    [&u64::MAX.to_le_bytes()[..], value].concat()
}

/// Writes of every kind in all families, in three flushes, with a live log.
fn filled(fs: &MemFs, is_compacted: bool) -> Engine {
    let engine = created(fs);
    put_range(&engine, "a", 0..300, &[1; 50]);
    apply(&engine, "joined", EntryKind::Put, b"base", b"0");
    apply(&engine, "joined", EntryKind::Merge, b"base", b"1");
    apply(&engine, "other", EntryKind::Put, b"separated", &[7; 500]);
    apply(&engine, "other", EntryKind::Put, b"small", b"old");
    flush(&engine).unwrap();
    apply(&engine, "default", EntryKind::Delete, b"a00007", b"");
    apply(&engine, "default", EntryKind::RangeDelete, b"a00100", b"a00120");
    apply(&engine, "default", EntryKind::Put, b"a00110", b"again");
    apply(&engine, "default", EntryKind::PutExpiring, b"a00111", &expiring(b"late"));
    apply(&engine, "joined", EntryKind::Merge, b"base", b"2");
    apply(&engine, "other", EntryKind::Put, b"small", b"new");
    flush(&engine).unwrap();
    if is_compacted {
        compact_all(&engine).unwrap();
    }
    put_range(&engine, "a", 200..210, b"newer");
    apply(&engine, "default", EntryKind::Delete, b"a00008", b"");
    apply(&engine, "joined", EntryKind::Merge, b"base", b"3");
    apply(&engine, "other", EntryKind::Delete, b"small", b"");
    flush(&engine).unwrap();
    put_range(&engine, "b", 0..10, &[2; 50]);
    apply(&engine, "joined", EntryKind::Merge, b"base", b"4");
    apply(&engine, "default", EntryKind::Delete, b"a00009", b"");
    engine
}

#[test]
fn a_retained_log_gives_back_all_that_lost_tables_held() {
    let mut rescued = 0;
    for is_compacted in [false, true] {
        for ends_closed in [false, true] {
            let fs = MemFs::new();
            let engine = filled(&fs, is_compacted);
            let expected = all_of(&engine);
            assert_eq!(expected[1], [(b"base".to_vec(), b"01234".to_vec())]);
            if ends_closed {
                engine.close().unwrap();
            }
            for (how, fs) in damaged(&killed(&fs)) {
                let before = files(&fs, "").len();
                let report = saved(&fs);
                let how = format!("{how}, {is_compacted} {ends_closed}: {report:?}");
                // Some damage is harmless: of a table that is no more, or of a footer.
                assert_eq!(report.is_complete(), report.retired_operations == 0, "{how}");
                rescued += usize::from(!report.is_complete());
                assert_eq!(report.possibly_replaced, 0, "{how}");
                assert!(contents_of(&fs, NEW) == expected, "{how}");
                assert_eq!(files(&fs, "").len(), before);
            }
        }
    }
    assert!(rescued > 20, "{rescued}");
}

#[test]
fn a_retired_segment_that_waits_for_its_next_use_gives_back_what_a_lost_table_held() {
    let fs = MemFs::new();
    let engine = Engine::open(Path::new(DIR), options(&fs)).unwrap();
    put_range(&engine, "a", 0..300, &[1; 50]);
    apply(&engine, "default", EntryKind::Delete, b"a00007", b"");
    flush(&engine).unwrap();
    let expected = contents(&engine, "default", None);
    let fs = killed(&fs);
    assert_eq!(files(&fs, ".table").len(), 1);
    files(&fs, ".table").iter().for_each(|table| fs.remove(table).unwrap());
    let report = saved(&fs);
    assert_eq!(report.retired_operations, 301, "{report:?}");
    assert!(contents_of(&fs, NEW) == [expected]);
}

#[test]
fn a_retired_log_is_passed_over_where_no_table_is_damaged() {
    let fs = MemFs::new();
    let engine = filled(&fs, true);
    let expected = all_of(&engine);
    let fs = killed(&fs);
    let report = saved(&fs);
    assert!(report.is_complete() && report.retired_operations == 0, "{report:?}");
    assert!(contents_of(&fs, NEW) == expected);
}

/// A compaction gives values an older, shared number, and a table may have folded operands.
#[test]
fn operands_without_a_base_in_the_retired_log_do_not_count_twice() {
    let fs = MemFs::new();
    let engine = created(&fs);
    apply(&engine, "joined", EntryKind::Put, b"a", b"0");
    apply(&engine, "joined", EntryKind::Put, b"b", b"0");
    flush(&engine).unwrap();
    let old = files(&killed(&fs), ".log");
    apply(&engine, "joined", EntryKind::Merge, b"a", b"1");
    apply(&engine, "joined", EntryKind::Merge, b"c", b"1");
    flush(&engine).unwrap();
    compact_all(&engine).unwrap();
    let whole = files(&killed(&fs), ".table");
    apply(&engine, "joined", EntryKind::Put, b"c", b"2");
    apply(&engine, "joined", EntryKind::Merge, b"b", b"1");
    apply(&engine, "joined", EntryKind::Merge, b"a", b"3");
    flush(&engine).unwrap();
    let fs = killed(&fs);
    for table in files(&fs, ".table").iter().filter(|table| !whole.contains(table)) {
        fs.remove(table).unwrap();
    }
    let oldest = old.iter().find(|path| files(&fs, ".log").contains(path)).unwrap();
    fs.remove(oldest).unwrap();
    let report = saved(&fs);
    assert!(report.retired_operations > 0, "{report:?}");
    let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    let expected = [pair("a", "01"), pair("b", "0"), pair("c", "2")];
    assert_eq!(contents_of(&fs, NEW)[1], expected);
}

/// A `Volatile` commit is in a table only, perhaps with a number older than that of a commit that
/// it replaced.
#[test]
fn an_operation_before_one_that_was_not_logged_hides_nothing_of_a_table() {
    let fs = MemFs::new();
    let engine = created(&fs);
    put_range(&engine, "a", 0..10, b"logged");
    put_range(&engine, "z", 0..10, b"logged");
    flush(&engine).unwrap();
    try_put(&engine, "default", b"a00003", b"unlogged", Durability::Volatile).unwrap();
    flush(&engine).unwrap();
    compact_all(&engine).unwrap();
    let whole = files(&killed(&fs), ".table");
    // Its range holds the keys of the others.
    apply(&engine, "default", EntryKind::Put, b"a", b"");
    apply(&engine, "default", EntryKind::Put, b"z", b"");
    try_put(&engine, "default", b"b", b"unlogged", Durability::Volatile).unwrap();
    flush(&engine).unwrap();
    let expected = contents(&engine, "default", None);
    let fs = killed(&fs);
    for table in files(&fs, ".table").iter().filter(|table| !whole.contains(table)) {
        fs.remove(table).unwrap();
    }
    let report = saved(&fs);
    assert!(report.retired_operations > 0, "{report:?}");
    let mut expected = expected;
    expected.retain(|(key, _)| key != b"b");
    assert_eq!(contents_of(&fs, NEW)[0], expected);
}

/// Whether the last value of a key was in the lost table alone cannot be told: the report says so.
#[test]
fn an_operation_before_one_that_was_not_logged_is_reported_as_possibly_replaced() {
    let fs = MemFs::new();
    let engine = created(&fs);
    put(&engine, "default", b"a", b"older");
    flush(&engine).unwrap();
    let logged = saved_without_tables(&fs);
    assert_eq!((logged.retired_operations, logged.possibly_replaced), (1, 0), "{logged:?}");
    try_put(&engine, "default", b"a", b"unlogged", Durability::Volatile).unwrap();
    flush(&engine).unwrap();
    compact_all(&engine).unwrap();
    put(&engine, "default", b"b", b"last");
    flush(&engine).unwrap();
    let report = saved_without_tables(&fs);
    assert_eq!((report.retired_operations, report.possibly_replaced), (2, 1), "{report:?}");
}

/// The report of a salvage of the files of a kill, of which all tables are lost.
fn saved_without_tables(fs: &MemFs) -> SalvageReport {
    let fs = killed(fs);
    files(&fs, ".table").iter().for_each(|table| fs.remove(table).unwrap());
    saved(&fs)
}

/// Applies 60 operations of all kinds to few keys of all families.
fn apply_some(engine: &Engine, draw: &mut impl FnMut(u64) -> u64) {
    for _ in 0..60 {
        let name = FAMILIES[draw(3) as usize];
        let key = format!("{:02}", draw(40));
        let value = format!("{:0>1$}", draw(1000), 1 + draw(60) as usize);
        let (kind, payload) = match draw(12) {
            0..=1 => (EntryKind::Delete, Vec::new()),
            2 => {
                let end = format!("{:02}", 5 + draw(40));
                (EntryKind::RangeDelete, end.into_bytes())
            }
            3 => (EntryKind::PutExpiring, expiring(value.as_bytes())),
            4..=7 if name == "joined" => (EntryKind::Merge, value.into_bytes()),
            _ => (EntryKind::Put, value.into_bytes()),
        };
        if kind == EntryKind::RangeDelete && payload <= key.clone().into_bytes() {
            continue;
        }
        apply(engine, name, kind, key.as_bytes(), &payload);
    }
}

/// What is read of retired segments makes no key worse: it has its last value, or what it has
/// without them.
#[test]
fn retired_segments_bring_back_the_last_value_or_nothing() {
    let mut random = 7_u64;
    let mut draw = |bound: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let (mut better, mut cases) = (0, 0);
    for round in 0..25 {
        let fs = MemFs::new();
        let engine = created(&fs);
        for _ in 0..6 {
            apply_some(&engine, &mut draw);
            match draw(4) {
                0 => {
                    flush(&engine).unwrap();
                    compact_all(&engine).unwrap();
                }
                1 => {}
                _ => flush(&engine).unwrap(),
            }
        }
        let truth: Vec<BTreeMap<_, _>> =
            all_of(&engine).into_iter().map(|pairs| pairs.into_iter().collect()).collect();
        let fs = killed(&fs);
        let logs = files(&fs, ".log");
        let first = draw(logs.len() as u64) as usize;
        for (how, fs) in damaged(&fs) {
            // An older part of the log is gone.
            remove_retired(&fs, &logs[first..]);
            let report = saved(&fs);
            let found = contents_of(&fs, NEW);
            let without = without_retired(&fs);
            for (index, (found, without)) in found.into_iter().zip(without).enumerate() {
                let (found, without): (BTreeMap<_, _>, BTreeMap<_, _>) =
                    (found.into_iter().collect(), without.into_iter().collect());
                let keys = truth[index].keys().chain(found.keys()).chain(without.keys());
                for key in keys {
                    let (is, was, last) = (found.get(key), without.get(key), truth[index].get(key));
                    let name = FAMILIES[index];
                    let key = String::from_utf8_lossy(key);
                    assert!(
                        is == last || is == was,
                        "round {round}, {how}: {name} {key} is {is:?}, was {was:?}, not {last:?}; \
                         {report:?}"
                    );
                    better += usize::from(is == last && was != last);
                }
            }
            cases += 1;
        }
    }
    assert!(cases > 300 && better > 1000, "{cases} {better}");
}

/// What a salvage saves after the retired segments are removed.
fn without_retired(fs: &MemFs) -> Vec<Pairs> {
    let fs = killed(fs);
    for path in fs.list(Path::new(NEW)).unwrap() {
        fs.remove(&Path::new(NEW).join(path.name)).unwrap();
    }
    let directory = fs.open_dir(Path::new(DIR)).unwrap();
    let number = siltdb_engine::catalog::manifest::read_current(&*directory).unwrap().unwrap();
    let mut log = siltdb_engine::catalog::log_state::LogState::default();
    siltdb_engine::catalog::manifest::read_manifest(&*directory, number, &mut |edit| {
        log.note(&edit);
        Ok(())
    })
    .unwrap();
    for path in files(&fs, ".log") {
        let file = fs.open(&path).unwrap();
        let header = siltdb_disk::log::segment::SegmentHeader::read(&*file, &path).unwrap();
        if header.is_some_and(|header| header.id < log.first) {
            fs.remove(&path).unwrap();
        }
    }
    assert_eq!(saved(&fs).retired_operations, 0);
    contents_of(&fs, NEW)
}

/// The log has what was written to a clone, and not what it began with: operands over that are no
/// value.
#[test]
fn a_clone_gets_back_what_was_written_to_it_and_nothing_in_part() {
    let fs = MemFs::new();
    let engine = created(&fs);
    for key in [b"base", b"kept"] {
        apply(&engine, "joined", EntryKind::Put, key, b"0");
    }
    clone_family(&engine, &family(&engine, "joined"), "twin", None).unwrap();
    apply(&engine, "joined", EntryKind::Put, b"kept", b"of the source");
    apply(&engine, "twin", EntryKind::Merge, b"base", b"1");
    apply(&engine, "twin", EntryKind::Put, b"own", b"2");
    apply(&engine, "twin", EntryKind::Merge, b"own", b"3");
    flush(&engine).unwrap();
    compact_all(&engine).unwrap();
    let expected = all_of(&engine);
    let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert_eq!(expected[3], [pair("base", "01"), pair("kept", "0"), pair("own", "23")]);
    let fs = killed(&fs);
    files(&fs, ".table").iter().for_each(|table| fs.remove(table).unwrap());
    let report = saved(&fs);
    let found = contents_of(&fs, NEW);
    assert_eq!(found[..3], expected[..3], "{report:?}");
    assert_eq!(found[3], [pair("own", "23")], "{report:?}");
}

/// The tables of an import were never logged, and hold nothing older than the log has.
#[test]
fn an_operation_before_an_import_hides_nothing_of_it() {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("archives")).unwrap();
    let archive = Path::new("archives/a.siltar");
    let other = Engine::open(Path::new("other"), options(&fs)).unwrap();
    put(&other, "default", b"m", b"imported");
    let mut go_on = |_| ControlFlow::Continue(());
    create_archive(other.database(), archive, None, &ArchiveRequest::default(), &mut go_on)
        .unwrap();
    let engine = open(&fs);
    put(&engine, "default", b"m", b"old");
    apply(&engine, "default", EntryKind::Delete, b"m", b"");
    flush(&engine).unwrap();
    compact_all(&engine).unwrap();
    import_archive(engine.writable().unwrap(), archive, &ImportRequest::default(), &mut go_on)
        .unwrap();
    let whole = files(&killed(&fs), ".table");
    put(&engine, "default", b"a", b"1");
    put(&engine, "default", b"z", b"1");
    flush(&engine).unwrap();
    let expected = contents(&engine, "default", None);
    let fs = killed(&fs);
    for table in files(&fs, ".table").iter().filter(|table| !whole.contains(table)) {
        fs.remove(table).unwrap();
    }
    let report = saved(&fs);
    assert!(report.retired_operations > 0, "{report:?}");
    assert_eq!(contents_of(&fs, NEW)[0], expected);
}
