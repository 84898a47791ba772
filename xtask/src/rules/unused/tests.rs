//! Tests of finding public items that nothing uses.

use super::check;
use crate::checkout::Checkout;

fn messages(files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Checkout::of(files), &mut findings);
    findings.into_iter().map(|finding| finding.to_string()).collect()
}

fn names(files: &[(&str, &str)]) -> Vec<String> {
    let name = |message: String| message.split('`').nth(1).unwrap().to_owned();
    messages(files).into_iter().map(name).collect()
}

#[test]
fn what_only_tests_and_its_own_file_mention_is_found() {
    let code = "pub fn used() {}\npub const unsafe fn idle() { idle() }\npub struct Alone(u8);\n\
                pub(super) fn near() {}\nfn own() {}\npub static LOST: u8 = 0;";
    let test = "#[test]\nfn t() { idle(); Alone(LOST); }";
    let files = [
        ("crates/a/src/b.rs", code),
        ("crates/a/src/c.rs", "fn f() { used() }\n// idle(), Alone, LOST"),
        ("crates/a/src/b/tests.rs", test),
        ("crates/a/benches/d.rs", "fn main() { idle() }"),
    ];
    assert_eq!(names(&files), ["idle", "Alone", "LOST"]);
    let first = "crates/a/src/b.rs:2: unused: no other file uses the fn `idle`, tests aside: \
                 delete or hide it";
    assert_eq!(messages(&files)[0], first);
}

#[test]
fn a_type_is_used_where_it_can_be_seen() {
    let seen = "pub struct A;\npub struct B;\n\
                pub struct C {\n    pub d: Vec<D>,\n    e: E,\n}\npub struct D;\n\
                pub struct E;\npub enum F { G(H) }\npub struct H;\npub struct I;\n\
                pub fn f(a: &A) -> C { I; F }\nimpl X for B { type Item = B; }";
    let files = [("crates/a/src/b.rs", seen), ("crates/a/src/c.rs", "use b::f;")];
    assert_eq!(names(&files), ["E", "F", "I"]);
}

#[test]
fn a_constant_may_be_used_in_its_own_file() {
    let code = "pub const MAX: u8 = 9;\npub const MIN: u8 = 1;\nfn f() -> u8 { MAX }";
    assert_eq!(names(&[("crates/a/src/b.rs", code)]), ["MIN"]);
}

#[test]
fn the_public_face_is_not_judged() {
    let exported = "pub enum Kind { A }\nimpl Kind { pub fn name() {} }\nimpl B { pub fn c() {} }";
    let files = [
        ("crates/a/src/b.rs", exported),
        ("crates/siltdb/src/lib.rs", "pub use siltdb_a::b::{Kind as Sort};\npub fn open() {}"),
        ("cli/src/main.rs", "pub fn main() {}"),
    ];
    assert_eq!(names(&files), ["c"]);
}
