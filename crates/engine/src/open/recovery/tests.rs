//! What recovery shows stays, wherever recovery is interrupted (laws A5, L5 and F8).

use super::*;
use crate::{
    engine::Engine,
    families::family_commit::prepare_family,
    fixture::{
        DIR, Pairs, branches, contents, create_family, fault, files, flush, killed,
        leave_manifest_unfinished, open, options, put, put_range, reform_record, sync_wal,
        tree_options, try_put,
    },
    jobs::next::run_one,
    options::Durability,
};
use siltdb_base::{
    error::ErrorKind,
    fs::{
        Metadata,
        mem::{CallKind, Crash, FaultError, MemFs},
    },
    id::{FamilyId, SegmentId},
    limits::{FAMILY_IDS_MAX, FILE_NUMBER_MAX},
};
use siltdb_disk::{edit::NEXT_FILE_MAX, log::record::SEGMENT_ID_MAX};
use std::sync::Mutex;

/// Seeds of a power failure to try.
const SEEDS: u64 = 8;

fn power_lost(fs: &MemFs, seed: u64) -> MemFs {
    fs.crash_clone(Crash::PowerLoss { seed })
}

fn shown(fs: &MemFs) -> Pairs {
    contents(&open(fs), "default", None)
}

fn with_keys(keys: &[&str]) -> Pairs {
    keys.iter().map(|key| (key.as_bytes().to_vec(), b"value".to_vec())).collect()
}

fn put_keys(engine: &Engine, keys: &[&str]) {
    keys.iter().for_each(|key| put(engine, "default", key.as_bytes(), b"value"));
}

/// Flips a byte of the record that holds `key`, and returns its place.
fn damage(fs: &MemFs, key: &str) -> std::path::PathBuf {
    for path in files(fs, ".log") {
        let bytes = fs.read_all(&path).unwrap();
        if let Some(at) = bytes.windows(key.len()).position(|bytes| bytes == key.as_bytes()) {
            fs.bytes_flip(&path, at as u64, 1).unwrap();
            return path;
        }
    }
    panic!("no log holds {key}");
}

#[test]
fn an_opening_makes_only_the_families_that_are_used() {
    let fs = MemFs::new();
    let engine = open(&fs);
    create_family(&engine, "other", tree_options()).unwrap();
    put_range(&engine, "key", 0..10, b"value");
    flush(&engine).unwrap();
    for number in 0..5 {
        branches::create(&engine, &format!("b{number}")).unwrap();
    }
    let held = branches::held(&engine, "b2");
    assert!(held.iter().any(|(_, pairs)| pairs.len() == 10));
    drop(engine);
    let engine = open(&fs);
    let made = || {
        let families = engine.database().catalog.families.load();
        families.made().map(|family| family.id.0).collect::<Vec<_>>()
    };
    assert_eq!(made(), [0_u32; 0]);
    // What looks at all families makes none.
    let database = engine.database();
    assert_eq!(database.stats().families, 22);
    let manifest = lock(&database.catalog.manifest_io);
    let changes = install::snapshot(&database.catalog, &manifest, FileNumber(9)).changes;
    drop(manifest);
    let is_creation = |change: &&Change| matches!(change, Change::CreateFamily { .. });
    assert_eq!(changes.iter().filter(is_creation).count(), 22);
    branches::rename_branch(&engine, "b0", "renamed").unwrap();
    branches::drop_branch(&engine, "b1").unwrap();
    assert_eq!(branches::held(&engine, "b2"), held);
    assert_eq!(made().len(), 2, "those of the branch that is read");
    branches::put_on(&engine, "b3", b"new", b"value");
    flush(&engine).unwrap();
    assert_eq!(made().len(), 4);
    drop(engine);
    let engine = open(&fs);
    assert_eq!(branches::held(&engine, "renamed"), held);
    let of_default = |held: branches::Held| held.iter().map(|(_, pairs)| pairs.len()).max();
    assert_eq!(of_default(branches::held(&engine, "b3")), Some(11));
    assert!(branches::id_of(&engine, "b1").is_none());
}

