//! Tiers: tables that lie in a second directory, whatever moves, fails, crashes or is missing.
//!
//! # Seeded faults
//! `cold_copy_not_synced`: an edit names a copy that is not durable yet.
//! `frozen_values_stay_hot`: a freeze leaves separated values in blob files.

use crate::maps::{Map, Random, Writes, contents, key};
use siltdb::{
    Compression, Db, ErrorKind, Family, FamilyOptions, Options, Read, RetentionFloor, ScrubOptions,
    archive::ArchiveOptions,
    backup::{Backups, CopyOptions},
    salvage::{ManifestState, salvage},
    testing::{Call, CallKind, Crash, Fault, FaultError, FaultSpan, Fs, ManualClock, MemFs},
};
use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Different keys.
const KEYS: u64 = 300;

const WRITES: Writes = Writes { keys: KEYS, range: 40, values: 1000, repeat: 3 };

/// Families at once.
const FAMILIES_MAX: usize = 5;

/// Small, so that little data makes several levels.
fn small() -> FamilyOptions {
    crate::maps::small().compression(Compression::None)
}

/// Without a cold directory: that of the manifest, if there is one.
fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::at(Duration::from_millis(1_000_000))))
        .workers(0)
        .seed(5)
        .memtable_bytes(32 << 10)
        .memory_budget(8 << 20)
        .default_family(small())
}

/// With a cold directory beside that of the database.
fn tiered(fs: &MemFs) -> Options {
    options(fs).cold_directory("../cold")
}

fn open(fs: &MemFs) -> Db {
    tiered(fs).open("db").unwrap()
}

/// In full, and one by one.
fn compare(source: &impl Read, map: &Map, what: &str) {
    let found = contents(source);
    let first = || map.iter().find(|(key, value)| found.get(*key) != Some(*value));
    assert!(found == *map, "{what}: {} keys for {}: {:?}", found.len(), map.len(), first());
    for number in (0..KEYS).step_by(7) {
        let (key, found) = (key(number), source.get(key(number)).unwrap());
        assert_eq!(found.as_deref(), map.get(&key).map(Vec::as_slice), "{what}: key {number}");
    }
}

/// The table files in a directory.
fn tables(fs: &MemFs, dir: &str) -> BTreeSet<PathBuf> {
    let Ok(entries) = fs.list(Path::new(dir)) else { return BTreeSet::new() };
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".table")).map(|name| Path::new(dir).join(name)).collect()
}

/// Checks that a database at rest has as many files in each tier as its families need.
fn check_files(fs: &MemFs, db: &Db, cold_tables: usize) {
    assert_eq!(tables(fs, "cold").len(), cold_tables, "files in the cold tier");
    let report = db.check(&mut |_| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Keys with values of all families, in tables of several levels.
fn filled(fs: &MemFs) -> (Db, Map) {
    let db = open(fs);
    let map = fill(&db.default_family(), 3);
    db.compact().unwrap();
    db.settle().unwrap();
    (db, map)
}

fn fill(family: &Family, rounds: u8) -> Map {
    let mut map = Map::new();
    for round in 0..rounds {
        for number in 0..KEYS {
            let value = format!("{number}/{round}/").repeat(10).into_bytes();
            family.put(key(number), &value).unwrap();
            map.insert(key(number), value);
        }
        family.flush().unwrap();
    }
    map
}

/// A database in two tiers, and a map for each family.
struct World {
    fs: MemFs,
    db: Db,
    random: Random,
    /// By name.
    families: Vec<(String, Family, Map)>,
    names: u64,
    moved: u64,
    cold_seen: u64,
    reopened: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let fs = MemFs::new();
        let db = open(&fs);
        let families = vec![("default".to_owned(), db.default_family(), Map::new())];
        let (names, moved, cold_seen, reopened) = (0, 0, 0, 0);
        Self { fs, db, random: Random(seed), families, names, moved, cold_seen, reopened }
    }

    fn pick(&mut self) -> usize {
        self.random.below(self.families.len() as u64) as usize
    }

    fn write(&mut self) {
        let index = self.pick();
        for _ in 0..self.random.below(80) {
            let (_, family, map) = &mut self.families[index];
            WRITES.write(&mut self.random, family, map);
        }
    }

    fn create(&mut self) {
        if self.families.len() == FAMILIES_MAX {
            let index = self.pick();
            // The default family cannot go.
            if index > 0 {
                let (name, ..) = self.families.swap_remove(index);
                self.db.drop_family(&name).unwrap();
            }
            return;
        }
        self.names += 1;
        let name = format!("family{}", self.names);
        let index = self.pick();
        let (family, map) = if self.random.below(3) == 0 {
            (self.db.create_family(&name, small()).unwrap(), Map::new())
        } else {
            let (_, source, map) = &self.families[index];
            (self.db.clone_family(source, &name).unwrap(), map.clone())
        };
        self.families.push((name, family, map));
    }

    fn change_level(&mut self) {
        let (index, level) = (self.pick(), self.random.below(8) as u32);
        let family = &self.families[index].1;
        family.set_options(&family.options().cold_from_level(level)).unwrap();
    }

    fn freeze(&mut self) {
        let index = self.pick();
        let family = &self.families[index].1;
        family.freeze().unwrap();
        let stats = family.stats();
        assert_eq!((stats.hot_bytes, stats.memtable_entries), (0, 0));
        self.cold_seen += stats.cold_tables;
    }

    fn thaw(&mut self) {
        let index = self.pick();
        let family = &self.families[index].1;
        family.thaw().unwrap();
        assert_eq!(family.stats().cold_tables, 0);
    }

    /// The process ends, and another goes on.
    fn reopen(&mut self) {
        self.moved += self.db.stats().moved_tables;
        self.reopened += 1;
        let maps = std::mem::take(&mut self.families).into_iter().map(|(name, _, map)| (name, map));
        let maps: Vec<_> = maps.collect();
        if self.random.below(2) == 0 {
            self.fs = self.fs.crash_clone(Crash::Kill);
        } else {
            self.db.clone().close().unwrap();
        }
        // The manifest knows the cold directory.
        self.db = options(&self.fs).open("db").unwrap();
        let families = maps.into_iter().map(|(name, map)| {
            let family = self.db.family(&name).unwrap();
            (name, family, map)
        });
        self.families = families.collect();
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..16 => self.write(),
            16..19 => self.db.flush().unwrap(),
            19..24 => {
                self.db.run_job().unwrap();
            }
            24..26 => {
                let index = self.pick();
                self.families[index].1.compact().unwrap();
            }
            26..29 => self.create(),
            29..31 => self.change_level(),
            31..34 => self.freeze(),
            34..36 => self.thaw(),
            36..38 => self.reopen(),
            _ => {
                self.db.settle().unwrap();
                self.check_levels();
            }
        }
    }

    /// At rest each table lies where its level belongs.
    fn check_levels(&mut self) {
        let mut cold = 0;
        for (name, family, _) in &self.families {
            let (stats, options) = (family.stats(), family.options());
            let from: usize = options.get("cold_from_level").unwrap().parse().unwrap();
            let expected: u64 = stats.tables[from.min(7)..].iter().sum();
            assert_eq!(stats.cold_tables, expected, "{name}, cold from level {from}");
            cold += expected;
        }
        self.cold_seen += cold;
        // Files are shared, and those that readers hold are removed later.
        assert!(cold > 0 || tables(&self.fs, "cold").is_empty());
    }

    fn check(&self) {
        for (name, family, map) in &self.families {
            compare(family, map, name);
        }
    }
}

