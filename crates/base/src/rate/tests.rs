//! Waits follow from bytes, and idle time saves up nothing.

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn bytes_take_their_part_of_a_second() {
    let mut pace = Pace::default();
    assert_eq!(pace.rest(5), None);
    pace.count(500, 1000, 5);
    assert_eq!(pace.rest(5), Some(Duration::from_millis(500)));
    pace.count(500, 1000, 6);
    assert_eq!(pace.rest(5), Some(Duration::from_secs(1)));
    assert_eq!(pace.rest(5 + SECOND_NS), None);
}

#[test]
fn idle_time_is_not_saved_up() {
    let mut pace = Pace::default();
    pace.count(1000, 1000, 0);
    pace.count(1000, 1000, 100 * SECOND_NS);
    assert_eq!(pace.rest(100 * SECOND_NS), Some(Duration::from_secs(1)));
    pace.bound(100 * SECOND_NS + 7);
    assert_eq!(pace.rest(100 * SECOND_NS), Some(Duration::from_nanos(7)));
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut pace = Pace::default();
    pace.count(u64::MAX, 0, u64::MAX);
    assert_eq!(pace.rest(0), Some(Duration::from_nanos(u64::MAX)));
}
