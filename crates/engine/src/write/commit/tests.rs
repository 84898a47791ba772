//! Commits: one order in log, memory and numbers. They are whole or absent, and acknowledged only
//! when as durable as promised (laws O1, O2, A6, A9, L2, L3 and L7).

use super::*;
use crate::{
    database::job_rooms::Waiting,
    database::writable::Writable,
    engine::Engine,
    fixture::{
        DIR, Pairs, commit_payload, contents, create_family, drop_family, fault, files, flush, get,
        held_up, killed, not_stuck, on_segments, open, options, put_range, stop_call, sync_wal,
        tree_options, try_put, until,
    },
    jobs::flush::flush_all,
    jobs::next::run_one,
    open::recovery,
    options::FROZEN_MAX,
    read,
    snapshots::read_point::ReadPoint,
};
use siltdb_base::{
    budget::Part,
    fs::{
        Fs,
        mem::{CallKind, Crash, FaultError, MemFs},
    },
    slice::Pinnable,
};
use siltdb_disk::{
    batch::operations,
    log::{
        recover::{Recovered, RecoveryOptions, SegmentFile, recover},
        segment::SegmentHeader,
    },
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Duration,
};

/// Seeds of a power failure to try.
const SEEDS: u64 = 8;

const ALL: [Durability; 4] = [
    Durability::Volatile,
    Durability::Buffered,
    Durability::Interval(Duration::ZERO),
    Durability::Synced,
];

/// A record as the log stores it.
struct Logged {
    at: LogPosition,
    header: RecordHeader,
    synced: LogPosition,
    payload: Vec<u8>,
}

/// The records of the log, in order.
fn logged(fs: &MemFs) -> (Vec<Logged>, Recovered) {
    let file = |path: &PathBuf| SegmentFile { path: path.clone(), file: fs.open(path).unwrap() };
    let segments: Vec<_> = files(fs, ".log").iter().map(file).collect();
    let mut records = Vec::new();
    let recovered = recover(&segments, &RecoveryOptions::default(), &mut |record| {
        records.push((record.at, record.header, record.payload.to_vec()));
        Ok(())
    })
    .unwrap();
    let known: Vec<_> = recovered.segments.iter().map(|segment| segment.header.id).collect();
    let logged = |(at, header, payload): (LogPosition, RecordHeader, Vec<u8>)| {
        let synced = header.synced.position(at.segment, &known);
        Logged { at, header, synced, payload }
    };
    (records.into_iter().map(logged).collect(), recovered)
}

/// The state that the next process sees after a kill.
fn recovered(fs: &MemFs) -> Pairs {
    contents(&open(&killed(fs)), "default", None)
}

/// The state that the next process sees after a power failure.
fn after_power_loss(fs: &MemFs, seed: u64) -> Pairs {
    contents(&open(&fs.crash_clone(Crash::PowerLoss { seed })), "default", None)
}

fn with_keys(keys: &[&str]) -> Pairs {
    keys.iter().map(|key| (key.as_bytes().to_vec(), b"value".to_vec())).collect()
}

fn put_key(engine: &Engine, key: &str, durability: Durability) -> Result<()> {
    try_put(engine, "default", key.as_bytes(), b"value", durability)
}

fn put_on_thread(
    engine: &Engine,
    key: &'static str,
    durability: Durability,
) -> thread::JoinHandle<Result<()>> {
    let engine = engine.clone();
    thread::spawn(move || put_key(&engine, key, durability))
}

fn assert_poisoned<T>(result: Result<T>) {
    assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::Poisoned));
}

/// Four threads write as fast as they can: batches of one to four operations, for two generations.
fn write_from_four_threads(engine: &Engine, durability: impl Fn(u32) -> Durability + Sync) {
    let family = engine.database().catalog.families.named("default").unwrap().id;
    thread::scope(|scope| {
        for writer in 0..4 {
            let durability = &durability;
            scope.spawn(move || {
                for number in 0..60 {
                    let name = format!("{writer} {number}");
                    let mut batch = BatchBytes::new();
                    for extra in 0..(writer + number) % 4 {
                        let key = format!("{name} {extra}");
                        batch.put(family, key.as_bytes(), &[7; 150]).unwrap();
                    }
                    batch.put(family, b"last", name.as_bytes()).unwrap();
                    let payload = Payload::batch(&batch);
                    commit(engine.writable().unwrap(), &payload, durability(number)).unwrap();
                }
            });
        }
    });
}

