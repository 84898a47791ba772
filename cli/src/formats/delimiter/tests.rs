//! Given delimiters, and detected ones.

use super::*;

fn found(sample: &str) -> String {
    Delimiter::find(sample.as_bytes()).name()
}

#[test]
fn a_delimiter_is_one_character_or_a_tab() {
    assert_eq!(Delimiter::parse(";").unwrap().byte(), b';');
    assert_eq!(Delimiter::parse("tab"), Ok(Delimiter::TAB));
    assert_eq!(Delimiter::parse("\\t"), Ok(Delimiter::TAB));
    assert_eq!(Delimiter::parse("\t"), Ok(Delimiter::TAB));
    for bad in ["", ";;", "ü", "\"", "\n"] {
        assert!(Delimiter::parse(bad).is_err(), "{bad:?}");
    }
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

/// The last record of a cut sample may be incomplete, and does not count.
#[test]
fn a_sample_may_be_cut() {
    let mut sample = b"a;b;c\n".to_vec();
    let record = format!("{};2;3\n", "x".repeat(8 << 10));
    sample.extend(record.as_bytes());
    sample.extend(record.as_bytes());
    sample.truncate(SAMPLE_BYTES as usize);
    assert_eq!(Delimiter::find(&sample).name(), "`;`");
}