#[test]
fn families_in_two_tiers_are_maps() {
    let (mut moved, mut cold_seen, mut reopened) = (0, 0, 0);
    for seed in 0..8 {
        let mut world = World::new(seed);
        for step in 0..150 {
            world.step();
            if step % 8 == 0 {
                world.check();
            }
        }
        world.check();
        world.db.settle().unwrap();
        world.check_levels();
        world.check();
        let report = world.db.check(&mut |_| {}).unwrap();
        assert!(report.is_clean(), "{report:?}");
        world.reopen();
        world.check();
        moved += world.moved;
        cold_seen += world.cold_seen;
        reopened += world.reopened;
    }
    assert!(
        moved > 150 && cold_seen > 200 && reopened > 20,
        "{moved} moved, {cold_seen} seen in the cold tier, {reopened} reopened"
    );
}

/// Runs `work`, and returns the states that a kill and a power loss before each call that changes
/// something would leave, with the call.
fn states(fs: &MemFs, work: impl FnOnce()) -> Vec<(String, MemFs)> {
    let states = Arc::new(Mutex::new(Vec::new()));
    let (seen, source) = (Arc::clone(&states), fs.clone());
    fs.on_call(Some(Arc::new(move |call: Call<'_>| {
        let what = |how: &str| format!("{how} before {:?} {:?}", call.kind, call.path);
        let kill = (what("kill"), source.crash_clone(Crash::Kill));
        let power = Crash::PowerLoss { seed: call.number };
        let mut states = seen.lock().unwrap();
        states.extend([kill, (what("power loss"), source.crash_clone(power))]);
    })));
    work();
    fs.on_call(None);
    let end = ("power loss at the end".to_owned(), fs.crash_clone(Crash::PowerLoss { seed: 0 }));
    let mut states = states.lock().unwrap();
    states.push(end);
    std::mem::take(&mut *states)
}

#[test]
fn a_crash_at_each_call_of_a_freeze_and_a_thaw_loses_nothing_and_leaves_no_orphan() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    let family = db.default_family();
    let all: u64 = family.stats().tables.iter().sum();
    assert!(all > 3);
    let frozen = states(&fs, || family.freeze().unwrap());
    let thawed = states(&fs, || family.thaw().unwrap());
    assert!(frozen.len() > 40 && thawed.len() > 40, "{}, {}", frozen.len(), thawed.len());
    let (mut halfway, mut orphans) = (0, 0);
    for (what, fs) in frozen.into_iter().chain(thawed) {
        let before = tables(&fs, "cold").len() + tables(&fs, "db").len();
        let db = options(&fs).open("db").unwrap_or_else(|error| panic!("{what}: {error}"));
        compare(&db, &map, &what);
        let stats = db.stats();
        let (hot, cold) = (all - stats.cold_tables, stats.cold_tables);
        // Files are shared by the tables of one flush only, so each of these has its own.
        assert_eq!(tables(&fs, "cold").len() as u64, cold, "{what}");
        assert_eq!(tables(&fs, "db").len() as u64, hot, "{what}");
        halfway += u64::from(hot > 0 && cold > 0);
        orphans += u64::from(before as u64 > all);
        let report = db.check(&mut |_| {}).unwrap();
        assert!(report.is_clean(), "{what}: {report:?}");
        // It goes on where it was.
        db.settle().unwrap();
        let from = db.default_family().options().get("cold_from_level").unwrap();
        let expected = if from == "0" { all } else { 0 };
        assert_eq!(db.stats().cold_tables, expected, "{what}");
        compare(&db, &map, &what);
    }
    assert!(halfway > 10 && orphans > 10, "{halfway} halfway, {orphans} with an orphan");
}

