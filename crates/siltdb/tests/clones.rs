//! Clones: families that share tables with another, each compared with a map of its own.
//!
//! # Seeded faults
//! `clone_sees_later_writes_of_source`: a table that is shared is seen whole.
//! `file_removed_while_a_clone_needs_it`: a purge does not ask whether a file is in use.

use crate::maps::{Map, Random, Writes, contents, key, small};
use siltdb::{
    CheckReport, CheckpointOptions, Db, ErrorKind, Family, FamilyOptions, Isolation, Options, Read,
    ScrubOptions, Snapshot,
    backup::Backups,
    testing::{Crash, Fs, MemFs},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

/// Families at once.
const FAMILIES_MAX: usize = 7;

/// Different keys.
const KEYS: u64 = 300;

const WRITES: Writes = Writes { keys: KEYS, range: 40, values: 1000, repeat: 3 };

fn options(fs: &MemFs) -> Options {
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0).seed(5);
    options.memtable_bytes(32 << 10).memory_budget(8 << 20).default_family(small())
}

fn open(fs: &MemFs) -> Db {
    options(fs).open("db").unwrap()
}

/// Forwards, backwards and one by one.
fn compare(source: &impl Read, map: &Map, what: &str) {
    let found = contents(source);
    let first = || map.iter().find(|(key, value)| found.get(*key) != Some(*value));
    assert!(found == *map, "{what}: {} keys for {}: {:?}", found.len(), map.len(), first());
    let backwards: Vec<_> = source.iter().unwrap().rev().map(|pair| pair.unwrap().0).collect();
    assert!(
        backwards.iter().map(|key| &key[..]).eq(map.keys().rev().map(|key| &key[..])),
        "{what}"
    );
    for number in (0..KEYS).step_by(7) {
        let (key, found) = (key(number), source.get(key(number)).unwrap());
        assert_eq!(found.as_deref(), map.get(&key).map(Vec::as_slice), "{what}: key {number}");
    }
}

/// A database, and a map for each family.
struct World {
    fs: MemFs,
    db: Db,
    random: Random,
    /// By name.
    families: Vec<(String, Family, Map)>,
    snapshots: Vec<(Snapshot, Vec<(Family, Map)>)>,
    names: u64,
    clones: u64,
    clones_at: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let fs = MemFs::new();
        let db = open(&fs);
        let families = vec![("default".to_owned(), db.default_family(), Map::new())];
        let (snapshots, random) = (Vec::new(), Random(seed));
        Self { fs, db, random, families, snapshots, names: 0, clones: 0, clones_at: 0 }
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

    fn clone_family(&mut self) {
        if self.families.len() == FAMILIES_MAX {
            return self.drop_family();
        }
        self.names += 1;
        let name = format!("clone{}", self.names);
        let (family, map) = if self.snapshots.is_empty() || self.random.below(2) == 0 {
            let index = self.pick();
            let (_, source, map) = &self.families[index];
            (self.db.clone_family(source, &name).unwrap(), map.clone())
        } else {
            let index = self.random.below(self.snapshots.len() as u64) as usize;
            let (snapshot, states) = &self.snapshots[index];
            let (source, map) = &states[self.random.below(states.len() as u64) as usize];
            match self.db.clone_family_at(snapshot, source, &name) {
                Err(error) if error.kind() == ErrorKind::NotFound => return,
                clone => {
                    self.clones_at += 1;
                    (clone.unwrap(), map.clone())
                }
            }
        };
        self.clones += 1;
        compare(&family, &map, &name);
        self.families.push((name, family, map));
    }

    fn drop_family(&mut self) {
        let index = self.pick();
        // The default family cannot go.
        if index > 0 {
            let (name, ..) = self.families.swap_remove(index);
            self.db.drop_family(&name).unwrap();
        }
    }

    fn rename(&mut self) {
        let index = self.pick();
        if index > 0 {
            self.names += 1;
            let name = format!("renamed{}", self.names);
            self.db.rename_family(&self.families[index].0, &name).unwrap();
            self.families[index].0 = name;
        }
    }

    fn snapshot(&mut self) {
        if self.snapshots.len() == 3 {
            let index = self.random.below(3) as usize;
            self.snapshots.swap_remove(index);
        }
        let states = self.families.iter().map(|(_, family, map)| (family.clone(), map.clone()));
        self.snapshots.push((self.db.snapshot(), states.collect()));
    }

