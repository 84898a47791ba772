//! No byte on disk causes a panic or a wrong answer. A small database with every kind of file is
//! damaged in every place, one at a time, reopened, and read in every way.
//!
//! Damage that can be told from a crash is refused with the file's name. Damage that cannot, a torn
//! tail of the log, costs the last commits at most.

use siltdb::{
    Db, Durability, Error, ErrorKind, FamilyOptions, LogIo, Options, Read, RecoveryMode,
    WriteBatch, WriteOptions,
};
use siltdb_base::fs::{
    Fs,
    mem::{Crash, MemFs},
};
use siltdb_sweep::Sweep;
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::catch_unwind,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, UNIX_EPOCH},
};

/// The entries of a family.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The entries of a database, by family.
type State = BTreeMap<String, Content>;

const DIR: &str = "data";

fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .workers(0)
        .seed(7)
        .memtable_bytes(64 << 10)
        .memory_budget(1 << 20)
}

/// A database as a crash left it, with its possible states after each of its last commits.
struct Golden {
    fs: MemFs,
    /// The state after each commit of the log that is not flushed, in order.
    states: Vec<State>,
}

/// Commits batches, and records the state after each.
struct Writer {
    db: Db,
    states: Vec<State>,
}

impl Writer {
    fn commit(&mut self, durability: Durability, fill: impl FnOnce(&Db, &mut WriteBatch)) {
        let mut batch = WriteBatch::new();
        fill(&self.db, &mut batch);
        let options = siltdb::WriteOptions::new().durability(durability);
        self.db.write_with(&batch, &options).unwrap();
        let state = read(&self.db).unwrap();
        self.states.push(state);
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key:{number:04}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    format!("{number}-").repeat(number as usize % 9).into_bytes()
}

/// Tables in two families, range tombstones in a table and in the log, and a dropped family. Some
/// of the commits in the log are synced.
fn golden() -> Golden {
    golden_ending(|_| ())
}

/// The same database with one more step.
fn golden_ending(end: impl FnOnce(&Db)) -> Golden {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    db.create_family("users", FamilyOptions::new()).unwrap();
    db.create_family("gone", FamilyOptions::new()).unwrap();
    let mut writer = Writer { db, states: Vec::new() };
    writer.commit(Durability::Synced, |db, batch| {
        let users = db.family("users").unwrap();
        let late = UNIX_EPOCH + Duration::from_secs(1 << 40);
        for number in 0..120 {
            batch.put(&db.default_family(), key(number), value(number)).unwrap();
            batch.put_until(&users, key(number), value(number + 1), late).unwrap();
        }
        batch.put(&db.family("gone").unwrap(), b"a", b"b").unwrap();
    });
    writer.db.flush().unwrap();
    writer.db.drop_family("gone").unwrap();
    writer.commit(Durability::Synced, |db, batch| {
        batch.delete_range(&db.default_family(), key(20)..key(30)).unwrap();
        batch.delete(&db.family("users").unwrap(), key(7)).unwrap();
        batch.put(&db.default_family(), key(200), value(200)).unwrap();
    });
    writer.db.flush().unwrap();
    writer.states.clear();
    let state = read(&writer.db).unwrap();
    writer.states.push(state);
    for number in 0..6 {
        let durability =
            if number < SYNCED as u32 { Durability::Synced } else { Durability::Buffered };
        writer.commit(durability, |db, batch| {
            let users = db.family("users").unwrap();
            batch.put(&users, key(300 + number), value(number + 3)).unwrap();
            // Longer than the zeroed part, so that a record behind a synced one stays whole.
            batch.put(&db.default_family(), key(number), [b'x'; 700]).unwrap();
            batch.delete_range(&users, key(40 + number)..key(41 + number)).unwrap();
        });
    }
    end(&writer.db);
    match read(&writer.db) {
        // The database was closed, which changes no visible state.
        Err(error) if error.kind() == ErrorKind::Closed => {}
        state => writer.states.push(state.unwrap()),
    }
    let fs = fs.crash_clone(Crash::Kill);
    Golden { fs, states: writer.states }
}

/// Reads everything in every way and asserts that all ways agree.
fn read(db: &Db) -> Result<State, Error> {
    let mut state = State::new();
    for name in db.families() {
        let family = db.family(&name)?;
        let mut content = Content::new();
        for pair in family.iter()? {
            let (key, value) = pair?;
            content.insert(key.to_vec(), value.to_vec());
        }
        let mut backward = content.iter().rev();
        for pair in family.iter()?.rev() {
            let (key, value) = pair?;
            assert_eq!(backward.next(), Some((&key.to_vec(), &value.to_vec())), "backward");
        }
        assert_eq!(backward.next(), None, "backward");
        for number in (0..=310).step_by(10) {
            let found = family.get(key(number))?;
            assert_eq!(found.as_deref(), content.get(&key(number)).map(Vec::as_slice), "get");
        }
        state.insert(name, content);
    }
    Ok(state)
}

/// The outcome of a damage.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The state is that after this commit.
    State(usize),
    /// The opening or a read was refused.
    Refused,
}

