//! Every way to copy values keeps their expiry, of short values and of separated ones.

use crate::blobs::world::separating;
use siltdb::{
    Action, CompactionFilter, Db, Event, Family, FamilyOptions, FilterDecision, FilteredEntry,
    Options, Read, SubscribeOptions, WriteBatch,
    archive::{Archive, ArchiveOptions, ImportOptions},
    backup::Backups,
    salvage::salvage,
    testing::{ManualClock, MemFs},
};
use std::{
    any::Any,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, SystemTime},
};

const BEGIN_MS: u64 = 1_000_000;
const TTL: Duration = Duration::from_millis(1000);
const LONG: usize = 500;

struct World {
    fs: MemFs,
    clock: Arc<ManualClock>,
}

/// A copy, and what keeps it open.
struct Copied {
    family: Family,
    _kept: Box<dyn Any>,
}

impl World {
    fn new() -> Self {
        Self { fs: MemFs::new(), clock: Arc::new(ManualClock::at(Duration::from_millis(BEGIN_MS))) }
    }

    fn options(&self) -> Options {
        let options = Options::new().fs(Arc::new(self.fs.clone())).clock(self.clock.clone());
        options.workers(0).seed(self.fs.calls()).default_family(separating())
    }

    fn open(&self, dir: &str) -> Db {
        self.options().open(dir).unwrap()
    }

    /// A database with values of each kind, some in tables and some in the log alone.
    fn source(&self) -> Db {
        let db = self.open("db");
        fill(&db.default_family(), "table");
        db.flush().unwrap();
        fill(&db.default_family(), "log");
        db.sync_wal().unwrap();
        db
    }
}

fn fill(family: &Family, place: &str) {
    for (size, value) in [("short", vec![b's'; 9]), ("long", vec![b'l'; LONG])] {
        family.put(format!("{place} {size} lasting"), &value).unwrap();
        family.put_for(format!("{place} {size} timed"), &value, TTL).unwrap();
    }
}

/// The keys of a family, each of which has the value that `fill` gave it.
fn keys(family: &Family) -> Vec<String> {
    let pairs = family.iter().unwrap().map(|pair| {
        let (key, value) = pair.unwrap();
        let key = String::from_utf8(key.to_vec()).unwrap();
        let is_long = key.contains("long");
        assert_eq!(value.len(), if is_long { LONG } else { 9 }, "{key}");
        assert_eq!(family.get(&key).unwrap().unwrap(), value, "{key}");
        key
    });
    pairs.collect()
}

fn of_default(db: Db) -> Copied {
    Copied { family: db.default_family(), _kept: Box::new(db) }
}

fn in_place(world: &World) -> Copied {
    of_default(world.source())
}

fn compacted(world: &World) -> Copied {
    let db = world.source();
    db.compact().unwrap();
    of_default(db)
}

/// Values move from blob files into tables, or the other way.
fn with_another_threshold(world: &World) -> Copied {
    let db = world.source();
    for threshold in [0, 32] {
        let family = db.default_family();
        family.set_options(&family.options().value_threshold(threshold)).unwrap();
        db.compact().unwrap();
    }
    of_default(db)
}

/// The blob files are collected, because most of what they have is overwritten.
fn moved_to_another_blob_file(world: &World) -> Copied {
    let db = world.open("db");
    let family = db.default_family();
    family.set_options(&family.options().blob_garbage_percent(1)).unwrap();
    for round in 0..200 {
        family.put("other", vec![round as u8; 1000]).unwrap();
        if round == 100 {
            fill(&family, "table");
            fill(&family, "log");
        }
    }
    family.delete("other").unwrap();
    db.flush().unwrap();
    for _ in 0..5 {
        db.compact().unwrap();
        while db.run_job().unwrap() {}
    }
    of_default(db)
}

fn reopened(world: &World) -> Copied {
    drop(world.source());
    of_default(world.open("db"))
}

