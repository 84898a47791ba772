//! Delimiters and marks in the samples of inputs.

use super::*;

fn found(sample: &str) -> String {
    find(sample.as_bytes(), Quote::DOUBLE).name()
}

#[test]
fn the_delimiter_that_splits_all_records_alike_is_found() {
    assert_eq!(found("a,b\n1,2\n"), "`,`");
    assert_eq!(found("a;b\n1,5;2,5\n"), "`;`");
    assert_eq!(found("name;price, EUR;n\nx;1,5;3\ny;2,5;4\n"), "`;`");
    assert_eq!(found("a|b|c\n1|2|3"), "`|`");
    assert_eq!(found("a\tb\n1\t2\n"), "tab");
    assert_eq!(found("a;b;c,d\n1;2,3\n"), "`,`");
    assert_eq!(found("\"a;b\",c\n1,2\n"), "`,`");
}

#[test]
fn without_a_sign_it_is_a_comma() {
    for sample in ["", "a\n1\n", "a\n1,2\n", "a;b\n1;2;3\n"] {
        assert_eq!(found(sample), "`,`", "{sample:?}");
    }
    assert_eq!(found("a;b;c\n1;2\n1;2;3\n"), "`;`");
}

/// A header of one column whose name holds a delimiter, and records that hold none.
#[test]
fn a_header_and_its_records_agree_on_the_delimiter() {
    for (sample, delimiter) in [
        ("a|b\n1\n2\n", "`,`"),
        ("a;b\n1\n2\n", "`,`"),
        ("a\tb\n1\n", "`,`"),
        ("a;b|c\n1;2\n3;4\n", "`;`"),
        ("id,a|b|c|d\n1,x\n2\n", "`,`"),
        ("a|b\n1\n2|3\n4\n5\n", "`,`"),
        ("a;b;c\n1;2;3\n4\n", "`;`"),
        ("a;b;\n1;2\n3;4\n", "`;`"),
        ("a;b\n", "`;`"),
        ("\"a|b\"\n1|2\n", "`,`"),
    ] {
        assert_eq!(found(sample), delimiter, "{sample:?}");
    }
    let csv = |text: &str| Layout::of_csv(text.as_bytes(), None, Quote::DOUBLE);
    for sample in ["a|b\n1\n2\n", "a;b\n1\n", "a\tb\n1\n"] {
        assert_eq!(csv(sample).unwrap().dialect.delimiter.name(), "`,`", "{sample:?}");
    }
    // Some records speak for it and more against it: no guess.
    assert!(csv("a|b\n1\n2|3\n4\n5\n").unwrap_err().contains("`|` splits it into 2"));
    let tsv = |text: &str| Layout::of_tsv(text.as_bytes(), None, Quote::NONE);
    assert!(tsv("a,b\n1\n").is_ok());
}

/// The last record of a cut sample may be incomplete, and does not count.
#[test]
fn a_sample_may_be_cut() {
    let mut sample = b"a;b;c\n".to_vec();
    let record = format!("{};2;3\n", "x".repeat(8 << 10));
    sample.extend(record.as_bytes());
    sample.extend(record.as_bytes());
    sample.truncate(SAMPLE_BYTES as usize);
    assert_eq!(find(&sample, Quote::DOUBLE).name(), "`;`");
}

#[test]
fn a_first_line_may_name_the_delimiter() {
    let of = |text: &str| Layout::of_csv(text.as_bytes(), None, Quote::DOUBLE).unwrap();
    for (text, delimiter) in [("sep=;\na,b\n", "`;`"), ("SEP=\t\r\na\n", "tab"), ("sep=:\n", "`:`")]
    {
        let layout = of(text);
        assert_eq!(
            (layout.dialect.delimiter.name(), layout.preamble),
            (delimiter.to_owned(), Preamble::SeparatorLine,)
        );
    }
    for text in ["sep=;x\n", "sep=\n1\n", "sep=ü\n", "\"sep=;\"\n", "sep"] {
        assert_eq!(of(text).preamble, Preamble::None, "{text:?}");
    }
}

#[test]
fn a_header_that_another_delimiter_splits_is_refused() {
    let csv = |text: &str, given| Layout::of_csv(text.as_bytes(), given, Quote::DOUBLE);
    assert!(csv("a;b\n1;2;3\n", None).unwrap_err().contains("`;` splits it into 2"));
    assert!(csv("a;b\n1;2;3\n", Some(Delimiter::COMMA)).is_ok());
    assert!(csv("\"a;b\"\n1;2;3\n", None).is_ok());
    let tsv = |text: &str, given| Layout::of_tsv(text.as_bytes(), given, Quote::NONE);
    assert!(tsv("a,b\n1,2\n", None).unwrap_err().contains("`,` splits it into 2"));
    assert!(tsv("a,b\n1,2\n", Some(Delimiter::TAB)).is_ok());
    assert!(tsv("a,b\tc\n", None).is_ok());
    assert!(tsv("a\n1,2\n", None).is_ok());
}

#[test]
fn text_of_two_bytes_a_character_is_refused() {
    for text in [&b"i\0d\0,\0a\0\n\0"[..], b"\0i\0d\0,\0a\0\n", b"i\0\n\0"] {
        assert!(Layout::of_csv(text, None, Quote::DOUBLE).unwrap_err().contains("UTF-16"));
    }
    for text in [&b"id,a\n"[..], b"i\0", b"", b"id\0\0,a\n", b"\0\0\0\0\0\0\0\0\n"] {
        assert!(Layout::of_csv(text, None, Quote::DOUBLE).is_ok(), "{text:?}");
    }
}
