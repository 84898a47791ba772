//! Tests of counting lines of code.

use super::{Counted, count};
use crate::checkout::Checkout;

#[test]
fn only_lines_with_code_that_ships_count() {
    let text = "//! Purpose.\nmod b;\n\n/// Why.\nfn f() {\n    g(); // why\n}\n";
    let tests = "#[cfg(test)]\nmod tests {\n    use a;\n}\n";
    let checkout = Checkout::of(&[
        ("crates/a/src/lib.rs", &format!("{text}{tests}")),
        ("crates/a/src/b.rs", "fn h() {}\n"),
        ("crates/a/src/b/tests.rs", "fn i() {}\n"),
        ("crates/a/tests/j.rs", "fn k() {}\n"),
        ("crates/a/examples/l.rs", "fn m() {}\n"),
        ("cli/src/main.rs", "fn n() {}\n"),
    ]);
    assert_eq!(
        count(&checkout).into_iter().collect::<Vec<_>>(),
        [("a".to_owned(), Counted { lines: 5, assertions: 0 })]
    );
}