/// The names of the table files in both directories.
fn names(fs: &MemFs) -> [BTreeSet<PathBuf>; 2] {
    let name = |path: &PathBuf| PathBuf::from(path.file_name().unwrap());
    ["db", "cold"].map(|dir| tables(fs, dir).iter().map(name).collect())
}

#[test]
fn a_removed_orphan_does_not_come_back_beside_a_table_of_its_number_in_the_other_tier() {
    let fs = MemFs::new();
    let (db, _) = filled(&fs);
    db.default_family().freeze().unwrap();
    let other = db.create_family("other", small()).unwrap();
    fill(&other, 1);
    let frozen = states(&fs, || other.freeze().unwrap());
    let thawed = states(&fs, || other.thaw().unwrap());
    let (mut removed, mut reused) = (0, 0);
    for (what, fs) in frozen.into_iter().chain(thawed) {
        let [hot_before, cold_before] = names(&fs);
        // It removes the orphan, and nothing makes that durable.
        let _first = open(&fs);
        let [hot, cold] = names(&fs);
        removed += hot_before.difference(&hot).count() + cold_before.difference(&cold).count();
        for move_all in [Family::freeze, Family::thaw] {
            let fs = fs.crash_clone(Crash::Kill);
            let db = open(&fs);
            move_all(&db.family("other").unwrap()).unwrap();
            let [hot, cold] = names(&fs);
            let (in_hot, in_cold) = (hot.difference(&hot_before), cold.difference(&cold_before));
            reused += in_hot.filter(|name| cold_before.contains(*name)).count();
            reused += in_cold.filter(|name| hot_before.contains(*name)).count();
            for seed in 0..4 {
                let fs = fs.crash_clone(Crash::PowerLoss { seed });
                let [hot, cold] = names(&fs);
                let twice: Vec<_> = hot.intersection(&cold).collect();
                assert!(twice.is_empty(), "{what}: {twice:?} in both tiers");
                let db = options(&fs).open("db").unwrap_or_else(|error| panic!("{what}: {error}"));
                let [_, cold] = names(&fs);
                assert_eq!(cold.len() as u64, db.stats().cold_tables, "{what}");
            }
        }
    }
    assert!(removed > 10 && reused > 4, "{removed} removed, {reused} numbers used again");
}

#[test]
fn an_orphan_with_the_number_of_a_table_in_the_other_tier_is_removed() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    db.default_family().freeze().unwrap();
    let other = db.create_family("other", small()).unwrap();
    let others = fill(&other, 1);
    drop((db, other));
    let [hot, cold] = names(&fs);
    for (from, to, names) in [("db", "cold", &hot), ("cold", "db", &cold)] {
        for name in names {
            let bytes = fs.read_all(&Path::new(from).join(name)).unwrap();
            fs.write_all(&Path::new(to).join(name), &bytes).unwrap();
        }
    }
    let db = open(&fs);
    assert_eq!(names(&fs), [hot, cold]);
    compare(&db, &map, "default");
    compare(&db.family("other").unwrap(), &others, "other");
}

#[test]
fn a_crash_at_each_call_of_the_first_opening_with_a_cold_directory_can_be_opened_again() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    let map = fill(&db.default_family(), 1);
    db.close().unwrap();
    let mut opened = None;
    let states = states(&fs, || opened = Some(open(&fs)));
    drop(opened);
    assert!(states.len() > 10);
    for (what, fs) in states {
        // Nothing lies there, so the directory may be missing.
        let db = options(&fs).open("db").unwrap_or_else(|error| panic!("{what}: {error}"));
        compare(&db, &map, &what);
        db.close().unwrap();
        let db = tiered(&fs).open("db").unwrap_or_else(|error| panic!("{what}: {error}"));
        db.default_family().freeze().unwrap();
        db.close().unwrap();
        let db = options(&fs).open("db").unwrap();
        assert!(db.stats().cold_tables > 0);
        compare(&db, &map, &what);
    }
}

/// Has the next calls of this kind on the cold directory find no space.
fn fill_cold_disk(fs: &MemFs, kind: CallKind) {
    let target = fs.clone();
    fs.on_call(Some(Arc::new(move |call: Call<'_>| {
        let is_cold = call.path.to_string_lossy().contains("cold");
        if is_cold && call.kind == kind {
            let (span, error) = (FaultSpan::Once, FaultError::NoSpace);
            target.set_fault(Some(Fault { kind: Some(kind), nth: 1, span, error }));
        }
    })));
}

#[test]
fn a_full_cold_disk_stops_no_writer_and_moves_resume_when_there_is_space() {
    for kind in [CallKind::Create, CallKind::Write, CallKind::Sync, CallKind::SyncDir] {
        let fs = MemFs::new();
        let (db, mut map) = filled(&fs);
        let family = db.default_family();
        fill_cold_disk(&fs, kind);
        assert_eq!(family.freeze().unwrap_err().kind(), ErrorKind::NoSpace, "{kind:?}");
        assert_eq!(db.stats().cold_tables, 0);
        assert_eq!(db.background_error().unwrap().kind(), ErrorKind::NoSpace);
        assert!(tables(&fs, "cold").is_empty(), "{kind:?}");
        // Many times what memory holds: writers wait for flushes and compactions, not for moves.
        for round in 0..20_u8 {
            for number in 0..KEYS {
                let value = vec![round; 60];
                db.put(key(number), &value).unwrap();
                map.insert(key(number), value);
            }
        }
        compare(&db, &map, "on a full disk");
        assert_eq!(db.settle().unwrap_err().kind(), ErrorKind::NoSpace);
        fs.on_call(None);
        db.settle().unwrap();
        let stats = db.stats();
        assert!(stats.cold_tables > 0 && stats.hot_bytes == 0, "{kind:?}");
        assert!(db.background_error().is_none());
        compare(&db, &map, "with space again");
        check_files(&fs, &db, stats.cold_tables as usize);
    }
}

