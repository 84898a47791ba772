//! Tests of error messages and of missing programs.

use super::{need, reason, run_in};
use std::path::Path;

#[test]
fn a_missing_program_is_named_with_its_package() {
    let said = need("no-such-program", "its package").unwrap_err();
    assert_eq!(said, "no-such-program is not installed (its package)");
    need("cargo", "Rust").unwrap();
}

#[test]
fn the_reason_is_the_first_line_that_speaks_of_an_error() {
    assert_eq!(reason("  Compiling a\nerror: no library\nwarning: x\n"), "error: no library");
    assert_eq!(reason("one\n\n two \n"), "two");
    assert_eq!(reason("\n"), "it said nothing");
}

#[test]
fn a_program_that_fails_gives_its_reason() {
    let said = run_in(Path::new("."), "cargo", &["no-such-command"]).unwrap_err();
    assert!(said.starts_with("cargo failed: error: no such command"), "{said}");
}
