//! Words, commands, and incomplete text.

use super::*;
use proptest::prelude::*;

fn commands(text: &str) -> Vec<Vec<String>> {
    let script = Script::parse(text);
    assert_eq!(script.open, None, "{text}");
    assert!(script.commands.iter().all(|command| command.glued.is_none()), "{text}");
    script.commands.into_iter().map(|command| command.words).collect()
}

fn words(text: &str) -> Vec<String> {
    let mut commands = commands(text);
    assert_eq!(commands.len(), 1, "{text}");
    commands.remove(0)
}

#[test]
fn quotes_hold_words_together() {
    assert_eq!(words("  put a  b "), ["put", "a", "b"]);
    assert_eq!(words(r#"put "a b" 'c "d"'"#), ["put", "a b", r#"c "d""#]);
    assert_eq!(words(r#"put "" ''"#), ["put", "", ""]);
    assert_eq!(words(r#"scan --prefix="a b" --from='c'"#), ["scan", "--prefix=a b", "--from=c"]);
    assert!(commands("").is_empty());
}

#[test]
fn what_is_typed_is_what_is_meant_or_it_is_refused() {
    // As in a system shell.
    assert_eq!(words(r#"put k "{\"a\":1}""#)[2], r#"{"a":1}"#);
    assert_eq!(words(r#"put k "C:\\dir\n""#)[2], r"C:\dir\n");
    assert_eq!(words(r"put k 'a\b'")[2], r"a\b");
    // Unchanged.
    assert_eq!(words(r#"put k {"a":1}"#)[2], r#"{"a":1}"#);
    assert_eq!(words(r"put C:\data \x41 \\"), ["put", r"C:\data", r"\x41", r"\\"]);
    assert_eq!(words("put k it's")[2], "it's");
    // Neither rule applies.
    for text in [r#"put k "a"b"#, r#"put k 'a'b'c'"#, r#"put k ""a"""#] {
        assert!(Script::parse(text).commands[0].glued.is_some(), "{text}");
    }
}

#[test]
fn a_command_ends_at_a_line_end_outside_quotes() {
    let found = commands("put a 1\n\n  # don't \"\r\nput b \"x\ny\"\nscan");
    let expected: [&[&str]; 3] = [&["put", "a", "1"], &["put", "b", "x\ny"], &["scan"]];
    assert_eq!(found, expected);
}

#[test]
fn an_open_quote_is_found() {
    for (text, open) in [
        ("put a 'b", Some('\'')),
        ("put a \"b\\", Some('"')),
        ("put a \"b\\\"", Some('"')),
        ("put a \"b\\\\\"", None),
        ("# it's", None),
        ("put a it's", None),
        ("get a\nput b 'c\n", Some('\'')),
    ] {
        assert_eq!(Script::parse(text).open, open, "{text}");
    }
}

#[test]
fn the_last_word_can_go_on() {
    let last = |text| Script::parse(text).last;
    let word = |start, text: &str| Word { start, text: text.to_owned() };
    assert_eq!(last("get ab"), word(4, "ab"));
    assert_eq!(last("get "), word(4, ""));
    assert_eq!(last("get \"New Y"), word(4, "New Y"));
    assert_eq!(last("get \"a\""), word(7, ""));
}

proptest! {
    #[test]
    fn a_quoted_word_is_read_as_it_was(text in any::<String>()) {
        prop_assert_eq!(words(&format!("get {} x", quoted(&text))), ["get", &text, "x"]);
    }

    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        Script::parse(&text);
    }
}