#[test]
fn a_missing_cold_directory_is_named_and_may_be_elsewhere() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    db.default_family().freeze().unwrap();
    db.close().unwrap();
    let hot = tables(&fs, "db");
    fs.create_dir_all(Path::new("disk")).unwrap();
    fs.move_directory(Path::new("cold"), Path::new("disk/moved")).unwrap();
    for refused in [
        options(&fs).open("db").unwrap_err(),
        tiered(&fs).open("db").unwrap_err(),
        options(&fs).read_only(true).open("db").unwrap_err(),
        options(&fs).check("db", &mut |_| {}).unwrap_err(),
        options(&fs).open_follower("db").unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
        assert!(refused.to_string().contains("cold directory is missing"), "{refused}");
        assert!(refused.hint().is_some_and(|hint| hint.contains("cold_directory")), "{refused}");
    }
    // An empty mount point.
    fs.create_dir_all(Path::new("cold")).unwrap();
    for options in [options(&fs), tiered(&fs)] {
        assert_eq!(options.open("db").unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_eq!(tables(&fs, "db"), hot);
    let db = options(&fs).cold_directory("../disk/moved").open("db").unwrap();
    compare(&db, &map, "in another place");
    db.close().unwrap();
    // The new place was stored.
    let db = options(&fs).open("db").unwrap();
    compare(&db, &map, "in the stored place");
    db.default_family().thaw().unwrap();
    db.close().unwrap();
    // Nothing lies there any more.
    fs.move_directory(Path::new("disk/moved"), Path::new("disk/gone")).unwrap();
    let db = options(&fs).open("db").unwrap();
    compare(&db, &map, "without a cold directory");
    let refused = db.default_family().freeze().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.hint().is_some_and(|hint| hint.contains("cold_directory")));
    db.default_family().thaw().unwrap();
}

