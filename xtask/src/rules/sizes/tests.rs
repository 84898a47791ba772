//! Tests of the rule on sizes, at each bound and one past it.

use super::check;
use crate::checkout::Checkout;

fn findings(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Checkout::of(&[(path, text)]), &mut findings);
    findings.into_iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn a_file_may_have_600_lines() {
    assert!(findings("a.rs", &"x;\n".repeat(600)).is_empty());
    let found = findings("a.rs", &"x;\n".repeat(601));
    assert_eq!(found, ["a.rs:601: sizes: file has 601 lines, at most 600: split it by idea"]);
    assert!(findings("a/tests.rs", &"x;\n".repeat(601)).is_empty());
}

#[test]
fn a_function_may_have_70_lines() {
    let function = |lines: usize| {
        let body = "\n  \"}\";".repeat(lines - 2);
        format!("\nfn long() {{{body}\n}}\n")
    };
    assert!(findings("a.rs", &function(70)).is_empty());
    assert_eq!(findings("a.rs", &function(71)), ["a.rs:2: sizes: `long` has 71 lines, at most 70"]);
    assert_eq!(findings("a/tests.rs", &function(71)).len(), 1);
}

#[test]
fn a_line_may_have_100_characters() {
    assert!(findings("a.rs", &"ä".repeat(100)).is_empty());
    assert_eq!(findings("a.rs", &"ä".repeat(101)).len(), 1);
}
