//! The text form of lines.

use super::{Detail, Line, quoted};
use siltdb_base::limits::KEY_BYTES_MAX;
use std::path::Path;

#[test]
fn a_line_shows_its_fields_in_order() {
    let line = Line::new("record").with_number("offset", 64).with_bytes("key", b"a b");
    assert_eq!(line.to_string(), "item=record  offset=64  key=\"a b\"");
    assert_eq!(line.field("offset"), Some("64"));
    assert_eq!(line.field("count"), None);
}

#[test]
fn numbers_and_bytes_can_be_had_as_what_they_are() {
    let line = Line::new("record").with_number("offset", 64).with_bytes("key", b"a\xff");
    let seen: Vec<_> = line.fields.iter().map(|f| (f.name(), f.number(), f.bytes())).collect();
    let expected =
        [("item", None, None), ("offset", Some(64), None), ("key", None, Some(&b"a\xff"[..]))];
    assert_eq!(seen, expected);
}

#[test]
fn the_greatest_key_is_a_word_and_its_neighbours_are_bytes() {
    let field = |key: &[u8]| Line::new("record").with_key("end", key).fields[1].clone();
    let greatest = [u8::MAX; KEY_BYTES_MAX];
    let found = field(&greatest);
    assert_eq!(
        (found.text(), found.bytes(), found.is_greatest_key()),
        ("greatest-key", None, true)
    );
    let mut smaller = greatest;
    smaller[KEY_BYTES_MAX - 1] -= 1;
    for key in [&smaller[..], &greatest[1..], b"greatest-key", b""] {
        let found = field(key);
        assert_eq!((found.bytes(), found.is_greatest_key()), (Some(key), false));
        assert_eq!(found.text(), quoted(key));
    }
}

#[test]
fn a_file_is_named_without_its_directory() {
    let line = Line::new("segment").with_file(Path::new("some/where/000001.log"));
    assert_eq!(line.field("file"), Some("000001.log"));
}

#[test]
fn bytes_can_be_told_again_from_their_quoted_form() {
    assert_eq!(quoted(b""), r#""""#);
    assert_eq!(quoted(b"a\"b\\c ~"), r#""a\"b\\c ~""#);
    assert_eq!(quoted(b"\0\n\x1f\x7f\xff"), r#""\x00\x0a\x1f\x7f\xff""#);
    let all: Vec<String> = (0..=u8::MAX).map(|byte| quoted(&[byte])).collect();
    let mut distinct = all.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn each_detail_includes_the_ones_before_it() {
    assert!(Detail::Summary < Detail::Records && Detail::Records < Detail::Operations);
}
