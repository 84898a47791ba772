//! The turn has one holder, goes round in order, and waiting for it is bounded.

use super::Turns;
use siltdb_base::sync::lock;
use std::{sync::Mutex, thread, time::Duration};

#[test]
fn the_turn_has_one_holder_and_comes_back() {
    let turns = Turns::new(Some(1));
    let turn = turns.take(Duration::ZERO).expect("it is free");
    assert!(turns.take(Duration::from_millis(1)).is_none());
    thread::scope(|scope| {
        let waits = scope.spawn(|| turns.take(Duration::from_secs(60)).is_some());
        drop(turn);
        assert!(waits.join().unwrap());
    });
    assert!(turns.take(Duration::ZERO).is_some());
}

#[test]
fn the_turn_goes_to_those_who_wait_in_the_order_in_which_they_asked() {
    let turns = Turns::new(Some(1));
    let order = Mutex::new(Vec::new());
    let turn = turns.take(Duration::ZERO).expect("it is free");
    thread::scope(|scope| {
        for number in 0..5 {
            let (turns, order) = (&turns, &order);
            scope.spawn(move || {
                // The third one does not wait long enough, and keeps no place.
                let patience = if number == 2 { 1 } else { 60_000 };
                if let Some(_turn) = turns.take(Duration::from_millis(patience)) {
                    lock(order).push(number);
                }
            });
            while lock(&turns.queue).next < number + 2 {
                thread::yield_now();
            }
        }
        while lock(&turns.queue).waiting.contains(&3) {
            thread::yield_now();
        }
        drop(turn);
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 3, 4]);
    assert!(lock(&turns.queue).waiting.is_empty());
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
    turns.make_way(Duration::from_secs(600));
    let turn = turns.take(Duration::ZERO).expect("it is free");
    turns.make_way(Duration::from_secs(600));
    turn.make_urgent();
    thread::scope(|scope| {
        let waits = scope.spawn(|| turns.make_way(Duration::from_secs(600)));
        thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        drop(turn);
        waits.join().unwrap();
    });
    drop(turns.take(Duration::ZERO).expect("it is free again"));
    turns.make_way(Duration::from_secs(600));
}
