//! A follower beside a writer: what it shows, what it leaves alone, and what it takes for damage.

use siltdb::{
    Action, Create, Db, Durability, ErrorKind, Event, Family, FamilyOptions, Follower, Isolation,
    MergeOperator, Options, Read, Result, SubscribeOptions, WriteBatch, WriteOptions,
    testing::{Crash, MemFs},
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};
use tempfile::tempdir;

#[path = "follower/copies.rs"]
mod copies;
#[path = "follower/meddling.rs"]
mod meddling;
use meddling::MeddlingFs;

const DIR: &str = "db";

/// Keys and values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

const SLOTS: u64 = 61;
const TWIN: &str = "twin";

/// Adds numbers of eight bytes.
#[derive(Debug)]
struct Sum;

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

impl MergeOperator for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let sum = operands.iter().fold(base.map_or(0, number), |sum, next| sum + number(next));
        Ok(sum.to_be_bytes().to_vec())
    }
}

/// Options under which files come and go all the time.
fn tiny() -> Options {
    let options = Options::new().memtable_bytes(4 << 10).memory_budget(4 << 20);
    options.merge_operator(Arc::new(Sum)).default_family(family_options())
}

fn on(fs: &MemFs) -> Options {
    tiny().workers(0).fs(Arc::new(fs.clone()))
}

fn family_options() -> FamilyOptions {
    let options = FamilyOptions::new().merge_operator(Arc::new(Sum)).table_bytes(8 << 10);
    options.base_level_bytes(16 << 10).level0_runs(2)
}

/// The two families of the history.
fn families(db: &Db) -> [Family; 2] {
    [db.default_family(), db.family_or_create(TWIN, family_options()).unwrap()]
}

fn slot(round: u64) -> [u8; 8] {
    (round % SLOTS).to_be_bytes()
}

/// The commit of a round, which begins at 1: the round in both families, under the name of the
/// counter and of one of many slots, added to a sum, and now and then a range deletion.
fn commit(db: &Db, families: &[Family; 2], round: u64, options: &WriteOptions) {
    let mut batch = WriteBatch::new();
    for family in families {
        if round.is_multiple_of(SLOTS) {
            batch.delete_range(family, 0_u64.to_be_bytes()..SLOTS.to_be_bytes()).unwrap();
        }
        let value = [&round.to_be_bytes()[..], &[7; 56]].concat();
        batch.put(family, slot(round), &value).unwrap();
        batch.put(family, b"counter", round.to_be_bytes()).unwrap();
        batch.merge(family, b"sum", round.to_be_bytes()).unwrap();
    }
    db.write_with(&batch, options).unwrap();
}

/// The contents of a family, once `round` commits were made.
fn expected(round: u64) -> BTreeMap<Vec<u8>, u64> {
    let begin = round - round % SLOTS;
    let mut all: BTreeMap<_, _> =
        (begin.max(1)..=round).map(|round| (slot(round).to_vec(), round)).collect();
    if round > 0 {
        all.insert(b"counter".to_vec(), round);
        all.insert(b"sum".to_vec(), round * (round + 1) / 2);
    }
    all
}

/// Checks that both families show the same prefix of the history. Returns its length.
fn verify(db: &Db) -> u64 {
    let shown = |name: &str| match db.family(name) {
        Ok(family) => family
            .prefix(b"")
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|(key, value)| (key.to_vec(), number(&value[..8])))
            .collect(),
        Err(_) => BTreeMap::new(),
    };
    let all = shown("default");
    let round = all.get(&b"counter"[..]).copied().unwrap_or(0);
    assert_eq!(all, expected(round), "default at {round}");
    assert_eq!(shown(TWIN), all, "twin at {round}");
    // Lookups go another way than iterators.
    let found = db.get(slot(round)).unwrap().map(|value| number(&value[..8]));
    assert_eq!(found, all.get(&slot(round)[..]).copied());
    round
}

