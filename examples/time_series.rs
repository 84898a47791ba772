//! Measurements by time. Run it with `cargo run --example time_series`.
//!
//! The key is the name of a series, a zero byte, and the time in milliseconds, most significant
//! byte first. So the order of bytes is the order of time, the measurements of a series are
//! adjacent, and one range delete drops old ones.

use siltdb::{Durability, Error, Family, Options, Read, Result, WriteBatch, WriteOptions};
use std::ops::Range;
use std::time::Duration;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Minimum, mean and maximum of the measurements of one interval.
#[derive(Debug, PartialEq)]
struct Summary {
    from_ms: u64,
    least: f64,
    mean: f64,
    most: f64,
}

struct Series {
    family: Family,
    name: &'static str,
}

impl Series {
    fn key(&self, time_ms: u64) -> Vec<u8> {
        [self.name.as_bytes(), b"\0", &time_ms.to_be_bytes()].concat()
    }

    fn add(&self, batch: &mut WriteBatch, time_ms: u64, value: f64) -> Result<()> {
        batch.put(&self.family, self.key(time_ms), value.to_le_bytes())
    }

    /// Returns the measurements within a time range, oldest first.
    fn between(&self, times: Range<u64>) -> Result<Vec<(u64, f64)>> {
        let range = self.family.range(self.key(times.start)..self.key(times.end))?;
        range.map(|entry| entry.and_then(|(key, value)| decode(&key, &value))).collect()
    }

    /// Returns the value at `time_ms`: the newest measurement at or before it.
    fn at(&self, time_ms: u64) -> Result<Option<(u64, f64)>> {
        let found = self.family.range(self.key(0)..=self.key(time_ms))?.next_back();
        found.map(|entry| entry.and_then(|(key, value)| decode(&key, &value))).transpose()
    }

    /// Returns a summary for each interval with measurements. It holds one entry at a time.
    fn summaries(&self, times: Range<u64>, interval_ms: u64) -> Result<Vec<Summary>> {
        let mut summaries: Vec<Summary> = Vec::new();
        let mut count = 0.0;
        for entry in self.family.range(self.key(times.start)..self.key(times.end))? {
            let (key, value) = entry?;
            let (time_ms, value) = decode(&key, &value)?;
            let from_ms = time_ms - time_ms % interval_ms;
            match summaries.last_mut().filter(|last| last.from_ms == from_ms) {
                Some(last) => {
                    count += 1.0;
                    last.least = last.least.min(value);
                    last.most = last.most.max(value);
                    last.mean += (value - last.mean) / count;
                }
                None => {
                    count = 1.0;
                    summaries.push(Summary { from_ms, least: value, mean: value, most: value });
                }
            }
        }
        Ok(summaries)
    }

    /// Deletes the measurements before `time_ms`, at the cost of one write.
    fn forget_before(&self, time_ms: u64) -> Result<()> {
        self.family.delete_range(self.key(0)..self.key(time_ms))
    }
}

fn decode(key: &[u8], value: &[u8]) -> Result<(u64, f64)> {
    let time = key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    let value = value.try_into().map(f64::from_le_bytes).ok();
    time.zip(value).ok_or_else(|| Error::corruption("this is no measurement"))
}

fn main() -> Result<()> {
    // A power loss may take the last second; a killed process loses nothing.
    let durability = Durability::Interval(Duration::from_secs(1));
    let db = Options::new().durability(durability).temporary()?;
    let inside = Series { family: db.default_family(), name: "inside" };
    let outside = Series { family: db.default_family(), name: "outside" };

    // A day of measurements, one a minute. A batch for each hour costs less than single puts.
    for hour in 0..24 {
        let mut batch = WriteBatch::new();
        for minute in 0..60 {
            let time_ms = hour * HOUR_MS + minute * MINUTE_MS;
            inside.add(&mut batch, time_ms, 20.0 + minute as f64 / 59.0)?;
            outside.add(&mut batch, time_ms, hour as f64)?;
        }
        db.write(&batch)?;
    }

    let noon = outside.between(12 * HOUR_MS..12 * HOUR_MS + 2 * MINUTE_MS)?;
    assert_eq!(noon, [(12 * HOUR_MS, 12.0), (12 * HOUR_MS + MINUTE_MS, 12.0)]);
    assert_eq!(outside.at(3 * HOUR_MS + 90_000)?, Some((3 * HOUR_MS + MINUTE_MS, 3.0)));

    let hours = inside.summaries(0..24 * HOUR_MS, HOUR_MS)?;
    assert_eq!(hours.len(), 24);
    assert_eq!((hours[7].from_ms, hours[7].least, hours[7].most), (7 * HOUR_MS, 20.0, 21.0));
    assert!((hours[7].mean - 20.5).abs() < 1e-9);

    // One write deletes twenty hours; the other series is not affected.
    outside.forget_before(20 * HOUR_MS)?;
    assert_eq!(outside.at(19 * HOUR_MS)?, None);
    assert_eq!(outside.between(0..24 * HOUR_MS)?.len(), 4 * 60);
    assert_eq!(inside.between(0..24 * HOUR_MS)?.len(), 24 * 60);

    // A single commit can be synced, while the others are not.
    let synced = WriteOptions::new().durability(Durability::Synced);
    db.put_with("kept from", (20 * HOUR_MS).to_be_bytes(), &synced)?;
    println!("time series: 2,880 measurements, 1,200 of them forgotten");
    Ok(())
}