#[test]
fn the_order_of_the_log_is_that_of_numbers_and_of_what_readers_see() {
    let fs = MemFs::new();
    let engine = open(&fs);
    write_from_four_threads(&engine, |_| Durability::Buffered);
    let (records, log) = logged(&fs);
    assert_eq!(records.len(), 4 * 60);
    assert!(log.segments.len() > 1);
    let family = engine.database().catalog.families.named("default").unwrap();
    let mut sequence = SequenceNumber(0);
    let mut written = [0; 4];
    for Logged { header, payload, .. } in &records {
        assert_eq!(header.first_sequence, sequence.next());
        for operation in operations(payload, header.count) {
            let BatchOperation { key, payload, .. } = operation.unwrap();
            sequence = sequence.next();
            let point = ReadPoint { sequence, now_ms: 0, first_expiry: None };
            let is_it = |value: Pinnable<'_>| value.bytes() == payload;
            assert_eq!(
                read::get(engine.database(), &family, key, Some(&point), is_it).unwrap(),
                Some(true)
            );
            if key == b"last" {
                let name = std::str::from_utf8(payload).unwrap();
                let (writer, number) = name.split_once(' ').unwrap();
                let count = &mut written[writer.parse::<usize>().unwrap()];
                assert_eq!(number.parse(), Ok(*count));
                *count += 1;
            }
        }
        assert_eq!(header.next_sequence(), sequence.next(), "a number for each operation");
    }
    let stats = engine.database().stats();
    assert_eq!((stats.sequence, stats.memtable_entries), (sequence.0, sequence.0));
    assert_eq!(recovered(&fs), contents(&engine, "default", None));
}

#[test]
fn volatile_commits_take_numbers_and_leave_no_bytes() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let mut batch = BatchBytes::new();
    for key in ["volatile 2", "volatile 3"] {
        batch
            .put(
                engine.database().catalog.families.named("default").unwrap().id,
                key.as_bytes(),
                b"value",
            )
            .unwrap();
    }
    put_key(&engine, "a", Durability::Buffered).unwrap();
    put_key(&engine, "volatile 1", Durability::Volatile).unwrap();
    let payload = Payload::batch(&batch);
    commit(engine.writable().unwrap(), &payload, Durability::Volatile).unwrap();
    put_key(&engine, "b", Durability::Buffered).unwrap();
    let all = with_keys(&["a", "b", "volatile 1", "volatile 2", "volatile 3"]);
    assert_eq!(contents(&engine, "default", None), all);
    let said = |record: &Logged| (record.header.kind, record.header.count, record.payload.len());
    let records: Vec<_> = logged(&fs).0.iter().map(said).collect();
    let one = (RecordKind::Batch, 1, records[0].2);
    assert_eq!(records, [one, (RecordKind::Skip, 1, 0), (RecordKind::Skip, 2, 0), one]);
    let bytes = fs.read_all(&files(&fs, ".log")[0]).unwrap();
    assert!(!bytes.windows(8).any(|bytes| bytes == b"volatile"));
    let reopened = open(&killed(&fs));
    assert_eq!(contents(&reopened, "default", None), with_keys(&["a", "b"]));
    assert_eq!(reopened.database().stats().sequence, 5, "their numbers are not used again");
    flush(&engine).unwrap();
    assert_eq!(recovered(&fs), all, "a flush makes them durable");
}

#[test]
fn a_commit_whose_fill_fails_is_nowhere_and_no_later_one_succeeds() {
    // The first commit of a segment fills its header too.
    for (nth, acknowledged) in [(1, 0), (2, 0), (3, 1), (5, 3)] {
        let fs = MemFs::new();
        let engine = open(&fs);
        create_family(&engine, "twin", tree_options()).unwrap();
        fs.set_fault(fault(Some(CallKind::Fill), nth, FaultError::NoSpace));
        let commit = |number: u8| {
            let mut batch = BatchBytes::new();
            for name in ["default", "twin"] {
                let family = engine.database().catalog.families.named(name).unwrap().id;
                batch.put(family, &[b'k', number], &[7; 600]).unwrap();
            }
            commit_payload(&engine, &Payload::batch(&batch))
        };
        (0..acknowledged).for_each(|number| commit(number).unwrap());
        assert_poisoned(commit(acknowledged));
        for durability in ALL {
            assert_poisoned(put_key(&engine, "later", durability));
        }
        assert_eq!(fs.faults(), 1);
        let reopened = open(&killed(&fs));
        for (engine, name) in [(&engine, "default"), (&engine, "twin"), (&reopened, "twin")] {
            let keys: Vec<_> =
                contents(engine, name, None).into_iter().map(|(key, _)| key).collect();
            let expected: Vec<_> = (0..acknowledged).map(|number| vec![b'k', number]).collect();
            assert_eq!(keys, expected, "fill {nth}, {name}");
        }
        assert_eq!(contents(&reopened, "default", None), contents(&reopened, "twin", None));
    }
}

