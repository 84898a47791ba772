//! Tests of the rule on absolute paths.

use super::check;
use crate::checkout::Checkout;

#[test]
fn absolute_paths_are_found_and_relative_ones_are_not() {
    let bad = format!("open(\"{}me/b/x\")\n", "/ho");
    let checkout =
        Checkout::of(&[("a.md", &bad), ("b.md", "docs/work/a https://a.org/home/b ./root/c")]);
    let mut findings = Vec::new();
    check(&checkout, &mut findings);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].path.as_str(), findings[0].line), ("a.md", 1));
}