#[test]
fn a_state_is_a_database_that_never_changes() {
    let dir = tempdir().unwrap();
    let writer = tiny().open(dir.path()).unwrap();
    let all = families(&writer);
    let plain = WriteOptions::new();
    (1..=10).for_each(|round| commit(&writer, &all, round, &plain));
    let follower = tiny().open_follower(dir.path()).unwrap();
    let early = follower.db();
    assert_eq!(verify(&early), 10);
    assert_eq!(follower.sequence(), writer.snapshot().sequence());
    let snapshot = early.snapshot();
    (11..=400).for_each(|round| commit(&writer, &all, round, &plain));
    writer.compact().unwrap();
    assert_eq!(follower.catch_up().unwrap(), writer.snapshot().sequence());
    assert_eq!(verify(&follower.db()), 400);
    assert_eq!(verify(&early), 10);
    assert_eq!(snapshot.get(b"counter").unwrap().as_deref(), Some(&10_u64.to_be_bytes()[..]));
    let later = follower.db();
    assert_eq!(later.families(), ["default", TWIN]);
    assert!(later.stats().tables.iter().sum::<u64>() > 0);
    assert!(later.check(&mut |_| ()).unwrap().is_clean());
    assert_eq!(later.put(b"k", b"v").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(later.flush().unwrap_err().kind(), ErrorKind::ReadOnly);
    // Closing a state closes that state alone.
    early.clone().close().unwrap();
    assert_eq!(early.get(b"counter").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(verify(&follower.db()), 400);
    writer.close().unwrap();
    assert_eq!(verify(&follower.db()), 400);
}

#[test]
fn every_state_is_a_prefix_while_files_come_and_go() {
    const ROUNDS: u64 = 6000;
    let dir = tempdir().unwrap();
    let writer = tiny().open(dir.path()).unwrap();
    let all = families(&writer);
    let is_done = AtomicBool::new(false);
    let (states, kept) = thread::scope(|scope| {
        let following = scope.spawn(|| {
            let follower = tiny().open_follower(dir.path()).unwrap();
            let (mut states, mut round, mut sequence) = (0_u64, 0, 0);
            let mut kept: Vec<(u64, Db)> = Vec::new();
            loop {
                let is_last = is_done.load(Ordering::Acquire);
                let now = match follower.catch_up() {
                    Ok(now) => now,
                    Err(error) if error.kind() == ErrorKind::Busy => continue,
                    Err(error) => panic!("{error}"),
                };
                assert!(now >= sequence, "{now} after {sequence}");
                let shown = verify(&follower.db());
                assert!(shown >= round, "{shown} after {round}");
                states += u64::from(shown > round);
                (round, sequence) = (shown, now);
                if states % 64 == 1 && kept.last().is_none_or(|(last, _)| *last < shown) {
                    kept.push((shown, follower.db()));
                }
                if is_last {
                    assert_eq!(round, ROUNDS);
                    return (states, kept);
                }
            }
        });
        let plain = WriteOptions::new();
        (1..=ROUNDS).for_each(|round| commit(&writer, &all, round, &plain));
        is_done.store(true, Ordering::Release);
        following.join().unwrap()
    });
    let stats = writer.stats();
    assert!(states >= 20 && kept.len() > 1, "{states} states, {} kept", kept.len());
    assert!(stats.flushes >= 100 && stats.compactions > 0, "{stats:?}");
    // Their files are gone, or used again for other segments.
    kept.iter().for_each(|(round, db)| assert_eq!(verify(db), *round));
}

/// The files of a directory with what is in them and when they were changed.
fn picture(dir: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let changed = entry.metadata().unwrap().modified().unwrap();
            (name, (std::fs::read(entry.path()).unwrap(), changed))
        })
        .collect()
}

#[test]
fn following_writes_no_byte() {
    let dir = tempdir().unwrap();
    // Without threads, so that the writer writes nothing meanwhile either.
    let writer = tiny().workers(0).open(dir.path()).unwrap();
    let all = families(&writer);
    (1..=200).for_each(|round| commit(&writer, &all, round, &WriteOptions::new()));
    writer.settle().unwrap();
    let before = picture(dir.path());
    let follower = Db::open_follower(dir.path()).unwrap();
    follower.catch_up().unwrap();
    assert!(!follower.wait_for(u64::MAX, Duration::from_millis(5)).unwrap());
    assert!(follower.db().check(&mut |_| ()).unwrap().is_clean());
    drop(follower);
    assert!(picture(dir.path()) == before);
}

#[test]
fn following_makes_no_call_that_changes_anything_and_takes_no_lock() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    let all = families(&writer);
    let changes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&changes);
    let plain = WriteOptions::new();
    (1..=300).for_each(|round| commit(&writer, &all, round, &plain));
    let observer: Arc<dyn Fn(siltdb::testing::Call<'_>) + Send + Sync> = Arc::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    fs.on_call(Some(Arc::clone(&observer) as _));
    let follower = on(&fs).open_follower(DIR).unwrap();
    assert_eq!(verify(&follower.db()), 300);
    fs.on_call(None);
    commit(&writer, &all, 301, &plain);
    fs.on_call(Some(Arc::clone(&observer) as _));
    follower.catch_up().unwrap();
    assert_eq!(verify(&follower.db()), 301);
    drop(follower);
    assert_eq!(changes.load(Ordering::Relaxed), 0);
    // A writer makes such calls, or the count says nothing.
    commit(&writer, &all, 302, &plain);
    assert!(changes.load(Ordering::Relaxed) > 0);
}

