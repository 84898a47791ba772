//! Backups beside a writer: what they cost it.

use crate::{
    engine::{Failure, Result},
    keys::splitmix64,
    upkeep::{
        data::{compare, key, value},
        part::Teller,
        space::Amount,
    },
};
use siltdb::{
    Db, Read,
    backup::{Backups, CopyOptions},
};
use std::{
    fs,
    ops::ControlFlow,
    panic,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Puts between two looks at the clock.
const LOOK: u64 = 64;
/// Bytes of the number of a put at the beginning of its value.
const STAMP_BYTES: usize = 8;

/// How backups and the puts without one alternate.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Rounds, of which the median counts.
    pub count: usize,
    /// Bytes that a backup copies in a second, at most.
    pub rate: u64,
    /// The time without a backup before and after each.
    pub alone: Duration,
}

/// Puts a log of entries that a state of the database can be compared with: first each key once,
/// then keys that look random. The value of a put begins with its number, from 1 on.
struct Writer {
    db: Db,
    amount: Amount,
    puts: u64,
}

/// The key of a put.
fn target(put: u64, entries: u64) -> u64 {
    if put <= entries { put - 1 } else { splitmix64(put) % entries }
}

fn stamped(put: u64, length: usize) -> Vec<u8> {
    let mut bytes = put.to_be_bytes().to_vec();
    bytes.extend(value(put, 0, length.saturating_sub(STAMP_BYTES)));
    bytes
}

impl Writer {
    fn put(&mut self) -> Result<()> {
        let Amount { entries, length } = self.amount;
        let put = self.puts + 1;
        self.db.put(key(target(put, entries)), stamped(put, length))?;
        self.puts = put;
        Ok(())
    }

    /// Puts until `is_over`; returns the puts of a second.
    fn rate_until(&mut self, is_over: impl Fn(Duration) -> bool) -> Result<f64> {
        let (before, begun) = (self.puts, Instant::now());
        loop {
            (0..LOOK).try_for_each(|_| self.put())?;
            let passed = begun.elapsed();
            if is_over(passed) {
                return Ok((self.puts - before) as f64 / passed.as_secs_f64());
            }
        }
    }

    /// The factor by which a backup to `dir` slows puts down.
    fn slowdown(&mut self, dir: &Path, options: &CopyOptions, alone: Duration) -> Result<f64> {
        let before = self.rate_until(|passed| passed >= alone)?;
        let (db, is_done) = (self.db.clone(), AtomicBool::new(false));
        let beside = thread::scope(|scope| {
            let backup = scope.spawn(|| {
                let made = db.backup_with(dir, options, &mut |_| ControlFlow::Continue(()));
                // Relaxed: the join orders what the backup did.
                is_done.store(true, Ordering::Relaxed);
                made
            });
            let rate = self.rate_until(|_| is_done.load(Ordering::Relaxed));
            backup.join().unwrap_or_else(|panic| panic::resume_unwind(panic))?;
            rate
        })?;
        let after = self.rate_until(|passed| passed >= alone)?;
        Ok(f64::midpoint(before, after) / beside)
    }

    /// Compares `db` with the state after `puts` puts.
    fn compare(&self, db: &Db, puts: u64, teller: &Teller<'_>) -> Result<()> {
        let Amount { entries, length } = self.amount;
        let mut last = vec![0; entries as usize];
        for put in 1..=puts {
            last[target(put, entries) as usize] = put;
        }
        let last = last.into_iter().zip(0_u64..).filter(|(put, _)| *put > 0);
        compare(db, last.map(|(put, i)| (key(i).to_vec(), stamped(put, length))), teller)
    }

    /// Restores the backup in `dir` to `restored`. It must hold the first `puts` puts, and of those
    /// after them the first ones.
    fn check(&self, dir: &Path, restored: &Path, puts: u64, teller: &Teller<'_>) -> Result<()> {
        Backups::new(dir).restore(None, restored)?;
        let db = Db::open(restored)?;
        let mut newest = 0;
        for entry in db.iter()? {
            let (_, value) = entry?;
            let stamp = value.first_chunk::<STAMP_BYTES>();
            let stamp = stamp.ok_or_else(|| Failure::verification("a value without a number"))?;
            newest = newest.max(u64::from_be_bytes(*stamp));
        }
        if newest < puts || newest > self.puts {
            let message = format!("a backup of put {newest}, not of {puts} to {}", self.puts);
            return Err(Failure::verification(message));
        }
        self.compare(&db, newest, teller)?;
        Ok(db.close()?)
    }
}

/// Puts as fast as possible, with a backup of all beside it and without.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn beside_writer(
    dir: &Path,
    amount: Amount,
    rounds: Rounds,
    teller: &Teller<'_>,
) -> Result<()> {
    fs::create_dir_all(dir)?;
    let (target, restored) = (dir.join("backups"), dir.join("restored"));
    let mut writer = Writer { db: Db::open(dir.join("db"))?, amount, puts: 0 };
    while writer.puts < 2 * amount.entries {
        writer.put()?;
    }
    let limited = CopyOptions::new().rate(rounds.rate);
    let (mut slowdowns, mut before): (Vec<f64>, u64) = (Vec::new(), 0);
    while slowdowns.len() < rounds.count && (slowdowns.is_empty() || !teller.is_over()) {
        teller.doing(format!("backup {} of {}", slowdowns.len() + 1, rounds.count));
        if target.exists() {
            fs::remove_dir_all(&target)?;
        }
        before = writer.puts;
        slowdowns.push(writer.slowdown(&target, &limited, rounds.alone)?);
    }
    teller.doing("a backup as fast as possible");
    let unlimited =
        writer.slowdown(&dir.join("unlimited"), &CopyOptions::new(), rounds.alone / 2)?;
    writer.db.settle()?;
    writer.compare(&writer.db, writer.puts, teller)?;
    writer.check(&target, &restored, before, teller)?;
    slowdowns.sort_by(f64::total_cmp);
    let (least, most) = (slowdowns[0], slowdowns[slowdowns.len() - 1]);
    let note = format!("{least:.2} to {most:.2}; {unlimited:.2} by a backup without a limit");
    let done = (slowdowns.len(), rounds.count);
    teller.figure("copies/backup-writer", slowdowns[slowdowns.len() / 2], done, note)?;
    Ok(writer.db.close()?)
}
