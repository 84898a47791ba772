//! Tests of the arguments.

use super::*;

#[test]
fn the_scale_is_read_in_both_spellings() {
    assert_eq!(scale(&["--repeat", "1"]), Ok(SMALL));
    assert_eq!(scale(&["--scale", "0.2", "--repeat", "1"]), Ok(0.2));
    assert_eq!(scale(&["--scale=1"]), Ok(1.0));
    assert!(scale(&["--scale"]).is_err() && scale(&["--scale", "big"]).is_err());
}

#[test]
fn an_argument_is_found_alone_and_with_its_value() {
    assert!(has(&["--rows", "a"], "--rows") && has(&["--rows=a"], "--rows"));
    assert!(!has(&["--rowsy"], "--rows"));
}