/// Whether some segment holds these bytes.
fn is_in_log(fs: &MemFs, part: &str) -> bool {
    files(fs, ".log").iter().any(|path| {
        let bytes = fs.read_all(path).unwrap();
        bytes.windows(part.len()).any(|bytes| bytes == part.as_bytes())
    })
}

/// Nothing is recovered behind the hole that it leaves.
#[test]
fn a_failed_fill_poisons_before_it_is_published_and_fails_all_behind_it() {
    for durability in [Durability::Buffered, Durability::Synced].into_iter().cycle().take(32) {
        let fs = MemFs::new();
        let waiting = Waiting::RunJob(run_one);
        let (database, _lock) = recovery::open(Path::new(DIR), options(&fs), waiting).unwrap();
        let family = database.catalog.families.named("default").unwrap();
        let put = |key: &str, durability| {
            let put = Payload::one(&family, EntryKind::Put, key.as_bytes(), b"value");
            commit(Writable::inside(&database), &put, durability)
        };
        let published = || database.log.publisher.published().0;
        put("early", Durability::Buffered).unwrap();
        thread::scope(|scope| {
            let fill = stop_call(&fs, on_segments(CallKind::Fill));
            let failing = scope.spawn(|| put("failing", Durability::Buffered));
            fill.wait();
            let behind = ["behind", "beside"].map(|key| scope.spawn(move || put(key, durability)));
            until(|| is_in_log(&fs, "behind") && is_in_log(&fs, "beside"));
            assert_eq!(published(), 1, "published before its predecessor");
            fs.set_fault(fault(Some(CallKind::Fill), 1, FaultError::Io));
            fill.go_on();
            while published() < 2 {
                std::hint::spin_loop();
            }
            assert_poisoned(database.health.check_log());
            assert_poisoned(failing.join().unwrap());
            for commit in behind {
                assert_poisoned(commit.join().unwrap());
            }
        });
        assert_eq!(read::get(&database, &family, b"failing", None, |_| ()).unwrap(), None);
        assert_eq!(recovered(&fs), with_keys(&["early"]), "{durability:?}");
    }
}

/// It has filled its record, and a part of it is in memory.
#[test]
fn a_commit_that_panics_is_never_shown_and_none_behind_it_waits_for_ever() {
    for durability in ALL {
        let fs = MemFs::new();
        let waiting = Waiting::RunJob(run_one);
        let (database, held) = recovery::open(Path::new(DIR), options(&fs), waiting).unwrap();
        let family = database.catalog.families.named("default").unwrap();
        let database = Arc::new(database);
        let put = {
            let (database, family) = (database.clone(), family.clone());
            move |key: &'static str, durability| {
                let put = Payload::one(&family, EntryKind::Put, key.as_bytes(), b"value");
                commit(Writable::inside(&database), &put, durability)
            }
        };
        put("early", Durability::Buffered).unwrap();
        let mut batch = BatchBytes::new();
        batch.put(family.id, b"half", b"value").unwrap();
        batch.put(family.id, b"other half", b"value").unwrap();
        let (behind, is_behind) = std::sync::mpsc::channel();
        let panicking = {
            let (database, family) = (database.clone(), family.clone());
            let put = put.clone();
            thread::spawn(move || {
                let counts = Counts { all: 2, range_deletes: 0 };
                let insert = |reservation: &Reservation| {
                    let (key, value, sequence) = (&b"half"[..], &b"value"[..], reservation.first);
                    let entry = Entry { key, sequence, kind: EntryKind::Put, value };
                    let arenas = &database.memory.arenas;
                    family.tree.with_memtable(reservation.generation(), arenas, |memtable| {
                        memtable.insert(entry);
                    });
                    let drawn = || lock(&database.log.sequencer).tickets_drawn();
                    let (before, put) = (drawn(), put.clone());
                    let waiting = thread::spawn(move || put("behind", durability));
                    until(|| drawn() > before);
                    behind.send(waiting).unwrap();
                    panic!("as a bug would");
                };
                let parts: &[&[u8]] = &[batch.as_bytes()];
                let kind = RecordKind::Batch;
                commit_parts_if(&database, kind, parts, counts, |_| Ok(()), insert).map(|_| ())
            })
        };
        assert!(panicking.join().is_err(), "it panicked");
        let waiting = is_behind.recv().unwrap();
        assert_poisoned(not_stuck(move || waiting.join().unwrap()));
        assert_poisoned(database.health.check_log());
        assert_poisoned(not_stuck({
            let put = put.clone();
            move || put("later", durability)
        }));
        let rooms = database.clone();
        assert_poisoned(not_stuck(move || flush_all(&rooms.job_rooms())));
        let rooms = database.clone();
        assert_poisoned(not_stuck(move || super::sync_wal(&rooms.installer())));
        let rooms = database.clone();
        not_stuck(move || {
            let drawn = lock(&rooms.log.sequencer).tickets_drawn();
            rooms.log.publisher.wait_for_all(drawn);
        });
        for key in ["half", "other half", "behind", "later"] {
            let found = read::get(&database, &family, key.as_bytes(), None, |_| ()).unwrap();
            assert_eq!(found, None, "{key}");
        }
        drop((database, family, put, held));
        let found: Vec<_> = recovered(&fs).into_iter().map(|(key, _)| key).collect();
        let has = |key: &str| found.iter().any(|found| found == key.as_bytes());
        assert!(has("early") && has("half") == has("other half"), "{found:?}");
    }
}

