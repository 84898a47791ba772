//! Tests of telling tests from released code.

use super::{Checkout, Role};

#[test]
fn tests_are_told_by_path_and_by_declaration() {
    let checkout = Checkout::of(&[
        ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod c;\n"),
        ("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;\n"),
        ("crates/a/src/b/tests.rs", ""),
        ("crates/a/src/c.rs", "mod d;"),
        ("crates/a/src/c/d.rs", ""),
        ("crates/a/benches/e.rs", ""),
    ]);
    let tests: Vec<_> = checkout.rust().filter(|s| s.role == Role::Test).collect();
    let paths: Vec<_> = tests.iter().map(|s| s.path.trim_start_matches("crates/a/")).collect();
    assert_eq!(paths, ["benches/e.rs", "src/b/tests.rs", "src/c.rs", "src/c/d.rs"]);
}

#[test]
fn lines_count_from_one() {
    let checkout = Checkout::of(&[("a.rs", "x\ny\n")]);
    let source = checkout.source("a.rs").unwrap();
    assert_eq!((source.line(0), source.line(2)), (1, 2));
}
