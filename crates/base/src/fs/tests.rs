//! The file systems of the system and of memory do the same for the same calls.

use super::{File, Fs, LockKind, LogFile, LogFileOptions, LogIo, WriteFile, mem::MemFs, os::OsFs};
use crate::error::{Error, ErrorKind, Result};
use proptest::{prelude::*, test_runner::Config};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

const CAPACITY: u64 = 700_000;

#[derive(Clone, Debug)]
enum Step {
    CreateDir(PathBuf),
    Create(PathBuf, usize),
    /// Appends to one of the files being written, and may flush or sync it.
    Append(usize, usize, u8),
    Close(usize),
    Open(PathBuf),
    /// Reads from one of the open files.
    Read(usize, u64, usize),
    OpenLog(PathBuf, LogIo),
    Fill(usize, u64, usize),
    Prepare(usize, u64),
    /// Shortens one of the logs; no thread fills any of them afterwards.
    Shorten(usize, u64),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    RemoveDir(PathBuf),
    SyncDir(PathBuf),
    List(PathBuf),
    Metadata(PathBuf),
    /// Of the file `LOCK` in a directory.
    Lock(PathBuf, LockKind),
    Unlock,
}

fn a_path() -> impl Strategy<Value = PathBuf> {
    let name = || prop_oneof![Just("a"), Just("b"), Just("c")];
    prop_oneof![
        3 => name().prop_map(PathBuf::from),
        2 => (name(), name()).prop_map(|(dir, name)| Path::new(dir).join(name)),
        1 => (name(), name(), name()).prop_map(|(a, b, c)| Path::new(a).join(b).join(c)),
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    let size = || prop_oneof![0..100_usize, 0..300_000_usize];
    prop_oneof![
        2 => a_path().prop_map(Step::CreateDir),
        3 => (a_path(), size()).prop_map(|(path, size)| Step::Create(path, size)),
        3 => (0..4_usize, size(), 0..4_u8).prop_map(|(at, s, then)| Step::Append(at, s, then)),
        1 => (0..4_usize).prop_map(Step::Close),
        2 => a_path().prop_map(Step::Open),
        3 => (0..4_usize, 0..900_000_u64, size()).prop_map(|(at, o, s)| Step::Read(at, o, s)),
        2 => (a_path(), prop_oneof![Just(LogIo::Auto), Just(LogIo::Write)])
            .prop_map(|(path, io)| Step::OpenLog(path, io)),
        4 => (0..4_usize, 0..CAPACITY, size()).prop_map(|(at, o, s)| Step::Fill(at, o, s)),
        1 => (0..4_usize, 0..2 * CAPACITY).prop_map(|(at, end)| Step::Prepare(at, end)),
        1 => (0..4_usize, 0..2 * CAPACITY).prop_map(|(at, end)| Step::Shorten(at, end)),
        3 => (a_path(), a_path()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (a_path(), a_path()).prop_map(|(from, to)| Step::Link(from, to)),
        2 => a_path().prop_map(Step::Remove),
        1 => a_path().prop_map(Step::RemoveDir),
        1 => a_path().prop_map(Step::SyncDir),
        2 => a_path().prop_map(Step::List),
        1 => a_path().prop_map(Step::Metadata),
        1 => (a_path(), prop_oneof![Just(LockKind::Exclusive), Just(LockKind::Shared)])
            .prop_map(|(path, kind)| Step::Lock(path, kind)),
        1 => Just(Step::Unlock),
    ]
}

/// A file system at a root, and what is open in it.
struct World<'a> {
    fs: &'a dyn Fs,
    root: PathBuf,
    writing: Vec<Box<dyn WriteFile>>,
    reading: Vec<Arc<dyn File>>,
    logs: Vec<Arc<dyn LogFile>>,
    locks: Vec<Box<dyn super::FileLock>>,
}

fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 7 + size) as u8 | 1).collect()
}

fn pick<T>(items: &mut [T], at: usize) -> Result<&mut T> {
    let count = items.len().max(1);
    items.get_mut(at % count).ok_or_else(|| Error::invalid("nothing is open"))
}

