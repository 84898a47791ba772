//! History: each state from the retention floor on, compared with what the database held then.
//!
//! # Seeded faults
//! `history_above_the_floor_is_dropped`: jobs do not ask for the floor.

#[path = "history/world.rs"]
mod world;

use siltdb::{
    Db, ErrorKind, FamilyOptions, Options, Read, RetentionFloor, Snapshot, WriteBatch,
    backup::Backups,
    testing::{ManualClock, MemFs},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use world::{Random, World, compare, contents, options, small};

#[test]
fn every_state_from_the_floor_on_is_what_it_was() {
    let (mut compared, mut crashes, mut lost, mut raised, mut clones) = (0, 0, 0, 0, 0);
    for seed in 0..10 {
        let mut world = World::new(seed);
        for step in 0..220 {
            world.step();
            if step % 10 == 0 {
                world.check();
            }
        }
        world.check();
        let report = world.db.check(&mut |_| {}).unwrap();
        assert!(report.is_clean(), "{report:?}");
        world.check_space();
        compared += world.compared;
        crashes += world.crashes;
        lost += world.lost;
        raised += world.raised;
        clones += world.clones;
    }
    println!("{compared} states, {crashes} crashes, {lost} of them lost commits, {raised} raised");
    assert!(compared > 300 && crashes > 20 && lost > 2 && raised > 10 && clones > 10);
}

fn open(fs: &MemFs) -> Db {
    options(fs, &Arc::new(ManualClock::at(Duration::from_millis(1_000_000)))).open("db").unwrap()
}

/// Three versions of some keys, each flushed, and the sequence numbers after them.
fn versions(db: &Db) -> [u64; 3] {
    [1_u8, 2, 3].map(|version| {
        for number in 0..40_u8 {
            db.put([b'k', number], [version; 20]).unwrap();
        }
        db.flush().unwrap();
        db.stats().sequence
    })
}

fn has_version(state: &impl Read, version: u8) {
    let expected: Vec<_> =
        (0..40_u8).map(|number| (vec![b'k', number], vec![version; 20])).collect();
    assert!(contents(state) == expected, "version {version}");
}

#[test]
fn copies_readers_and_followers_have_the_floor_and_the_history() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.set_retention_floor(RetentionFloor::Now).unwrap();
    let at = versions(&db);
    db.set_retention_floor(RetentionFloor::Sequence(at[0])).unwrap();
    db.put(b"unflushed", b"1").unwrap();
    db.compact().unwrap();
    db.put(b"unflushed", b"2").unwrap();
    assert_eq!(db.stats().retention_floor, Some(at[0]));
    let has_all = |db: &Db, what: &str| {
        println!("{what}");
        assert_eq!(db.retention_floor(), Some(at[0]));
        for (version, at) in (1..).zip(at) {
            has_version(&db.snapshot_at(at).unwrap(), version);
        }
        let below = db.snapshot_at(at[0] - 1).unwrap_err();
        assert_eq!(below.kind(), ErrorKind::NotFound);
    };
    has_all(&db, "the database");
    db.checkpoint("copy").unwrap();
    let clock = Arc::new(ManualClock::at(Duration::from_millis(1_000_000)));
    let copy = options(&fs, &clock).open("copy").unwrap();
    copy.compact().unwrap();
    has_all(&copy, "a checkpoint");
    let made = db.backup("backups").unwrap();
    let backups = Backups::with_options("backups", options(&fs, &clock));
    backups.restore(Some(made.number), "restored").unwrap();
    let restored = options(&fs, &clock).open("restored").unwrap();
    restored.put(b"more", b"1").unwrap();
    restored.compact().unwrap();
    has_all(&restored, "a restored backup");
    let follower = options(&fs, &clock).open_follower("db").unwrap();
    has_all(&follower.db(), "a follower");
    let refused = follower.db().set_retention_floor(RetentionFloor::Now).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    // The follower learns of a higher floor.
    db.set_retention_floor(RetentionFloor::Sequence(at[1])).unwrap();
    db.compact().unwrap();
    follower.catch_up().unwrap();
    let followed = follower.db();
    assert_eq!(followed.retention_floor(), Some(at[1]));
    has_version(&followed.snapshot_at(at[1]).unwrap(), 2);
    assert!(followed.snapshot_at(at[0]).is_err());
    drop((followed, follower));
    db.close().unwrap();
    let reader = options(&fs, &clock).read_only(true).open("db").unwrap();
    assert_eq!(reader.retention_floor(), Some(at[1]));
    has_version(&reader.snapshot_at(at[1]).unwrap(), 2);
}

