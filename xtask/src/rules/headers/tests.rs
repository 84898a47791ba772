//! Tests of the rule on headers.

use super::check;
use crate::checkout::Checkout;

#[test]
fn a_file_without_a_header_is_found() {
    let mut findings = Vec::new();
    let good = ("good.rs", "//! A purpose.\n");
    check(&Checkout::of(&[good, ("bad.rs", "use a;\n"), ("empty.rs", "//!\n")]), &mut findings);
    let paths: Vec<_> = findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["bad.rs", "empty.rs"]);
}