/// The writer ingests between the follower's look at the manifest and its look at the log.
#[test]
fn an_ingest_behind_the_manifest_is_shown_with_what_came_after_it() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    writer.put("a", "old").unwrap();
    let is_due = Arc::new(AtomicBool::new(false));
    let (due, meddler) = (Arc::clone(&is_due), writer.clone());
    let meddle = move |path: &Path| {
        // The log files are listed once the manifest is read.
        if path == Path::new("") && due.swap(false, Ordering::Relaxed) {
            meddler.default_family().ingest_sorted([("b", "new"), ("c", "new")]).unwrap();
            meddler.put("d", "later").unwrap();
        }
    };
    let meddling = MeddlingFs::new(Arc::new(fs.clone()), Arc::new(meddle));
    let follower = tiny().workers(0).fs(Arc::new(meddling)).open_follower(DIR).unwrap();
    is_due.store(true, Ordering::Relaxed);
    let sequence = follower.catch_up().unwrap();
    assert!(!is_due.load(Ordering::Relaxed));
    assert_eq!(sequence, writer.snapshot().sequence());
    let keys: Vec<_> = follower.db().iter().unwrap().map(|pair| pair.unwrap().0.to_vec()).collect();
    assert_eq!(keys, [b"a", b"b", b"c", b"d"]);
}

#[test]
fn families_come_and_go() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    let follower = on(&fs).open_follower(DIR).unwrap();
    let names = || {
        follower.catch_up().unwrap();
        follower.db().families()
    };
    let made = writer.create_family("made", FamilyOptions::new()).unwrap();
    made.put(b"k", b"made").unwrap();
    assert_eq!(names(), ["default", "made"]);
    // With data, in one commit.
    let drawn = writer.prepare_family("drawn", FamilyOptions::new()).unwrap();
    let mut batch = WriteBatch::new();
    batch.create_family(&drawn).unwrap();
    batch.put(&drawn, b"k", b"drawn").unwrap();
    batch.drop_family(&made).unwrap();
    let before = follower.db();
    writer.write(&batch).unwrap();
    assert_eq!(names(), ["default", "drawn"]);
    let db = follower.db();
    assert_eq!(db.family("drawn").unwrap().get(b"k").unwrap().as_deref(), Some(&b"drawn"[..]));
    // An earlier state keeps what was dropped since.
    assert_eq!(before.families(), ["default", "made"]);
    assert_eq!(before.family("made").unwrap().get(b"k").unwrap().as_deref(), Some(&b"made"[..]));
    writer.rename_family("drawn", "renamed").unwrap();
    assert_eq!(names(), ["default", "renamed"]);
    assert_eq!(db.families(), ["default", "drawn"]);
    writer.flush().unwrap();
    writer.drop_family("renamed").unwrap();
    let again = writer.create_family("renamed", FamilyOptions::new()).unwrap();
    again.put(b"new", b"1").unwrap();
    assert_eq!(names(), ["default", "renamed"]);
    let family = follower.db().family("renamed").unwrap();
    assert_eq!((family.get(b"k").unwrap(), family.count(..).unwrap()), (None, 1));
}

#[test]
fn a_follower_outlives_writers() {
    let fs = MemFs::new();
    let mut round = 0;
    on(&fs).open(DIR).unwrap().close().unwrap();
    let follower = on(&fs).open_follower(DIR).unwrap();
    for life in 0..12_u64 {
        let writer = on(&fs).create(Create::Never).open(DIR).unwrap();
        let all = families(&writer);
        for _ in 0..life * 5 {
            round += 1;
            commit(&writer, &all, round, &WriteOptions::new());
            if round % 7 == 0 {
                follower.catch_up().unwrap();
                assert_eq!(verify(&follower.db()), round);
            }
        }
        if life % 3 == 0 {
            writer.flush().unwrap();
        }
        drop(all);
        writer.close().unwrap();
        follower.catch_up().unwrap();
        assert_eq!(verify(&follower.db()), round, "life {life}");
    }
}

