//! Real threads over one database: what they read while others write, and what a crash in the
//! middle leaves.
//!
//! A seed decides what each thread does, and the machine decides how they interleave. The checks
//! hold in every interleaving. `STRESS_SEED` sets another seed.
//!
//! Writer `w` makes its commit `n` in one batch over two families:
//!
//! | family | key | what the commit does to it |
//! |---|---|---|
//! | both | `count:w` | sets it to `n` |
//! | both | `shared` | adds 1: it is the sum of all counts |
//! | left | `log:w:n` | sets it; now and then all but the last few of them are deleted |
//! | left | `seen:w` | sets it to the commits of each writer known to be acknowledged before |
//! | right | `ring:w:i` | sets it to `n`, for `n` modulo the length of the ring |
//!
//! So the counts determine all other pairs. A state of whole commits, each after those that it has
//! seen, differs from every other state (laws V1, V8, V13, A1 to A5, O3).

use siltdb::{Db, Durability, Family, FamilyOptions, Options, Read, WriteBatch, WriteOptions};
use siltdb_base::fs::mem::{Crash, MemFs};
use siltdb_sim::{draw::Draw, operator::Operator};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

const WRITERS: usize = 4;
const READERS: usize = 2;

/// Commits of each writer.
const COMMITS: u64 = 700;

/// A writer keeps this many entries of its log when it deletes older ones.
const KEPT: u64 = 48;

/// A writer deletes old entries of its log after this many commits.
const TRIMMED: u64 = 32;

/// Entries of a ring.
const RING: u64 = 8;

/// Commits by writer.
type Counts = [u64; WRITERS];

/// The pairs of a family.
type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn family_options() -> FamilyOptions {
    FamilyOptions::new()
        .block_bytes(1 << 10)
        .table_bytes(16 << 10)
        .base_level_bytes(32 << 10)
        .level0_runs(2)
        .merge_operator(Arc::new(Operator::Add))
}

/// Small memtables, so that a generation ends every few dozen commits.
fn options(workers: usize) -> Options {
    Options::new()
        .workers(workers)
        .memtable_bytes(16 << 10)
        .memory_budget(4 << 20)
        .default_family(family_options())
}

/// A database with the two families.
#[derive(Clone)]
struct Database {
    db: Db,
    left: Family,
    right: Family,
}

impl Database {
    fn open(options: Options, path: &Path) -> siltdb::Result<Self> {
        let db = options.open(path)?;
        let right = match db.family("right") {
            Ok(right) => right,
            Err(_) => db.create_family("right", family_options())?,
        };
        Ok(Self { left: db.default_family(), right, db })
    }

    fn commit(
        &self,
        writer: usize,
        number: u64,
        seen: Counts,
        durability: Durability,
    ) -> siltdb::Result<()> {
        let Self { db, left, right } = self;
        let mut batch = WriteBatch::new();
        let (count, one) = (number.to_le_bytes(), 1u64.to_le_bytes());
        batch.put(left, count_key(writer), count)?;
        batch.merge(left, b"shared", one)?;
        batch.put(left, log_key(writer, number), log_value(writer, number))?;
        if log_start(number) > log_start(number - 1) {
            batch.delete_range(left, log_key(writer, 0)..log_key(writer, log_start(number)))?;
        }
        batch.put(left, seen_key(writer), seen.map(u64::to_le_bytes).concat())?;
        batch.merge(right, b"shared", one)?;
        batch.put(right, ring_key(writer, number), count)?;
        batch.put(right, count_key(writer), count)?;
        db.write_with(&batch, &WriteOptions::new().durability(durability))
    }

    /// The commits present now, after a comparison of everything at one moment.
    fn look(&self, draw: &mut Draw) -> siltdb::Result<Counts> {
        look(&self.db.snapshot(), self, draw)
    }
}

fn count_key(writer: usize) -> String {
    format!("count:{writer}")
}

fn seen_key(writer: usize) -> String {
    format!("seen:{writer}")
}

fn log_key(writer: usize, number: u64) -> String {
    format!("log:{writer}:{number:08}")
}

fn ring_key(writer: usize, number: u64) -> String {
    format!("ring:{writer}:{}", number % RING)
}

fn log_value(writer: usize, number: u64) -> Vec<u8> {
    let mut draw = Draw::new(number, writer as u64);
    let len = draw.below(200) as usize;
    draw.bytes(len)
}

