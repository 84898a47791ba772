//! Delimiters and quotation marks as words.

use super::*;

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
fn a_quote_is_one_character_or_none() {
    assert_eq!(Quote::parse("\""), Ok(Quote::DOUBLE));
    assert_eq!(Quote::parse("'").unwrap().byte(), Some(b'\''));
    assert_eq!(Quote::parse("none"), Ok(Quote::NONE));
    for bad in ["", "\"\"", "«", "\n", "\r"] {
        assert!(Quote::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_word_is_a_delimiter_again_after_a_shell_has_read_it() {
    for (text, word) in [(",", ","), (";", "';'"), ("|", "'|'"), ("tab", "tab"), ("'", "\"'\"")] {
        assert_eq!(Delimiter::parse(text).unwrap().word(), word);
    }
}