#[test]
fn a_number_within_a_batch_shows_the_batch_up_to_it() {
    let db = open(&MemFs::new());
    db.put(b"a", b"0").unwrap();
    db.set_retention_floor(RetentionFloor::Now).unwrap();
    let (default, mut batch) = (db.default_family(), WriteBatch::new());
    for key in [b"a", b"b", b"c"] {
        batch.put(&default, key, b"1").unwrap();
    }
    batch.delete_range(&default, &b"a"[..]..&b"c"[..]).unwrap();
    db.write(&batch).unwrap();
    db.compact().unwrap();
    let shown = |sequence| {
        let pairs = contents(&db.snapshot_at(sequence).unwrap());
        pairs.iter().map(|(key, value)| [&key[..], value].concat()).collect::<Vec<_>>().concat()
    };
    let shown: Vec<Vec<u8>> = (1..=5).map(shown).collect();
    assert_eq!(shown, [&b"a0"[..], b"a1", b"a1b1", b"a1b1c1", b"c1"]);
    assert_eq!(db.stats().sequence, 5);
}

#[test]
fn families_of_other_times_are_empty_or_gone() {
    let db = open(&MemFs::new());
    db.set_retention_floor(RetentionFloor::Now).unwrap();
    let early = db.create_family("early", small()).unwrap();
    early.put(b"key", b"1").unwrap();
    let then = db.stats().sequence;
    let late = db.create_family("late", small()).unwrap();
    late.put(b"key", b"2").unwrap();
    let state = db.snapshot_at(then).unwrap();
    assert!(state.family(&late).unwrap().is_empty().unwrap());
    // The name is that of today.
    db.rename_family("early", "renamed").unwrap();
    let renamed = db.family("renamed").unwrap();
    let of = |state: &Snapshot| state.family(&renamed).unwrap().get(b"key").unwrap();
    assert_eq!(of(&state).as_deref(), Some(&b"1"[..]));
    db.drop_family("renamed").unwrap();
    assert_eq!(db.family("renamed").unwrap_err().kind(), ErrorKind::NotFound);
    // A family of the same name begins anew.
    let again = db.create_family("early", FamilyOptions::new()).unwrap();
    assert!(db.snapshot_at(then).unwrap().family(&again).unwrap().is_empty().unwrap());
}

/// A reader that has read past deleted keys remembers them as an empty range; a reader at an
/// earlier moment must not.
#[test]
fn an_empty_range_of_today_hides_nothing_of_yesterday() {
    let db = open(&MemFs::new());
    db.set_retention_floor(RetentionFloor::Now).unwrap();
    let at = versions(&db);
    for number in 0..40_u8 {
        db.delete([b'k', number]).unwrap();
    }
    for _ in 0..5 {
        assert_eq!(db.first().unwrap(), None);
        has_version(&db.snapshot_at(at[2]).unwrap(), 3);
        has_version(&db.snapshot_at(at[0]).unwrap(), 1);
    }
    db.compact().unwrap();
    assert_eq!(db.last().unwrap(), None);
    has_version(&db.snapshot_at(at[1]).unwrap(), 2);
}

#[test]
fn operands_are_folded_as_of_each_number() {
    let db = open(&MemFs::new());
    db.put(b"key", b"0").unwrap();
    db.set_retention_floor(RetentionFloor::Now).unwrap();
    for number in 1..20_u8 {
        db.merge(b"key", [b'a' + number]).unwrap();
        // Readers keep folds.
        db.get(b"key").unwrap();
        if number % 6 == 0 {
            db.compact().unwrap();
        }
    }
    for sequence in (1..=20_u64).rev().chain(1..=20) {
        let value = db.snapshot_at(sequence).unwrap().get(b"key").unwrap().unwrap();
        let expected: Vec<u8> =
            [b'0'].into_iter().chain((1..sequence as u8).map(|number| b'a' + number)).collect();
        assert_eq!(value.to_vec(), expected, "at {sequence}");
    }
}

