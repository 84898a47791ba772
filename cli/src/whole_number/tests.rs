//! The bounds of numbers.

use super::*;

#[test]
fn numbers_are_taken_up_to_their_bounds_and_refused_one_past_them() {
    assert_eq!(number_in("1", 1..=9), Ok(1));
    assert_eq!(number_in("9", 1..=9), Ok(9));
    for bad in ["0", "10", "", "x", "1.5", "-1", "99999999999999999999999"] {
        let message = "expected a whole number from 1 to 9".to_owned();
        assert_eq!(number_in(bad, 1..=9), Err(message), "{bad}");
    }
    assert_eq!(any_number("18446744073709551615"), Ok(u64::MAX));
    assert!(any_number("18446744073709551616").is_err());
    assert!(positive_number("0").is_err());
    assert_eq!(signed_number("-9223372036854775808"), Ok(i64::MIN));
    assert!(signed_number("9223372036854775808").is_err());
}
