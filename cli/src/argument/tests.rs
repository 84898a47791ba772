//! Parsing of arguments.

use super::*;

#[test]
fn durability_classes_are_named() {
    assert_eq!(parse_durability("volatile"), Ok(Durability::Volatile));
    assert_eq!(parse_durability("buffered"), Ok(Durability::Buffered));
    assert_eq!(parse_durability("synced"), Ok(Durability::Synced));
    let interval = Durability::Interval(Duration::from_millis(50));
    assert_eq!(parse_durability("interval:50"), Ok(interval));
    for text in ["", "sync", "interval", "interval:", "interval:0", "interval:-1", "synced:1"] {
        assert!(parse_durability(text).is_err(), "{text}");
    }
}

#[test]
fn bad_text_is_a_usage_failure_that_says_where() {
    let failure = bytes(OsStr::new(r"ab\q"), Form::Escape).unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    assert!(failure.to_string().contains("byte 3"), "{failure}");
}
