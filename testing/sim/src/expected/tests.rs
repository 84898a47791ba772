//! Tests of what a crash must leave.

use super::*;
use crate::operator::Operator;
use siltdb::Durability;

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
        ..Expectation::exactly(0, Names::new(), &Times::new(0, &[]))
    };
    assert_eq!(expectation(5).candidates(&model, 1), [3, 2, 1]);
    assert_eq!(expectation(2).candidates(&model, 1), [2, 1]);
    assert_eq!(expectation(5).candidates(&model, 4), [5, 4]);
    assert_eq!(expectation(5).candidates(&model, 0), [0]);
}