/// The first entry in the log of a writer that has made `count` commits.
fn log_start(count: u64) -> u64 {
    (count - count % TRIMMED).saturating_sub(KEPT).max(1)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("counts have eight bytes"))
}

/// All pairs of a family, read in one of five ways.
fn collect(source: &impl Read, draw: &mut Draw) -> siltdb::Result<Pairs> {
    let owned = |(key, value): (siltdb::Slice, siltdb::Slice)| (key.to_vec(), value.to_vec());
    match draw.below(5) {
        0 => source.iter()?.map(|pair| pair.map(owned)).collect(),
        1 => source.iter()?.rev().map(|pair| pair.map(owned)).collect(),
        2 | 3 => {
            let mut pairs = Pairs::new();
            let mut cursor = source.cursor()?;
            let seen = |key: &[u8], value: &[u8]| {
                pairs.insert(key.to_vec(), value.to_vec());
                ControlFlow::Continue(())
            };
            if draw.chance(1, 2) {
                cursor.seek_to_first()?;
                cursor.walk(u64::MAX, seen)?;
            } else {
                cursor.seek_to_last()?;
                cursor.walk_back(u64::MAX, seen)?;
            }
            Ok(pairs)
        }
        _ => {
            let mut pairs = Pairs::new();
            let mut cursor = source.cursor()?;
            cursor.seek_to_first()?;
            while let Some((key, value)) = cursor.entry() {
                pairs.insert(key.to_vec(), value.to_vec());
                cursor.next()?;
            }
            Ok(pairs)
        }
    }
}

/// The counts among `pairs`.
fn counts(pairs: &Pairs) -> Counts {
    std::array::from_fn(|writer| {
        pairs.get(count_key(writer).as_bytes()).map_or(0, |value| number(value))
    })
}

/// The pairs of a family after `counts` commits, besides its `own`.
fn expected(counts: &Counts, own: impl Fn(&mut Pairs, usize, u64)) -> Pairs {
    let mut pairs = Pairs::new();
    let sum: u64 = counts.iter().sum();
    if sum > 0 {
        pairs.insert(b"shared".to_vec(), sum.to_le_bytes().to_vec());
    }
    for (writer, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        pairs.insert(count_key(writer).into(), count.to_le_bytes().to_vec());
        own(&mut pairs, writer, count);
    }
    pairs
}

/// Compares keys and values; panics with the first difference.
fn compare(found: &Pairs, expected: &Pairs, counts: &Counts) {
    for (key, value) in expected {
        let found = found.get(key);
        let key = String::from_utf8_lossy(key);
        assert_eq!(found, Some(value), "{key} after the commits {counts:?}");
    }
    let more: Vec<_> = found.keys().filter(|key| !expected.contains_key(*key)).collect();
    assert!(more.is_empty(), "keys too many after the commits {counts:?}: {more:?}");
}

/// The counts of the left family. Panics unless it is a state of whole commits.
fn left_counts(mut found: Pairs) -> Counts {
    let counts = counts(&found);
    for writer in 0..WRITERS {
        let seen = found.remove(seen_key(writer).as_bytes());
        assert_eq!(seen.is_some(), counts[writer] > 0, "half a commit: {counts:?}");
        // Every commit present has its predecessors before it: the state is a prefix of the order.
        for (other, seen) in seen.iter().flat_map(|seen| seen.chunks(8)).enumerate() {
            let seen = number(seen);
            assert!(counts[other] >= seen, "{writer} saw {seen} of {other}: {counts:?}");
        }
    }
    let expected = expected(&counts, |pairs, writer, count| {
        for number in log_start(count)..=count {
            pairs.insert(log_key(writer, number).into(), log_value(writer, number));
        }
    });
    compare(&found, &expected, &counts);
    counts
}

/// The counts of the right family. Panics unless it is a state of whole commits.
fn right_counts(found: &Pairs) -> Counts {
    let counts = counts(found);
    let expected = expected(&counts, |pairs, writer, count| {
        for number in count.saturating_sub(RING - 1).max(1)..=count {
            pairs.insert(ring_key(writer, number).into(), number.to_le_bytes().to_vec());
        }
    });
    compare(found, &expected, &counts);
    counts
}

