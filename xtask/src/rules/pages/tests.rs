//! Tests of the bounds of pages.

use super::check;
use crate::checkout::Checkout;

fn messages(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Checkout::of(&[(path, text)]), &mut findings);
    findings.into_iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn a_page_may_have_300_lines_and_the_format_600() {
    assert!(messages("docs/a.md", &"a\n".repeat(300)).is_empty());
    let expected = "docs/a.md:301: pages: page has 301 lines, at most 300: say less, or split it";
    assert_eq!(messages("docs/a.md", &"a\n".repeat(301)), [expected]);
    assert!(messages("docs/format.md", &"a\n".repeat(600)).is_empty());
    assert_eq!(messages("docs/format.md", &"a\n".repeat(601)).len(), 1);
    assert!(messages("CHANGELOG.md", &"a\n".repeat(301)).is_empty());
}

#[test]
fn a_line_of_prose_may_have_160_characters() {
    let line = "é".repeat(160);
    assert!(messages("README.md", &format!("{line}\n- {}", "a".repeat(158))).is_empty());
    let found = messages("README.md", &format!("\n{line}é\n- {line}"));
    let expected = [
        "README.md:2: pages: line has 161 characters, at most 160",
        "README.md:3: pages: line has 162 characters, at most 160",
    ];
    assert_eq!(found, expected);
    let long = "a".repeat(200);
    assert!(messages("README.md", &format!("| {long} |\n```\n{long}\n```\n# {long}")).is_empty());
    assert!(messages("a.rs", &long).is_empty());
}
