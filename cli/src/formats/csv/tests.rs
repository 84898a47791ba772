//! Readers and writers of csv and tsv, good and bad input.

use super::*;
use crate::formats::dialect::Quote;
use crate::formats::input::without_mark;
use crate::formats::key::KeyFields;
use ::csv::WriterBuilder;
use proptest::prelude::*;
use std::io;

type Entry = (Vec<u8>, Vec<u8>);

fn rule(key: Option<&str>) -> KeyRule {
    let fields = |key| KeyFields::parse(key, b"/".to_vec()).unwrap();
    key.map_or(KeyRule::First, |key| KeyRule::Named(fields(key)))
}

fn read(dialect: Dialect, key: Option<&str>, text: &[u8]) -> Result<Vec<Entry>, ReadError> {
    read_as(dialect, rule(key), ShortRecord::Refuse, text)
}

fn read_as(
    dialect: Dialect,
    rule: KeyRule,
    short_record: ShortRecord,
    text: &[u8],
) -> Result<Vec<Entry>, ReadError> {
    let layout = Layout { dialect, preamble: Preamble::None };
    let input = without_mark(Box::new(io::Cursor::new(text.to_vec())))?;
    let mut reader = Reader::new(input, layout, rule, short_record, 1 << 20);
    let mut records = Vec::new();
    let mut record = Record::default();
    while reader.read(&mut record)? {
        records.push((record.key.clone(), record.value.clone()));
    }
    Ok(records)
}

fn bad(key: Option<&str>, text: &[u8]) -> BadRecord {
    match read(Dialect::CSV, key, text) {
        Err(ReadError::Bad(bad) | ReadError::Broken(bad)) => bad,
        other => panic!("expected a bad record, got {other:?}"),
    }
}

fn written(
    dialect: Dialect,
    key_field: Option<&str>,
    entries: &[Entry],
) -> Result<String, WriteError> {
    let mut columns = Columns::default();
    for (key, value) in entries {
        columns.observe(key_field, key, value)?;
    }
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, dialect, columns)?;
    for (key, value) in entries {
        writer.write(key, value)?;
    }
    Ok(String::from_utf8(out).unwrap())
}

fn entry(key: &str, value: &str) -> Entry {
    (key.as_bytes().to_vec(), value.as_bytes().to_vec())
}

