//! Tests of separating prose from the rest.

use super::{Kind, lines, outside_code, sentences, table_words};

fn texts(text: &str) -> Vec<(usize, usize, String)> {
    sentences(text).into_iter().map(|s| (s.line, s.words, s.text)).collect()
}

#[test]
fn lines_have_kinds() {
    let text =
        "# A\n\nb\n- c\n  d\n12. e\n| f |\n```sh\n# g\n```\n<p>\n[h]: i.md\n<!-- j\nk -->\nl";
    let kinds: Vec<_> = lines(text).map(|(_, kind, _)| kind).collect();
    use Kind::{Code, Item, Other, Prose, Table};
    let expected = [
        Other, Other, Prose, Item, Prose, Item, Table, Code, Code, Code, Other, Other, Other,
        Other, Prose,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn sentences_cross_lines_and_end_with_their_paragraph() {
    let text =
        "One two\nthree. Four (five.)\n\nSix 0.5 seven\n- eight\n- nine, e.g. ten!\n> Eleven";
    let expected = [
        (1, 3, "One two three."),
        (2, 2, "Four (five.)"),
        (4, 3, "Six 0.5 seven"),
        (5, 1, "eight"),
        (6, 3, "nine, e.g. ten!"),
        (7, 1, "Eleven"),
    ];
    assert_eq!(texts(text), expected.map(|(line, words, text)| (line, words, text.to_owned())));
}

#[test]
fn a_code_span_is_one_word_and_a_target_is_none() {
    let text = "Call `a b. c` or [the other\nway](x y.md). It is — `d\ne`.";
    let expected = [(1, 6, "Call `a b. c` or [the other way]."), (2, 3, "It is — `d e`.")];
    assert_eq!(texts(text), expected.map(|(line, words, text)| (line, words, text.to_owned())));
}

#[test]
fn code_tables_and_headings_are_no_prose() {
    let text = "# A b.\n| c d | `e f` |\n|---|---|\n```\ng. h\n```\n<b>i</b>";
    assert!(sentences(text).is_empty());
    assert_eq!(table_words(text), 3);
}

#[test]
fn code_is_left_out() {
    let found: Vec<_> = outside_code("a `b` c\n```\nd\n```\ne").collect();
    assert_eq!(found, [(1, "a `` c".to_owned()), (5, "e".to_owned())]);
}
