//! JSON for terminals.

use super::*;

#[test]
fn a_terminal_obeys_nothing_of_a_line_and_a_reader_gets_all_of_it() {
    let hostile =
        "a\u{1b}[31m\u{7f}\u{80}\u{9b}31m\u{9f}\u{ad}\u{202e}\u{feff}\u{e0001}\n\t\"\\é🦀";
    let value = json!({ hostile: [hostile, 1, null] });
    let line = line(&value);
    assert!(line.chars().all(is_printable), "{line}");
    assert!(line.contains("\\u009b31m") && line.contains("\\udb40\\udc01") && line.contains("é🦀"));
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
}
