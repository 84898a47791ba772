//! Damage to every file of a small database: a read afterwards gives an error or the true data. A
//! salvage saves everything that it does not report as lost.
//!
//! The database is written once. Each test damages copies of its files, opens them and reads all.

use siltdb::{
    Compression, Create, Db, Durability, ErrorKind, Family, FamilyOptions, Options, Read,
    TableKind, WriteBatch, WriteOptions,
    salvage::{ManifestState, SalvageReport, dry_run, salvage},
};
use siltdb_base::{
    clock::ManualClock,
    fs::{
        Fs,
        mem::{CallKind, Crash, MemFs},
    },
};
use siltdb_sim::{draw::Draw, operator::Operator};
use siltdb_sweep::Sweep;
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

const DIRECTORY: &str = "db";

/// The target directory of a salvage.
const SAVED: &str = "saved";

/// The expiry of some values, counted from 1970.
const SOON: Duration = Duration::from_secs(5);

/// In this many bytes at each end of a file every bit is flipped, because headers and footers lie
/// there.
const EDGE_BYTES: usize = 64;

/// All pairs of all families.
type State = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// The files of a database, and its permitted states.
struct Sample {
    fs: MemFs,
    /// The last state; for a killed database also those after each commit that was not synced.
    states: Vec<State>,
    /// The files at an earlier time of the workload.
    older: MemFs,
    /// Every value that a key ever had.
    ever: Ever,
}

/// Values by family and key.
type Ever = BTreeMap<(String, Vec<u8>), BTreeSet<Vec<u8>>>;

fn note(ever: &mut Ever, state: &State) {
    for (family, pairs) in state {
        for (key, value) in pairs {
            let values = ever.entry((family.clone(), key.clone())).or_default();
            values.insert(value.clone());
        }
    }
}

/// The promise that a salvage must keep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// All data that it does not report as lost is present.
    Complete,
    /// Every value was written at some time; used with files of an earlier time.
    Written,
}

/// The end of a database before its files are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    /// Killed, reopened and closed without a write.
    Recovered,
    Killed,
}

/// The ways to a clean close, after which no loss may stay unnoticed.
const CLOSES: [End; 2] = [End::Closed, End::Recovered];

/// All ways. A loss of synced data in a log file is noticed even after a kill.
const ENDS: [End; 3] = [End::Closed, End::Recovered, End::Killed];

fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::at(Duration::from_millis(1_000))))
        .seed(7)
        .workers(0)
        .memtable_bytes(8 << 10)
        .memory_budget(1 << 20)
        .default_family(family_options())
}

fn family_options() -> FamilyOptions {
    FamilyOptions::new()
        .block_bytes(1 << 10)
        .compression(Compression::Lz4)
        .value_threshold(40)
        .merge_operator(Arc::new(Operator::Append))
}

fn state(db: &Db) -> siltdb::Result<State> {
    let mut state = State::new();
    for name in db.families() {
        let family = db.family(&name)?;
        let mut pairs = Vec::new();
        for pair in family.iter()? {
            let (key, value) = pair?;
            pairs.push((key.to_vec(), value.to_vec()));
        }
        state.insert(name, pairs);
    }
    Ok(state)
}

/// The name of the family with B+tree tables. It has no merges.
const TREES: &str = "trees";

fn commit(
    db: &Db,
    families: &[Family],
    round: u32,
    [draw, draw_trees]: &mut [Draw; 2],
) -> siltdb::Result<()> {
    let mut batch = WriteBatch::new();
    for family in families {
        let is_tree = family.name() == TREES;
        let draw = if is_tree { &mut *draw_trees } else { &mut *draw };
        let key = |draw: &mut Draw| format!("key:{:03}", draw.below(40));
        let len = draw.within(10..=90) as usize;
        let value = if draw.chance(1, 2) { vec![b'v'; len] } else { draw.bytes(len) };
        batch.put(family, key(draw), value)?;
        batch.put(family, key(draw), round.to_le_bytes())?;
        match draw.below(6) {
            0 => batch.delete(family, key(draw))?,
            1 if is_tree => batch.delete(family, key(draw))?,
            1 => batch.merge(family, key(draw), b"+")?,
            2 => {
                let (a, b) = (key(draw), key(draw));
                batch.delete_range(family, a.clone().min(b.clone())..a.max(b))?;
            }
            3 => batch.put_until(family, key(draw), b"short", UNIX_EPOCH + SOON)?,
            _ => {}
        }
    }
    db.write(&batch)
}

