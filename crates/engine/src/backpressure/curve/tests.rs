//! The shape of the curve.

use super::*;

const LIMITS: DebtLimits = DebtLimits { free: 100, soft: 200, hard: 400 };

#[test]
fn a_share_rises_from_bound_to_bound() {
    let shares = [0.0, 100.0, 150.0, 200.0, 300.0, 400.0, 1e18].map(|debt| LIMITS.share_of(debt));
    assert_eq!(shares, [0.0, 0.0, 0.25, SHARE_SOFT, 0.75, 1.0, 1.0]);
    assert_eq!(LIMITS.share_of(-5.0), 0.0, "merges have done more than was noted");
}

#[test]
fn the_delay_starts_at_zero_and_rises_without_a_step() {
    let delay = |percent: u32| delay_ns_per_byte(f64::from(percent) / 100.0);
    assert_eq!(delay(0), Some(0.0));
    let mut before = 0.0;
    for percent in 1..100 {
        let now = delay(percent).unwrap();
        assert!(now > before && now < 1.1 * before + 0.1);
        before = now;
    }
    assert!(before > 900.0);
    assert_eq!((delay(100), delay(200)), (None, None));
}

#[test]
fn a_little_debt_costs_about_as_much_as_the_write_itself() {
    assert!((2.0..10.0).contains(&delay_ns_per_byte(0.25).unwrap()));
}

#[test]
fn the_guard_leaves_the_debt_of_levels_to_the_pace_until_that_has_failed() {
    assert_eq!(guard_ns_per_byte(0.0), Some(0.0));
    assert_eq!(guard_ns_per_byte(SHARE_GUARDED), Some(0.0));
    assert!((10.0..100.0).contains(&guard_ns_per_byte(0.95).unwrap()));
    assert!(guard_ns_per_byte(0.999).unwrap() > 900.0);
    assert_eq!(guard_ns_per_byte(1.0), None);
}