fn archived(world: &World) -> Copied {
    world.source().archive("a.siltar").unwrap();
    let other = world.open("other");
    let import = ImportOptions::new().replace(true);
    let mut on_progress = |_| ControlFlow::Continue(());
    other.import_archive_with("a.siltar", &import, &mut on_progress).unwrap();
    of_default(other)
}

fn archived_from_a_branch(world: &World) -> Copied {
    let db = world.source();
    db.create_branch("side").unwrap();
    let request = ArchiveOptions::new().branch("side");
    db.archive_with("a.siltar", &request, &mut |_| ControlFlow::Continue(())).unwrap();
    let other = world.open("other");
    let import = ImportOptions::new().family("default", "copy");
    other.import_archive_with("a.siltar", &import, &mut |_| ControlFlow::Continue(())).unwrap();
    Copied { family: other.family("copy").unwrap(), _kept: Box::new(other) }
}

fn checkpointed(world: &World) -> Copied {
    world.source().checkpoint("copy").unwrap();
    of_default(world.open("copy"))
}

fn restored(world: &World) -> Copied {
    world.source().backup("backups").unwrap();
    Backups::with_options("backups", world.options()).restore(None, "copy").unwrap();
    of_default(world.open("copy"))
}

fn salvaged(world: &World) -> Copied {
    drop(world.source());
    salvage("db", "saved", world.options(), &mut |_| {}).unwrap();
    of_default(world.open("saved"))
}

fn cloned(world: &World) -> Copied {
    let db = world.source();
    let family = db.clone_family(&db.default_family(), "clone").unwrap();
    Copied { family, _kept: Box::new(db) }
}

fn on_a_branch(world: &World) -> Copied {
    let db = world.source();
    let family = db.create_branch("side").unwrap().default_family().unwrap();
    Copied { family, _kept: Box::new(db) }
}

fn merged_from_a_branch(world: &World) -> Copied {
    let db = world.open("db");
    let branch = db.create_branch("side").unwrap().default_family().unwrap();
    fill(&branch, "table");
    db.flush().unwrap();
    fill(&branch, "log");
    assert!(db.merge_branch("side").unwrap().is_applied);
    of_default(db)
}

/// By a stream and by a table file; both take the TTL of their options.
fn ingested(world: &World) -> Copied {
    let db = world.open("db");
    let family = db.default_family();
    let timed = world.options().table_file("timed", &FamilyOptions::new().ttl(TTL)).unwrap();
    let lasting = world.options().table_file("lasting", &FamilyOptions::new()).unwrap();
    for (mut file, end) in [(timed, "timed"), (lasting, "lasting")] {
        file.put(format!("table long {end}"), vec![b'l'; LONG]).unwrap();
        file.put(format!("table short {end}"), vec![b's'; 9]).unwrap();
        file.finish().unwrap();
    }
    for name in ["lasting", "timed"] {
        db.ingest(&[(family.clone(), name)]).unwrap();
    }
    for (end, ttl) in [("lasting", Duration::ZERO), ("timed", TTL)] {
        family.set_options(&family.options().ttl(ttl)).unwrap();
        let (long, short) = (vec![b'l'; LONG], vec![b's'; 9]);
        let pairs = [("long", long), ("short", short)];
        let pairs = pairs.map(|(size, value)| (format!("log {size} {end}"), value));
        family.ingest_sorted(pairs).unwrap();
    }
    of_default(db)
}

/// Puts each value anew, twice as long and back.
#[derive(Debug)]
struct Rewrite;

impl CompactionFilter for Rewrite {
    fn name(&self) -> &str {
        "rewrite"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        FilterDecision::Change(entry.value.to_vec())
    }
}

fn filtered(world: &World) -> Copied {
    let options = world.options().default_family(separating().compaction_filter(Arc::new(Rewrite)));
    let db = options.open("db").unwrap();
    fill(&db.default_family(), "table");
    fill(&db.default_family(), "log");
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().filter_changes, 8);
    of_default(db)
}

