//! The change feed over crashes. A feed of the reopened database returns the commits returned
//! before, as far as recovery has them. These commits make up the state of the database.

use crate::maps::Random;
use siltdb::{
    Action, Db, Durability, Event, Options, Read, SubscribeOptions, WriteBatch, WriteOptions,
};
use siltdb_base::{
    clock::ManualClock,
    fs::mem::{Crash, MemFs},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const SEEDS: u64 = 150;

/// First and last sequence number of a commit, with its keys and values.
type Told = (u64, u64, Vec<(Vec<u8>, Option<Vec<u8>>)>);

fn open(fs: &MemFs, seed: u64) -> Db {
    let options = Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let options = options.workers(0).seed(seed).memtable_bytes(4 << 10).memory_budget(1 << 20);
    options.retain_log_bytes(1 << 30).open("db").unwrap()
}

/// Reads all available commits, from the first on.
fn read(db: &Db) -> Vec<Told> {
    let mut feed = db.subscribe(&SubscribeOptions::new().from(1)).unwrap();
    let mut told = Vec::new();
    while let Some(event) = feed.try_next().unwrap() {
        let Event::Commit(commit) = event else { panic!("the log lacks {event:?}") };
        let changes = commit.changes().map(|change| {
            let key = change.operation.key.to_vec();
            match change.operation.action {
                Action::Put(value) => (key, Some(value.to_vec())),
                Action::Delete => (key, None),
                other => panic!("{other:?}"),
            }
        });
        told.push((commit.first, commit.last, changes.collect()));
    }
    told
}

/// The state of a database with these commits.
fn applied(told: &[Told]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut model = BTreeMap::new();
    for (key, value) in told.iter().flat_map(|(_, _, changes)| changes) {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
    model.into_iter().collect()
}

/// Writes random commits, and returns the last durable sequence number.
fn write(db: &Db, random: &mut Random) -> u64 {
    let mut durable = 0;
    for _ in 0..random.below(200) + 20 {
        let mut batch = WriteBatch::new();
        for _ in 0..random.below(4) + 1 {
            let key = format!("{:02}", random.below(40));
            match random.below(4) {
                0 => batch.delete(&db.default_family(), key).unwrap(),
                _ => {
                    let value = vec![random.below(256) as u8; random.below(300) as usize];
                    batch.put(&db.default_family(), key, value).unwrap();
                }
            }
        }
        let is_synced = random.below(10) == 0;
        let durability = if is_synced { Durability::Synced } else { Durability::Buffered };
        db.write_with(&batch, &WriteOptions::new().durability(durability)).unwrap();
        if random.below(40) == 0 {
            db.flush().unwrap();
        }
        if is_synced {
            durable = db.subscribe(&SubscribeOptions::new()).unwrap().position() - 1;
        }
    }
    durable
}

#[test]
fn a_feed_tells_after_a_crash_what_it_told_before_as_far_as_recovery_has_it() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let mut fs = MemFs::new();
        for round in 0..3 {
            let db = open(&fs, seed + round);
            let durable = write(&db, &mut random);
            let before = read(&db);
            let crash = match random.below(3) {
                0 => Crash::Kill,
                _ => Crash::PowerLoss { seed: random.below(1 << 30) },
            };
            let crashed = fs.crash_clone(crash);
            drop(db);
            fs = crashed;
            let db = open(&fs, seed + round + 1000);
            let after = read(&db);
            assert_eq!(after[..], before[..after.len()], "seed {seed}");
            let last = after.last().map_or(0, |(_, last, _)| *last);
            assert!(last >= durable, "seed {seed}: synced commits are there");
            let position = db.subscribe(&SubscribeOptions::new()).unwrap().position();
            assert_eq!(position, last + 1, "seed {seed}: the feed reaches to the end");
            let held = db.iter().unwrap().map(|entry| entry.unwrap());
            let held: Vec<_> = held.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            assert_eq!(held, applied(&after), "seed {seed}");
            if crash == Crash::Kill {
                assert_eq!(after.len(), before.len(), "seed {seed}");
            }
            (lost, kept) = (lost + before.len() - after.len(), kept + after.len());
        }
    }
    assert!(lost > 100 && kept > 1000, "{lost} commits were lost, {kept} stayed");
}