#[test]
fn nothing_is_appended_to_a_segment_of_an_earlier_process() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..50, b"value");
    put_keys(&engine, &["torn"]);
    for is_torn in [false, true] {
        let fs = killed(&fs);
        if is_torn {
            damage(&fs, "torn");
        }
        let old: Vec<_> = files(&fs, ".log")
            .into_iter()
            .map(|path| (fs.read_all(&path).unwrap(), path))
            .collect();
        let engine = open(&fs);
        put_range(&engine, "b", 0..50, b"value");
        sync_wal(&engine).unwrap();
        assert!(!old.is_empty());
        for (bytes, path) in old {
            assert!(fs.read_all(&path).unwrap() == bytes, "{path:?} was written to");
        }
        assert_eq!(shown(&killed(&fs)).len(), 101 - usize::from(is_torn));
    }
}

#[test]
fn a_log_that_is_wholly_retired_goes_on_behind_where_it_ended() {
    let mut fs = MemFs::new();
    for process in 1..5 {
        let engine = open(&fs);
        put_range(&engine, "a", 0..process, b"value");
        flush(&engine).unwrap();
        put_range(&engine, "b", 0..process, b"value");
        fs = killed(&fs);
        assert_eq!(shown(&killed(&fs)).len(), 2 * process as usize);
        let engine = open(&fs);
        flush(&engine).unwrap();
        // The next process removes retired segments, and then finds none.
        fs = killed(&fs);
        drop(open(&fs));
        assert_eq!(files(&fs, ".log"), [] as [std::path::PathBuf; 0]);
    }
}

#[test]
fn what_was_never_synced_but_shown_survives_a_loss_of_power() {
    for seed in 0..SEEDS {
        let fs = MemFs::new();
        let engine = open(&fs);
        put_range(&engine, "a", 0..100, &[7; 100]);
        let fs = killed(&fs);
        let engine = open(&fs);
        assert_eq!(contents(&engine, "default", None).len(), 100);
        assert_eq!(shown(&power_lost(&fs, seed)).len(), 100, "seed {seed}");
    }
}

/// The system may mark the pages of a failed sync clean: a second sync would not save them.
#[test]
fn what_was_shown_after_a_failed_sync_survives_a_loss_of_power() {
    for seed in 0..SEEDS {
        let fs = MemFs::new();
        let engine = open(&fs);
        put_range(&engine, "a", 0..100, &[7; 100]);
        fs.set_fault(fault(Some(CallKind::Sync), 1, FaultError::Io));
        assert_eq!(sync_wal(&engine).unwrap_err().kind(), ErrorKind::Poisoned);
        let fs = killed(&fs);
        let engine = open(&fs);
        assert_eq!(contents(&engine, "default", None).len(), 100);
        assert_eq!(shown(&power_lost(&fs, seed)).len(), 100, "seed {seed}");
    }
}

#[test]
fn what_was_cut_never_comes_back_and_what_came_after_the_cut_stays() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_keys(&engine, &["early", "torn", "whole"]);
    for later in [&["later"][..], &[]] {
        let fs = killed(&fs);
        let path = damage(&fs, "torn");
        let engine = open(&fs);
        assert_eq!(contents(&engine, "default", None), with_keys(&["early"]));
        for key in later {
            let pair = (key.as_bytes(), &b"value"[..]);
            try_put(&engine, "default", pair.0, pair.1, Durability::Synced).unwrap();
        }
        let fs = killed(&fs);
        let expected = with_keys(&[&["early"], later].concat());
        assert_eq!(shown(&killed(&fs)), expected);
        // The torn record is whole again: an unsynced page may reach the disk later.
        let bytes = fs.read_all(&path).unwrap();
        let at = bytes.windows(4).position(|bytes| bytes == b"uorn").unwrap();
        fs.bytes_flip(&path, at as u64, 1).unwrap();
        for seed in 0..SEEDS {
            assert_eq!(shown(&power_lost(&fs, seed)), expected, "{later:?}, seed {seed}");
        }
    }
}

