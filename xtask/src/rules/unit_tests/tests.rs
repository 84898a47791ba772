//! Tests of the rule on where unit tests stand.

use super::check;
use crate::checkout::Checkout;

fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Checkout::of(files), &mut findings);
    findings.into_iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn a_test_beside_the_code_is_found() {
    let inline = "fn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}\n";
    let found = findings(&[("crates/a/src/b.rs", inline)]);
    let expected = "crates/a/src/b.rs:4: unit_tests: unit tests stand in `crates/a/src/b/tests.rs`";
    assert_eq!(found, [expected]);
}

#[test]
fn a_file_of_tests_may_hold_them() {
    let test = "#[test]\nfn a() {}\n";
    let files = [
        ("crates/a/src/lib.rs", "mod b;\n#[cfg(all(test, loom))]\nmod loom_tests;\n"),
        ("crates/a/src/b.rs", "//! `#[test]`\nconst A: &str = \"#[test]\";\nmod tests;\n"),
        ("crates/a/src/b/tests.rs", test),
        ("crates/a/src/loom_tests.rs", test),
        ("crates/a/tests/c.rs", test),
    ];
    assert_eq!(findings(&files), [""; 0]);
}
