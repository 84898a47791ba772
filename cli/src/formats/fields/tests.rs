//! Records, fields and lines, also from input in pieces.

use super::*;
use csv::ReaderBuilder;
use proptest::prelude::*;

type Found = (u64, Vec<String>, Option<Fault>);

/// Returns one byte per read.
struct Drops(io::Cursor<Vec<u8>>);

impl Read for Drops {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(1);
        self.0.read(&mut buffer[..count])
    }
}

fn read_from(input: Box<dyn Read>) -> Vec<Found> {
    let mut reader = FieldReader::new(input, Dialect::CSV, 1 << 20);
    let (mut record, mut found) = (Fields::default(), Vec::new());
    while reader.read(&mut record).unwrap() {
        let field = |index| String::from_utf8(record.get(index).to_vec()).unwrap();
        found.push((record.line(), (0..record.len()).map(field).collect(), record.fault()));
    }
    found
}

fn read(text: &str) -> Vec<Found> {
    let whole = read_from(Box::new(io::Cursor::new(text.as_bytes().to_vec())));
    let pieces = read_from(Box::new(Drops(io::Cursor::new(text.as_bytes().to_vec()))));
    assert_eq!(whole, pieces, "{text:?}");
    whole
}

fn lines_of(text: &str) -> Vec<u64> {
    read(text).into_iter().map(|(line, ..)| line).collect()
}

#[test]
fn records_begin_where_an_editor_shows_them() {
    assert_eq!(lines_of("a\nb\nc"), [1, 2, 3]);
    assert_eq!(lines_of("a\r\nb\r\n\r\nc\r\n"), [1, 2, 4]);
    assert_eq!(lines_of("a\rb\r"), [1, 2]);
    assert_eq!(lines_of("\n\na\n\"x\n\r\ny\"\nb\n"), [3, 4, 7]);
    assert_eq!(lines_of("\"a\r\"\nb"), [1, 3]);
    assert!(lines_of("\n\r\n").is_empty());
}

#[test]
fn text_after_a_closing_quote_is_a_fault_and_the_next_record_is_read() {
    for text in ["1,\"a\" b,c\n2,d,e\n", "1,\"a\"b,c\n2,d,e\n", "1,\"a\"\"\" \"x\",c\n2,d,e\n"] {
        let found = read(text);
        let fault = found[0].2.unwrap_or_else(|| panic!("{text:?} is taken: {found:?}"));
        assert_eq!(fault.index, 1);
        assert!(fault.reason.contains("after the closing quotation mark"));
        assert_eq!(
            (found[1].0, &found[1].1[..], found[1].2),
            (2, &["2", "d", "e"].map(str::to_owned)[..], None)
        );
    }
}

#[test]
fn an_end_inside_quotes_is_a_fault() {
    for (text, index) in [("a\n\"x", 0), ("a\nb,\"x\"\"\n\n", 1), ("a\nb,\"", 1)] {
        let fault = read(text)[1].2;
        let fault = fault.unwrap_or_else(|| panic!("{text:?} is taken"));
        assert_eq!(fault.index, index, "{text:?}");
        assert!(fault.reason.starts_with("the input ends inside quotes"), "{}", fault.reason);
    }
    assert_eq!(read("a\n\"x\"")[1].2, None);
}

#[test]
fn a_record_says_how_many_lines_it_takes() {
    let text = "a,b\n\n\"x\r\ny\n\",\"\r\"\n\"z\"\nu\"\n";
    let input = Box::new(io::Cursor::new(text.as_bytes().to_vec()));
    let mut reader = FieldReader::new(input, Dialect::CSV, 1 << 20);
    let (mut record, mut found) = (Fields::default(), Vec::new());
    while reader.read(&mut record).unwrap() {
        found.push((record.line(), record.lines()));
    }
    assert_eq!(found, [(1, 1), (3, 4), (7, 1), (8, 1)]);
}

#[test]
fn without_quotes_each_line_is_a_record() {
    let text = "\"a\tb\"\"\n\"\n";
    let input = Box::new(io::Cursor::new(text.as_bytes().to_vec()));
    let mut reader = FieldReader::new(input, Dialect::TSV, 1 << 20);
    let mut record = Fields::default();
    assert!(reader.read(&mut record).unwrap());
    assert_eq!((record.get(0), record.get(1)), (&b"\"a"[..], &b"b\"\""[..]));
    assert!(reader.read(&mut record).unwrap());
    assert_eq!((record.get(0), record.fault()), (&b"\""[..], None));
    assert!(!reader.read(&mut record).unwrap());
}

#[test]
fn a_record_is_bounded() {
    let read = |byte: u8, bytes: usize| {
        let input = Box::new(io::Cursor::new(vec![byte; bytes]));
        FieldReader::new(input, Dialect::CSV, 1 << 20).read(&mut Fields::default())
    };
    assert!(read(b'x', 1 << 20).unwrap());
    assert!(read(b',', (1 << 17) - 1).unwrap());
    for (byte, bytes) in [(b'x', (1 << 20) + 1), (b',', (1 << 17) + 1)] {
        assert_eq!(read(byte, bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The oracle is the crate `csv`, which accepts more: input without a fault is read alike.
    #[test]
    fn sound_input_is_read_as_the_csv_crate_reads_it(text in "[a,\"\n\r]{0,12}") {
        let found = read(&text);
        if found.iter().all(|(_, _, fault)| fault.is_none()) {
            let mut oracle =
                ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
            let expected: Vec<Vec<String>> = oracle
                .records()
                .map(|record| record.unwrap().iter().map(str::to_owned).collect())
                .collect();
            let fields: Vec<Vec<String>> = found.into_iter().map(|(_, fields, _)| fields).collect();
            prop_assert_eq!(fields, expected, "{:?}", text);
        }
    }
}
