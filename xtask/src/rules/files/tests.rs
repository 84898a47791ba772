//! Tests of the rule on files.

use super::{FILE_BYTES_MAX, check};
use crate::checkout::Checkout;

fn findings(path: &str, bytes: Vec<u8>) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Checkout::new(vec![(path.to_owned(), bytes)]), &mut findings);
    findings.into_iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn a_file_may_have_a_mebibyte() {
    assert!(findings("a.csv", vec![b'x'; FILE_BYTES_MAX]).is_empty());
    let found = findings("a.csv", vec![b'x'; FILE_BYTES_MAX + 1]);
    assert_eq!(found, ["a.csv:1: files: file has 1048577 bytes, at most 1048576"]);
}

#[test]
fn only_results_and_stored_databases_need_not_be_text() {
    let found = findings("heap.1.zst", vec![0x28, 0xb5, 0x2f, 0xfd]);
    let message = "neither text, nor a result of the benchmark, nor in testing/golden";
    assert_eq!(found, [format!("heap.1.zst:1: files: {message}")]);
    assert!(findings("testing/golden/0.1/000001.log", vec![0x1f, 0x8b]).is_empty());
    assert_eq!(findings("testing/golden.log", vec![0x1f, 0x8b]).len(), 1);
    assert!(findings("docs/results/a.json.gz", vec![0x1f, 0x8b]).is_empty());
    assert_eq!(findings("docs/a.json.gz", vec![0x1f, 0x8b]).len(), 1);
    assert_eq!(findings("docs/results/a.gz", vec![0x1f, 0x8b]).len(), 1);
}

#[test]
fn a_conflict_that_is_not_resolved_is_refused() {
    let sides = ["<".repeat(7), ">".repeat(7)];
    for side in sides {
        let found = findings("a.md", format!("one\n{side} main\n").into_bytes());
        assert_eq!(found, ["a.md:1: files: a conflict of a merge is not resolved"]);
        assert!(findings("a.md", format!("quoted: {side} main\n").into_bytes()).is_empty());
    }
}
