//! Tests of the expected state after a crash.

use super::*;
use crate::operator::Operator;

#[test]
fn power_loss_lowers_the_floor_for_good() {
    let floors = Floors { kill: 9, power: 4 };
    assert_eq!(floors.after(CrashKind::Kill), floors);
    assert_eq!(floors.after(CrashKind::PowerLoss), Floors::durable(4));
    assert_eq!(floors.after(CrashKind::PowerLoss).after(CrashKind::Kill).kill, 4);
}

#[test]
fn candidates_end_before_the_next_commit_that_says_its_number() {
    let mut model = Model::new(Operator::Append);
    for clock in [Clock::Written, Clock::Silent, Clock::Silent, Clock::Written, Clock::Silent] {
        model.begin(Durability::Buffered, clock, &[]);
        model.acknowledge(0, 0);
    }
    let expectation = |ceiling| Expectation {
        ceiling,
        ..Expectation::exactly(
            0,
            0..=9,
            Names::new(),
            &Times::new(0, &[], &siltdb_base::clock::ManualClock::default()),
        )
    };
    assert_eq!(expectation(5).candidates(&model, 1), [3, 2, 1]);
    assert_eq!(expectation(2).candidates(&model, 1), [2, 1]);
    assert_eq!(expectation(5).candidates(&model, 4), [5, 4]);
    assert_eq!(expectation(5).candidates(&model, 0), [0]);
}

#[test]
fn volatile_commits_may_be_missing_from_some_number_on() {
    let mut model = Model::new(Operator::Append);
    for durability in [Durability::Volatile, Durability::Buffered, Durability::Volatile] {
        model.begin(durability, Clock::Written, &[]);
        model.acknowledge(0, 0);
    }
    let expectation = |flushed| Expectation {
        ceiling: 3,
        ..Expectation::exactly(
            0,
            flushed,
            Names::new(),
            &Times::new(0, &[], &siltdb_base::clock::ManualClock::default()),
        )
    };
    assert_eq!(expectation(0..=3).candidates(&model, 2), [3, 2]);
    assert_eq!(expectation(0..=3).candidates(&model, 0), [1, 0]);
    assert_eq!(expectation(0..=3).flushed_candidates(&model, 3), [3, 1, 0]);
    assert_eq!(expectation(0..=3).flushed_candidates(&model, 2), [1, 0]);
    assert_eq!(expectation(2..=2).flushed_candidates(&model, 3), [2]);
}

#[test]
fn a_power_loss_within_a_recovery_takes_what_a_kill_had_left_in_the_log() {
    let clock = siltdb_base::clock::ManualClock::at(std::time::Duration::from_millis(1000));
    let mut times = Times::new(1000, &[700, 800], &clock);
    times.saw_expired(900);
    let before = Expectation::exactly(0, 0..=0, Names::new(), &times);
    let killed = before.after(CrashKind::Kill);
    assert_eq!(killed.times_ms(), [1000]);
    assert_eq!(killed.after(CrashKind::Kill).times_ms(), [1000]);
    assert_eq!(killed.after(CrashKind::PowerLoss).times_ms(), [700, 800, 1000]);
    assert_eq!(before.after(CrashKind::PowerLoss).times_ms(), [700, 800, 1000]);
}