/// A database with tables on two levels, a manifest of several edits and an unflushed log.
fn sample(end: End) -> Sample {
    let fs = MemFs::new();
    let write = || -> siltdb::Result<Sample> {
        let db = options(&fs).open(DIRECTORY)?;
        let other = db.create_family("other", family_options())?;
        let trees = family_options().table_kind(TableKind::BTree).compression(Compression::None);
        let trees = db.create_family(TREES, trees)?;
        let families = [db.default_family(), other, trees];
        let mut draw = [Draw::new(3, 3), Draw::new(5, 5)];
        let (mut older, mut ever) = (MemFs::new(), Ever::new());
        for round in 0..24 {
            commit(&db, &families, round, &mut draw)?;
            note(&mut ever, &state(&db)?);
            if round % 6 == 5 {
                db.flush()?;
            }
            if round == 11 {
                db.compact()?;
            }
            if round == 14 {
                older = fs.crash_clone(Crash::Kill);
            }
        }
        for round in 24..30 {
            commit(&db, &families, round, &mut draw)?;
            note(&mut ever, &state(&db)?);
        }
        let last = WriteOptions::new().durability(Durability::Synced);
        db.put_with(b"synced", b"1", &last)?;
        let mut states = vec![state(&db)?];
        if end == End::Closed {
            db.close()?;
            states.iter().for_each(|state| note(&mut ever, state));
            return Ok(Sample { fs: fs.clone(), states, older, ever });
        }
        for round in 30..34 {
            commit(&db, &families, round, &mut draw)?;
            states.push(state(&db)?);
        }
        states.iter().for_each(|state| note(&mut ever, state));
        Ok(Sample { fs: fs.crash_clone(Crash::Kill), states, older, ever })
    };
    let mut sample = write().expect("nothing fails on a healthy file system");
    if end == End::Recovered {
        let db = options(&sample.fs).open(DIRECTORY).expect("a killed database recovers");
        sample.states = vec![state(&db).expect("it is healthy")];
        db.close().expect("it is healthy");
    }
    sample
}

impl Sample {
    /// The files, with their lengths.
    fn files(&self) -> Vec<(PathBuf, u64)> {
        let files = self.fs.list_lengths(Path::new(DIRECTORY)).expect("the directory is there");
        let at = |(name, length)| (Path::new(DIRECTORY).join::<String>(name), length);
        let mut files: Vec<_> = files.into_iter().map(at).collect();
        files.sort();
        assert!(files.len() >= 5, "log, manifest, pointer, lock and tables: {files:?}");
        files
    }

    /// Damages a copy. Opening and reading it must give an error or a permitted state. Returns
    /// whether there was an error.
    fn damaged(&self, what: &str, damage: impl FnOnce(&MemFs)) -> bool {
        self.damaged_under(Promise::Complete, what, damage)
    }