/// Another database is written with what the change feed says.
fn fed(world: &World) -> Copied {
    let (db, other) = (world.open("db"), world.open("other"));
    fill(&db.default_family(), "table");
    fill(&db.default_family(), "log");
    let mut feed = db.subscribe(&SubscribeOptions::new().from_oldest()).unwrap();
    let target = other.default_family();
    while let Some(event) = feed.try_next().unwrap() {
        let Event::Commit(commit) = event else { continue };
        let mut batch = WriteBatch::new();
        for change in commit.changes() {
            let operation = change.operation;
            match operation.action {
                Action::Put(value) => batch.put(&target, operation.key, value).unwrap(),
                Action::PutUntil { value, expiry_ms } => {
                    let expiry = SystemTime::UNIX_EPOCH + Duration::from_millis(expiry_ms);
                    batch.put_until(&target, operation.key, value, expiry).unwrap();
                }
                _ => panic!("{operation:?}"),
            }
        }
        other.write(&batch).unwrap();
    }
    of_default(other)
}

fn followed(world: &World) -> Copied {
    drop(world.source());
    let follower = world.options().open_follower("db").unwrap();
    Copied { family: follower.db().default_family(), _kept: Box::new(follower) }
}

fn opened_read_only(world: &World) -> Copied {
    drop(world.source());
    of_default(world.options().read_only(true).open("db").unwrap())
}

type MakeCopy = fn(&World) -> Copied;

const COPIES: [(&str, MakeCopy); 18] = [
    ("in place", in_place),
    ("compacted", compacted),
    ("with another threshold", with_another_threshold),
    ("moved to another blob file", moved_to_another_blob_file),
    ("reopened", reopened),
    ("archived", archived),
    ("archived from a branch", archived_from_a_branch),
    ("checkpointed", checkpointed),
    ("restored", restored),
    ("salvaged", salvaged),
    ("cloned", cloned),
    ("on a branch", on_a_branch),
    ("merged from a branch", merged_from_a_branch),
    ("ingested", ingested),
    ("filtered", filtered),
    ("fed", fed),
    ("followed", followed),
    ("opened read-only", opened_read_only),
];

fn expected(ends: &[&str]) -> Vec<String> {
    let places = ["log", "table"].into_iter();
    let sizes = places.flat_map(|place| ["long", "short"].map(|size| format!("{place} {size}")));
    sizes.flat_map(|size| ends.iter().map(move |end| format!("{size} {end}"))).collect()
}

#[test]
fn every_copy_keeps_the_expiry_of_short_and_of_separated_values() {
    let mut wrong = Vec::new();
    for (name, copy) in COPIES {
        let world = World::new();
        let copied = copy(&world);
        assert_eq!(keys(&copied.family), expected(&["lasting", "timed"]), "{name}");
        world.clock.advance(TTL - Duration::from_millis(1));
        assert_eq!(keys(&copied.family), expected(&["lasting", "timed"]), "{name}");
        world.clock.advance(Duration::from_millis(1));
        if keys(&copied.family) != expected(&["lasting"]) {
            wrong.push((name, keys(&copied.family)));
        }
    }
    assert!(wrong.is_empty(), "forgot the expiry: {wrong:#?}");
}

#[test]
fn an_archive_itself_hides_what_has_expired() {
    let world = World::new();
    world.source().archive("a.siltar").unwrap();
    let archive = Archive::open_with("a.siltar", &world.options()).unwrap();
    let family = archive.family("default").unwrap();
    let keys = || -> Vec<String> {
        let keys = family.iter().unwrap().map(|pair| pair.unwrap().0.to_vec());
        keys.map(|key| String::from_utf8(key).unwrap()).collect()
    };
    assert_eq!(keys(), expected(&["lasting", "timed"]));
    world.clock.advance(TTL);
    assert_eq!(keys(), expected(&["lasting"]));
}
