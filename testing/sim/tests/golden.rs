//! Golden databases in `testing/golden`: the present code opens those of all released versions, and
//! writes the newest one again byte by byte.
//!
//! `NAME` is a database, and `NAME.txt` its contents: of each entry the family, and key and value
//! in hexadecimal digits. `GOLDEN=write` writes both again.

use siltdb::{
    BranchOptions, Caseless, ColdAdoption, CompactionFilter, CompactionStrategy, Compression,
    CopyProgress, Db, Durability, ErrorKind, Family, FamilyOptions, FilterDecision, FilteredEntry,
    Isolation, KeyOrder, MergeOptions, OnConflict, Options, PrefixExtractor, Read, RetentionFloor,
    TableKind, WriteBatch, WriteOptions,
    inspect::{self, Detail, Line},
};
use siltdb_base::{
    clock::ManualClock,
    fs::{
        Fs, LogIo,
        mem::{CallKind, Crash, Fault, FaultError, FaultSpan, MemFs},
    },
};
use siltdb_sim::operator::Operator;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// The database that the present code writes. Those of released versions stay beside it.
const NEWEST: &str = "0.1";

/// The same, and prepared transactions in log and manifest.
const PREPARED: &str = "0.1-prepared";

/// A family and clones of it, with references that hide newer entries.
const CLONES: &str = "0.1-clones";

/// Families with key orders, and one with a TTL.
const ORDERS: &str = "0.1-orders";

/// The same, from when the order without case had another name.
const OLD_ORDERS: &str = "0.1-caseless";

