//! Readers and writers of JSON lines, good and bad input.

use super::*;
use crate::formats::input::without_mark;
use crate::formats::key::KeyFields;

fn read(key: Option<&str>, text: &[u8]) -> Result<Vec<(String, String)>, ReadError> {
    let input = without_mark(Box::new(io::Cursor::new(text.to_vec()))).unwrap();
    let fields = |key| KeyFields::parse(key, b"/".to_vec()).unwrap();
    let rule = key.map_or(KeyRule::First, |key| KeyRule::Named(fields(key)));
    let mut reader = Reader::new(input, rule, 1 << 20);
    let mut records = Vec::new();
    let mut record = Record::default();
    while reader.read(&mut record)? {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        records.push((text(&record.key), text(&record.value)));
    }
    Ok(records)
}

fn bad(key: Option<&str>, text: &str) -> BadRecord {
    match read(key, text.as_bytes()) {
        Err(ReadError::Bad(bad)) => bad,
        other => panic!("expected a bad record, got {other:?}"),
    }
}

fn written(key_field: Option<&str>, key: &[u8], value: &[u8]) -> String {
    let mut out = Vec::new();
    let rule = key_field.map_or(KeyRule::First, |name| KeyFields::one(name).into());
    write(&mut out, &rule, Written { key, value, expires_at: None }).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_value_is_the_line_and_the_key_its_first_field() {
    let text = "\u{feff}{ \"id\":\"a\\u0062\", \"n\": 1.50 }\r\n\n{\"id\":12345678901234567890123}";
    let records = read(None, text.as_bytes()).unwrap();
    assert_eq!(records[0], ("ab".to_owned(), r#"{ "id":"a\u0062", "n": 1.50 }"#.to_owned()));
    assert_eq!(records[1].0, "12345678901234567890123");
    assert_eq!(records.len(), 2);
}

#[test]
fn a_number_as_a_key_keeps_its_text() {
    let records = read(Some("n"), b"{\"a\":[1,{}],\"n\":-1.50e3}").unwrap();
    assert_eq!(records[0].0, "-1.50e3");
}

#[test]
fn white_space_around_an_object_is_no_part_of_it() {
    let records = read(None, "\u{feff} \t{\"id\":1} \r\n  {\"id\":2}".as_bytes()).unwrap();
    let values: Vec<_> = records.iter().map(|(_, value)| &value[..]).collect();
    assert_eq!(values, ["{\"id\":1}", "{\"id\":2}"]);
    assert_eq!(bad(None, "   {\"id\":}").column, 10);
}

#[test]
fn several_fields_make_a_key() {
    let records = read(Some("b,a"), b"{\"a\":1,\"b\":\"x\"}").unwrap();
    assert_eq!(records[0].0, "x/1");
    assert!(bad(Some("b,a"), "{\"a\":1}").reason.contains("no field `b`"));
}

/// A value keeps its text, whatever its strings have; a key must be valid Unicode.
#[test]
fn half_of_a_surrogate_pair_is_kept_in_a_value_and_refused_in_a_key() {
    let line = r#"{"id":1,"a":"\ud800"}"#;
    assert_eq!(read(None, line.as_bytes()).unwrap()[0].1, line);
    assert!(bad(Some("a"), line).reason.contains("not valid Unicode"));
}

#[test]
fn bad_lines_say_where_and_why() {
    let good = "{\"id\":1}\n";
    for (key, line, column, reason) in [
        (None, "{\"id\":1,}", 9, "trailing comma"),
        (None, "{\"id\":1", 7, "EOF"),
        (None, "{\"id\":1} x", 10, "trailing characters"),
        (None, "[1]", 1, "expected a JSON object; --format json reads arrays"),
        (None, "{}", 1, "no field"),
        (None, "{\"id\":null}", 1, "field `id` is null"),
        (None, "{\"id\":[1]}", 1, "field `id` is an array"),
        (None, "{\"id\":true}", 1, "field `id` is a boolean"),
        (Some("key"), "{\"id\":1}", 1, "no field `key`"),
    ] {
        let first = good.replace("id", key.unwrap_or("id"));
        let found = bad(key, &format!("{first}{line}\n"));
        assert_eq!((found.line, found.column), (2, column), "{line}: {}", found.reason);
        assert!(found.reason.contains(reason), "{line}: {}", found.reason);
        assert!(!found.reason.contains(" at line"), "{}", found.reason);
    }
}

#[test]
fn invalid_utf8_is_found() {
    match read(None, b"{\"id\":\"\xff\"}") {
        Err(ReadError::Bad(bad)) => assert_eq!((bad.line, bad.column), (1, 8)),
        other => panic!("expected a bad record, got {other:?}"),
    }
}

#[test]
fn deep_nesting_ends_in_an_error_or_a_record() {
    let depth = 1_000_000;
    let text = format!("{{\"id\":1,\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let _ = read(None, text.as_bytes());
}

#[test]
fn an_object_that_holds_its_key_is_written_as_it_is() {
    let value = r#"{ "id": 7, "x": 1.50 }"#;
    assert_eq!(written(None, b"7", value.as_bytes()), value);
    assert_eq!(written(Some("x"), b"1.50", value.as_bytes()), value);
}

#[test]
fn anything_else_is_written_with_its_key() {
    assert_eq!(written(None, b"8", b"{\"id\":7}"), "{\"key\":\"8\",\"value\":{\"id\":7}}");
    assert_eq!(written(None, b"k", b"text \"\n"), "{\"key\":\"k\",\"value\":\"text \\\"\\n\"}");
    assert_eq!(
        written(None, b"\xff", b"\xfe"),
        "{\"key\":{\"hex\":\"ff\"},\"value\":{\"hex\":\"fe\"}}"
    );
}

#[test]
fn an_object_of_several_lines_is_a_string() {
    let expected = "{\"key\":\"a\",\"value\":\"{\\n  \\\"id\\\": \\\"a\\\"\\r\\n}\\n\"}";
    assert_eq!(written(None, b"a", b"{\n  \"id\": \"a\"\r\n}\n"), expected);
}
