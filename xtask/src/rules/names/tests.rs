//! Tests of the rule on names.

use super::check;
use crate::checkout::Checkout;

#[test]
fn drawers_are_found() {
    let mut findings = Vec::new();
    let files = [
        ("crates/base/src/utils.rs", ""),
        ("crates/base/tests/common/keys.rs", ""),
        ("crates/base/src/a.rs", "//! A.\nmod helpers {}"),
        ("crates/base/src/commonality.rs", ""),
    ];
    check(&Checkout::of(&files), &mut findings);
    let lines: Vec<_> = findings.iter().map(|f| (f.path.as_str(), f.line)).collect();
    let expected = [
        ("crates/base/src/a.rs", 2),
        ("crates/base/src/utils.rs", 1),
        ("crates/base/tests/common/keys.rs", 1),
    ];
    assert_eq!(lines, expected);
}
