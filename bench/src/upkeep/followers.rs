//! A follower beside a writer in another process: how far behind it is.

use crate::{
    engine::{Failure, Result},
    upkeep::{
        data::{compare, key, value},
        part::Teller,
    },
};
use siltdb::{Db, ErrorKind, Read};
use std::{
    env, panic,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The hidden part in which the writer is a process of its own.
pub const WRITER: &str = "copies-follower-writer";

/// Puts of a millisecond: 100,000 a second.
const PUTS_PER_MS: u64 = 100;
/// Each second put has the time of its commit; the others have one of so many keys.
const KEYS: u64 = 1_000_000;
const VALUE_BYTES: usize = 100;
/// The key of the time of the newest commit, in microseconds since 1970.
const NEWEST: &[u8] = b"newest";
/// The key of the writer's duration, in microseconds: its last put.
const TOOK: &[u8] = b"took";
/// The writer is late, and the figure cut off, if it takes longer by more than this factor.
const LATE: f64 = 1.01;
/// The pause between two calls of the follower.
const PAUSE: Duration = Duration::from_millis(1);
/// One sample of the lag is taken in this time, in microseconds.
const SAMPLE_US: u64 = 1000;

fn now_us() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?)
}

fn put_pair(db: &Db, number: u64) -> Result<()> {
    db.put(key(number % KEYS), value(number % KEYS, 0, VALUE_BYTES))?;
    Ok(db.put(NEWEST, now_us()?.to_be_bytes())?)
}

/// Puts for `seconds` at the rate.
///
/// # Errors
/// Errors of the engine.
pub fn write(dir: &Path, seconds: u64) -> Result<()> {
    let db = Db::open(dir)?;
    let begun = Instant::now();
    for ms in 0..seconds * 1000 {
        let due = begun + Duration::from_millis(ms);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let pairs = PUTS_PER_MS / 2;
        (ms * pairs..(ms + 1) * pairs).try_for_each(|number| put_pair(&db, number))?;
    }
    db.put(TOOK, u64::try_from(begun.elapsed().as_micros())?.to_be_bytes())?;
    Ok(db.close()?)
}

/// Runs [`write`] in a process of its own.
///
/// # Errors
/// Errors of the system; if the process fails.
pub fn write_elsewhere(dir: &Path, seconds: u64) -> Result<()> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["upkeep-part", WRITER, "--seconds", &seconds.to_string(), "--dir"]).arg(dir);
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().next_back().unwrap_or_default();
    Err(Failure::error(format!("the writer failed: {said}")))
}

fn number(source: &impl Read, key: &[u8]) -> Result<Option<u64>> {
    let Some(value) = source.get(key)? else { return Ok(None) };
    let bytes = <[u8; 8]>::try_from(&value[..]);
    bytes.map(|bytes| Some(u64::from_be_bytes(bytes))).map_err(Failure::from)
}

/// Lags as they were each millisecond, also while the follower was busy, in microseconds.
#[derive(Debug)]
struct Lags {
    samples_us: Vec<u64>,
    /// The time of the newest commit that the follower shows.
    newest_us: u64,
    /// The time of the next sample. None before the first commit that was shown.
    due_us: Option<u64>,
    looks: usize,
}

impl Lags {
    /// The follower shows a commit of `newest_us` from `now_us` on.
    fn show(&mut self, newest_us: u64, now_us: u64) -> Result<()> {
        if newest_us < self.newest_us {
            return Err(Failure::verification("a follower went back"));
        }
        if self.due_us.is_none() && newest_us > self.newest_us {
            self.due_us = Some(now_us);
        }
        while let Some(due_us) = self.due_us.filter(|due_us| *due_us < now_us) {
            self.samples_us.push(due_us.saturating_sub(self.newest_us));
            self.due_us = Some(due_us + SAMPLE_US);
        }
        self.newest_us = newest_us;
        self.looks += 1;
        Ok(())
    }
}

/// Follows a writer that `write` runs for `seconds`, and measures the age of the newest commit that
/// the follower shows.
///
/// # Errors
/// Errors of the engine and of the writer; `Verification`.
pub fn lag(
    dir: &Path,
    seconds: u64,
    write: impl FnOnce(&Path, u64) -> Result<()> + Send,
    teller: &Teller<'_>,
) -> Result<()> {
    let db = Db::open(dir)?;
    put_pair(&db, 0)?;
    db.close()?;
    let follower = Db::open_follower(dir)?;
    let newest_us = number(&follower.db(), NEWEST)?.unwrap_or_default();
    let mut lags = Lags { samples_us: Vec::new(), newest_us, due_us: None, looks: 0 };
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| write(dir, seconds));
        while !writer.is_finished() && number(&follower.db(), TOOK)?.is_none() {
            match follower.catch_up() {
                // The writer changed files faster than they could be read: the next call goes on.
                Err(error) if error.kind() == ErrorKind::Busy => continue,
                caught_up => caught_up?,
            };
            let newest_us = number(&follower.db(), NEWEST)?.unwrap_or_default();
            lags.show(newest_us, now_us()?)?;
            thread::sleep(PAUSE);
        }
        writer.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    })?;
    follower.catch_up()?;
    let state = follower.db();
    let (newest, took) = (number(&state, NEWEST)?, number(&state, TOOK)?.unwrap_or(u64::MAX));
    let puts = seconds * 1000 * PUTS_PER_MS;
    let all = (0..KEYS.min(puts / 2)).map(|i| (key(i).to_vec(), value(i, 0, VALUE_BYTES)));
    let times = [(NEWEST, newest.unwrap_or_default()), (TOOK, took)];
    let times = times.map(|(key, time)| (key.to_vec(), time.to_be_bytes().to_vec()));
    compare(&state, all.chain(times), teller)?;
    lags.samples_us.sort_unstable();
    let samples = &lags.samples_us;
    let Some(last) = samples.len().checked_sub(1) else {
        return Err(Failure::error("the follower showed no commit while the writer ran"));
    };
    let at = |share: f64| samples[(last as f64 * share) as usize] as f64;
    let rate = puts as f64 / (took as f64 / 1e6);
    let note = format!(
        "median {:.2} ms, most {:.1} ms; {:.0} puts a second, {} looks",
        at(0.5) / 1e3,
        at(1.0) / 1e3,
        rate,
        lags.looks
    );
    let is_late = took as f64 > seconds as f64 * 1e6 * LATE;
    let done = if is_late { (rate * seconds as f64) as u64 } else { puts };
    let done = (usize::try_from(done)?, usize::try_from(puts)?);
    teller.figure("copies/follower-lag", at(0.99) * 1e3, done, note)
}

#[cfg(test)]
mod tests;