#[test]
fn what_cannot_be_a_cold_directory_is_refused_and_nothing_changes() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    db.default_family().freeze().unwrap();
    db.close().unwrap();
    let cold = tables(&fs, "cold");
    // The seed decides the id of a cold directory.
    let options_of_other = || options(&fs).seed(6);
    let other = |path: &str| options_of_other().cold_directory(path).open("other").map(drop);
    let refused = |path: &str, why: &str| {
        let error = other(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}: {error}");
        assert!(error.to_string().contains(why), "{path}: {error}");
    };
    refused("../cold", "belongs to another database");
    refused("../db", "is the directory of a database");
    refused("inside", "would lie in the database");
    refused(".", "would lie in the database");
    fs.write_all(Path::new("file"), b"").unwrap();
    refused("../file", "is a file");
    fs.create_dir_all(Path::new("full")).unwrap();
    fs.write_all(Path::new("full/photo.jpg"), b"").unwrap();
    refused("../full", "holds other files");
    let long = format!("../{}", "p".repeat(4094));
    refused(&long, "bad length");
    refused("", "would lie in the database");
    assert_eq!(tables(&fs, "cold"), cold);
    assert_eq!(fs.list(Path::new("full")).unwrap().len(), 1);
    // A database that has one takes no other with tables in the first.
    let error = options(&fs).cold_directory("../empty").open("db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    other("../another").unwrap();
    let error = options(&fs).cold_directory("../another").open("db").unwrap_err();
    assert!(error.to_string().contains("belongs to another database"), "{error}");
    compare(&options(&fs).open("db").unwrap(), &map, "after all that");
    // While one process has it open, no other may.
    let _open = options(&fs).open("db").unwrap();
    assert_eq!(options(&fs).open("db").unwrap_err().kind(), ErrorKind::Locked);
    // Its file of identity is damaged.
    let fs = fs.crash_clone(Crash::Kill);
    fs.bytes_flip(Path::new("cold/COLD"), 14, 1).unwrap();
    let error = options(&fs).open("db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn a_missing_or_damaged_cold_file_is_damage_and_the_rest_is_recovered() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    let hot = db.create_family("hot", small()).unwrap();
    hot.put("a", "1").unwrap();
    db.default_family().freeze().unwrap();
    db.close().unwrap();
    let whole = fs.crash_clone(Crash::Kill);
    let cold: Vec<_> = tables(&fs, "cold").into_iter().collect();
    assert!(cold.len() > 2);
    fs.remove(&cold[0]).unwrap();
    fs.bytes_flip(&cold[1], 20, 1).unwrap();
    let report = options(&fs).check("db", &mut |_| {}).unwrap();
    assert_eq!(report.tables_damaged, 2, "{report:?}");
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        report.errors.iter().any(|error| error.to_string().contains(&format!("cold/{name}")))
    };
    assert!(named(&cold[0]) && named(&cold[1]), "{report:?}");
    assert!(report.damage.iter().all(|lost| lost.family.as_deref() == Some("default")));
    // Nothing is written while a file is missing.
    let error = options(&fs).open("db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let shown = Path::new("db/..").join(&cold[0]);
    assert_eq!(error.file().map(Path::new), Some(&*shown), "{error}");
    fs.write_all(&cold[0], b"no table").unwrap();
    let db = options(&fs).open("db").unwrap();
    let scrubbed = db.scrub(&ScrubOptions::new(), &mut |_| {}).unwrap();
    assert_eq!(scrubbed.found.tables_damaged, 2);
    assert_eq!(db.default_family().thaw().unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(contents(&db.family("hot").unwrap()).len(), 1);
    db.close().unwrap();

    let saved = salvage("db", "saved", options(&fs), &mut |_| {}).unwrap();
    assert!(!saved.is_complete() && saved.manifest == ManifestState::Whole);
    let db = options(&fs).open("saved").unwrap();
    let found = contents(&db);
    assert!(found.len() < map.len());
    assert!(found.iter().all(|(key, value)| map.get(key) == Some(value)));
    assert!(found.len() > map.len() / 4, "{} of {}", found.len(), map.len());
    assert_eq!(contents(&db.family("hot").unwrap()).len(), 1);
    assert_eq!(db.stats().cold_tables, 0);

    // All of it, with the manifest and without: then the option names the directory.
    let report = salvage("db", "all", options(&whole), &mut |_| {}).unwrap();
    assert!(report.is_complete(), "{report:?}");
    compare(&options(&whole).open("all").unwrap(), &map, "salvaged");
    let entries = whole.list(Path::new("db")).unwrap().into_iter();
    let manifests = entries.filter(|entry| entry.name.ends_with(".manifest"));
    manifests.for_each(|entry| whole.remove(&Path::new("db").join(entry.name)).unwrap());
    let report = salvage("db", "again", tiered(&whole), &mut |_| {}).unwrap();
    assert_eq!(report.manifest, ManifestState::Lost);
    let db = options(&whole).open("again").unwrap();
    compare(&db, &map, "salvaged without a manifest");
    assert!(db.stats().cold_tables == 0 && !tables(&whole, "cold").is_empty());
}

#[test]
fn a_salvage_without_a_manifest_counts_the_two_files_of_a_half_done_move_once() {
    let fs = MemFs::new();
    let (db, mut map) = filled(&fs);
    // Operands would be folded twice.
    for number in 0..50 {
        db.merge(key(number), b"+").unwrap();
        map.get_mut(&key(number)).unwrap().push(b'+');
    }
    db.flush().unwrap();
    let family = db.default_family();
    let states = states(&fs, || family.freeze().unwrap());
    let mut doubled = 0;
    for (what, fs) in states.into_iter().filter(|(what, _)| what.starts_with("kill")) {
        let all = tables(&fs, "cold").len() + tables(&fs, "db").len();
        doubled += usize::from(all as u64 > family.stats().tables.iter().sum());
        let entries = fs.list(Path::new("db")).unwrap().into_iter();
        let manifests = entries.filter(|entry| entry.name.ends_with(".manifest"));
        manifests.for_each(|entry| fs.remove(&Path::new("db").join(entry.name)).unwrap());
        salvage("db", "saved", tiered(&fs), &mut |_| {}).unwrap();
        compare(&options(&fs).open("saved").unwrap(), &map, &what);
    }
    assert!(doubled > 5, "{doubled}");
}

#[test]
fn copies_of_a_database_hold_its_cold_tables_and_need_no_cold_directory() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    let first = db.backup("backups").unwrap();
    db.default_family().freeze().unwrap();
    let cold = db.stats().cold_tables;
    let second = db.backup("backups").unwrap();
    assert_eq!((second.files, second.bytes), (first.files, first.bytes));
    assert_eq!(second.copied_files, 0, "tables that moved are the same");
    let checkpoint = db.checkpoint("copy").unwrap();
    assert_eq!((checkpoint.linked_files, checkpoint.copied_files >= cold), (0, true));
    db.close().unwrap();
    let mut entries = fs.list(Path::new("cold")).unwrap();
    entries.retain(|entry| entry.name != "LOCK");
    assert!(entries.len() > cold as usize);
    entries.iter().for_each(|entry| fs.remove(&Path::new("cold").join(&entry.name)).unwrap());

    let backups = Backups::with_options("backups", options(&fs));
    for number in [first.number, second.number] {
        backups.restore(Some(number), format!("restored{number}")).unwrap();
    }
    for name in ["restored1", "restored2", "copy"] {
        let db = options(&fs).open(name).unwrap();
        compare(&db, &map, name);
        assert_eq!(db.stats().cold_tables, 0, "{name}");
        db.close().unwrap();
        // The frozen family stays frozen: its tables move to the next cold directory.
        let next = format!("../cold of {name}");
        let db = options(&fs).cold_directory(next).open(name).unwrap();
        db.settle().unwrap();
        assert_eq!(db.stats().cold_tables > 0, name != "restored1", "{name}");
        compare(&db, &map, name);
    }
}

#[test]
fn a_follower_reads_tables_while_they_move() {
    let fs = MemFs::new();
    let (db, mut map) = filled(&fs);
    let follower = options(&fs).open_follower("db").unwrap();
    for round in 0..6_u32 {
        let before = follower.db();
        let family = db.default_family();
        if round % 2 == 0 {
            family.freeze().unwrap()
        } else {
            family.thaw().unwrap()
        }
        // Its files are open, although the writer has removed them.
        compare(&before, &map, "a state before the move");
        db.put(key(1), round.to_be_bytes()).unwrap();
        map.insert(key(1), round.to_be_bytes().to_vec());
        db.flush().unwrap();
        follower.catch_up().unwrap();
        compare(&follower.db(), &map, "after it");
        let cold = follower.db().stats().cold_tables;
        assert_eq!(cold > 0, round % 2 == 0, "round {round}: {cold}");
    }
}

#[test]
fn a_table_that_clones_share_moves_for_the_family_that_asks() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    let source = db.default_family();
    let copy = db.clone_family(&source, "copy").unwrap();
    let all: u64 = source.stats().tables.iter().sum();
    source.freeze().unwrap();
    assert_eq!((source.stats().cold_tables, copy.stats().cold_tables), (all, 0));
    compare(&source, &map, "source");
    compare(&copy, &map, "copy");
    // A clone of what is cold shares that, and the options.
    let frozen = db.clone_family(&source, "frozen").unwrap();
    assert_eq!(frozen.stats().cold_tables, all);
    assert_eq!(tables(&fs, "cold").len() as u64, all);
    // What both want is moved once.
    copy.freeze().unwrap();
    assert_eq!(copy.stats().cold_tables, all);
    source.thaw().unwrap();
    compare(&source, &map, "source");
    compare(&frozen, &map, "frozen");
    drop(frozen);
    db.drop_family("frozen").unwrap();
    copy.thaw().unwrap();
    db.settle().unwrap();
    assert_eq!(db.stats().cold_tables, 0);
    assert!(tables(&fs, "cold").is_empty());
    compare(&copy, &map, "copy");
}

