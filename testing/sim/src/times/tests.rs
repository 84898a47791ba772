//! Tests of the effect of a clock that is set back.

use super::{Clock, LAG_MS_MAX, ManualClock, Times};
use siltdb_base::clock::{ForwardClock, StoredTime};
use std::{sync::Arc, time::Duration};

#[test]
fn the_time_goes_on_and_a_crash_takes_it_back_to_a_durable_one_at_most() {
    let clock = ManualClock::at(Duration::from_millis(1000));
    let mut times = Times::new(1000, &[900], &clock);
    clock.set(Duration::from_millis(1200));
    times.read(&clock);
    clock.set(Duration::from_millis(300));
    times.read(&clock);
    assert_eq!(times.at(&clock), 1200);
    clock.set(Duration::from_millis(1300));
    assert_eq!(times.at(&clock), 1300);
    assert_eq!(times.floors_ms(), [900, 1000, 1200]);
    times.made_durable();
    assert_eq!(times.floors_ms(), [1200]);
}

#[test]
fn what_was_seen_expired_bounds_what_a_kill_takes_back() {
    let clock = ManualClock::at(Duration::from_millis(1000));
    let mut times = Times::new(1000, &[900], &clock);
    times.saw_expired(950);
    times.saw_expired(940);
    assert_eq!((times.seen_ms(), times.floors_ms()), (950, &[900, 1000][..]));
}

#[test]
fn the_time_runs_on_while_the_clock_is_far_behind() {
    let clock = ManualClock::at(Duration::from_millis(5 * LAG_MS_MAX));
    let mut times = Times::new(5 * LAG_MS_MAX, &[], &clock);
    clock.set(Duration::ZERO);
    clock.advance(Duration::from_millis(70));
    times.read(&clock);
    assert_eq!(times.at(&clock), 5 * LAG_MS_MAX + 70);
}

#[test]
fn a_time_that_the_clock_reaches_again_runs_on_as_that_of_the_database() {
    let start_ms = 5 * LAG_MS_MAX;
    let clock = Arc::new(ManualClock::at(Duration::from_millis(start_ms)));
    let forward = ForwardClock::new(Arc::clone(&clock) as _, StoredTime::default());
    let mut times = Times::new(forward.wall_ms(), &[], &clock);
    let mut read = || {
        times.read(&clock);
        assert_eq!(times.at(&clock), forward.wall_ms());
        times.at(&clock)
    };
    clock.set(Duration::from_millis(start_ms - 300));
    assert_eq!(read(), start_ms);
    clock.advance(Duration::from_millis(300));
    assert_eq!(read(), start_ms);
    clock.set(Duration::ZERO);
    assert_eq!(read(), start_ms + 300);
}
