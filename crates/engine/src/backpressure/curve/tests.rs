//! The shape of the curve.

use super::*;

fn delay(bytes: u64) -> f64 {
    match pressure(Debt { bytes, soft: 100, hard: 200 }.share()) {
        Pressure::Delay(delay) => delay,
        Pressure::Stop => f64::INFINITY,
    }
}

#[test]
fn the_delay_starts_at_zero_and_rises_without_a_step() {
    assert_eq!(delay(0), 0.0);
    assert_eq!(delay(100), 0.0);
    let mut before = 0.0;
    for bytes in 101..200 {
        assert!(delay(bytes) > before);
        assert!(delay(bytes) < 1.1 * before + 0.1);
        before = delay(bytes);
    }
    assert!(before > 900.0);
    assert_eq!(delay(200), f64::INFINITY);
    assert_eq!(delay(u64::MAX), f64::INFINITY);
}

#[test]
fn a_little_debt_costs_about_as_much_as_the_write_itself() {
    assert!((2.0..10.0).contains(&delay(125)));
}
