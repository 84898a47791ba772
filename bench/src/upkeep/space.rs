//! Space of removed data: after range deletes, after expiry, after a dropped snapshot or family.
//!
//! After the removal the engine gets no more calls and has a minute. Small removals are flushed
//! before, so that they have reached the tables.

use crate::{
    engine::{Failure, Result},
    upkeep::{
        data::{compare, data_bytes, delete_by_range, fill, fill_family, key, timed, value},
        part::Teller,
    },
};
use siltdb::{Db, FamilyOptions, Options, testing::ManualClock};
use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// The engine must free space within this time.
const MINUTE: Duration = Duration::from_secs(60);
/// Interval between two checks of the directory.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of a key.
const KEY_BYTES: u64 = 8;
/// A wall clock independent of the machine: 2023-11-14, in milliseconds.
const NOW_MS: u64 = 1_700_000_000_000;
/// The expiry of entries, and the time after their last write at which they are checked.
const TIME_TO_LIVE: Duration = Duration::from_secs(60);
const LATER: Duration = Duration::from_secs(3600);

/// Entries and the length of their values.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// How many.
    pub entries: u64,
    /// Bytes of a value.
    pub length: usize,
}

/// The limit of the remaining bytes.
#[derive(Clone, Copy, Debug)]
pub enum Most {
    /// Bytes, if no data is live.
    Bytes(f64),
    /// A factor of the live bytes.
    Ratio(f64),
}

impl Amount {
    fn bytes(self, entries: u64) -> f64 {
        (entries * (KEY_BYTES + self.length as u64)) as f64
    }
}

/// The bytes that remain after a minute, or earlier once the limit is met.
struct Waited {
    figure: f64,
    /// 0 if the time of the part was over before.
    minutes: usize,
    note: String,
}

impl Waited {
    fn tell(self, bar: &str, teller: &Teller<'_>) -> Result<()> {
        teller.figure(bar, self.figure, (self.minutes, 1), self.note)
    }
}

/// Waits up to a minute until at most `most` of `live` bytes lies in `dir`; reports the rest.
fn wait(
    bar: &str,
    (dir, live): (&Path, f64),
    most: Most,
    teller: &Teller<'_>,
    mut passes: impl FnMut(Duration),
) -> Result<Waited> {
    teller.doing(format!("waits for {bar}"));
    let start = Instant::now();
    loop {
        let bytes = data_bytes(dir)? as f64;
        let (figure, is_enough) = match most {
            Most::Bytes(most) => (bytes, bytes <= most),
            Most::Ratio(most) => (bytes / live, bytes / live <= most),
        };
        let waited = start.elapsed();
        let is_whole = is_enough || waited >= MINUTE;
        if is_whole || teller.is_over() {
            let note = format!("{:.2} MB after {:.1} s", bytes / 1e6, waited.as_secs_f64());
            return Ok(Waited { figure, minutes: usize::from(is_whole), note });
        }
        thread::sleep(LOOK);
        passes(LOOK);
    }
}

/// Deletes the first `deleted` entries by one range delete, and flushes it.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn range_delete(
    bar: (&str, Most),
    dir: &Path,
    amount: Amount,
    deleted: u64,
    teller: &Teller<'_>,
) -> Result<()> {
    let remove = |db: &Db| {
        delete_by_range(db, deleted)?;
        Ok(db.flush()?)
    };
    removal(bar, (dir, amount), deleted, remove, teller)
}

/// Removes the first `deleted` entries by `remove`. The engine gets no further call.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn removal(
    (bar, most): (&str, Most),
    (dir, amount): (&Path, Amount),
    deleted: u64,
    remove: impl FnOnce(&Db) -> Result<()>,
    teller: &Teller<'_>,
) -> Result<()> {
    let db = Db::open(dir)?;
    fill(&db, 0..amount.entries, 0, amount.length)?;
    db.flush()?;
    db.settle()?;
    remove(&db)?;
    let live = amount.bytes(amount.entries - deleted);
    let waited = wait(bar, (dir, live), most, teller, |_| ())?;
    let left = (deleted..amount.entries).map(|i| (key(i).to_vec(), value(i, 0, amount.length)));
    compare(&db, left, teller)?;
    // The absence of the deleted entries was compared, too.
    teller.compared(deleted);
    waited.tell(bar, teller)?;
    Ok(db.close()?)
}

