//! Records of any bytes through every format that holds them, and what is no wrapper.

use super::*;
use crate::formats::{Format, Reader, ReaderOptions, array, csv::ShortRecord, jsonl, lines};
use proptest::prelude::*;
use serde_json::json;

/// Bytes that formats could take for something else.
const TRAPS: [&str; 22] = [
    "",
    " ",
    "\\x00",
    "\\\\",
    "00ff",
    "a\tb",
    "line\nend\r",
    "\u{feff}",
    "null",
    "[1, 2]",
    "\"text\"",
    "{}",
    "{\"hex\":\"00\"}",
    "{\"hex\":\"no\"}",
    "{\"hex\":\"00\",\"a\":1}",
    "{\"key\":\"a\",\"value\":\"b\"}",
    "{\"key\":\"a\",\"value\":1}",
    "{\"key\":\"a\",\"value\":{\"x\": 1},\"expires_at\":5}",
    "{\"key\":\"a\",\"value\":\"b\",\"expires_at\":null}",
    " {\"a\": \"a\"}\n",
    "{\n  \"a\": [1.50, {\"b\": \"\\ud800\"}]\n}",
    "{\"a\":1,\"a\":2}",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..12),
        any::<String>().prop_map(String::into_bytes),
        prop::sample::select(&TRAPS[..]).prop_map(|text| text.as_bytes().to_vec()),
    ]
}

/// A record; the value of one in three is an object that begins with the key.
fn record() -> impl Strategy<Value = Record> {
    let expires_at = prop::option::of(any::<u64>());
    (bytes(), bytes(), expires_at, 0..3).prop_map(|(key, value, expires_at, kind)| {
        let value = match (kind, std::str::from_utf8(&key), std::str::from_utf8(&value)) {
            (0, Ok(key), Ok(value)) => json!({ "a": key, "b": value }).to_string().into_bytes(),
            _ => value,
        };
        Record { key, value, expires_at }
    })
}

fn written(format: Format, form: Form, records: &[Record]) -> Vec<u8> {
    let (mut out, rule) = (Vec::new(), KeyRule::First);
    for (index, Record { key, value, expires_at }) in records.iter().enumerate() {
        let record = Written { key, value, expires_at: *expires_at };
        match format {
            Format::Json => {
                out.extend_from_slice(if index == 0 { b"[\n" } else { b",\n" });
                array::write(&mut out, &rule, record).unwrap();
            }
            Format::Jsonl => {
                jsonl::write(&mut out, &rule, record).unwrap();
                out.push(b'\n');
            }
            _ => lines::write(&mut out, form, key, value).unwrap(),
        }
    }
    if format == Format::Json {
        out.extend_from_slice(if records.is_empty() { b"[]" } else { b"\n]\n" });
    }
    out
}

fn read(format: Format, form: Form, text: &[u8]) -> Vec<Record> {
    let options = ReaderOptions {
        format,
        rule: KeyRule::First,
        form,
        delimiter: None,
        quote: None,
        short_record: ShortRecord::Refuse,
    };
    let (mut reader, _) = Reader::new(Box::new(io::Cursor::new(text.to_vec())), options).unwrap();
    let (mut records, mut record) = (Vec::new(), Record::default());
    while reader.read(&mut record).unwrap() {
        records.push(record.clone());
    }
    records
}

proptest! {
    #[test]
    fn any_record_comes_back_exactly(records in prop::collection::vec(record(), 0..8)) {
        for format in [Format::Jsonl, Format::Json] {
            let text = written(format, Form::Plain, &records);
            prop_assert_eq!(
                &read(format, Form::Plain, &text), &records,
                "{:?}: {}", format, text.escape_ascii()
            );
        }
        // Lines do not hold an expiry.
        let lasting: Vec<_> =
            records.iter().map(|record| Record { expires_at: None, ..record.clone() }).collect();
        for form in [Form::Escape, Form::Hex] {
            let text = written(Format::Lines, form, &records);
            prop_assert_eq!(&read(Format::Lines, form, &text), &lasting, "{:?}", form);
        }
    }
}

#[test]
fn an_object_of_a_program_is_no_wrapper() {
    for text in [
        r#"{"key":1,"value":"b"}"#,
        r#"{"key":"a","value":1}"#,
        r#"{"value":"b","key":"a"}"#,
        r#"{"key":"a","value":"b","more":1}"#,
        r#"{"key":"a","value":"b","expires_at":"soon"}"#,
        r#"{"key":"a","value":"b","expires_at":5,"more":1}"#,
        r#"{"key":{"hex":"0"},"value":"b"}"#,
        r#"{"key":"a"}"#,
    ] {
        assert!(unwrapped(&Object::parse(text).unwrap(), &KeyRule::First).is_none(), "{text}");
    }
    let text = r#"{"key":"a","value":"b"}"#;
    let object = Object::parse(text).unwrap();
    let named = |name| crate::formats::key::KeyFields::one(name).into();
    assert!(
        unwrapped(&object, &named("key")).is_none() && unwrapped(&object, &KeyRule::Line).is_none()
    );
    let record = Record { key: b"a".to_vec(), value: b"b".to_vec(), expires_at: None };
    assert_eq!(unwrapped(&object, &named("id")), Some(record));
}
