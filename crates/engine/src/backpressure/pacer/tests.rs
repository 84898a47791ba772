//! Which writer waits how long, by a clock that only sleeps move.

use super::*;
use std::{cell::RefCell, sync::mpsc, thread};

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

/// A time at which no slot was ever taken that could matter.
const START_NS: u64 = 1_000_000 * MS;

fn pace(ns_per_byte: f64) -> Pacer {
    let pacer = Pacer::new(OpenId::next());
    pacer.set_pressure(pay(ns_per_byte));
    pacer
}

fn pay(ns_per_byte: f64) -> Pressure {
    Pressure::Pay(Price { ns_per_byte, burst_bytes: 0 })
}

thread_local! {
    static NOW_NS: RefCell<u64> = const { RefCell::new(START_NS) };
}

/// How long the thread sleeps for `bytes`, by its own clock, which moves by that.
fn sleep_from(pacer: &Pacer, bytes: u64, mut now_ns: u64) -> Duration {
    let start = now_ns;
    let mut next = pacer.advance(bytes, || now_ns);
    while let Some(delay) = next {
        assert!(delay.time.as_nanos() <= u128::from(SLEEP_NS_MAX));
        assert!(delay.time.as_nanos() >= u128::from(SLEEP_NS_MIN));
        now_ns += delay.time.as_nanos() as u64;
        next = pacer.go_on(&delay, now_ns);
    }
    Duration::from_nanos(now_ns - start)
}

/// The same by the clock of the thread.
fn sleep(pacer: &Pacer, bytes: u64) -> Duration {
    let now_ns = NOW_NS.with_borrow(|now| *now);
    let slept = sleep_from(pacer, bytes, now_ns);
    NOW_NS.set(now_ns + slept.as_nanos() as u64);
    slept
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
    let pacer = pace(0.0);
    let never = || unreachable!("no clock is read");
    assert_eq!(pacer.advance(1 << 40, never), None);
    pacer.set_pressure(pay(100.0));
    let delay = pacer.advance(MIB, || START_NS).unwrap();
    pacer.set_pressure(pay(0.0));
    assert_eq!(pacer.go_on(&delay, START_NS), None);
    assert_eq!(pacer.advance(1 << 40, never), None);
}

#[test]
fn who_is_stopped_pays_nothing() {
    let pacer = pace(100.0);
    assert!(!pacer.is_stopped());
    let delay = pacer.advance(MIB, || START_NS).unwrap();
    pacer.set_pressure(Pressure::Stop);
    assert!(pacer.is_stopped());
    assert_eq!(pacer.go_on(&delay, START_NS), None);
    assert_eq!(pacer.advance(MIB, || START_NS), None);
}

#[test]
fn one_writer_keeps_to_the_rate_in_writes_of_any_size() {
    for bytes in [100, 10_000, 200_000, 2_000_000] {
        // 50 MB/s.
        let pacer = pace(20.0);
        let count = 100_000_000 / bytes;
        let slept: Duration = (0..count).map(|_| sleep(&pacer, bytes)).sum();
        assert!((1_980..2_020).contains(&slept.as_millis()), "{bytes}: {slept:?}");
    }
}

#[test]
fn no_clock_is_read_for_less_than_is_worth_it() {
    let pacer = pace(100.0);
    assert_eq!(pacer.advance(599, || unreachable!("59.9 µs")), None);
    // The sum is charged, and its slot is too short for a sleep.
    assert_eq!(pacer.advance(1, || START_NS), None);
    assert_eq!(pacer.slots_end_ns.load(Ordering::Relaxed), START_NS - OVERSLEPT_NS_MAX + 60_000);
}

#[test]
fn who_overslept_is_late_by_that_time_once() {
    let pacer = pace(20.0);
    let mut now_ns = START_NS;
    let mut next_ns = || {
        now_ns += sleep_from(&pacer, 25_000, now_ns).as_nanos() as u64;
        // Each sleep lasts longer than it was asked to.
        now_ns += 70_000;
        now_ns
    };
    let last = (0..2_000).map(|_| next_ns()).last().unwrap();
    // 50 MB.
    assert!((990..1_010).contains(&((last - START_NS) / MS)), "{}", (last - START_NS) / MS);
}

#[test]
fn idle_writers_write_a_burst_at_full_speed() {
    let pacer = pace(20.0);
    pacer.set_pressure(Pressure::Pay(Price { ns_per_byte: 20.0, burst_bytes: 64 * MIB }));
    let slept: Duration = (0..64).map(|_| sleep_from(&pacer, MIB, 4_000 * MS)).sum();
    assert_eq!(slept, Duration::ZERO);
    assert!(sleep_from(&pacer, MIB, 4_000 * MS) > Duration::from_millis(15));
    // At a price that allows none, what was not used is gone.
    let later = 100_000 * MS;
    pacer.set_pressure(pay(20.0));
    assert!(sleep_from(&pacer, MIB, later) > Duration::from_millis(15));
}

#[test]
fn a_write_pays_for_the_rest_by_what_the_price_is_by_then() {
    let pacer = pace(100.0);
    let delay = pacer.advance(100_000, || START_NS).unwrap();
    assert_eq!(delay.rest.bytes, 80_000, "a slot lasts at most 2 ms");
    // A tenth of the price; the sleep of the first slot is over.
    pacer.set_pressure(pay(10.0));
    let mut now_ns = delay.rest.until_ns;
    let mut next = pacer.go_on(&delay, now_ns);
    let first_ns = now_ns;
    while let Some(delay) = next {
        now_ns += delay.time.as_nanos() as u64;
        next = pacer.go_on(&delay, now_ns);
    }
    assert!(now_ns - first_ns < MS, "{}", now_ns - first_ns);
}

