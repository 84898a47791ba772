//! Line numbers beside what is read.

use super::*;
use csv::{ByteRecord, ReaderBuilder};
use proptest::prelude::*;

fn lines_of(text: &[u8]) -> Vec<u64> {
    let mut reader = TrackingReader::new(text, b',');
    let track = reader.track();
    reader.read_to_end(&mut Vec::new()).unwrap();
    std::iter::from_fn(|| track.next_record_line()).collect()
}

#[test]
fn records_begin_where_an_editor_shows_them() {
    assert_eq!(lines_of(b"a\nb\nc"), [1, 2, 3]);
    assert_eq!(lines_of(b"a\r\nb\r\n\r\nc\r\n"), [1, 2, 4]);
    assert_eq!(lines_of(b"a\rb\r"), [1, 2]);
    assert_eq!(lines_of(b"\n\na\n\"x\n\r\ny\"\nb\n"), [3, 4, 7]);
    assert_eq!(lines_of(b"\xef\xbb\xbf\"a\n\"\nb"), [1, 3]);
    assert!(lines_of(b"\n\r\n").is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The oracle: what follows the text becomes part of its last field exactly if that is open.
    #[test]
    fn an_end_inside_quotes_is_found(text in "[a,\"\n\r]{0,12}") {
        let longer = format!("{text}Z\nZ");
        let mut records = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(longer.as_bytes());
        let last = records.byte_records().last().unwrap().unwrap();
        let inside = last[last.len() - 1].ends_with(b"Z\nZ");

        let mut reader = TrackingReader::new(text.as_bytes(), b',');
        let track = reader.track();
        reader.read_to_end(&mut Vec::new()).unwrap();
        prop_assert_eq!(track.ends_inside_quotes(), inside, "{:?}", text);
    }

    /// A record is known when it is read, and none is left over, however the input is cut.
    #[test]
    fn each_record_has_its_line(text in "[a,\"\n\r]{0,12}", buffer_bytes in 1usize..5) {
        let reader = TrackingReader::new(text.as_bytes(), b',');
        let track = reader.track();
        let mut records = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(buffer_bytes)
            .from_reader(reader);
        let mut record = ByteRecord::new();
        while records.read_byte_record(&mut record).unwrap() {
            prop_assert!(track.next_record_line().is_some(), "{:?}", text);
        }
        prop_assert_eq!(track.next_record_line(), None, "{:?}", text);
    }
}
