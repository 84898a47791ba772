//! Tests of the limits on dependencies.

use super::{Crates, Limits, check};

fn messages(crates_max: usize, tree: &str) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Crates::parse(Limits { package: Some("siltdb"), crates_max }, tree), &mut findings);
    findings.into_iter().map(|finding| finding.message).collect()
}

#[test]
fn repeated_lines_count_once_and_ours_not_at_all() {
    let tree =
        "siltdb v0.1.0 (/a)\nlog v0.4.0\nlog v0.4.0 (*)\n\nlog v0.3.0\nm v1.0.0 (proc-macro)";
    assert!(messages(3, tree).is_empty());
    assert_eq!(messages(2, tree), ["siltdb: 3 crates of others, at most 2"]);
}

#[test]
fn a_compiler_of_c_is_found() {
    assert_eq!(messages(9, "siltdb v0.1.0\ncc v1.2.0\nccc v1.0.0\n").len(), 1);
}