/// What an interrupted process may leave: tables, a manifest, segments of two processes, files of
/// unfinished jobs, and a lost tail if `tail` says so.
fn left_behind(tail: Tail) -> (MemFs, usize) {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..40, &[7; 50]);
    flush(&engine).unwrap();
    create_family(&engine, "second", tree_options()).unwrap();
    put_range(&engine, "b", 0..10, &[7; 50]);
    let fs = killed(&fs);
    let engine = open(&fs);
    put_range(&engine, "c", 0..10, &[7; 50]);
    try_put(&engine, "default", b"synced", b"value", Durability::Synced).unwrap();
    let durable = contents(&engine, "default", None).len();
    put_range(&engine, "t", 0..20, &[7; 200]);
    let fs = killed(&fs);
    if tail == Tail::Torn {
        damage(&fs, "t00015");
    }
    for name in ["000900.table", "000901.tmp", "000902.manifest"] {
        fs.write_all(&Path::new(DIR).join(name), b"unfinished").unwrap();
    }
    (fs, durable)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    Whole,
    Torn,
}

/// The states of the disk after crashes before each call of opening, by a kill and by a power
/// failure.
fn crashes_of_opening(fs: &MemFs) -> Vec<(Crash, MemFs)> {
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let (disk, seen) = (fs.clone(), Arc::clone(&crashes));
    fs.on_call(Some(Arc::new(move |call| {
        for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
            lock(&seen).push((crash, disk.crash_clone(crash)));
        }
    })));
    let engine = open(fs);
    fs.on_call(None);
    drop(engine);
    std::mem::take(&mut *lock(&crashes))
}

#[test]
fn a_crash_during_recovery_loses_nothing_and_the_next_recovery_shows_it_for_good() {
    for tail in [Tail::Whole, Tail::Torn] {
        let (fs, durable) = left_behind(tail);
        let expected = shown(&killed(&fs));
        assert_eq!(expected.len(), durable + if tail == Tail::Whole { 20 } else { 15 });
        let once = crashes_of_opening(&fs);
        assert!(once.len() >= 16, "recovery made {} calls", once.len() / 2);
        let twice = once.iter().step_by(3).flat_map(|(first, fs)| {
            let second = crashes_of_opening(&killed(fs));
            second
                .into_iter()
                .map(|(second, fs)| (if *first == Crash::Kill { second } else { *first }, fs))
        });
        let twice: Vec<_> = twice.collect();
        for (crash, fs) in once.iter().chain(&twice) {
            let engine = open(fs);
            let found = contents(&engine, "default", None);
            assert!(found.len() >= durable && expected.starts_with(&found), "{crash:?}");
            assert!(found == expected || *crash != Crash::Kill, "a kill loses nothing");
            assert_eq!(engine.database().catalog.families.names(), ["default", "second"]);
            assert_eq!(files(fs, ".tmp"), [] as [std::path::PathBuf; 0]);
            assert_eq!(shown(&power_lost(fs, 1)), found, "{crash:?}");
        }
    }
}

#[test]
fn a_crash_during_creation_leaves_what_can_be_opened() {
    let crashes = crashes_of_opening(&MemFs::new());
    assert!(crashes.len() > 10);
    for (crash, fs) in crashes {
        let engine = open(&fs);
        assert_eq!(engine.database().catalog.families.names(), ["default"], "{crash:?}");
        try_put(&engine, "default", b"key", b"value", Durability::Synced).unwrap();
        assert_eq!(shown(&power_lost(&fs, 1)), with_keys(&["key"]), "{crash:?}");
    }
}

#[test]
fn only_files_with_our_names_are_removed_at_open() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..50, b"value");
    flush(&engine).unwrap();
    put_range(&engine, "b", 0..50, b"value");
    drop(engine);
    let used = fs.list(Path::new(DIR)).unwrap();
    let orphans = ["000900.table", "000901.manifest", "000902.tmp", "000903.log"];
    let strangers = [
        "notes.txt",
        "900.table",
        "0000900.table",
        "000900.table.bak",
        "000900.TABLE",
        "x000900.table",
        "000900",
        ".table",
        "CURRENT.old",
        "000901.manifest~",
    ];
    for name in orphans.iter().chain(&strangers) {
        fs.write_all(&Path::new(DIR).join(name), b"bytes").unwrap();
    }
    assert_eq!(shown(&fs).len(), 100);
    let mut expected: Vec<_> = used.into_iter().map(|entry| entry.name).collect();
    expected.extend(strangers.iter().map(|&name| name.to_owned()));
    expected.sort();
    let mut left: Vec<_> = fs.list(Path::new(DIR)).unwrap().into_iter().map(|e| e.name).collect();
    left.sort();
    assert_eq!(left, expected);
}

