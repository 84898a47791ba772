//! Tests of the rule on packages.

use super::check;
use crate::checkout::Checkout;

const WHOLE: &str = "[package]\nname = \"a\"\ndescription = \"A\"\nlicense.workspace = true\n\
    readme.workspace = true\nkeywords = []\ncategories = []\n";

fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Checkout::of(files), &mut findings);
    findings.into_iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn a_crate_with_keys_and_licences_is_whole() {
    let found = findings(&[
        ("LICENSE-APACHE", "x"),
        ("LICENSE-MIT", "y"),
        ("crates/a/Cargo.toml", WHOLE),
        ("crates/a/LICENSE-APACHE", "x"),
        ("crates/a/LICENSE-MIT", "y"),
        ("bench/Cargo.toml", "[package]\nname = \"b\"\n"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_missing_key_and_a_licence_that_differs_are_found() {
    let found = findings(&[
        ("LICENSE-APACHE", "x"),
        ("LICENSE-MIT", "y"),
        ("cli/Cargo.toml", &WHOLE.replace("readme", "exclude")),
        ("cli/LICENSE-MIT", "z"),
    ]);
    assert_eq!(
        found,
        [
            "cli/Cargo.toml:1: packages: `[package]` has no `readme`",
            "cli/Cargo.toml:1: packages: link `cli/LICENSE-APACHE` to the `LICENSE-APACHE` of the \
             root",
            "cli/Cargo.toml:1: packages: link `cli/LICENSE-MIT` to the `LICENSE-MIT` of the root",
        ]
    );
}