#[test]
fn two_clones_that_both_want_a_table_elsewhere_share_its_copy() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    let source = db.default_family();
    let copy = db.clone_family(&source, "copy").unwrap();
    let all = tables(&fs, "db").len();
    for family in [&source, &copy] {
        family.set_options(&family.options().cold_from_level(0)).unwrap();
    }
    db.settle().unwrap();
    assert_eq!(db.stats().moved_tables as usize, all);
    assert_eq!((tables(&fs, "cold").len(), tables(&fs, "db").len()), (all, 0));
    compare(&source, &map, "source");
    compare(&copy, &map, "copy");
}

#[test]
fn a_scrub_verifies_both_tiers_also_while_tables_move() {
    let fs = MemFs::new();
    let (db, _) = filled(&fs);
    let family = db.default_family();
    let all: u64 = family.stats().tables.iter().sum();
    let mut blocks = 0;
    let report = db
        .scrub(&ScrubOptions::new(), &mut |_| {
            blocks += 1;
            if blocks == 5 {
                family.freeze().unwrap();
            }
        })
        .unwrap();
    assert!(report.is_clean() && report.is_complete, "{report:?}");
    // One is skipped where it was, and then verified where it is.
    assert!(report.found.tables >= all, "{} of {all}", report.found.tables);
    let path = tables(&fs, "cold").into_iter().next_back().unwrap();
    fs.bytes_flip(&path, 20, 1).unwrap();
    let report = db.scrub(&ScrubOptions::new(), &mut |_| {}).unwrap();
    assert_eq!(report.found.tables_damaged, 1);
}