/// Keys of [`threads_read_old_states_while_the_floor_rises`].
const KEYS: u64 = 50;

/// Real threads, real files: the state after put number n, of which each sets one key to n.
#[test]
fn threads_read_old_states_while_the_floor_rises() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().memtable_bytes(32 << 10).workers(2).default_family(small());
    let db = options().open(dir.path().join("db")).unwrap();
    db.set_retention_floor(RetentionFloor::Now).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = db.clone();
    let writing = thread::spawn(move || {
        for number in 1..=40_000_u64 {
            writer.put((number % KEYS).to_be_bytes(), number.to_be_bytes()).unwrap();
        }
    });
    let readers: Vec<_> = (0..2)
        .map(|seed| {
            let (db, is_over) = (db.clone(), Arc::clone(&is_over));
            thread::spawn(move || {
                let (mut random, mut read) = (Random(seed), 0_u64);
                while !is_over.load(Ordering::Relaxed) {
                    read += u64::from(read_old(&db, &mut random));
                }
                read
            })
        })
        .collect();
    let mut raised = 0;
    while !writing.is_finished() {
        let (floor, now) = (db.retention_floor().unwrap(), db.stats().sequence);
        let to = floor + (now - floor) / 2;
        db.set_retention_floor(RetentionFloor::Sequence(to)).unwrap();
        raised += 1;
        thread::sleep(std::time::Duration::from_millis(2));
    }
    writing.join().unwrap();
    is_over.store(true, Ordering::Relaxed);
    let read: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
    assert!(read > 3 && raised > 2, "{read} states, raised {raised} times");
    db.compact().unwrap();
    let mut random = Random(7);
    (0..50).for_each(|_| assert!(read_old(&db, &mut random)));
    db.close().unwrap();
    let db = options().open(dir.path().join("db")).unwrap();
    (0..50).for_each(|_| assert!(read_old(&db, &mut random)));
}

/// Compares a random state from the floor on, unless the floor rises meanwhile.
fn read_old(db: &Db, random: &mut Random) -> bool {
    let (floor, now) = (db.retention_floor().unwrap(), db.stats().sequence);
    let at = floor + random.below(now - floor + 1);
    let state = match db.snapshot_at(at) {
        Err(error) if error.kind() == ErrorKind::NotFound => return false,
        state => state.unwrap(),
    };
    let mut expected: Vec<_> = (0..KEYS.min(at))
        .map(|back| at - back)
        .map(|number| ((number % KEYS).to_be_bytes().to_vec(), number.to_be_bytes().to_vec()))
        .collect();
    expected.sort();
    let what = format!("after {at}, floor {floor}");
    assert!(contents(&state) == expected, "{what}");
    true
}

#[test]
fn a_floor_is_refused_where_nothing_may_be_written() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put(b"a", b"1").unwrap();
    db.put(b"a", b"2").unwrap();
    let kind = |floor| db.set_retention_floor(floor).unwrap_err().kind();
    assert_eq!(kind(RetentionFloor::Sequence(1)), ErrorKind::NotFound);
    assert_eq!(kind(RetentionFloor::Sequence(3)), ErrorKind::InvalidArgument);
    assert_eq!(db.retention_floor(), None);
    assert_eq!(db.set_retention_floor(RetentionFloor::Sequence(2)).unwrap(), Some(2));
    compare(&db.snapshot_at(2).unwrap(), &[(b"a".to_vec(), b"2".to_vec())], "now");
    db.close().unwrap();
    let clock = Arc::new(ManualClock::at(Duration::from_millis(1_000_000)));
    let reader = options(&fs, &clock).read_only(true).open("db").unwrap();
    let refused = reader.set_retention_floor(RetentionFloor::None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
}
