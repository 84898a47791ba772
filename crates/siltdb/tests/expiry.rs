//! The TTL of a family: which writes it concerns, when values expire, and that it is kept.

#[path = "expiry/fixed_time.rs"]
mod fixed_time;
#[path = "expiry/kept.rs"]
mod kept;
#[path = "expiry/noted.rs"]
mod noted;

use siltdb::{
    Action, Create, Db, ErrorKind, Event, Family, FamilyOptions, Isolation, KeyOrder,
    MergeOperator, Options, Read, Result, SubscribeOptions, WriteBatch, WriteOptions,
    testing::{Crash, ManualClock, MemFs},
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

const DIR: &str = "db";
const TTL: Duration = Duration::from_millis(1000);

/// A database on a clock that tests set.
struct World {
    fs: MemFs,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        Self {
            fs: MemFs::new(),
            clock: Arc::new(ManualClock::at(Duration::from_millis(1_000_000))),
        }
    }

    fn options(&self) -> Options {
        Options::new().workers(0).fs(Arc::new(self.fs.clone())).clock(self.clock.clone())
    }

    fn open(&self) -> Db {
        self.options().open(DIR).unwrap()
    }

    fn pass(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }
}

fn expiring() -> FamilyOptions {
    FamilyOptions::new().ttl(TTL)
}

fn keys(family: &Family) -> Vec<String> {
    let keys = family.iter().unwrap().keys();
    keys.map(|key| String::from_utf8(key.unwrap().to_vec()).unwrap()).collect()
}

/// Writes a key by each way that gives no expiry; returns the keys in order.
fn write_all(db: &Db, family: &Family) -> Vec<String> {
    family.put("a put", "1").unwrap();
    family.put_with("b put_with", "1", &WriteOptions::new()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(family, "c batch", "1").unwrap();
    db.write(&batch).unwrap();
    let transaction = db.begin(Isolation::Serializable).family(family).unwrap();
    transaction.put("d transaction", "1").unwrap();
    transaction.commit().unwrap();
    family.put_if_absent("e put_if_absent", "1").unwrap();
    assert!(family.compare_and_swap("f swap", None, Some(b"1")).unwrap().is_swapped());
    family.update_and_fetch("g update", |_| Some("1")).unwrap();
    family.fetch_and_update("h update", |_| Some("1")).unwrap();
    family.ingest_sorted([("i ingest", "1")]).unwrap();
    family.put_reader("j put_reader", 1, &b"1"[..]).unwrap();
    vec![
        "a put",
        "b put_with",
        "c batch",
        "d transaction",
        "e put_if_absent",
        "f swap",
        "g update",
        "h update",
        "i ingest",
        "j put_reader",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect()
}

#[test]
fn every_write_without_an_expiry_gets_that_of_the_family() {
    let world = World::new();
    let db = world.open();
    let (family, other) = (
        db.create_family("f", expiring()).unwrap(),
        db.create_family("other", FamilyOptions::new()).unwrap(),
    );
    let written = write_all(&db, &family);
    assert_eq!(write_all(&db, &other), written);
    world.pass(999);
    assert_eq!(keys(&family), written);
    world.pass(1);
    assert_eq!(keys(&family), Vec::<String>::new());
    assert_eq!(keys(&other), written);
    // A compaction reclaims what has expired.
    db.compact().unwrap();
    assert_eq!(family.size_of(..).unwrap().entries, 0);
}

#[test]
fn a_write_that_gives_an_expiry_keeps_it() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    family.put_for("long", "1", Duration::from_millis(5000)).unwrap();
    family.put_for("short", "1", Duration::from_millis(10)).unwrap();
    family.put_for("for ever", "1", Duration::MAX).unwrap();
    let mut batch = WriteBatch::new();
    let until = SystemTime::UNIX_EPOCH + Duration::from_millis(1_003_000);
    batch.put_until(&family, "until", "1", until).unwrap();
    batch.put_for(&family, "batch", "1", Duration::from_millis(4000)).unwrap();
    db.write(&batch).unwrap();
    let transaction = db.begin(Isolation::Snapshot).family(&family).unwrap();
    transaction.put_for("transaction", "1", Duration::from_millis(2000)).unwrap();
    transaction.commit().unwrap();
    world.pass(10);
    assert_eq!(keys(&family), ["batch", "for ever", "long", "transaction", "until"]);
    world.pass(2990);
    assert_eq!(keys(&family), ["batch", "for ever", "long"]);
    world.pass(10_000_000);
    assert_eq!(keys(&family), ["for ever"]);
}

#[test]
fn a_value_that_is_put_until_a_time_expires_at_that_time() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    let until = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_u64 + ms);
    let strings = expiring().key_order(KeyOrder::of::<String>());
    let typed = db.create_family("typed", strings).unwrap().typed::<String, String>().unwrap();
    family.put_until("family", "1", until(5000)).unwrap();
    typed.put_until("typed", &"1".to_owned(), until(3000)).unwrap();
    db.put_until("default", "1", until(3000)).unwrap();
    // Before 1970.
    family.put_until("gone", "1", SystemTime::UNIX_EPOCH - Duration::from_secs(1)).unwrap();
    assert_eq!(keys(&family), ["family"]);
    let there = || (typed.contains("typed").unwrap(), db.contains("default").unwrap());
    world.pass(2999);
    assert_eq!(there(), (true, true));
    world.pass(1);
    assert_eq!((there(), keys(&family).len()), ((false, false), 1));
    world.pass(2000);
    assert!(family.is_empty().unwrap());
}