#[test]
fn writers_and_readers_go_on_while_families_freeze_and_thaw() {
    let fs = MemFs::new();
    let options = tiered(&fs).workers(2).tier_rate(1 << 40);
    let db = options.open("db").unwrap();
    let frozen = db.create_family("frozen", small()).unwrap();
    let map = fill(&frozen, 1);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (writer, reader) = (&db, &db);
        let (is_over, map, frozen) = (&is_over, &map, &frozen);
        scope.spawn(move || {
            let mut round = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                for number in 0..KEYS {
                    writer.put(key(number), round.to_be_bytes().repeat(8)).unwrap();
                }
            }
        });
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                compare(&reader.family("frozen").unwrap(), map, "beside moves");
            }
        });
        for round in 0..10 {
            frozen.freeze().unwrap();
            db.default_family().freeze().unwrap();
            frozen.compact().unwrap();
            frozen.thaw().unwrap();
            assert_eq!(frozen.stats().cold_tables, 0, "round {round}");
            db.default_family().thaw().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(db.stats().moved_tables > 20);
    assert!(db.background_error().is_none());
    let report = db.check(&mut |_| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
    db.close().unwrap();
    let db = tiered(&fs).open("db").unwrap();
    compare(&db.family("frozen").unwrap(), &map, "after a reopen");
}

#[test]
fn the_background_moves_at_its_rate_and_a_freeze_at_its_own() {
    let fs = MemFs::new();
    let clock = Arc::new(ManualClock::at(Duration::from_millis(1_000_000)));
    let options = tiered(&fs).clock(clock.clone()).tier_rate(10_000);
    let db = options.open("db").unwrap();
    let family = db.default_family();
    fill(&family, 1);
    db.settle().unwrap();
    let now = || siltdb::testing::Clock::monotonic_ns(&*clock);
    let bytes = family.stats().hot_bytes;
    let start = now();
    family.set_options(&family.options().cold_from_level(0)).unwrap();
    db.settle().unwrap();
    let took = Duration::from_nanos(now() - start).as_secs_f64();
    assert_eq!(family.stats().hot_bytes, 0);
    // A compaction at rest may have rewritten a table on the way.
    let moved = family.stats().cold_bytes;
    assert!(took >= bytes as f64 / 10_000.0 * 0.99, "{bytes} bytes took {took} s");
    let start = now();
    family.thaw().unwrap();
    assert_eq!(now(), start, "no limit");
    let mut steps = Vec::new();
    family
        .freeze_with(&CopyOptions::new().rate(20_000), &mut |progress| {
            steps.push((progress.bytes_done, progress.bytes_total));
            ControlFlow::Continue(())
        })
        .unwrap();
    let took = Duration::from_nanos(now() - start).as_secs_f64();
    assert!(took >= bytes as f64 / 20_000.0 * 0.99, "{bytes} bytes took {took} s");
    assert_eq!((steps[0], *steps.last().unwrap()), ((0, moved), (moved, moved)));
    assert!(steps.is_sorted());
}

#[test]
fn a_freeze_that_is_cancelled_leaves_what_has_moved_and_a_pause_holds_the_background_back() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    let family = db.default_family();
    let all: u64 = family.stats().tables.iter().sum();
    let cancelled =
        family.freeze_with(&CopyOptions::new(), &mut |progress| match progress.bytes_done * 2
            > progress.bytes_total
        {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
    let moved = family.stats().cold_tables;
    assert!(moved > 0 && moved < all, "{moved} of {all}");
    assert_eq!(tables(&fs, "cold").len() as u64, moved);
    assert!(db.background_error().is_none());
    compare(&family, &map, "halfway");
    let pause = db.pause_background().unwrap();
    db.settle().unwrap();
    assert_eq!(family.stats().cold_tables, moved);
    pause.resume();
    db.settle().unwrap();
    assert_eq!(family.stats().cold_tables, all);
    let refused = family.thaw_with(&CopyOptions::new().rate(0), &mut |_| ControlFlow::Continue(()));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(family.options().get("cold_from_level").unwrap(), "0", "nothing was changed");
    let dropped = db.create_family("dropped", small()).unwrap();
    db.drop_family("dropped").unwrap();
    assert_eq!(dropped.freeze().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_manual_compaction_merges_all_tables_although_they_are_to_move() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    let family = db.default_family();
    family.set_options(&family.options().cold_from_level(1)).unwrap();
    for number in 0..KEYS / 2 {
        family.delete(key(number)).unwrap();
    }
    family.compact().unwrap();
    let left = family.stats();
    assert_eq!(left.table_entries, KEYS / 2, "nothing deleted is left");
    db.settle().unwrap();
    assert_eq!(family.stats().hot_bytes, 0);
    // Again, out of the cold tier.
    for number in 0..KEYS {
        family.put(key(number), &map[&key(number)]).unwrap();
    }
    family.compact().unwrap();
    assert_eq!(family.stats().table_entries, KEYS);
    compare(&family, &map, "compacted");
    db.settle().unwrap();
    check_files(&fs, &db, family.stats().cold_tables as usize);
}

#[test]
fn a_database_that_is_removed_takes_its_cold_tables_along() {
    let fs = MemFs::new();
    let (db, _) = filled(&fs);
    db.default_family().freeze().unwrap();
    db.close().unwrap();
    fs.create_dir_all(Path::new("beside")).unwrap();
    options(&fs).destroy("db").unwrap();
    let left: Vec<_> = fs.list(Path::new("")).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(left, ["beside"]);
    // What is not there does not keep a database from being removed.
    let (db, _) = filled(&fs);
    db.default_family().freeze().unwrap();
    db.close().unwrap();
    fs.move_directory(Path::new("cold"), Path::new("beside/cold")).unwrap();
    options(&fs).destroy("db").unwrap();
    assert!(fs.metadata(Path::new("db")).unwrap().is_none());
    assert!(!tables(&fs, "beside/cold").is_empty());
}

#[test]
fn each_call_of_a_freeze_may_fail_once() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    db.close().unwrap();
    let mut failed = 0;
    for nth in 1.. {
        let fs = fs.crash_clone(Crash::Kill);
        let db = options(&fs).open("db").unwrap();
        let family = db.default_family();
        let (span, error) = (FaultSpan::Once, FaultError::Io);
        fs.set_fault(Some(Fault { kind: None, nth, span, error }));
        let frozen = family.freeze();
        let faults = fs.faults();
        fs.set_fault(None);
        if faults == 0 {
            frozen.unwrap();
            break;
        }
        failed += usize::from(frozen.is_err());
        compare(&db, &map, &format!("after the failure of call {nth}"));
        if let Err(error) = &frozen {
            assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Poisoned), "{error}");
        }
        if frozen.is_err_and(|error| error.kind() == ErrorKind::Io) {
            db.settle().unwrap();
        }
        drop((family, db));
        let db = options(&fs).open("db").unwrap();
        compare(&db, &map, &format!("reopened after the failure of call {nth}"));
        db.settle().unwrap();
        let cold = db.stats().cold_tables as usize;
        check_files(&fs, &db, cold);
    }
    assert!(failed > 20, "{failed} calls failed");
}

/// The states from the floor on are read in either tier, and archives of them are made of either,
/// through compactions, moves and kills. Below the floor nothing can be had.
#[test]
fn states_of_history_and_their_archives_come_from_either_tier() {
    let fs = MemFs::new();
    let (db, map) = filled(&fs);
    let floor = db.set_retention_floor(RetentionFloor::Now).unwrap().unwrap();
    let mut states = vec![(floor, map.clone())];
    let mut map = map;
    for round in 0..4_u64 {
        let family = db.default_family();
        for number in (round..KEYS).step_by(5) {
            let value = format!("history {round} {number}").into_bytes();
            family.put(key(number), &value).unwrap();
            map.insert(key(number), value);
        }
        for number in (round * 7..KEYS).step_by(50) {
            family.delete(key(number)).unwrap();
            map.remove(&key(number));
        }
        states.push((db.snapshot().sequence(), map.clone()));
        // Every version lies in the cold tier, then in the hot one.
        if round % 2 == 0 { family.freeze() } else { family.thaw() }.unwrap();
        db.compact().unwrap();
        db.settle().unwrap();
        if round % 2 == 0 {
            family.freeze().unwrap();
            assert_eq!(family.stats().hot_bytes, 0);
        }
        fs.create_dir_all(Path::new("archives")).unwrap();
        let killed = fs.crash_clone(Crash::Kill);
        let again = open(&killed);
        for (index, (sequence, state)) in states.iter().enumerate() {
            let what = format!("round {round}, at {sequence}");
            compare(&db.snapshot_at(*sequence).unwrap(), state, &what);
            let snapshot = again.snapshot_at(*sequence).unwrap();
            compare(&snapshot, state, &format!("{what}, after a kill"));
            let (path, copy) = (format!("archives/{index}.siltar"), format!("copy {index}"));
            let options = ArchiveOptions::new().snapshot(&snapshot);
            again.archive_with(&path, &options, &mut |_| ControlFlow::Continue(())).unwrap();
            let imported = self::options(&killed).open(&copy).unwrap();
            imported.import_archive(&path).unwrap();
            compare(&imported, state, &format!("{what}, imported"));
        }
        let kind = db.snapshot_at(floor - 1).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::NotFound, "below the floor");
    }
    // Without a floor, the space of history comes back in the tier where it lies.
    let family = db.default_family();
    family.freeze().unwrap();
    let before = family.stats().cold_bytes;
    db.set_retention_floor(RetentionFloor::None).unwrap();
    db.compact().unwrap();
    family.freeze().unwrap();
    let after = family.stats().cold_bytes;
    assert!(after > 0 && after < before, "{after} of {before}");
    compare(&db, &map, "without a floor");
}

