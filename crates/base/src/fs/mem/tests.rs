//! What a crash of a memory file system keeps, may lose, and never invents.

use super::{
    Call, CallKind, Crash, Fault, FaultError, FaultSpan, MemFs, content::SECTOR_BYTES, seed::Seed,
};
use crate::{
    error::ErrorKind,
    fs::{Fs, LockKind, LogFile, LogFileOptions, LogIo, Metadata},
    limits::WRITE_BUFFER_BYTES,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn open_log(fs: &MemFs, name: &str, capacity: u64) -> Arc<dyn LogFile> {
    fs.open_log(path(name), LogFileOptions { capacity, io: LogIo::Auto }).unwrap()
}

fn write(fs: &MemFs, name: &str, bytes: &[u8]) {
    let mut file = fs.create(path(name)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn names(fs: &MemFs, dir: &str) -> Vec<String> {
    fs.list(path(dir)).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn image(fs: &MemFs) -> Vec<(String, Vec<u8>)> {
    let bytes = |name: String| {
        let bytes = fs.read_all(path(&name)).unwrap();
        (name, bytes)
    };
    names(fs, "").into_iter().map(bytes).collect()
}

/// A file by the sector: what each may hold after a loss of power.
struct Sectors {
    current: Vec<u8>,
    durable: Vec<u8>,
    versions: Vec<Vec<u8>>,
}

impl Sectors {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.current.resize(self.current.len().max(offset + bytes.len()), 0);
        self.current[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.versions.push(self.current.clone());
    }

    fn sync(&mut self) {
        self.durable.clone_from(&self.current);
        self.versions = vec![self.durable.clone()];
    }

    fn check(&self, found: &[u8], seed: u64) {
        let len = found.len();
        assert!((self.durable.len()..=self.current.len()).contains(&len), "seed {seed}: {len}");
        for (index, sector) in found.chunks(SECTOR_BYTES as usize).enumerate() {
            let start = index * SECTOR_BYTES as usize;
            let known = self.versions.iter().any(|version| {
                (0..sector.len()).all(|at| sector[at] == *version.get(start + at).unwrap_or(&0))
            });
            assert!(known, "seed {seed}: sector {index} was never written so");
        }
    }
}

#[test]
fn power_loss_leaves_each_sector_as_it_once_was() {
    let (mut lost, mut kept, mut mixed, mut shorter) = (0, 0, 0, 0);
    for seed in 0..400 {
        let mut draw = Seed::new(seed, 1);
        let fs = MemFs::new();
        let log = open_log(&fs, "log", 1 << 20);
        fs.sync_dir(path("")).unwrap();
        let mut sectors = Sectors { current: vec![], durable: vec![], versions: vec![vec![]] };
        for _ in 0..draw.below(30) {
            let offset = draw.below(12_000) as usize;
            let bytes = vec![draw.next() as u8; 1 + draw.below(3000) as usize];
            match draw.below(8) {
                0 => {
                    log.sync(u64::MAX).unwrap();
                    sectors.sync();
                }
                1 => {
                    log.prepare(offset as u64).unwrap();
                    sectors.write(offset.min(sectors.current.len()), &[]);
                    sectors.current.resize(sectors.current.len().max(offset), 0);
                }
                _ => {
                    log.fill(offset as u64, &[&bytes[..1], &bytes[1..]]).unwrap();
                    sectors.write(offset, &bytes);
                }
            }
            assert!(fs.read_all(path("log")).unwrap() == sectors.current, "seed {seed}");
        }
        for crash in 0..8 {
            let after = fs.crash_clone(Crash::PowerLoss { seed: crash });
            let found = after.read_all(path("log")).unwrap();
            sectors.check(&found, seed);
            lost += usize::from(found == sectors.durable);
            kept += usize::from(found == sectors.current);
            mixed += usize::from(found != sectors.durable && found != sectors.current);
            shorter += usize::from(found.len() < sectors.current.len());
        }
    }
    assert!([lost, kept, mixed, shorter].iter().all(|&count| count > 100), "nothing was at stake");
}

#[test]
fn one_write_can_be_torn_at_any_sector() {
    let fs = MemFs::new();
    write(&fs, "log", &[1; 4096]);
    fs.sync_dir(path("")).unwrap();
    open_log(&fs, "log", 4096).fill(0, &[&[2; 4096]]).unwrap();
    let mut torn = BTreeSet::new();
    for seed in 0..300 {
        let bytes = fs.crash_clone(Crash::PowerLoss { seed }).read_all(path("log")).unwrap();
        let sectors = bytes.chunks(SECTOR_BYTES as usize);
        assert!(sectors.clone().all(|s| s == [1; 512] || s == [2; 512]), "seed {seed}");
        torn.insert(sectors.map(|sector| sector[0]).collect::<Vec<_>>());
    }
    assert!(torn.contains(&vec![1; 8]) && torn.contains(&vec![2; 8]));
    assert!(torn.len() > 30, "{} ways to tear", torn.len());
}

#[test]
fn synced_bytes_survive_power_loss_whatever_follows() {
    let fs = MemFs::new();
    write(&fs, "table", &[7; 10_000]);
    let log = open_log(&fs, "log", 1 << 20);
    log.fill(0, &[&[1; 5000]]).unwrap();
    log.sync(u64::MAX).unwrap();
    fs.sync_dir(path("")).unwrap();
    log.fill(5000, &[&[2; 5000]]).unwrap();
    for seed in 0..200 {
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        assert_eq!(after.read_all(path("table")).unwrap(), [7; 10_000], "seed {seed}");
        assert_eq!(after.read_all(path("log")).unwrap()[..5000], [1; 5000], "seed {seed}");
    }
}

#[test]
fn kill_keeps_every_completed_call() {
    let fs = MemFs::new();
    fs.create_dir_all(path("a/b")).unwrap();
    let mut file = fs.create(path("a/b/table")).unwrap();
    file.append(b"flushed").unwrap();
    file.flush().unwrap();
    file.append(b"held back").unwrap();
    fs.rename(path("a/b/table"), path("table")).unwrap();
    let log = open_log(&fs, "log", 100);
    log.fill(10, &[b"filled"]).unwrap();
    let after = fs.crash_clone(Crash::Kill);
    assert_eq!(after.read_all(path("table")).unwrap(), b"flushed");
    assert_eq!(after.read_all(path("log")).unwrap(), b"\0\0\0\0\0\0\0\0\0\0filled");
    assert_eq!(names(&after, "a/b"), Vec::<String>::new());
    assert_eq!(after.space_used(), 7 + 16);
    // A kill makes nothing durable.
    let lost = (0..50).map(|seed| after.crash_clone(Crash::PowerLoss { seed }));
    assert!(lost.into_iter().any(|fs| names(&fs, "").is_empty()));
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let fs = MemFs::new();
    for name in ["a", "b", "c", "d"] {
        let log = open_log(&fs, name, 1 << 16);
        (0..20).for_each(|index| log.fill(index * 700, &[&[index as u8 + 1; 900]]).unwrap());
    }
    fs.rename(path("a"), path("e")).unwrap();
    let crash = |seed| image(&fs.crash_clone(Crash::PowerLoss { seed }));
    let images: BTreeSet<_> = (0..100).map(crash).collect();
    assert!(images.len() > 50, "seeds hardly differ: {}", images.len());
    assert!((0..100).all(|seed| crash(seed) == crash(seed)));
}

/// The states in which a file system may come back, as sorted lists of `name=content`.
fn outcomes(fs: &MemFs) -> BTreeSet<String> {
    let show = |seed| {
        let image = image(&fs.crash_clone(Crash::PowerLoss { seed }));
        let words = image
            .into_iter()
            .map(|(name, bytes)| format!("{name}={}", String::from_utf8(bytes).unwrap()));
        words.collect::<Vec<_>>().join(" ")
    };
    (0..300).map(show).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn an_unsynced_rename_happens_whole_or_not_at_all() {
    let fs = MemFs::new();
    write(&fs, "new", b"2");
    write(&fs, "current", b"1");
    fs.sync_dir(path("")).unwrap();
    fs.rename(path("new"), path("current")).unwrap();
    assert_eq!(outcomes(&fs), set(&["current=1 new=2", "current=2"]));
    fs.sync_dir(path("")).unwrap();
    assert_eq!(outcomes(&fs), set(&["current=2"]));
}

#[test]
fn unsynced_entries_are_kept_in_any_subset() {
    let fs = MemFs::new();
    write(&fs, "old", b"1");
    fs.sync_dir(path("")).unwrap();
    fs.remove(path("old")).unwrap();
    write(&fs, "new", b"2");
    assert_eq!(outcomes(&fs), set(&["", "new=2", "new=2 old=1", "old=1"]));
    fs.hard_link(path("new"), path("second")).unwrap();
    fs.sync_dir(path("")).unwrap();
    assert_eq!(outcomes(&fs), set(&["new=2 second=2"]));
}

#[test]
fn a_file_created_removed_and_created_again_has_either_content_or_none() {
    let fs = MemFs::new();
    write(&fs, "a", b"1");
    fs.remove(path("a")).unwrap();
    write(&fs, "a", b"2");
    assert_eq!(outcomes(&fs), set(&["", "a=1", "a=2"]));
}

#[test]
fn a_rename_between_directories_never_loses_the_file() {
    for synced in ["from", "to", ""] {
        let fs = MemFs::new();
        fs.create_dir_all(path("from")).unwrap();
        fs.create_dir_all(path("to")).unwrap();
        write(&fs, "from/a", b"1");
        for dir in ["", "from", "to"] {
            fs.sync_dir(path(dir)).unwrap();
        }
        fs.rename(path("from/a"), path("to/b")).unwrap();
        fs.sync_dir(path(synced)).unwrap();
        for seed in 0..100 {
            let after = fs.crash_clone(Crash::PowerLoss { seed });
            let found = ["from/a", "to/b"].map(|name| after.read_all(path(name)).is_ok());
            assert!(found[0] || found[1], "{synced}, seed {seed}");
            assert!(synced.is_empty() || found[1], "{synced}, seed {seed}");
            assert!(synced != "from" || !found[0], "seed {seed}");
        }
    }
}

#[test]
fn a_durable_rename_hides_older_unsynced_entries_of_its_name() {
    let fs = MemFs::new();
    fs.create_dir_all(path("from")).unwrap();
    fs.create_dir_all(path("to")).unwrap();
    fs.sync_dir(path("")).unwrap();
    write(&fs, "to/a", b"old");
    write(&fs, "from/a", b"new");
    fs.rename(path("from/a"), path("to/a")).unwrap();
    fs.sync_dir(path("from")).unwrap();
    for seed in 0..50 {
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        assert_eq!(after.read_all(path("to/a")).unwrap(), b"new", "seed {seed}");
    }
}

#[test]
fn an_unsynced_directory_takes_its_synced_files_along() {
    let fs = MemFs::new();
    fs.create_dir_all(path("db")).unwrap();
    write(&fs, "db/a", b"1");
    fs.sync_dir(path("db")).unwrap();
    let exists = |seed| {
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        let found = after.metadata(path("db")).unwrap().is_some();
        assert_eq!(after.read_all(path("db/a")).is_ok(), found, "seed {seed}");
        found
    };
    let found: BTreeSet<_> = (0..50).map(exists).collect();
    assert_eq!(found.len(), 2);
    fs.sync_dir(path("")).unwrap();
    assert!((0..50).all(exists));
}

#[test]
fn a_call_in_progress_leaves_a_part() {
    let fs = MemFs::new();
    let log = open_log(&fs, "log", 1 << 20);
    let lens = Arc::new(Mutex::new(Vec::new()));
    let (inner, seen) = (fs.clone(), Arc::clone(&lens));
    fs.on_call(Some(Arc::new(move |call: Call<'_>| {
        assert!(call.kind.is_mutating());
        if call.kind == CallKind::Fill {
            let after = inner.crash_clone(Crash::Kill);
            let len = after.metadata(path("log")).unwrap();
            seen.lock().unwrap().push((call.number, call.offset, call.bytes, len));
        }
    })));
    for index in 0..100 {
        log.fill(index * 100, &[&[1; 100]]).unwrap();
        fs.read_all(path("log")).unwrap();
    }
    fs.on_call(None);
    let lens = lens.lock().unwrap();
    assert_eq!(lens.len(), 100);
    let mut parts = BTreeSet::new();
    for (index, &(number, offset, bytes, metadata)) in lens.iter().enumerate() {
        let Some(Metadata::File { len }) = metadata else { panic!("the file is there") };
        assert_eq!((offset, bytes), (index as u64 * 100, 100));
        assert_eq!(number, index as u64 + 2);
        assert!((offset..=offset + 100).contains(&len));
        parts.insert(len - offset);
    }
    assert!(parts.contains(&0) && parts.contains(&100) && parts.len() > 20, "{parts:?}");
}

#[test]
fn a_fault_hits_the_nth_call_of_its_kind_once_or_from_then_on() {
    let fs = MemFs::new();
    let fault = |nth, span| Fault { kind: Some(CallKind::Fill), nth, span, error: FaultError::Io };
    let log = open_log(&fs, "log", 1000);
    let fill = || log.fill(0, &[&[1; 10]]).map_err(|error| error.kind());
    fs.set_fault(Some(fault(3, FaultSpan::Once)));
    let results: Vec<_> = (0..5).map(|_| fill().is_ok()).collect();
    assert_eq!(results, [true, true, false, true, true]);
    fs.set_fault(Some(fault(2, FaultSpan::FromThenOn)));
    let results: Vec<_> = (0..4).map(|_| fill().is_ok()).collect();
    assert_eq!(results, [true, false, false, false]);
    assert!(log.sync(u64::MAX).is_ok(), "other kinds do not fail");
    fs.set_fault(None);
    assert!(fill().is_ok());
    assert_eq!(fs.faults(), 4);
    let any = Fault { kind: None, nth: 1, span: FaultSpan::Once, error: FaultError::NoSpace };
    fs.set_fault(Some(any));
    assert_eq!(fs.list(path("")).unwrap_err().kind(), ErrorKind::NoSpace);
}

#[test]
fn a_fault_set_by_the_observer_hits_the_observed_call() {
    let fs = MemFs::new();
    let log = open_log(&fs, "log", 1000);
    let inner = fs.clone();
    fs.on_call(Some(Arc::new(move |call: Call<'_>| {
        if call.kind == CallKind::Fill && call.offset == 100 {
            let (kind, span, error) = (None, FaultSpan::FromThenOn, FaultError::Io);
            inner.set_fault(Some(Fault { kind, nth: 1, span, error }));
        }
    })));
    log.fill(0, &[&[1; 100]]).unwrap();
    let calls = fs.calls();
    assert_eq!(log.fill(100, &[&[2; 100]]).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(log.fill(200, &[&[3; 100]]).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!((fs.calls(), fs.faults()), (calls + 2, 2));
    let bytes = fs.read_all(path("log")).unwrap();
    assert_eq!(bytes[100..150], [2; 50], "a failed fill leaves its first half");
    assert_eq!(bytes[150..200], [0; 50]);
}

#[test]
fn what_a_failed_sync_gave_up_no_later_sync_saves() {
    let fs = MemFs::new();
    let log = open_log(&fs, "log", 1 << 20);
    fs.sync_dir(path("")).unwrap();
    let mut given_up = 0;
    for round in 0..40_u64 {
        let offset = round * 8192;
        log.fill(offset, &[&[1; 4096]]).unwrap();
        let kind = Some(CallKind::Sync);
        let error = FaultError::Io;
        fs.set_fault(Some(Fault { kind, nth: 1, span: FaultSpan::Once, error }));
        assert_eq!(log.sync(u64::MAX).unwrap_err().kind(), ErrorKind::Io);
        log.fill(offset + 4096, &[&[2; 4096]]).unwrap();
        log.sync(u64::MAX).unwrap();
        let bytes = fs.crash_clone(Crash::PowerLoss { seed: 0 }).read_all(path("log")).unwrap();
        let at = offset as usize;
        assert_eq!(bytes[at + 4096..at + 8192], [2; 4096]);
        given_up += usize::from(bytes[at..at + 4096] != [1; 4096]);
        assert_eq!(fs.read_all(path("log")).unwrap()[at..at + 4096], [1; 4096]);
    }
    assert!((5..40).contains(&given_up), "{given_up}");
}

#[test]
fn a_full_file_system_refuses_growth_until_space_returns() {
    let fs = MemFs::with_space_limit(1000);
    write(&fs, "a", &[1; 600]);
    let log = open_log(&fs, "log", 10_000);
    log.prepare(400).unwrap();
    assert_eq!(fs.space_used(), 1000);
    assert_eq!(log.prepare(401).unwrap_err().kind(), ErrorKind::NoSpace);
    log.fill(0, &[&[2; 400]]).unwrap();
    assert_eq!(log.fill(300, &[&[3; 200]]).unwrap_err().kind(), ErrorKind::NoSpace);
    let mut file = fs.create(path("b")).unwrap();
    file.append(&[4; 10]).unwrap();
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(file.append(&[4]).unwrap_err().kind(), ErrorKind::Poisoned);
    let open = fs.open(path("a")).unwrap();
    fs.remove(path("a")).unwrap();
    assert_eq!(fs.space_used(), 1000, "an open file takes space");
    drop(open);
    assert_eq!(fs.space_used(), 400);
    log.fill(300, &[&[3; 200]]).unwrap();
    assert_eq!(fs.space_used(), 500);
    fs.sync_dir(path("")).unwrap();
    assert_eq!(fs.crash_clone(Crash::Kill).space_used(), 500);
}

#[test]
fn an_open_file_outlives_its_name() {
    let fs = MemFs::new();
    write(&fs, "a", b"first");
    write(&fs, "b", b"second");
    let (a, b) = (fs.open(path("a")).unwrap(), fs.open(path("b")).unwrap());
    fs.remove(path("a")).unwrap();
    fs.rename(path("b"), path("c")).unwrap();
    write(&fs, "a", b"third");
    fs.sync_dir(path("")).unwrap();
    let mut bytes = [0; 5];
    a.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"first");
    b.read_exact_at(&mut bytes, 1).unwrap();
    assert_eq!(&bytes, b"econd");
    let error = b.read_exact_at(&mut bytes, 2).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(2)));
}

#[test]
fn appended_bytes_show_when_flushed_or_when_the_buffer_is_full() {
    let fs = MemFs::new();
    let mut file = fs.create(path("a")).unwrap();
    file.append(&vec![1; WRITE_BUFFER_BYTES]).unwrap();
    assert_eq!(fs.read_all(path("a")).unwrap().len(), 0);
    file.append(&[2]).unwrap();
    assert_eq!(fs.read_all(path("a")).unwrap().len(), WRITE_BUFFER_BYTES);
    file.append(&vec![3; WRITE_BUFFER_BYTES + 5]).unwrap();
    let all = 2 * WRITE_BUFFER_BYTES + 6;
    assert_eq!(fs.read_all(path("a")).unwrap().len(), all);
    file.append(&[4]).unwrap();
    assert_eq!(file.len(), all as u64 + 1);
    file.flush().unwrap();
    assert_eq!(fs.read_all(path("a")).unwrap().len(), all + 1);
}

#[test]
fn a_lock_is_exclusive_and_a_crash_frees_it() {
    let fs = MemFs::new();
    fs.create_dir_all(path("y")).unwrap();
    let try_lock = |fs: &MemFs, name: &str| fs.lock(path(name), LockKind::Exclusive);
    let lock = try_lock(&fs, "LOCK").unwrap();
    fs.hard_link(path("LOCK"), path("y/other")).unwrap();
    // A second name in another directory is parted from it, as in a copy by hard links.
    let other = try_lock(&fs, "y/other").unwrap();
    assert_eq!(fs.inode(path("LOCK")).unwrap().links, 1);
    drop(other);
    for name in ["LOCK", "./x/../LOCK", "beside"] {
        assert_eq!(try_lock(&fs, name).unwrap_err().kind(), ErrorKind::Locked, "{name}");
    }
    assert!(try_lock(&fs.crash_clone(Crash::Kill), "LOCK").is_ok());
    drop(lock);
    assert!(try_lock(&fs, "LOCK").is_ok());
}

#[test]
fn what_is_touched_beside_the_locked_directory_is_noted() {
    let fs = MemFs::new();
    for dir in ["db", "elsewhere"] {
        fs.create_dir_all(path(dir)).unwrap();
    }
    write(&fs, "elsewhere/before", b"");
    let held = fs.open_dir(path("db")).unwrap();
    let lock = held.lock(path("LOCK"), LockKind::Exclusive).unwrap();
    held.create(path("a")).unwrap();
    held.rename(path("a"), path("b")).unwrap();
    fs.open(path("db/b")).unwrap();
    assert_eq!(fs.strays(), Vec::<PathBuf>::new());
    fs.set_working_directory(path("elsewhere")).unwrap();
    fs.create(path("c")).unwrap();
    fs.remove(path("before")).unwrap();
    held.remove(path("b")).unwrap();
    assert_eq!(fs.strays(), [path("c"), path("before")]);
    // Another process gives it another name, for good; it stays the one that is locked.
    fs.move_directory(path("/db"), path("/moved")).unwrap();
    held.create(path("e")).unwrap().sync().unwrap();
    held.sync_dir(path("")).unwrap();
    assert_eq!(fs.strays().len(), 2);
    let later = fs.crash_clone(Crash::PowerLoss { seed: 1 });
    assert!(later.read_all(path("/moved/e")).is_ok() && later.read_all(path("/db/e")).is_err());
    drop(lock);
    fs.create(path("d")).unwrap();
    assert_eq!(fs.strays().len(), 2, "nothing is locked");
}

#[test]
fn a_locked_directory_may_be_renamed_and_nothing_else_outside() {
    let fs = MemFs::new();
    for dir in ["db", "copy.partial", "other"] {
        fs.create_dir_all(path(dir)).unwrap();
    }
    write(&fs, "file", b"");
    let held = fs.open_dir(path("db")).unwrap();
    held.create(path("a")).unwrap();
    let _lock = held.lock(path("LOCK"), LockKind::Exclusive).unwrap();
    let copy = fs.open_dir(path("copy.partial")).unwrap();
    let copy_lock = copy.lock(path("LOCK"), LockKind::Exclusive).unwrap();
    fs.rename(path("copy.partial"), path("copy")).unwrap();
    held.hard_link_into(path("a"), &*fs.open_dir(path("copy")).unwrap(), path("a")).unwrap();
    assert_eq!(fs.strays(), Vec::<PathBuf>::new());
    // Out of a locked directory, into one, a file beside it, another directory.
    fs.rename(path("db/a"), path("a")).unwrap();
    fs.rename(path("file"), path("db/file")).unwrap();
    assert_eq!(fs.strays(), [path("a"), path("file")]);
    fs.rename(path("a"), path("b")).unwrap();
    fs.rename(path("other"), path("another")).unwrap();
    assert_eq!(fs.strays()[2..], ["a", "b", "other", "another"].map(path));
    drop(copy_lock);
    fs.rename(path("copy"), path("late")).unwrap();
    assert_eq!(fs.strays()[6..], [path("copy"), path("late")]);
}

#[test]
fn damage_is_done_at_once_and_for_good() {
    let fs = MemFs::new();
    fs.write_all(path("a"), b"abc").unwrap();
    fs.bytes_flip(path("a"), 1, 0x20).unwrap();
    assert_eq!(fs.bytes_flip(path("a"), 3, 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    fs.truncate(path("a"), 2).unwrap();
    assert_eq!(fs.crash_clone(Crash::PowerLoss { seed: 3 }).read_all(path("a")).unwrap(), b"aB");
    fs.truncate(path("a"), 4).unwrap();
    assert_eq!(fs.read_all(path("a")).unwrap(), b"aB\0\0");
    assert_eq!(fs.space_used(), 4);
    let error = fs.write_all(&PathBuf::from("missing/a"), b"").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_fill_past_the_capacity_is_refused() {
    let fs = MemFs::new();
    let log = open_log(&fs, "log", 100);
    log.fill(90, &[&[1; 10]]).unwrap();
    assert_eq!(log.fill(91, &[&[1; 10]]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(log.fill(u64::MAX, &[&[1; 10]]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    log.prepare(1000).unwrap();
    assert_eq!(fs.space_used(), 100);
}

#[test]
fn a_sync_up_to_somewhere_leaves_what_lies_behind_unsynced() {
    let fs = MemFs::new();
    let log = open_log(&fs, "log", 64 << 10);
    fs.sync_dir(path("")).unwrap();
    log.fill(0, &[&[1; 512]]).unwrap();
    log.fill(32 << 10, &[&[2; 512]]).unwrap();
    log.sync(512).unwrap();
    let lost = fs.crash_clone(Crash::PowerLoss { seed: 0 });
    assert_eq!(lost.read_all(path("log")).unwrap()[..512], [1; 512]);
    let survives = |seed| {
        let bytes = fs.crash_clone(Crash::PowerLoss { seed }).read_all(path("log")).unwrap();
        bytes.len() > 32 << 10 && bytes[32 << 10..][..512] == [2; 512]
    };
    let survivors = (0..64).filter(|&seed| survives(seed)).count();
    assert!((1..64).contains(&survivors), "{survivors}");
}

#[test]
fn a_shortened_log_is_that_long_or_longer_after_power_loss_and_keeps_what_was_synced() {
    let fs = MemFs::new();
    let log = open_log(&fs, "log", 10_000);
    log.fill(0, &[&[7; 9_000]]).unwrap();
    log.sync(u64::MAX).unwrap();
    fs.sync_dir(path("")).unwrap();
    let used = fs.space_used();
    log.shorten(3_000).unwrap();
    assert_eq!(fs.space_used(), used - 6_000);
    log.shorten(8_000).unwrap();
    assert_eq!(fs.read_all(path("log")).unwrap(), [7; 3_000]);
    let mut lengths = BTreeSet::new();
    for seed in 0..100 {
        let after = fs.crash_clone(Crash::PowerLoss { seed }).read_all(path("log")).unwrap();
        assert!(after.iter().all(|&byte| byte == 7));
        lengths.insert(after.len());
    }
    assert!(lengths.first() == Some(&3_000) && lengths.last() == Some(&9_000), "{lengths:?}");
}

/// As on a file system of the operating system's, where the length is no part of any page.
#[test]
fn a_sync_of_a_part_makes_the_length_durable() {
    for seed in 0..100 {
        let fs = MemFs::new();
        let log = open_log(&fs, "log", 1 << 20);
        fs.sync_dir(Path::new("")).unwrap();
        log.prepare(64 << 10).unwrap();
        log.fill(0, &[b"first"]).unwrap();
        log.sync(5).unwrap();
        log.fill(1000, &[b"second"]).unwrap();
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        assert_eq!(after.read_all(Path::new("log")).unwrap().len(), 64 << 10, "seed {seed}");
    }
}