impl Golden {
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = self.fs.list(Path::new(DIR)).unwrap();
        let mut files: Vec<_> = entries
            .into_iter()
            .map(|entry| Path::new(DIR).join(entry.name))
            .map(|path| (path.clone(), self.fs.read_all(&path).unwrap()))
            .collect();
        files.sort();
        files
    }

    /// Damages a copy, opens it twice, reads it, and returns its state; panics if that is wrong.
    fn outcome(&self, what: &str, damage: impl FnOnce(&MemFs)) -> Outcome {
        let fs = self.fs.crash_clone(Crash::Kill);
        damage(&fs);
        let open = |fs: &MemFs| options(fs).open(DIR).and_then(|db| read(&db));
        let result = open(&fs);
        match result {
            Ok(state) => {
                let found = self.states.iter().rposition(|known| *known == state);
                let found = found.unwrap_or_else(|| panic!("{what}: a wrong answer"));
                // A state that was seen once is final.
                let again = open(&fs).unwrap_or_else(|error| panic!("{what}, again: {error}"));
                assert_eq!(again, state, "{what}: the second opening shows something else");
                Outcome::State(found)
            }
            Err(error) => {
                let known = [ErrorKind::Corruption, ErrorKind::Unsupported];
                assert!(known.contains(&error.kind()), "{what}: {error}");
                assert!(error.file().is_some(), "{what}: no file in: {error}");
                Outcome::Refused
            }
        }
    }
}

/// A kind of damage to a file.
#[derive(Clone, Debug)]
enum Damage {
    /// One bit of the byte at this offset flips.
    Flip(u64),
    /// The file ends here.
    Cut(u64),
    /// Zeros extend the file to this length.
    Grow(u64),
    /// Up to 512 bytes from this offset are zeroed.
    Zero(u64),
    /// The file is missing.
    Remove,
    /// The file has the contents of this one.
    Replace(PathBuf),
    /// A second file of the same kind has this number.
    Duplicate(u64),
}

impl Damage {
    fn apply(&self, fs: &MemFs, path: &Path) {
        match *self {
            Self::Flip(offset) => fs.bytes_flip(path, offset, 1 << (offset % 8)).unwrap(),
            Self::Cut(len) | Self::Grow(len) => fs.truncate(path, len).unwrap(),
            Self::Zero(start) => {
                let mut bytes = fs.read_all(path).unwrap();
                bytes.iter_mut().skip(start as usize).take(512).for_each(|byte| *byte = 0);
                fs.write_all(path, &bytes).unwrap();
            }
            Self::Remove => fs.remove(path).unwrap(),
            Self::Replace(ref other) => {
                fs.write_all(path, &fs.read_all(other).unwrap()).unwrap();
            }
            Self::Duplicate(number) => {
                let name = format!("{number:06}.{}", extension(path));
                fs.write_all(&path.with_file_name(name), &fs.read_all(path).unwrap()).unwrap();
            }
        }
    }
}

/// The end of the bytes that are not zero, and a little more.
fn used(bytes: &[u8]) -> u64 {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    (end + 200).min(bytes.len()) as u64
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or("none")
}

/// Synced commits of the log, as recorded by a record behind each.
const SYNCED: usize = 3;

/// Commits of the log that must survive a damage that is not refused.
fn kept(path: &Path, damage: &Damage) -> usize {
    match damage {
        // The records of the synced position are gone as well.
        Damage::Cut(_) | Damage::Remove | Damage::Replace(_) if extension(path) == "log" => 0,
        _ if extension(path) == "log" => SYNCED,
        _ => usize::MAX,
    }
}

