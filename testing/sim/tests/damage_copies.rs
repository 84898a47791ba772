//! Damage to every file of a database with a clone, a branch and a cold directory. A reader gets an
//! error or the true data. A salvage saves everything that it does not report as lost, in every
//! family and branch, and nothing that was never there.
//!
//! `damage.rs` sweeps the files of a database without copies, bit by bit.

use siltdb::{
    Create, Db, Family, FamilyOptions, Options, Read,
    salvage::{ManifestState, SalvageReport, dry_run, salvage},
};
use siltdb_base::{
    clock::ManualClock,
    fs::{
        Fs,
        mem::{Crash, MemFs},
    },
};
use siltdb_sim::draw::Draw;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Bytes between two that are flipped, except at the edges of a file.
const STEP: usize = 61;

/// At each end of a file so many bytes are all flipped.
const EDGE_BYTES: usize = 24;

/// Pairs by family. That of a branch has the branch's name before its own.
type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The values that a key of a family ever had.
type Ever = BTreeMap<String, BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>>;

struct Sample {
    fs: MemFs,
    state: State,
    ever: Ever,
}

fn options(fs: &MemFs) -> Options {
    let clock = Arc::new(ManualClock::at(Duration::from_millis(1_000)));
    let options = Options::new().fs(Arc::new(fs.clone())).clock(clock).seed(11).workers(0);
    options.memtable_bytes(8 << 10).memory_budget(1 << 20).default_family(family_options())
}

fn family_options() -> FamilyOptions {
    FamilyOptions::new().block_bytes(1 << 10)
}

/// All families, of the database itself and of its branches.
fn families(db: &Db) -> siltdb::Result<BTreeMap<String, Family>> {
    let mut families = BTreeMap::new();
    for name in db.families() {
        families.insert(name.clone(), db.family(&name)?);
    }
    for info in db.branches() {
        let branch = db.branch(&info.name)?;
        for name in &info.families {
            families.insert(format!("{}/{name}", info.name), branch.family(name)?);
        }
    }
    Ok(families)
}

fn state(db: &Db) -> siltdb::Result<State> {
    let mut state = State::new();
    for (label, family) in families(db)? {
        let mut pairs = BTreeMap::new();
        for pair in family.iter()? {
            let (key, value) = pair?;
            pairs.insert(key.to_vec(), value.to_vec());
        }
        state.insert(label, pairs);
    }
    Ok(state)
}

/// Writes to all families, and notes the values of their keys.
fn write(db: &Db, rounds: std::ops::Range<u32>, draw: &mut Draw, ever: &mut Ever) {
    for round in rounds {
        for (label, family) in families(db).unwrap() {
            let key = |draw: &mut Draw| format!("key:{:03}", draw.below(60));
            for _ in 0..6 {
                let text = format!("{label} {round} ");
                let more = draw.within(0..=60) as usize;
                let (key, value) = (key(draw), [text.as_bytes(), &draw.bytes(more)].concat());
                family.put(&key, &value).unwrap();
                // Also one that the next operation replaces: a log that is cut ends with it.
                let of_family = ever.entry(label.clone()).or_default();
                of_family.entry(key.into_bytes()).or_default().insert(value);
            }
            family.delete(key(draw)).unwrap();
            if draw.chance(1, 4) {
                let from = draw.below(57);
                let range = format!("key:{from:03}")..format!("key:{:03}", from + 3);
                family.delete_range(range).unwrap();
            }
        }
        if round % 4 == 3 {
            db.flush().unwrap();
        }
    }
}

/// A family of two, cloned and branched, of which both sides go on; one is frozen, and some of it
/// is in the log alone.
fn sample() -> Sample {
    let fs = MemFs::new();
    let db = options(&fs).cold_directory("../cold").open("db").unwrap();
    let other = db.create_family("other", family_options()).unwrap();
    let (mut draw, mut ever) = (Draw::new(5, 5), Ever::new());
    write(&db, 0..8, &mut draw, &mut ever);
    db.compact().unwrap();
    write(&db, 8..12, &mut draw, &mut ever);
    db.clone_family(&other, "copy").unwrap();
    db.create_branch("side").unwrap();
    // A copy has seen what its source had.
    for (copy, source) in [
        ("copy", "other"),
        ("side/default", "default"),
        ("side/other", "other"),
        ("side/copy", "other"),
    ] {
        let of_source = ever[source].clone();
        ever.insert(copy.to_owned(), of_source);
    }
    write(&db, 12..20, &mut draw, &mut ever);
    other.freeze().unwrap();
    write(&db, 20..22, &mut draw, &mut ever);
    let state = state(&db).unwrap();
    db.close().unwrap();
    let sample = Sample { fs, state, ever };
    let files = sample.files();
    let has = |dir: &str| files.iter().any(|(path, _)| path.starts_with(dir) && is_table(path));
    assert!(has("db") && has("cold"), "{files:?}");
    assert_eq!(sample.state.len(), 6, "{:?}", sample.state.keys());
    sample
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "table")
}

/// What a sweep has met.
#[derive(Debug, Default)]
struct Met {
    damages: u64,
    errors: u64,
    /// Damages after which the manifest was whole, and some entries were lost.
    partly_lost: u64,
    /// Pairs of the last state that were saved, and all of them, of these damages.
    saved: usize,
    pairs: usize,
}

