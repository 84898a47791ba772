//! The turn has one holder, and waiting for it is bounded.

use super::Turns;
use std::time::Duration;

#[test]
fn the_turn_has_one_holder_and_comes_back() {
    let turns = Turns::new(Some(1));
    let turn = turns.take(Duration::ZERO).expect("it is free");
    assert!(turns.take(Duration::from_millis(1)).is_none());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| turns.take(Duration::from_secs(60)).is_some());
        drop(turn);
        assert!(waits.join().unwrap());
    });
    assert!(turns.take(Duration::ZERO).is_some());
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
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| turns.make_way(Duration::from_secs(600)));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        drop(turn);
        waits.join().unwrap();
    });
    drop(turns.take(Duration::ZERO).expect("it is free again"));
    turns.make_way(Duration::from_secs(600));
}