/// A follower of each state that a crash of the writer leaves, before its recovery and after it.
#[test]
fn a_crash_of_the_writer_shows_a_prefix_and_is_no_damage() {
    let fs = MemFs::new();
    let clones = Arc::new(std::sync::Mutex::new(Vec::new()));
    let writer = on(&fs).open(DIR).unwrap();
    let all = families(&writer);
    let synced = WriteOptions::new().durability(Durability::Synced);
    (1..=30).for_each(|round| commit(&writer, &all, round, &synced));
    let (taken, origin) = (Arc::clone(&clones), fs.clone());
    let calls = AtomicUsize::new(0);
    fs.on_call(Some(Arc::new(move |_| {
        let call = calls.fetch_add(1, Ordering::Relaxed) as u64;
        let crash =
            if call.is_multiple_of(2) { Crash::Kill } else { Crash::PowerLoss { seed: call } };
        taken.lock().unwrap().push(origin.crash_clone(crash));
    })));
    for round in 31..=120 {
        let plain = WriteOptions::new();
        commit(&writer, &all, round, if round % 5 == 0 { &synced } else { &plain });
    }
    writer.compact().unwrap();
    fs.on_call(None);
    let clones = std::mem::take(&mut *clones.lock().unwrap());
    assert!(clones.len() > 200, "{} crashes", clones.len());
    let mut shown = Vec::new();
    for (index, crashed) in clones.iter().enumerate() {
        let follower = on(crashed).open_follower(DIR).unwrap();
        let round = verify(&follower.db());
        assert!((30..=120).contains(&round), "crash {index}: {round}");
        shown.push(round);
        // The next writer recovers, and goes on where the follower stands.
        let next = on(crashed).open(DIR).unwrap();
        follower.catch_up().unwrap_or_else(|error| panic!("crash {index}: {error}"));
        assert_eq!(verify(&follower.db()), round, "crash {index}");
        commit(&next, &families(&next), round + 1, &WriteOptions::new());
        follower.catch_up().unwrap();
        assert_eq!(verify(&follower.db()), round + 1, "crash {index}");
    }
    shown.dedup();
    assert!(shown.len() > 40, "{} different prefixes", shown.len());
}

/// Each time that the follower opens a file, the writer first removes or reuses what it can.
#[test]
fn files_that_vanish_while_they_are_read_are_no_damage() {
    for kind in ["table", "log", "manifest", "CURRENT"] {
        let fs = MemFs::new();
        let writer = on(&fs).open(DIR).unwrap();
        let all = families(&writer);
        let plain = WriteOptions::new();
        (1..=200).for_each(|round| commit(&writer, &all, round, &plain));
        let meddled = Arc::new(AtomicUsize::new(0));
        let (count, meddler) = (Arc::clone(&meddled), writer.clone());
        let meddle = move |path: &Path| {
            let is_meant = path.to_string_lossy().ends_with(kind);
            let turn = count.load(Ordering::Relaxed) as u64;
            if !is_meant || turn >= 40 {
                return;
            }
            count.fetch_add(1, Ordering::Relaxed);
            let all = families(&meddler);
            for round in 201 + turn * 40..241 + turn * 40 {
                commit(&meddler, &all, round, &WriteOptions::new());
            }
            meddler.compact().unwrap();
            meddler.settle().unwrap();
        };
        let meddling = MeddlingFs::new(Arc::new(fs.clone()), Arc::new(meddle));
        let options = || tiny().workers(0).fs(Arc::new(meddling.clone()));
        let open = || loop {
            match options().open_follower(DIR) {
                Err(error) if error.kind() == ErrorKind::Busy => {}
                follower => return follower.unwrap(),
            }
        };
        let follower = open();
        let mut round = verify(&follower.db());
        for _ in 0..60 {
            match follower.catch_up() {
                Err(error) if error.kind() == ErrorKind::Busy => continue,
                caught_up => caught_up.unwrap(),
            };
            let shown = verify(&follower.db());
            assert!(shown >= round, "{kind}: {shown} after {round}");
            round = shown;
        }
        assert_eq!(meddled.load(Ordering::Relaxed), 40, "{kind}");
        assert_eq!(round, 200 + 40 * 40, "{kind}");
    }
}

/// A follower of a database in which `change` happens once: after its manifest was read, and before
/// its log is.
fn follow_beside(fs: &MemFs, change: impl Fn() + Send + Sync + 'static) -> Follower {
    let is_done = AtomicBool::new(false);
    let meddle = move |path: &Path| {
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        if is_log && !is_done.swap(true, Ordering::Relaxed) {
            change();
        }
    };
    let meddling = MeddlingFs::new(Arc::new(fs.clone()), Arc::new(meddle));
    tiny().workers(0).fs(Arc::new(meddling)).open_follower(DIR).unwrap()
}