    /// The process ends, and another goes on.
    fn reopen(&mut self) {
        self.snapshots.clear();
        let maps = std::mem::take(&mut self.families).into_iter().map(|(name, _, map)| (name, map));
        let maps: Vec<_> = maps.collect();
        if self.random.below(2) == 0 {
            self.fs = self.fs.crash_clone(Crash::Kill);
        } else {
            self.db.clone().close().unwrap();
        }
        self.db = open(&self.fs);
        assert_eq!(self.db.families().len(), maps.len());
        let families = maps.into_iter().map(|(name, map)| {
            let family = self.db.family(&name).unwrap();
            (name, family, map)
        });
        self.families = families.collect();
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..18 => self.write(),
            18..21 => self.db.flush().unwrap(),
            21..26 => {
                self.db.run_job().unwrap();
            }
            26..29 => {
                let index = self.pick();
                self.families[index].1.compact().unwrap();
            }
            29..33 => self.clone_family(),
            33 => self.drop_family(),
            34 => self.rename(),
            35..38 => self.snapshot(),
            38 => self.reopen(),
            _ => self.db.settle().unwrap(),
        }
    }

    fn check(&self) {
        for (name, family, map) in &self.families {
            compare(family, map, name);
        }
        for (snapshot, states) in &self.snapshots {
            for (family, map) in states {
                compare(&snapshot.family(family).unwrap(), map, "at a snapshot");
            }
        }
    }
}

#[test]
fn clones_are_maps_of_their_own() {
    let (mut clones, mut clones_at) = (0, 0);
    for seed in 0..8 {
        let mut world = World::new(seed);
        for step in 0..160 {
            world.step();
            if step % 8 == 0 {
                world.check();
            }
        }
        world.check();
        let report = world.db.check(&mut |_| {}).unwrap();
        assert!(report.is_clean(), "{report:?}");
        world.reopen();
        world.check();
        clones += world.clones;
        clones_at += world.clones_at;
    }
    assert!(clones > 40 && clones_at > 10, "{clones} clones, {clones_at} of them at a snapshot");
}

/// The table files in a directory.
fn table_files(fs: &MemFs, dir: &str) -> Vec<PathBuf> {
    let entries = fs.list(Path::new(dir)).unwrap().into_iter();
    let tables = entries.filter(|entry| entry.name.ends_with(".table"));
    tables.map(|table| Path::new(dir).join(table.name)).collect()
}

/// Bytes of the table files of the database.
fn table_bytes(fs: &MemFs) -> usize {
    table_files(fs, "db").iter().map(|path| fs.read_all(path).unwrap().len()).sum()
}

#[test]
fn a_clone_takes_no_space_until_it_is_written_and_gives_it_back_when_it_goes() {
    let (fs, mut random) = (MemFs::new(), Random(3));
    let db = open(&fs);
    let mut value = || (0..200).map(|_| random.below(256) as u8).collect::<Vec<_>>();
    (0..KEYS).for_each(|number| db.put(key(number), value()).unwrap());
    db.compact().unwrap();
    db.settle().unwrap();
    let alone = table_bytes(&fs);
    let copy = db.clone_family(&db.default_family(), "copy").unwrap();
    assert_eq!(table_bytes(&fs), alone);
    (0..KEYS).for_each(|number| copy.put(key(number), value()).unwrap());
    copy.compact().unwrap();
    db.settle().unwrap();
    assert!(table_bytes(&fs) > alone * 3 / 2, "{} for {alone}", table_bytes(&fs));
    drop(copy);
    db.drop_family("copy").unwrap();
    db.put(b"another", b"job").unwrap();
    db.compact().unwrap();
    db.settle().unwrap();
    assert!(table_bytes(&fs) < alone * 5 / 4, "{} for {alone}", table_bytes(&fs));
}

#[test]
fn a_snapshot_that_is_older_than_a_clone_sees_it_as_it_saw_the_source() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put(b"key", b"1").unwrap();
    let old = db.snapshot();
    db.put(b"key", b"2").unwrap();
    db.put(b"other", b"2").unwrap();
    let copy = db.clone_family(&db.default_family(), "copy").unwrap();
    let new = db.snapshot();
    copy.put(b"key", b"3").unwrap();
    db.compact().unwrap();
    let seen = |snapshot: &Snapshot| contents(&snapshot.family(&copy).unwrap());
    let map = |pairs: &[(&str, &str)]| -> Map {
        pairs
            .iter()
            .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect()
    };
    assert_eq!(seen(&old), map(&[("key", "1")]));
    assert_eq!(seen(&new), map(&[("key", "2"), ("other", "2")]));
    assert_eq!(contents(&copy), map(&[("key", "3"), ("other", "2")]));
    // A family that the snapshot does not know has nothing at its moment.
    let late = db.create_family("late", FamilyOptions::new()).unwrap();
    late.put(b"key", b"4").unwrap();
    let empty = db.clone_family_at(&old, &late, "empty").unwrap();
    assert!(empty.is_empty().unwrap());
}

