//! Which writer waits how long.

use super::*;
use std::{iter, sync::mpsc, thread};

const MIB: u64 = 1 << 20;

/// A millisecond for ten thousand bytes.
const PRESSURE: Pressure = Pressure::Delay(100.0);

fn pace() -> Pacer {
    Pacer::new(OpenId::next())
}

/// How long the thread sleeps for `bytes`, if nothing changes meanwhile. It is exact to a hundredth
/// of a millisecond, because the rest is counted in whole bytes.
fn sleep(pace: &Pacer, bytes: u64) -> Option<Duration> {
    let delays = iter::successors(pace.advance(bytes), |delay| pace.go_on(delay));
    let delays = delays.inspect(|delay| assert!(delay.time.as_nanos() <= u128::from(DELAY_NS_MAX)));
    let time = delays.map(|delay| delay.time).reduce(|a, b| a + b)?;
    Some(Duration::from_micros((time.as_nanos() as u64).div_ceil(10_000) * 10))
}

/// Runs steps on two threads in turn. Each returns what the first thread reports, then the second.
fn in_turn<T: Send>(
    first: impl Fn(usize) -> T + Sync + Send,
    second: impl Fn(usize) -> T + Sync + Send,
    turns: usize,
) -> Vec<(T, T)> {
    let (to_second, at_second) = mpsc::channel();
    let (to_first, at_first) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            while let Ok(turn) = at_second.recv() {
                to_first.send(second(turn)).unwrap();
            }
        });
        let turns = (0..turns).map(|turn| {
            let said = first(turn);
            to_second.send(turn).unwrap();
            (said, at_first.recv().unwrap())
        });
        let said = turns.collect();
        // Ends the other thread.
        drop(to_second);
        said
    })
}

#[test]
fn nobody_waits_without_pressure() {
    let pace = pace();
    assert_eq!(pace.advance(1 << 40), None);
    pace.set_pressure(PRESSURE);
    let delay = pace.advance(MIB).unwrap();
    pace.set_pressure(Pressure::Delay(0.0));
    assert_eq!(pace.go_on(&delay), None);
    assert_eq!(pace.advance(1 << 40), None);
}

#[test]
fn who_works_in_the_background_gives_way_while_writers_wait_a_little() {
    let pace = pace();
    let gives_way_at = |pressure| {
        pace.set_pressure(pressure);
        pace.should_yield().load(Ordering::Relaxed)
    };
    let delays = [0.0, 0.001, 1.0, 20.0, 20.001, 900.0];
    let ways = delays.map(|ns_per_byte| gives_way_at(Pressure::Delay(ns_per_byte)));
    assert_eq!(ways, [false, true, true, true, false, false]);
    assert!(!gives_way_at(Pressure::Stop));
}

#[test]
fn a_small_price_for_one_write_is_slept_for_at_once() {
    let pace = pace();
    pace.set_pressure(PRESSURE);
    // For the leader, a byte costs 150 ns.
    assert_eq!(sleep(&pace, 400), Some(Duration::from_micros(60)));
    assert_eq!(sleep(&pace, 399), None);
}

#[test]
fn who_is_stopped_pays_nothing() {
    let pace = pace();
    assert!(!pace.is_stopped());
    pace.set_pressure(Pressure::Stop);
    assert!(pace.is_stopped());
    assert_eq!(pace.advance(MIB), None);
}

#[test]
fn one_writer_pays_half_more_than_its_price_and_never_more_than_the_longest_sleep() {
    let pace = pace();
    pace.set_pressure(PRESSURE);
    assert_eq!(sleep(&pace, 100_000), Some(Duration::from_millis(15)));
    assert_eq!(sleep(&pace, u64::MAX >> 20), Some(Duration::from_nanos(SLEEP_NS_MAX)));
}

#[test]
fn who_has_slept_a_part_pays_for_the_rest_by_what_the_pressure_is_by_then() {
    let pace = pace();
    pace.set_pressure(PRESSURE);
    let delay = pace.advance(100_000).unwrap();
    assert_eq!(delay.time, Duration::from_millis(2));
    // Two fifteenths are paid; now each byte costs a thousandth, and then a tenth.
    pace.set_pressure(Pressure::Delay(0.1));
    assert_eq!(pace.go_on(&delay), None);
    pace.set_pressure(Pressure::Delay(10.0));
    let last = pace.go_on(&delay).unwrap();
    assert_eq!(last.time.as_micros(), 1299);
    assert_eq!(pace.go_on(&last), None);
    pace.set_pressure(Pressure::Stop);
    assert_eq!(pace.go_on(&delay), None);
}