    fn damaged_under(&self, promise: Promise, what: &str, damage: impl FnOnce(&MemFs)) -> bool {
        let fs = self.fs.crash_clone(Crash::Kill);
        damage(&fs);
        self.salvaged(&fs.crash_clone(Crash::Kill), promise, what);
        let read = || {
            let db = options(&fs).create(Create::IfMissing).open(DIRECTORY)?;
            let found = state(&db).and_then(|found| {
                read_otherwise(&db, &found, what)?;
                Ok(found)
            });
            // A check finds at least the damage that readers find.
            if found.as_ref().is_err_and(|error| error.kind() == ErrorKind::Corruption) {
                let checked = db.check(&mut |_| {});
                let is_clean = checked.is_ok_and(|report| report.is_clean());
                assert!(!is_clean, "{what}: {found:?}, and yet check finds nothing");
            }
            found
        };
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(Ok(found)) => {
                if !self.states.contains(&found) {
                    self.explain(what, &found);
                }
                false
            }
            Ok::<siltdb::Result<State>, _>(Err(_)) => true,
            Err(_) => panic!("{what}: a panic"),
        }
    }

    /// Salvages the files, and compares the result with the salvage's report, and with that of a
    /// dry run before it, which changes nothing.
    fn salvaged(&self, fs: &MemFs, promise: Promise, what: &str) -> SalvageReport {
        let foretold = catch_unwind(AssertUnwindSafe(|| foretold(fs)));
        let foretold = foretold.unwrap_or_else(|_| panic!("{what}: a panic in a dry run"));
        let save = || {
            let report = salvage(DIRECTORY, SAVED, options(fs), &mut |_| {})?;
            let db = options(fs).create(Create::Never).open(SAVED)?;
            let found = state(&db)?;
            Ok::<_, siltdb::Error>((report, found))
        };
        let (report, found) = match catch_unwind(AssertUnwindSafe(save)) {
            Ok(Ok(saved)) => saved,
            Ok(Err(error)) => panic!("{what}: nothing was saved: {error}"),
            Err(_) => panic!("{what}: a panic"),
        };
        assert_eq!(foretold, format!("{report:?}"), "{what}: a dry run foretold something else");
        let is_lost = |family: &str, key: &[u8]| {
            promise == Promise::Written || report.lost.iter().any(|lost| lost.may_hold(family, key))
        };
        for (family, pairs) in &found {
            for (key, value) in pairs {
                let known = self.ever.get(&(family.clone(), key.clone()));
                let is_known = known.is_some_and(|known| known.contains(value));
                let is_part = || known.is_some_and(|known| is_merged(known, value, &report));
                let is_right = is_known || is_lost(family, key) && is_part();
                assert!(
                    is_right,
                    "{what}: {family}/{key:?} has {value:?}, never written: {report:?}"
                );
            }
        }
        let value = |state: &State, family: &str, key: &[u8]| {
            let pairs = state.get(family)?;
            let at = pairs.binary_search_by(|pair| pair.0[..].cmp(key)).ok()?;
            Some(pairs[at].1.clone())
        };
        for (family, key) in self.ever.keys().filter(|(family, key)| !is_lost(family, key)) {
            let found = value(&found, family, key);
            let mut may_be = self.states.iter().map(|state| value(state, family, key));
            assert!(
                may_be.any(|value| value == found),
                "{what}: {family}/{key:?} has {found:?}: {report:?}"
            );
        }
        report
    }

    fn explain(&self, what: &str, found: &State) {
        let expected = &self.states[self.states.len() - 1];
        for (name, pairs) in expected {
            let missing = found.get(name).is_none_or(|found| found != pairs);
            if missing {
                let count = found.get(name).map(Vec::len);
                panic!(
                    "{what}: family {name} has {count:?} pairs, not the {} right ones",
                    pairs.len()
                );
            }
        }
        panic!("{what}: families {:?}", found.keys());
    }
}

/// What a dry run says of the files. It makes no call that changes anything.
fn foretold(fs: &MemFs) -> String {
    let changes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&changes);
    fs.on_call(Some(Arc::new(move |call| {
        // The lock excludes writers, and creates nothing.
        let changes = u64::from(call.kind != CallKind::Lock);
        counted.fetch_add(changes, Ordering::Relaxed);
    })));
    let report = dry_run(DIRECTORY, options(fs), &mut |_| {});
    fs.on_call(None);
    assert_eq!(changes.load(Ordering::Relaxed), 0, "a dry run changes something");
    report.map_or_else(|error| error.to_string(), |report| format!("{report:?}"))
}

/// Whether a value may be the remainder of merges: operands without the value below them. Without a
/// manifest, operands that were already folded may count twice.
fn is_merged(known: &BTreeSet<Vec<u8>>, value: &[u8], report: &SalvageReport) -> bool {
    let folded = |value: &[u8]| value.iter().rposition(|byte| *byte != b'+').map_or(0, |at| at + 1);
    known.iter().any(|known| {
        known.ends_with(value)
            || report.manifest == ManifestState::Lost
                && known[..folded(known)] == value[..folded(value)]
    })
}

