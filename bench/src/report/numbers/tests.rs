//! Tests of how quantities are written, at the borders of their units.

use super::*;

#[test]
fn quantities_have_three_digits_and_a_unit() {
    let rates = [0.0, 4.5, 999.4, 999.6, 12_345.0, 1_620_000.0, 99_970_000.0].map(rate);
    assert_eq!(rates, ["0", "4.50", "999", "1.00K", "12.3K", "1.62M", "100M"]);
    assert_eq!([172e6, 512.0].map(bytes), ["172 MB", "512 B"]);
    assert_eq!([46_000.0, 2_400.0, 1.5e9].map(time), ["46 µs", "2.40 µs", "1.50 s"]);
    assert_eq!((factor(1.618), percent(0.0123)), ("1.62×".to_owned(), "1.23 %".to_owned()));
    assert_eq!((factor(0.004_64), factor(0.0)), ("0.0046×".to_owned(), "0×".to_owned()));
    assert_eq!([7, 1_000, 12_345_678].map(whole), ["7", "1,000", "12,345,678"]);
    assert_eq!(or_none(None, rate), "–");
}

#[test]
fn dates_follow_the_calendar() {
    assert_eq!(date(0), "1970-01-01 00:00 UTC");
    assert_eq!(date(951_782_399), "2000-02-28 23:59 UTC");
    assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
    assert_eq!(date(1_795_311_200), "2026-11-22 01:33 UTC");
}