/// Applies each damage to a copy of the database, one at a time, and returns the number of
/// refusals. Panics with a list of those that caused a wrong answer or a panic.
fn sweep(golden: &Golden, damages: &[(PathBuf, Damage)]) -> usize {
    assert!(!damages.is_empty());
    let last = golden.states.len() - 1;
    let (refused, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let one = |(path, damage): &(PathBuf, Damage)| {
        let what = format!("{} {damage:?}", path.display());
        let outcome = catch_unwind(|| golden.outcome(&what, |fs| damage.apply(fs, path)));
        match outcome {
            // Relaxed: the threads are joined before the count is read.
            Ok(Outcome::Refused) => drop(refused.fetch_add(1, Ordering::Relaxed)),
            Ok(Outcome::State(state)) if state == last => {}
            Ok(Outcome::State(state)) if state >= kept(path, damage) => {}
            Ok(Outcome::State(state)) => {
                wrong.lock().unwrap().push(format!("{what}: only {state} of {last} commits"));
            }
            Err(_) => wrong.lock().unwrap().push(what),
        }
    };
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get());
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || damages.iter().skip(thread).step_by(threads).for_each(one));
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), damages.len());
    refused.into_inner()
}

#[test]
fn the_undamaged_database_has_every_kind_of_file_and_opens() {
    let golden = golden();
    let files = golden.files();
    let in_use = files.iter().filter(|(_, bytes)| used(bytes) > 0);
    let kinds: BTreeSet<_> = in_use.map(|(path, _)| extension(path)).collect();
    assert_eq!(kinds, BTreeSet::from(["log", "manifest", "none", "table"]));
    let last = golden.states.len() - 1;
    assert_eq!(golden.outcome("undamaged", |_| ()), Outcome::State(last));
}

#[test]
fn no_flipped_bit_makes_a_panic_or_a_wrong_answer() {
    let golden = golden();
    let mut damages = Vec::new();
    let part = Sweep::every(3);
    for (path, bytes) in golden.files() {
        let offsets = part.of(0..used(&bytes));
        damages.extend(offsets.map(|offset| (path.clone(), Damage::Flip(offset))));
    }
    let refused = sweep(&golden, &damages);
    assert!(refused > damages.len() / 3, "only {refused} of {} were refused", damages.len());
}

#[test]
fn no_file_that_was_cut_zeroed_or_grown_makes_a_panic_or_a_wrong_answer() {
    let golden = golden();
    let mut damages = Vec::new();
    for (path, bytes) in golden.files() {
        for offset in (0..used(&bytes)).step_by(64) {
            damages.push((path.clone(), Damage::Cut(offset)));
            damages.push((path.clone(), Damage::Zero(offset)));
        }
        for more in [1, 64, 4096] {
            damages.push((path.clone(), Damage::Grow(bytes.len() as u64 + more)));
        }
    }
    let refused = sweep(&golden, &damages);
    assert!(refused > damages.len() / 3, "only {refused} of {} were refused", damages.len());
}

#[test]
fn no_missing_file_makes_a_panic_or_a_wrong_answer() {
    let golden = golden();
    let files = golden.files();
    let damages: Vec<_> = files.into_iter().map(|(path, _)| (path, Damage::Remove)).collect();
    let refused = sweep(&golden, &damages);
    assert!(refused >= 4, "only {refused} of {} were refused", damages.len());
}

#[test]
fn no_swapped_or_duplicated_file_makes_a_panic_or_a_wrong_answer() {
    let golden = golden();
    let files = golden.files();
    let mut damages = Vec::new();
    for (path, _) in &files {
        for (other, _) in files.iter().filter(|(other, _)| other != path) {
            damages.push((path.clone(), Damage::Replace(other.clone())));
        }
        // The largest number leaves no number for later files.
        for number in [0, 77, u64::MAX - 1, u64::MAX] {
            damages.push((path.clone(), Damage::Duplicate(number)));
        }
    }
    let refused = sweep(&golden, &damages);
    assert!(refused > damages.len() / 3, "only {refused} of {} were refused", damages.len());
}

/// The last step of a golden database.
type Step = fn(&Db);

/// The last edit of a manifest has no record behind it that reports it as synced.
#[test]
fn no_edit_of_the_manifest_is_lost_silently() {
    let ends: [(&str, Step); 6] = [
        ("flush", |db| db.flush().unwrap()),
        ("compact", |db| {
            db.flush().unwrap();
            db.compact().unwrap();
        }),
        ("create", |db| drop(db.create_family("new", FamilyOptions::new()).unwrap())),
        ("rename", |db| db.rename_family("users", "people").unwrap()),
        ("drop", |db| db.drop_family("users").unwrap()),
        ("close", |db| {
            db.flush().unwrap();
            db.clone().close().unwrap();
        }),
    ];
    for (end, run) in ends {
        let golden = golden_ending(run);
        if end == "close" {
            // The opening removes the log files that the last edit retired.
            read(&options(&golden.fs).open(DIR).unwrap()).unwrap();
        }
        let mut damages = Vec::new();
        for (path, bytes) in golden.files() {
            if extension(&path) == "manifest" {
                damages.extend((0..used(&bytes)).map(|at| (path.clone(), Damage::Flip(at))));
            }
        }
        assert!(sweep(&golden, &damages) > 0, "{end}");
    }
}