/// The commits are neither in the tables of the manifest that was read nor in the log any more.
#[test]
fn commits_that_leave_the_log_between_manifest_and_log_are_shown() {
    for is_reused in [false, true] {
        let fs = MemFs::new();
        let writer = on(&fs).open(DIR).unwrap();
        let all = families(&writer);
        (1..=5).for_each(|round| commit(&writer, &all, round, &WriteOptions::new()));
        let meddler = writer.clone();
        let follower = follow_beside(&fs, move || {
            meddler.flush().unwrap();
            meddler.settle().unwrap();
            if is_reused {
                let all = families(&meddler);
                (6..=60).for_each(|round| commit(&meddler, &all, round, &WriteOptions::new()));
                meddler.flush().unwrap();
                meddler.settle().unwrap();
                commit(&meddler, &all, 61, &WriteOptions::new());
            }
        });
        assert_eq!(verify(&follower.db()), if is_reused { 61 } else { 5 });
        assert_eq!(follower.sequence(), writer.snapshot().sequence());
    }
}

#[test]
fn a_batch_is_whole_although_its_family_is_newer_than_the_manifest() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    writer.put(b"k", b"before").unwrap();
    let follower = follow_beside(&fs, move || {
        let late = writer.create_family("late", family_options()).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&writer.default_family(), b"k", b"after").unwrap();
        batch.put(&late, b"k", b"after").unwrap();
        writer.write(&batch).unwrap();
    });
    let db = follower.db();
    let late = db.family("late").unwrap().get(b"k").unwrap();
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"after"[..]));
    assert_eq!(late.as_deref(), Some(&b"after"[..]));
}

/// The log begins anew, behind commits that only a later manifest has.
#[test]
fn a_log_that_begins_behind_the_manifest_is_not_read_for_it() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    (1..=3).for_each(|round| commit(&writer, &families(&writer), round, &WriteOptions::new()));
    let (disk, writer) = (fs.clone(), std::sync::Mutex::new(writer));
    let follower = follow_beside(&fs, move || {
        let mut writer = writer.lock().unwrap();
        writer.flush().unwrap();
        writer.clone().close().unwrap();
        *writer = on(&disk).open(DIR).unwrap();
        commit(&writer, &families(&writer), 4, &WriteOptions::new());
    });
    verify(&follower.db());
    follower.catch_up().unwrap();
    assert_eq!(verify(&follower.db()), 4);
}

#[test]
fn damage_is_damage_if_it_stays() {
    let damaged = |damage: &dyn Fn(&MemFs)| {
        let fs = MemFs::new();
        let writer = on(&fs).open(DIR).unwrap();
        let all = families(&writer);
        let synced = WriteOptions::new().durability(Durability::Synced);
        (1..=3).for_each(|round| commit(&writer, &all, round, &synced));
        writer.flush().unwrap();
        (4..=9).for_each(|round| commit(&writer, &all, round, &synced));
        let fs = fs.crash_clone(Crash::Kill);
        let follower = on(&fs).open_follower(DIR).unwrap();
        assert_eq!(verify(&follower.db()), 9);
        damage(&fs);
        on(&fs).open_follower(DIR).unwrap_err()
    };
    let files = |fs: &MemFs, end: &str| -> Vec<std::path::PathBuf> {
        use siltdb::testing::Fs;
        let entries = fs.list(Path::new(DIR)).unwrap();
        let named = entries.into_iter().filter(|entry| entry.name.ends_with(end));
        named.map(|entry| Path::new(DIR).join(entry.name)).collect()
    };
    let log = damaged(&|fs| {
        for path in files(fs, ".log") {
            // In the first records of each segment.
            let _ = fs.bytes_flip(&path, 64 + 200, 1);
        }
    });
    assert_eq!(log.kind(), ErrorKind::Corruption, "{log}");
    assert!(log.file().is_some() && log.offset().is_some(), "{log}");
    let table = damaged(&|fs| {
        use siltdb::testing::Fs;
        files(fs, ".table").iter().for_each(|path| fs.remove(path).unwrap());
    });
    assert_eq!(table.kind(), ErrorKind::Corruption, "{table}");
    assert!(table.to_string().contains(".table"), "{table}");
    let manifest = damaged(&|fs| {
        files(fs, ".manifest").iter().for_each(|path| fs.bytes_flip(path, 100, 1).unwrap());
    });
    assert_eq!(manifest.kind(), ErrorKind::Corruption, "{manifest}");
}

