//! Tests of finding two types of one name.

use super::check;
use crate::checkout::Checkout;

fn messages(files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Checkout::of(files), &mut findings);
    findings.into_iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn a_second_public_type_of_a_name_is_found() {
    let second =
        "fn f() {}\npub(crate) enum A {}\npub unsafe trait B {}\npub type C<T> = Vec<T>;\n";
    let files = [
        ("crates/a/src/a.rs", "pub struct A;\npub trait B {}\npub struct C(u8);"),
        ("crates/b/src/b.rs", second),
    ];
    let expected = [
        "crates/b/src/b.rs:2: types: `A` is also the name of a type at crates/a/src/a.rs:1",
        "crates/b/src/b.rs:3: types: `B` is also the name of a type at crates/a/src/a.rs:2",
        "crates/b/src/b.rs:4: types: `C` is also the name of a type at crates/a/src/a.rs:3",
    ];
    assert_eq!(messages(&files), expected);
}

#[test]
fn private_types_tests_and_other_programs_may_share_names() {
    let files = [
        ("crates/a/src/a.rs", "pub struct A;\n#[cfg(unix)]\npub struct B;"),
        (
            "crates/a/src/b.rs",
            "struct A;\npub(super) struct B;\npub fn c() {}\npub(in a) enum A {}",
        ),
        ("crates/a/src/c.rs", "pub use a::A;\npub fn a() {}\ntrait T { type A; }"),
        ("crates/a/src/a/tests.rs", "pub struct A;"),
        ("crates/a/benches/d.rs", "pub struct A;"),
        ("cli/src/main.rs", "pub struct A;"),
    ];
    assert!(messages(&files).is_empty());
    let sides = "#[cfg(unix)]\npub struct A;\n#[cfg(not(unix))]\npub struct A;";
    assert!(messages(&[("crates/a/src/a.rs", sides)]).is_empty());
}