/// A stray file of any origin takes nothing from a good database.
#[test]
fn a_stray_file_with_the_largest_number_does_no_harm() {
    for kind in ["tmp", "table", "manifest", "blob", "log"] {
        for number in [FILE_NUMBER_MAX, FILE_NUMBER_MAX - 1, FILE_NUMBER_MAX / 2] {
            let mut fs = MemFs::new();
            drop(open(&fs));
            let stray = Path::new(DIR).join(format!("{number:06}.{kind}"));
            for process in 0..3 {
                fs.write_all(&stray, b"stray").unwrap();
                let engine = open(&fs);
                put_range(&engine, "a", 0..100 * (process + 1), b"value");
                flush(&engine).unwrap();
                put_range(&engine, "b", 0..10 * (process + 1), b"value");
                create_family(&engine, &format!("family {process}"), tree_options()).unwrap();
                fs = killed(&fs);
                let found = shown(&killed(&fs));
                assert_eq!(found.len() as u32, 110 * (process + 1), "{}", stray.display());
                assert_eq!(
                    open(&killed(&fs)).database().catalog.families.names().len() as u32,
                    process + 2
                );
            }
        }
    }
}

#[test]
fn a_file_that_a_process_may_have_left_keeps_its_number() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..10, b"value");
    flush(&engine).unwrap();
    let fs = killed(&fs);
    let left = 5_000;
    fs.write_all(&Path::new(DIR).join(format!("{left:06}.table")), b"unfinished").unwrap();
    let engine = open(&fs);
    put_range(&engine, "a", 0..10, b"value");
    flush(&engine).unwrap();
    let tables = files(&fs, ".table");
    assert!(tables.contains(&Path::new(DIR).join(format!("{:06}.table", left + 1))), "{tables:?}");
}