#[test]
fn a_follower_of_nothing_is_refused_and_makes_nothing() {
    let dir = tempdir().unwrap();
    for path in [dir.path().join("none"), dir.path().to_owned()] {
        assert_eq!(Db::open_follower(&path).unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_removed_or_replaced_database_is_noticed() {
    let dir = tempdir().unwrap();
    let writer = tiny().open(dir.path()).unwrap();
    let all = families(&writer);
    (1..=50).for_each(|round| commit(&writer, &all, round, &WriteOptions::new()));
    let follower = tiny().open_follower(dir.path()).unwrap();
    drop(all);
    writer.close().unwrap();
    // Something else keeps the directory.
    std::fs::write(dir.path().join("note"), b"").unwrap();
    Db::destroy(dir.path()).unwrap();
    assert_eq!(follower.catch_up().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(verify(&follower.db()), 50);
    std::fs::remove_file(dir.path().join("note")).unwrap();
    let other = tiny().open(dir.path()).unwrap();
    other.put(b"k", b"v").unwrap();
    let error = follower.catch_up().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    // It stays so: what it has read is of two databases.
    (0..500).for_each(|_| other.put(b"k", b"v").unwrap());
    assert_eq!(follower.catch_up().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(verify(&follower.db()), 50);
}

/// The files of `from` take the place of those of `to`.
fn replace_files(to: &MemFs, from: &MemFs) {
    use siltdb::testing::Fs;
    let dir = Path::new(DIR);
    for entry in to.list(dir).unwrap() {
        to.remove(&dir.join(entry.name)).unwrap();
    }
    for entry in from.list(dir).unwrap() {
        let path = dir.join(entry.name);
        to.write_all(&path, &from.read_all(&path).unwrap()).unwrap();
    }
}

/// As after a sync that failed: the process that recovers does not find what was shown.
#[test]
fn commits_that_are_lost_after_they_were_shown_end_the_follower() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..40 {
        let fs = MemFs::new();
        let writer = on(&fs).open(DIR).unwrap();
        let all = families(&writer);
        let synced = WriteOptions::new().durability(Durability::Synced);
        (1..=5).for_each(|round| commit(&writer, &all, round, &synced));
        (6..=12).for_each(|round| commit(&writer, &all, round, &WriteOptions::new()));
        let follower = on(&fs).open_follower(DIR).unwrap();
        assert_eq!(verify(&follower.db()), 12);
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        drop((all, writer));
        replace_files(&fs, &after);
        let next = on(&fs).open(DIR).unwrap();
        let left = verify(&next);
        commit(&next, &families(&next), left + 1, &WriteOptions::new());
        if seed % 2 == 0 {
            // The log that says so is gone.
            next.flush().unwrap();
        }
        if left == 12 {
            follower.catch_up().unwrap();
            assert_eq!(verify(&follower.db()), 13, "seed {seed}");
            kept += 1;
        } else if seed % 2 == 1 || next.snapshot().sequence() < follower.sequence() {
            for _ in 0..2 {
                let error = follower.catch_up().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Poisoned, "seed {seed}, {left} left: {error}");
                assert_eq!(verify(&follower.db()), 12);
            }
            lost += 1;
        }
    }
    assert!(lost > 5, "{lost} lost, {kept} kept");
}

#[test]
fn clones_and_decided_transactions_show_and_undecided_ones_are_listed() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    let all = families(&writer);
    let plain = WriteOptions::new();
    (1..=100).for_each(|round| commit(&writer, &all, round, &plain));
    let follower = on(&fs).open_follower(DIR).unwrap();
    writer.clone_family(&all[1], "clone").unwrap();
    (101..=300).for_each(|round| commit(&writer, &all, round, &plain));
    let [kept, decided] = [b"kept", b"done"].map(|id| {
        let transaction = writer.begin(Isolation::Serializable);
        transaction.put(id, id).unwrap();
        transaction.prepare(id).unwrap();
        id
    });
    follower.catch_up().unwrap();
    let ids = |db: &Db| db.prepared().into_iter().map(|one| one.id().to_vec()).collect::<Vec<_>>();
    let mut both = ids(&follower.db());
    both.sort();
    assert_eq!(both, [decided.to_vec(), kept.to_vec()]);
    assert_eq!(verify(&follower.db()), 300);
    writer.commit_prepared(decided).unwrap();
    for _ in 0..2 {
        follower.catch_up().unwrap();
        let db = follower.db();
        assert_eq!(ids(&db), [kept.to_vec()]);
        assert_eq!(db.get(decided).unwrap().as_deref(), Some(&decided[..]));
        assert_eq!(db.get(kept).unwrap(), None);
        let clone = db.family("clone").unwrap();
        assert_eq!(clone.get(b"counter").unwrap().as_deref(), Some(&100_u64.to_be_bytes()[..]));
        // What the log said is in the manifest and in tables after this.
        writer.flush().unwrap();
    }
}

/// All that a database shows: its families, and what waits for its decision.
fn shown(db: &Db) -> (BTreeMap<String, Pairs>, Vec<Vec<u8>>) {
    let pairs = |name: &String| -> Pairs {
        let entries = db.family(name).unwrap().prefix(b"").unwrap().map(|entry| entry.unwrap());
        entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    };
    let families = db.families().into_iter().map(|name| (name.clone(), pairs(&name))).collect();
    (families, db.prepared().iter().map(|one| one.id().to_vec()).collect())
}

/// A family, and a transaction that waits for its decision, of those that there are.
fn pick(db: &Db, random: &mut impl FnMut(usize) -> usize) -> (Family, Option<Vec<u8>>) {
    let (names, waiting) = (db.families(), db.prepared());
    let family = db.family(&names[random(names.len())]).unwrap();
    let index = random(waiting.len().max(1));
    (family, waiting.get(index).map(|one| one.id().to_vec()))
}

#[test]
fn a_follower_shows_what_its_writer_has_whatever_comes_together() {
    let mut undecided = 0;
    for seed in 0..8_u64 {
        let fs = MemFs::new();
        let mut state = seed;
        let mut random = |end: usize| {
            let product = state.wrapping_mul(6_364_136_223_846_793_005);
            state = product.wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % end
        };
        let open = || on(&fs).retain_log_bytes((seed % 2) << 14).open(DIR).unwrap();
        let mut writer = open();
        let follower = on(&fs).open_follower(DIR).unwrap();
        for step in 0..300 {
            let (family, waiting) = pick(&writer, &mut random);
            match (random(16), waiting) {
                (0..3, _) => {
                    let transaction = writer.begin(Isolation::Snapshot);
                    let key = format!("prepared {step}");
                    transaction.put(&key, b"default").unwrap();
                    transaction.family(&family).unwrap().put(&key, b"family").unwrap();
                    transaction.prepare(format!("{step:03}")).unwrap();
                }
                (3 | 4, Some(id)) => drop(writer.commit_prepared(id).unwrap()),
                (5, Some(id)) => writer.rollback_prepared(id).unwrap(),
                (6, _) => drop(writer.clone_family(&family, &format!("clone {step}")).unwrap()),
                (7, _) if family.name() != "default" => writer.drop_family(&family.name()).unwrap(),
                (8, _) => writer.flush().unwrap(),
                (9, _) => drop(writer.run_job().unwrap()),
                (10, _) if step % 4 == 0 => {
                    writer.close().unwrap();
                    writer = open();
                }
                (11, _) => {
                    let found = follower.catch_up().unwrap();
                    assert_eq!(found, writer.snapshot().sequence(), "seed {seed}, step {step}");
                    assert_eq!(shown(&follower.db()), shown(&writer), "seed {seed}, step {step}");
                    for copy in copies::both(&fs, &follower, &format!("{seed} {step}")) {
                        assert_eq!(shown(&copy), shown(&writer), "seed {seed}, step {step}");
                    }
                    undecided += writer.prepared().len();
                }
                (number, _) => {
                    for key in 0..20 {
                        family.put(format!("key {key}"), [number as u8; 50]).unwrap();
                    }
                }
            }
        }
        let fresh = on(&fs).open_follower(DIR).unwrap();
        follower.catch_up().unwrap();
        for follower in [&follower, &fresh] {
            assert_eq!(shown(&follower.db()), shown(&writer), "seed {seed}");
        }
    }
    assert!(undecided > 100, "{undecided}");
}

#[test]
fn volatile_commits_show_with_the_flush() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    let follower = on(&fs).open_follower(DIR).unwrap();
    let volatile = WriteOptions::new().durability(Durability::Volatile);
    let all = families(&writer);
    commit(&writer, &all, 1, &volatile);
    follower.catch_up().unwrap();
    assert_eq!(verify(&follower.db()), 0);
    writer.flush().unwrap();
    follower.catch_up().unwrap();
    assert_eq!(verify(&follower.db()), 1);
}

#[test]
fn waiting_ends_with_the_commit_or_with_the_time() {
    let dir = tempdir().unwrap();
    let writer = tiny().open(dir.path()).unwrap();
    let follower = tiny().open_follower(dir.path()).unwrap();
    let begun = Instant::now();
    let next = writer.snapshot().sequence() + 1;
    assert!(!follower.wait_for(next, Duration::from_millis(30)).unwrap());
    assert!(begun.elapsed() >= Duration::from_millis(30));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| follower.wait_for(next, Duration::from_secs(60)).unwrap());
        thread::sleep(Duration::from_millis(20));
        let transaction = writer.begin(Isolation::Serializable);
        transaction.put(b"k", b"v").unwrap();
        assert_eq!(transaction.commit().unwrap().sequence, next);
        assert!(waiting.join().unwrap());
    });
    assert_eq!(follower.db().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

/// What a subscription tells until `count` rounds were seen: the rounds of its commits in order.
fn rounds_told(follower: &Follower, options: &SubscribeOptions, count: u64) -> (Vec<u64>, u64) {
    let mut subscription = follower.subscribe(options).unwrap();
    let (mut rounds, mut unlogged, mut next) = (Vec::new(), 0, None);
    while rounds.last().is_none_or(|round| *round < count) {
        let event = subscription.next_within(Duration::from_secs(60)).unwrap();
        let (first, last) = match event.expect("a commit comes in time") {
            Event::Commit(commit) => {
                let is_counter = |action| match action {
                    Action::Put(value) => Some(number(value)),
                    _ => None,
                };
                let changes = commit.changes().filter(|change| change.operation.key == b"counter");
                let seen: Vec<_> =
                    changes.filter_map(|change| is_counter(change.operation.action)).collect();
                assert!(seen.is_empty() || seen.len() == 2 && seen[0] == seen[1], "{seen:?}");
                rounds.extend(seen.first());
                (commit.first, commit.last)
            }
            Event::Unlogged(range) => {
                unlogged += range.end() - range.start() + 1;
                (*range.start(), *range.end())
            }
            other => panic!("{other:?}"),
        };
        assert!(next.is_none_or(|next| next == first), "{first} after {next:?}");
        next = Some(last + 1);
    }
    (rounds, unlogged)
}

#[test]
fn a_subscription_has_every_commit_once_or_says_what_the_log_lacks() {
    const ROUNDS: u64 = 3000;
    let dir = tempdir().unwrap();
    let writer = tiny().open(dir.path()).unwrap();
    let all = families(&writer);
    let follower = tiny().open_follower(dir.path()).unwrap();
    thread::scope(|scope| {
        let told =
            scope.spawn(|| rounds_told(&follower, &SubscribeOptions::new().from_oldest(), ROUNDS));
        (1..=ROUNDS).for_each(|round| commit(&writer, &all, round, &WriteOptions::new()));
        let (rounds, unlogged) = told.join().unwrap();
        assert!(rounds.is_sorted_by(|a, b| a < b));
        assert!(rounds.len() as u64 == ROUNDS || unlogged > 0, "{} told", rounds.len());
    });
    // So that no worker flushes the next commit and frees its log.
    writer.flush().unwrap();
    follower.catch_up().unwrap();
    let now = follower.sequence();
    assert_eq!(now, writer.snapshot().sequence());
    commit(&writer, &all, ROUNDS + 1, &WriteOptions::new());
    for options in [SubscribeOptions::new().from(now + 1), SubscribeOptions::new()] {
        let (rounds, unlogged) = rounds_told(&follower, &options, ROUNDS + 1);
        assert_eq!((rounds, unlogged), (vec![ROUNDS + 1], 0));
    }
    let options = SubscribeOptions::new().from(1);
    assert_eq!(follower.subscribe(&options).unwrap_err().kind(), ErrorKind::NotFound);
    let options = SubscribeOptions::new().from(now + 1000);
    assert_eq!(follower.subscribe(&options).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// How far a follower lags behind a writer of 100,000 puts a second, on a machine that does other
/// things as well. `silt-bench upkeep --rows copies/follower-lag` measures it.
#[test]
fn the_lag_behind_a_hundred_thousand_puts_a_second_is_bounded() {
    const PUTS_PER_MS: u64 = 100;
    const BAR_US: u64 = 5_000_000;
    const MS: u64 = 1000;
    let dir = tempdir().unwrap();
    let writer = Db::open(dir.path()).unwrap();
    let begun = Instant::now();
    let now_us = || begun.elapsed().as_micros() as u64;
    let put = |number: u64| {
        writer.put((number % 1_000_000).to_be_bytes(), [7; 100]).unwrap();
        writer.put(b"newest", now_us().to_be_bytes()).unwrap();
    };
    put(0);
    let follower = Db::open_follower(dir.path()).unwrap();
    let is_done = AtomicBool::new(false);
    let mut lags_us = thread::scope(|scope| {
        let following = scope.spawn(|| {
            let mut lags_us = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                follower.catch_up().unwrap();
                let newest = follower.db().get(b"newest").unwrap().unwrap();
                lags_us.push(now_us() - number(&newest));
                thread::sleep(Duration::from_millis(1));
            }
            lags_us
        });
        for ms in 0..MS {
            let due = begun + Duration::from_millis(ms);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            (0..PUTS_PER_MS / 2).for_each(|index| put(ms * PUTS_PER_MS / 2 + index));
        }
        is_done.store(true, Ordering::Relaxed);
        following.join().unwrap()
    });
    lags_us.sort_unstable();
    let p99_us = lags_us[(lags_us.len() - 1) * 99 / 100];
    assert!(p99_us < BAR_US, "{p99_us} µs");
}
