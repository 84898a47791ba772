//! Tests of the rules on documents.

use super::check;
use crate::checkout::Checkout;

fn messages(files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Checkout::of(files), &mut findings);
    findings.into_iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn dead_links_are_found() {
    let text = "[a](b.md) [c](../README.md#quick-start)\n[d](e.md)\n[f]: ../../g.md\n[h](b.md#no)";
    let files = [
        ("README.md", "# SiltDB\n\n## Quick start\n\n[docs](docs) [up](#siltdb)"),
        ("docs/a.md", text),
        ("docs/b.md", "# B"),
    ];
    let expected = [
        "docs/a.md:2: documents: link to `e.md`: no such file",
        "docs/a.md:4: documents: link to `b.md#no`: no such heading",
        "docs/a.md:3: documents: link to `../../g.md`: it leaves the repository",
    ];
    let mut found = messages(&files);
    found.sort();
    let mut expected = expected.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn code_and_foreign_links_are_not_followed() {
    let text = "`[a](b)` [c](https://example.org/d)\n```sh\n[e](f)\n```\n[g](mailto:h@i)";
    assert!(messages(&[("README.md", text)]).is_empty());
}

#[test]
fn a_named_test_exists() {
    let text = "`a/tests.rs::one` `a/tests.rs::two`\n`b.rs::one` and `crate::two`";
    let found = messages(&[("docs/a.md", text), ("a/tests.rs", "fn one() {}\n// fn two()")]);
    let expected = [
        "docs/a.md:1: documents: there is no `a/tests.rs::two`",
        "docs/a.md:2: documents: there is no `b.rs::one`",
    ];
    assert_eq!(found, expected);
}

#[test]
fn decisions_have_no_gaps_and_no_twins() {
    let good = [("docs/decisions/0001-a.md", ""), ("docs/decisions/0002-b.md", "")];
    assert!(messages(&good).is_empty());
    let gap = [good[0], ("docs/decisions/0003-c.md", "")];
    assert_eq!(messages(&gap).len(), 1);
    let twins = [good[0], ("docs/decisions/0001-c.md", "")];
    assert_eq!(messages(&twins).len(), 1);
    assert_eq!(messages(&[good[0], ("docs/decisions/second.md", "")]).len(), 1);
    assert_eq!(messages(&[good[1]]).len(), 1);
    let index = ("docs/decisions/README.md", "| number |\n|---|\n| 0002 | moved |");
    assert!(messages(&[gap[0], gap[1], index]).is_empty());
    let beyond = ("docs/decisions/0004-d.md", "");
    assert_eq!(messages(&[good[0], beyond, index]).len(), 1);
}

#[test]
fn a_cited_law_exists_once() {
    let laws = ("docs/laws.md", "| | law |\n|---|---|\n| A1 | x |\n| A2 | y |\n| A1 | z |");
    let code = ("a.rs", "//! By law A2, and by law A3.\nlet law = \"law A4\"; // the law Bar");
    let expected = [
        "docs/laws.md:5: documents: law A1 is also the law of line 3",
        "a.rs:1: documents: there is no law A3 in docs/laws.md",
    ];
    assert_eq!(messages(&[laws, code]), expected);
}
