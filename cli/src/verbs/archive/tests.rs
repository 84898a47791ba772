//! Arguments are parsed as the help says.

use super::*;

#[test]
fn ages_have_units() {
    for (text, seconds) in [("0s", 0), ("90m", 5400), ("12h", 43_200), ("30d", 2_592_000)] {
        assert_eq!(parse_age(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    for text in ["", "5", "d", "5 d", "-1d", "1.5h", "5w", "99999999999999999999d"] {
        assert!(parse_age(text).is_err(), "{text}");
    }
    assert!(parse_age(&format!("{}d", u64::MAX)).is_err());
}

#[test]
fn a_family_may_have_another_name() {
    let pair = |from: &str, name: &str| Ok((from.to_owned(), name.to_owned()));
    assert_eq!(parse_family("users"), pair("users", "users"));
    assert_eq!(parse_family("users=people"), pair("users", "people"));
    assert_eq!(parse_family("a=b=c"), pair("a", "b=c"));
    for text in ["", "=", "users=", "=people"] {
        assert!(parse_family(text).is_err(), "{text}");
    }
}
