use super::*;
use csv::ReaderBuilder;
use proptest::prelude::*;

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

        let mut reader = QuoteReader::new(text.as_bytes(), b',');
        let unclosed = reader.unclosed();
        reader.read_to_end(&mut Vec::new()).unwrap();
        prop_assert_eq!(unclosed.get(), inside, "{:?}", text);
    }
}
