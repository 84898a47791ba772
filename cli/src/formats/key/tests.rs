//! Keys of several fields.

use super::*;

fn fields(list: &str) -> Vec<String> {
    KeyFields::parse(list, b"/".to_vec()).unwrap().names
}

#[test]
fn names_stand_between_commas() {
    assert_eq!(fields("a"), ["a"]);
    assert_eq!(fields("a,b c,d"), ["a", "b c", "d"]);
    assert_eq!(fields(r"a\,b,c\\,d\e"), ["a,b", r"c\", r"d\e"]);
    assert_eq!(fields(""), [""]);
    assert!(KeyFields::parse("a,b,a", b"/".to_vec()).unwrap_err().contains("`a` twice"));
}

#[test]
fn different_records_never_make_one_key() {
    let rule = KeyFields::parse("a,b", b"/".to_vec()).unwrap();
    let key = |a: &[u8], b: &[u8]| {
        let mut key = Vec::new();
        rule.push(&mut key, 0, a).and_then(|()| rule.push(&mut key, 1, b)).map(|()| key)
    };
    assert_eq!(key(b"x", b"y").unwrap(), b"x/y");
    assert_eq!(key(b"", b"").unwrap(), b"/");
    assert!(key(b"x/y", b"z").unwrap_err().contains("`a` holds `/`"));
    assert!(key(b"x", b"y/z").unwrap_err().contains("`b` holds `/`"));
    assert!(KeyFields::parse("a,b", Vec::new()).is_err());
    // A single field may contain anything.
    let single = KeyFields::parse("a", b"/".to_vec()).unwrap();
    let mut found = Vec::new();
    single.push(&mut found, 0, b"x/y").unwrap();
    assert_eq!(found, b"x/y");
}

#[test]
fn line_numbers_sort_as_numbers() {
    assert!(of_line(9) < of_line(10) && of_line(99_999) < of_line(100_000));
    assert_eq!(of_line(42), b"0000000042");
}
