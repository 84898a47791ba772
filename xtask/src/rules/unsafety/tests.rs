//! Tests of the rule on `unsafe`.

use super::check;
use crate::checkout::Checkout;

fn findings(path: &str, text: &str) -> Vec<usize> {
    let mut findings = Vec::new();
    check(&Checkout::of(&[(path, text)]), &mut findings);
    findings.into_iter().map(|finding| finding.line).collect()
}

#[test]
fn unsafe_in_a_wrong_place_is_found() {
    let text = "// SAFETY: a reason.\nunsafe { a() }";
    assert_eq!(findings("crates/disk/src/a.rs", text), [2]);
    assert_eq!(findings("crates/base/src/key.rs", text), [2]);
    assert!(findings("crates/memtable/src/a.rs", text).is_empty());
    assert!(findings("crates/base/src/fs/map/window.rs", text).is_empty());
    assert!(findings("crates/disk/src/a.rs", "\"unsafe\"; // unsafe").is_empty());
}

#[test]
fn a_missing_reason_is_found() {
    let path = "crates/memtable/src/a.rs";
    assert_eq!(findings(path, "unsafe { a() }"), [1]);
    assert_eq!(findings(path, "// SAFETY: for b.\nb();\nunsafe { a() }"), [3]);
    assert_eq!(findings(path, "// A reason.\nunsafe impl Send for A {}"), [2]);
    assert_eq!(findings(path, "// SAFETY: no.\n\nlet a = unsafe { a() };"), [3]);
}

#[test]
fn a_reason_stands_above_the_statement() {
    let path = "crates/memtable/src/a.rs";
    assert!(findings(path, "// SAFETY: long\n// reason.\nlet a =\n    unsafe { a() };").is_empty());
    assert!(findings(path, "// SAFETY: it.\n#[inline]\nunsafe impl Send for A {}").is_empty());
    assert!(findings(path, "/* SAFETY: it. */ unsafe { a() }").is_empty());
    assert!(findings(path, "unsafe fn a() {}").is_empty());
}

#[test]
fn the_root_of_a_crate_forbids_the_rest() {
    assert_eq!(findings("crates/tree/src/lib.rs", "#![deny(unsafe_code)]"), [1]);
    assert!(findings("crates/tree/src/lib.rs", "#![forbid(unsafe_code)]").is_empty());
    assert_eq!(findings("crates/base/src/lib.rs", "//! Floor 0."), [1]);
    for root in ["crates/base/src/lib.rs", "crates/disk/src/lib.rs"] {
        assert!(findings(root, "#![deny(unsafe_code)]").is_empty());
    }
    assert_eq!(findings("cli/src/main.rs", "fn main() {}"), [1]);
    assert!(findings("crates/memtable/src/lib.rs", "").is_empty());
}
