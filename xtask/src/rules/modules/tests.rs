//! Tests of the rule on the order of modules.

use super::check;
use crate::checkout::Checkout;

fn messages(files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Checkout::of(files), &mut findings);
    findings.into_iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.message)).collect()
}

/// A crate of two modules, `a` above `b`.
fn two(a: &str, b: &str) -> Vec<String> {
    let root = ("s/src/lib.rs", "pub use a::A;\nmod a;\nmod b;\npub use b::B;\n");
    messages(&[root, ("s/src/a.rs", a), ("s/src/b.rs", b)])
}

#[test]
fn a_module_uses_what_is_above_it() {
    assert!(two("", "use crate::a::A; use super::a; fn f() { crate::a::g() }").is_empty());
}

#[test]
fn a_module_does_not_use_what_is_below_it() {
    let expected = ["s/src/a.rs:2: `a` uses `b`, which is declared below it"];
    for text in [
        "use crate::b::B;",
        "use crate::{b, c};",
        "use super::b::*;",
        "fn f() { crate::b::g() }",
        "fn f() -> super::b::B {}",
        "mod i { use super::super::b::B; }",
        "fn f() { use crate::b; }",
    ] {
        let found = two(&format!("\n{text}"), "");
        assert!(found.iter().any(|f| f == expected[0]), "{text}: {found:?}");
    }
}

#[test]
fn tests_and_literals_are_not_judged() {
    assert!(two("#[cfg(test)]\nmod tests { use crate::b::B; }", "").is_empty());
    assert!(two("// crate::b::B\nfn f() { \"crate::b::B\" }", "").is_empty());
}

#[test]
fn the_root_is_no_shortcut() {
    for text in ["use crate::A;", "use super::A;", "use crate::{A as X};", "use crate::*;"] {
        let found = two("", text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].ends_with("import from the defining module"), "{found:?}");
    }
    assert!(two("", "fn f() { crate::ensure!(x) }").is_empty());
    assert!(two("", "pub(in crate::b) fn f() {}").is_empty());
}

#[test]
fn the_root_of_another_floor_is_no_shortcut() {
    let base = ("crates/base/src/lib.rs", "pub mod key;\npub use key::Key;");
    let key = ("crates/base/src/key.rs", "");
    let user = |text| messages(&[base, key, ("cli/src/main.rs", text)]);
    assert_eq!(user("use siltdb_base::Key;").len(), 1);
    assert_eq!(user("fn f(key: siltdb_base::Key) {}").len(), 1);
    assert!(user("use siltdb_base::key::Key; fn f() { siltdb_base::ensure!(x) }").is_empty());
}

/// A module `p` with submodules `a` above `b`.
fn family(parent: &str, a: &str, b: &str) -> Vec<String> {
    messages(&[
        ("s/src/main.rs", "mod p;"),
        ("s/src/p.rs", &format!("mod a;\nmod b;\n{parent}")),
        ("s/src/p/a.rs", a),
        ("s/src/p/b.rs", b),
    ])
}

#[test]
fn submodules_keep_the_order_too() {
    assert!(family("", "", "use super::a::A;").is_empty());
    assert_eq!(family("", "use super::b::B;", "").len(), 1);
    assert_eq!(family("", "fn f() { crate::p::b::g() }", "").len(), 1);
}

#[test]
fn a_parent_and_its_submodule_do_not_use_each_other() {
    assert!(family("", "use super::P;", "").is_empty());
    assert!(family("use a::A;", "", "").is_empty());
    assert!(family("use a::A;", "", "use super::P;").is_empty());
    assert!(family("pub use a::A;", "use super::P;", "").is_empty());
    assert_eq!(family("use a::A;", "use super::P;", "").len(), 1);
    assert_eq!(family("fn f() { b::g() }", "use crate::p::P;", "").len(), 1);
    assert_eq!(family("pub use a::A;", "", "use super::A;").len(), 1);
}

#[test]
fn a_module_without_a_file_is_found() {
    assert_eq!(messages(&[("s/src/lib.rs", "mod gone;")]).len(), 1);
}