#[test]
fn what_is_refused_before_it_has_a_place_leaves_no_trace() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let dropped = create_family(&engine, "dropped", tree_options()).unwrap();
    drop_family(&engine, "dropped").unwrap();
    let mut batch = BatchBytes::new();
    batch
        .put(engine.database().catalog.families.named("default").unwrap().id, b"key", b"value")
        .unwrap();
    batch.put(dropped.id, b"key", b"value").unwrap();
    let kind = |result: Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(commit_payload(&engine, &Payload::batch(&batch))), ErrorKind::NotFound);
    let one = Payload::one(&dropped, EntryKind::Put, b"key", b"value");
    assert_eq!(kind(commit_payload(&engine, &one)), ErrorKind::NotFound);
    fs.set_space_limit(Some(fs.space_used()));
    assert_eq!(kind(put_key(&engine, "key", Durability::Synced)), ErrorKind::NoSpace);
    assert_eq!((engine.database().stats().sequence, recovered(&fs)), (0, Pairs::new()));
    fs.set_space_limit(None);
    put_key(&engine, "later", Durability::Synced).unwrap();
    assert_eq!((engine.database().stats().sequence, recovered(&fs)), (1, with_keys(&["later"])));
}

/// The state of the disk after a power failure just before each fill, by its place.
type Lost = Arc<Mutex<BTreeMap<(PathBuf, u64), MemFs>>>;

fn watch_losses(fs: &MemFs) -> Lost {
    let lost = Lost::default();
    let (disk, seen) = (fs.clone(), Arc::clone(&lost));
    fs.on_call(Some(Arc::new(move |call| {
        if on_segments(CallKind::Fill)(&call) {
            let after = disk.crash_clone(Crash::PowerLoss { seed: call.number });
            lock(&seen).insert((call.path.to_owned(), call.offset), after);
        }
    })));
    lost
}

#[test]
fn what_a_record_says_is_synced_was_synced_when_it_was_written() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let lost = watch_losses(&fs);
    let durability = |number| ALL[number as usize % 3 + usize::from(number % 5 == 0)];
    write_from_four_threads(&engine, durability);
    fs.on_call(None);
    let (records, log) = logged(&fs);
    let paths = files(&fs, ".log");
    let segments: BTreeMap<_, _> = log.segments.iter().map(|s| (s.header.id, s)).collect();
    let path = |segment| &paths[segments[&segment].file_index];
    let of_segment =
        |header: &SegmentHeader| (LogPosition { segment: header.id, offset: 0 }, header.synced);
    let headers = log.segments.iter().map(|segment| of_segment(&segment.header));
    let said = headers.chain(records.iter().map(|record| (record.at, record.synced)));
    let mut told = 0;
    for (at, synced) in said {
        let after = &lock(&lost)[&(path(at.segment).clone(), at.offset)];
        for (&id, segment) in segments.range(..=synced.segment) {
            let end = if id == synced.segment { synced.offset } else { segment.end };
            let (now, then) = (fs.read_all(path(id)).unwrap(), after.read_all(path(id)).unwrap());
            let end = end as usize;
            assert!(now[..end] == then[..end], "{at} says that {synced} was synced");
            told += 1;
        }
    }
    assert!(told > records.len() / 2, "few records tell anything");
    assert!(log.synced > log.segments[1].header.first_record());
}