/// Compares everything at a snapshot, and returns the commits that it shows.
fn look(
    snapshot: &siltdb::Snapshot,
    database: &Database,
    draw: &mut Draw,
) -> siltdb::Result<Counts> {
    let (left, right) = (snapshot.family(&database.left)?, snapshot.family(&database.right)?);
    let counts = left_counts(collect(&left, draw)?);
    assert_eq!(counts, right_counts(&collect(&right, draw)?), "left and right at one snapshot");
    for (writer, count) in counts.into_iter().enumerate() {
        let found = left.get(count_key(writer))?.map_or(0, |value| number(&value));
        assert_eq!(found, count, "looked up instead of walked");
        let found = right.read(count_key(writer), number)?.unwrap_or(0);
        assert_eq!(found, count, "looked at instead of walked");
        let beyond = log_key(writer, count + 1);
        assert_eq!(left.get(&beyond)?.as_deref(), None, "{beyond}");
        assert!(!left.contains(&beyond)?, "{beyond}");
    }
    Ok(counts)
}

/// The progress of the writers. All accesses are sequentially consistent: a commit counted before a
/// moment must be visible after it.
#[derive(Default)]
struct Progress {
    begun: [AtomicU64; WRITERS],
    acknowledged: [AtomicU64; WRITERS],
    synced: [AtomicU64; WRITERS],
    done: AtomicBool,
}

fn now(counts: &[AtomicU64; WRITERS]) -> Counts {
    std::array::from_fn(|writer| counts[writer].load(Ordering::SeqCst))
}

fn assert_between(low: Counts, counts: Counts, high: Counts, what: &str) {
    for writer in 0..WRITERS {
        let (low, count, high) = (low[writer], counts[writer], high[writer]);
        assert!(low <= count && count <= high, "{what}: {count} of {writer}, not {low}..={high}");
    }
}

/// A crash state taken while all threads ran.
struct Image {
    fs: MemFs,
    crash: Crash,
    /// The commits that must be there.
    low: Counts,
    /// The commits that may be there.
    high: Counts,
}

/// Ends the readers when it is dropped, also by a panic.
struct Judging<'a>(&'a AtomicBool);

impl Drop for Judging<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The state shared by all threads.
struct Stress {
    seed: u64,
    database: Database,
    progress: Progress,
    /// The file system of crash states, if they are taken.
    fs: Option<MemFs>,
}

impl Stress {
    fn new(seed: u64, database: Database, fs: Option<MemFs>) -> Self {
        println!("STRESS_SEED={seed}");
        Self { seed, database, progress: Progress::default(), fs }
    }

