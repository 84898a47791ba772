//! The forms of keys and values, in both directions.

use super::*;
use proptest::prelude::*;

fn render(form: Form, bytes: &[u8]) -> String {
    let mut text = String::new();
    form.render(bytes, &mut text);
    text
}

#[test]
fn the_texts_of_pieces_are_the_text_of_all() {
    let text = "aä€😀\\\n\u{202e}".repeat(20);
    let broken = [b"\xf0\x9f\x98a\xe2\x82\xff\x80\x80".repeat(9), b"\xf0\x9f".to_vec()].concat();
    for bytes in [text.into_bytes(), vec![0x80; 50], Vec::new(), b"abc".to_vec(), broken] {
        for form in [Form::Plain, Form::Escape, Form::Hex] {
            let mut whole = String::new();
            form.render(&bytes, &mut whole);
            for piece_bytes in 4..20 {
                let mut parts = String::new();
                for piece in pieces(&bytes, piece_bytes) {
                    assert!(piece.len() <= piece_bytes);
                    form.render(piece, &mut parts);
                }
                assert_eq!(parts, whole, "{bytes:x?} in pieces of {piece_bytes}");
            }
        }
    }
}

#[test]
fn printable_text_stays_as_it_is() {
    for text in ["", "user:1", "Zürich 東京 🛫", r"C:\data", "a b"] {
        assert_eq!(render(Form::Plain, text.as_bytes()), text);
    }
}

#[test]
fn other_bytes_become_escapes() {
    assert_eq!(render(Form::Plain, b"a\tb\n\0\x1b[2J\xff"), r"a\x09b\x0a\x00\x1b[2J\xff");
    assert_eq!(render(Form::Plain, "a\u{202e}b".as_bytes()), r"a\xe2\x80\xaeb");
    assert_eq!(render(Form::Plain, b"\xe6\x9d"), r"\xe6\x9d");
}

#[test]
fn escape_doubles_the_backslash() {
    assert_eq!(render(Form::Escape, br"\x41"), r"\\x41");
    assert_eq!(Form::Escape.parse(br"\\x41").unwrap(), br"\x41");
    assert_eq!(Form::Escape.parse(br"\x41\n\r\t\0\\").unwrap(), b"A\n\r\t\0\\");
}

#[test]
fn bad_text_says_where_it_is_wrong() {
    let index = |form: Form, text: &[u8]| form.parse(text).unwrap_err().index;
    assert_eq!(index(Form::Escape, br"ab\x4"), 2);
    assert_eq!(index(Form::Escape, br"ab\x4g"), 2);
    assert_eq!(index(Form::Escape, br"ab\q"), 2);
    assert_eq!(index(Form::Escape, br"abc\"), 3);
    assert_eq!(index(Form::Hex, b"0011zz"), 4);
    assert_eq!(index(Form::Hex, b"001"), 3);
    assert_eq!(index(Form::Hex, b"+1"), 0);
}

#[test]
fn messages_keep_their_lines_and_nothing_else_that_moves_a_cursor() {
    assert_eq!(printable("a\n\tb\r\nü\u{202e}\n"), "a\n\\x09b\\x0d\nü\\xe2\\x80\\xae\n");
    assert_eq!(printable(""), "");
}

#[test]
fn a_name_is_shown_up_to_a_length() {
    let longest = "ü".repeat(NAME_CHARACTERS_MAX);
    assert_eq!(shortened(&longest), longest);
    assert_eq!(shortened(&format!("{longest}x")), format!("{longest}…"));
    assert_eq!(shortened("a\n\x1b[2J"), r"a\x0a\x1b[2J");
}

#[test]
fn plain_accepts_anything_as_it_is() {
    assert_eq!(Form::Plain.parse(b"\\x4\xff").unwrap(), b"\\x4\xff");
}

#[test]
fn what_is_no_hexadecimal_digit_is_said_before_their_number() {
    let bad = |text: &str| Form::Hex.parse(text.as_bytes()).unwrap_err();
    assert_eq!((bad("SFO").index, bad("SFO").reason), (0, "not a hexadecimal digit"));
    assert_eq!((bad("0g").index, bad("0g").reason), (1, "not a hexadecimal digit"));
    assert_eq!((bad("abc").index, bad("abc").reason), (3, "an odd number of hexadecimal digits"));
}

proptest! {
    #[test]
    fn escape_and_hex_are_reversible(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for form in [Form::Escape, Form::Hex] {
            let text = render(form, &bytes);
            prop_assert_eq!(form.parse(text.as_bytes()).unwrap(), bytes.clone());
        }
    }

    #[test]
    fn escape_of_text_is_reversible(text in any::<String>()) {
        let escaped = render(Form::Escape, text.as_bytes());
        prop_assert_eq!(Form::Escape.parse(escaped.as_bytes()).unwrap(), text.as_bytes());
    }

    #[test]
    fn nothing_shown_disturbs_a_terminal_or_a_line(
        bytes in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        for form in [Form::Plain, Form::Escape, Form::Hex] {
            prop_assert!(!render(form, &bytes).chars().any(char::is_control));
        }
    }

    #[test]
    fn parsing_never_panics(text in prop::collection::vec(any::<u8>(), 0..100)) {
        for form in [Form::Plain, Form::Escape, Form::Hex] {
            let _ = form.parse(&text);
        }
    }
}

#[test]
fn numbers_are_grouped_and_things_counted() {
    let grouped_numbers = [0, 999, 1000, 123_456, 1_234_567].map(grouped);
    assert_eq!(grouped_numbers, ["0", "999", "1,000", "123,456", "1,234,567"]);
    assert_eq!([1, 2].map(|count| counted(count, "key")), ["1 key", "2 keys"]);
    let two = ["entry", "family", "log record", "branch"].map(|noun| counted(2, noun));
    assert_eq!(two, ["2 entries", "2 families", "2 log records", "2 branches"]);
    assert_eq!([0, 1].map(|count| counted(count, "entry")), ["0 entries", "1 entry"]);
}

#[test]
fn sizes_have_three_digits_and_a_unit() {
    let bytes = [0.0, 999.0, 1000.0, 1536.0, 5e8, 2e13];
    assert_eq!(bytes.map(size), ["0 B", "999 B", "1.0 KiB", "1.5 KiB", "476.8 MiB", "18.2 TiB"]);
}