/// A manifest with numbers that no process reaches can be read, and is not made worse.
#[test]
fn numbers_that_are_used_up_are_errors() {
    let segments_end = SegmentId(SEGMENT_ID_MAX.0 + 1);
    let position = LogPosition { segment: SegmentId(1 << 40), offset: 64 };
    for change in [
        Change::LogStart { segment: segments_end },
        Change::LogStart { segment: SEGMENT_ID_MAX },
        Change::LogCut { position, next: segments_end, bytes: 0 },
        Change::NextFile(NEXT_FILE_MAX),
    ] {
        let fs = MemFs::new();
        let engine = open(&fs);
        put_keys(&engine, &["key"]);
        flush(&engine).unwrap();
        drop(engine);
        let waiting = Waiting::RunJob(run_one);
        let (database, _lock) = super::open(Path::new(DIR), options(&fs), waiting).unwrap();
        install::install(&database.installer(), vec![change.clone()], None).unwrap();
        let mut fs = killed(&fs);
        for _ in 0..3 {
            let engine = open(&fs);
            let pair = (&b"key"[..], &b"value"[..]);
            let put = try_put(&engine, "default", pair.0, pair.1, Durability::Synced);
            let error = put.and_then(|()| flush(&engine)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{change:?}");
            assert_eq!(contents(&engine, "default", None), with_keys(&["key"]));
            fs = killed(&fs);
        }
    }
}

/// The last id is given once, and the database with it opens.
#[test]
fn a_database_whose_ids_of_families_are_used_up_opens_and_makes_no_more() {
    let fs = MemFs::new();
    drop(open(&fs));
    let waiting = Waiting::RunJob(run_one);
    let (database, lock) = super::open(Path::new(DIR), options(&fs), waiting).unwrap();
    let last = Change::NextFamily(FamilyId(FAMILY_IDS_MAX - 1));
    install::install(&database.installer(), vec![last], None).unwrap();
    drop((database, lock));
    let engine = open(&fs);
    create_family(&engine, "last", tree_options()).unwrap();
    for mut fs in [killed(&fs), power_lost(&fs, 1)] {
        for _ in 0..2 {
            let engine = open(&fs);
            let families = &engine.database().catalog.families;
            assert_eq!(families.named("last").unwrap().id, FamilyId(FAMILY_IDS_MAX - 1));
            let refused = create_family(&engine, "one more", tree_options()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            let prepared = prepare_family(&engine.database().catalog, "one more", tree_options());
            assert_eq!(prepared.unwrap_err().kind(), ErrorKind::InvalidArgument);
            put_keys(&engine, &["key"]);
            flush(&engine).unwrap();
            fs = killed(&fs);
        }
    }
}

#[test]
fn what_has_the_name_of_a_file_but_is_none_is_left_alone() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..100, b"value");
    flush(&engine).unwrap();
    put_range(&engine, "b", 0..100, b"value");
    let mut fs = killed(&fs);
    let odd: Vec<std::path::PathBuf> =
        ["000009.table", "000002.log", "000003.log", "000011.manifest", "000012.tmp"]
            .into_iter()
            .map(|name| Path::new(DIR).join(name))
            .filter(|path| fs.metadata(path).unwrap().is_none())
            .collect();
    assert!(odd.len() >= 4, "{odd:?}");
    odd.iter().for_each(|path| fs.create_dir_all(path).unwrap());
    for process in 1..6 {
        let engine = open(&fs);
        assert_eq!(contents(&engine, "default", None).len(), 100 * (process + 1));
        // Enough to need the numbers and slots of the stray files.
        put_range(&engine, &format!("c{process}"), 0..100, &[7; 1000]);
        flush(&engine).unwrap();
        fs = killed(&fs);
    }
    for path in odd {
        assert_eq!(fs.metadata(&path).unwrap(), Some(Metadata::Directory), "{}", path.display());
    }
}

#[test]
fn a_new_mount_point_is_fit_for_a_new_database() {
    let fs = MemFs::new();
    let found = Path::new(DIR).join("lost+found");
    fs.create_dir_all(&found).unwrap();
    put_keys(&open(&fs), &["key"]);
    assert_eq!(shown(&killed(&fs)), with_keys(&["key"]));
    assert_eq!(fs.metadata(&found).unwrap(), Some(Metadata::Directory));
    // A file of this name belongs to another program.
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    fs.write_all(&found, b"mine").unwrap();
    let error = Engine::open(Path::new(DIR), options(&fs)).unwrap_err();
    assert!(error.to_string().contains("other files"), "{error}");
}

#[test]
fn a_failed_open_leaves_no_lock_file_of_its_own() {
    let lock = Path::new(DIR).join("LOCK");
    // Nothing can be created but the lock file.
    let full = |fs: &MemFs| {
        fs.set_fault(fault(Some(CallKind::OpenLog), 1, FaultError::NoSpace));
        assert_eq!(
            Engine::open(Path::new(DIR), options(fs)).unwrap_err().kind(),
            ErrorKind::NoSpace
        );
        fs.set_fault(None);
    };
    let fs = MemFs::new();
    full(&fs);
    assert_eq!(fs.list(Path::new(DIR)).unwrap(), []);
    // The lock file of another program stays, and so does that of a database.
    fs.write_all(&lock, b"").unwrap();
    full(&fs);
    assert!(fs.metadata(&lock).unwrap().is_some());
    fs.remove(&lock).unwrap();
    put_keys(&open(&fs), &["key"]);
    let fs = killed(&fs);
    fs.remove(&lock).unwrap();
    damage(&fs, "key");
    let path = Path::new(DIR).join("CURRENT");
    fs.bytes_flip(&path, 3, 1).unwrap();
    Engine::open(Path::new(DIR), options(&fs)).unwrap_err();
    assert!(fs.metadata(&lock).unwrap().is_some());
}