impl<'a> World<'a> {
    fn new(fs: &'a dyn Fs, root: &Path) -> Self {
        let (writing, reading, logs, locks) = Default::default();
        Self { fs, root: root.to_owned(), writing, reading, logs, locks }
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    fn list(&self, path: &Path) -> Result<String> {
        let mut entries = self.fs.list(&self.at(path))?;
        entries.sort();
        // What the lock file holds is for messages, and each has its own.
        entries.retain(|entry| entry.name != "LOCK");
        Ok(entries.iter().map(|entry| format!("{} {:?}\n", entry.name, entry.kind)).collect())
    }

    fn step(&mut self, step: &Step) -> Result<String> {
        match step {
            Step::CreateDir(path) => self.fs.create_dir_all(&self.at(path))?,
            Step::Create(path, size) => {
                let mut file = self.fs.create(&self.at(path))?;
                file.append(&bytes(*size))?;
                self.writing.push(file);
            }
            Step::Append(at, size, then) => {
                let file = pick(&mut self.writing, *at)?;
                file.append(&bytes(*size))?;
                match then {
                    0 => file.flush()?,
                    1 => file.sync()?,
                    _ => {}
                }
                return Ok(file.len().to_string());
            }
            Step::Close(at) if self.writing.is_empty() => return Ok(at.to_string()),
            Step::Close(at) => drop(self.writing.remove(at % self.writing.len())),
            Step::Open(path) => {
                let file = self.fs.open(&self.at(path))?;
                let len = file.len();
                self.reading.push(file);
                return Ok(len.to_string());
            }
            Step::Read(at, offset, size) => {
                let mut buffer = vec![0; *size];
                let file = pick(&mut self.reading, *at)?;
                file.read_exact_at(&mut buffer, *offset % (file.len() + 1))?;
                return Ok(format!("{buffer:?}"));
            }
            Step::OpenLog(path, io) => {
                let options = LogFileOptions { capacity: CAPACITY, io: *io };
                let log = self.fs.open_log(&self.at(path), options)?;
                // How far ahead a file grows is not part of the contract; that it can, is.
                log.prepare(CAPACITY)?;
                self.logs.push(log);
            }
            Step::Fill(at, offset, size) => {
                let bytes = bytes(*size);
                let (head, tail) = bytes.split_at(size / 2);
                pick(&mut self.logs, *at)?.fill(*offset, &[head, tail])?;
            }
            Step::Prepare(at, end) => {
                let log = pick(&mut self.logs, *at)?;
                log.prepare(*end)?;
                log.release(*end);
                log.sync(u64::MAX)?;
            }
            Step::Shorten(at, end) => {
                pick(&mut self.logs, *at)?.shorten(*end)?;
                self.logs.clear();
            }
            Step::Rename(from, to) => self.fs.rename(&self.at(from), &self.at(to))?,
            Step::Link(from, to) => self.fs.hard_link(&self.at(from), &self.at(to))?,
            Step::Remove(path) => self.fs.remove(&self.at(path))?,
            Step::RemoveDir(path) => self.fs.remove_dir(&self.at(path))?,
            Step::SyncDir(path) => self.fs.sync_dir(&self.at(path))?,
            Step::List(path) => return self.list(path),
            Step::Metadata(path) => {
                return Ok(format!("{:?}", self.fs.metadata(&self.at(path))?));
            }
            Step::Lock(path, kind) => {
                self.locks.push(self.fs.lock(&self.at(path).join("LOCK"), *kind)?);
            }
            Step::Unlock => self.locks.clear(),
        }
        Ok(String::new())
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn memory_and_disk_agree(steps in prop::collection::vec(a_step(), 1..80)) {
        let dir = tempfile::tempdir().unwrap();
        let memory = MemFs::new();
        memory.create_dir_all(dir.path()).unwrap();
        let mut on_disk = World::new(&OsFs, dir.path());
        let mut in_memory = World::new(&memory, dir.path());
        for step in &steps {
            let results = [on_disk.step(step), in_memory.step(step)];
            let [disk, memory] = results.map(|result| result.map_err(|error| error.kind()));
            prop_assert!(disk == memory, "{step:?}: disk {disk:.100?}, memory {memory:.100?}");
        }
        for name in ["", "a", "b", "c", "a/a", "a/b", "b/a"] {
            let [disk, memory] = [&on_disk, &in_memory].map(|world| world.list(Path::new(name)));
            prop_assert_eq!(disk.map_err(|e| e.kind()), memory.map_err(|e| e.kind()));
        }
    }
}

/// The random steps must get somewhere, or agreement says nothing.
#[test]
fn a_typical_run_agrees_step_by_step() {
    let path = |name: &str| PathBuf::from(name);
    let steps = [
        (Step::CreateDir(path("a/b")), None),
        (Step::Create(path("a/b/c"), 500_000), None),
        (Step::Append(0, 10, 1), None),
        (Step::Open(path("a/b/c")), None),
        (Step::Rename(path("a/b/c"), path("c")), None),
        (Step::Read(0, 400_000, 100_000), None),
        (Step::Rename(path("a"), path("a/b/d")), Some(ErrorKind::Io)),
        (Step::Rename(path("a"), path("b")), None),
        (Step::Remove(path("b/b")), Some(ErrorKind::Io)),
        (Step::RemoveDir(path("b")), Some(ErrorKind::Io)),
        (Step::RemoveDir(path("b/b")), None),
        (Step::RemoveDir(path("b/b")), Some(ErrorKind::NotFound)),
        (Step::RemoveDir(path("c")), Some(ErrorKind::Io)),
        (Step::CreateDir(path("b/b")), None),
        (Step::Create(path("c"), 1), Some(ErrorKind::AlreadyExists)),
        (Step::Open(path("a/c")), Some(ErrorKind::NotFound)),
        (Step::Open(path("c/c")), Some(ErrorKind::Io)),
        (Step::Metadata(path("c/c")), Some(ErrorKind::Io)),
        (Step::OpenLog(path("b/c"), LogIo::Auto), None),
        (Step::Fill(0, 1000, 200_000), None),
        (Step::Fill(0, CAPACITY - 5, 6), Some(ErrorKind::InvalidArgument)),
        (Step::Shorten(0, 100_000), None),
        (Step::Fill(0, 0, 1), Some(ErrorKind::InvalidArgument)),
        (Step::Open(path("b/c")), None),
        (Step::Read(1, 0, 100_000), None),
        (Step::Read(1, 1, 100_000), Some(ErrorKind::Corruption)),
        // A lock that is refused leaves no lock file behind.
        (Step::CreateDir(path("d")), None),
        (Step::Lock(path("d"), LockKind::Shared), None),
        (Step::Lock(path("d"), LockKind::Exclusive), Some(ErrorKind::Locked)),
        (Step::RemoveDir(path("d")), None),
        (Step::Unlock, None),
        (Step::Lock(path("b"), LockKind::Shared), None),
        (Step::Lock(path("b"), LockKind::Shared), None),
        (Step::Lock(path("b"), LockKind::Exclusive), Some(ErrorKind::Locked)),
        (Step::Unlock, None),
        (Step::Lock(path("b"), LockKind::Exclusive), None),
        (Step::Lock(path("b"), LockKind::Exclusive), Some(ErrorKind::Locked)),
        (Step::Lock(path("b"), LockKind::Shared), Some(ErrorKind::Locked)),
        (Step::List(path("b")), None),
    ];
    let dir = tempfile::tempdir().unwrap();
    let memory = MemFs::new();
    memory.create_dir_all(dir.path()).unwrap();
    for fs in [&OsFs as &dyn Fs, &memory] {
        let mut world = World::new(fs, dir.path());
        for (step, expected) in &steps {
            let result = world.step(step).map_err(|error| error.kind());
            assert_eq!(result.err(), *expected, "{step:?} on {fs:?}");
        }
    }
}

/// The handle of an opened directory is the directory, not its name.
#[test]
fn an_opened_directory_stays_the_same_whatever_takes_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let memory = MemFs::new();
    memory.create_dir_all(dir.path()).unwrap();
    std::os::unix::fs::symlink("first", dir.path().join("current")).unwrap();
    memory.symlink(Path::new("first"), &dir.path().join("current")).unwrap();
    for fs in [&OsFs as &dyn Fs, &memory] {
        let at = |name: &str| dir.path().join(name);
        fs.create_dir_all(&at("first")).unwrap();
        let [held, linked] = ["first", "current"].map(|name| fs.open_dir(&at(name)).unwrap());
        let name = |name: &'static str| Path::new(name);
        held.create(name("a")).unwrap().append(b"1").unwrap();
        fs.rename(&at("first"), &at("old")).unwrap();
        fs.create_dir_all(&at("first")).unwrap();
        fs.remove(&at("current")).unwrap();
        for dir in [&held, &linked] {
            let names = |fs: &dyn Fs, dir: &Path| -> Vec<String> {
                let mut entries = fs.list(dir).unwrap();
                entries.sort();
                entries.into_iter().map(|entry| entry.name).collect()
            };
            let io = LogIo::Auto;
            dir.open_log(name("log"), LogFileOptions { capacity: 10, io }).unwrap();
            dir.rename(name("log"), name("b")).unwrap();
            dir.hard_link(name("b"), name("c")).unwrap();
            dir.sync_dir(name("")).unwrap();
            assert_eq!(names(&**dir, name("")), ["a", "b", "c"]);
            assert_eq!(names(fs, &at("old")), ["a", "b", "c"]);
            assert_eq!(names(fs, &at("first")), Vec::<String>::new());
            assert!(dir.metadata(name("a")).unwrap().is_some() && dir.open(name("a")).is_ok());
            dir.remove(name("b")).unwrap();
            dir.remove(name("c")).unwrap();
        }
        let error = held.open(name("none")).unwrap_err();
        assert!(error.file().unwrap().ends_with("/first/none"), "{error}");
        // The lock is that of the directory, too.
        let lock = held.lock(name("LOCK"), LockKind::Exclusive).unwrap();
        let again = fs.lock(&at("old/LOCK"), LockKind::Exclusive);
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Locked);
        assert!(fs.lock(&at("first/LOCK"), LockKind::Exclusive).is_ok());
        drop(lock);
    }
}