#[test]
fn who_sleeps_in_front_pays_less_for_the_rest_once_others_have_passed_by() {
    let pace = pace();
    pace.set_pressure(PRESSURE);
    let delays = in_turn(
        |_| pace.advance(MIB),
        // Far less than the first, then far more.
        |turn| pace.advance([1, 4 * MIB][turn]),
        2,
    );
    let second = pace.go_on(&delays[0].0.unwrap()).unwrap();
    let third = pace.go_on(&second).unwrap();
    // 2 ms pay for 13,333 bytes of the leader, and for 40,000 of a writer far behind.
    assert_eq!(second.rest.bytes, third.rest.bytes + 40_000);
    assert_eq!(delays[0].0.unwrap().rest.bytes, MIB - 13_334);
}

#[test]
fn small_prices_add_up() {
    let pace = pace();
    pace.set_pressure(PRESSURE);
    let delays: Vec<_> = (0..10_000).filter_map(|_| sleep(&pace, 100)).collect();
    assert_eq!(delays.iter().sum::<Duration>().as_millis(), 149);
    assert!(delays.iter().all(|delay| delay.as_nanos() >= u128::from(OWED_NS_MIN)));
}

#[test]
fn who_is_behind_pays_less_until_it_has_caught_up() {
    let pace = pace();
    let sleeps = in_turn(
        // Both begin together. Then the first writes 2 MiB before any writer waits, and no more.
        |turn| sleep(&pace, [1000, 2 * MIB].get(turn).copied().unwrap_or(0)),
        |turn| {
            if turn > 0 {
                pace.set_pressure(PRESSURE);
            }
            let slept = sleep(&pace, if turn == 0 { 1000 } else { 100_000 });
            pace.set_pressure(Pressure::Delay(0.0));
            slept
        },
        30,
    );
    let sleeps: Vec<_> = sleeps[1..].iter().map(|(_, slept)| slept.unwrap().as_micros()).collect();
    assert!(sleeps.is_sorted(), "{sleeps:?}");
    assert_eq!((sleeps[0], sleeps[28]), (5_000, 15_000));
    assert!(sleeps.iter().filter(|slept| (5_001..15_000).contains(*slept)).count() >= 4);
}

#[test]
fn those_who_begin_together_count_from_the_same_place() {
    let pace = pace();
    let sleeps = in_turn(
        // The first arrives earlier, by 2 MiB, and then waits for the second.
        |turn| sleep(&pace, [2 * MIB, 0, 0][turn]),
        |_| {
            pace.set_pressure(Pressure::Delay(10.0));
            sleep(&pace, MIB)
        },
        3,
    );
    let sleeps: Vec<_> = sleeps.iter().map(|(_, slept)| slept.unwrap().as_millis()).collect();
    assert_eq!(sleeps, [5, 15, 15]);
}

/// How long a writer sleeps for each of ten MiB that it writes after another has written 1 GiB.
fn sleeps_of_newcomer(pace: &Pacer) -> Vec<u128> {
    assert_eq!(thread::scope(|scope| scope.spawn(|| sleep(pace, 1 << 30)).join().unwrap()), None);
    pace.set_pressure(Pressure::Delay(10.0));
    (0..10).map(|_| sleep(pace, MIB).unwrap().as_millis()).collect()
}

#[test]
fn who_comes_later_begins_a_bounded_stretch_behind() {
    assert_eq!(sleeps_of_newcomer(&pace()), [5, 5, 5, 5, 5, 5, 5, 15, 15, 15]);
}

#[test]
fn a_pause_is_worth_a_bounded_stretch() {
    let pace = pace();
    let sleeps = in_turn(
        |turn| sleep(&pace, [1000, 1 << 40].get(turn).copied().unwrap_or(0)),
        |turn| {
            if turn == 0 {
                return sleep(&pace, 1000);
            }
            pace.set_pressure(Pressure::Delay(10.0));
            let slept = sleep(&pace, BEHIND_BYTES_MAX / 16);
            pace.set_pressure(Pressure::Delay(0.0));
            slept
        },
        19,
    );
    let sleeps: Vec<_> = sleeps[1..].iter().map(|(_, slept)| slept.unwrap().as_millis()).collect();
    // A sixteenth of the stretch at a time: 10 ns a byte, half of it. In front the longest sleep.
    assert_eq!(sleeps, [&[20; 16][..], &[30; 2]].concat());
}

#[test]
fn at_another_database_a_writer_is_new() {
    let (one, other) = (pace(), pace());
    assert_eq!(sleep(&other, 1 << 20), None);
    assert_eq!(sleep(&one, 1 << 30), None);
    assert_eq!(sleeps_of_newcomer(&other), [5, 5, 5, 5, 5, 5, 5, 15, 15, 15]);
}