/// Deletes all entries by one range delete, which is timed, and lets the engine find it in memory.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn large_range_delete(
    [time, space]: [&str; 2],
    most: Most,
    (dir, amount): (&Path, Amount),
    teller: &Teller<'_>,
) -> Result<()> {
    let db = Db::open(dir)?;
    fill(&db, 0..amount.entries, 0, amount.length)?;
    db.flush()?;
    db.settle()?;
    let before = data_bytes(dir)?;
    let family = db.default_family();
    let delete = || Ok(family.delete_range(key(0)..key(amount.entries))?);
    let taken = timed(delete)?.1.as_nanos() as f64;
    let waited = wait(space, (dir, 0.0), most, teller, |_| ())?;
    compare(&db, std::iter::empty(), teller)?;
    // The absence of the deleted entries was compared.
    teller.compared(amount.entries);
    teller.figure(time, taken, (1, 1), format!("{:.0} MB", before as f64 / 1e6))?;
    waited.tell(space, teller)?;
    drop(family);
    Ok(db.close()?)
}

/// Drops a family and then its clone, which shares all tables. Both calls are timed, and the slower
/// one counts. The space must stay for the clone, and come back after it.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn drop_of_clone(
    [time, space]: [&str; 2],
    most: Most,
    (dir, amount): (&Path, Amount),
    teller: &Teller<'_>,
) -> Result<()> {
    let db = Db::open(dir)?;
    let source = db.create_family("source", FamilyOptions::new())?;
    fill_family(&db, &source, 0..amount.entries, (0, amount.length))?;
    db.flush()?;
    db.settle()?;
    let clone = db.clone_family(&source, "clone")?;
    drop(source);
    let of_source = timed(|| Ok(db.drop_family("source")?))?.1.as_nanos() as f64;
    let all = (0..amount.entries).map(|i| (key(i).to_vec(), value(i, 0, amount.length)));
    compare(&clone, all, teller)?;
    let before = data_bytes(dir)? as f64;
    // A table is a little smaller than its keys and values.
    if before < 0.9 * amount.bytes(amount.entries) {
        return Err(Failure::verification(format!("{before} bytes are left for a clone")));
    }
    drop(clone);
    let of_clone = timed(|| Ok(db.drop_family("clone")?))?.1.as_nanos() as f64;
    let waited = wait(space, (dir, 0.0), most, teller, |_| ())?;
    compare(&db, std::iter::empty(), teller)?;
    let note = format!("{:.0} MB, {:.2} ms for its source", before / 1e6, of_source / 1e6);
    teller.figure(time, of_source.max(of_clone), (1, 1), note)?;
    waited.tell(space, teller)?;
    Ok(db.close()?)
}

/// Puts entries that expire after a minute, and checks an hour later, after one more write.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn expiry(
    (bar, most): (&str, Most),
    dir: &Path,
    amount: Amount,
    teller: &Teller<'_>,
) -> Result<()> {
    let clock = Arc::new(ManualClock::at(Duration::from_millis(NOW_MS)));
    let db = Options::new().clock(clock.clone()).open(dir)?;
    let family = db.default_family();
    for number in 0..amount.entries {
        family.put_for(key(number), value(number, 0, amount.length), TIME_TO_LIVE)?;
    }
    db.flush()?;
    db.settle()?;
    clock.advance(LATER);
    db.put(key(amount.entries), b"x")?;
    let waited = wait(bar, (dir, 0.0), most, teller, |time| clock.advance(time))?;
    compare(&db, [(key(amount.entries).to_vec(), b"x".to_vec())].into_iter(), teller)?;
    waited.tell(bar, teller)?;
    drop(family);
    Ok(db.close()?)
}

/// Overwrites all entries under a snapshot, compacts, drops the snapshot, and writes once more.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn snapshot(
    (bar, most): (&str, Most),
    dir: &Path,
    amount: Amount,
    teller: &Teller<'_>,
) -> Result<()> {
    let db = Db::open(dir)?;
    let all = |version: u64| {
        (0..amount.entries).map(move |i| (key(i).to_vec(), value(i, version, amount.length)))
    };
    fill(&db, 0..amount.entries, 0, amount.length)?;
    db.flush()?;
    let snapshot = db.snapshot();
    fill(&db, 0..amount.entries, 1, amount.length)?;
    db.compact()?;
    compare(&snapshot, all(0), teller)?;
    drop(snapshot);
    db.put(key(amount.entries), b"x")?;
    let live = amount.bytes(amount.entries);
    let waited = wait(bar, (dir, live), most, teller, |_| ())?;
    let last = (key(amount.entries).to_vec(), b"x".to_vec());
    compare(&db, all(1).chain([last]), teller)?;
    waited.tell(bar, teller)?;
    Ok(db.close()?)
}
