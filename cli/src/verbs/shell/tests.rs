//! The words of a shell line.

use super::*;

fn split(line: &str) -> Vec<String> {
    words(line).unwrap()
}

#[test]
fn quotes_hold_words_together() {
    assert_eq!(split("  put a  b "), ["put", "a", "b"]);
    assert_eq!(split(r#"put "a b" 'c "d"'"#), ["put", "a b", r#"c "d""#]);
    assert_eq!(split(r#"put "" a'b'c"#), ["put", "", "abc"]);
    assert_eq!(split(r"put C:\data \x41"), ["put", r"C:\data", r"\x41"]);
    assert!(split("").is_empty());
    assert!(words("put 'a").is_err());
}

#[test]
fn verbs_options_and_families_are_completed() {
    let mut completion = Completion::new();
    completion.families = vec!["default".to_owned(), "users".to_owned()];
    assert_eq!(completion.candidates("", "c"), ["check", "compact", "count"]);
    assert_eq!(completion.candidates("scan ", "--re"), ["--reverse"]);
    assert_eq!(completion.candidates("get a --family ", ""), ["default", "users"]);
    assert_eq!(completion.candidates("use ", "u"), ["users"]);
    assert_eq!(completion.candidates("families ", "d"), ["drop"]);
    assert_eq!(completion.candidates("families drop ", "d"), ["default"]);
    assert!(completion.candidates("get ", "x").is_empty());
}

#[test]
fn the_command_is_well_formed() {
    Line::command().debug_assert();
}