#[test]
fn a_sync_waits_for_a_commit_that_is_stopped_in_its_fill() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_key(&engine, "early", Durability::Synced).unwrap();
    let end = logged(&fs).1.end;
    let fill = stop_call(&fs, on_segments(CallKind::Fill));
    let stopped = put_on_thread(&engine, "stopped", Durability::Buffered);
    fill.wait();
    let (writer, keeper) = (engine.clone(), engine.clone());
    let behind = held_up(move || put_key(&writer, "behind", Durability::Synced));
    let all = held_up(move || sync_wal(&keeper));
    until(|| is_in_log(&fs, "behind"));
    assert_eq!(engine.database().stats().log_syncs, 1, "a sync covers a hole");
    for seed in 0..SEEDS {
        // The fill that is stopped may have reached the medium, whole or in part.
        let found = after_power_loss(&fs, seed);
        let prefixes = [&["early"][..], &["early", "stopped"], &["behind", "early", "stopped"]];
        assert!(prefixes.iter().any(|keys| found == with_keys(keys)), "seed {seed}: {found:?}");
    }
    fill.go_on();
    stopped.join().unwrap().unwrap();
    behind.recv().unwrap().unwrap();
    all.recv().unwrap().unwrap();
    for seed in 0..SEEDS {
        let found = after_power_loss(&fs, seed);
        assert_eq!(found, with_keys(&["behind", "early", "stopped"]), "seed {seed}");
    }
    put_key(&engine, "late", Durability::Buffered).unwrap();
    let said: Vec<_> = logged(&fs).0.iter().map(|record| record.synced).collect();
    assert_eq!(said[..3], [LogPosition::ZERO, end, end]);
    assert!(said[3] > end);
}

#[test]
fn a_commit_that_is_not_to_be_synced_does_not_wait_for_a_sync() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let sync = stop_call(&fs, on_segments(CallKind::Sync));
    let synced = put_on_thread(&engine, "synced", Durability::Synced);
    sync.wait();
    let writer = engine.clone();
    not_stuck(move || put_key(&writer, "buffered", Durability::Buffered)).unwrap();
    assert_eq!(contents(&engine, "default", None), with_keys(&["buffered", "synced"]));
    sync.go_on();
    synced.join().unwrap().unwrap();
}

#[test]
fn the_first_commit_of_a_database_syncs_the_directory_only_if_it_is_synced_itself() {
    for (durability, expected) in [(Durability::Buffered, 0), (Durability::Synced, 1)] {
        let fs = MemFs::new();
        let engine = open(&fs);
        let syncs = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&syncs);
        fs.on_call(Some(Arc::new(move |call| {
            *lock(&counted) += u32::from(call.kind == CallKind::SyncDir);
        })));
        put_key(&engine, "key", durability).unwrap();
        assert_eq!(*lock(&syncs), expected, "{durability:?}");
    }
}

#[test]
fn nothing_is_acknowledged_after_a_failed_sync_and_reads_go_on() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_key(&engine, "early", Durability::Synced).unwrap();
    let sync = stop_call(&fs, on_segments(CallKind::Sync));
    let failing = put_on_thread(&engine, "failing", Durability::Synced);
    sync.wait();
    let fill = stop_call(&fs, on_segments(CallKind::Fill));
    let between = put_on_thread(&engine, "between", Durability::Buffered);
    fill.wait();
    fs.set_fault(fault(Some(CallKind::Sync), 1, FaultError::Io));
    sync.go_on();
    assert_poisoned(failing.join().unwrap());
    fill.go_on();
    assert_poisoned(between.join().unwrap());
    let calls = fs.calls();
    for durability in ALL {
        assert_poisoned(put_key(&engine, "later", durability));
    }
    assert_poisoned(sync_wal(&engine));
    assert_eq!(fs.calls(), calls, "the sync was tried again");
    assert_eq!(get(&engine, "default", b"early").as_deref(), Some(&b"value"[..]));
    // These were refused when their records were in the log already.
    assert_eq!(recovered(&fs), with_keys(&["between", "early", "failing"]));
    for seed in 0..SEEDS {
        assert!(after_power_loss(&fs, seed).contains(&with_keys(&["early"])[0]), "seed {seed}");
    }
}