/// A value that is separated, or too short for that.
fn long_or_short(number: u64, round: u64) -> Vec<u8> {
    let bytes = if number.is_multiple_of(4) { 20 } else { 700 };
    (0..bytes).map(|at| (number * 31 + round * 7 + at) as u8).collect()
}

/// Puts into both families in turns, so that they share blob files.
fn fill_both(families: [&Family; 2], round: u64, map: &mut Map) {
    let long_life = Duration::from_secs(3600);
    for number in 0..60 {
        let (key, value) = (key(number), long_or_short(number, round));
        families[1].put(&key, &value).unwrap();
        match number.is_multiple_of(3) {
            true => families[0].put_for(&key, &value, long_life).unwrap(),
            false => families[0].put(&key, &value).unwrap(),
        }
        map.insert(key, value);
    }
}

#[test]
fn a_frozen_family_takes_its_separated_values_to_the_cold_tier() {
    let fs = MemFs::new();
    let clock = Arc::new(ManualClock::at(Duration::from_millis(1_000_000)));
    let db = tiered(&fs).clock(clock.clone()).open("db").unwrap();
    let separating = small().value_threshold(100).blob_file_bytes(64 << 10);
    let events = db.create_family("events", separating.clone()).unwrap();
    let other = db.create_family("other", separating).unwrap();
    let mut map = Map::new();
    fill_both([&events, &other], 1, &mut map);
    db.flush().unwrap();
    let (tables, values) = (events.stats().table_bytes.iter().sum::<u64>(), 45 * 700);
    assert!(events.stats().hot_bytes >= tables + values, "{:?}", events.stats());
    let crashed = states(&fs, || events.freeze().unwrap());
    assert!(crashed.len() > 10);
    for (what, state) in crashed {
        let db = tiered(&state).open("db").unwrap_or_else(|error| panic!("{what}: {error}"));
        compare(&db.family("events").unwrap(), &map, &what);
        compare(&db.family("other").unwrap(), &map, &what);
        db.family("events").unwrap().freeze().unwrap();
        assert_eq!(db.family("events").unwrap().stats().hot_bytes, 0, "{what}");
        assert!(db.check(&mut |_| ()).unwrap().is_clean(), "{what}");
    }
    let stats = events.stats();
    assert!(stats.hot_bytes == 0 && stats.cold_bytes > values, "{stats:?}");
    assert!(other.stats().hot_bytes > values && other.stats().cold_bytes == 0);
    compare(&events, &map, "frozen");
    compare(&other, &map, "beside a frozen family");
    // What is written to a frozen family becomes cold in the background.
    let mut later = Map::new();
    fill_both([&events, &other], 2, &mut later);
    db.flush().unwrap();
    while db.run_job().unwrap() {}
    let stats = events.stats();
    assert!(stats.hot_bytes == 0 && stats.cold_bytes > values, "{stats:?}");
    compare(&events, &later, "written while frozen");
    events.thaw().unwrap();
    assert_eq!(events.stats().cold_bytes, 0);
    compare(&events, &later, "thawed");
    // Values that were brought in expire as before.
    clock.advance(Duration::from_secs(3601));
    later.retain(|key, _| !(0..60).step_by(3).any(|number| *key == self::key(number)));
    compare(&events, &later, "expired");
}

#[test]
fn a_frozen_family_with_a_damaged_value_says_so_and_stays_readable() {
    let fs = MemFs::new();
    let db = open(&fs);
    let events = db.create_family("events", small().value_threshold(100)).unwrap();
    for number in 0..60 {
        events.put(key(number), long_or_short(number, 1)).unwrap();
    }
    db.flush().unwrap();
    let dir = Path::new("db");
    let names = fs.list(dir).unwrap().into_iter().map(|entry| entry.name);
    let blob = dir.join(names.into_iter().find(|name| name.ends_with(".blob")).unwrap());
    fs.bytes_flip(&blob, 2_000, 1).unwrap();
    let error = events.freeze().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains(".blob"), "{error}");
    // The background does not try it over and over.
    let jobs = (0..1_000).take_while(|_| db.run_job().unwrap_or(false)).count();
    assert!(jobs < 1_000);
    let readable = (0..60).filter(|number| events.get(key(*number)).is_ok()).count();
    assert!(readable >= 58, "{readable}");
    assert!(events.stats().hot_bytes > 0);
}

#[test]
fn the_directory_of_the_database_by_another_path_is_no_cold_directory() {
    let fs = MemFs::new();
    drop(options(&fs).open("db").unwrap());
    let error = options(&fs).cold_directory("../db").open("db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("is the directory of a database"), "{error}");
    drop(options(&fs).open("other").unwrap());
    let error = options(&fs).cold_directory("../other").open("db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}
