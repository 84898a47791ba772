//! A line has one turn, requests for it are granted in order, and waiting for it is bounded.

use super::{Lines, Turns};
use siltdb_base::{id::FamilyId, sync::lock};
use std::{sync::Mutex, thread, time::Duration};

const LONG: Duration = Duration::from_secs(600);

fn of(keys: &[&str]) -> Lines {
    Lines::of(keys.iter().map(|key| (FamilyId(0), key.as_bytes())))
}

/// Two keys of different lines.
fn apart() -> (Lines, Lines) {
    let first = of(&["a"]);
    let other = |number: u8| Lines::of([(FamilyId(0), &[number][..])]);
    let second = (0..=u8::MAX).map(other).find(|lines| !lines.meet(first));
    (first, second.expect("64 lines have keys"))
}

#[test]
fn the_turn_has_one_holder_and_comes_back() {
    let turns = Turns::new(Some(1));
    let turn = turns.take(Lines::ALL, Duration::ZERO).expect("it is free");
    assert!(turns.take(Lines::ALL, Duration::from_millis(1)).is_none());
    thread::scope(|scope| {
        let waits = scope.spawn(|| turns.take(Lines::ALL, LONG).is_some());
        drop(turn);
        assert!(waits.join().unwrap());
    });
    assert!(turns.take(Lines::ALL, Duration::ZERO).is_some());
}

#[test]
fn turns_of_other_keys_run_beside_each_other() {
    let turns = Turns::new(Some(1));
    let (first, second) = apart();
    let one = turns.take(first, Duration::ZERO).expect("it is free");
    let other = turns.take(second, Duration::ZERO).expect("another line");
    assert!(turns.take(first.with(second), Duration::ZERO).is_none());
    drop(one);
    assert!(turns.take(first.with(second), Duration::ZERO).is_none());
    assert!(turns.take(first, Duration::ZERO).is_some());
    drop(other);
    let both = turns.take(first.with(second), Duration::ZERO).expect("both are free");
    assert!(both.lines().include(first) && !first.include(both.lines()));
}

#[test]
fn a_request_of_two_lines_is_not_passed_on_one_of_them() {
    let turns = Turns::new(Some(1));
    let (first, second) = apart();
    let waiting = || lock(&turns.queue).waiting.len();
    let order = Mutex::new(Vec::new());
    let one = turns.take(first, Duration::ZERO).expect("it is free");
    let taken = turns.take(second, Duration::ZERO).expect("it is free");
    thread::scope(|scope| {
        for (number, lines) in [first.with(second), second, first].into_iter().enumerate() {
            let (turns, order) = (&turns, &order);
            scope.spawn(move || {
                let _turn = turns.take(lines, LONG).expect("long enough");
                lock(order).push(number);
            });
            while waiting() < number + 1 {
                thread::yield_now();
            }
        }
        // The second line is free now, and the first request waits for the other one.
        drop(taken);
        assert_eq!(waiting(), 3, "a later request was granted first");
        drop(one);
    });
    let order = order.into_inner().unwrap();
    assert_eq!((order.len(), order[0]), (3, 0));
}

#[test]
fn turns_are_granted_in_the_order_in_which_they_were_asked_for() {
    let turns = Turns::new(Some(1));
    let order = Mutex::new(Vec::new());
    let line = of(&["a"]);
    let turn = turns.take(line, Duration::ZERO).expect("it is free");
    thread::scope(|scope| {
        for number in 0..5 {
            let (turns, order) = (&turns, &order);
            let thread = scope.spawn(move || {
                // The third one does not wait long enough, and keeps no place.
                let patience = if number == 2 { Duration::from_millis(20) } else { LONG };
                if let Some(_turn) = turns.take(line, patience) {
                    lock(order).push(number);
                }
            });
            let others = if number > 2 { number } else { number + 1 };
            while lock(&turns.queue).waiting.len() < others && !thread.is_finished() {
                thread::yield_now();
            }
            if number == 2 {
                thread.join().unwrap();
            }
        }
        drop(turn);
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 3, 4]);
    assert!(lock(&turns.queue).waiting.is_empty());
}

#[test]
fn a_request_that_gives_up_lets_those_behind_it_through() {
    let turns = Turns::new(Some(1));
    let (first, second) = apart();
    let _turn = turns.take(first, Duration::ZERO).expect("it is free");
    thread::scope(|scope| {
        let both =
            scope.spawn(|| turns.take(first.with(second), Duration::from_millis(50)).is_none());
        while lock(&turns.queue).waiting.is_empty() {
            thread::yield_now();
        }
        assert!(turns.take(second, LONG).is_some());
        assert!(both.join().unwrap());
    });
}

#[test]
fn many_keys_and_none_take_all_lines() {
    let keys: Vec<_> = (0..9).map(|number: u8| [number]).collect();
    let of = |count: usize| Lines::of(keys[..count].iter().map(|key| (FamilyId(0), &key[..])));
    assert_eq!(of(0), Lines::ALL);
    assert!(of(8) != Lines::ALL && of(8).include(of(1)));
    assert_eq!(of(9), Lines::ALL);
}

#[test]
fn pauses_differ_and_are_bounded() {
    let turns = Turns::new(Some(1));
    let most = Duration::from_micros(100);
    let pauses: Vec<_> = (0..100).map(|_| turns.pause(most)).collect();
    assert!(pauses.iter().all(|pause| *pause < most));
    assert!(pauses.iter().any(|pause| *pause < most / 4));
    assert!(pauses.iter().any(|pause| *pause > most / 4 * 3));
    assert_eq!(turns.pause(Duration::ZERO), Duration::ZERO);
}

#[test]
fn only_an_urgent_turn_makes_others_wait() {
    let turns = Turns::new(Some(1));
    turns.make_way(LONG);
    let turn = turns.take(Lines::ALL, Duration::ZERO).expect("it is free");
    turns.make_way(LONG);
    turn.make_urgent();
    thread::scope(|scope| {
        let waits = scope.spawn(|| turns.make_way(LONG));
        thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        drop(turn);
        waits.join().unwrap();
    });
    drop(turns.take(Lines::ALL, Duration::ZERO).expect("it is free again"));
    turns.make_way(LONG);
}