#[test]
fn three_generations_may_wait_and_who_would_freeze_a_fourth_makes_room() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let mut frozen_max = 0;
    let mut count = 0;
    while engine.database().stats().stalls == 0 {
        frozen_max = frozen_max.max(engine.database().stats().frozen_generations);
        put_range(&engine, "a", count..count + 1, &[7; 1000]);
        count += 1;
        assert!(count < 1000, "no thread waits");
    }
    assert_eq!(frozen_max, FROZEN_MAX as u64);
    let stats = engine.database().stats();
    assert_eq!((stats.stalls, stats.flushes), (1, 1));
    assert_eq!(stats.frozen_generations, FROZEN_MAX as u64, "one went, one came");
    assert_eq!(recovered(&fs).len(), count as usize);
}

#[test]
fn a_segment_is_written_over_only_after_the_edit_that_retires_it_is_durable() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let put_huge = |key: &str, durability| {
        let pair = (key.as_bytes(), &[7; 40 << 10][..]);
        try_put(&engine, "default", pair.0, pair.1, durability).unwrap();
    };
    let keys_after_power_loss = |seed| {
        let pairs = after_power_loss(&fs, seed).into_iter();
        pairs.map(|(key, _)| String::from_utf8(key).unwrap()).collect::<Vec<_>>()
    };
    put_key(&engine, "early", Durability::Synced).unwrap();
    let path = &files(&fs, ".log")[0];
    let segment = fs.read_all(path).unwrap();
    let sync = stop_call(&fs, |call| {
        call.kind == CallKind::Sync && call.path.extension().is_some_and(|name| name == "manifest")
    });
    let flushing = engine.clone();
    let flush = thread::spawn(move || flush(&flushing));
    sync.wait();
    // The first synced commit of a segment waits for an edit of its own, so these are not.
    put_huge("huge 1", Durability::Buffered);
    put_huge("huge 2", Durability::Buffered);
    assert!(fs.read_all(path).unwrap() == segment, "used again too early");
    for seed in 0..SEEDS {
        let found = keys_after_power_loss(seed);
        let expected = &["early", "huge 1", "huge 2"][..found.len()];
        assert!(!found.is_empty() && found == expected, "seed {seed}: {found:?}");
    }
    sync.go_on();
    flush.join().unwrap().unwrap();
    put_huge("huge 3", Durability::Synced);
    assert!(fs.read_all(path).unwrap() != segment, "not used again");
    for seed in 0..SEEDS {
        let found = keys_after_power_loss(seed);
        assert_eq!(found, ["early", "huge 1", "huge 2", "huge 3"], "seed {seed}");
    }
}

#[test]
fn a_commit_larger_than_all_memtables_does_not_stop_the_next() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let huge = vec![b'h'; 8 * options(&fs).memtable_bytes];
    let (writer, value) = (engine.clone(), huge.clone());
    not_stuck(move || {
        try_put(&writer, "default", b"huge", &value, Durability::Buffered).unwrap();
        try_put(&writer, "default", b"next", b"small", Durability::Buffered).unwrap();
    });
    let expected: Pairs = vec![(b"huge".to_vec(), huge), (b"next".to_vec(), b"small".to_vec())];
    assert_eq!(contents(&engine, "default", None), expected);
}

/// Ranges within ranges: the number of their fragments must not grow with the square of their
/// number.
#[test]
fn nested_range_deletes_stay_within_the_memory_of_memtables() {
    let fs = MemFs::new();
    let waiting = Waiting::RunJob(run_one);
    let (database, _lock) = recovery::open(Path::new(DIR), options(&fs), waiting).unwrap();
    let family = database.catalog.families.named("default").unwrap();
    let memtable_bytes = database.options.memtable_bytes;
    let count = 5_000_u32;
    let mut most = 0;
    for number in 0..count {
        let (start, end) = (number.to_be_bytes(), (2 * count - number).to_be_bytes());
        let payload = Payload::one(&family, EntryKind::RangeDelete, &start, &end);
        commit(Writable::inside(&database), &payload, Durability::Buffered).unwrap();
        if number % 10 == 9 {
            let reader = read::PinnedReader::new(&database.read_rooms(), &family, None).unwrap();
            let mut cursor = reader.cursor(read::ReadRange::default()).unwrap();
            cursor.seek_to_first().unwrap();
            most = most.max(database.memory.budget.used(Part::Memtables));
        }
    }
    assert!(most > memtable_bytes / 2, "they are not charged: {most}");
    assert!(most < (FROZEN_MAX + 1) * memtable_bytes * 11 / 10, "{most} bytes");
}