#[test]
fn a_stray_file_with_the_last_number_does_no_harm() -> Result<(), Error> {
    for kind in ["table", "manifest", "tmp", "log"] {
        let golden = golden();
        let name = format!("{}.{kind}", siltdb_base::limits::FILE_NUMBER_MAX);
        golden.fs.write_all(&Path::new(DIR).join(name), b"stray").unwrap();
        for value in [b"more", b"last"] {
            let db = options(&golden.fs).open(DIR)?;
            db.put(b"one", value)?;
            db.flush()?;
            db.put(b"two", value)?;
            db.close()?;
            let db = options(&golden.fs).open(DIR)?;
            for key in [b"one", b"two"] {
                assert_eq!(db.get(key)?.as_deref(), Some(&value[..]), "{kind}");
            }
        }
    }
    Ok(())
}

/// How a database with a synced log is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Killed,
    Closed,
}

/// Whether the file of the log had an earlier use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogFileUse {
    First,
    Later,
}

fn synced_keys(db: &Db, keys: std::ops::Range<u32>, value_bytes: usize) {
    let options = WriteOptions::new().durability(Durability::Synced);
    for number in keys {
        let mut batch = WriteBatch::new();
        batch.put(&db.default_family(), key(number), vec![b'v'; value_bytes]).unwrap();
        db.write_with(&batch, &options).unwrap();
    }
}

fn copy_files(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn on_disk(log_io: LogIo) -> Options {
    Options::new().workers(0).seed(7).memtable_bytes(1 << 20).log_io(log_io)
}

/// The log file of a database on disk that has the record of `key`, and where that ends at least.
fn log_with(dir: &Path, key: &[u8]) -> (PathBuf, u64) {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|found| found == "log"));
    let found = logs.filter_map(|path| {
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(key.len()).rposition(|part| part == key)?;
        Some((path, (at + key.len()) as u64))
    });
    found.last().unwrap()
}

/// Files of the operating system's, because their lengths are what counts.
#[test]
fn a_synced_log_that_is_cut_at_any_length_is_noticed() {
    // The first fill one window, the second several.
    for value_bytes in [100, 3000] {
        for io in [LogIo::Map, LogIo::Write] {
            for used in [LogFileUse::First, LogFileUse::Later] {
                for left in [Left::Killed, Left::Closed] {
                    cut_everywhere(value_bytes, (io, used, left));
                }
            }
        }
    }
}

fn cut_everywhere(value_bytes: usize, (io, used, left): (LogIo, LogFileUse, Left)) {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (path, copy, cut) = (at("db"), at("copy"), at("cut"));
    let db = on_disk(io).open(&path).unwrap();
    if used == LogFileUse::Later {
        for _ in 0..4 {
            synced_keys(&db, 1000..1200, 3000);
            db.flush().unwrap();
        }
    }
    synced_keys(&db, 0..155, value_bytes);
    if left == Left::Killed {
        copy_files(&path, &copy);
    }
    db.close().unwrap();
    if left == Left::Closed {
        copy_files(&path, &copy);
    }
    let (log, end) = log_with(&copy, &key(154));
    let whole = std::fs::metadata(&log).unwrap().len();
    let lengths = (0..end).step_by(end as usize / 12).chain([end, 64 << 10, 256 << 10]);
    let lengths = Sweep::every(3).of(lengths);
    for len in lengths.filter(|len| *len < whole) {
        // What lies behind the first window is durable only up to the window of the last sync.
        let is_far = len > end && len >= (256 << 10);
        if is_far {
            continue;
        }
        copy_files(&copy, &cut);
        let log = cut.join(log.file_name().unwrap());
        std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(len).unwrap();
        let case = format!("{io:?}, {used:?}, {left:?}, cut to {len} of {end} in {whole}");
        let opened = on_disk(io).open(&cut);
        let error = opened.err().unwrap_or_else(|| panic!("{case}: opened"));
        assert_eq!(error.kind(), ErrorKind::Corruption, "{case}: {error}");
        assert_eq!(error.file().map(Path::new), Some(&*log), "{case}: {error}");
        // The loss can be accepted, once.
        let lenient = on_disk(io).recovery(RecoveryMode::PointInTime);
        let found = lenient.open(&cut).unwrap();
        assert!(found.kept_files().log_files > 0 || len < 64, "{case}");
        found.close().unwrap();
        assert!(on_disk(io).open(&cut).is_ok(), "{case}");
    }
}