    /// Runs all threads to their end. Meanwhile this thread judges the `images`.
    fn run(&self, judge: impl Fn(Image)) {
        let (sender, images): (_, Receiver<Image>) = sync_channel(2);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|number| scope.spawn(move || self.read(number).expect("reading")))
                .collect();
            for writer in 0..WRITERS {
                let sender = sender.clone();
                scope.spawn(move || self.write(writer, &sender).expect("writing"));
            }
            drop(sender);
            let judging = Judging(&self.progress.done);
            images.into_iter().for_each(judge);
            drop(judging);
            let moments = readers.into_iter().map(|reader| reader.join().expect("a reader"));
            let moments: Vec<u64> = moments.collect();
            assert!(moments.iter().all(|moments| *moments > 2), "read so often: {moments:?}");
        });
        let counts = self.database.look(&mut Draw::new(self.seed, 0)).expect("reading");
        assert_eq!(counts, [COMMITS; WRITERS]);
    }

    fn write(&self, writer: usize, images: &SyncSender<Image>) -> siltdb::Result<()> {
        let mut draw = Draw::new(self.seed, 1 + writer as u64);
        let Progress { begun, acknowledged, synced, .. } = &self.progress;
        for number in 1..=COMMITS {
            let durability = match draw.below(10) {
                0 => Durability::Synced,
                1 => Durability::Interval(Duration::from_millis(5)),
                _ => Durability::Buffered,
            };
            let seen = now(acknowledged);
            begun[writer].store(number, Ordering::SeqCst);
            self.database.commit(writer, number, seen, durability)?;
            acknowledged[writer].store(number, Ordering::SeqCst);
            if durability == Durability::Synced {
                synced[writer].store(number, Ordering::SeqCst);
            }
            match draw.below(400) {
                0 => self.database.db.flush()?,
                1 => self.database.db.compact()?,
                2 => self.database.db.sync_wal()?,
                3..12 => self.crash(&mut draw, images),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes a crash state while the other threads go on.
    fn crash(&self, draw: &mut Draw, images: &SyncSender<Image>) {
        let Some(fs) = &self.fs else { return };
        let (crash, low) = match draw.below(2) {
            0 => (Crash::Kill, &self.progress.acknowledged),
            _ => (Crash::PowerLoss { seed: draw.next() }, &self.progress.synced),
        };
        let low = now(low);
        let fs = fs.crash_clone(crash);
        let high = now(&self.progress.begun);
        // The receiver is gone once a promise was found broken.
        let _ = images.send(Image { fs, crash, low, high });
    }

    /// Reads repeatedly, and returns the number of moments read.
    fn read(&self, number: usize) -> siltdb::Result<u64> {
        let mut draw = Draw::new(self.seed, 100 + number as u64);
        let Progress { begun, acknowledged, done, .. } = &self.progress;
        let (mut moments, mut last) = (0, Counts::default());
        let mut held = (self.database.db.snapshot(), None);
        while !done.load(Ordering::SeqCst) {
            let low = now(acknowledged);
            let counts = if draw.chance(1, 3) {
                // An iterator without a snapshot also reads at one moment.
                left_counts(collect(&self.database.left, &mut draw)?)
            } else {
                self.database.look(&mut draw)?
            };
            assert_between(low, counts, now(begun), "at a moment");
            assert_between(last, counts, [COMMITS; WRITERS], "later");
            (last, moments) = (counts, moments + 1);
            let again = look(&held.0, &self.database, &mut draw)?;
            assert_eq!(again, *held.1.get_or_insert(again), "a snapshot changed");
            if draw.chance(1, 10) {
                held = (self.database.db.snapshot(), None);
            }
        }
        Ok(moments)
    }
}

/// Recovers from a crash state, then from a second crash after one more commit of each writer.
fn judge(image: &Image, workers: usize) {
    let Image { fs, crash, low, high } = image;
    let mut draw = Draw::new(low.iter().sum(), 7);
    let path = Path::new("db");
    let mut work = || -> siltdb::Result<()> {
        let database = Database::open(options(workers).fs(Arc::new(fs.clone())), path)?;
        let counts = database.look(&mut draw)?;
        assert_between(*low, counts, *high, "after a crash");
        let report = database.db.check(&mut |_| {})?;
        assert!(report.is_clean(), "{report:?}");
        for (writer, count) in counts.into_iter().enumerate() {
            database.commit(writer, count + 1, counts, Durability::Synced)?;
        }
        let fs = fs.crash_clone(Crash::PowerLoss { seed: draw.next() });
        let database = Database::open(options(workers).fs(Arc::new(fs)), path)?;
        assert_eq!(database.look(&mut draw)?, counts.map(|count| count + 1), "after a second");
        Ok(())
    };
    work().unwrap_or_else(|error| panic!("{crash:?}: {error}"));
}

fn seed() -> u64 {
    let given = std::env::var("STRESS_SEED").ok();
    given.map_or(20_260, |seed| seed.parse().expect("STRESS_SEED is a number"))
}

#[test]
fn what_threads_see_is_whole_commits_and_so_is_what_crashes_leave() {
    let fs = MemFs::new();
    // The observer makes writes begin before they are done, so that a crash state may hold a part.
    fs.on_call(Some(Arc::new(|_| thread::yield_now())));
    let database = Database::open(options(2).fs(Arc::new(fs.clone())), Path::new("db"));
    let stress = Stress::new(seed(), database.expect("a new database"), Some(fs.clone()));
    let (kills, losses, kept) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    stress.run(|image| {
        let count = if image.crash == Crash::Kill { &kills } else { &losses };
        let earlier = count.fetch_add(1, Ordering::SeqCst);
        kept.fetch_add(image.low.iter().sum(), Ordering::SeqCst);
        judge(&image, if earlier.is_multiple_of(2) { 0 } else { 2 });
    });
    fs.on_call(None);
    let stats = stress.database.db.stats();
    println!("{kills:?} kills, {losses:?} losses of power, {stats:?}");
    assert!([kills, losses, kept].iter().all(|count| count.load(Ordering::SeqCst) > 5));
    assert!(stats.flushes > 20 && stats.compactions > 5, "{stats:?}");
}

#[test]
fn what_threads_see_on_a_real_disk_is_whole_commits() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("db");
    let database = Database::open(options(2), &path).expect("a new database");
    let stress = Stress::new(seed(), database, None);
    stress.run(|_| ());
    let Stress { database: Database { db, .. }, .. } = stress;
    db.close().expect("nothing failed");
    let again = Database::open(options(2), &path).expect("it was closed");
    assert_eq!(again.look(&mut Draw::new(1, 1)).expect("reading"), [COMMITS; WRITERS]);
}