#[test]
fn no_write_pays_for_all() {
    let pacer = pace(1000.0);
    let slept = sleep(&pacer, 64 * MIB);
    assert!((SLEEPS_NS_MAX..SLEEPS_NS_MAX + SLEEP_NS_MAX).contains(&(slept.as_nanos() as u64)));
}

/// Simulates writers that write as fast as they may for `until_ns`, each in writes of so many
/// bytes. Returns what each has written, and the longest that one of its writes took.
fn contend(pacer: &Pacer, writes: &[u64], until_ns: u64) -> Vec<(u64, Duration)> {
    struct Simulated {
        wakes_ns: u64,
        began_ns: u64,
        delay: Option<Delay>,
        written: u64,
        longest_ns: u64,
        bytes: u64,
    }
    let mut writers: Vec<_> = writes
        .iter()
        .map(|&bytes| Simulated {
            wakes_ns: START_NS,
            began_ns: START_NS,
            delay: None,
            written: 0,
            longest_ns: 0,
            bytes,
        })
        .collect();
    // All run on one thread here, so none leads.
    loop {
        let writer = writers.iter_mut().min_by_key(|writer| writer.wakes_ns).unwrap();
        let now_ns = writer.wakes_ns;
        if now_ns > START_NS + until_ns {
            return writers
                .iter()
                .map(|writer| (writer.written, Duration::from_nanos(writer.longest_ns)))
                .collect();
        }
        let next = match writer.delay.take() {
            Some(delay) => pacer.go_on(&delay, now_ns),
            None => pacer.advance(writer.bytes, || now_ns),
        };
        match next {
            Some(delay) => {
                writer.wakes_ns += delay.time.as_nanos() as u64;
                writer.delay = Some(delay);
            }
            None => {
                writer.longest_ns = writer.longest_ns.max(now_ns - writer.began_ns);
                writer.written += writer.bytes;
                // What the write itself takes.
                writer.wakes_ns += 2_000;
                writer.began_ns = writer.wakes_ns;
            }
        }
    }
}

#[test]
fn all_writers_together_keep_to_the_rate_and_none_starves() {
    for count in [1, 2, 8, 32] {
        let pacer = pace(20.0);
        let written = contend(&pacer, &vec![1_000; count], 2_000 * MS);
        let sum: u64 = written.iter().map(|(bytes, _)| bytes).sum();
        assert!((95..106).contains(&(sum / 1_000_000)), "{count}: {sum}");
        let fair = sum / count as u64;
        for (bytes, longest) in written {
            assert!(bytes > fair / 2, "{count}: {bytes} of {fair}");
            assert!(longest < Duration::from_millis(20), "{count}: {longest:?}");
        }
    }
}

#[test]
fn a_writer_of_little_passes_between_the_slots_of_large_writes() {
    let pacer = pace(20.0);
    let written = contend(&pacer, &[1_000, 4_000_000, 4_000_000], 2_000 * MS);
    let (bytes, longest) = written[0];
    assert!(longest < Duration::from_millis(10), "{longest:?}");
    assert!(bytes > 100_000, "{bytes}");
}

#[test]
fn who_is_behind_sleeps_less_until_it_has_caught_up() {
    let pacer = pace(0.0);
    let sleeps = in_turn(
        // Both begin together. Then the first writes 2 MiB before any writer waits, and no more.
        |turn| sleep(&pacer, [1000, 2 * MIB].get(turn).copied().unwrap_or(0)),
        |turn| {
            if turn > 0 {
                pacer.set_pressure(pay(100.0));
            }
            // Long after the slot before.
            NOW_NS.with_borrow_mut(|now| *now += 1_000 * MS);
            let slept = sleep(&pacer, if turn == 0 { 1000 } else { 20_000 });
            pacer.set_pressure(pay(0.0));
            slept
        },
        140,
    );
    let sleeps: Vec<_> = sleeps[1..].iter().map(|(_, slept)| slept.as_micros()).collect();
    assert!(sleeps.is_sorted(), "{sleeps:?}");
    assert_eq!((sleeps[0], sleeps[138]), (500, 1_500));
    assert!(sleeps.iter().filter(|slept| (501..1_500).contains(*slept)).count() >= 4);
}

/// How long a writer sleeps for each of ten slots that it writes after another has written much.
fn sleeps_of_newcomer(pacer: &Pacer) -> Vec<u128> {
    let free = thread::scope(|scope| scope.spawn(|| sleep(pacer, 1 << 30)).join().unwrap());
    assert_eq!(free, Duration::ZERO);
    let sleeps = (0..10).map(|number| {
        pacer.set_pressure(pay(0.0));
        assert_eq!(sleep(pacer, MIB - 20_000), Duration::ZERO);
        pacer.set_pressure(pay(100.0));
        sleep_from(pacer, 20_000, START_NS + 1_000 * MS * number).as_micros()
    });
    sleeps.collect()
}

#[test]
fn who_comes_later_begins_a_bounded_stretch_behind() {
    let sleeps = sleeps_of_newcomer(&pace(0.0));
    assert_eq!(sleeps, [500, 500, 500, 500, 500, 500, 500, 1_500, 1_500, 1_500]);
}

#[test]
fn at_another_database_a_writer_is_new() {
    let (one, other) = (pace(0.0), pace(0.0));
    assert_eq!(sleep(&other, 1 << 20), Duration::ZERO);
    assert_eq!(sleep(&one, 1 << 30), Duration::ZERO);
    assert_eq!(sleeps_of_newcomer(&other)[..3], [500, 500, 500]);
}
