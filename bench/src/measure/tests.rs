//! Tests of clocks, counts and time limits.

use super::{
    CountAt, Counted, Meter, QUIET_LOOKS, Watch, Watched, disk_bytes, histogram, latency,
    wait_until_quiet, watched,
};
use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

#[test]
fn percentiles_are_those_of_the_calls() {
    let mut calls = histogram();
    (1..=1000).for_each(|nanos| calls.record(nanos).unwrap());
    let latency = latency(&calls, 1, None);
    assert_eq!((latency.min, latency.p50, latency.p99, latency.max), (1, 500, 990, 1000));
    assert!((latency.avg - 500.5).abs() < 1.0 && (latency.cv_percent - 57.7).abs() < 1.0);
    assert!(latency.curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    assert_eq!(latency.curve.len(), 40);
}

#[test]
fn a_phase_beyond_its_cap_is_stopped_and_says_so() {
    let told = Mutex::new(Vec::new());
    let watch = Watch {
        tell: &|progress| told.lock().unwrap().push(progress.done),
        cap: Duration::from_millis(1050),
    };
    let what = Watched { phase: "test", total: 0, threads: 1, cap: Some(watch.cap) };
    let start = Instant::now();
    let (done, seconds) = watched(what, &watch, |pace| {
        let mut done = 0_u64;
        while pace.goes_on(0, done) {
            done += 1;
        }
        Ok(done)
    })
    .unwrap();
    assert!(start.elapsed() >= watch.cap && seconds.capped);
    assert_eq!(seconds.samples.len(), 1);
    let told = told.into_inner().unwrap();
    assert!(told.len() == 1 && told[0] == seconds.samples[0] && told[0] <= done);
}

#[test]
fn a_phase_that_ends_in_time_is_not_capped() {
    let watch = Watch { tell: &|_| {}, cap: Duration::from_secs(60) };
    let what = Watched { phase: "test", total: 0, threads: 1, cap: Some(watch.cap) };
    let ((), seconds) = watched(what, &watch, |_| Ok(())).unwrap();
    assert!(!seconds.capped && seconds.samples.is_empty());
}

#[test]
fn what_a_phase_does_beside_its_work_is_neither_its_time_nor_its_use() {
    let dir = tempfile::tempdir().unwrap();
    let watch = Watch { tell: &|_| {}, cap: Duration::from_millis(400) };
    let what = Watched { phase: "test", total: 0, threads: 1, cap: Some(watch.cap) };
    let meter = Meter::start(dir.path(), CountAt::Process, 0);
    let busy = |most: Duration| {
        let start = Instant::now();
        while start.elapsed() < most {
            std::hint::black_box(());
        }
    };
    let copy = || {
        busy(watch.cap * 2);
        Ok(std::fs::write(dir.path().join("copy"), vec![1; 8 << 20])?)
    };
    let phase = watched(what, &watch, |pace| pace.aside(dir.path(), copy));
    let ((), seconds) = phase.unwrap();
    assert!(!seconds.capped && seconds.aside.time >= watch.cap * 2, "{seconds:?}");
    let (all, own) = (meter.stop(0, &Counted::default()), meter.stop(0, &seconds.aside));
    let is_counted = all.bytes_written > 0;
    assert!(all.bytes_written >= own.bytes_written + (1 << 20) || !is_counted, "{all:?}, {own:?}");
    // After that, as much time is left as before.
    let phase = watched(what, &watch, |pace| {
        busy(watch.cap / 2);
        pace.aside(dir.path(), copy)?;
        let start = Instant::now();
        while pace.goes_on(0, 0) {}
        Ok(start.elapsed())
    });
    let (rest, seconds) = phase.unwrap();
    assert!(seconds.capped && rest >= watch.cap / 8, "{rest:?}, {seconds:?}");
}

#[test]
fn the_kernel_tells_what_was_used() {
    let dir = tempfile::tempdir().unwrap();
    let meter = Meter::start(dir.path(), CountAt::Process, super::resident_bytes());
    let mut memory = vec![0_u8; 64 << 20];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::fs::write(dir.path().join("file"), &memory[..1 << 20]).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(50) {
        std::hint::black_box(&memory);
    }
    let usage = meter.stop(0, &Counted::default());
    assert!(usage.peak_rss_bytes >= usage.harness_rss_bytes + (60 << 20), "{usage:?}");
    assert!(usage.peak_vms_bytes > usage.peak_rss_bytes && usage.cpu_percent > 10.0, "{usage:?}");
    assert!(disk_bytes(dir.path()).unwrap() >= 1 << 20 || usage.bytes_written == 0);
}

#[test]
fn it_is_quiet_since_the_first_of_a_run_of_quiet_looks() {
    let mut looks = Vec::new();
    let since = wait_until_quiet(|| {
        looks.push(Instant::now());
        // Work appears once more after the checks seemed quiet.
        Ok(looks.len() != 5)
    });
    let since = since.unwrap();
    assert_eq!(looks.len(), 5 + QUIET_LOOKS as usize);
    assert!(looks[5] <= since && since <= looks[6], "{looks:?}, {since:?}");
}
