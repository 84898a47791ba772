//! Readers and writers of key-tab-value lines.

use super::*;
use proptest::prelude::*;
use std::io;

fn read(form: Form, text: &[u8]) -> Result<Vec<Record>, ReadError> {
    let mut reader =
        Reader::new(Box::new(io::Cursor::new(text.to_vec())), form, KeyRule::First, 1 << 10);
    let mut records = Vec::new();
    let mut record = Record::default();
    while reader.read(&mut record)? {
        records.push(record.clone());
    }
    Ok(records)
}

fn bad(form: Form, text: &[u8]) -> BadRecord {
    match read(form, text) {
        Err(ReadError::Bad(bad)) => bad,
        other => panic!("expected a bad record, got {other:?}"),
    }
}

fn record(key: &[u8], value: &[u8]) -> Record {
    Record { key: key.to_vec(), value: value.to_vec(), expires_at: None }
}

#[test]
fn a_line_is_split_at_the_first_tab() {
    let records = read(Form::Plain, b"a\tb\tc\n\t\nx\t\xff\r").unwrap();
    assert_eq!(records, [record(b"a", b"b\tc"), record(b"", b""), record(b"x", b"\xff\r")]);
}

#[test]
fn bad_lines_say_where() {
    let found = bad(Form::Plain, b"a\tb\nabc\n");
    assert_eq!((found.line, found.column), (2, 4));
    let found = bad(Form::Escape, b"a\tb\nab\tc\\q\n");
    assert_eq!((found.line, found.column), (2, 5));
    let found = bad(Form::Hex, b"00\t1\n");
    assert_eq!((found.line, found.column), (1, 5));
}

#[test]
fn a_line_has_a_longest_length() {
    let at = |length: usize| {
        let mut text = b"k\t".to_vec();
        text.resize(length, b'v');
        read(Form::Plain, &text)
    };
    assert_eq!(at(1 << 10).unwrap()[0].value.len(), (1 << 10) - 2);
    assert!(matches!(at((1 << 10) + 1), Err(ReadError::Io(_))));
}

#[test]
fn the_plain_form_refuses_what_it_cannot_hold() {
    let refused = |key: &[u8], value: &[u8]| {
        matches!(write(&mut Vec::new(), Form::Plain, key, value), Err(WriteError::Unfit(_)))
    };
    assert!(refused(b"a\tb", b""));
    assert!(refused(b"a\nb", b""));
    assert!(refused(b"", b"a\nb"));
    assert!(!refused(b"", b"a\tb\r\xff"));
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        entries in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..9), prop::collection::vec(any::<u8>(), 0..9)),
            0..9,
        ),
    ) {
        for form in [Form::Plain, Form::Escape, Form::Hex] {
            let mut text = Vec::new();
            let mut expected = Vec::new();
            for (key, value) in &entries {
                match write(&mut text, form, key, value) {
                    Ok(()) => expected.push(record(key, value)),
                    Err(_) => prop_assert_eq!(form, Form::Plain),
                }
            }
            prop_assert_eq!(read(form, &text).unwrap(), expected);
        }
    }
}
