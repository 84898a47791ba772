//! When a job yields.

use super::*;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64},
};
use std::time::{Duration, Instant};

#[test]
fn a_job_keeps_its_processor_for_a_while_and_as_long_as_it_likes_if_its_share_is_all() {
    let (share, clock) = (ProcessorShare::default(), AtomicU64::new(1_000_000_000));
    let now_ns = || clock.load(Ordering::Relaxed);
    assert!(!share.maybe_yield(now_ns));
    // No thread has had less than nothing.
    share.set(0.0);
    assert!(share.maybe_yield(now_ns));
    let turns: Vec<_> = (0..10)
        .map(|_| {
            clock.fetch_add(YIELD_INTERVAL_NS / 4, Ordering::Relaxed);
            share.maybe_yield(now_ns)
        })
        .collect();
    let (kept, offered) = (false, true);
    let turn = [kept, kept, kept, offered];
    assert_eq!(turns, [&turn[..], &turn[..], &turn[..2]].concat());
}

#[test]
fn a_thread_that_has_had_less_than_its_share_keeps_the_processor() {
    let usage = Usage { looked_ns: 0, from_ns: 1_000, had_ns: 500 };
    // A quarter of 400 ns.
    assert!(!has_had_more(250, &usage, 599, 1_400));
    assert!(has_had_more(250, &usage, 600, 1_400));
    assert!(!has_had_more(500, &usage, 600, 1_400));
}

#[test]
fn a_share_is_what_was_set_within_bounds() {
    let share = ProcessorShare::default();
    for (set, got) in [(0.25, 0.25), (7.0, 1.0), (-1.0, 0.0)] {
        share.set(set);
        assert!((share.get() - got).abs() < 1e-9);
    }
}

/// Beside as many threads that never rest as there are processors.
#[test]
fn beside_busy_threads_a_job_gets_its_share() {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let is_over = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..cores)
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || while !is_over.load(Ordering::Relaxed) {})
        })
        .collect();
    let share = ProcessorShare::default();
    share.set(0.25);
    let start = Instant::now();
    let had_before = thread_processor_ns();
    while start.elapsed() < Duration::from_millis(600) {
        share.maybe_yield(|| start.elapsed().as_nanos() as u64);
    }
    let (elapsed, had_after) = (start.elapsed(), thread_processor_ns());
    is_over.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    let (Some(before), Some(after)) = (had_before, had_after) else { return };
    // Other tests run beside it, so it may have had less than it was entitled to.
    let part = (after - before) as f64 / elapsed.as_nanos() as f64;
    assert!(part > 0.03, "{part}");
}
