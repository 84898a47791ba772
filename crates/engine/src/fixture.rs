//! Shared by the tests of this floor and the one above: a database on a file system in memory, and
//! views of it.
//!
//! It uses the public interface of the engine, so it does not depend on how the rooms are built.
//! The feature `fixture`, which only tests have, opens it to the floor above.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

pub mod branches;

use crate::{
    catalog::family::{FamilyChanges, FamilyData},
    copies::{
        family_clone,
        ingest::{self, Ingested},
    },
    engine::Engine,
    families::family_commit,
    install,
    jobs::{
        flush::flush_all,
        next::run_one,
        request::{self, CompactControl},
    },
    options::{Durability, EngineOptions},
    read::{self, PinnedReader, ReadCursor, ReadRange, begin_snapshot},
    snapshots::{LiveSnapshot, read_point::ReadPoint},
    transactions::conditional_commit::Conditions,
    write::{
        commit::{Payload, commit},
        log_sync,
    },
};
use siltdb_base::{
    cancel::CancelToken,
    checksum::crc32c,
    clock::ManualClock,
    error::Result,
    fs::{
        Fs,
        mem::{Call, CallKind, Crash, Fault, FaultError, FaultSpan, MemFs},
    },
    id::{FamilyId, SequenceNumber},
    key::EntryKind,
    sync::lock,
};
use siltdb_disk::{batch::BatchBytes, edit::TableReference, options::TableOptions};
use siltdb_tree::options::TreeOptions;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

/// The directory of the database.
pub const DIR: &str = "db";

/// Longer than any test takes that is not stuck.
const STUCK: Duration = Duration::from_secs(20);

/// Keys and values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Options without threads, with which little data makes several tables.
pub fn options(fs: &MemFs) -> EngineOptions {
    EngineOptions {
        workers: 0,
        memory_budget: 16 << 20,
        memtable_bytes: 64 << 10,
        tree: tree_options(),
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::at(Duration::from_millis(1_000_000))),
        seed: Some(1),
        ..EngineOptions::default()
    }
}

/// Options of a tree with small tables and levels.
pub fn tree_options() -> TreeOptions {
    TreeOptions {
        table: TableOptions { block_bytes: 1024, ..TableOptions::default() },
        table_bytes_target: 4 << 10,
        base_level_bytes: 16 << 10,
        level0_runs_trigger: 4,
        ..TreeOptions::default()
    }
}

/// Opens the database in [`DIR`].
pub fn open(fs: &MemFs) -> Engine {
    Engine::open(Path::new(DIR), options(fs)).unwrap()
}

/// The file system after a kill of the process at this moment.
pub fn killed(fs: &MemFs) -> MemFs {
    fs.crash_clone(Crash::Kill)
}

/// Puts a value with `durability`.
pub fn try_put(
    engine: &Engine,
    family: &str,
    key: &[u8],
    value: &[u8],
    durability: Durability,
) -> Result<()> {
    let family = engine.database().catalog.families.named(family)?;
    let put = Payload::one(&family, EntryKind::Put, key, value);
    commit(engine.writable()?, &put, durability)
}

/// Commits `payload` with the durability of the options.
pub fn commit_payload(engine: &Engine, payload: &Payload<'_>) -> Result<()> {
    commit(engine.writable()?, payload, engine.database().options.durability)
}

/// Flushes all memtables to tables.
pub fn flush(engine: &Engine) -> Result<()> {
    engine.at_work(|database| flush_all(&database.job_rooms()))
}

/// Merges the tables of each family into one level.
pub fn compact_all(engine: &Engine) -> Result<()> {
    let (token, mut no_progress) = (CancelToken::new(), |_| {});
    let mut control = CompactControl::new(&token, &mut no_progress);
    engine.at_work(|database| request::compact_all(&database.job_rooms(), &mut control))
}

/// Merges all tables of a family into one level.
pub fn compact(engine: &Engine, family: &FamilyData) -> Result<()> {
    let (token, mut no_progress) = (CancelToken::new(), |_| {});
    let mut control = CompactControl::new(&token, &mut no_progress);
    engine.at_work(|database| request::compact_family(&database.job_rooms(), family, &mut control))
}

/// Waits until no job is due, or runs the due ones.
pub fn settle(engine: &Engine) -> Result<()> {
    engine.at_work(|database| request::settle(&database.job_rooms()))
}

