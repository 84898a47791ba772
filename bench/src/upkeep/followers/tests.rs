//! Tests of the samples of the lag.

use super::{Lags, SAMPLE_US};

#[test]
fn a_long_look_counts_for_as_long_as_it_took() {
    let mut lags = Lags { samples_us: Vec::new(), newest_us: 0, due_us: None, looks: 0 };
    // Nothing is measured before the writer begins.
    lags.show(0, 500_000).unwrap();
    assert!(lags.samples_us.is_empty());
    lags.show(1_000_000, 1_000_500).unwrap();
    // The next look ends 100 ms later. Meanwhile the lag grew to that.
    lags.show(1_100_000, 1_100_500).unwrap();
    assert_eq!(lags.samples_us.len(), 100);
    assert_eq!(lags.samples_us[0], 500);
    assert_eq!(lags.samples_us[99], 500 + 99 * SAMPLE_US);
    lags.show(1_101_000, 1_101_600).unwrap();
    assert_eq!(lags.samples_us[100..], [500, 1500]);
    assert!(lags.show(1_000_000, 1_200_000).is_err(), "it went back");
}
