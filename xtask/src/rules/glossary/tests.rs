//! Tests of the rule on the glossary.

use super::check;
use crate::checkout::Checkout;

fn missing(terms: &str, code: &str) -> Vec<String> {
    let rows: String = terms.split(';').map(|term| format!("| {term} | is so |\n")).collect();
    let text = format!("# Glossary\n\n| term | meaning |\n|---|---|\n{rows}");
    let files = [("crates/a/src/b.rs", code), ("docs/glossary.md", text.as_str())];
    let mut findings = Vec::new();
    check(&Checkout::of(&files), &mut findings);
    findings.into_iter().map(|f| f.message.split('`').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn a_term_is_found_in_names_and_comments() {
    let code = "struct RangeTombstone;\nfn merge_operand() {}\n/// Group\n/// commits.\n//! WAL";
    let terms = "range tombstone;merge operand;group commit;**WAL**;tombstone, merge";
    assert!(missing(terms, code).is_empty());
}

#[test]
fn a_term_that_no_code_has_is_found_unless_it_is_planned() {
    let code = "struct Merging;\nfn forest(operand: u8) {}";
    assert_eq!(missing("merge;rest;operand, overlay", code), ["merge", "rest", "overlay"]);
    assert!(missing("merge †;overlay† ", code).is_empty());
}

#[test]
fn a_term_that_has_two_meanings_is_found() {
    let code = "struct Head; fn tail() {}";
    assert_eq!(missing("head;tail;**head**", code), ["head"]);
    assert_eq!(missing("head †;head", code), ["head"]);
    assert!(
        missing("head;tail, head tail", "struct HeadTail; fn head() {} fn tail() {}").is_empty()
    );
}

#[test]
fn the_line_is_told() {
    let text = "| term | meaning |\n|---|---|\n| gap | a |\n| leap | b |";
    let files = [("crates/a/src/b.rs", "// gap"), ("docs/glossary.md", text)];
    let mut findings = Vec::new();
    check(&Checkout::of(&files), &mut findings);
    let expected =
        "docs/glossary.md:4: glossary: no code has the term `leap`: rename, delete or mark it †";
    assert_eq!(findings.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}