/// Runs one job, if one is due. Returns whether it ran one.
pub fn run_job(engine: &Engine) -> Result<bool> {
    engine.at_work(|database| run_one(&database.job_rooms()))
}

/// Creates a family.
pub fn create_family(engine: &Engine, name: &str, options: TreeOptions) -> Result<Arc<FamilyData>> {
    engine.at_work(|database| install::create_family(&database.installer(), name, options))
}

/// Renames a family.
pub fn rename_family(engine: &Engine, name: &str, to: &str) -> Result<()> {
    engine.at_work(|database| install::rename_family(&database.installer(), name, to))
}

/// Creates a family that holds what `source` holds at the snapshot `at`, or now.
pub fn clone_family(
    engine: &Engine,
    source: &FamilyData,
    name: &str,
    at: Option<&LiveSnapshot>,
) -> Result<Arc<FamilyData>> {
    engine.at_work(|database| {
        let now = snapshot(engine);
        family_clone::clone_family(&database.job_rooms(), source, name, at.unwrap_or(&now))
    })
}

/// Prepares a family that a commit can create.
pub fn prepare_family(
    engine: &Engine,
    name: &str,
    options: TreeOptions,
) -> Result<Arc<FamilyData>> {
    family_commit::prepare_family(&engine.database().catalog, name, options)
}

/// Commits `batch` and changes of families together.
pub fn commit_with_families(
    engine: &Engine,
    batch: &BatchBytes,
    changes: &FamilyChanges,
    conditions: &Conditions<'_>,
) -> Result<SequenceNumber> {
    let commit = family_commit::commit_with_families;
    engine.at_work(|database| commit(database, batch, changes, conditions))
}

/// Drops a family.
pub fn drop_family(engine: &Engine, name: &str) -> Result<()> {
    engine.at_work(|database| family_commit::drop_family(&database.installer(), name))
}

/// Makes everything acknowledged so far durable.
pub fn sync_wal(engine: &Engine) -> Result<()> {
    log_sync::sync_wal(&engine.writable()?.installer())
}

/// Registers a snapshot of the present state.
pub fn snapshot(engine: &Engine) -> LiveSnapshot {
    begin_snapshot(&engine.database().read_rooms())
}

/// Puts a value with durability `Buffered`.
pub fn put(engine: &Engine, family: &str, key: &[u8], value: &[u8]) {
    try_put(engine, family, key, value, Durability::Buffered).unwrap();
}

/// Puts `value` under keys that begin with `prefix` and end with each of `numbers`.
pub fn put_range(engine: &Engine, prefix: &str, numbers: std::ops::Range<u32>, value: &[u8]) {
    for number in numbers {
        put(engine, "default", format!("{prefix}{number:05}").as_bytes(), value);
    }
}

/// The present value of a key.
pub fn get(engine: &Engine, family: &str, key: &[u8]) -> Option<Vec<u8>> {
    read::get(
        engine.database(),
        &engine.database().catalog.families.named(family).unwrap(),
        key,
        None,
        |value| value.bytes().to_vec(),
    )
    .unwrap()
}

/// All pairs that a cursor returns.
pub fn pairs(mut cursor: ReadCursor) -> Pairs {
    let mut pairs = Pairs::new();
    cursor.seek_to_first().unwrap();
    while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
        pairs.push((key.to_vec(), value.to_vec()));
        cursor.next().unwrap();
    }
    pairs
}

/// The contents of a family, now or at a snapshot.
pub fn contents(engine: &Engine, family: &str, sequence: Option<SequenceNumber>) -> Pairs {
    let family = engine.database().catalog.families.named(family).unwrap();
    let now_ms = engine.database().options.clock.wall_ms();
    let point = sequence.map(|sequence| ReadPoint { sequence, now_ms, first_expiry: None });
    let reader =
        PinnedReader::new(&engine.database().read_rooms(), &family, point.as_ref()).unwrap();
    pairs(reader.cursor(ReadRange::default()).unwrap())
}

/// A family and its tables by level, as an edit describes them.
#[derive(Debug, PartialEq, Eq)]
pub struct FamilyPicture {
    name: String,
    id: FamilyId,
    options: Vec<u8>,
    tables: Vec<(u8, Arc<TableReference>)>,
}

