//! An event store: streams of events, read by stream or in global order, and a view of them. Run it
//! with `cargo run --example event_store`.
//!
//! An append gives the version of the stream that its decision is based on. So of two writers that
//! decide on the same state, only one succeeds. An append is one synced batch with the events,
//! their positions in the global order, and the view.

use siltdb::{Db, Durability, Error, Family, FamilyOptions, Options, Read, Result, WriteBatch};
use siltdb::{Snapshot, merge};
use std::sync::{Mutex, PoisonError};

struct EventStore {
    db: Db,
    /// Stream, a zero byte and the version, to the event.
    streams: Family,
    /// Position in the global order, to the event's key in `streams`.
    order: Family,
    /// Stream to its balance: the view that each event updates.
    balances: Family,
    /// The next position. Its lock serializes appends, so the version stays the newest from the
    /// check to the write.
    next_position: Mutex<u64>,
}

/// The outcome of an append.
#[derive(Debug, PartialEq)]
enum Append {
    Done,
    /// Another writer was first: read again, and decide again.
    Outdated,
}

impl EventStore {
    fn open(path: &std::path::Path) -> Result<Self> {
        let sum = merge::associative("sum", |_key, older, newer| {
            Ok((number(older)? + number(newer)?).to_be_bytes().to_vec())
        });
        let options = Options::new().durability(Durability::Synced).merge_operator(sum.clone());
        let db = options.open(path)?;
        let streams = db.family_or_create("streams", FamilyOptions::new())?;
        let order = db.family_or_create("order", FamilyOptions::new())?;
        let with_sum = FamilyOptions::new().merge_operator(sum);
        let balances = db.family_or_create("balances", with_sum)?;
        let next = order.last()?.map_or(Ok(0), |(key, _)| number(&key).map(|last| last + 1))?;
        let next_position = Mutex::new(next as u64);
        Ok(Self { db, streams, order, balances, next_position })
    }

    /// The number of events in a stream.
    fn version(&self, stream: &str) -> Result<u64> {
        let newest = self.streams.prefix(prefix_of(stream))?.next_back().transpose()?;
        newest.map_or(Ok(0), |(key, _)| Ok(number(&key[key.len() - 8..])? as u64 + 1))
    }

    /// Appends payments to the stream of an account that has `version` events.
    fn append(&self, stream: &str, version: u64, amounts: &[i64]) -> Result<Append> {
        let mut next = self.next_position.lock().unwrap_or_else(PoisonError::into_inner);
        if self.version(stream)? != version {
            return Ok(Append::Outdated);
        }
        let mut batch = WriteBatch::new();
        for (index, amount) in (0..).zip(amounts) {
            let key = [&prefix_of(stream)[..], &(version + index).to_be_bytes()].concat();
            batch.put(&self.streams, &key, amount.to_be_bytes())?;
            batch.put(&self.order, (*next + index).to_be_bytes(), &key)?;
            batch.merge(&self.balances, stream, amount.to_be_bytes())?;
        }
        self.db.write(&batch)?;
        *next += amounts.len() as u64;
        Ok(Append::Done)
    }

    /// The amounts from a position on, in the order of the appends, in one snapshot.
    fn replay(&self, moment: &Snapshot, from: u64) -> Result<Vec<i64>> {
        let (order, streams) = (moment.family(&self.order)?, moment.family(&self.streams)?);
        let mut amounts = Vec::new();
        for entry in order.range(from.to_be_bytes()..)? {
            let (_, key) = entry?;
            let event = streams.get(&key)?.ok_or_else(|| Error::corruption("an event is gone"))?;
            amounts.push(number(&event)?);
        }
        Ok(amounts)
    }

    fn balance(&self, stream: &str) -> Result<i64> {
        self.balances.get(stream)?.map_or(Ok(0), |sum| number(&sum))
    }
}

fn prefix_of(stream: &str) -> Vec<u8> {
    [stream.as_bytes(), b"\0"].concat()
}

fn number(bytes: &[u8]) -> Result<i64> {
    let bytes = bytes.try_into().map_err(|_| Error::corruption("no number of eight bytes"))?;
    Ok(i64::from_be_bytes(bytes))
}

fn run(path: &std::path::Path) -> Result<()> {
    let store = EventStore::open(path)?;
    assert_eq!(store.append("ada", 0, &[100, -30])?, Append::Done);
    assert_eq!(store.append("bob", 0, &[5])?, Append::Done);
    // This writer has not seen the first two events.
    assert_eq!(store.append("ada", 0, &[-90])?, Append::Outdated);
    assert_eq!(store.append("ada", store.version("ada")?, &[-70])?, Append::Done);
    assert_eq!((store.balance("ada")?, store.balance("bob")?), (0, 5));

    // A snapshot does not see later appends.
    let moment = store.db.snapshot();
    assert_eq!(store.append("bob", 1, &[7])?, Append::Done);
    assert_eq!(store.replay(&moment, 1)?, [-30, 5, -70]);

    // Each append was synced. So nothing is lost without a `close`, and positions continue.
    drop((moment, store));
    let store = EventStore::open(path)?;
    assert_eq!(store.append("bob", 2, &[1])?, Append::Done);
    assert_eq!(store.replay(&store.db.snapshot(), 0)?, [100, -30, 5, -70, 7, 1]);
    assert_eq!(store.balance("bob")?, 13);
    println!("event store: six events in two streams, one append refused");
    store.db.close()
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("siltdb-events-{}", std::process::id()));
    let result = run(&path);
    Db::destroy(&path)?;
    result
}