#[test]
fn a_current_that_is_not_read_back_replaces_nothing() {
    let fs = MemFs::new();
    put_keys(&open(&fs), &["key"]);
    let fs = killed(&fs);
    leave_manifest_unfinished(&fs);
    let (device, flips) = (fs.clone(), Arc::new(Mutex::new(0)));
    let seen = Arc::clone(&flips);
    fs.on_call(Some(Arc::new(move |call| {
        let is_current = call.path.extension().is_some_and(|extension| extension == "tmp");
        if is_current && call.kind == CallKind::Sync {
            device.bytes_flip(call.path, 20, 1).unwrap();
            *lock(&seen) += 1;
        }
    })));
    let engine = open(&fs);
    let error = create_family(&engine, "other", tree_options()).unwrap_err();
    assert!(error.to_string().contains(".tmp"), "{error}");
    assert_eq!(*lock(&flips), 1);
    fs.on_call(None);
    assert_eq!(shown(&killed(&fs)), with_keys(&["key"]));
    drop(engine);
    assert_eq!(shown(&fs), with_keys(&["key"]));
}

#[test]
fn a_database_that_was_closed_is_opened_without_a_sync() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_keys(&engine, &["a", "b"]);
    engine.close().unwrap();
    drop(engine);
    let syncs = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&syncs);
    fs.on_call(Some(Arc::new(move |call| {
        if matches!(call.kind, CallKind::Sync | CallKind::SyncDir) {
            lock(&seen).push(call.kind);
        }
    })));
    let engine = open(&fs);
    assert_eq!(*lock(&syncs), [], "everything shown is durable");
    drop(engine);
    fs.on_call(None);
    assert_eq!(shown(&fs), with_keys(&["a", "b"]));
}

#[test]
fn records_of_later_versions_and_prepared_transactions_that_are_none_are_refused_by_name() {
    let later = (ErrorKind::Unsupported, "a record of a later version");
    for (form, (kind, name)) in [
        (8, (ErrorKind::Corruption, "")),
        (9, (ErrorKind::Corruption, "")),
        (11, later),
        (15, later),
    ] {
        let fs = MemFs::new();
        let engine = open(&fs);
        put_keys(&engine, &["before", "key", "behind"]);
        sync_wal(&engine).unwrap();
        let fs = killed(&fs);
        reform_record(&fs, b"key", |_| form);
        let reformed = fs.read_all(&files(&fs, ".log")[0]).unwrap();
        let error = Engine::open(Path::new(DIR), options(&fs)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(name) && error.file().is_some(), "{error}");
        assert!(fs.read_all(&files(&fs, ".log")[0]).unwrap() == reformed, "nothing is changed");
    }
}

#[test]
fn a_long_log_shows_the_same_whether_one_or_several_threads_insert_it() {
    let fs = MemFs::new();
    let long = |seed| EngineOptions {
        memory_budget: 64 << 20,
        memtable_bytes: 8 << 20,
        seed,
        ..options(&fs)
    };
    let engine = Engine::open(Path::new(DIR), long(Some(1))).unwrap();
    create_family(&engine, "other", tree_options()).unwrap();
    for number in 0..40_000_u32 {
        let family = if number % 5 < 3 { "default" } else { "other" };
        let key = (number % 9_000).wrapping_mul(0x9E37_79B9).to_be_bytes();
        put(&engine, family, &key, &[number as u8; 90]);
    }
    drop(create_family(&engine, "late", tree_options()));
    put(&engine, "late", b"key", b"value");
    let fs = killed(&fs);
    let shown = |seed, workers| {
        let options = EngineOptions { workers, fs: Arc::new(killed(&fs)), ..long(seed) };
        let engine = Engine::open(Path::new(DIR), options).unwrap();
        ["default", "other", "late"].map(|family| contents(&engine, family, None))
    };
    let expected = shown(Some(1), 0);
    assert_eq!(expected.each_ref().map(|pairs| pairs.len()), [5400, 3600, 1]);
    assert!(shown(None, 2) == expected);
}