#[test]
fn the_time_of_a_batch_counts_from_the_call() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&family, "early", "1").unwrap();
    world.pass(600);
    batch.put(&family, "late", "1").unwrap();
    db.write(&batch).unwrap();
    world.pass(400);
    assert_eq!(keys(&family), ["late"]);
}

#[test]
fn the_ttl_is_kept_and_a_change_holds_for_later_writes() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    family.put("first", "1").unwrap();
    drop((family, db));

    let db = world.open();
    let family = db.family("f").unwrap();
    assert_eq!(family.options().get("ttl").unwrap(), "1000ms");
    family.put("second", "1").unwrap();
    family.set_options(&family.options().ttl(Duration::from_millis(3000))).unwrap();
    family.put("third", "1").unwrap();
    let clone = db.clone_family(&family, "clone").unwrap();
    clone.put("in the clone", "1").unwrap();
    family.set_options(&family.options().ttl(Duration::ZERO)).unwrap();
    family.put("stays", "1").unwrap();
    db.sync_wal().unwrap();
    world.pass(1000);
    assert_eq!(keys(&family), ["stays", "third"]);

    // The changes are durable on return.
    let crashed = World { fs: world.fs.crash_clone(Crash::PowerLoss { seed: 7 }), ..world };
    drop((family, clone, db));
    let db = crashed.open();
    let family = db.family("f").unwrap();
    assert_eq!(family.options().get("ttl").unwrap(), "0ms");
    assert_eq!(db.family("clone").unwrap().options().get("ttl").unwrap(), "3000ms");
    assert_eq!(keys(&family), ["stays", "third"]);
    family.put("after", "1").unwrap();
    crashed.pass(2000);
    assert_eq!(keys(&family), ["after", "stays"]);
    assert_eq!(keys(&db.family("clone").unwrap()), Vec::<String>::new());
}

#[test]
fn the_default_family_gets_its_ttl_with_the_database() {
    let world = World::new();
    let db = world.options().create(Create::New).default_family(expiring()).open(DIR).unwrap();
    db.put("key", "1").unwrap();
    drop(db);
    let db = world.open();
    db.put("later", "1").unwrap();
    world.pass(1000);
    assert!(db.is_empty().unwrap());
}

#[test]
fn a_single_delete_where_values_expire_is_a_delete() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    family.put("key", "older").unwrap();
    db.flush().unwrap();
    family.put("key", "newer").unwrap();
    let mut batch = WriteBatch::new();
    batch.single_delete(&family, "key").unwrap();
    assert_eq!(batch.operations().next().unwrap().action, Action::Delete);
    db.write(&batch).unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(family.get("key").unwrap(), None);
}

#[test]
fn counters_and_buckets_do_not_expire() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    let first = family.next_id("ids").unwrap();
    let bucket = family.bucket(["a", "b"]).unwrap();
    bucket.create_if_missing().unwrap();
    let id = bucket.next_id().unwrap();
    bucket.put("key", "1").unwrap();
    world.pass(5000);
    drop((bucket, family, db));

    let db = world.open();
    let family = db.family("f").unwrap();
    assert!(family.next_id("ids").unwrap() > first);
    let bucket = family.bucket(["a", "b"]).unwrap();
    assert_eq!(bucket.get("key").unwrap(), None);
    assert!(bucket.next_id().unwrap() > id);
    let moved = bucket.rename(["a", "c"]).unwrap();
    family.bucket(["d"]).unwrap().create().unwrap();
    world.pass(5000);
    assert_eq!(family.bucket(["a"]).unwrap().children().unwrap(), [b"c"]);
    moved.remove().unwrap();
    assert_eq!(family.bucket([""; 0]).unwrap().children().unwrap(), [b"a", b"d"]);
}