/// Everything that edits change, and that the manifest must restore.
pub fn picture(engine: &Engine) -> Vec<FamilyPicture> {
    let picture = |name: String| {
        let family = engine.database().catalog.families.named(&name).unwrap();
        let mut options = Vec::new();
        family.tree.options().encode(&mut options);
        let view = family.tree.view();
        let references = view.version.references();
        let tables = references.map(|(level, table)| (level, table.clone())).collect();
        FamilyPicture { name, id: family.id, options, tables }
    };
    engine.database().catalog.families.names().into_iter().map(picture).collect()
}

/// Ingests keys that begin with `prefix` and end with each of `numbers`.
pub fn try_ingest(
    engine: &Engine,
    prefix: &str,
    numbers: std::ops::Range<u32>,
) -> Result<Ingested> {
    let family = engine.database().catalog.families.named("default")?;
    engine.writable()?.check(&family)?;
    let mut stream = ingest::begin(&engine.database().log, &family);
    for number in numbers {
        let key = format!("{prefix}{number:05}");
        let added = engine.at_work(|database| {
            let (memory, rooms) = (&database.database().memory, database.job_rooms());
            ingest::add(memory, &rooms, &mut stream, EntryKind::Put, key.as_bytes(), b"table")
        });
        if let Err(error) = added {
            ingest::cancel(&engine.writable()?.installer(), stream);
            return Err(error);
        }
    }
    engine.at_work(|database| ingest::finish(database, &family, stream))
}

/// Stops the next sync of a manifest.
pub fn stop_edit(fs: &MemFs) -> Stopped {
    stop_call(fs, |call| call.kind == CallKind::Sync && is_manifest(call.path))
}

/// Whether a file is a manifest.
pub fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|name| name == "manifest")
}

/// The states of the disk after a crash before each call of `work`.
pub fn crash_states(fs: &MemFs, work: impl FnOnce()) -> Vec<MemFs> {
    let states = Arc::new(Mutex::new(Vec::new()));
    let (seen, disk) = (Arc::clone(&states), fs.clone());
    fs.on_call(Some(Arc::new(move |call| {
        for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
            lock(&seen).push(disk.crash_clone(crash));
        }
    })));
    work();
    fs.on_call(None);
    std::mem::take(&mut *lock(&states))
}

/// The files of the database with this extension, sorted.
pub fn files(fs: &MemFs, extension: &str) -> Vec<PathBuf> {
    let entries = fs.list(Path::new(DIR)).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    let mut paths: Vec<_> =
        names.filter(|name| name.ends_with(extension)).map(|n| Path::new(DIR).join(n)).collect();
    paths.sort();
    paths
}

/// Changes the form byte of the log record that holds `key` by `form`, and gives it a payload that
/// is no batch.
pub fn reform_record(fs: &MemFs, key: &[u8], form: impl Fn(u8) -> u8) {
    for path in files(fs, ".log") {
        let before = fs.read_all(&path).unwrap();
        let mut bytes = before.clone();
        let Some(at) = bytes.windows(key.len()).position(|bytes| bytes == key) else { continue };
        let word =
            |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        let (mut start, mut end) = (0, 64);
        while end <= at {
            start = end;
            end = (start + 24 + word(&bytes, start + 8) as usize).next_multiple_of(8);
        }
        let body = start + 24..start + 24 + word(&bytes, start + 8) as usize;
        // The first four bytes may be a count.
        bytes[body.start + 4..body.end].fill(0xff);
        bytes[start] = form(bytes[start] & 0x0f) | bytes[start] & 0xf0;
        let checksum = crc32c(&bytes[body]);
        bytes[start + 16..start + 20].copy_from_slice(&checksum.to_le_bytes());
        let mut header = bytes[start..start + 24].to_vec();
        header[20..].copy_from_slice(&(start as u32 / 8).to_le_bytes());
        let checksum = crc32c(&header) ^ word(&bytes, 20);
        bytes[start + 20..start + 24].copy_from_slice(&checksum.to_le_bytes());
        for (at, (new, old)) in bytes.iter().zip(&before).enumerate() {
            if new != old {
                fs.bytes_flip(&path, at as u64, new ^ old).unwrap();
            }
        }
        return;
    }
    panic!("no log holds {key:?}");
}

/// The failure of the `nth` next call of a kind, or of any kind.
pub fn fault(kind: Option<CallKind>, nth: u64, error: FaultError) -> Option<Fault> {
    Some(Fault { kind, nth, span: FaultSpan::Once, error })
}

