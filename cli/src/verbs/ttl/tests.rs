//! Durations as people read them.

use super::*;

#[test]
fn a_duration_is_told_in_its_two_largest_units() {
    let told = |ms| duration(Duration::from_millis(ms));
    let shown = [0, 999, 1000, 61_000, 3_600_000, 90_061_000].map(told);
    assert_eq!(shown, ["0ms", "999ms", "1s", "1m 1s", "1h 0m", "1d 1h"]);
    assert_eq!(told(u64::from(u32::MAX) * 86_400_000), "4294967295d 0h");
    assert_eq!(super::told(Expiry::Never), "does not expire");
}
