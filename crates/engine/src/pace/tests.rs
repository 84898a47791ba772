//! Who waits how long.

use super::*;
use std::{sync::mpsc, thread};

const MIB: u64 = 1 << 20;

/// A millisecond for ten thousand bytes.
const PRESSURE: Pressure = Pressure::Delay(100.0);

fn pace() -> Pace {
    Pace::new(Instance::next())
}

/// Runs steps on two threads in turn: each returns what the first has to say, then the second.
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
    pace.press(PRESSURE);
    assert!(pace.advance(MIB).is_some());
    pace.press(Pressure::Delay(0.0));
    assert_eq!(pace.advance(1 << 40), None);
}

#[test]
fn who_is_stopped_pays_nothing() {
    let pace = pace();
    assert!(!pace.is_stopped());
    pace.press(Pressure::Stop);
    assert!(pace.is_stopped());
    assert_eq!(pace.advance(MIB), None);
}

#[test]
fn one_writer_pays_twice_its_price_and_never_more_than_the_longest_sleep() {
    let pace = pace();
    pace.press(PRESSURE);
    assert_eq!(pace.advance(100_000), Some(Duration::from_millis(20)));
    assert_eq!(pace.advance(u64::MAX >> 20), Some(Duration::from_nanos(SLEEP_NS_MAX)));
}

#[test]
fn small_prices_add_up() {
    let pace = pace();
    pace.press(PRESSURE);
    let naps: Vec<_> = (0..10_000).filter_map(|_| pace.advance(100)).collect();
    assert_eq!(naps.iter().sum::<Duration>(), Duration::from_millis(200));
    assert!(naps.iter().all(|nap| nap.as_nanos() >= u128::from(SLEEP_NS_MIN)));
}

#[test]
fn who_is_behind_pays_less_until_it_has_caught_up() {
    let pace = pace();
    let naps = in_turn(
        // Both begin together; then the first writes 2 MiB before anybody waits, and no more.
        |turn| pace.advance([1000, 2 * MIB].get(turn).copied().unwrap_or(0)),
        |turn| {
            if turn > 0 {
                pace.press(PRESSURE);
            }
            let nap = pace.advance(if turn == 0 { 1000 } else { 100_000 });
            pace.press(Pressure::Delay(0.0));
            nap
        },
        30,
    );
    let naps: Vec<_> = naps[1..].iter().map(|(_, nap)| nap.unwrap().as_micros()).collect();
    assert!(naps.is_sorted(), "{naps:?}");
    assert_eq!((naps[0], naps[28]), (1250, 20_000));
    assert!(naps.iter().filter(|nap| (1251..20_000).contains(*nap)).count() >= 4, "{naps:?}");
}

#[test]
fn who_comes_later_begins_in_front() {
    let pace = pace();
    let naps = in_turn(
        |turn| if turn == 0 { pace.advance(2 * MIB) } else { None },
        |_| {
            pace.press(PRESSURE);
            pace.advance(100_000)
        },
        3,
    );
    assert!(naps.iter().all(|naps| *naps == (None, Some(Duration::from_millis(20)))), "{naps:?}");
}

#[test]
fn a_pause_is_worth_a_bounded_stretch() {
    let pace = pace();
    let naps = in_turn(
        |turn| pace.advance([1000, 1 << 40].get(turn).copied().unwrap_or(0)),
        |turn| {
            if turn == 0 {
                return pace.advance(1000);
            }
            pace.press(Pressure::Delay(10.0));
            let nap = pace.advance(BEHIND_BYTES_MAX / 4);
            pace.press(Pressure::Delay(0.0));
            nap
        },
        7,
    );
    let naps: Vec<_> = naps[1..].iter().map(|(_, nap)| nap.unwrap().as_millis()).collect();
    assert_eq!(naps, [20, 20, 20, 20, 30, 30]);
}

#[test]
fn at_another_database_a_writer_begins_in_front() {
    let (one, other) = (pace(), pace());
    assert_eq!(one.advance(1 << 30), None);
    other.press(PRESSURE);
    for _ in 0..3 {
        assert_eq!(other.advance(100_000), Some(Duration::from_millis(20)));
        assert_eq!(one.advance(1 << 30), None);
    }
}