/// Validation compares sequence numbers, which the clone has from its source.
#[test]
fn a_transaction_that_began_before_the_clone_conflicts_with_what_the_source_got_since() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put(b"key", b"1").unwrap();
    let transaction = db.begin(Isolation::Serializable);
    db.put(b"key", b"2").unwrap();
    let copy = db.clone_family(&db.default_family(), "copy").unwrap();
    let in_copy = transaction.family(&copy).unwrap();
    assert_eq!(in_copy.get(b"key").unwrap().as_deref(), Some(&b"1"[..]));
    in_copy.put(b"key", b"3").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(copy.get(b"key").unwrap().as_deref(), Some(&b"2"[..]));
    // What is written to the source after the clone is no conflict in it.
    let transaction = db.begin(Isolation::Serializable);
    let in_copy = transaction.family(&copy).unwrap();
    let value = in_copy.get(b"key").unwrap().unwrap();
    db.put(b"key", b"later").unwrap();
    in_copy.put(b"own", &value[..]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(copy.get(b"own").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn options_operator_buckets_and_ids_come_with_the_data() {
    let fs = MemFs::new();
    let db = open(&fs);
    let source = db.create_family("source", small().level0_runs(5)).unwrap();
    source.merge(b"merged", b"a").unwrap();
    let bucket = source.bucket(["inbox"]).unwrap();
    bucket.create().unwrap();
    bucket.put(b"message", b"1").unwrap();
    let given = source.next_id("ids").unwrap();
    let copy = db.clone_family(&source, "copy").unwrap();
    assert_eq!(copy.options().entries(), source.options().entries());
    copy.merge(b"merged", b"b").unwrap();
    let copied = copy.bucket(["inbox"]).unwrap();
    copied.put(b"message", b"2").unwrap();
    let id = copy.next_id("ids").unwrap();
    assert!(id > given, "the clone gives {id}, its source has given {given}");
    assert_eq!(bucket.get(b"message").unwrap().as_deref(), Some(&b"1"[..]));
    drop((bucket, copied, source, copy, db));
    let db = open(&fs);
    let [source, copy] = ["source", "copy"].map(|name| db.family(name).unwrap());
    assert_eq!(source.get(b"merged").unwrap().as_deref(), Some(&b"a"[..]));
    assert_eq!(copy.get(b"merged").unwrap().as_deref(), Some(&b"ab"[..]));
    assert_eq!(copy.options().get("level0_runs").unwrap(), "5");
    let copied = copy.bucket(["inbox"]).unwrap();
    assert_eq!(copied.get(b"message").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn families_of_another_database_and_bad_names_are_refused() {
    let (here, there) = (MemFs::new(), MemFs::new());
    let (db, other) = (open(&here), open(&there));
    let kind = |result: siltdb::Result<Family>| result.unwrap_err().kind();
    let (own, foreign) = (db.default_family(), other.default_family());
    assert_eq!(kind(db.clone_family(&foreign, "copy")), ErrorKind::InvalidArgument);
    let (snapshot, strange) = (db.snapshot(), other.snapshot());
    let at =
        |snapshot: &Snapshot, family: &Family| kind(db.clone_family_at(snapshot, family, "copy"));
    assert_eq!(at(&snapshot, &foreign), ErrorKind::InvalidArgument);
    assert_eq!(at(&strange, &own), ErrorKind::InvalidArgument);
    assert_eq!(at(&strange, &foreign), ErrorKind::InvalidArgument);
    assert_eq!(kind(db.clone_family(&own, "default")), ErrorKind::AlreadyExists);
    assert_eq!(kind(db.clone_family(&own, "")), ErrorKind::InvalidArgument);
    assert_eq!(db.families(), ["default"]);
    drop((own, snapshot));
    db.close().unwrap();
    let reader = Options::new().fs(Arc::new(here)).read_only(true).default_family(small());
    let reader = reader.open("db").unwrap();
    let refused = kind(reader.clone_family(&reader.default_family(), "copy"));
    assert_eq!(refused, ErrorKind::ReadOnly);
}

/// Real threads, real files: each clone holds a prefix of the commits, at least what was
/// acknowledged before the call, and keeps it while its source is written and compacted.
#[test]
fn clones_beside_a_writer_hold_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().memtable_bytes(64 << 10).workers(2).default_family(small());
    let db = options().open(dir.path().join("db")).unwrap();
    let writer = db.clone();
    let writing = thread::spawn(move || {
        for number in 0..30_000_u32 {
            writer.put(number.to_be_bytes(), [number as u8; 40]).unwrap();
        }
    });
    let mut held = Vec::new();
    for number in 0.. {
        if writing.is_finished() && held.len() >= 3 {
            break;
        }
        let before = db.stats().sequence;
        let name = format!("clone {number}");
        let clone = db.clone_family(&db.default_family(), &name).unwrap();
        let count = contents(&clone).len() as u64;
        assert!(count >= before, "{count} of {before}");
        held.push((name, count));
        if held.len() > 6 {
            db.drop_family(&held.remove(0).0).unwrap();
        }
    }
    writing.join().unwrap();
    db.compact().unwrap();
    db.settle().unwrap();
    db.close().unwrap();
    let db = options().open(dir.path().join("db")).unwrap();
    for (name, count) in held {
        let found = contents(&db.family(&name).unwrap());
        assert_eq!(found.len() as u64, count, "{name}");
        for (number, (key, value)) in found.iter().enumerate() {
            assert_eq!(key[..], (number as u32).to_be_bytes(), "{name}");
            assert_eq!(value[..], [number as u8; 40], "{name}");
        }
    }
}

/// By the name of the family.
type Contents = BTreeMap<String, Map>;

fn all_contents(db: &Db) -> Contents {
    let of = |name: String| (name.clone(), contents(&db.family(&name).unwrap()));
    db.families().into_iter().map(of).collect()
}

/// The default family, a clone `now` of it, and `at`, a clone of a moment before its last writes.
/// All three share tables, and no other file is there.
fn with_clones(fs: &MemFs) -> (Db, Contents) {
    let (db, mut random) = (open(fs), Random(11));
    let mut value = || (0..100).map(|_| random.below(256) as u8).collect::<Vec<_>>();
    (0..KEYS).for_each(|number| db.put(key(number), value()).unwrap());
    db.compact().unwrap();
    let moment = db.snapshot();
    (0..KEYS).step_by(3).for_each(|number| db.put(key(number), value()).unwrap());
    db.delete_range(key(100)..key(120)).unwrap();
    db.flush().unwrap();
    db.clone_family_at(&moment, &db.default_family(), "at").unwrap();
    db.clone_family(&db.default_family(), "now").unwrap();
    let expected = all_contents(&db);
    assert_eq!(expected["now"], expected["default"]);
    assert_eq!((expected["at"].len(), expected["now"].len()), (300, 280));
    (db, expected)
}

/// Each family goes its own way, and the others do not see it.
fn assert_isolated(db: &Db, mut expected: Contents) {
    for (round, name) in db.families().into_iter().enumerate() {
        let (family, map) = (db.family(&name).unwrap(), expected.get_mut(&name).unwrap());
        for number in [2, 4, 6].map(|number| number + round as u64) {
            family.put(key(number), &name).unwrap();
            map.insert(key(number), name.clone().into_bytes());
        }
        family.delete(key(200 + round as u64)).unwrap();
        map.remove(&key(200 + round as u64));
        assert_eq!(all_contents(db), expected, "after writes to {name}");
        family.compact().unwrap();
        assert_eq!(all_contents(db), expected, "after a compaction of {name}");
    }
    assert!(db.check(&mut |_| ()).unwrap().is_clean());
}

#[test]
fn a_backup_has_what_clones_share_once_and_restores_them_apart() {
    let fs = MemFs::new();
    let (db, expected) = with_clones(&fs);
    let made = db.backup("backups").unwrap();
    let files = table_files(&fs, "backups").len() as u64;
    assert_eq!((made.files, made.copied_files), (files, files));
    let stats = db.stats();
    let (references, bytes): (u64, u64) =
        (stats.tables.iter().sum(), stats.table_bytes.iter().sum());
    assert!(references > 2 * files && bytes > 2 * made.bytes, "{references} of {made:?}");
    // What one of them writes since is all that the second backup copies.
    db.family("now").unwrap().put(key(1), "since").unwrap();
    let second = db.backup("backups").unwrap();
    assert_eq!((second.files, second.copied_files), (files + 1, 1));
    // The database goes, and takes nothing of the backups along.
    db.drop_family("now").unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    options(&fs).destroy("db").unwrap();
    let backups = Backups::with_options("backups", options(&fs));
    let mut go_on = |_| ControlFlow::Continue(());
    assert!(backups.verify(None, &mut go_on).unwrap().is_clean());
    backups.restore(Some(1), "first").unwrap();
    assert_eq!(table_files(&fs, "first").len() as u64, files);
    let db = options(&fs).open("first").unwrap();
    assert_eq!(all_contents(&db), expected);
    assert_isolated(&db, expected.clone());
    backups.restore(None, "second").unwrap();
    let db = options(&fs).open("second").unwrap();
    let mut expected = expected;
    expected.get_mut("now").unwrap().insert(key(1), b"since".to_vec());
    assert_eq!(all_contents(&db), expected);
    assert_isolated(&db, expected);
}

#[test]
fn a_checkpoint_of_chosen_clones_shares_their_files_and_goes_its_own_way() {
    let fs = MemFs::new();
    let (db, expected) = with_clones(&fs);
    for chosen in [&["at"][..], &["now", "at"], &["default", "now"]] {
        let dir = format!("copy of {}", chosen.join(" and "));
        let options_of = CheckpointOptions::new().families(chosen.iter().copied());
        let mut go_on = |_| ControlFlow::Continue(());
        let made = db.checkpoint_with(&dir, &options_of, &mut go_on).unwrap();
        let linked = table_files(&fs, &dir).len() as u64;
        assert_eq!((made.linked_files, made.copied_files), (linked, 0), "{dir}");
        assert!(linked <= table_files(&fs, "db").len() as u64);
        let mut wanted: Contents = [("default".to_owned(), Map::new())].into();
        wanted.extend(chosen.iter().map(|name| ((*name).to_owned(), expected[*name].clone())));
        let copy = options(&fs).open(&dir).unwrap();
        assert_eq!(all_contents(&copy), wanted, "{dir}");
        assert_isolated(&copy, wanted);
        // The database does not notice.
        assert_eq!(all_contents(&db), expected, "{dir}");
        assert!(db.check(&mut |_| ()).unwrap().is_clean(), "{dir}");
    }
    assert_isolated(&db, expected);
}

#[test]
fn a_scrub_reads_a_shared_table_once_and_reports_its_damage_for_each_family() {
    let fs = MemFs::new();
    let (db, _) = with_clones(&fs);
    let scrub = || db.scrub(&ScrubOptions::new(), &mut |_| {}).unwrap();
    let files = table_files(&fs, "db");
    let sound = scrub();
    assert!(sound.is_clean());
    let stats = db.stats();
    assert!(stats.tables.iter().sum::<u64>() > 2 * sound.found.tables, "{sound:?}");
    let bytes: u64 = stats.table_bytes.iter().sum();
    assert!(bytes > 2 * sound.found.bytes && sound.found.bytes <= table_bytes(&fs) as u64);
    // Who refers to each file.
    let families_of = |path: &Path| -> (u64, BTreeSet<String>) {
        fs.bytes_flip(path, 30, 1).unwrap();
        let (scrubbed, checked) = (scrub(), db.check(&mut |_| ()).unwrap());
        fs.bytes_flip(path, 30, 1).unwrap();
        for found in [&scrubbed.found, &checked] {
            assert_eq!((found.tables_damaged, found.errors.len()), (1, 1), "{found:?}");
        }
        let names = |found: &CheckReport| -> BTreeSet<String> {
            found.damage.iter().map(|lost| lost.family.clone().unwrap()).collect()
        };
        let named = names(&scrubbed.found);
        assert_eq!(named, names(&checked));
        assert_eq!(scrubbed.found.damage.len(), named.len());
        (scrubbed.found.tables, named)
    };
    let names = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    let found: Vec<_> = files.iter().map(|path| families_of(path)).collect();
    assert!(found.iter().all(|(tables, _)| tables + 1 == sound.found.tables));
    let count = |wanted: &[&str]| found.iter().filter(|(_, of)| *of == names(wanted)).count();
    let (all, later) = (count(&["at", "default", "now"]), count(&["default", "now"]));
    assert!(all > 1 && later >= 1 && all + later == files.len(), "{found:?}");
    // A clone that has rewritten a table has no part in its damage.
    let now = db.family("now").unwrap();
    now.compact().unwrap();
    let shared = files.iter().map(|path| families_of(path).1);
    assert!(shared.clone().all(|of| !of.contains("now") && of.contains("default")));
    assert!(scrub().is_clean());
}
