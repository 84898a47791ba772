//! A database on files in memory, a map for each of its families, and its archives.

pub use crate::maps::{Random, key, small};
use siltdb::{
    Db, Family, Options, Read, WriteBatch,
    archive::{Archive, ArchiveImport, ArchiveInfo, ImportOptions},
    testing::{Call, Clock, Crash, Fault, FaultError, FaultSpan, Fs, ManualClock, MemFs},
};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

pub const DB: &str = "db";
pub const DIR: &str = "archives";
pub const FILE: &str = "archives/a.siltar";

/// Values, and when they expire.
pub type Map = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// Keys and values of each family.
pub type Contents = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// The time at which all clocks of the tests begin, in ms since 1970.
pub const BEGIN_MS: u64 = 1_000_000;

/// Options without threads, under which little data makes several tables.
pub fn options(fs: &MemFs, clock: &Arc<ManualClock>) -> Options {
    // Each opening gives its tables other uids, as without a seed.
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0).seed(fs.calls());
    let options = options
        .memtable_bytes(32 << 10)
        .memory_budget(16 << 20)
        .clock(clock.clone())
        .lock_timeout(Duration::ZERO);
    options.default_family(small())
}

pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Duration::from_millis(BEGIN_MS)))
}

pub fn open(fs: &MemFs) -> Db {
    open_at(fs, DB, &clock())
}

pub fn open_at(fs: &MemFs, dir: &str, clock: &Arc<ManualClock>) -> Db {
    options(fs, clock).open(dir).unwrap()
}

/// What a family shows.
pub fn shown(source: &impl Read) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |pair: siltdb::Result<(siltdb::Slice, siltdb::Slice)>| {
        let (key, value) = pair.unwrap();
        (key.to_vec(), value.to_vec())
    };
    source.iter().unwrap().map(pair).collect()
}

/// All that a database shows.
pub fn contents(db: &Db) -> Contents {
    db.families()
        .into_iter()
        .map(|name| (name.clone(), shown(&db.family(&name).unwrap())))
        .collect()
}

/// All that an archive shows at this time.
pub fn archived(fs: &MemFs, path: &str, clock: &Arc<ManualClock>) -> siltdb::Result<Contents> {
    let archive = Archive::open_with(path, &options(fs, clock))?;
    let mut contents = Contents::new();
    for family in archive.info().families {
        let mut pairs = Vec::new();
        for pair in archive.family(&family.name)?.iter()? {
            let (key, value) = pair?;
            pairs.push((key.to_vec(), value.to_vec()));
        }
        contents.insert(family.name, pairs);
    }
    Ok(contents)
}

pub fn verify(fs: &MemFs, path: &str) -> siltdb::Result<()> {
    Archive::open_with(path, &options(fs, &clock()))?.verify(&mut |_| ControlFlow::Continue(()))
}

/// Exports everything to [`FILE`].
pub fn export(fs: &MemFs, db: &Db) -> siltdb::Result<ArchiveInfo> {
    fs.create_dir_all(Path::new(DIR))?;
    db.archive(FILE)
}

pub fn import(db: &Db, options: &ImportOptions) -> siltdb::Result<ArchiveImport> {
    db.import_archive_with(FILE, options, &mut |_| ControlFlow::Continue(()))
}

/// The names of the files in a directory, sorted.
pub fn files(fs: &MemFs, dir: &str) -> Vec<String> {
    let entries = fs.list(Path::new(dir)).unwrap();
    let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

/// Does `work`, and returns what a kill and some losses of power before each of its calls that
/// change something would leave.
pub fn crash_states<T>(
    fs: &MemFs,
    work: impl FnOnce() -> siltdb::Result<T>,
) -> Vec<(String, MemFs)> {
    let (states, disk) = (Arc::new(Mutex::new(Vec::new())), fs.clone());
    let seen = Arc::clone(&states);
    fs.on_call(Some(Arc::new(move |call: Call<'_>| {
        let losses = (0..4).map(|loss| Crash::PowerLoss { seed: 4 * call.number + loss });
        for crash in [Crash::Kill].into_iter().chain(losses) {
            let what = format!("{crash:?} before {:?} {}", call.kind, call.path.display());
            seen.lock().unwrap().push((what, disk.crash_clone(crash)));
        }
    })));
    work().map(drop).unwrap();
    fs.on_call(None);
    std::mem::take(&mut *states.lock().unwrap())
}

/// The failure of the `nth` next call.
pub fn fault(nth: u64, error: FaultError) -> Option<Fault> {
    Some(Fault { kind: None, nth, span: FaultSpan::Once, error })
}

/// Makes 120 random changes of a family and its map, at this time.
pub fn change(db: &Db, (family, map): (&Family, &mut Map), random: &mut Random, now_ms: u64) {
    for _ in 0..120 {
        let number = random.below(300);
        let (what, end) = (random.below(24), key(number + 1 + random.below(30)));
        let length = if random.below(200) == 0 { 9000 } else { random.below(60) };
        let (key, value) = (key(number), random.bytes(length));
        match what {
            0..10 => {
                family.put(&key, &value).unwrap();
                map.insert(key, (value, None));
            }
            10..15 => {
                let expiry_ms = now_ms + 1 + random.below(10_000);
                let at = SystemTime::UNIX_EPOCH + Duration::from_millis(expiry_ms);
                let mut batch = WriteBatch::new();
                batch.put_until(family, &key, &value, at).unwrap();
                db.write(&batch).unwrap();
                map.insert(key, (value, Some(expiry_ms)));
            }
            15..18 => {
                family.delete(&key).unwrap();
                map.remove(&key);
            }
            18..22 => {
                family.merge(&key, b"+").unwrap();
                // A folded value does not expire.
                let (value, expiry) = map.entry(key).or_default();
                value.push(b'+');
                *expiry = None;
            }
            22 => {
                family.delete_range(&key[..]..&end[..]).unwrap();
                map.retain(|other, _| !(&key..&end).contains(&other));
            }
            _ => match random.below(4) {
                0 => db.flush().unwrap(),
                1 => family.compact().unwrap(),
                _ => db.settle().unwrap(),
            },
        }
    }
}

/// What a map shows at this time.
pub fn at(map: &Map, now_ms: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let lives = |expiry: &Option<u64>| expiry.is_none_or(|expiry_ms| expiry_ms > now_ms);
    map.iter()
        .filter(|(_, (_, expiry))| lives(expiry))
        .map(|(key, (value, _))| (key.clone(), value.clone()))
        .collect()
}

/// A database with tables of several levels in three families, one of them empty, and a log.
pub fn filled(fs: &MemFs) -> Db {
    let db = open(fs);
    let mut random = Random(7);
    let users = db.create_family("users", small()).unwrap();
    db.create_family("nothing", small()).unwrap();
    for family in [&db.default_family(), &users].repeat(3) {
        change(&db, (family, &mut Map::new()), &mut random, BEGIN_MS);
    }
    db
}

/// That a database checks as clean, and goes on as any.
pub fn assert_sound(fs: &MemFs, clock: &Arc<ManualClock>) {
    let check = options(fs, clock).check(DB, &mut |_| {}).unwrap();
    assert!(check.is_clean(), "{check:?}");
    assert!(clock.wall_ms() >= BEGIN_MS);
}
