//! The lines of a batch.

use super::*;

fn put(key: &[u8], value: &[u8]) -> Option<Operation> {
    Some(Operation::Put { key: key.to_vec(), value: value.to_vec(), ttl: None })
}

fn delete(key: &[u8]) -> Option<Operation> {
    Some(Operation::Delete { key: key.to_vec() })
}

#[test]
fn both_separators_are_read() {
    let parsed = |line: &[u8]| parse(line, Form::Escape).unwrap();
    assert_eq!(parsed(b"put a b"), put(b"a", b"b"));
    assert_eq!(parsed(b"put a b  c\td "), put(b"a", b"b  c\td "));
    assert_eq!(parsed(b"put\ta b\tc d"), put(b"a b", b"c d"));
    assert_eq!(parsed(b"put\t\t"), put(b"", b""));
    assert_eq!(parsed(b"put a "), put(b"a", b""));
    assert_eq!(parsed(br"put a\x20b \\\n"), put(b"a b", b"\\\n"));
    assert_eq!(parsed(b"delete a\r"), delete(b"a"));
    assert_eq!(parsed(b"delete\ta b"), delete(b"a b"));
    assert_eq!(parsed(b"delete\t"), delete(b""));
    assert_eq!(parse(b"put 6b 76", Form::Hex).unwrap(), put(b"k", b"v"));
}

#[test]
fn a_value_may_expire_and_a_key_be_deleted_once() {
    let parsed = |line: &[u8]| parse(line, Form::Escape);
    let expiring = |value: &[u8]| {
        let ttl = Some(Duration::from_secs(1800));
        Some(Operation::Put { key: b"a".to_vec(), value: value.to_vec(), ttl })
    };
    assert_eq!(parsed(b"put-for 30m a b c").unwrap(), expiring(b"b c"));
    assert_eq!(parsed(b"put-for\t30m\ta\t").unwrap(), expiring(b""));
    let once = Some(Operation::SingleDelete { key: b"a b".to_vec() });
    assert_eq!(parsed(b"single-delete\ta b").unwrap(), once);
    for (line, index) in [
        (&b"put-for"[..], 7),
        (b"put-for a b", 8),
        (b"put-for 30m", 11),
        (b"put-for 30m a", 13),
        (b"put-for 30m  b", 12),
        (b"single-delete", 13),
        (b"single-delete a b", 15),
    ] {
        assert_eq!(parsed(line).unwrap_err().index, index, "{}", line.escape_ascii());
    }
}

#[test]
fn blank_lines_and_remarks_are_skipped() {
    for line in [&b""[..], b"\r", b"# put a b"] {
        assert_eq!(parse(line, Form::Escape).unwrap(), None);
    }
}

#[test]
fn a_bad_line_says_where() {
    let index = |line: &[u8]| parse(line, Form::Escape).unwrap_err().index;
    assert_eq!(index(b"PUT a b"), 0);
    assert_eq!(index(b"put"), 3);
    assert_eq!(index(b"put a"), 5);
    assert_eq!(index(b"put  a b"), 4);
    assert_eq!(index(br"put a\q b"), 5);
    assert_eq!(index(br"put a b\q"), 7);
    assert_eq!(index(b"put\ta\tb\tc"), 7);
    assert_eq!(index(b"delete a b"), 8);
}

#[test]
fn operations_have_a_bound_in_memory() {
    let text = "put k v\n".repeat(10);
    let read = |bytes_max: usize| {
        let input = Box::new(std::io::Cursor::new(text.clone()));
        let bytes_read = crate::source::BytesRead::default();
        let source = Source { name: "input".to_owned(), bytes_total: None, bytes_read, input };
        read(source, Form::Escape, bytes_max)
    };
    let needed = 10 * (size_of::<Placed>() + 2);
    assert_eq!(read(needed).unwrap().placed.len(), 10);
    let failure = read(needed - 1).unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    assert!(failure.to_string().starts_with("input: line 10, column 1: "), "{failure}");
}