/// Lookups and backward scans agree with forward scans.
fn read_otherwise(db: &Db, state: &State, what: &str) -> siltdb::Result<()> {
    for (name, pairs) in state {
        let family = db.family(name)?;
        for (key, value) in pairs {
            assert_eq!(family.get(key)?.as_deref(), Some(&value[..]), "{what}: get in {name}");
        }
        let mut back = Vec::new();
        for pair in family.iter()?.rev() {
            let (key, value) = pair?;
            back.push((key.to_vec(), value.to_vec()));
        }
        back.reverse();
        assert!(back == *pairs, "{what}: backwards in {name}");
    }
    Ok(())
}

/// Whether every bit of the byte at `offset` of a file is flipped, or only one. Every bit is
/// flipped at the edges and in the file that names the manifest. In the manifest itself it is so
/// after a close only, because a killed process leaves one with the same records.
fn takes_every_bit(end: End, path: &Path, offset: usize, len: usize) -> bool {
    let is_manifest = path.extension().is_some_and(|extension| extension == "manifest");
    let is_edge = offset < EDGE_BYTES || offset + EDGE_BYTES >= len;
    is_edge || (is_manifest && end == End::Closed) || path.ends_with("CURRENT")
}

#[test]
fn a_salvage_of_healthy_files_loses_nothing() {
    for sample in ENDS.map(sample) {
        for without in [None, Some("CURRENT"), Some("LOCK")] {
            let fs = sample.fs.crash_clone(Crash::Kill);
            if let Some(name) = without {
                fs.remove(&Path::new(DIRECTORY).join(name)).expect("it is there");
            }
            let what = format!("without {without:?}");
            let report = sample.salvaged(&fs, Promise::Complete, &what);
            assert!(report.is_complete(), "{what}: {report:?}");
        }
    }
}

/// Flips a bit of every byte outside long runs of zeros, and of some bytes inside them. Flips every
/// bit of the bytes that matter most. It is a sweep: each run does it to a part of the bytes.
fn flip_every_byte(end: End) {
    let (sample, sweep) = (sample(end), Sweep::every(4));
    assert!(!sample.damaged("nothing", |_| ()), "the healthy files cannot be read");
    let mut detected = 0;
    let mut flips = 0;
    for (path, _) in sample.files() {
        let bytes = sample.fs.read_all(&path).expect("it is listed");
        for offset in sweep.of(0..bytes.len()) {
            let near = &bytes[offset.saturating_sub(16)..bytes.len().min(offset + 16)];
            if near.iter().all(|byte| *byte == 0) && offset % 997 != 0 {
                continue;
            }
            let every = takes_every_bit(end, &path, offset, bytes.len());
            for bit in (0..8).filter(|bit| every || *bit == offset % 8) {
                let what = format!("bit {bit} of byte {offset} of {}", path.display());
                flips += 1;
                detected += usize::from(sample.damaged(&what, |fs| {
                    fs.bytes_flip(&path, offset as u64, 1 << bit).expect("the byte is there");
                }));
            }
        }
    }
    println!("{detected} of {flips} flips gave an error");
    assert!(sweep.has_enough(flips, 10_000) && detected > flips / 2, "{detected} of {flips}");
}

#[test]
fn a_flipped_bit_in_a_closed_database_is_detected_or_harmless() {
    flip_every_byte(End::Closed);
}

#[test]
fn a_flipped_bit_in_a_killed_database_is_detected_or_harmless() {
    flip_every_byte(End::Killed);
}

#[test]
fn a_file_cut_short_is_detected_or_harmless() {
    let mut detected = 0;
    for sample in ENDS.map(sample) {
        for (path, len) in sample.files() {
            let step = (len / 300).max(1);
            for len in Sweep::every(3).of((0..len).step_by(step as usize)) {
                let what = format!("{} cut to {len} bytes", path.display());
                detected += u64::from(sample.damaged(&what, |fs| {
                    fs.truncate(&path, len).expect("it is listed");
                }));
            }
        }
    }
    assert!(detected > 100, "{detected}");
}