#[test]
fn a_record_becomes_an_object_in_column_order() {
    let text = b"\xef\xbb\xbfid,b,a\n1,\"x,\"\"y\"\"\nz\",\r\n2,,3";
    let records = read(Dialect::CSV, None, text).unwrap();
    let expected = [
        entry("1", r#"{"id":"1","b":"x,\"y\"\nz","a":""}"#),
        entry("2", r#"{"id":"2","b":"","a":"3"}"#),
    ];
    assert_eq!(records, expected);
}

#[test]
fn the_key_can_be_another_column() {
    let records = read(Dialect::TSV, Some("name"), b"id\tname\n1\tSea, north\n").unwrap();
    assert_eq!(records, [entry("Sea, north", r#"{"id":"1","name":"Sea, north"}"#)]);
}

#[test]
fn several_columns_make_a_key_that_no_other_record_has() {
    let text = b"year,month,dest\n2013,1,SEA\n2013,11,SEA\n";
    let records = read(Dialect::CSV, Some("dest,year,month"), text).unwrap();
    let keys: Vec<_> = records.iter().map(|(key, _)| key.as_slice()).collect();
    assert_eq!(keys, [&b"SEA/2013/1"[..], b"SEA/2013/11"]);
    let bad = bad(Some("a,b"), b"b,a\n1,x/y\n");
    assert_eq!((bad.line, bad.column), (2, 2));
    assert!(bad.reason.contains("`a` holds `/`"), "{}", bad.reason);
}

#[test]
fn the_line_can_be_the_key() {
    let text = b"a,b\n1,2\n\n\"3\n\",4\n1,2\n";
    let records = read_as(Dialect::CSV, KeyRule::Line, ShortRecord::Refuse, text).unwrap();
    let keys: Vec<_> = records.iter().map(|(key, _)| key.as_slice()).collect();
    assert_eq!(keys, [&b"0000000002"[..], b"0000000004", b"0000000006"]);
}

#[test]
fn fields_may_be_left_out_at_the_end_where_that_is_allowed() {
    let text = b"a,id,c\n1,2\n1,3,4\n";
    let take = |rule, text| read_as(Dialect::CSV, rule, ShortRecord::Take, text);
    let records = take(rule(Some("id")), text).unwrap();
    assert_eq!(records[0], entry("2", r#"{"a":"1","id":"2"}"#));
    assert_eq!(records[1], entry("3", r#"{"a":"1","id":"3","c":"4"}"#));
    // Not for the key, and not for too many fields.
    assert!(take(rule(Some("c")), text).is_err());
    assert!(take(rule(None), b"a,b\n1,2,3\n").is_err());
    let hinted = |key| bad(key, text).reason.contains("--allow-short takes it");
    assert!(hinted(Some("id")) && !hinted(Some("c")));
}

#[test]
fn names_that_look_like_delimiters_are_quoted() {
    let entries = [entry("1", r#"{"a;b":"1","c|d;e":"x;y"}"#)];
    let text = written(Dialect::CSV, None, &entries).unwrap();
    assert_eq!(text, "\"a;b\",\"c|d;e\"\n1,x;y\n");
    let layout = Layout::of_csv(text.as_bytes(), None, Quote::DOUBLE).unwrap();
    assert_eq!(layout.dialect, Dialect::CSV);
    let entries = [entry("1", "{\"\u{feff}id\":\"1\"}")];
    let text = written(Dialect::CSV, None, &entries).unwrap();
    assert_eq!(read(Dialect::CSV, None, text.as_bytes()).unwrap(), entries);
}

#[test]
fn what_is_no_unicode_is_not_changed_into_a_cell() {
    let entries = [entry("1", r#"{"id":"1","a":"\ud800"}"#)];
    match written(Dialect::CSV, None, &entries) {
        Err(WriteError::Unfit(reason)) => assert!(reason.contains("field `a`"), "{reason}"),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn bad_records_say_where_and_why() {
    for (key, text, line, column, reason) in [
        (None, &b"id,a\n1,2\n1,2,3\n"[..], 3, 3, "expected 2 fields, found 3"),
        (None, b"id,a\n1,2\n1\n", 3, 2, "expected 2 fields, found 1"),
        (None, b"id,a\n\"1\n\",2\n1\n", 4, 2, "expected 2 fields, found 1"),
        (None, b"id,a\n1,\xff\n", 2, 2, "not valid UTF-8"),
        (None, b"id,\xff\n", 1, 2, "not valid UTF-8"),
        (None, b"id,a,id\n1,2,3\n", 1, 3, "column 1 has this name too: id"),
        (Some("x"), b"id,a\n1,2\n", 1, 1, "no column `x`; there are: id, a"),
        (None, b"id,a\r\n1,2\r\n\r\n1\r\n", 4, 2, "expected 2 fields, found 1"),
        (None, b"", 1, 1, "the input is empty"),
        (None, b"id,a\n1,2\n3,\"x,y\n\n", 3, 2, "ends inside quotes"),
        (None, b"id,a\n1,2\n3,\"", 3, 2, "ends inside quotes"),
        (None, b"id,\"a", 1, 2, "ends inside quotes"),
        (None, b"id,a\n1,\"x\"y\n", 2, 2, "text after the closing quotation mark"),
        (None, b"id,\"a\" b\n1,2\n", 1, 2, "text after the closing quotation mark"),
    ] {
        let found = bad(key, text);
        assert_eq!((found.line, found.column), (line, column), "{}", found.reason);
        assert!(found.reason.contains(reason), "{}", found.reason);
    }
}

#[test]
fn quotes_that_are_closed_are_no_truncation() {
    for text in [
        &b"\xef\xbb\xbf\"id\",\"a\"\n1,\"x\n\"\"\"\n"[..],
        b"id,a\n1,x\"y",
        b"id,a\n1,\"\"",
        b"id,a\r\n\"1\",\"\"\"\"\r\n",
    ] {
        assert_eq!(read(Dialect::CSV, None, text).unwrap().len(), 1);
    }
}

#[test]
fn a_quote_that_is_never_closed_does_not_take_all_memory() {
    let mut text = b"id\n\"".to_vec();
    text.resize(4 << 20, b'x');
    assert!(matches!(read(Dialect::CSV, None, &text), Err(ReadError::Io(_))));
}

#[test]
fn objects_become_columns() {
    let entries = [
        entry("1", r#"{"id":1,"a":"x","b":[1, 2]}"#),
        entry("2", r#"{"id":"2","c":null,"b":true}"#),
    ];
    let text = written(Dialect::CSV, None, &entries).unwrap();
    assert_eq!(text, "id,a,b,c\n1,x,\"[1, 2]\",\n2,,true,\n");
}

#[test]
fn a_key_outside_the_values_gets_a_column() {
    let entries = [entry("k", r#"{"key":1}"#)];
    let text = written(Dialect::TSV, None, &entries).unwrap();
    assert_eq!(text, "_key\tkey\nk\t1\n");
}

/// A file has one order of columns, and an import takes the key from the first column.
#[test]
fn keys_in_different_fields_get_a_column() {
    let first = entry("1", r#"{"id":"1","n":"a"}"#);
    for (second, row) in [
        (entry("b", r#"{"n":"b","id":"2"}"#), "b,2,b"),
        (entry("c", r#"{"x":"c","n":"b"}"#), "c,,b,c"),
        (entry("3", r#"{"id":"2"}"#), "3,2,"),
        (entry("4", "{}"), "4,,"),
    ] {
        let entries = [first.clone(), second.clone()];
        let text = written(Dialect::CSV, None, &entries).unwrap();
        let keys: Vec<_> = read(Dialect::CSV, None, text.as_bytes()).unwrap();
        assert_eq!(keys[0].0, b"1");
        assert_eq!(keys[1].0, second.0);
        assert!(text.starts_with("key,id,n") && text.ends_with(&format!("\n{row}\n")), "{text}");
        let turned = [second, first.clone()];
        let text = written(Dialect::CSV, None, &turned).unwrap();
        assert!(text.starts_with("key"), "{text}");
    }
    // The named column is the key of both.
    let entries = [first, entry("2", r#"{"n":"b","id":"2"}"#)];
    let text = written(Dialect::CSV, Some("id"), &entries).unwrap();
    assert_eq!(text, "id,n\n1,a\n2,b\n");
}

#[test]
fn two_fields_of_one_name_are_refused_where_one_would_be_lost() {
    let entries = [entry("1", r#"{"id":"1","n":"a","n":"b"}"#)];
    match written(Dialect::CSV, None, &entries) {
        Err(WriteError::Unfit(reason)) => assert!(reason.contains("two fields `n`"), "{reason}"),
        other => panic!("expected a refusal, got {other:?}"),
    }
    // In the columns key and value nothing is lost.
    let [object] = entries;
    let text = written(Dialect::CSV, None, &[object, entry("k", "text")]).unwrap();
    assert!(text.starts_with("key,value\n1,"), "{text}");
}

#[test]
fn a_message_lists_no_more_names_than_one_can_read() {
    let names: Vec<String> = (0..=NAMES_LISTED_MAX).map(|number| format!("c{number}")).collect();
    let header = |count: usize| names[..count].join(",");
    let reason = |header: &str| bad(Some("x"), format!("{header}\n").as_bytes()).reason;
    assert!(reason(&header(NAMES_LISTED_MAX)).ends_with(", c19"));
    assert!(reason(&header(NAMES_LISTED_MAX + 1)).ends_with(", c19, and 1 more"));
    let long = format!("{}\x1b[2J", "a".repeat(50));
    assert!(reason(&long).ends_with(r"a\x1b[2J"), "{}", reason(&long));
    let reason = bad(None, format!("{long},{long}\n").as_bytes()).reason;
    assert!(reason.ends_with(r"a\x1b[2J"), "{reason}");
    let longer = "a".repeat(1000);
    assert!(bad(Some("x"), format!("{longer}\n").as_bytes()).reason.len() < 200);
}

#[test]
fn other_values_become_pairs() {
    let entries = [entry("1", r#"{"id":1}"#), entry("k", "a,b")];
    let text = written(Dialect::CSV, None, &entries).unwrap();
    assert_eq!(text, "key,value\n1,\"{\"\"id\"\":1}\"\nk,\"a,b\"\n");
    assert_eq!(written(Dialect::CSV, None, &[]).unwrap(), "key,value\n");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let outcome = written(Dialect::CSV, None, &[(b"k".to_vec(), b"\xff".to_vec())]);
    assert!(matches!(outcome, Err(WriteError::Unfit(_))));
}

#[test]
fn the_number_of_columns_is_bounded() {
    let object = |count: usize| {
        let fields: Vec<String> = (0..count).map(|n| format!("\"{n}\":0")).collect();
        format!("{{{}}}", fields.join(","))
    };
    assert!(written(Dialect::CSV, None, &[entry("0", &object(COLUMNS_MAX))]).is_ok());
    let outcome = written(Dialect::CSV, None, &[entry("0", &object(COLUMNS_MAX + 1))]);
    assert!(matches!(outcome, Err(WriteError::Unfit(_))));
}

proptest! {
    /// Without quotes the writer refuses what its reader would split or join.
    #[test]
    fn what_is_written_without_quotes_is_read_again(
        rows in prop::collection::vec(("[ab\"\t\n\r,]{0,3}", "[ab\"\t\n\r;]{0,3}"), 1..4),
        csv in any::<bool>(),
    ) {
        let unquoted = Dialect { quote: Quote::NONE, ..Dialect::CSV };
        let dialect = if csv { unquoted } else { Dialect::TSV };
        let object = |(id, name): &(String, String)| {
            entry(id, &serde_json::json!({ "id": id, "name": name }).to_string())
        };
        let entries: Vec<Entry> = rows.iter().map(object).collect();
        match written(dialect, None, &entries) {
            Ok(text) => prop_assert_eq!(read(dialect, None, text.as_bytes()).unwrap(), entries),
            Err(WriteError::Unfit(reason)) => {
                prop_assert!(reason.contains("--quote '\"'"), "{}", reason);
                let special = ['\n', '\r', char::from(dialect.delimiter.byte())];
                let is_special = |(id, name): &(String, String)| {
                    id.contains(special) || name.contains(special)
                };
                prop_assert!(rows.iter().any(is_special));
            }
            Err(WriteError::Io(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn what_is_imported_is_exported_again(
        rows in prop::collection::vec(prop::collection::vec(any::<String>(), 3), 1..6),
        tab in any::<bool>(),
    ) {
        let delimiter = if tab { Dialect::TSV.delimiter } else { Dialect::CSV.delimiter };
        let dialect = Dialect { delimiter, ..Dialect::CSV };
        let mut original = WriterBuilder::new().delimiter(delimiter.byte()).from_writer(Vec::new());
        original.write_record(["id", "name", "x y"]).unwrap();
        for row in &rows {
            original.write_record(row).unwrap();
        }
        let original = original.into_inner().unwrap();
        let entries = read(dialect, None, &original).unwrap();
        prop_assert_eq!(entries.len(), rows.len());
        let text = written(dialect, None, &entries).unwrap();
        prop_assert_eq!(read(dialect, None, text.as_bytes()).unwrap(), entries);
    }

    // The marks of UTF-8 and UTF-16 are two or three bytes, which random bytes seldom begin with.
    #[test]
    fn reading_never_panics(
        mark in prop::sample::select(vec![&b""[..], b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]),
        text in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = read(Dialect::CSV, None, &[mark, &text].concat());
    }
}