#[test]
fn values_from_elsewhere_keep_the_expiry_that_they_have() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    let branch = db.create_branch("work").unwrap().family("f").unwrap();
    assert_eq!(branch.options().get("ttl").unwrap(), "1000ms");
    branch.put("branch: default", "1").unwrap();
    branch.put_for("branch: long", "1", Duration::from_millis(5000)).unwrap();
    let mut table = world.options().table_file("timed.table", &expiring()).unwrap();
    table.put("file: default", "1").unwrap();
    table.finish().unwrap();
    let mut table = world.options().table_file("lasting.table", &FamilyOptions::new()).unwrap();
    table.put("lasting", "1").unwrap();
    table.finish().unwrap();
    world.pass(600);
    assert!(db.merge_branch("work").unwrap().is_applied);
    db.ingest(&[(family.clone(), "timed.table"), (family.clone(), "lasting.table")]).unwrap();
    family.put("put", "1").unwrap();
    db.archive("f.siltar").unwrap();
    let other = world.options().open("other").unwrap();
    other.import_archive("f.siltar").unwrap();
    let imported = other.family("f").unwrap();
    assert_eq!(imported.options().get("ttl").unwrap(), "1000ms");
    let all = ["branch: default", "branch: long", "file: default", "lasting", "put"];
    for family in [&family, &imported] {
        assert_eq!(keys(family), all);
    }
    world.pass(400);
    for family in [&family, &imported] {
        assert_eq!(keys(family), ["branch: long", "lasting", "put"]);
    }
    world.pass(600);
    for family in [&family, &imported] {
        assert_eq!(keys(family), ["branch: long", "lasting"]);
    }
}

#[test]
fn the_time_of_a_transaction_counts_from_the_put() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    let transaction = db.begin(Isolation::Serializable).family(&family).unwrap();
    transaction.put("early", "1").unwrap();
    world.pass(600);
    transaction.put("late", "1").unwrap();
    transaction.savepoint("s").unwrap();
    transaction.put("late", "2").unwrap();
    transaction.rollback_to("s").unwrap();
    assert_eq!(transaction.get("early").unwrap().as_deref(), Some(&b"1"[..]));
    world.pass(400);
    // Its own writes are read as of its begin, as those of others are.
    assert_eq!(transaction.get("early").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(transaction.get("late").unwrap().as_deref(), Some(&b"1"[..]));
    let prepared = db.begin(Isolation::Snapshot).family(&family).unwrap();
    prepared.put("prepared", "1").unwrap();
    let prepared = prepared.prepare("id").unwrap();
    transaction.commit().unwrap();
    assert_eq!(keys(&family), ["late"]);
    world.pass(599);
    prepared.commit().unwrap();
    assert_eq!(keys(&family), ["late", "prepared"]);
    world.pass(1);
    assert_eq!(keys(&family), ["prepared"]);
    world.pass(400);
    assert!(keys(&family).is_empty());
}

/// Concatenates operands.
#[derive(Debug)]
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

#[test]
fn a_family_with_a_merge_operator_has_no_ttl() {
    let world = World::new();
    let merging = || FamilyOptions::new().merge_operator(Arc::new(Append));
    let db = world.options().merge_operator(Arc::new(Append)).open(DIR).unwrap();
    let refused = db.create_family("f", merging().ttl(TTL)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let family = db.create_family("f", merging()).unwrap();
    let refused = family.set_options(&FamilyOptions::new().ttl(TTL)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(family.options().get("ttl").unwrap(), "0ms");
    let default = db.default_family();
    default.set_options(&expiring()).unwrap();
    assert!(default.set_options(&merging().ttl(TTL)).is_err());
    drop((default, family, db));
    // Nor does an opening give it one.
    let options = world.options().merge_operator(Arc::new(Append)).default_family(merging());
    assert_eq!(options.open(DIR).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let db = world.options().merge_operator(Arc::new(Append)).open(DIR).unwrap();
    assert_eq!(db.default_family().options().get("ttl").unwrap(), "1000ms");
}

#[test]
fn the_feed_and_followers_see_the_expiry_of_each_value() {
    let world = World::new();
    let db = world.open();
    let family = db.create_family("f", expiring()).unwrap();
    let mut feed = db.subscribe(&SubscribeOptions::new().family(&family)).unwrap();
    family.put("key", "1").unwrap();
    let Some(Event::Commit(commit)) = feed.try_next().unwrap() else { panic!("no commit") };
    let action = commit.changes().next().unwrap().operation.action;
    assert_eq!(action, Action::PutUntil { value: b"1", expiry_ms: 1_001_000 });
    let follower = world.options().open_follower(DIR).unwrap();
    assert_eq!(keys(&follower.db().family("f").unwrap()), ["key"]);
    world.pass(1000);
    follower.catch_up().unwrap();
    assert_eq!(keys(&follower.db().family("f").unwrap()), Vec::<String>::new());
}