/// The manifest of a database without a log is the only file that names its tables.
#[test]
fn a_manifest_that_lost_edits_is_detected_or_lacks_the_last_one_only() {
    let fs = MemFs::new();
    let write = || -> siltdb::Result<Vec<State>> {
        let db = options(&fs).open(DIRECTORY)?;
        let mut states = vec![state(&db)?];
        for number in 0..4_u8 {
            db.put([number], b"value")?;
            db.flush()?;
            states.push(state(&db)?);
        }
        db.close()?;
        // This open removes the log files that the last flush retired.
        options(&fs).open(DIRECTORY)?.close()?;
        Ok(states)
    };
    let states = write().expect("nothing fails on a healthy file system");
    let names = fs.list(Path::new(DIRECTORY)).expect("the directory is there").into_iter();
    let paths: Vec<_> = names.map(|entry| Path::new(DIRECTORY).join(entry.name)).collect();
    let has = |path: &Path, kind: &str| path.extension().is_some_and(|found| found == kind);
    assert!(!paths.iter().any(|path| has(path, "log")), "{paths:?}");
    let manifest = paths.iter().find(|path| has(path, "manifest")).expect("there is one");
    let len = fs.read_all(manifest).expect("it is listed").len() as u64;
    let mut detected = 0;
    for cut in 0..len {
        let fs = fs.crash_clone(Crash::Kill);
        fs.truncate(manifest, cut).expect("it is listed");
        match options(&fs).open(DIRECTORY).and_then(|db| state(&db)) {
            Ok(found) => assert!(states[states.len() - 2..].contains(&found), "cut to {cut}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "cut to {cut}: {error}");
                detected += 1;
            }
        }
    }
    assert!(detected > len / 2, "{detected} of {len}");
}

#[test]
fn a_file_that_grew_is_detected_or_harmless() {
    for sample in CLOSES.map(sample) {
        for (path, len) in sample.files() {
            for more in [1, 8, 511, 4096] {
                let what = format!("{} with {more} zeros behind", path.display());
                sample.damaged(&what, |fs| {
                    fs.truncate(&path, len + more).expect("it is listed");
                });
                let what = format!("{} with {more} bytes behind", path.display());
                sample.damaged(&what, |fs| {
                    let mut bytes = fs.read_all(&path).expect("it is listed");
                    bytes.extend(Draw::new(more, 1).bytes(more as usize));
                    fs.write_all(&path, &bytes).expect("the directory is there");
                });
            }
        }
    }
}

#[test]
fn a_missing_file_is_detected_or_harmless() {
    let mut detected = 0;
    for sample in ENDS.map(sample) {
        for (path, _) in sample.files() {
            let what = format!("{} missing", path.display());
            detected += u64::from(sample.damaged(&what, |fs| {
                fs.remove(&path).expect("it is listed");
            }));
        }
    }
    assert!(detected > 2, "{detected}");
}

#[test]
fn a_file_in_place_of_another_is_detected_or_harmless() {
    for sample in CLOSES.map(sample) {
        let files = sample.files();
        for (path, _) in &files {
            for (other, _) in files.iter().filter(|(other, _)| other != path) {
                let bytes = sample.fs.read_all(other).expect("it is listed");
                let what = format!("{} holding what {} holds", path.display(), other.display());
                sample.damaged(&what, |fs| {
                    fs.write_all(path, &bytes).expect("the directory is there");
                });
            }
        }
    }
}

#[test]
fn a_zeroed_sector_is_detected_or_harmless() {
    for sample in CLOSES.map(sample) {
        for (path, len) in sample.files() {
            let bytes = sample.fs.read_all(&path).expect("it is listed");
            for start in (0..len as usize).step_by(512) {
                let end = bytes.len().min(start + 512);
                if bytes[start..end].iter().all(|byte| *byte == 0) {
                    continue;
                }
                let what = format!("sector at {start} of {} zeroed", path.display());
                sample.damaged(&what, |fs| {
                    let mut bytes = bytes.clone();
                    bytes[start..end].fill(0);
                    fs.write_all(&path, &bytes).expect("the directory is there");
                });
            }
        }
    }
}

#[test]
fn an_older_version_of_a_file_is_detected_or_harmless() {
    let mut exchanged = 0;
    for sample in CLOSES.map(sample) {
        for (path, _) in sample.files() {
            let Ok(older) = sample.older.read_all(&path) else { continue };
            if older == sample.fs.read_all(&path).expect("it is listed") {
                continue;
            }
            exchanged += 1;
            let what = format!("an older {}", path.display());
            sample.damaged_under(Promise::Written, &what, |fs| {
                fs.write_all(&path, &older).expect("the directory is there");
            });
        }
    }
    assert!(exchanged > 0, "no file changes");
}