impl Sample {
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        for dir in ["db", "cold"] {
            for (name, length) in self.fs.list_lengths(Path::new(dir)).unwrap() {
                if length > 0 {
                    let path = Path::new(dir).join(name);
                    let bytes = self.fs.read_all(&path).unwrap();
                    files.push((path, bytes));
                }
            }
        }
        files.sort();
        files
    }

    /// Damages a copy, reads it, and salvages it.
    fn damaged(&self, what: &str, met: &mut Met, damage: impl FnOnce(&MemFs)) {
        let fs = self.fs.crash_clone(Crash::Kill);
        damage(&fs);
        let read = options(&fs.crash_clone(Crash::Kill)).create(Create::Never).open("db");
        let found = read.and_then(|db| state(&db));
        if let Ok(found) = &found {
            assert!(*found == self.state, "{what}: a reader is told something else");
        }
        met.damages += 1;
        met.errors += u64::from(found.is_err());
        // Without a manifest, the option names the cold directory.
        let salvaging = options(&fs).cold_directory("../cold");
        let foretold = dry_run("db", salvaging.clone(), &mut |_| {});
        let report = salvage("db", "saved", salvaging, &mut |_| {});
        let report = report.unwrap_or_else(|error| panic!("{what}: nothing was saved: {error}"));
        let foretold = format!("{:?}", foretold.unwrap());
        assert_eq!(foretold, format!("{report:?}"), "{what}: a dry run foretold something else");
        let db = options(&fs).create(Create::Never).open("saved").unwrap();
        self.compare(what, &report, &state(&db).unwrap(), met);
    }

    fn compare(&self, what: &str, report: &SalvageReport, saved: &State, met: &mut Met) {
        if report.manifest == ManifestState::Lost {
            // Which family a table is of is told by the table: by the one that wrote it.
            let ever = |key: &Vec<u8>, value: &Vec<u8>| {
                let mut of_families = self.ever.values().filter_map(|keys| keys.get(key));
                of_families.any(|values| values.contains(value))
            };
            let mut pairs = saved.values().flatten();
            assert!(
                pairs.all(|(key, value)| ever(key, value)),
                "{what}: never written: {report:?}"
            );
            assert!(saved.values().any(|pairs| !pairs.is_empty()), "{what}: nothing was saved");
            return;
        }
        let nothing = BTreeMap::new();
        let labels: BTreeSet<&String> = self.state.keys().chain(saved.keys()).collect();
        let mut is_any_lost = false;
        for label in labels {
            let name = label.split_once('/').map_or(&label[..], |(_, name)| name);
            let is_lost = |key: &[u8]| {
                report.lost.iter().any(|lost| lost.may_hold(label, key) || lost.may_hold(name, key))
            };
            let found = saved.get(label).unwrap_or(&nothing);
            let right = self.state.get(label);
            let right = right.unwrap_or_else(|| panic!("{what}: a family {label}: {report:?}"));
            for (key, value) in found {
                let known = self.ever[label].get(key);
                assert!(
                    known.is_some_and(|values| values.contains(value)),
                    "{what}: {label}/{key:?} has {value:?}, never written: {report:?}"
                );
            }
            for key in self.ever[label].keys() {
                let is_same = found.get(key) == right.get(key);
                assert!(is_same || is_lost(key), "{what}: {label}/{key:?}: {report:?}");
                is_any_lost |= is_lost(key);
                met.saved += usize::from(right.contains_key(key) && is_same);
                met.pairs += usize::from(right.contains_key(key));
            }
        }
        assert!(is_any_lost || report.is_complete(), "{what}: {report:?}");
        met.partly_lost += u64::from(is_any_lost);
    }
}

#[test]
fn a_salvage_of_healthy_copies_is_complete() {
    let (sample, mut met) = (sample(), Met::default());
    sample.damaged("nothing", &mut met, |_| ());
    assert_eq!((met.errors, met.partly_lost), (0, 0), "{met:?}");
    assert_eq!(met.saved, met.pairs);
    sample.damaged("no CURRENT", &mut met, |fs| fs.remove(Path::new("db/CURRENT")).unwrap());
    assert_eq!((met.partly_lost, met.saved), (0, met.pairs), "{met:?}");
}

#[test]
fn a_flipped_bit_in_copies_is_detected_and_the_rest_is_saved() {
    let (sample, mut met) = (sample(), Met::default());
    for (path, bytes) in sample.files() {
        let is_edge = |offset: usize| offset < EDGE_BYTES || offset + EDGE_BYTES >= bytes.len();
        let is_zero = |offset: usize| {
            bytes[offset.saturating_sub(8)..bytes.len().min(offset + 8)].iter().all(|b| *b == 0)
        };
        let offsets =
            (0..bytes.len()).filter(|&at| (is_edge(at) || at % STEP == 0) && !is_zero(at));
        for offset in offsets {
            let what = format!("bit {} of byte {offset} of {}", offset % 8, path.display());
            sample.damaged(&what, &mut met, |fs| {
                fs.bytes_flip(&path, offset as u64, 1 << (offset % 8)).unwrap();
            });
        }
    }
    println!("{met:?}");
    assert!(met.damages > 300 && met.errors > met.damages / 2 && met.partly_lost > 50, "{met:?}");
    // A flip costs a block, not a family.
    assert!(met.saved > met.pairs / 2, "{met:?}");
}

#[test]
fn a_file_of_copies_that_is_cut_or_missing_is_detected_and_the_rest_is_saved() {
    let (sample, mut met) = (sample(), Met::default());
    for (path, bytes) in sample.files() {
        for part in 1..12_u64 {
            let len = bytes.len() as u64 * part / 12;
            let what = format!("{} cut to {len} bytes", path.display());
            sample.damaged(&what, &mut met, |fs| fs.truncate(&path, len).unwrap());
        }
        let what = format!("{} missing", path.display());
        sample.damaged(&what, &mut met, |fs| fs.remove(&path).unwrap());
    }
    println!("{met:?}");
    assert!(met.errors > 20 && met.partly_lost > 20, "{met:?}");
    assert!(met.saved > met.pairs / 2, "{met:?}");
}
