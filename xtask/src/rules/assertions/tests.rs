//! Tests of the rule on assertions.

use super::{assertions, judge};
use crate::checkout::Checkout;

#[test]
fn assertions_count_where_they_are_checked_while_the_code_runs() {
    let text =
        "const _: () = assert!(A < B);\nfn f() {\n    assert!(a);\n    debug_assert_eq!(a, b);\n";
    let more = "    invariant!(is_sorted(c), \"c\");\n    assert_whole(d);\n}\n";
    assert_eq!(assertions(&format!("{text}{more}")), 3);
}

#[test]
fn a_folder_with_too_few_is_found() {
    let judged = |lines: usize, assertions: usize| {
        let text =
            "    work();\n".repeat(lines - assertions) + &"    assert!(a);\n".repeat(assertions);
        let files = [("a/src/b.rs", text.as_str()), ("b/src/c.rs", "fn f() {}\n")];
        let mut findings = Vec::new();
        judge(&Checkout::of(&files), "a/src/", &mut findings);
        findings.into_iter().map(|finding| finding.message).collect::<String>()
    };
    assert_eq!(judged(1000, 5), "");
    assert!(judged(1000, 4).contains("4 assertions in 1000 lines of a/src/"));
    assert!(judged(1001, 5).contains("5 assertions"));
}

#[test]
fn tests_do_not_count() {
    let files = [("a/src/b.rs", "fn f() {}\n"), ("a/src/b/tests.rs", "fn f() { assert!(a); }\n")];
    let mut findings = Vec::new();
    judge(&Checkout::of(&files), "a/src/", &mut findings);
    assert!(findings[0].message.starts_with("0 assertions in 1 lines"));
}
