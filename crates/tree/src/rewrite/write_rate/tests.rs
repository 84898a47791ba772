//! What waits for the rate, and for how long.

use super::*;
use siltdb_base::{
    clock::ManualClock,
    fs::{Fs, mem::MemFs},
};
use std::{path::Path, time::Duration};

const SECOND_NS: u64 = 1_000_000_000;

fn limited(bytes_per_second: u64) -> (Arc<ManualClock>, Arc<WriteRate>) {
    let clock = Arc::new(ManualClock::at(Duration::ZERO));
    (Arc::clone(&clock), Arc::new(WriteRate::new(bytes_per_second, clock)))
}

fn file(rate: &Arc<WriteRate>, rate_use: RateUse) -> Box<dyn WriteFile> {
    rate.counted(MemFs::new().create(Path::new("file")).unwrap(), rate_use)
}

#[test]
fn a_compaction_keeps_to_the_rate_and_a_flush_comes_before_it() {
    let (clock, rate) = limited(1000);
    let mut compaction = file(&rate, RateUse::Waits);
    for _ in 0..20 {
        compaction.append(&[0; 100]).unwrap();
    }
    // The last one is not waited for.
    assert_eq!(clock.monotonic_ns(), 19 * SECOND_NS / 10);
    let mut flush = file(&rate, RateUse::Counts);
    let before = clock.monotonic_ns();
    for _ in 0..20 {
        flush.append(&[0; 100]).unwrap();
    }
    assert_eq!(clock.monotonic_ns(), before);
    // A compaction waits for it, but not for all that it wrote: it must come to an end, too.
    compaction.append(&[0; 100]).unwrap();
    assert_eq!(clock.monotonic_ns(), before + SECOND_NS);
    compaction.sync().unwrap();
    assert_eq!((compaction.len(), flush.len()), (2100, 2000));
}

#[test]
fn no_job_waits_while_writers_are_delayed_or_the_database_closes() {
    let (clock, rate) = limited(10);
    let mut compaction = file(&rate, RateUse::Waits);
    rate.note_debt(0.01);
    for _ in 0..10 {
        compaction.append(&[0; 100]).unwrap();
    }
    assert_eq!(clock.monotonic_ns(), 0);
    rate.note_debt(0.0);
    compaction.append(&[0; 100]).unwrap();
    assert_eq!(clock.monotonic_ns(), SECOND_NS);
    rate.end();
    compaction.append(&[0; 100]).unwrap();
    assert_eq!(clock.monotonic_ns(), SECOND_NS);
}
