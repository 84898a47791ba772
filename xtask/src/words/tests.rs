//! Tests of counting words.

use super::{Count, MEAN_MAX, WORDS_MAX, choose, missed};
use crate::checkout::Checkout;

#[test]
fn a_page_is_counted() {
    let long = "word ".repeat(26);
    let (count, listed) = Count::of(&format!("# No\n\nTwo words. {long}\n\n| a | b |\n"));
    let expected = Count { words: 28, sentences: 2, long: 1, longest: 26, table_words: 2 };
    assert_eq!(count, expected);
    assert_eq!((listed.len(), listed[0].line), (1, 3));
    assert!(Count::of(&"word ".repeat(25)).1.is_empty());
}

#[test]
fn decisions_and_the_changelog_are_left_out() {
    let checkout = Checkout::of(&[
        ("CHANGELOG.md", ""),
        ("README.md", ""),
        ("docs/a.md", ""),
        ("docs/b.txt", ""),
        ("docs/decisions/0001-c.md", ""),
    ]);
    let paths = |pages: &[&str]| {
        choose(&checkout, pages).map(|all| all.iter().map(|s| s.path.as_str()).collect::<Vec<_>>())
    };
    assert_eq!(paths(&[]).unwrap(), ["README.md", "docs/a.md"]);
    assert_eq!(paths(&["CHANGELOG.md"]).unwrap(), ["CHANGELOG.md"]);
    assert_eq!(paths(&["d.md"]).unwrap_err(), "there is no `d.md`");
}

#[test]
fn bars_hold_at_the_bound_and_not_past_it() {
    let sentences = (WORDS_MAX as f64 / MEAN_MAX).ceil() as usize;
    let mut sum = Count { words: WORDS_MAX, sentences, ..Count::default() };
    assert!(missed(&sum).is_empty());
    sum.words += 1;
    assert_eq!(missed(&sum), ["20001 words, at most 20000"]);
    let sum = Count { words: 181, sentences: 10, ..Count::default() };
    assert_eq!(missed(&sum), ["18.1 words in a sentence, at most 18"]);
}