/// Key orders, each with keys in that order.
const ORDERED: [(&str, &[&str]); 6] = [
    ("u64", &["1", "255", "256", "18446744073709551615"]),
    ("(i64,string)", &[r#"(-300,"b")"#, r#"(-1,"")"#, r#"(-1,"a\x00b")"#, r#"(7,"a")"#]),
    ("reverse((string,u8))", &[r#"("b",0)"#, r#"("a\x00",1)"#, r#"("a",2)"#, r#"("a",1)"#]),
    ("caseless", &["", "apple", "README", "readme", "Zebra"]),
    ("(option(f64),bool,le[4])", &["(none,true,256)", "(some(-0.5),false,1)"]),
    ("golden.order", &[r#""any bytes""#, r#""any\xff""#]),
];

/// Tables that were ingested, each reference with a global sequence.
const INGESTED: &str = "0.1-ingested";
/// Branches, changed and merged; one is checked out.
const BRANCHES: &str = "0.1-branches";

/// A family in each tier, and one in both. The cold directory lies beside it, as `NAME.cold`.
const TIERS: &str = "0.1-tiers";

/// The cold directory of a database, by the extension of its stored name.
const COLD: &str = "cold";

/// B+tree tables of several levels of nodes, compressed and not.
const BTREE: &str = "0.1-btree";

/// Versions of keys from a retention floor on.
const HISTORY: &str = "0.1-history";

/// Filters with prefixes, beside whole keys and alone, and a compaction filter.
const FILTERS: &str = "0.1-filters";
/// Separated values in tables and in the log, raw and compressed, some of them moved.
const BLOBS: &str = "0.1-blobs";
/// A tiered and a FIFO family, with other triggers than the default.
const STYLES: &str = "0.1-styles";

/// Tables that are seen in part, because a merge ended between two of its steps.
const STEPS: &str = "0.1-steps";

/// How many versions of how many keys; the first is below the floor, the last in the log.
const VERSIONS: (u64, u64) = (5, 120);

const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden");

/// The wall clock during the writing: 2025.
const WRITTEN_MS: u64 = 1_750_000_000_000;

/// The last expiry of values that must be present: 2100.
const LATE_MS: u64 = 4_102_444_800_000;

const DIR: &str = "golden";

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Family, key and value of each entry.
type Contents = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// A database during its writing, and its expected contents.
struct Writer {
    fs: MemFs,
    clock: Arc<ManualClock>,
    sessions: u64,
    contents: Contents,
}

impl Writer {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Duration::from_millis(WRITTEN_MS)));
        Self { fs: MemFs::new(), clock, sessions: 0, contents: Contents::new() }
    }

    fn open(&mut self) -> Db {
        self.options().open(DIR).unwrap()
    }

    fn options(&mut self) -> Options {
        self.sessions += 1;
        options()
            .fs(Arc::new(self.fs.clone()))
            .clock(Arc::clone(&self.clock) as _)
            .seed(self.sessions)
    }

    /// Ends the process of `db` with a crash.
    fn crash(&mut self, db: Db, crash: Crash) {
        self.fs = self.fs.crash_clone(crash);
        drop(db);
    }

    fn put(&mut self, family: &Family, key: &[u8], value: &[u8]) {
        family.put(key, value).unwrap();
        self.holds(family, key, value);
    }

    fn delete_range(&mut self, family: &Family, start: &[u8], end: &[u8]) {
        family.delete_range(start..end).unwrap();
        let name = label(family);
        self.contents.retain(|(of, key), _| *of != name || !(start..end).contains(&&key[..]));
    }

    fn merge(&mut self, family: &Family, key: &[u8], operand: &[u8]) {
        family.merge(key, operand).unwrap();
        let value = self.contents.entry((label(family), key.to_vec())).or_default();
        value.extend_from_slice(operand);
    }

    fn holds(&mut self, family: &Family, key: &[u8], value: &[u8]) {
        self.contents.insert((label(family), key.to_vec()), value.to_vec());
    }

    /// The clone `name` holds what the default family held when it held `contents`.
    fn holds_clone(&mut self, name: &str, contents: &Contents) {
        let source = contents.iter().filter(|((family, _), _)| family == "default");
        for ((_, key), value) in source {
            self.contents.insert((name.to_owned(), key.clone()), value.clone());
        }
    }

    fn holds_no(&mut self, family: &Family, key: &[u8]) {
        self.contents.remove(&(label(family), key.to_vec()));
    }
}

/// The name of a family, behind that of its branch if it is of one.
fn label(family: &Family) -> String {
    match family.branch() {
        Some(branch) => format!("{branch}/{}", family.name()),
        None => family.name(),
    }
}

/// Small limits, so that little data makes several levels. A reader needs the merge operator only.
fn options() -> Options {
    Options::new()
        .workers(0)
        .memory_budget(4 << 20)
        .cache_bytes(1 << 20)
        .memtable_bytes(16 << 10)
        .log_io(LogIo::Write)
        .durability(Durability::Synced)
        .default_family(small(Compression::Lz4))
        .merge_operator(Arc::new(Operator::Append))
        .compaction_filter(Arc::new(Unwanted))
}

/// Drops values that say so.
#[derive(Debug)]
struct Unwanted;

impl CompactionFilter for Unwanted {
    fn name(&self) -> &str {
        "golden"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        match entry.value {
            b"unwanted" => FilterDecision::Drop,
            _ => FilterDecision::Keep,
        }
    }
}

fn small(compression: Compression) -> FamilyOptions {
    FamilyOptions::new()
        .compression(compression)
        .block_bytes(1 << 10)
        .table_bytes(2 << 10)
        .base_level_bytes(4 << 10)
        .level_size_ratio(3)
        .level0_runs(2)
}

/// A value of `bytes` bytes that differ from each other.
fn value(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Several levels of three families, closed.
fn fill_tables(writer: &mut Writer) {
    let db = writer.open();
    let default = db.default_family();
    let plain = small(Compression::None).filter_bits_per_key(0);
    let plain = db.create_family("plain: ünïcode", plain).unwrap();
    let merged = small(Compression::Lz4).merge_operator(Arc::new(Operator::Append));
    let merged = db.create_family("early name", merged).unwrap();
    let dropped = db.create_family("dropped", FamilyOptions::new()).unwrap();
    dropped.put(b"key", b"value").unwrap();
    for round in 0..3 {
        for number in (round..240).step_by(3) {
            let key = format!("row:{number:05}");
            writer.put(&default, key.as_bytes(), &value(number, 24 + number as usize % 40));
            let key = (number * 77 % 1000).to_be_bytes();
            writer.put(&plain, &key[5..], &value(number, number as usize % 30));
        }
        for counter in 0..20 {
            writer.merge(&merged, &[b'c', counter], &[b'0' + round as u8]);
        }
        db.flush().unwrap();
        db.settle().unwrap();
    }
    writer.put(&plain, b"", b"the empty key");
    writer.put(&plain, &[0xff; 300], b"");
    writer.put(&default, b"large", &value(9, 3000));
    writer.delete_range(&default, b"row:00050", b"row:00070");
    db.flush().unwrap();
    db.close().unwrap();
}

/// A log that loses its tail, so that the next recovery truncates it.
fn lose_tail(writer: &mut Writer) {
    let db = writer.open();
    let default = db.default_family();
    writer.put(&default, b"kept", b"synced");
    let buffered = WriteOptions::new().durability(Durability::Buffered);
    for number in 0..40_u8 {
        default.put_with([b'~', number], value(number.into(), 60), &buffered).unwrap();
    }
    writer.crash(db, Crash::PowerLoss { seed: 1 });
}

/// Every kind of operation, in runs of level 0 and then in an unflushed log.
fn write_every_kind(writer: &mut Writer) {
    let db = writer.open();
    db.drop_family("dropped").unwrap();
    db.rename_family("early name", "merged").unwrap();
    let renamed = |((family, key), value): ((String, Vec<u8>), Vec<u8>)| {
        let family = if family == "early name" { "merged".to_owned() } else { family };
        ((family, key), value)
    };
    writer.contents = std::mem::take(&mut writer.contents).into_iter().map(renamed).collect();
    let [default, plain, merged] =
        ["default", "plain: ünïcode", "merged"].map(|name| db.family(name).unwrap());
    // Deletes what recovery kept of the lost tail, which is not part of the expected contents.
    writer.delete_range(&default, b"~", b"\x7f");
    db.flush().unwrap();
    db.settle().unwrap();
    for part in ["table", "log"] {
        let key = |name: &str| format!("{part}:{name}").into_bytes();
        writer.put(&default, &key("put"), b"value");
        writer.put(&default, &key("single"), b"gone");
        let mut batch = WriteBatch::new();
        batch.put(&default, key("batch"), b"of several").unwrap();
        let late = UNIX_EPOCH + Duration::from_millis(LATE_MS);
        batch.put_until(&plain, key("late"), b"in 2100", late).unwrap();
        batch.put_for(&plain, key("soon"), b"a minute", Duration::from_secs(60)).unwrap();
        let number = if part == "table" { 100 } else { 101 };
        let row = format!("row:{number:05}");
        batch.delete(&default, &row).unwrap();
        batch.single_delete(&default, key("single")).unwrap();
        db.write(&batch).unwrap();
        writer.holds(&default, &key("batch"), b"of several");
        writer.holds(&plain, &key("late"), b"in 2100");
        writer.holds_no(&default, row.as_bytes());
        writer.holds_no(&default, &key("single"));
        let (start, end) = (format!("row:{:05}", number + 20), format!("row:{:05}", number + 30));
        writer.delete_range(&default, start.as_bytes(), end.as_bytes());
        writer.merge(&merged, b"c\x05", part.as_bytes());
        writer.merge(&merged, &key("only operands"), b"1");
        let volatile = WriteOptions::new().durability(Durability::Volatile);
        if part == "table" {
            plain.put_with(key("unlogged"), b"flushed", &volatile).unwrap();
            writer.holds(&plain, &key("unlogged"), b"flushed");
            db.flush().unwrap();
        } else {
            plain.put_with(key("unlogged"), b"lost", &volatile).unwrap();
            commit_family(writer, &db);
            writer.put(&default, &key("last"), b"behind what is skipped");
        }
    }
    writer.crash(db, Crash::Kill);
}

/// A family and its row of the schema, in one commit.
fn commit_family(writer: &mut Writer, db: &Db) {
    let (default, table) = (
        db.default_family(),
        db.prepare_family("table of a schema", small(Compression::Lz4)).unwrap(),
    );
    let mut batch = WriteBatch::new();
    batch.create_family(&table).unwrap();
    batch.put(&default, b"schema", b"table of a schema").unwrap();
    batch.put(&table, b"row", b"first").unwrap();
    db.write(&batch).unwrap();
    writer.holds(&default, b"schema", b"table of a schema");
    writer.holds(&table, b"row", b"first");
}

/// Prepared transactions: one that a flush carried into the manifest, one in the log, and some that
/// were decided.
fn leave_prepared(writer: &mut Writer) {
    let db = writer.open();
    let [default, plain] = ["default", "plain: ünïcode"].map(|name| db.family(name).unwrap());
    let prepare = |id: &str, reads: Isolation| {
        let transaction = db.begin(reads);
        assert!(transaction.range("row:00200".."row:00203").unwrap().count() > 0);
        assert!(transaction.get("no such key").unwrap().is_none());
        transaction.put(format!("prepared:{id}"), id).unwrap();
        transaction.delete_range(format!("{id} a")..format!("{id} b")).unwrap();
        transaction.family(&plain).unwrap().put(format!("prepared:{id}"), "plain").unwrap();
        transaction.prepare(id).unwrap();
    };
    prepare("flushed", Isolation::Serializable);
    prepare("gone", Isolation::Snapshot);
    db.flush().unwrap();
    prepare("logged", Isolation::RepeatableRead);
    prepare("committed", Isolation::ReadCommitted);
    db.commit_prepared("committed").unwrap();
    db.rollback_prepared("gone").unwrap();
    writer.holds(&default, b"prepared:committed", b"committed");
    writer.holds(&plain, b"prepared:committed", b"plain");
    for number in 0..4 {
        writer.put(&default, format!("behind:{number}").as_bytes(), b"the decisions");
    }
    writer.crash(db, Crash::Kill);
}

/// A family, a clone of it, and one of a moment before, which shares tables with newer entries.
fn write_clones(writer: &mut Writer) {
    let db = writer.open();
    let default = db.default_family();
    let row = |number: u64| format!("row:{number:05}").into_bytes();
    for number in 0..240 {
        writer.put(&default, &row(number), &value(number, 40));
    }
    db.flush().unwrap();
    db.settle().unwrap();
    for number in 0..60 {
        writer.put(&default, &row(number), &value(1000 + number, 25));
    }
    let (moment, before) = (db.snapshot(), writer.contents.clone());
    for number in 40..120 {
        writer.put(&default, &row(number), &value(2000 + number, 25));
    }
    writer.delete_range(&default, &row(10), &row(20));
    let after = writer.contents.clone();
    let now = db.clone_family(&default, "now").unwrap();
    writer.holds_clone("now", &after);
    let at = db.clone_family_at(&moment, &default, "at").unwrap();
    writer.holds_clone("at", &before);
    // Each goes its own way, in the log.
    for number in 230..236 {
        for family in [&default, &now, &at] {
            writer.put(family, &row(number), family.name().as_bytes());
        }
    }
    writer.crash(db, Crash::Kill);
}

/// A family of each order with keys in a table and in the log, and one whose values expire.
fn write_orders(writer: &mut Writer) {
    let db = writer.open();
    let ordered = ORDERED.map(|(name, keys)| {
        let order = KeyOrder::named(name).unwrap();
        let options = small(Compression::Lz4).key_order(order.clone());
        let keys: Vec<_> = keys.iter().map(|key| order.key_of(key).unwrap()).collect();
        (db.create_family(name, options).unwrap(), keys)
    });
    let ttl = Duration::from_millis(LATE_MS - WRITTEN_MS);
    let expiring = db.create_family("expiring", small(Compression::Lz4).ttl(ttl)).unwrap();
    let default = db.default_family();
    for number in 0..120 {
        writer.put(&default, format!("row:{number:05}").as_bytes(), &value(number, 10));
    }
    for (family, keys) in &ordered {
        writer.put(family, &keys[0], b"in a table");
    }
    writer.put(&expiring, b"early", b"in a table");
    db.flush().unwrap();
    for (family, keys) in &ordered {
        keys[1..].iter().for_each(|key| writer.put(family, key, b"in the log"));
    }
    writer.put(&expiring, b"late", b"in the log");
    writer.crash(db, Crash::Kill);
}

/// A stream and table files, ingested over older entries and under later ones.
fn write_ingested(writer: &mut Writer) {
    let db = writer.open();
    let (default, family) =
        (db.default_family(), db.create_family("ingested", small(Compression::Lz4)).unwrap());
    let key = |number: u64| format!("key:{number:05}").into_bytes();
    for number in 0..60 {
        writer.put(&family, &key(number), &value(number, 40));
    }
    let mut stream = family.ingest().unwrap();
    for number in 10..250 {
        let value = value(1000 + number, 50);
        stream.put(key(number), &value).unwrap();
        writer.holds(&family, &key(number), &value);
    }
    stream.finish().unwrap();
    let outside = options().fs(Arc::new(writer.fs.clone())).seed(9);
    let outside = outside.clock(Arc::clone(&writer.clock) as _);
    let files = [(family.clone(), "1.table", 240..260), (default, "2.table", 5..9)];
    for (family, name, numbers) in &files {
        let mut table = outside.table_file(name, &small(Compression::None)).unwrap();
        for number in numbers.clone() {
            let value = value(2000 + number, 30);
            table.put(key(number), &value).unwrap();
            writer.holds(family, &key(number), &value);
        }
        table.delete(key(300)).unwrap();
        table.finish().unwrap();
    }
    let named = files.each_ref().map(|(family, name, _)| (family.clone(), *name));
    db.ingest(&named).unwrap();
    named.iter().for_each(|(_, name)| writer.fs.remove(Path::new(name)).unwrap());
    for number in 0..8 {
        writer.put(&family, &key(number * 40), b"later");
    }
    writer.crash(db, Crash::Kill);
}

/// Two branches, changed on both sides: one merged into `main`, one of the other and checked out.
fn write_branches(writer: &mut Writer) {
    let db = writer.open();
    let default = db.default_family();
    let plain = db.create_family("plain: ünïcode", small(Compression::None)).unwrap();
    let row = |number: u64| format!("row:{number:05}").into_bytes();
    for number in 0..240 {
        writer.put(&default, &row(number), &value(number, 40));
        writer.put(&plain, &row(number), &value(number, 10));
    }
    db.flush().unwrap();
    db.settle().unwrap();
    for number in 0..60 {
        writer.put(&default, &row(number), &value(1000 + number, 25));
    }
    let begun = writer.contents.clone();
    let branch = db.create_branch("feature: ünïcode").unwrap();
    let holds = |writer: &mut Writer, branch: &str, contents: &Contents, families: &[String]| {
        for ((family, key), value) in contents.iter().filter(|((of, _), _)| families.contains(of)) {
            writer.contents.insert((format!("{branch}/{family}"), key.clone()), value.clone());
        }
    };
    holds(writer, "feature: ünïcode", &begun, &db.families());
    let on_branch = branch.default_family().unwrap();
    for number in 40..80 {
        writer.put(&on_branch, &row(number), &value(2000 + number, 25));
    }
    writer.put(&default, b"of main", b"value");
    assert_eq!(db.merge_branch("feature: ünïcode").unwrap().written, 40);
    for number in 40..80 {
        writer.holds(&default, &row(number), &value(2000 + number, 25));
    }
    // From a moment before, of one family.
    let (moment, before) = (db.snapshot(), writer.contents.clone());
    writer.delete_range(&on_branch, &row(10), &row(20));
    let options = BranchOptions::new().from("feature: ünïcode").families(["default"]).at(&moment);
    db.create_branch_with("child", &options).unwrap();
    let parents = before.iter().filter_map(|((family, key), value)| {
        let family = family.strip_prefix("feature: ünïcode/")?;
        Some(((family.to_owned(), key.clone()), value.clone()))
    });
    holds(writer, "child", &parents.collect(), &["default".to_owned()]);
    let child = db.branch("child").unwrap().default_family().unwrap();
    db.checkout("child").unwrap();
    // Each goes its own way, in the log, with a merge there.
    for number in 230..236 {
        for family in [&default, &on_branch, &child] {
            writer.put(family, &row(number), label(family).as_bytes());
        }
    }
    let theirs = MergeOptions::new().on_conflict(OnConflict::Theirs);
    let report = db.merge_branch_with("feature: ünïcode", &theirs).unwrap();
    assert_eq!((report.written, report.conflicts), (16, 6));
    for number in 10..20 {
        writer.holds_no(&default, &row(number));
    }
    for number in 230..236 {
        writer.holds(&default, &row(number), label(&on_branch).as_bytes());
    }
    for number in 0..6 {
        writer.put(&default, format!("last:{number}").as_bytes(), b"behind the merge");
    }
    writer.crash(db, Crash::Kill);
}

/// A family that is frozen, one whose lower levels are cold, and one that is hot.
fn write_tiers(writer: &mut Writer) {
    let db = writer.options().cold_directory("../cold").open(DIR).unwrap();
    let default = db.default_family();
    let by_level = small(Compression::Lz4).cold_from_level(6);
    let at = db.create_family("at", by_level).unwrap();
    let now = db.create_family("now", small(Compression::None)).unwrap();
    for round in 0..3 {
        for family in [&default, &at, &now] {
            for number in (round..120).step_by(3) {
                let key = format!("row:{number:05}");
                writer.put(family, key.as_bytes(), &value(number, 24 + number as usize % 40));
            }
        }
        db.flush().unwrap();
        db.settle().unwrap();
    }
    default.freeze().unwrap();
    for family in [&default, &at, &now] {
        for number in 0..6_u8 {
            writer.put(family, &[b'l', number], b"in the log");
        }
    }
    assert!(default.stats().hot_bytes == 0 && now.stats().cold_tables == 0);
    assert!(at.stats().hot_bytes > 0 && at.stats().cold_tables > 0);
    writer.crash(db, Crash::Kill);
}

/// Families of B+tree tables, with large keys so that one node is not enough, and one that has
/// tables of both kinds.
fn write_trees(writer: &mut Writer) {
    let db = writer.open();
    let trees = |compression| small(compression).table_kind(TableKind::BTree);
    let plain = db.create_family("plain", trees(Compression::None).table_bytes(64 << 10)).unwrap();
    let packed = db.create_family("packed", trees(Compression::Lz4)).unwrap();
    let changed = db.create_family("changed", small(Compression::None)).unwrap();
    for round in 0..3 {
        for number in (round..90).step_by(3) {
            let key = format!("row:{number:05}:{}", "long".repeat(60));
            writer.put(&plain, key.as_bytes(), &value(number, 24 + number as usize % 400));
            let key = format!("row:{number:05}");
            writer.put(&packed, key.as_bytes(), &[number as u8; 90]);
            writer.put(&changed, key.as_bytes(), &value(number, 60));
        }
        writer.put(&plain, b"large", &value(9, 3000 + round as usize));
        writer.delete_range(&packed, b"row:00050", b"row:00060");
        db.flush().unwrap();
        db.settle().unwrap();
        if round == 1 {
            changed.set_options(&changed.options().table_kind(TableKind::BTree)).unwrap();
        }
    }
    for family in [&plain, &packed, &changed] {
        for number in 0..4_u8 {
            writer.put(family, &[b'l', number], b"in the log");
        }
    }
    writer.crash(db, Crash::Kill);
}

/// Families whose filters have prefixes of each kind, and one with a compaction filter.
fn write_filters(writer: &mut Writer) {
    let db = writer.open();
    let default = db.default_family();
    let slash = PrefixExtractor::Separator { separator: b'/', count: 2 };
    default.set_options(&default.options().prefix_extractor(slash)).unwrap();
    let fixed = small(Compression::None).prefix_extractor(PrefixExtractor::Fixed(6));
    let at = db.create_family("at", fixed.whole_key_filter(false)).unwrap();
    let filtered = small(Compression::Lz4).compaction_filter(Arc::new(Unwanted));
    let now = db.create_family("now", filtered).unwrap();
    for round in 0..3 {
        for number in (round..180).step_by(3) {
            let key = format!("u{:02}/{}/{number:05}", number % 17, number % 3);
            for family in [&default, &at] {
                writer.put(family, key.as_bytes(), &value(number, 24 + number as usize % 40));
            }
            if number % 5 == 0 {
                now.put(&key, "unwanted").unwrap();
            } else {
                writer.put(&now, key.as_bytes(), &value(number, 30));
            }
        }
        writer.put(&at, &[b's', round as u8], b"a key without a prefix");
        db.flush().unwrap();
        db.settle().unwrap();
    }
    now.compact().unwrap();
    for family in [&default, &at, &now] {
        for number in 0..6_u8 {
            writer.put(family, &[b'l', number], b"in the log");
        }
    }
    writer.crash(db, Crash::Kill);
}

/// A key of the history, and what it holds in one version.
fn version_of(number: u64, version: u64) -> (Vec<u8>, Vec<u8>) {
    (format!("row:{number:05}").into_bytes(), value(version * 1000 + number, 25))
}

/// Several versions of all keys, and a floor that was raised above the first.
fn write_history(writer: &mut Writer) {
    let db = writer.open();
    let default = db.default_family();
    let (versions, keys) = VERSIONS;
    for version in 0..versions {
        for number in 0..keys {
            let (key, value) = version_of(number, version);
            writer.put(&default, &key, &value);
        }
        match version {
            0 => {
                db.set_retention_floor(RetentionFloor::Now).unwrap();
            }
            1 => {
                db.set_retention_floor(RetentionFloor::Sequence(2 * keys)).unwrap();
            }
            _ => {}
        }
        if version < versions - 1 {
            db.flush().unwrap();
            db.settle().unwrap();
        }
    }
    writer.crash(db, Crash::Kill);
}

/// Separated values, most of which are replaced, so that those that are left move to another file.
fn write_blobs(writer: &mut Writer) {
    let db = writer.open();
    let options = |compression| {
        let options = small(compression).value_threshold(64).blob_file_bytes(16 << 10);
        options.blob_garbage_percent(40)
    };
    let raw = db.create_family("raw", options(Compression::None)).unwrap();
    let packed = db.create_family("packed", options(Compression::Lz4)).unwrap();
    for round in 0..3 {
        for number in 0..120 {
            let key = format!("row:{number:05}");
            if round == 0 || number % 3 > 0 {
                writer.put(&raw, key.as_bytes(), &value(round * 1000 + number, 150));
            }
            let repeated = vec![round as u8 + number as u8; 200];
            writer.put(&packed, key.as_bytes(), &repeated);
            let short = value(number, 20);
            writer.put(&packed, format!("short:{number:05}").as_bytes(), &short);
        }
        db.flush().unwrap();
    }
    db.compact().unwrap();
    while db.run_job().unwrap() {}
    for number in 0..6 {
        let key = format!("log:{number:05}");
        writer.put(&raw, key.as_bytes(), &value(number, 150));
    }
    assert!(db.stats().blob_files > 1);
}

fn styles() -> [CompactionStrategy; 2] {
    let age_max = Some(Duration::from_secs(100 * 365 * 24 * 60 * 60));
    [
        CompactionStrategy::Tiered { runs_max: 3, space_percent_max: 150 },
        CompactionStrategy::Fifo { bytes_max: 24 << 10, age_max },
    ]
}

/// A tiered family with several runs, and a FIFO family that tables have left.
fn write_styles(writer: &mut Writer) {
    let db = writer.open();
    let [tiered, fifo] = styles();
    let options = small(Compression::Lz4).compaction(tiered);
    // Without compactions for garbage, which would leave one run at rest.
    let options = options.tombstone_percent(40).range_tombstone_percent(20).garbage_percent(101);
    let tiered = db.create_family("tiered", options).unwrap();
    let options = small(Compression::None).compaction(fifo);
    let fifo = db.create_family("fifo", options).unwrap();
    for round in 0..6 {
        for number in 0..150 {
            let key = format!("row:{:05}", (number * 7 + round * 13) % 400).into_bytes();
            writer.put(&tiered, &key, &value(round * 1000 + number, 30));
            let key = format!("page:{:05}", round * 150 + number).into_bytes();
            writer.put(&fifo, &key, &value(round * 1000 + number, 30));
        }
        db.flush().unwrap();
        db.settle().unwrap();
    }
    for number in 0..900_u64 {
        let key = format!("page:{number:05}").into_bytes();
        if fifo.get(&key).unwrap().is_none() {
            writer.holds_no(&fifo, &key);
        }
    }
    for number in 0..8_u8 {
        writer.put(&tiered, &[b'l', number], b"in the log");
        writer.put(&fifo, &[b'l', number], b"in the log");
    }
    assert!(fifo.get("page:00000").unwrap().is_none() && fifo.stats().tables[0] > 3);
    assert!(tiered.stats().tables[1..].iter().filter(|&&tables| tables > 0).count() > 1);
    writer.crash(db, Crash::Kill);
}

/// A merge of level 0 that finds no space for its ninth table, and what is written after it.
fn write_steps(writer: &mut Writer) {
    let db = writer.open();
    let default = db.default_family();
    for round in 0..4 {
        for number in (round..400).step_by(2) {
            let key = format!("row:{number:05}");
            writer.put(&default, key.as_bytes(), &value(round * 1000 + number, 40));
        }
        let (start, end) = (format!("row:{:05}", round * 80), format!("row:{:05}", round * 80 + 9));
        writer.delete_range(&default, start.as_bytes(), end.as_bytes());
        db.flush().unwrap();
    }
    let (kind, span, error) = (Some(CallKind::Create), FaultSpan::FromThenOn, FaultError::NoSpace);
    writer.fs.set_fault(Some(Fault { kind, nth: 9, span, error }));
    assert_eq!(db.settle().unwrap_err().kind(), ErrorKind::NoSpace);
    writer.fs.set_fault(None);
    let stats = db.stats();
    assert!(stats.compaction_steps > 3 && stats.compactions == 0 && stats.table_bytes[0] > 0);
    for number in 0..8_u8 {
        writer.put(&default, &[b'l', number], b"in the log");
    }
    writer.crash(db, Crash::Kill);
}

/// The files that the present code writes as `name`, and their contents once the short-lived
/// entries have expired. Zeros after the last record of a log or manifest are left out; [`lay`]
/// gives logs their length again.
fn written(name: &str) -> (Files, Files, Contents) {
    let mut writer = Writer::new();
    if name == CLONES {
        write_clones(&mut writer);
    } else if name == ORDERS {
        write_orders(&mut writer);
    } else if name == INGESTED {
        write_ingested(&mut writer);
    } else if name == BRANCHES {
        write_branches(&mut writer);
    } else if name == TIERS {
        write_tiers(&mut writer);
    } else if name == HISTORY {
        write_history(&mut writer);
    } else if name == FILTERS {
        write_filters(&mut writer);
    } else if name == BLOBS {
        write_blobs(&mut writer);
    } else if name == STYLES {
        write_styles(&mut writer);
    } else if name == BTREE {
        write_trees(&mut writer);
    } else if name == STEPS {
        write_steps(&mut writer);
    } else {
        fill_tables(&mut writer);
        lose_tail(&mut writer);
        write_every_kind(&mut writer);
    }
    if name == PREPARED {
        leave_prepared(&mut writer);
    }
    let cold = match name {
        TIERS => files_in(&writer.fs, COLD),
        _ => Files::new(),
    };
    (files_in(&writer.fs, DIR), cold, writer.contents)
}

fn files_in(fs: &MemFs, dir: &str) -> Files {
    let list = fs.list(Path::new(dir)).unwrap();
    let files = list.into_iter().map(|entry| {
        let mut bytes = fs.read_all(&Path::new(dir).join(&entry.name)).unwrap();
        if [".log", ".manifest", ".blob"].iter().any(|end| entry.name.ends_with(end)) {
            let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(end.next_multiple_of(8).min(bytes.len()));
        }
        (entry.name, bytes)
    });
    files.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn text_of(contents: &Contents) -> String {
    let line = |((family, key), value): (&(String, Vec<u8>), &Vec<u8>)| {
        format!("{family}\t{}\t{}\n", hex(key), hex(value))
    };
    contents.iter().map(line).collect()
}

fn contents_of(text: &str) -> Contents {
    let bytes = |digits: &str| -> Vec<u8> {
        let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(pair).collect()
    };
    let entry = |line: &str| {
        let fields: Vec<_> = line.split('\t').collect();
        ((fields[0].to_owned(), bytes(fields[1])), bytes(fields[2]))
    };
    text.lines().map(entry).collect()
}

fn files_of(dir: &Path) -> Files {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    files.map(file).collect()
}

/// The file with the expected contents of the database in `dir`.
fn contents_path(dir: &Path) -> PathBuf {
    let mut path = dir.as_os_str().to_owned();
    path.push(".txt");
    path.into()
}

/// Writes a stored file to `dir`. A log is as long there as it can have been when it was synced, or
/// it would be one that was cut.
fn lay(dir: &Path, name: &str, bytes: &[u8]) {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    if name.ends_with(".log") {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(1 << 20).unwrap();
    }
}

/// Copies the stored files of `path` and of its cold directory to `place`; returns the database.
fn copy_stored(path: &Path, place: &Path) -> PathBuf {
    let [dir, cold] = ["db", COLD].map(|name| place.join(name));
    for (from, to) in [(path.to_owned(), &dir), (cold_of(path), &cold)] {
        if from.is_dir() {
            fs::create_dir(to).unwrap();
            files_of(&from).iter().for_each(|(name, bytes)| lay(to, name, bytes));
        }
    }
    dir
}

/// Opens a copy. Its cold directory, if it has one, belongs to the directory that was copied.
fn open_copied(dir: &Path) -> Db {
    if dir.with_file_name(COLD).is_dir() {
        let mut go_on = |_: CopyProgress| ControlFlow::Continue(());
        options().adopt(dir, ColdAdoption::TakesOver, &mut go_on).unwrap();
    }
    options().open(dir).unwrap()
}

/// Where the cold directory of a stored database lies.
fn cold_of(dir: &Path) -> PathBuf {
    let mut path = dir.as_os_str().to_owned();
    path.push(format!(".{COLD}"));
    path.into()
}

/// The stored databases, by name.
fn stored() -> Vec<PathBuf> {
    let entries = fs::read_dir(STORED).unwrap().map(|entry| entry.unwrap().path());
    // Backups are for `golden_backup`, and cold directories belong to databases.
    let is_other = |extension: &str| ["backups", COLD, "unwritable"].contains(&extension);
    let is_database = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        path.is_dir() && !extension.is_some_and(is_other)
    };
    let mut databases: Vec<_> = entries.filter(is_database).collect();
    databases.sort();
    databases
}

/// All pairs of a database, read forwards; the same backwards and by lookups.
fn read(db: &Db) -> Contents {
    let mut contents = Contents::new();
    let mut families: Vec<Family> =
        db.families().iter().map(|name| db.family(name).unwrap()).collect();
    for info in db.branches() {
        let branch = db.branch(&info.name).unwrap();
        families.extend(info.families.iter().map(|name| branch.family(name).unwrap()));
    }
    for family in families {
        let name = label(&family);
        let forwards: Vec<_> = family.iter().unwrap().map(Result::unwrap).collect();
        let mut cursor = family.cursor().unwrap();
        cursor.seek_to_last().unwrap();
        let mut backwards = Vec::new();
        while let Some((key, value)) = cursor.entry() {
            backwards.push((key.to_vec(), value.to_vec()));
            cursor.prev().unwrap();
        }
        backwards.reverse();
        assert_eq!(forwards.len(), backwards.len());
        for ((key, value), backwards) in forwards.iter().zip(&backwards) {
            assert_eq!((key.to_vec(), value.to_vec()), *backwards);
            assert_eq!(family.get(key).unwrap().as_deref(), Some(&value[..]));
            contents.insert((name.clone(), key.to_vec()), value.to_vec());
        }
    }
    contents
}

/// The values of the fields `names` in all lines of a report.
fn words(
    names: [&str; 2],
    report: impl FnOnce(&mut dyn FnMut(Line) -> siltdb::Result<()>) -> siltdb::Result<()>,
) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    report(&mut |line| {
        words.extend(names.into_iter().filter_map(|name| line.field(name)).map(str::to_owned));
        Ok(())
    })
    .unwrap();
    words
}

#[test]
fn a_stored_database_holds_what_it_must_and_is_written_on() {
    assert!(!stored().is_empty());
    for path in stored() {
        let place = tempfile::tempdir().unwrap();
        let dir = copy_stored(&path, place.path());
        let expected = contents_of(&fs::read_to_string(contents_path(&path)).unwrap());
        let report = siltdb::check(&dir, &mut |_| {}).unwrap();
        assert!(report.errors.is_empty() && report.not_verified.is_empty(), "{report:?}");
        assert!(report.tables > 4 && report.log_records > 5, "{report:?}");
        siltdb::upgrade(&dir).unwrap();
        // The database after a read-only opening, after a writing one, and after a complete
        // rewrite.
        let read_only = options().read_only(true).open(&dir).unwrap();
        assert!(read(&read_only) == expected, "{}, only read", path.display());
        drop(read_only);
        let db = open_copied(&dir);
        assert!(read(&db) == expected, "{}", path.display());
        db.put(b"row:99999", b"of today").unwrap();
        db.compact().unwrap();
        db.close().unwrap();
        let db = options().open(&dir).unwrap();
        let mut expected = expected;
        expected.insert(("default".to_owned(), b"row:99999".to_vec()), b"of today".to_vec());
        assert!(read(&db) == expected, "{}, rewritten", path.display());
        assert!(db.check(&mut |_| {}).unwrap().errors.is_empty());
    }
}

#[test]
fn a_stored_database_has_every_kind_of_everything() {
    let dir = Path::new(STORED).join(NEWEST);
    let mut kinds = words(["kind", "item"], |on| inspect::wal(&dir, Detail::Operations, on));
    kinds.extend(words(["kind", "level"], |on| inspect::manifest(&dir, Detail::Operations, on)));
    for name in files_of(&dir).into_keys().filter(|name| name.ends_with(".table")) {
        let path = dir.join(name);
        let names = ["kind", "flags"];
        kinds.extend(words(names, |on| inspect::table(&path, Detail::Operations, on)));
        kinds.extend(words(["item", "index"], |on| inspect::table(&path, Detail::Operations, on)));
    }
    for kind in [
        // Operations.
        "put",
        "put-expiring",
        "delete",
        "single-delete",
        "range-delete",
        "merge",
        // Records.
        "batch",
        "skip",
        "family-batch",
        // Changes.
        "format",
        "create-family",
        "drop-family",
        "rename-family",
        "add-table",
        "remove-table",
        "log-start",
        "log-cut",
        "next-file",
        "next-family",
        "last-sequence",
        "log-synced",
        "latest-time",
        "families-logged",
        // Levels with tables, and the contents of tables.
        "0",
        "5",
        "6",
        "plain",
        "range-tombstone",
        "origin",
        "blocks",
    ] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
}

#[test]
fn a_stored_database_with_prepared_transactions_waits_for_their_decisions() {
    let stored = Path::new(STORED).join(PREPARED);
    let mut kinds = words(["kind", "item"], |on| inspect::wal(&stored, Detail::Operations, on));
    kinds.extend(words(["kind", "id"], |on| inspect::manifest(&stored, Detail::Operations, on)));
    for kind in ["prepare", "decide", "prepared", "decided", "\"flushed\"", "\"gone\""] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    let place = tempfile::tempdir().unwrap();
    for (name, bytes) in files_of(&stored) {
        lay(place.path(), &name, &bytes);
    }
    let ids = |db: &Db| db.prepared().iter().map(|one| one.id().to_vec()).collect::<Vec<_>>();
    assert_eq!(siltdb::check(place.path(), &mut |_| {}).unwrap().prepared, 2);
    let db = options().lock_timeout(Duration::ZERO).open(place.path()).unwrap();
    assert_eq!(ids(&db), [b"flushed", &b"logged"[..]]);
    // What they wrote and what they read is locked.
    for key in ["prepared:flushed", "prepared:logged", "flushed a1", "row:00201", "no such key"] {
        assert_eq!(db.put(key, "").unwrap_err().kind(), ErrorKind::Busy, "{key}");
    }
    db.commit_prepared("flushed").unwrap();
    db.rollback_prepared("logged").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = options().open(place.path()).unwrap();
    assert_eq!(db.get("prepared:flushed").unwrap().unwrap(), b"flushed");
    assert!(!db.contains("prepared:logged").unwrap() && ids(&db).is_empty());
    db.put("row:00201", "").unwrap();
}

#[test]
fn a_stored_clone_has_references_that_hide_what_is_newer() {
    let (mut limits, mut shared) = (0, BTreeMap::new());
    let dir = Path::new(STORED).join(CLONES);
    inspect::manifest(&dir, Detail::Operations, &mut |line| {
        limits += usize::from(line.field("visible_to").is_some());
        if line.field("kind") == Some("add-table") {
            let file = line.field("file").map(str::to_owned);
            *shared.entry(file).or_insert(0) += 1;
        }
        Ok(())
    })
    .unwrap();
    assert!(limits > 0 && shared.values().any(|count| *count > 2), "{limits} of {shared:?}");
}

#[test]
fn stored_families_keep_their_key_orders_and_their_ttl() {
    [ORDERS, OLD_ORDERS].into_iter().for_each(check_orders);
}

fn check_orders(stored: &str) {
    let place = tempfile::tempdir().unwrap();
    for (name, bytes) in files_of(&Path::new(STORED).join(stored)) {
        lay(place.path(), &name, &bytes);
    }
    let db = options().open(place.path()).unwrap();
    for (name, texts) in ORDERED {
        let family = db.family(name).unwrap();
        let order = family.key_order();
        assert_eq!(order, KeyOrder::named(name).unwrap());
        let keys = family.iter().unwrap().keys();
        let keys: Vec<_> = keys.map(|key| order.text_of(&key.unwrap()).unwrap()).collect();
        assert_eq!(keys, texts, "{name}");
    }
    let typed = db.family("u64").unwrap().typed::<u64, String>().unwrap();
    assert_eq!(typed.last().unwrap(), Some((u64::MAX, "in the log".to_owned())));
    // The stored name may be the old one, that of the type is the present one.
    let caseless = db.family("caseless").unwrap().typed::<Caseless, Vec<u8>>().unwrap();
    assert_eq!(caseless.source().key_order().name(), "caseless-ascii");
    assert_eq!(caseless.count(Caseless::spellings("readme")).unwrap(), 2);
    let refused = db.family("u64").unwrap().typed::<i64, String>().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let ttl = db.family("expiring").unwrap().options().get("ttl").unwrap();
    assert_eq!(ttl, format!("{}ms", LATE_MS - WRITTEN_MS));
}

#[test]
fn a_stored_ingest_has_one_sequence_number_in_all_its_families() {
    let mut tables = BTreeMap::<String, BTreeSet<String>>::new();
    let dir = Path::new(STORED).join(INGESTED);
    inspect::manifest(&dir, Detail::Operations, &mut |line| {
        if let Some(sequence) = line.field("global_sequence") {
            let family = line.field("family").unwrap().to_owned();
            tables.entry(sequence.to_owned()).or_default().insert(family);
        }
        Ok(())
    })
    .unwrap();
    // The stream, and the table files.
    let families: Vec<_> = tables.values().map(BTreeSet::len).collect();
    assert_eq!(families, [1, 2], "{tables:?}");
}

#[test]
fn stored_branches_are_whole() {
    let stored = Path::new(STORED).join(BRANCHES);
    let mut kinds =
        words(["kind", "name"], |on| inspect::manifest(&stored, Detail::Operations, on));
    kinds.extend(words(["kind", "item"], |on| inspect::wal(&stored, Detail::Operations, on)));
    for kind in ["branch", "check-out", "family-batch", "\"child\""] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    let place = tempfile::tempdir().unwrap();
    for (name, bytes) in files_of(&stored) {
        lay(place.path(), &name, &bytes);
    }
    let db = options().open(place.path()).unwrap();
    let child = &db.branches()[0];
    assert_eq!((&*child.name, child.is_checked_out), ("child", true));
    assert_eq!(child.parent.as_deref(), Some("feature: ünïcode"));
    assert_eq!(child.families, ["default"]);
    assert_eq!(db.families(), ["default", "plain: ünïcode"]);
    // The bases are where the merges left them.
    let report = db.merge_branch("feature: ünïcode").unwrap();
    assert_eq!((report.written, report.conflicts), (0, 0));
    let into = MergeOptions::new().into_branch("child").on_conflict(OnConflict::Ours);
    let report = db.merge_branch_with("feature: ünïcode", &into).unwrap();
    assert_eq!((report.written, report.conflicts), (10, 6));
    assert!(db.check(&mut |_| {}).unwrap().errors.is_empty());
}

#[test]
fn a_stored_database_in_two_tiers_names_its_cold_tables_and_directory() {
    let dir = Path::new(STORED).join(TIERS);
    let (mut hot, mut cold, mut directories) = (0, 0, 0);
    inspect::manifest(&dir, Detail::Operations, &mut |line| {
        let is_cold = line.field("tier") == Some("cold");
        let is_table = line.field("kind") == Some("add-table");
        (hot, cold) = (hot + u32::from(is_table && !is_cold), cold + u32::from(is_cold));
        directories += u32::from(line.field("kind") == Some("cold-directory"));
        Ok(())
    })
    .unwrap();
    assert!(hot > 5 && cold > 5 && directories > 0, "{hot} hot, {cold} cold, {directories}");
    let place = tempfile::tempdir().unwrap();
    let db = open_copied(&copy_stored(&dir, place.path()));
    assert!(db.stats().cold_tables > 5);
    db.default_family().thaw().unwrap();
    assert_eq!(db.default_family().stats().cold_tables, 0);
}

#[test]
fn a_stored_history_shows_each_version_from_its_floor_on() {
    let place = tempfile::tempdir().unwrap();
    for (name, bytes) in files_of(&Path::new(STORED).join(HISTORY)) {
        lay(place.path(), &name, &bytes);
    }
    let (versions, keys) = VERSIONS;
    for rewritten in [false, true] {
        let db = options().open(place.path()).unwrap();
        if rewritten {
            db.compact().unwrap();
        }
        assert_eq!(db.retention_floor(), Some(2 * keys));
        for version in 1..versions {
            let state = db.snapshot_at((version + 1) * keys).unwrap();
            for number in 0..keys {
                let (key, value) = version_of(number, version);
                assert_eq!(state.get(key).unwrap().as_deref(), Some(&value[..]), "{version}");
            }
        }
        assert_eq!(db.snapshot_at(2 * keys - 1).unwrap_err().kind(), ErrorKind::NotFound);
        db.close().unwrap();
    }
}

#[test]
fn stored_families_have_their_strategies() {
    let place = tempfile::tempdir().unwrap();
    let dir = copy_stored(&Path::new(STORED).join(STYLES), place.path());
    let db = options().open(dir).unwrap();
    let named = |name: &str| db.family(name).unwrap().options();
    let [tiered, fifo] = styles();
    assert_eq!(named("tiered").get("compaction").unwrap(), "tiered:3:150");
    assert_eq!(named("fifo").get("compaction").unwrap(), "fifo:24576:3153600000000ms");
    let expected = small(Compression::Lz4).compaction(tiered);
    let expected = expected.tombstone_percent(40).range_tombstone_percent(20).garbage_percent(101);
    assert_eq!(named("tiered").entries(), expected.entries());
    let expected = small(Compression::None).compaction(fifo);
    assert_eq!(named("fifo").entries(), expected.entries());
}

#[test]
fn a_stored_merge_that_ended_between_steps_shows_the_rest_of_its_inputs() {
    let dir = Path::new(STORED).join(STEPS);
    let fields = ["slice_first", "slice_bytes"];
    let slices = words(fields, |on| inspect::manifest(&dir, Detail::Operations, on));
    assert!(slices.len() > 4, "{slices:?}");
}

#[test]
fn a_stored_database_of_trees_has_tables_of_both_kinds_and_inner_nodes() {
    let dir = Path::new(STORED).join(BTREE);
    let (mut kinds, mut leaves, mut tall) = (BTreeSet::new(), BTreeSet::new(), 0);
    for name in files_of(&dir).into_keys().filter(|name| name.ends_with(".table")) {
        let mut index_frames = 0;
        inspect::table(dir.join(name), Detail::Summary, &mut |line| {
            kinds.extend(line.field("index").map(str::to_owned));
            leaves.extend(line.field("leaves").map(str::to_owned));
            let number = |name| line.field(name).and_then(|text| text.parse::<u64>().ok());
            index_frames = number("index_frames").unwrap_or(index_frames);
            tall += u32::from(number("lowest_nodes").is_some_and(|lowest| lowest < index_frames));
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["blocks", "tree"]);
    assert_eq!(leaves.into_iter().collect::<Vec<_>>(), ["entries", "searchable"]);
    assert!(tall > 0, "no table has more than one node");
}

#[test]
fn stored_filters_tell_of_prefixes_and_a_stored_compaction_filter_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let dir = copy_stored(&Path::new(STORED).join(FILTERS), place.path());
    let error = Options::new().open(&dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"golden\""), "{error}");
    let db = options().open(&dir).unwrap();
    for (name, prefixes) in [("default", ["u03/0/", "u99/0/"]), ("at", ["u03/1/", "u03/9/"])] {
        let family = db.family(name).unwrap();
        let [found, missed] = prefixes.map(|prefix| family.prefix(prefix).unwrap().count());
        assert!(found > 1 && missed == 0, "{name}: {found} and {missed}");
    }
    let stats = db.stats();
    let (checks, skips) = (stats.prefix_filter_checks, stats.prefix_filter_skips);
    assert!(skips > 0 && checks > skips, "{checks} checks, {skips} skips");
    assert_eq!(
        db.family("at").unwrap().get(b"s\x01").unwrap().as_deref().map(<[u8]>::len),
        Some(22)
    );
    let now = db.family("now").unwrap();
    assert_eq!(now.options().compaction_filter_name(), Some("golden"));
    now.put("new", "unwanted").unwrap();
    now.compact().unwrap();
    assert!(!now.contains("new").unwrap());
}

#[test]
fn todays_code_writes_the_newest_stored_databases_byte_by_byte() {
    let names = [
        NEWEST, PREPARED, CLONES, ORDERS, INGESTED, BRANCHES, TIERS, HISTORY, BTREE, BLOBS, STYLES,
        FILTERS, STEPS,
    ];
    names.into_iter().for_each(compare_written);
}

fn compare_written(name: &str) {
    let (files, cold, contents) = written(name);
    let (dir, text) = (Path::new(STORED).join(name), text_of(&contents));
    let text_path = contents_path(&dir);
    if std::env::var_os("GOLDEN").is_some_and(|what| what == "write") {
        for (dir, files) in [(&dir, &files), (&cold_of(&dir), &cold)] {
            let _ = fs::remove_dir_all(dir);
            if !files.is_empty() {
                fs::create_dir_all(dir).unwrap();
            }
            for (name, bytes) in files {
                fs::write(dir.join(name), bytes).unwrap();
            }
        }
        fs::write(&text_path, &text).unwrap();
    }
    let bytes: usize = files.values().map(Vec::len).sum();
    assert!(bytes < 200 << 10, "{bytes} bytes");
    assert!(fs::read_to_string(text_path).unwrap() == text, "what it must hold is another");
    if !cold.is_empty() {
        assert!(files_of(&cold_of(&dir)) == cold, "the cold directory is written otherwise");
    }
    let stored = files_of(&dir);
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    let advice = "a database is not written as it lies in testing/golden.\n\
         1. Do bytes have another meaning or form? A released version must not write what its \
         readers take for something else: give the format a new version or a field a new tag \
         (docs/format.md, Versions), and store a database of it beside this one.\n\
         2. Else the engine chose others of the bytes that the format allows (when it flushes, \
         what it compacts, how it compresses): write it again with\n    \
         GOLDEN=write cargo test -p siltdb-sim --test suite golden::\n\
         and say in the commit why the bytes differ. The old database must pass the other tests \
         of this file first.";
    assert_eq!(names(&files), names(&stored), "{advice}");
    for (name, bytes) in &files {
        let place = bytes.iter().zip(&stored[name]).position(|(new, old)| new != old);
        let place = place.unwrap_or(bytes.len().min(stored[name].len()));
        assert!(*bytes == stored[name], "{name} differs at offset {place}: {advice}");
    }
}
