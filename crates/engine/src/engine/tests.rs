//! Many threads while generations are frozen, flushed and merged all the time, and while the
//! database closes.

use super::*;
use crate::{
    catalog::family::FamilyData,
    fixture::{
        DIR, commit_payload, contents, create_family, held_up, killed, on_segments, open, options,
        snapshot, stop_call, try_put,
    },
    options::{Durability, MEMTABLE_BYTES_MIN},
    read::{self, PinnedReader},
    write::commit::Payload,
};
use siltdb_base::{
    error::{Error, ErrorKind},
    fs::mem::{CallKind, MemFs},
    id::FamilyId,
};
use siltdb_disk::batch::BatchBytes;
use siltdb_tree::options::TreeOptions;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

const WRITERS: u64 = 3;
const WRITES: u64 = 3000;
const KEYS: u64 = 16;

/// The progress of a writer.
#[derive(Debug, Default)]
struct Progress {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

fn key(writer: u64, slot: u64) -> Vec<u8> {
    format!("writer {writer} key {slot:02}").into_bytes()
}

fn value(write: u64) -> Vec<u8> {
    [&write.to_le_bytes()[..], &[7; 40]].concat()
}

fn write_of(value: &[u8]) -> u64 {
    let write = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert_eq!(value, self::value(write));
    write
}

/// The last of a writer's first `newest` writes that went to a key. Its writes visit the keys in
/// turn.
fn expected(newest: u64, slot: u64) -> Option<u64> {
    let since = (newest + KEYS - slot) % KEYS;
    newest.checked_sub(since).filter(|&write| write > 0)
}

/// Each write puts one value into two families.
fn write(engine: &Engine, families: [FamilyId; 2], writer: u64, progress: &Progress) {
    for write in 1..=WRITES {
        let mut batch = BatchBytes::new();
        for family in families {
            batch.put(family, &key(writer, write % KEYS), &value(write)).unwrap();
        }
        // Release, here and below: pairs with the loads in `read`.
        progress.begun.store(write, Ordering::Release);
        commit_payload(engine, &Payload::batch(&batch)).unwrap();
        progress.acknowledged.store(write, Ordering::Release);
    }
}

/// Checks what a writer has written, at one moment: a prefix of its writes, the same in both
/// families. The prefix has all writes that were acknowledged before.
fn read(engine: &Engine, families: &[Arc<FamilyData>; 2], writer: u64, progress: &Progress) {
    let acknowledged = progress.acknowledged.load(Ordering::Acquire);
    if acknowledged > 0 {
        let key = key(writer, acknowledged % KEYS);
        let now =
            read::get(engine.database(), &families[0], &key, None, |value| write_of(value.bytes()))
                .unwrap();
        assert!(now.expect("an acknowledged key") >= acknowledged);
    }
    let snapshot = snapshot(engine);
    let keys: Vec<_> = (0..KEYS).map(|slot| key(writer, slot)).collect();
    let [found, twins] = families.each_ref().map(|family| {
        let reader =
            PinnedReader::new(&engine.database().read_rooms(), family, Some(&snapshot.point()))
                .unwrap();
        let values = keys.iter().map(|key| reader.get(key).unwrap());
        values.map(|value| value.as_deref().map(write_of)).collect::<Vec<_>>()
    });
    let newest = found.iter().flatten().max().copied().unwrap_or(0);
    let begun = progress.begun.load(Ordering::Acquire);
    assert!((acknowledged..=begun).contains(&newest), "{acknowledged} <= {newest} <= {begun}");
    let prefix: Vec<_> = (0..KEYS).map(|slot| expected(newest, slot)).collect();
    assert_eq!(found, prefix);
    assert_eq!(twins, prefix);
}

#[test]
fn what_is_published_is_visible_while_generations_change_hundreds_of_times() {
    let fs = MemFs::new();
    let options = EngineOptions { workers: 2, memtable_bytes: MEMTABLE_BYTES_MIN, ..options(&fs) };
    let engine = Engine::open(Path::new(DIR), options).unwrap();
    let twin = create_family(&engine, "twin", TreeOptions::default()).unwrap();
    let families = [engine.database().catalog.families.named("default").unwrap(), twin];
    let ids = families.each_ref().map(|family| family.id);
    let progress: Vec<_> = (0..WRITERS).map(|_| Progress::default()).collect();
    thread::scope(|scope| {
        let (engine, families, progress) = (&engine, &families, &progress);
        // Held by each writer, so that readers end with them however they end.
        let writing = Arc::new(());
        for _ in 0..2 {
            let writing = Arc::downgrade(&writing);
            scope.spawn(move || {
                while writing.strong_count() > 0 {
                    let all = progress.iter().zip(0..);
                    all.for_each(|(progress, writer)| read(engine, families, writer, progress));
                }
            });
        }
        for (progress, writer) in progress.iter().zip(0..) {
            let writing = Arc::clone(&writing);
            scope.spawn(move || {
                write(engine, ids, writer, progress);
                drop(writing);
            });
        }
    });
    assert!(
        engine.database().stats().flushes >= 200,
        "{} generations",
        engine.database().stats().flushes
    );
    let reopened = open(&killed(&fs));
    let all = (0..WRITERS).flat_map(|writer| {
        (0..KEYS).map(move |slot| (key(writer, slot), value(expected(WRITES, slot).unwrap())))
    });
    let all: Vec<_> = all.collect();
    for family in ["default", "twin"] {
        assert_eq!(contents(&engine, family, None), all);
        assert_eq!(contents(&reopened, family, None), all);
    }
}

#[test]
fn closing_a_poisoned_database_waits_for_commits_that_have_a_place() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let fill = stop_call(&fs, on_segments(CallKind::Fill));
    let commits = engine.clone();
    let pair = (&b"key"[..], &b"value"[..]);
    let commit =
        thread::spawn(move || try_put(&commits, "default", pair.0, pair.1, Durability::Buffered));
    fill.wait();
    engine.database().installer().fail(Error::new(ErrorKind::Io, "a sync failed"));
    let closes = engine.clone();
    let closed = held_up(move || closes.close());
    fill.go_on();
    assert_eq!(commit.join().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(closed.recv().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
}