/// A call of the engine during which one call on files failed.
pub struct FaultyCall<S> {
    /// The disk.
    pub fs: MemFs,
    /// The database, open.
    pub engine: Engine,
    /// The state before the call.
    pub before: S,
    /// Whether the call returned an error.
    pub is_err: bool,
    /// Which call on files failed, from 1 on.
    pub nth: u64,
}

/// Makes `call` on the database of `ready` once for each call on files that it makes, which fails
/// with an error of the system, or on a full disk. `look` tells the state before it, and `check`
/// looks at the outcome. More than `failures` of the calls must fail.
pub fn fail_each_call<S, T>(
    ready: &MemFs,
    failures: u32,
    look: impl Fn(&Engine) -> S,
    call: impl Fn(&Engine) -> Result<T>,
    check: impl Fn(FaultyCall<S>),
) {
    for error in [FaultError::Io, FaultError::NoSpace] {
        let mut failed = 0;
        for nth in 1.. {
            let fs = killed(ready);
            let engine = open(&fs);
            let before = look(&engine);
            fs.set_fault(fault(None, nth, error));
            let is_err = call(&engine).is_err();
            fs.set_fault(None);
            if fs.faults() == 0 {
                assert!(!is_err, "it fails without a fault");
                break;
            }
            failed += u32::from(is_err);
            check(FaultyCall { fs, engine, before, is_err, nth });
        }
        assert!(failed > failures, "{failed}");
    }
}

/// A database with two families, of which one has tables in two levels and some entries in memory.
pub fn filled(fs: &MemFs) -> Engine {
    let engine = open(fs);
    create_family(&engine, "other", tree_options()).unwrap();
    for value in 1..4 {
        put_range(&engine, "a", 0..200, &[value; 50]);
        put(&engine, "other", b"key", &[value]);
        flush(&engine).unwrap();
    }
    compact_all(&engine).unwrap();
    put_range(&engine, "a", 100..300, &[9; 50]);
    engine
}

/// Selects the calls of a kind on segments of the log.
pub fn on_segments(kind: CallKind) -> impl Fn(&Call<'_>) -> bool + Send + Sync {
    move |call| call.kind == kind && call.path.extension().is_some_and(|name| name == "log")
}

/// A call that waits before it is carried out.
#[derive(Debug)]
pub struct Stopped {
    reached: Receiver<()>,
    release: Sender<fn()>,
}

/// Appends bytes to the manifest as a crash in the middle of an edit would leave them. The next
/// edit then begins a new manifest.
pub fn leave_manifest_unfinished(fs: &MemFs) {
    let path = files(fs, ".manifest").pop().unwrap();
    let mut bytes = fs.read_all(&path).unwrap();
    bytes.extend([0; 64]);
    fs.write_all(&path, &bytes).unwrap();
}

/// Stops the next call that `choose` selects until it is released. This uses up the observer of
/// `fs`.
pub fn stop_call(
    fs: &MemFs,
    choose: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static,
) -> Stopped {
    let (stopped, reached) = mpsc::channel();
    let (release, released) = mpsc::channel::<fn()>();
    let gate = Mutex::new(Some((stopped, released)));
    fs.on_call(Some(Arc::new(move |call| {
        let gate = if choose(&call) { lock(&gate).take() } else { None };
        if let Some((stopped, released)) = gate {
            // A failing test drops the channel, which releases the call.
            if stopped.send(()).is_ok()
                && let Ok(then) = released.recv()
            {
                then();
            }
        }
    })));
    Stopped { reached, release }
}

impl Stopped {
    /// Returns once the call was made.
    pub fn wait(&self) {
        self.reached.recv_timeout(STUCK).expect("the call was not made");
    }

    /// Lets the call continue.
    pub fn go_on(self) {
        self.release.send(|| ()).expect("the call waits");
    }

    /// Makes the calling thread panic.
    pub fn panic(self) {
        self.release.send(|| panic!("a panic on purpose")).expect("the call waits");
    }
}

/// Runs `work` on another thread. Fails if it ends before this function returns. Its result then
/// comes through the channel.
pub fn held_up<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    assert!(is_done.recv_timeout(Duration::from_millis(20)).is_err(), "it did not wait");
    is_done
}

/// Runs `work` on another thread. Fails if it is stuck.
pub fn not_stuck<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    is_done.recv_timeout(STUCK).expect("it is stuck")
}

/// Returns once `holds` is true. Fails if that takes too long.
pub fn until(holds: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < STUCK, "it never came about");
        thread::yield_now();
    }
}
